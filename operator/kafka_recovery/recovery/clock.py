"""The real clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """Port `Clock` on this machine's clocks."""

    def now(self) -> datetime:
        """UTC instant of the wall clock."""
        return datetime.now(UTC)

    def monotonic(self) -> timedelta:
        """Time since some fixed point; never jumps."""
        return timedelta(seconds=time.monotonic())

    async def sleep(self, duration: timedelta) -> None:
        """Wait."""
        await asyncio.sleep(max(duration.total_seconds(), 0))
