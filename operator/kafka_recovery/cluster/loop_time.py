"""The event loop's clock: what deadlines in this room are measured with, so that they end with what they bound."""

from __future__ import annotations

import asyncio


def loop_time() -> float:
    """Seconds, by a clock that never jumps. Only where a loop runs."""
    return asyncio.get_running_loop().time()
