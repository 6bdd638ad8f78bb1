"""What the metadata log's records add up to."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from kafka_recovery.cluster.metadata_log import batches
from kafka_recovery.cluster.metadata_log import image as image_module
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.decision.intactness import began_uncleanly, is_intact
from kafka_recovery.domain.elr import replay_elr
from kafka_recovery.domain.history import MOST_STEPS, PartitionHistory
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.simulator.wire.exchange import Values
from kafka_recovery.simulator.wire.record_schemas import record
from unit.cluster.metadata_log.writing import (
    HOUR,
    NO_LEADER,
    ORDERS,
    A,
    B,
    C,
    Written,
    batch,
    changed,
    created,
    feature,
    minimum_of,
    registered,
    whole,
)

BEGIN, END, ABORT = bytes((1, 23, 0, 0)), bytes((1, 24, 0, 0)), bytes((1, 25, 0, 0))


def told(log: Written) -> PartitionHistory:
    history = log.history()
    assert history is not None
    return history


def isrs(log: Written) -> list[tuple[int, ...]]:
    return [step.isr for step in told(log).steps]


def minima(log: Written) -> list[int]:
    return [step.min_isr for step in told(log).steps]


def fell_behind() -> Written:
    """C, then B left the ISR; A died alone."""
    log = created()
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A]))
    log.add(changed(leader=NO_LEADER))
    return log


def test_a_partition_is_told_from_the_last_moment_at_which_all_were_in_sync() -> None:
    log = fell_behind()
    assert isrs(log) == [(A, B, C), (A, B), (A,), (A,)]
    assert [step.leader for step in told(log).steps] == [A, A, A, None]
    assert [step.leader_epoch for step in told(log).steps] == [0, 0, 0, 1]
    assert told(log).as_of == log.end - 1

    log.add(changed(isr=[A, B, C], leader=A))

    assert isrs(log) == [(A, B, C)]


def test_who_left_while_nothing_could_be_acknowledged_is_replayed_into_the_elr() -> None:
    assert replay_elr(told(fell_behind()).steps) == {A, B}
    assert is_intact(BrokerId(B), told(fell_behind()))


def test_a_broker_that_is_another_process_now_is_not_intact_and_the_same_one_registered_anew_is() -> None:
    another, same = fell_behind(), fell_behind()
    another.add(registered(B, another.end))
    first = UUID(int=1000 * B + 3)
    same.add(registered(B, same.end, incarnation=first.int))

    assert not is_intact(BrokerId(B), told(another))
    assert is_intact(BrokerId(B), told(same))


def test_the_same_process_on_another_disk_is_not_intact() -> None:
    log = fell_behind()
    log.add(registered(B, log.end, incarnation=1000 * B + 3, disks=[UUID(int=999)]))

    assert not is_intact(BrokerId(B), told(log))


def test_a_member_of_the_elr_that_registers_and_stays_in_it_had_stopped_cleanly() -> None:
    """The controller takes one that had not out of the ELR, in the batch in which it registers (KIP-966)."""
    clean, unclean, late = created(), created(), created()
    for log in (clean, unclean, late):
        log.add(feature(elr=1))
        log.add(changed(isr=[A, B]))
        log.add(changed(isr=[A], eligible_leader_replicas=[B]))
    clean.add(registered(B, clean.end))
    unclean.add(changed(eligible_leader_replicas=[]), registered(B, unclean.end + 1))
    late.add(registered(B, late.end), changed(eligible_leader_replicas=[]))

    assert is_intact(BrokerId(B), told(clean))
    assert not is_intact(BrokerId(B), told(unclean))
    assert not is_intact(BrokerId(B), told(late))
    assert [step.elr for step in told(clean).steps] == [None, (), (B,)]
    assert told(created()).steps[0].elr is None


@pytest.mark.parametrize("topic", ["orders", ""], ids=["of the topic", "of all topics"])
def test_who_registers_once_the_elr_was_cleared_has_not_stopped_cleanly_by_that(topic: str) -> None:
    """The controller keeps it nowhere any more, and so takes it out of nothing (KIP-966)."""
    log = created()
    log.add(feature(elr=1))
    log.add(changed(isr=[A], eligible_leader_replicas=[B]))
    log.add(record("ClearElr", 0, Values(topic_name=topic)))
    log.add(registered(B, log.end))

    assert [step.elr for step in told(log).steps] == [None, (B,), ()]
    assert not is_intact(BrokerId(B), told(log))


def test_an_unclean_election_is_read_from_the_state_also_where_the_second_one_does_not_repeat_it() -> None:
    log = fell_behind()
    log.add(changed(isr=[C], leader=C, leader_recovery_state=1))
    log.add(changed(leader=NO_LEADER))
    log.add(changed(isr=[B], leader=B))

    assert [step.recovering for step in told(log).steps][-3:] == [True, True, True]
    assert began_uncleanly(told(log))


def test_a_sole_member_that_comes_back_as_another_process_and_leads_counts_as_unclean() -> None:
    log = fell_behind()
    log.add(registered(A, log.end))
    log.add(changed(leader=A))

    assert began_uncleanly(told(log))


def test_a_leader_that_goes_on_as_another_process_leaves_no_history() -> None:
    """Kafka 3.9 elects nobody then (KAFKA-18106). The followers cut their logs to what is left of the leader's."""
    another, same, follower = created(), created(), created()
    for log in (another, same, follower):
        log.add(changed(isr=[A, B]))
    another.add(registered(A, another.end))
    same.add(registered(A, same.end, incarnation=1000 * A + 2))
    follower.add(registered(C, follower.end))
    for log in (another, same, follower):
        log.add(changed(isr=[A]))

    assert another.history() is None
    assert len(told(same).steps) == len(told(follower).steps) == 3


def test_a_leader_that_its_own_start_overthrew_leaves_the_history_as_it_is() -> None:
    """From Kafka 4.0 on one batch has both."""
    log = created()
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[B], leader=B), registered(A, log.end))

    assert isrs(log) == [(A, B, C), (A, B), (B,)]


def test_an_elr_member_that_leads_by_a_minimum_that_the_leader_may_not_have_gone_by_counts_as_unclean() -> None:
    """The minimum of 2 is in force at the controller, so it keeps B; A may have acknowledged alone by 1."""
    log = created(minimum=1)
    log.add(feature(elr=1))
    log.add(minimum_of("orders", "2"))
    log.add(changed(isr=[A], eligible_leader_replicas=[B, C]))
    log.add(changed(isr=[], eligible_leader_replicas=[A, B, C], leader=NO_LEADER))
    log.add(changed(isr=[B], eligible_leader_replicas=[A, C], leader=B))

    assert began_uncleanly(told(log))


def test_what_stands_in_one_batch_is_one_change_to_brokers() -> None:
    """Configs may be written after the partition: nobody ever led by the default between the two."""
    log = created()
    log.add(
        record("Topic", 0, Values(name="late", topic_id=UUID(int=5))),
        record("Partition", 2, partition_of(UUID(int=5))),
        minimum_of("late", "3"),
    )
    history = log.image().history(UUID(int=5), 0)
    assert history is not None
    assert [step.min_isr for step in history.steps] == [3]


def test_each_of_several_changes_in_one_batch_has_the_minimum_that_held() -> None:
    log = created()
    log.add(changed(isr=[A, B]), changed(isr=[A]))
    assert minima(log) == [2, 2, 2]
    assert replay_elr(told(log).steps) == {A, B}


def test_a_partition_that_is_written_anew_as_a_whole_goes_on() -> None:
    log = created()
    log.add(whole((A, B, C), isr=(A, B)))
    assert isrs(log) == [(A, B, C), (A, B)]


def partition_of(topic_id: UUID) -> Values:
    return Values(
        partition_id=0, topic_id=topic_id, replicas=[A, B, C], isr=[A, B, C], removing_replicas=[], adding_replicas=[],
        leader=A, leader_epoch=0, partition_epoch=0, directories=[], leader_recovery_state=0,
        eligible_leader_replicas=None, last_known_elr=None,
    )  # fmt: skip


def test_a_transaction_counts_at_its_end_and_an_aborted_one_never() -> None:
    log = created()
    log.add(BEGIN, changed(isr=[A, B]))
    assert isrs(log) == [(A, B, C)]
    log.add(END)
    assert isrs(log) == [(A, B, C), (A, B)]
    log.add(BEGIN, changed(isr=[A]))
    log.add(ABORT)
    assert isrs(log) == [(A, B, C), (A, B)]
    log.add(changed(isr=[B]))
    assert isrs(log) == [(A, B, C), (A, B), (B,)]


def test_a_raised_minimum_counts_once_the_leader_is_a_process_that_began_after_it() -> None:
    """The leader acknowledged by the old one for seconds: elections that replay called lossless lost hundreds."""
    log = created(minimum=1)
    log.add(minimum_of("orders", "2"))
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A]))
    assert minima(log) == [1, 1, 1]
    assert replay_elr(told(log).steps) == {A}

    log.add(changed(leader=NO_LEADER))
    log.add(registered(A, log.end))
    log.add(changed(leader=A))
    log.add(changed(isr=[A, B, C]))
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A]))
    assert minima(log) == [2, 2, 2]


def test_a_raised_minimum_does_not_count_for_a_leader_that_only_registered_anew() -> None:
    """The controller lost it for a moment. It is the same process, and may not have applied the raise yet."""
    log = created(minimum=1)
    (first,) = [start for start in told(log).starts if start.broker == A]
    assert first.incarnation is not None
    log.add(minimum_of("orders", "2"))
    log.add(registered(A, log.end, incarnation=UUID(first.incarnation).int))
    log.add(changed(isr=[A, B, C], leader=A))
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A]))

    assert minima(log) == [1, 1, 1]
    assert replay_elr(told(log).steps) == {A}


def test_a_raised_minimum_counts_an_hour_later_by_the_logs_own_time() -> None:
    log = created(minimum=1)
    log.add(minimum_of("orders", "2"))
    log.pass_time(HOUR - 10_000)
    log.add(changed(isr=[A, B]))
    assert minima(log) == [1, 1]
    log.pass_time(20_000)
    log.add(changed(isr=[A]))
    assert minima(log) == [1, 1, 2]


def test_an_hour_is_one_of_time_and_not_of_records() -> None:
    log = created(minimum=1)
    log.add(minimum_of("orders", "2"))
    log.pass_time(HOUR // 4, every=500)
    log.add(changed(isr=[A, B]))
    assert minima(log) == [1, 1]


def test_a_clock_that_jumps_settles_nothing() -> None:
    log = created(minimum=1)
    log.add(minimum_of("orders", "2"))
    for jump in (10 * HOUR, -20 * HOUR, 50 * HOUR):
        log.now += jump
        log.add(record("NoOp", 0, Values()))
    log.add(changed(isr=[A, B]))
    assert minima(log) == [1, 1]


def test_a_lowered_minimum_counts_at_once_and_for_as_long_as_somebody_may_have_gone_by_it() -> None:
    log = created()
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A]))
    log.add(minimum_of("orders", "1"))
    log.add(minimum_of("orders", "2"))
    assert minima(log) == [2, 2, 2, 1, 1]
    assert replay_elr(told(log).steps) == {A}


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ([], 1),
        ([minimum_of("orders", "2")], 2),
        ([minimum_of("orders", "9")], 3),
        ([minimum_of("orders", "many")], 1),
        ([minimum_of("orders", "2"), minimum_of("orders", None)], 1),
        ([minimum_of("", "2", kind=4)], 1),
        ([minimum_of("1", "3", kind=4)], 1),
        ([minimum_of("payments", "2")], 1),
        ([minimum_of("orders", "2", kind=4)], 1),
    ],
    ids=[
        "a file's word is in no record",
        "the topic's own",
        "above all",
        "no number",
        "taken back",
        "the cluster's",
        "the leader's",
        "another topic's",
        "not a topic's",
    ],
)
def test_only_what_a_topic_itself_asks_for_is_in_force_at_its_leader_for_sure(
    configured: list[bytes], expected: int
) -> None:
    log = created(minimum=None)
    for each in configured:
        log.add(each)
    log.add(changed(isr=[B, C], leader=B))
    log.add(registered(A, log.end))
    log.add(changed(isr=[A, B, C], leader=A))
    assert minima(log) == [expected]


def kept_by_the_controllers_file() -> Written:
    """Only files say a minimum: 2 in the controllers', so they keep B and C; A acknowledged alone by 1 of its own."""
    log = created(minimum=None)
    log.add(feature(elr=1))
    log.add(changed(isr=[A], eligible_leader_replicas=[B, C]))
    log.add(changed(isr=[], eligible_leader_replicas=[A, B, C], leader=NO_LEADER))
    return log


def test_whom_the_controllers_keep_by_what_stands_in_their_own_files_is_no_member() -> None:
    history = told(kept_by_the_controllers_file())

    assert history.steps[-1].elr == (A, B, C)
    assert replay_elr(history.steps) == {A}


def test_nor_may_it_lead_without_the_history_counting_as_unclean() -> None:
    log = kept_by_the_controllers_file()
    log.add(changed(isr=[B], eligible_leader_replicas=[A, C], leader=B))

    assert began_uncleanly(told(log))


def test_a_topic_made_anew_has_nothing_of_the_old_ones() -> None:
    log = fell_behind()
    log.add(record("RemoveTopic", 0, Values(topic_id=ORDERS)))
    image = log.image()
    assert (image.history(ORDERS, 0), image.doubt) == (None, None)
    log.add(record("Topic", 0, Values(name="orders", topic_id=UUID(int=78))), whole((A, B, C), topic_id=UUID(int=78)))
    image = log.image()
    assert image.history(ORDERS, 0) is None
    anew = image.history(UUID(int=78), 0)
    assert anew is not None
    assert [(step.isr, step.min_isr) for step in anew.steps] == [((A, B, C), 1)]


def test_a_topic_that_is_gone_is_missed_by_nobody() -> None:
    """Neither by a broker that was in its ELR and registers, nor by a change of it in the same batch."""
    log = created()
    log.add(feature(elr=1))
    log.add(changed(isr=[A], eligible_leader_replicas=[B]))
    log.add(changed(isr=[A, C]), record("RemoveTopic", 0, Values(topic_id=ORDERS)))
    log.add(registered(B, log.end))

    assert log.image().doubt is None


def test_a_partition_that_changes_too_often_to_be_told_whole_is_not_told() -> None:
    log = created()
    for number in range(MOST_STEPS + 1):
        log.add(changed(isr=[A, B] if number % 2 else [A]))
    assert log.history() is None
    log.add(changed(isr=[A, B, C]))
    assert isrs(log) == [(A, B, C)]


def test_where_transactions_are_acknowledged_by_partitions_without_a_leader_nothing_is_better_than_unknown() -> None:
    log = fell_behind()
    assert told(log).transaction_log is None
    of_transactions = UUID(int=9)
    log.add(
        record("Topic", 0, Values(name="__transaction_state", topic_id=of_transactions)),
        record("Partition", 2, partition_of(of_transactions)),
    )
    assert told(log).transaction_log is None
    image = log.image()
    before = image.history(ORDERS, 0)
    assert before is not None
    assert before.transaction_log is None
    log.add(changed(topic_id=of_transactions, isr=[A], leader=NO_LEADER))
    image.apply(list(batches.read(log.data))[-1])
    after = image.history(ORDERS, 0)
    assert (after and after.transaction_log) is LossClass.UNKNOWN
    own = log.image().history(of_transactions, 0)
    assert own is not None
    assert own.transaction_log is None


def test_who_comes_back_to_lead_transactions_as_another_process_may_lack_some_until_all_are_in_sync() -> None:
    log = fell_behind()
    of_transactions = UUID(int=9)
    topic = record("Topic", 0, Values(name="__transaction_state", topic_id=of_transactions))
    log.add(topic, record("Partition", 2, partition_of(of_transactions)))
    log.add(changed(topic_id=of_transactions, isr=[A], leader=NO_LEADER))
    log.add(registered(A, log.end))
    log.add(changed(topic_id=of_transactions, isr=[A], leader=A))
    assert told(log).transaction_log is LossClass.UNKNOWN
    log.add(changed(topic_id=of_transactions, isr=[A, B, C]))
    assert told(log).transaction_log is None


def test_a_leader_of_transactions_that_only_kafka_s_own_elr_had_kept_may_lack_some() -> None:
    """The controller counts a minimum of two that the leader before may not have gone by."""
    log = fell_behind()
    of_transactions = UUID(int=9)
    log.add(feature(elr=1))
    topic = record("Topic", 0, Values(name="__transaction_state", topic_id=of_transactions))
    log.add(topic, record("Partition", 2, partition_of(of_transactions)))
    log.add(changed(topic_id=of_transactions, isr=[A], eligible_leader_replicas=[B]))
    assert told(log).transaction_log is None
    log.add(changed(topic_id=of_transactions, isr=[B], eligible_leader_replicas=[], leader=B))
    assert told(log).transaction_log is LossClass.UNKNOWN


def test_a_leader_of_transactions_that_registers_anew_as_the_same_process_lacks_none() -> None:
    """Its session was lost, and nothing was restarted."""
    log = fell_behind()
    of_transactions = UUID(int=9)
    log.add(registered(A, log.end, incarnation=7))
    topic = record("Topic", 0, Values(name="__transaction_state", topic_id=of_transactions))
    log.add(topic, record("Partition", 2, partition_of(of_transactions)))
    log.add(changed(topic_id=of_transactions, isr=[A], leader=NO_LEADER))
    log.add(registered(A, log.end, incarnation=7))
    log.add(changed(topic_id=of_transactions, isr=[A], leader=A))
    assert told(log).transaction_log is None


def test_clean_stops_before_a_history_begins_take_no_room() -> None:
    """Rolling restarts go on for years."""
    log = created(replicas=(A, B))
    log.add(feature(elr=1))
    for _ in range(20):
        log.add(changed(isr=[A], eligible_leader_replicas=[B]))
        log.add(registered(B, log.end), changed(isr=[A], eligible_leader_replicas=[B]))
        log.add(changed(isr=[A, B], eligible_leader_replicas=[]))
    (partition,) = log.image()._partitions.values()
    assert len(partition.clean) == 0
    log.add(changed(isr=[A], eligible_leader_replicas=[B]))
    log.add(registered(B, log.end), changed(isr=[A], eligible_leader_replicas=[B]))
    assert [start.stopped_cleanly for start in told(log).starts if start.broker == B][-1] is True


def test_more_changes_than_memory_may_hold_leave_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "MOST_STEPS_IN_ALL", 6)
    log = created()
    for _ in range(5):
        log.add(changed(isr=[A, B]), changed(isr=[A]))
        log.add(changed(isr=[A, B, C]))  # what is in sync again takes no room
        gone = UUID(int=5)
        log.add(record("Topic", 0, Values(name="late", topic_id=gone)), whole((A, B, C), isr=(A,), topic_id=gone))
        log.add(record("RemoveTopic", 0, Values(topic_id=gone)))  # nor does what is gone
    assert log.image().doubt is None
    for _ in range(6):
        log.add(changed(isr=[A, B]))
    assert "more than 6 ISR changes" in str(log.image().doubt)


UNFIT: list[tuple[str, Callable[[], bytes], str]] = [
    ("a kind that is not known", lambda: bytes((1, 99, 0, 0)), "unknown kind 99"),
    ("a version that is not known", lambda: bytes((1, 5, 3)) + changed(isr=[A])[3:], "PartitionChangeRecord v3"),
    ("another frame", lambda: bytes((2,)) + changed(isr=[A])[1:], "begins with 02"),
    ("cut off", lambda: changed(isr=[A, B])[:-2], "PartitionChangeRecord"),
    ("empty", lambda: b"", "begins with nothing"),
    ("a transaction in another", lambda: BEGIN, "within another"),
    ("a topic made twice", lambda: record("Topic", 0, Values(name="orders", topic_id=UUID(int=6))), "made twice"),
    ("of a topic that was never made", lambda: changed(topic_id=UUID(int=6), isr=[A]), "does not fit"),
]


@pytest.mark.parametrize(("value", "why"), [(make, why) for _, make, why in UNFIT], ids=[name for name, *_ in UNFIT])
def test_a_record_that_cannot_be_followed_leaves_no_history_from_there_on(value: Callable[[], bytes], why: str) -> None:
    log = fell_behind()
    if value() == BEGIN:
        log.add(BEGIN)
    log.add(value())
    log.add(changed(isr=[A, B, C], leader=A))
    image = log.image()
    assert image.doubt is not None
    assert why in image.doubt
    assert image.history(ORDERS, 0) is None


def test_what_takes_no_part_in_histories_is_left_out_in_any_version() -> None:
    log = fell_behind()
    log.add(bytes((1, 18, 120)) + b"whatever", bytes((1, 17, 9)) + b"\xff")
    assert isrs(log) == [(A, B, C), (A, B), (A,), (A,)]


def snapshot(*values: bytes, end: int = 500) -> Image:
    image = Image()
    image.load(end, 3, list(batches.read(batch(0, values, 1_000_000, 3))))
    assert image.doubt is None, image.doubt
    return image


def test_a_snapshot_begins_the_history_of_what_is_in_sync_in_it_and_of_nothing_else() -> None:
    topic = record("Topic", 0, Values(name="orders", topic_id=ORDERS))
    brokers = [registered(id, 10 + id) for id in (A, B, C)]
    full = snapshot(topic, *brokers, whole((A, B, C)), minimum_of("orders", "2"))
    behind = snapshot(topic, *brokers, whole((A, B, C), isr=(A,)), minimum_of("orders", "2"))

    history = full.history(ORDERS, 0)
    assert history is not None
    assert (history.as_of, [step.since for step in history.steps]) == (499, [499])
    assert {start.broker for start in history.starts} == {A, B, C}
    assert behind.history(ORDERS, 0) is None


def test_what_the_minimum_was_before_a_snapshot_is_not_known_for_an_hour_or_till_the_leader_begins_anew() -> None:
    image = snapshot(
        record("Topic", 0, Values(name="orders", topic_id=ORDERS)),
        registered(A, 11),
        whole((A, B, C)),
        minimum_of("orders", "2"),
    )
    history = image.history(ORDERS, 0)
    assert history is not None
    assert [step.min_isr for step in history.steps] == [1]

    rest = Written(end=500)
    rest.add(changed(isr=[B, C], leader=B))
    rest.add(registered(A, 501))
    rest.add(changed(isr=[A, B, C], leader=A))
    for each in batches.read(rest.data):
        image.apply(each)
    history = image.history(ORDERS, 0)
    assert history is not None
    assert [step.min_isr for step in history.steps] == [2]


def alone() -> Written:
    """Broker A was the last in sync of `orders-0`; a minute goes by, and it dies."""
    log = created()
    log.add(changed(isr=[A]))
    log.pass_time(60_000)
    log.add(changed(leader=NO_LEADER))
    return log


def test_a_partition_lost_its_leader_when_the_log_says_so() -> None:
    log = alone()
    lost = log.now
    log.pass_time(60_000)
    assert log.image().leaderless_at(ORDERS, 0) == lost

    log.add(changed(leader=B, isr=[B]))
    assert log.image().leaderless_at(ORDERS, 0) is None


def test_a_higher_epoch_without_a_leader_begins_no_other_outage() -> None:
    log = alone()
    lost = log.now
    log.pass_time(60_000)
    log.add(changed(leader=NO_LEADER, replicas=[A, B]))

    assert log.image().leaderless_at(ORDERS, 0) == lost


def test_a_clock_that_went_back_does_not_tell_when_a_leader_was_lost() -> None:
    """Before all were in sync, or before any other record."""
    log = created()
    log.now -= 1
    log.add(changed(leader=NO_LEADER))

    assert log.image().leaderless_at(ORDERS, 0) is None


def test_a_snapshot_does_not_tell_when_a_leader_was_lost() -> None:
    topic = record("Topic", 0, Values(name="orders", topic_id=ORDERS))
    image = snapshot(topic, whole((A, B, C), isr=(A,), leader=NO_LEADER))
    rest = Written(end=500, now=2_000_000)
    rest.add(changed(leader=NO_LEADER))
    for each in batches.read(rest.data):
        image.apply(each)

    assert image.leaderless_at(ORDERS, 0) is None
