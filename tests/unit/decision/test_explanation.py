"""Every decision explains itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.decision.explanation import Explanation, explain
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.returns import Led
from kafka_recovery.domain.evidence import PartitionEvidence, WitnessedEnd
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import CandidateOrder, EvidenceRules, Policy, RequiredAnswers
from unit.decision.incident import ORDERS, broker, dead, evidence, history, log, partition, policy, step

RACKS = (dead(1, rack="a"), broker(2, rack="b"), broker(3, rack="c"))


def explained(seen: PartitionEvidence, by: Policy | None = None, **how: Any) -> Explanation:
    return explain(decide(evidence(seen, brokers=RACKS), by or policy(), **how), seen.id)


def test_a_row_for_every_replica_best_first() -> None:
    first, second, last = explained(partition({1: None, 3: log(15), 2: log(27)})).rows

    assert (first.rank, first.broker, first.rack, first.last_epoch, first.log_end) == (1, 2, "b", 0, 27)
    assert (first.verdict, first.lacks, first.state, first.reason) == ("chosen", "", "out of ISR", None)
    assert (second.rank, second.broker, second.verdict, second.lacks) == (2, 3, "candidate", "nothing")
    assert (last.rank, last.broker, last.verdict, last.lacks) == (None, 1, "rejected", "unknown")
    assert last.state == "in ISR, fenced, silent"
    assert (last.reason and last.reason.code) == "Fenced"


def test_who_reads_one_partition_alone_is_warned_of_what_its_plan_warns_of() -> None:
    """The reasons below say that broker 1 is to reach the controllers: that would delete what broker 2 holds."""
    brokers = (broker(1, fenced=True), broker(2), broker(3))
    emptied = partition({1: log(0), 2: log(27), 3: log(15)})
    any = Policy((replace(policy().rules[0], evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))
    plan = decide(evidence(emptied, brokers=brokers), any, waited=timedelta(hours=1))

    told = explain(plan, emptied.id)

    assert told.opens[0].startswith("DANGER: STOP BROKER 1 NOW")
    assert [row.broker for row in told.rows if row.empty] == [1]
    assert not explain(plan, emptied.id, Led(BrokerId(2))).opens, "another one leads"


def test_where_nothing_speaks_against_a_plan_nothing_stands_above_its_replicas() -> None:
    assert explained(partition({1: None, 2: log(27), 3: log(15)})).opens == ()


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (partition({1: None, 2: log(27), 3: log(15)}), "by LeastLoss: broker 2's log end is 27, the next one's"),
        (
            partition({1: None, 2: log(9, (0, 0), (4, 8)), 3: log(15)}),
            "by LeastLoss: broker 2's last epoch is 4, the next one's, broker 3's, is 0",
        ),
        (partition({1: None, 2: log(9), 3: log(9)}), "brokers 2 and 3 hold equal logs; broker 2 leads so that"),
        (partition({1: None, 2: log(9)}), "broker 2 is the only replica that passes every guard"),
    ],
)
def test_why_the_chosen_beats_the_next(seen: PartitionEvidence, why: str) -> None:
    assert explained(seen).why.startswith(why)


def test_of_a_partition_that_has_a_leader_it_is_said_who_leads() -> None:
    told = explained(partition({1: None, 2: log(27), 3: log(15)}, leader=3))

    assert (told.verdict, told.leader) == (Verdict.NOTHING, None)
    assert told.why == "broker 3 leads it already; what has a leader is left alone"


def test_a_person_s_choice_is_called_that() -> None:
    seen = partition({1: None, 2: log(27), 3: log(15)})
    told = explained(seen, designated={ORDERS: BrokerId(3)})

    assert told.why == "broker 3 was designated; by LeastLoss broker 2 would lead"
    assert [(row.broker, row.verdict, row.lacks) for row in told.rows][:2] == [
        (2, "candidate", "12 records from offset 15 on"),
        (3, "chosen", ""),
    ]


def test_where_the_two_orders_differ_there_is_a_warning() -> None:
    diverged = partition({1: None, 2: log(9, (0, 0), (4, 8)), 3: log(15)})

    (warning,) = explained(diverged).warnings
    assert warning == (
        "LongestLog would choose broker 3, LeastLoss chooses broker 2: broker 3's log end is 15, the next one's, "
        "broker 2's, is 9"
    )
    assert len(explained(diverged, policy(candidate_order=CandidateOrder.LONGEST_LOG)).warnings) == 1
    assert explained(partition({1: None, 2: log(27), 3: log(15)})).warnings == ()


def test_loss_in_plain_words() -> None:
    seen = partition({1: None, 2: log(27), 3: log(15)}, witnessed_ends=(WitnessedEnd("group g", Offset(30)),))
    assert explained(seen).loss == (
        "Unknown: whether records acknowledged with acks=all are lost is not known. At least 3 are: they were seen "
        "beyond the chosen log's end."
    )
    known = history(step(1, 2, 3), step(1, 2), step(1), intact=[2])
    assert explained(partition({1: None, 2: log(27), 3: log(15)}, history=known)).loss.startswith(
        "Lossless: no record acknowledged with acks=all"
    )


def test_an_order_of_logs_that_chooses_worse_than_what_is_proven_is_told() -> None:
    known = history(step(1, 2, 3), step(1, 3), step(1), intact=[3])
    seen = partition({1: None, 2: log(10, (0, 0), (4, 8)), 3: log(9)}, history=known)

    assert explained(seen, policy(candidate_order=CandidateOrder.EPOCH_FIRST)).warnings == (
        "LeastLoss would choose broker 3, EpochFirst chooses broker 2: broker 3's loss class is Lossless, the next "
        "one's, broker 2's, is Bounded",
    )
    by_proof = explained(seen, policy(candidate_order=CandidateOrder.LEAST_LOSS))
    assert by_proof.why == "by LeastLoss: broker 3's loss class is Lossless, the next one's, broker 2's, is Bounded"


def test_whose_disk_holds_more_of_a_tiered_topic_is_told_as_the_reason() -> None:
    seen = partition({1: None, 2: log(10, local_start=7), 3: log(10, local_start=4)}, tiered=True)

    assert explained(seen).why.endswith("broker 3's local log start is 4, the next one's, broker 2's, is 7")


def test_whose_volume_has_room_is_told_as_the_reason() -> None:
    seen = partition({1: None, 2: log(10, almost_full=True), 3: log(10)})

    assert explained(seen).why.endswith(
        "3's volume is not known to be full, the next one's, broker 2's, is almost full"
    )


def test_what_local_logs_prove_of_a_tiered_topic_is_not_told_as_its_loss_class() -> None:
    known = history(step(1, 2, 3), step(1, 3), step(1), intact=[3])
    seen = partition({1: None, 2: log(10, (0, 0), (4, 8)), 3: log(9)}, history=known, tiered=True)
    told = explained(seen, policy(candidate_order=CandidateOrder.LEAST_LOSS))

    assert told.why == (
        "by LeastLoss: broker 3's loss class by local logs is Lossless, the next one's, broker 2's, is Bounded"
    )
    assert told.loss.startswith("Unknown: ")


def test_the_history_that_a_class_stands_on_is_told() -> None:
    known = history(step(1, 2, 3), step(1, 2), step(1), intact=[1, 2])
    assert explained(partition({1: None, 2: log(27), 3: log(15)}, history=known)).history == (
        "ISR 1, 2, 3 (needs 2) → 1 and 2 (needs 2) → 1 (needs 2), as of metadata offset 1000; started meanwhile: 3"
    )
    assert explained(partition({1: None, 2: log(27), 3: log(15)})).history == ""


def test_a_broker_whose_processes_were_all_in_one_place_is_told_since_when_that_is_known() -> None:
    known = history(step(1, 2, 3), step(1, 2), step(1), intact=[1, 2])
    there = replace(known, starts=tuple(replace(start, boot="monday in Pod pod-3") for start in known.starts))

    told = explained(partition({1: None, 2: log(27), 3: log(15)}, history=there)).history

    assert told.endswith("started meanwhile: 3 (all its processes since metadata offset 1 on boot monday in Pod pod-3)")


def test_of_a_long_history_the_end_is_told() -> None:
    known = history(step(1, 2, 3), *[step(1, 2), step(1)] * 4, intact=[1, 2, 3])
    told = explained(partition({1: None, 2: log(27), 3: log(15)}, history=known)).history
    assert told.startswith("ISR 4 earlier steps → 1 (needs 2) → 1 and 2 (needs 2) → 1 (needs 2)")


def test_what_would_change_the_decision() -> None:
    (change,) = explained(partition({1: None, 2: log(27), 3: log(15)})).would_change

    assert change.startswith("for a better loss class: ISR history since all replicas were in sync; proof that")


def test_before_an_election_a_clean_member_is_to_be_started_with_its_own_disk_only() -> None:
    told = explained(partition({1: None, 2: log(27), 3: log(15)}))

    assert told.since == ()
    assert told.starting == (
        "broker 1 with its own, intact disk, while orders-0 has no leader: Kafka can elect it by itself, and the plan "
        "then leaves orders-0 alone. Nothing acknowledged with acks=all is lost by that, unless the host of broker 1 "
        "crashed (what was not on its disk yet is gone then)",
        "broker 1 on an empty or replaced disk, while orders-0 has no leader: NEVER. Kafka can elect it all the same, "
        "and the other replicas then delete every record that it lacks",
        "broker 1, once another broker leads orders-0: first copy the directory of orders-0 there. On joining, a "
        "broker deletes every record that the leader lacks",
    )


def test_before_an_election_the_last_known_leader_is_to_be_started_with_its_own_disk_only() -> None:
    """With ELR on, and nobody left in ISR and ELR, Kafka elects it as soon as it is back."""
    seen = partition({1: None, 2: log(27), 3: log(15)}, isr=(), elr=(), last_known_elr=(BrokerId(1),))

    whole, empty, _ = explained(seen).starting
    assert whole.startswith("broker 1 with its own, intact disk, while orders-0 has no leader: Kafka can elect it")
    assert empty.startswith("broker 1 on an empty or replaced disk, while orders-0 has no leader: NEVER.")


def test_while_an_elr_member_is_left_nothing_is_said_of_the_last_known_leader() -> None:
    seen = partition({1: None, 2: None, 3: log(15)}, isr=(), elr=(BrokerId(2),), last_known_elr=(BrokerId(1),))

    told = explain(decide(evidence(seen, brokers=(*RACKS, dead(2))), policy()), seen.id).starting
    assert not any(each.startswith(("broker 1 with", "broker 1 on")) for each in told)


def test_of_a_broker_that_kafka_would_not_elect_only_what_it_deletes_is_said() -> None:
    seen = partition({1: log(30), 2: log(27), 3: None}, isr=(1,))

    (told,) = explain(decide(evidence(seen), policy()), seen.id).starting
    assert told.startswith("broker 3, once another broker leads orders-0: first copy")


def test_once_another_broker_leads_nothing_is_said_of_a_clean_return() -> None:
    seen = partition({1: None, 2: log(27), 3: log(15), 4: None})
    plan = decide(evidence(seen, brokers=(*RACKS, dead(4))), policy())

    told = explain(plan, seen.id, Led(BrokerId(2), LeaderEpoch(9), Offset(27)))

    assert (told.starting, told.would_change) == ((), ())
    assert told.since == (
        "Broker 2 was seen leading orders-0 after this plan was made (leader epoch 9, log end 27).",
        "Before broker 1 or 4 is started, copy their directories of orders-0: on joining, each of them deletes every "
        "record that the leader lacks.",
    )


def test_a_leader_of_an_empty_log_in_the_first_epoch_is_told_with_both() -> None:
    seen = partition({1: None, 2: log(0), 3: log(0)})
    told = explain(
        decide(evidence(seen, brokers=RACKS), policy()), seen.id, Led(BrokerId(2), LeaderEpoch(0), Offset(0))
    )
    assert told.since[0].endswith("(leader epoch 0, log end 0).")


def test_a_leader_of_whom_nothing_is_known_is_a_leader_too() -> None:
    seen = partition({1: None, 2: log(27), 3: log(15)})

    told = explain(decide(evidence(seen, brokers=RACKS), policy()), seen.id, Led())

    assert told.starting == ()
    assert told.since[0] == "orders-0 has had a leader since this plan was made."


def test_the_broker_that_leads_has_nothing_to_be_copied() -> None:
    seen = partition({1: None, 2: log(27), 3: log(15)})

    told = explain(decide(evidence(seen, brokers=RACKS), policy()), seen.id, Led(BrokerId(1)))

    assert told.since == ("Broker 1 was seen leading orders-0 after this plan was made.",)


@pytest.mark.parametrize(
    ("leader", "verdicts"),
    [(1, ["chosen", "candidate", "leads"]), (2, ["chosen, leads", "candidate", "rejected"])],
)
def test_the_broker_that_leads_is_not_called_what_it_was_when_the_plan_was_made(
    leader: int, verdicts: list[str]
) -> None:
    seen = partition({1: None, 2: log(27), 3: log(15)})

    told = explain(decide(evidence(seen, brokers=RACKS), policy()), seen.id, Led(BrokerId(leader)))

    assert [row.verdict for row in told.rows] == verdicts
    assert all(row.reason is None for row in told.rows if row.broker == leader)


def test_where_a_look_finds_a_leader_it_is_not_rejected() -> None:
    told = explained(partition({1: None, 2: None, 3: None}, leader=2, isr=(3, 2)))

    assert [row.verdict for row in told.rows if row.broker == 2] == ["leads"]


def test_where_a_look_finds_a_leader_its_absent_replicas_are_to_be_copied_first() -> None:
    told = explained(partition({1: None, 2: log(27), 3: log(15)}, leader=2, isr=(2, 3)))

    assert told.starting == ()
    assert told.since == (
        "Before broker 1 is started, copy its directory of orders-0: on joining, it deletes every record that the "
        "leader lacks.",
    )


def test_who_follows_a_leader_is_not_told_of_as_one_yet_to_be_started() -> None:
    """Replicas of a partition that has a leader are not measured; whoever is in its ISR runs, and has what it has."""
    told = explained(partition({1: None, 2: None, 3: None}, leader=2, isr=(3, 2)))

    assert told.since[0].startswith("Before broker 1 is started, copy its directory of orders-0:")


def test_a_refusal_is_explained_as_well() -> None:
    told = explained(partition({1: None, 2: log(27), 3: log(15)}, reassignment_known=False))

    assert (told.verdict, told.leader, told.why, told.loss) == (Verdict.REFUSE, None, "", "")
    assert told.reason is not None
    assert [row.rank for row in told.rows] == [1, 2, None]
    assert [row.verdict for row in told.rows] == ["candidate", "candidate", "rejected"]


def test_an_unknown_vector_gives_a_lower_bound_of_what_is_lacking() -> None:
    seen = partition({1: None, 2: log(9), 3: log(15, epochs=None)})
    any_answer = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    assert [row.lacks for row in explained(seen, any_answer).rows] == [
        "",
        "unknown",
        "at least 6 records from offset 9 on",
    ]


def test_a_partition_the_plan_does_not_know_can_not_be_explained() -> None:
    plan = decide(evidence(), policy())
    with pytest.raises(KeyError, match="no decision about orders-0"):
        explain(plan, TopicPartition("orders", 0))


def test_what_a_choice_deletes_is_told_both_ways_round_and_what_nobody_could_read_apart() -> None:
    diverged = partition({1: None, 2: log(20, (0, 0), (1, 10)), 3: log(27)})
    any_answer = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))

    assert explained(diverged, any_answer).either_way == (
        "Electing broker 2 deletes on broker 3: 17 records from offset 10 on.",
        "Electing broker 3 instead would delete on broker 2: 10 records from offset 10 on.",
        "What broker 1 alone holds is unknown (no answer): it deletes that once it joins another leader.",
    )


def test_what_can_not_be_compared_is_unknown_and_not_nothing() -> None:
    any_answer = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    told = explained(partition({1: None, 2: log(27), 3: log(27, epochs=None)}), any_answer).either_way

    assert told[0] == "Electing broker 2 deletes on broker 3: an unknown part of its log."


def test_of_equal_logs_nothing_is_deleted_and_after_an_election_nothing_is_foretold() -> None:
    seen = partition({1: None, 2: log(27), 3: log(27)})
    plan = decide(evidence(seen, brokers=RACKS), policy())

    assert [told[:13] for told in explain(plan, seen.id).either_way] == ["What broker 1"]
    assert explain(plan, seen.id, Led(BrokerId(2))).either_way == ()
