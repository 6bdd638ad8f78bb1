"""The ELR that is replayed from a history is the controller's own, in every history in which the controller has one."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache

import pytest

from kafka_recovery.domain import elr
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.schedules import draw
from unit.decision import replayed
from unit.decision.replayed import comparable, contradiction

CHUNK = 25
FEW = 2 * CHUNK
SEEDS = int(os.environ.get("REPLAYED", "100"))
"""More are compared by REPLAYED=4000, and only a few in `make test`."""

RAISED_FOR_A_WHILE = 2625
"""Among these min.insync.replicas is set back to the value that counts all along, and Kafka forgets its ELR."""


@cache
def looked_at(first: int) -> list[PartitionEvidence]:
    """What engines saw of partitions in some histories with ELR on."""
    drawn = (draw(seed) for seed in range(first, first + CHUNK))
    stories = (happen(replace(each, knows_history=True)).story for each in drawn if each.elr)
    return comparable(each for story in stories for look in story.looked for each in look.evidence.partitions)


@pytest.mark.parametrize(
    "first",
    [
        *range(0, FEW, CHUNK),
        RAISED_FOR_A_WHILE,
        *(pytest.param(first, marks=pytest.mark.full) for first in range(FEW, SEEDS, CHUNK)),
    ],
)
def test_it_keeps_whom_the_controller_keeps_and_besides_those_only_who_started_anew(first: int) -> None:
    seen = looked_at(first)

    assert [told for each in seen if (told := contradiction(each))] == []
    assert any(each.elr for each in seen), "there is nothing to compare"


def test_a_replay_that_forgets_who_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed, "replay_elr", lambda steps: elr.replay_elr(steps[-1:]))

    assert any(map(contradiction, looked_at(0)))
