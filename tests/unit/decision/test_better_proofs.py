"""What a candidate order costs that does not go by proofs, said before anybody approves it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.decision.bad_leaders import longer_but_older
from kafka_recovery.decision.better_proofs import better_proofs
from kafka_recovery.decision.card import card, why_stopped
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.policy import Approval, CandidateOrder, TopicSelector
from unit.decision.incident import ORDERS, broker, dead, evidence, history, log, partition, policy, step

LONGEST = policy(candidate_order=CandidateOrder.LONGEST_LOG)
BY_EPOCHS = policy(candidate_order=CandidateOrder.EPOCH_FIRST)
LEFT_LAST = history(step(1, 2, 3), step(1, 3), step(1), intact=[2, 3])
"""Broker 3 left the ISR last, and its copy is intact."""
SECOND = TopicPartition("orders", 1)


def offline(known: PartitionHistory | None = LEFT_LAST, id: TopicPartition = ORDERS) -> PartitionEvidence:
    """Broker 2 has the longer log, broker 3 the newer epoch."""
    return partition({1: None, 2: log(30), 3: log(28, (0, 0), (1, 10))}, history=known, id=id)


def test_a_longer_log_of_which_less_is_proven_is_told_with_what_is_proven_of_the_other() -> None:
    plan = decide(evidence(offline(), offline(id=SECOND)), LONGEST)

    more = (
        "Broker 3 is the better leader of orders-0, orders-1: it is proven that with it no record acknowledged with "
        "acks=all is lost. Others hold 40 records that it lacks, none of them so acknowledged. LongestLog chooses "
        "broker 2. Set the policy's candidateOrder to LeastLoss, and read the next plan: a person is asked again."
    )
    assert list(better_proofs(plan)) == [([ORDERS, SECOND], more)]
    assert card(plan).stop == (f"DO NOT APPROVE. {more}",)


@pytest.mark.parametrize("approval", [Approval.AUTO_LOSSLESS, Approval.AUTO])
def test_of_a_better_plan_about_which_nobody_will_be_asked_it_is_said_before_the_policy_is_changed(
    approval: Approval,
) -> None:
    plan = decide(evidence(offline()), policy(candidate_order=CandidateOrder.LONGEST_LOG, approval=approval))

    ((_, told),) = better_proofs(plan)

    assert told.endswith("to LeastLoss, and read the next plan: it may elect UNASKED, so copy first.")


def test_where_one_rule_of_several_asks_nobody_that_is_said_of_all_their_partitions() -> None:
    audit = TopicPartition("audit", 0)
    known = replace(LEFT_LAST, topic_id=TopicId("id-of-audit"))
    unasked = replace(LONGEST.rules[0], name="audit", topics=TopicSelector(names=("audit",)), approval=Approval.AUTO)
    plan = decide(evidence(offline(), offline(known, audit)), replace(LONGEST, rules=(unasked, *LONGEST.rules)))

    ((ids, told),) = better_proofs(plan)

    assert set(ids) == {ORDERS, audit}
    assert told.endswith("it may elect UNASKED, so copy first.")


def test_a_smaller_bound_is_more_proof() -> None:
    """Broker 4 holds everything, and is fenced; broker 3 lacks 5 records of it, broker 2 lacks 13.

    Of the third partition broker 3 lacks nothing.
    """
    five, members = (1, 2, 3, 4, 5), ((1, 2, 3, 4, 5), (1, 5, 2), (1, 5, 3), (1, 5, 4), (1,))
    known = history(*[step(*isr, min_isr=3, replicas=five) for isr in members], intact=[2, 3, 4])
    held = {1: None, 2: log(25, (0, 0), (4, 20)), 3: log(28, (0, 0), (3, 20)), 4: log(33, (0, 0), (3, 20)), 5: None}
    brokers = (dead(1), broker(2), broker(3), broker(4, fenced=True), dead(5))
    bounded = [partition(held, history=known, id=id) for id in (ORDERS, SECOND)]
    apart = {1: None, 2: log(12, (0, 0), (3, 10)), 3: log(28)}
    lossless = partition(apart, history=LEFT_LAST, id=TopicPartition("orders", 2))
    automatic = policy(candidate_order=CandidateOrder.EPOCH_FIRST, approval=Approval.AUTO_LOSSLESS)

    (_, told), (of, none) = better_proofs(decide(evidence(*bounded, lossless, brokers=brokers), automatic))

    assert told.startswith("Broker 3 is the better leader of orders-0, orders-1: ")
    assert told.endswith(": a person is asked again.")
    assert "at most 10 records acknowledged with acks=all are lost" in told
    assert "EpochFirst chooses broker 2" in told
    assert of == [lossless.id]
    assert "no record acknowledged with acks=all is lost" in none


def test_of_several_candidates_the_one_is_told_of_whom_most_is_proven() -> None:
    """Broker 2 has the newest epoch; broker 3 lacks 4 records of broker 4, which left the ISR last."""
    members = ((1, 2, 3, 4), (1, 3, 4), (1, 4), (1,))
    known = history(*[step(*isr, replicas=(1, 2, 3, 4)) for isr in members], intact=[2, 3, 4])
    held = {1: None, 2: log(12, (0, 0), (3, 10)), 3: log(28, (0, 0), (1, 10), (2, 22)), 4: log(26, (0, 0), (1, 10))}
    brokers = (dead(1), broker(2), broker(3), broker(4))
    plan = decide(evidence(partition(held, history=known), brokers=brokers), BY_EPOCHS)
    assert plan.decisions[0].ranking == (2, 3, 4)

    ((_, told),) = better_proofs(plan)

    assert told.startswith("Broker 4 is the better leader of ")


def test_nobody_is_told_to_approve_it_once_the_disk_of_the_dead_is_known_to_be_lost() -> None:
    choice = card(decide(evidence(offline()), LONGEST)).choice
    assert choice is not None
    told = " ".join(choice.sentences())

    assert (
        "is lost for good, not only detached: set the policy's candidateOrder to LeastLoss, and read the next plan"
        in told
    )
    assert "approve this plan" not in told
    assert "Before you approve" not in told
    assert "first of all copy its directory FROM broker 2 and broker 3 to" in told, (
        "by the better plan broker 2 deletes"
    )


def test_an_election_that_nobody_is_asked_about_is_to_be_stopped() -> None:
    automatic = policy(candidate_order=CandidateOrder.LONGEST_LOG, approval=Approval.AUTO)

    assert (
        card(decide(evidence(offline()), automatic)).stop[0].startswith("STOP THIS PLAN. Broker 3 is the better leader")
    )


def test_it_is_to_be_stopped_also_where_somebody_is_asked_about_a_part_of_it_only() -> None:
    plan = decide(evidence(offline(), offline(id=SECOND)), LONGEST)
    asked, unasked = plan.decisions
    assert asked.needs_approval

    mixed = replace(plan, decisions=(asked, replace(unasked, approval=Approval.AUTO)))

    assert card(mixed).stop[0].startswith("STOP THIS PLAN. Broker 3 is the better leader of orders-0, orders-1:")


@pytest.mark.parametrize("end", [0, 500], ids=["nothing was acknowledged with acks=all", "retention deleted all of it"])
def test_nobody_is_sent_from_a_log_with_records_to_an_empty_one(end: int) -> None:
    """It is proven to lose nothing, and so no other log loses anything of what it has."""
    empty_left_last = history(step(1, 2, 3), step(1, 3), step(1), intact=[3])
    seen = partition({1: None, 2: log(6), 3: log(end, start=end, epochs=())}, history=empty_left_last)

    assert list(better_proofs(decide(evidence(seen), BY_EPOCHS))) == []


def test_a_leader_that_a_person_named_is_no_choice_of_the_order() -> None:
    plan = decide(evidence(offline()), BY_EPOCHS, designated={ORDERS: BrokerId(2)})

    assert plan.decisions[0].leader == 2
    assert list(better_proofs(plan)) == []


def test_a_leader_that_a_person_named_and_that_is_proven_the_best_is_not_stopped() -> None:
    """Else the plan that follows names the other one, and is stopped as well."""
    plan = decide(evidence(offline()), LONGEST, designated={ORDERS: BrokerId(3)})

    assert plan.decisions[0].is_worse_than_best
    assert not why_stopped(plan)


def test_a_leader_that_a_person_named_and_of_which_no_more_is_proven_is_stopped_where_another_holds_more() -> None:
    seen = partition({1: None, 2: log(30), 3: log(28)}, history=LEFT_LAST)
    plan = decide(evidence(seen), LONGEST, designated={ORDERS: BrokerId(3)})

    assert plan.decisions[0].loss is not None
    assert plan.decisions[0].loss.loss_class is LossClass.LOSSLESS
    assert why_stopped(plan)


def test_a_leader_that_a_person_named_is_no_worse_than_one_with_the_same_log_and_more_room() -> None:
    held = {1: None, 2: replace(log(27), almost_full=True), 3: log(27)}
    plan = decide(evidence(partition(held)), BY_EPOCHS, designated={ORDERS: BrokerId(2)})

    assert plan.decisions[0].ranking[0] == 3
    assert not why_stopped(plan), "there is room to be made, and nothing to be saved by another leader"


def test_a_longer_and_older_log_is_told_of_the_partitions_that_have_one() -> None:
    third = TopicPartition("orders", 2)
    newer = offline(id=third), offline(id=SECOND)
    plan = decide(evidence(*newer, partition({1: None, 2: log(30), 3: log(28)})), BY_EPOCHS)

    assert list(longer_but_older(plan)) == [
        "On orders-1, orders-2 the log of broker 2 is longer than that of broker 3, but older: it ends in leader epoch "
        "0, the other in 1."
    ]


def test_many_leaders_are_told_in_a_few_sentences() -> None:
    ids = [TopicPartition("orders", number) for number in range(12)]
    four = {
        id: partition(
            {1: None, 2 + 2 * place: log(30), 3 + 2 * place: log(28, (0, 0), (1, 10))},
            history=history(
                step(1, 2 + 2 * place, 3 + 2 * place, replicas=(1, 2 + 2 * place, 3 + 2 * place)),
                step(1, 3 + 2 * place, replicas=(1, 2 + 2 * place, 3 + 2 * place)),
                step(1, replicas=(1, 2 + 2 * place, 3 + 2 * place)),
                intact=[2 + 2 * place, 3 + 2 * place],
            ),
            id=id,
        )
        for place, id in enumerate(ids)
    }
    plan = decide(evidence(*four.values(), brokers=(dead(1), *map(broker, range(2, 26)))), LONGEST)

    assert len(card(plan).stop) == 4
    assert card(plan).stop[-1] == (
        "DO NOT APPROVE. On 9 partitions more another candidate is proven to lose less, too."
    )


def test_nobody_is_sent_to_an_order_that_kafka_would_not_take() -> None:
    gone = (dead(1, registered=False), broker(2), broker(3))

    assert list(better_proofs(decide(evidence(offline(), brokers=gone), LONGEST))) == []
    unlisted = (dead(1, registered=None), broker(2), broker(3))
    assert list(better_proofs(decide(evidence(offline(), brokers=unlisted), LONGEST))), "it may only be fenced"
