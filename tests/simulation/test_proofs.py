"""An engine that always said Unknown would break no promise: where a proof exists it must find it, and only there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafka_recovery.decision import judgement
from kafka_recovery.decision.loss import NOT_PROVEN
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss
from kafka_recovery.domain.policy import CandidateOrder
from kafka_recovery.simulator.histories.history import History, happen
from kafka_recovery.simulator.histories.scenario import VERSION, EngineRun, Fault, Kind, Rules, Scenario, Topic, Traffic
from kafka_recovery.simulator.histories.schedules import draw
from simulation.pinned import shown_by
from simulation.test_oracle_corners import LONGEST_OF_ORDERS

BELOW_MIN_ISR = (
    Fault(8, Kind.KILL, 3),
    Fault(16, Kind.KILL, 2),
    Fault(24, Kind.KILL, 1),
    Fault(30, Kind.START, 2),
    Fault(30, Kind.START, 3),
)
"""Nothing is acknowledged once 2 has left, so 2 still holds all that was; without ELR nobody says so."""


def two_must_hold(*faults: Fault, min_isr: int = 2, knows_history: bool = True, **rules: CandidateOrder) -> Scenario:
    """Three replicas, every record acknowledged by at least two of them."""
    return Scenario(
        VERSION,
        seed=1,
        brokers=4,
        topics=(Topic("orders", ((1, 2, 3),), min_isr),),
        elr=False,
        knows_history=knows_history,
        rules=Rules(patience=1.0, **rules),  # type: ignore[arg-type]
        traffic=(Traffic("orders-0", True, 1, 90, 0.5),),
        faults=faults,
        engines=(EngineRun(45),),
        quiet_at=80,
    )


def losses(history: History) -> Iterator[Loss]:
    """What the plans that were carried out said about the partitions they elected."""
    begun = {kept.digest for kept in history.story.kept if kept.name == "begun.json"}
    for digest in sorted(begun):
        for decision in history.story.plan(digest).decisions:
            if decision.leader is not None and decision.loss is not None:
                yield decision.loss


@pytest.mark.parametrize("order", CandidateOrder)
def test_whoever_left_the_isr_when_nothing_could_be_acknowledged_any_more_is_lossless(order: CandidateOrder) -> None:
    history = happen(two_must_hold(*BELOW_MIN_ISR, candidate_order=order))

    assert [loss.loss_class for loss in losses(history)] == [LossClass.LOSSLESS]
    assert [len(held.lost) for held in history.story.held if held.by == "engine-1"] == [0]
    assert not history.findings


def test_equal_copies_that_cannot_all_have_missed_a_record_are_lossless_whichever_leads() -> None:
    at_once = (Fault(16, Kind.KILL, 2), Fault(16, Kind.KILL, 3))
    history = happen(two_must_hold(*at_once, *BELOW_MIN_ISR[2:]))

    assert [loss.loss_class for loss in losses(history)] == [LossClass.LOSSLESS]
    assert not history.findings


@pytest.mark.parametrize(
    "scenario",
    [
        two_must_hold(*BELOW_MIN_ISR, knows_history=False),
        two_must_hold(*BELOW_MIN_ISR, min_isr=1),
        two_must_hold(*BELOW_MIN_ISR[:1], Fault(16, Kind.CRASH, 2), *BELOW_MIN_ISR[2:]),
        two_must_hold(*BELOW_MIN_ISR[:3], Fault(29, Kind.REPLACE_DISK, 2), *BELOW_MIN_ISR[4:]),
    ],
    ids=["nobody watched", "one was enough", "its host crashed", "its disk is new"],
)
def test_without_a_proof_nothing_is_promised(scenario: Scenario) -> None:
    history = happen(scenario)

    assert [loss.loss_class for loss in losses(history)] == [LossClass.UNKNOWN]
    assert not history.findings


REACHED = ("Lossless by ELR", "Unknown", "Lossless by containment", "Bounded by containment")
"""Bounds are rare: logs have to fork, and a member's to be intact."""


@pytest.mark.parametrize("way", REACHED)
def test_chance_reaches_every_class_and_every_way_of_proof(way: str) -> None:
    shown_by(f"proof: {way}", lambda seed: way in ways(seed))


def ways(seed: int) -> set[str]:
    """Classes, and by what they were proven."""
    history = happen(replace(draw(seed), knows_history=True))
    return {f"{loss.loss_class}{_proven(loss)}" for loss in losses(history)}


def _proven(loss: Loss) -> str:
    return "" if not loss.proof else " by containment" if "'s log" in loss.proof else " by ELR"


def test_a_bound_is_met_by_a_loss_that_it_allows() -> None:
    """By the longest log of two that forked: what only the newer one holds was acknowledged, and is bounded.

    A mark that the histories of `test_histories` do not reach.
    """
    asked_for_two = tuple(replace(topic, min_isr=2) for topic in LONGEST_OF_ORDERS.topics)

    history = happen(replace(LONGEST_OF_ORDERS, knows_history=True, topics=asked_for_two))

    assert "a proven class met a loss that it allows" in history.verdict.marks
    assert "\n".join(map(str, history.verdict.findings)) == ""


def forked(order: CandidateOrder) -> Scenario:
    """Broker 1 wrote what nobody fetched, then broker 2 led, and 3 followed it; 1 was in the ISR throughout, cut off.

    So broker 3 has a record of the newer epoch, and broker 1 is the one that is proven to lack nothing.
    """
    faults = (
        Fault(6, Kind.CUT, 1, other=2, lasting=60),
        Fault(6, Kind.CUT, 1, other=3, lasting=60),
        Fault(10, Kind.REASSIGN, partition="orders-0", replicas=(2, 1, 3)),
        Fault(10.5, Kind.REBALANCE),
        Fault(14, Kind.KILL, 3),
        Fault(25, Kind.KILL, 1),
        Fault(36, Kind.KILL, 2),
        Fault(47, Kind.START, 1),
        Fault(47, Kind.START, 3),
    )
    return replace(
        two_must_hold(*faults, candidate_order=order),
        traffic=(
            Traffic("orders-0", True, 1, 5, 0.5),
            Traffic("orders-0", False, 6.5, 9.5, 0.2),
            Traffic("orders-0", False, 12, 13.5, 0.2),
        ),
        engines=(EngineRun(60),),
        quiet_at=100,
    )


@pytest.mark.parametrize(
    ("order", "bound"), [(CandidateOrder.EPOCH_FIRST, 15), (CandidateOrder.LEAST_LOSS, 0)], ids=["epochs", "proofs"]
)
def test_a_proof_puts_a_log_before_one_of_a_newer_epoch(order: CandidateOrder, bound: int) -> None:
    history = happen(forked(order))

    assert "\n".join(map(str, history.findings)) == ""
    assert [loss.at_most for loss in losses(history)] == [bound]


def test_an_engine_that_ranks_by_epochs_where_its_rule_asks_for_proofs_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judgement, "cost_of", lambda *_: NOT_PROVEN)

    found = {finding.invariant for finding in happen(forked(CandidateOrder.LEAST_LOSS)).findings}

    assert "best_first" in found
