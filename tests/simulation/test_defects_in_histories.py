"""Each listed mutation of tier `simulation` breaks a promise in the history that is pinned for it, and here only.

The unspoilt engine keeps every promise there; `python -m mutations --tier simulation` spoils it and sees this fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.schedules import draw
from mutations.catalogue import Tier, listed
from simulation.all_histories import HISTORIES
from simulation.pinned import pins


def defects() -> Iterator[object]:
    """Most seeds are among those of test_histories.py, which judges them whole: `make test` needs the others here."""
    ids = (mutation.id for mutation in listed() if mutation.tier is Tier.SIMULATION and mutation.id in pins())
    for id in ids:
        yield pytest.param(id, marks=pytest.mark.full) if pins()[id] < HISTORIES else id


@pytest.mark.parametrize("defect", list(defects()))
def test_no_promise_is_broken_where_this_defect_would_break_one(defect: str) -> None:
    assert _found(pins()[defect]) == ""


@cache
def _found(seed: int) -> str:
    """Many defects share a history."""
    return "\n".join(map(str, happen(draw(seed)).findings))
