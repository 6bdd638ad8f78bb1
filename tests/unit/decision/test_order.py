"""Candidate orders are data; one function is written of each."""

from __future__ import annotations

import pytest

from kafka_recovery.decision.loss import NOT_PROVEN
from kafka_recovery.decision.order import EPOCH_FIRST, FACTS, LONGEST_LOG, ORDERS, Key
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId, Offset
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Lack, Verdict
from kafka_recovery.domain.policy import CandidateOrder, EvidenceRules, RequiredAnswers, Rule
from unit.decision.incident import broker, code, dead, decided, evidence, history, log, partition, policy, step
from unit.decision.written import merit

NEWER = log(10, (0, 0), (4, 8))
LONGER = log(50, (0, 0), (3, 8))
UNREAD = log(90, epochs=None)


def test_every_order_ranks_by_facts_that_exist_and_ends_in_the_position() -> None:
    for order in CandidateOrder:
        assert [key.fact for key in ORDERS[order] if key.fact not in FACTS] == []
        assert ORDERS[order][-1] == Key("position")


def test_epoch_first_prefers_the_newer_epoch_and_longest_log_the_longer_log() -> None:
    def by(order: tuple[Key, ...]) -> list[int]:
        worth, logs = merit(order), (UNREAD, LONGER, NEWER)
        return sorted((0, 1, 2), key=lambda position: worth(logs[position], position, NOT_PROVEN), reverse=True)

    assert by(EPOCH_FIRST) == [2, 1, 0]
    assert by(LONGEST_LOG) == [0, 1, 2]


def test_an_unknown_fact_sorts_last_in_either_direction() -> None:
    for descending in (True, False):
        worth = merit((Key("last_epoch", descending),))
        assert worth(UNREAD, 0, NOT_PROVEN) < worth(NEWER, 0, NOT_PROVEN)


def test_the_assignment_decides_among_equals() -> None:
    assert decided(evidence(partition({1: None, 3: log(9), 2: log(9)}))).ranking == (3, 2)


@pytest.mark.parametrize("order", CandidateOrder)
def test_of_equal_logs_of_a_tiered_topic_the_one_that_begins_earlier_on_its_disk_leads(order: CandidateOrder) -> None:
    seen = partition({1: None, 2: log(9, local_start=6), 3: log(9, local_start=4)}, tiered=True)
    decision = decided(evidence(seen), policy(candidate_order=order))

    assert (decision.leader, decision.ranking, decision.equals) == (3, (3, 2), (3,))


def test_whose_local_start_is_unknown_comes_after_those_that_told_it() -> None:
    seen = partition({1: None, 2: log(9), 3: log(9, local_start=8)}, tiered=True)
    assert decided(evidence(seen)).ranking == (3, 2)


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


@pytest.mark.parametrize("start", [None, 4], ids=["not tiered", "from one offset on"])
def test_logs_that_begin_at_one_offset_on_their_disks_are_equals_of_which_the_assignment_decides(
    start: int | None,
) -> None:
    decision = decided(evidence(partition({1: None, 3: log(9, local_start=start), 2: log(9, local_start=start)})))
    assert (decision.ranking, set(decision.equals)) == ((3, 2), {2, 3})


def test_an_epoch_without_records_does_not_rank() -> None:
    """A fresh leader has one at once, before it wrote anything (KAFKA-1211)."""
    elected_but_idle = log(10, (0, 0), (4, 10))
    assert decided(evidence(partition({1: None, 2: elected_but_idle, 3: log(12)}))).ranking == (3, 2)


def test_a_policy_chooses_the_order() -> None:
    seen = evidence(partition({1: None, 2: NEWER, 3: LONGER}))

    assert decided(seen, policy(candidate_order=CandidateOrder.EPOCH_FIRST)).leader == 2
    assert decided(seen, policy(candidate_order=CandidateOrder.LONGEST_LOG)).leader == 3


def test_what_is_proven_to_lose_least_leads_however_short_its_log_and_old_its_epoch() -> None:
    """Broker 3 left the ISR last of all, while nothing could be acknowledged any more: what 2 has beyond it is not."""
    known = history(step(1, 2, 3), step(1, 3), step(1), intact=[2, 3])
    seen = partition({1: None, 2: NEWER, 3: log(5, (0, 0), (3, 2))}, history=known)
    decisions = {order: decided(evidence(seen), policy(candidate_order=order)) for order in CandidateOrder}

    assert {order: decision.ranking for order, decision in decisions.items()} == {
        CandidateOrder.EPOCH_FIRST: (2, 3),
        CandidateOrder.LONGEST_LOG: (2, 3),
        CandidateOrder.LEAST_LOSS: (3, 2),
    }
    loss = decisions[CandidateOrder.LEAST_LOSS].loss
    assert loss is not None
    assert (loss.loss_class, loss.at_most) == (LossClass.LOSSLESS, 0)


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


def test_what_holds_all_of_a_proven_log_is_as_good_and_the_longer_one_leads() -> None:
    """Else an empty log that is proven Lossless would cut all that acks=1 had acknowledged."""
    seen = partition({1: None, 2: log(6), 3: log(0, epochs=())}, history=PROVEN)
    decision = decided(evidence(seen), policy(candidate_order=CandidateOrder.LEAST_LOSS))

    assert decision.leader == 2
    assert decision.loss is not None
    assert (decision.loss.loss_class, decision.loss.lacks) == (LossClass.LOSSLESS, ())


def test_least_loss_cuts_what_only_others_than_acks_all_may_have_acknowledged_and_the_plan_counts_it() -> None:
    seen = partition({1: None, 2: log(6, (0, 0), (2, 3)), 3: log(4, (0, 0), (1, 3))}, history=PROVEN)
    by_proof, by_epochs = (
        decided(evidence(seen), policy(candidate_order=order))
        for order in (CandidateOrder.LEAST_LOSS, CandidateOrder.EPOCH_FIRST)
    )

    assert (by_proof.leader, by_epochs.leader) == (3, 2)
    assert by_proof.loss is not None
    assert (by_proof.loss.loss_class, by_proof.loss.lacks) == (LossClass.LOSSLESS, (Lack(BrokerId(2), Offset(3), 3),))


def test_who_names_no_order_has_a_proof_decide_where_there_is_one() -> None:
    assert Rule("any").candidate_order is CandidateOrder.LEAST_LOSS


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


def test_whom_a_person_named_leads_whatever_is_proven_of_others() -> None:
    seen = partition({1: None, 2: NEWER, 3: log(5, (0, 0), (3, 2))}, history=PROVEN)
    by_proof = policy(candidate_order=CandidateOrder.LEAST_LOSS)

    (decision,) = decide(evidence(seen), by_proof, designated={seen.id: BrokerId(2)}).decisions

    assert decision.leader == 2


def test_what_could_not_be_read_ranks_by_no_epoch() -> None:
    seen = evidence(partition({1: None, 2: UNREAD, 3: NEWER}))
    assert code(decided(seen, policy(candidate_order=CandidateOrder.LEAST_LOSS))) == "EpochVectorUnreadable"


def test_one_unread_vector_does_not_keep_the_others_from_leading() -> None:
    any_answer = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    decision = decided(evidence(partition({1: None, 2: UNREAD, 3: NEWER})), any_answer)
    assert (decision.verdict, decision.leader, code(decision)) == (Verdict.ELECT, 3, None)
