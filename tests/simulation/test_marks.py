"""The list of marks leaves out nothing: each reason why nobody is elected is a mark, or is named as never drawn."""

from __future__ import annotations

import pytest

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.formats.catalogue import Place, catalogue
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.judging.marks import MARKS, NOT_DRAWN, RARE, UNDRAWN
from kafka_recovery.simulator.histories.scenario import EngineRun, Fault, Kind, Scenario, Topic, Traffic
from kafka_recovery.simulator.histories.schedules import draw
from kafka_recovery.simulator.histories.tables import Coverage
from kafka_recovery.simulator.model.grants import Operation
from simulation.pinned import shown_by

PLACES = (Place.REFUSAL, Place.REPLICA, Place.CHANGE)
"""Guards of the cluster, of a partition and of a replica; what a last look finds."""

BY_WHAT_DIFFERS = {
    "UnexpectedLeader": "leader",
    "AlreadyOnline": "leader",
    "PlanOutdated": "epoch",
    "PartitionGone": "topic",
}
"""What is decided again says nothing to an outsider, who sees only what a last look could have found."""


def codes() -> list[str]:
    """Of every such reason that the product declares."""
    return [code for code, entry in catalogue().items() if entry.seen & set(PLACES)]


def marks_of(code: str) -> set[str]:
    """The marks that are about this reason."""
    told = {mark for mark in MARKS if mark in (f"guard: {code}", f"forbidden: {code}", f"said: Refused/{code}")}
    differs = f"the last look differs: {BY_WHAT_DIFFERS.get(code)}"
    return told | ({differs} & set(MARKS))


@pytest.mark.parametrize("code", codes())
def test_each_guard_and_each_reason_of_a_last_look_is_a_mark_or_named_as_never_drawn(code: str) -> None:
    assert bool(marks_of(code)) is not (code in NOT_DRAWN)


def test_what_is_named_as_never_drawn_is_a_reason_and_is_told_with_every_run() -> None:
    assert set(NOT_DRAWN) <= set(codes())
    told = str(Coverage()).splitlines()
    for code, why in NOT_DRAWN.items():
        assert [code, why] in [line.split(None, 1) for line in told]


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_is_a_mark(outcome: Outcome) -> None:
    assert any(mark == f"said: {outcome}" or mark.startswith(f"said: {outcome}/") for mark in MARKS)


@pytest.mark.parametrize("mark", RARE)
def test_a_mark_too_rare_for_500_histories_is_reached_by_the_drawn_one_that_is_pinned_for_it(mark: str) -> None:
    shown_by(f"mark: {mark}", lambda seed: mark in happen(draw(seed)).verdict.marks, within=5000)


WIRES = {
    "stall": (Fault(20, Kind.STALL, 2, lasting=8),),
    "nameless": (Fault(20, Kind.NAMELESS, 2, lasting=30),),
    "shared": (Fault(20, Kind.SHARED, 2, other=3, lasting=30),),
    "misreport, believed": (
        Fault(20, Kind.RIGHTS, right=Operation.READ, partition="orders-0", lasting=30),
        Fault(20, Kind.MISREPORT, 3, delay=1000, lasting=30),
    ),
    **{
        f"without {right}": (Fault(20, Kind.RIGHTS, right=right, partition="orders-0", lasting=30),)
        for right in Operation
    },
}  # fmt: skip
"""A liar is believed where nobody may read the leader epochs that would contradict it."""


@pytest.mark.parametrize("mark", WIRES)
def test_a_fault_of_the_wire_is_marked_where_an_engine_met_it(mark: str) -> None:
    """And not where it passed before any engine asked."""
    assert f"wire: {mark}" in (*MARKS, *RARE, *UNDRAWN)
    assert f"wire: {mark}" in reached(WIRES[mark], engine_at=22)
    assert f"wire: {mark}" not in reached(WIRES[mark], engine_at=55)


def reached(faults: tuple[Fault, ...], engine_at: float) -> frozenset[str]:
    """By a history in which a leader dies while two followers lag."""
    by_kip_1275 = any(fault.right is Operation.CLUSTER_ACTION for fault in faults)
    scenario = Scenario(
        1,
        seed=7,
        brokers=3,
        topics=(Topic("orders", ((1, 2, 3),)),),
        traffic=(Traffic("orders-0", True, 1, 14, 1),),
        faults=(
            Fault(5, Kind.KILL, 2), Fault(10, Kind.KILL, 3), Fault(15, Kind.KILL, 1), Fault(16, Kind.START, 2),
            Fault(16, Kind.START, 3), *faults,
        ),
        driver=Driver.DESIGNATED if by_kip_1275 else Driver.ASSIGNMENT_ORDER,
        engines=(EngineRun(engine_at, thinking=0),),
        quiet_at=80.0,
    )  # fmt: skip
    return happen(scenario).verdict.marks
