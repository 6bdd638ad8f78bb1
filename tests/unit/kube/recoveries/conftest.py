"""Recoveries wait for minutes, and their stories take none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from unit.virtual import LoopInNoTime


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A loop on which no time passes but by waiting; the mark `kernel` asks for the machine's."""
    if item.get_closest_marker("kernel"):
        return {"kernel": asyncio.new_event_loop}
    return {"in-no-time": LoopInNoTime}
