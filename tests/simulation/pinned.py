"""Seeds whose histories are known to show something: one history instead of a search through hundreds."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def shown_by(pinned: int, shows: Callable[[int], bool], *, within: int) -> None:
    """Fails unless the pinned seed shows it. Only then are others tried, to say which one to pin instead."""
    if shows(pinned):
        return
    others = (seed for seed in range(within) if seed != pinned and shows(seed))
    instead = next(others, None)
    if instead is None:
        pytest.fail(f"neither seed {pinned} nor any below {within} shows it")
    pytest.fail(f"seed {pinned} no longer shows it, but seed {instead} does: pin that one here if the change is meant")
