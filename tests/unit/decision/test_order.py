"""Candidate orders are data; one function is written of each."""

from __future__ import annotations

import pytest

from kafka_recovery.decision.order import FACTS, ORDERS, Key
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.policy import CandidateOrder
from unit.decision.incident import broker, dead, decided, evidence, history, log, partition, policy, step

NEWER = log(10, (0, 0), (4, 8))
LONGER = log(50, (0, 0), (3, 8))


def test_every_order_ranks_by_facts_that_exist_and_ends_in_the_position() -> None:
    for order in CandidateOrder:
        assert [key.fact for key in ORDERS[order] if key.fact not in FACTS] == []
        assert ORDERS[order][-1] == Key("position")


@pytest.mark.parametrize("order", CandidateOrder)
def test_of_equal_logs_of_a_tiered_topic_the_one_that_begins_earlier_on_its_disk_leads(order: CandidateOrder) -> None:
    seen = partition({1: None, 2: log(9, local_start=6), 3: log(9, local_start=4)}, tiered=True)
    decision = decided(evidence(seen), policy(candidate_order=order))

    assert (decision.leader, decision.ranking, decision.equals) == (3, (3, 2), (3,))


@pytest.mark.parametrize("order", CandidateOrder)
@pytest.mark.parametrize(
    "better", [log(12, local_start=11), log(9, (0, 0), (4, 8), local_start=8)], ids=["end", "epoch"]
)
def test_a_local_start_decides_among_equals_alone(order: CandidateOrder, better: ReplicaLog) -> None:
    seen = partition({1: None, 2: log(9, local_start=0), 3: better}, tiered=True)
    assert decided(evidence(seen), policy(candidate_order=order)).leader == 3


@pytest.mark.parametrize("order", CandidateOrder)
def test_of_equal_logs_one_whose_volume_has_room_leads_whatever_the_assignment_and_the_tier_say(
    order: CandidateOrder,
) -> None:
    full, roomy = log(9, local_start=0, almost_full=True), log(9, local_start=8)
    decision = decided(evidence(partition({1: None, 2: full, 3: roomy}, tiered=True)), policy(candidate_order=order))

    assert (decision.leader, decision.ranking, decision.equals) == (3, (3, 2), (3,))


def test_leaders_are_spread_over_those_of_equal_logs_that_have_room() -> None:
    seen = partition({1: None, 2: log(9), 3: log(9, almost_full=True), 4: log(9)})
    brokers = (dead(1), broker(2), broker(3), broker(4))

    assert decided(evidence(seen, brokers=brokers)).equals == (2, 4)


@pytest.mark.parametrize("order", CandidateOrder)
def test_a_longer_log_leads_though_its_volume_has_no_room(order: CandidateOrder) -> None:
    seen = partition({1: None, 2: log(9), 3: log(12, almost_full=True)})
    assert decided(evidence(seen), policy(candidate_order=order)).leader == 3


def test_of_two_bounds_the_smaller_one_leads() -> None:
    """Broker 4 left the ISR last and holds everything, but it is fenced, and answers."""
    five, members = (1, 2, 3, 4, 5), ((1, 2, 3, 4, 5), (1, 5, 2), (1, 5, 3), (1, 5, 4), (1,))
    steps = [step(*isr, min_isr=3, replicas=five) for isr in members]
    held = {1: None, 2: log(25, (0, 0), (4, 20)), 3: log(28, (0, 0), (3, 20)), 4: log(33, (0, 0), (3, 20)), 5: None}
    seen = partition(held, history=history(*steps, intact=[2, 3, 4]))
    brokers = (dead(1), broker(2), broker(3), broker(4, fenced=True), dead(5))
    bounds = {
        order: decided(evidence(seen, brokers=brokers), policy(candidate_order=order)).loss
        for order in (CandidateOrder.EPOCH_FIRST, CandidateOrder.LEAST_LOSS)
    }

    assert {order: loss and (loss.loss_class, loss.at_most) for order, loss in bounds.items()} == {
        CandidateOrder.EPOCH_FIRST: (LossClass.BOUNDED, 13),
        CandidateOrder.LEAST_LOSS: (LossClass.BOUNDED, 5),
    }


PROVES_NOTHING = history(step(1, 2), step(1))
PROVEN = history(step(1, 2, 3), step(1, 3), step(1), intact=[2, 3])
"""Broker 3 left the ISR last, and its copy is intact."""


@pytest.mark.parametrize("known", [None, PROVES_NOTHING], ids=["nobody watched", "the history proves nothing"])
def test_where_nothing_is_proven_least_loss_ranks_by_epochs(known: PartitionHistory | None) -> None:
    seen = evidence(partition({1: None, 2: LONGER, 3: NEWER}, history=known))
    assert decided(seen, policy(candidate_order=CandidateOrder.LEAST_LOSS)).ranking == (3, 2)


@pytest.mark.parametrize(
    ("order", "known", "leader"),
    [
        (CandidateOrder.LEAST_LOSS, PROVEN, 3),
        (CandidateOrder.LEAST_LOSS, None, 2),
        (CandidateOrder.EPOCH_FIRST, PROVEN, 2),
    ],
    ids=["a proof is known", "nobody watched", "the order asks for no proof"],
)
def test_what_a_fleets_ranking_chose_does_not_stand_over_a_proof_that_it_never_read(
    order: CandidateOrder, known: PartitionHistory | None, leader: int
) -> None:
    seen = partition({1: None, 2: NEWER, 3: log(5, (0, 0), (3, 2))}, history=known)
    ranked = {seen.id: Ranked(BrokerId(2), seen.leader_epoch, seen.topic_id)}

    (decision,) = decide(evidence(seen), policy(candidate_order=order), ranked=ranked).decisions

    assert decision.leader == leader
