"""What others write may be odd in every place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (None, True, -1, "", "x", [], [None], ["x"], {}, {"x": None})
"""What nobody expects in the place of anything else."""


def spoilt(tree: Any) -> Iterator[Any]:
    """A tree with something odd in the place of itself, and of each value in it."""
    yield from ODD
    places = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for at, value in places:
        for odd in spoilt(value):
            copied = tree.copy()
            copied[at] = odd
            yield copied
