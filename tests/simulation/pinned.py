"""Seeds whose histories are known to show something: one history instead of a search through hundreds.

They stand in `pins.yaml`, by name. Who changes what histories are like runs the tests with `PIN=1`: each pin that does
not hold any more is searched anew and written down.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

PINS = Path(__file__).with_name("pins.yaml")


def pins() -> dict[str, int]:
    """All of them."""
    told: dict[str, int] = yaml.safe_load(PINS.read_text())
    return told


def shown_by(name: str, shows: Callable[[int], bool], *, within: int = 400) -> None:
    """Fails unless the seed that is pinned by this name shows it."""
    pinned = pins().get(name)
    if pinned is not None and shows(pinned):
        return
    if not os.environ.get("PIN"):
        pytest.fail(f"{name}: seed {pinned} does not show it; PIN=1 searches another one, if the change is meant")
    found = next((seed for seed in range(within) if shows(seed)), None)
    if found is None:
        pytest.fail(f"{name}: no seed below {within} shows it")
    PINS.write_text(yaml.safe_dump({**pins(), name: found}, sort_keys=True))
