"""The loss class, by the rules of docs/explanation/guarantees.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_recovery.decision.loss import classify, cost_of
from kafka_recovery.domain.elr import replay_elr
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Replica, WitnessedEnd
from kafka_recovery.domain.history import MOST_STEPS, BrokerStart, HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, LeaderEpoch, MetadataOffset, Offset, TopicId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.histories.judging import naive_proofs
from unit.decision.incident import Held, broker, evidence, history, log, partition, started, step

CLUSTER = evidence(brokers=tuple(map(broker, (2, 3, 4)))).cluster


def lossof(
    seen: PartitionEvidence, chosen: int, by: PartitionHistory | None = None, cluster: ClusterState = CLUSTER
) -> Loss:
    """The second proof has to agree in each story; it is about candidates that follow no older leader."""
    leader, proven = seen.replica(BrokerId(chosen)), replace(seen, history=by)
    assert leader is not None
    if leader.log is not None and leader.log.answered_under == seen.leader_epoch:
        first = cost_of(proven, leader, cluster)
        second = naive_proofs.cost(leader, proven, cluster)
        assert second == (first.loss_class, float("inf") if first.at_most is None else first.at_most)
    return classify(proven, leader, cluster)


def copies(**held: Held) -> PartitionEvidence:
    return partition({int(name[1:]): what for name, what in held.items()})


BEHIND = copies(_1=None, _2=log(27), _3=log(15))


def test_without_history_nothing_is_proven_and_it_says_what_is_missing() -> None:
    refused = Replica(BrokerId(1), None, Reason("ConnectionRefused", "connection refused"))
    loss = lossof(copies(_1=refused, _2=log(27), _3=log(15)), 2)

    assert loss == Loss(
        LossClass.UNKNOWN,
        missing=(
            "ISR history since all replicas were in sync",
            "proof that broker 2's copy is intact",
            "proof that broker 3's copy is intact",
            "broker 1's log: connection refused",
        ),
        unmeasured=(BrokerId(1),),
    )


def test_partitions_with_the_same_silence_share_one_loss() -> None:
    assert lossof(BEHIND, 2) is lossof(copies(_1=None, _2=log(99), _3=log(15)), 2)


# (a): intact and in ISR or ELR


def test_an_intact_elr_member_loses_nothing() -> None:
    """Also where the cluster has ELR off: while the ISR was below min.insync.replicas nothing was acknowledged."""
    loss = lossof(BEHIND, 3, history(step(1, 2, 3), step(1, 3), step(1), intact=(3,)))

    assert (loss.loss_class, loss.at_most) == (LossClass.LOSSLESS, 0)
    assert loss.proof == "broker 3 is in ISR or ELR by the ISR history, and its copy is intact"
    assert [lack.records for lack in loss.lacks] == [12]


def test_an_elr_member_that_lost_its_page_cache_proves_nothing() -> None:
    loss = lossof(BEHIND, 3, history(step(1, 2, 3), step(1, 3), step(1)))

    assert loss.loss_class is LossClass.UNKNOWN
    assert "proof that broker 3's copy is intact" in loss.missing


@pytest.mark.parametrize("chosen", [2, 3])
def test_a_replica_that_follows_an_older_leader_is_not_intact(chosen: int) -> None:
    """It may get an acknowledged record from that one yet, which nobody else has."""
    seen = copies(_1=None, _2=log(27), _3=log(15, answered_under=LeaderEpoch(4)))
    by = history(step(1, 2, 3), step(1, 3), step(1), intact=(3,))
    assert lossof(seen, chosen, by).loss_class is LossClass.UNKNOWN


@pytest.mark.parametrize("chosen", [2, 3])
def test_a_copy_that_ends_before_a_high_watermark_has_lost_something_whatever_its_starts_say(chosen: int) -> None:
    """Somebody may have deleted it, and started the broker again in the same Pod."""
    by = history(step(1, 2, 3), step(1, 3), step(1), intact=(3,))
    seen, told = (copies(_1=None, _2=log(27, high_watermark=Offset(end)), _3=log(15)) for end in (15, 16))

    assert lossof(seen, chosen, by).loss_class is LossClass.LOSSLESS
    assert lossof(told, chosen, by).loss_class is LossClass.UNKNOWN


# (b): a log that holds all of an intact member's


THREE_LEFT_LAST = history(step(1, 2, 3), step(1, 2), step(1, 3), step(1), intact=(3,))


def test_a_log_that_holds_all_of_an_intact_member_loses_nothing_intact_or_not() -> None:
    """Broker 3 left the ISR when nothing could be acknowledged without it any more; broker 2 has all that it has."""
    loss = lossof(BEHIND, 2, THREE_LEFT_LAST)

    assert (loss.loss_class, loss.at_most) == (LossClass.LOSSLESS, 0)
    assert loss.proof == (
        "broker 3 is in ISR or ELR by the ISR history, its copy is intact, and broker 2's log contains all of it"
    )


def test_what_the_chosen_log_lacks_of_an_intact_member_bounds_the_loss() -> None:
    diverged = copies(_1=None, _2=log(27, (0, 0), (3, 20)), _3=log(30, (0, 0), (2, 20)))
    loss = lossof(diverged, 2, THREE_LEFT_LAST)

    assert (loss.loss_class, loss.at_most) == (LossClass.BOUNDED, 10)
    assert loss.proof.endswith("its copy is intact, and broker 2's log lacks 10 offsets of it")


THREE_AND_FOUR_STAYED = tuple(
    step(*members, min_isr=3, replicas=(1, 2, 3, 4)) for members in ((1, 2, 3, 4), (1, 3, 4), (1,))
)


@pytest.mark.parametrize("unread", [3, 4])
def test_an_intact_member_whose_vector_is_unread_takes_nothing_from_what_another_proves(unread: int) -> None:
    held = {1: None, 2: log(10), 3: log(15), 4: log(15)} | {unread: log(15, epochs=None)}
    loss = lossof(partition(held), 2, history(*THREE_AND_FOUR_STAYED, intact=(3, 4)))

    assert (loss.loss_class, loss.at_most) == (LossClass.BOUNDED, 5)


@pytest.mark.parametrize(
    "steps",
    [
        (step(1, 2, 3), step(1, min_isr=1), step(1, 2, 3, min_isr=2), step(1, min_isr=1)),
        (step(1, 2, 3, min_isr=1), step(1)),
    ],
    ids=["lowered with the change", "raised with it"],
)
def test_the_lowest_min_isr_at_a_change_counts(steps: tuple[HistoryStep, ...]) -> None:
    loss = lossof(BEHIND, 2, history(*steps, intact=(2, 3)))

    assert loss.loss_class is LossClass.UNKNOWN
    assert loss.missing == ("broker 1's log: no answer",)


def test_a_leader_that_would_use_offsets_again_is_not_lossless_though_no_record_is_lost() -> None:
    """Retention emptied the member's log at offset 500. Groups that have committed there would skip what is new."""
    deleted = log(500, start=500, epochs=())
    loss = lossof(copies(_1=None, _2=log(27), _3=deleted), 2, THREE_LEFT_LAST)

    assert (loss.loss_class, loss.at_most) == (LossClass.BOUNDED, 0)
    assert loss.proof.endswith("and broker 2's log ends 473 offsets before it, which would be used again")


def test_a_log_that_may_still_be_cut_to_an_older_leader_s_contains_nothing_for_sure() -> None:
    seen = copies(_1=None, _2=log(27, answered_under=LeaderEpoch(4)), _3=log(15))
    loss = lossof(seen, 2, THREE_LEFT_LAST)

    assert loss.missing == ("broker 2's answer under the current leader epoch, 5",)


@pytest.mark.parametrize("unread", [2, 3])
def test_an_unread_vector_can_not_prove_containment(unread: int) -> None:
    held = {1: None, 2: log(27), 3: log(15)} | {unread: log(27, epochs=None)}
    loss = lossof(partition(held), 2, THREE_LEFT_LAST)

    assert (loss.loss_class, loss.missing) == (LossClass.UNKNOWN, (f"broker {unread}'s leader-epoch vector",))


FALSE_VECTOR = log(20, (1, 0), (2, 15))
"""Epoch 2 began at offset 15 by this one, at 0 by the other: one of them is false, or a copy is not Kafka's."""


def test_vectors_that_contradict_each_other_prove_nothing() -> None:
    loss = lossof(copies(_1=None, _2=log(27, (2, 0)), _3=FALSE_VECTOR), 2, THREE_LEFT_LAST)

    assert loss.loss_class is LossClass.UNKNOWN
    assert loss.missing == ("leader-epoch vectors of brokers 2 and 3 that do not contradict each other",)


@pytest.mark.parametrize("chosen", [2, 4])
def test_neither_does_a_vector_that_another_intact_copy_contradicts(chosen: int) -> None:
    """Not even of a member: what it says of its own log may be what is false."""
    four = (1, 2, 3, 4)
    left = history(step(*four, replicas=four), step(1, 4, replicas=four), step(1, replicas=four), intact=(3, 4))
    seen = partition({1: None, 2: log(27, (2, 0)), 3: FALSE_VECTOR, 4: log(25, (2, 0))})

    assert lossof(seen, chosen, left).loss_class is LossClass.UNKNOWN


# A remote tier


UNREAD = Reason("TopicAuthorizationFailed", "DESCRIBE_CONFIGS is missing")


APART = partition({1: None, 2: log(10), 3: log(15), 4: log(18)})
FOUR = (1, 2, 3, 4)
FOUR_LEFT_LAST = history(
    *[step(*isr, min_isr=3, replicas=FOUR) for isr in (FOUR, (1, 2, 3), (1, 2, 4), (1,))], intact=(4,)
)


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ({"tiered": True}, "what the remote tier holds"),
        ({"configs_problem": UNREAD}, "whether the topic has a remote tier"),
    ],
    ids=["tiered", "not known"],
)
@pytest.mark.parametrize(("chosen", "by_local_logs"), [(4, LossClass.LOSSLESS), (2, LossClass.BOUNDED)])
def test_local_logs_prove_nothing_of_what_may_be_in_a_remote_tier(
    chosen: int, by_local_logs: LossClass, said: dict[str, Any], missing: str
) -> None:
    local = lossof(replace(APART, tiered=False), chosen, FOUR_LEFT_LAST)
    loss = lossof(replace(APART, **said), chosen, FOUR_LEFT_LAST)

    assert local.loss_class is by_local_logs
    assert (loss.loss_class, loss.at_most, loss.proof) == (LossClass.UNKNOWN, None, "")
    assert missing in loss.missing[-1]
    assert loss.lacks == local.lacks


# What spoils a history


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        ((), "ISR history since all replicas were in sync"),
        ((step(1, 3), step(1)), "ISR history since all replicas were in sync"),
        ((step(1, 2, 3), step(1, 3), step(3)), "its last step shows another ISR"),
        ((step(1, 2, 3), step(3, recovering=True), step(1, 3), step(1)), "a history without unclean election"),
        ((step(1, 2, 4, replicas=(1, 2, 4)), step(1, 3), step(1)), "a history of one replica set"),
    ],
)
def test_a_spoilt_history_proves_nothing(steps: tuple[HistoryStep, ...], missing: str) -> None:
    loss = lossof(BEHIND, 3, history(*steps, intact=(2, 3)))

    assert loss.loss_class is LossClass.UNKNOWN
    assert missing in loss.missing[0]


IN_ELR = (step(1, 2, 3), step(1, 3), step(1))
"""Broker 3 holds all that was acknowledged, if its copy is intact."""


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"topic_id": TopicId("an earlier topic")}, "is of another one of its name, an earlier topic"),
        ({"as_of": MetadataOffset(999)}, "whole up to metadata offset 999, and this look was at 1000"),
    ],
)
def test_a_history_of_something_else_proves_nothing(changes: dict[str, Any], missing: str) -> None:
    loss = lossof(BEHIND, 3, history(*IN_ELR, intact=(3,), **changes))

    assert loss.loss_class is LossClass.UNKNOWN
    assert missing in loss.missing[0]


def test_a_history_that_ended_one_election_early_proves_nothing_though_the_isr_is_the_same() -> None:
    one_before = (step(1, 2, 3), step(1, 3), step(1, leader_epoch=LeaderEpoch(4)))
    loss = lossof(BEHIND, 3, history(*one_before, intact=(3,)))

    assert loss.missing == ("ISR history up to now: its last step is of leader epoch 4, the controller's is 5",)


def test_a_look_that_does_not_tell_its_offset_proves_nothing() -> None:
    loss = lossof(BEHIND, 3, history(*IN_ELR, intact=(3,)), replace(CLUSTER, as_of=None))
    assert "at which one this look was, nobody said" in loss.missing[0]


@pytest.mark.parametrize(("told", "proven"), [(1, True), (950, False)])
def test_the_process_that_was_measured_has_to_be_the_one_that_the_history_knows_last(told: int, proven: bool) -> None:
    cluster = evidence(brokers=(broker(2), broker(3, epoch=BrokerEpoch(told)))).cluster
    loss = lossof(BEHIND, 3, history(*IN_ELR, intact=(3,)), cluster)
    assert (loss.loss_class is LossClass.LOSSLESS) is proven


@pytest.mark.parametrize(("told", "proven"), [(1, False), (500, True)])
def test_of_a_broker_that_stopped_cleanly_and_came_back_the_new_process_has_to_be_the_one_that_was_measured(
    told: int, proven: bool
) -> None:
    cluster = evidence(brokers=(broker(2), broker(3, epoch=BrokerEpoch(told)))).cluster
    starts = (started(1, 1), started(2, 1), started(3, 1), started(3, 500, stopped_cleanly=True))
    loss = lossof(BEHIND, 3, history(*IN_ELR, starts=starts), cluster)
    assert (loss.loss_class is LossClass.LOSSLESS) is proven


@pytest.mark.parametrize("chosen", [2, 3])
@pytest.mark.parametrize(
    ("applied", "epoch", "proven"),
    [
        (1000, None, True),
        (1001, None, False),
        (None, None, False),
        (None, 1, True),
        (1000, 1, True),
        (None, 950, False),
    ],
)
def test_a_broker_that_may_have_applied_more_than_the_history_tells_may_be_another_process(
    applied: int | None, epoch: int | None, proven: bool, chosen: int
) -> None:
    """A controller that was overthrown, and does not know it yet, tells nothing of a broker that registered since."""
    cluster = evidence(brokers=(broker(2), broker(3, metadata_offset=applied, epoch=epoch))).cluster
    loss = lossof(BEHIND, chosen, history(*IN_ELR, intact=(3,)), cluster)
    assert (loss.loss_class is LossClass.LOSSLESS) is proven


def test_a_broker_that_nobody_lists_may_be_another_process() -> None:
    loss = lossof(BEHIND, 3, history(*IN_ELR, intact=(3,)), evidence(brokers=(broker(2),)).cluster)
    assert loss.loss_class is LossClass.UNKNOWN


# Intact, concluded from starts


def class_if_started(*starts: BrokerStart, steps: tuple[HistoryStep, ...] = IN_ELR) -> LossClass:
    """Of broker 3, which left the ISR while nothing could be acknowledged any more, by the starts of its processes."""
    others = [started(1, 1), started(2, 1)]
    return lossof(BEHIND, 3, history(*steps, starts=(*others, *starts))).loss_class


THERE = {"directory": "a", "volume": "pvc", "boot": "monday"}


@pytest.mark.parametrize(
    ("later", "proven"),
    [
        ({}, False),
        ({"stopped_cleanly": True}, True),
        ({"stopped_cleanly": False}, False),
        (THERE, True),
        ({**THERE, "boot": "tuesday"}, False),
        ({**THERE, "boot": None}, False),
        ({**THERE, "volume": "another"}, False),
        ({**THERE, "volume": "another", "stopped_cleanly": True}, False),
        ({**THERE, "directory": None}, False),
        ({**THERE, "directory": "b", "stopped_cleanly": True}, False),
    ],
)
def test_a_restart_keeps_a_copy_intact_if_logs_were_flushed_or_host_and_disk_are_the_same(
    later: dict[str, Any], proven: bool
) -> None:
    before = started(3, 1, **THERE)
    expected = LossClass.LOSSLESS if proven else LossClass.UNKNOWN
    assert class_if_started(before, started(3, 500, **later)) is expected


def test_a_start_before_it_was_taken_into_the_isr_again_does_no_harm() -> None:
    back = (step(1, 2, 3), step(1, 2), step(1, 3), step(1))
    assert class_if_started(started(3, 1), started(3, 25), steps=back) is LossClass.LOSSLESS
    assert class_if_started(started(3, 1), started(3, 35), steps=back) is LossClass.UNKNOWN


def test_a_copy_of_a_process_that_nobody_saw_begin_is_not_intact() -> None:
    assert class_if_started() is LossClass.UNKNOWN
    assert class_if_started(started(3, 10)) is LossClass.LOSSLESS, "in the very step that it was in sync from"
    assert class_if_started(started(3, 11)) is LossClass.UNKNOWN


@pytest.mark.parametrize("unclean", [500, 600])
def test_of_two_restarts_one_that_was_unclean_takes_the_proof_away_the_earlier_or_the_later(unclean: int) -> None:
    again = (started(3, epoch, stopped_cleanly=epoch != unclean) for epoch in (500, 600))
    assert class_if_started(started(3, 1), *again) is LossClass.UNKNOWN


def test_a_member_that_the_elr_kept_is_judged_from_when_it_joined_the_isr() -> None:
    kept = (step(1, 2, 3), step(1, 3), step(1, elr=(BrokerId(3),)), step(1, 3), step(1, elr=(BrokerId(3),)))
    assert class_if_started(started(3, 1), started(3, 35), steps=kept) is LossClass.UNKNOWN


BEFORE = LeaderEpoch(3)


def test_a_sole_isr_member_that_registered_anew_was_elected_uncleanly_unless_it_is_intact() -> None:
    """ELR off: the controller elects it as soon as it is back, whatever it has lost, and nothing marks that."""
    led = (step(1, 2, 3, leader_epoch=BEFORE), step(1, leader_epoch=BEFORE))
    steps = (*led, step(1, leader=None, leader_epoch=LeaderEpoch(4)), step(1), step(1, 3))
    seen = replace(BEHIND, isr=(BrokerId(1), BrokerId(3)))

    def by(*starts: BrokerStart) -> Loss:
        return lossof(seen, 3, history(*steps, starts=(*starts, started(2, 1), started(3, 1))))

    assert by(started(1, 1)).loss_class is LossClass.LOSSLESS
    assert by(started(1, 1, **THERE), started(1, 35, **THERE)).loss_class is LossClass.LOSSLESS
    for again in (35, 40):
        assert "a history without unclean election" in by(started(1, 1), started(1, again)).missing[0]


def test_what_a_leader_loses_after_it_led_takes_nothing_from_who_was_elected_in_its_place() -> None:
    led = step(2, 3, leader=BrokerId(2), leader_epoch=LeaderEpoch(4))
    steps = (step(1, 2, 3, leader_epoch=BEFORE), led, step(3, leader=BrokerId(3)))
    seen = replace(BEHIND, isr=(BrokerId(3),))

    def by(again: int) -> LossClass:
        starts = (started(1, 1), started(2, 1), started(2, again), started(3, 1))
        return lossof(seen, 3, history(*steps, starts=starts)).loss_class

    assert by(again=25) is LossClass.LOSSLESS
    assert by(again=15) is LossClass.UNKNOWN, "it led after it had lost what it held"


def test_a_leader_that_kafka_s_own_elr_kept_too_long_may_lack_what_was_acknowledged_without_it() -> None:
    """A raise to 2 counts for the controller before the leader obeys it: broker 1 went on alone, and Kafka then elected
    broker 2 as an ELR member. What broker 1 acknowledged alone is on broker 1 only.
    """
    alone = (step(1, 2, 3, min_isr=1, leader_epoch=BEFORE), step(1, min_isr=1, leader_epoch=BEFORE, elr=(BrokerId(2),)))
    by = history(*alone, step(2, min_isr=1, leader=BrokerId(2), elr=(BrokerId(1),)), intact=(1, 2, 3))
    loss = lossof(replace(BEHIND, isr=(BrokerId(2),)), 2, by)

    assert loss.loss_class is LossClass.UNKNOWN
    assert "a history without unclean election" in loss.missing[0]


def test_a_history_has_no_more_steps_than_a_plan_can_carry() -> None:
    assert len(history(*[step(1, 2, 3)] * MOST_STEPS).steps) == MOST_STEPS
    with pytest.raises(ValueError, match="at most 100 steps"):
        history(*[step(1, 2, 3)] * (MOST_STEPS + 1))


def test_of_several_witnesses_the_one_that_saw_most_says_what_is_lost_at_least() -> None:
    seen = (WitnessedEnd("group audit", Offset(20)), WitnessedEnd("group billing", Offset(30)))
    assert lossof(partition({1: None, 2: log(27), 3: log(15)}, witnessed_ends=seen), 2).at_least == 3


def test_a_proof_that_a_witness_contradicts_is_none() -> None:
    ends = WitnessedEnd("group audit", Offset(16)), WitnessedEnd("group billing", Offset(20))
    seen = partition({1: None, 2: log(27), 3: log(15)}, witnessed_ends=ends)
    loss = lossof(seen, 3, history(step(1, 2, 3), step(1, 3), step(1), intact=(3,)))

    assert (loss.loss_class, loss.at_least, loss.proof) == (LossClass.UNKNOWN, 5, "")
    assert "group billing saw offset 20" in loss.missing[0]


@pytest.mark.parametrize(
    ("cap", "at_most"), [(LossClass.LOSSLESS, 0), (LossClass.BOUNDED, None), (LossClass.UNKNOWN, None)]
)
def test_transactions_are_as_safe_as_their_log(cap: LossClass, at_most: int | None) -> None:
    by = history(step(1, 2, 3), step(1, 3), step(1), intact=(3,), transactions=cap)
    loss = lossof(BEHIND, 3, by)

    assert (loss.loss_class, loss.at_most) == (cap, at_most)


# ELR, replayed


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((step(1, 2, 3),), {1, 2, 3}),
        ((step(1, 2, 3), step(1, 2)), {1, 2}),
        ((step(1, 2, 3), step(1, 2), step(1)), {1, 2}),
        ((step(1, 2, 3), step(1, 2), step(1), step()), {1, 2}),
        ((step(1, 2, 3), step(1)), {1, 2, 3}),
        ((step(1, 2, 3), step(1), step(1, 3)), {1, 3}),
        ((step(1, 2, 3), step(1, 2), step(1, min_isr=1)), {1}),
        ((step(1, 2, 3, min_isr=1), step(1)), {1}),
        ((step(1, 2, 3, min_isr=4), step(1, min_isr=4)), {1, 2, 3}),
    ],
)
def test_the_elr_follows_from_isr_history(steps: tuple[HistoryStep, ...], expected: set[int]) -> None:
    """KIP-966; the last but one: below min.insync.replicas only when both before and after."""
    assert replay_elr(steps) == expected
