"""What one process kept of the metadata log stands in for what Kafka has cut off, and never tells anything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kafka_recovery.cluster.metadata_log import batches
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.cluster.metadata_log.kept import KeptHistory, KeptPartition, kept_of
from kafka_recovery.decision.intactness import is_intact
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.wire.exchange import Values
from kafka_recovery.simulator.wire.ids import uuid_of
from kafka_recovery.simulator.wire.metadata_log import Written as WrittenByModel
from kafka_recovery.simulator.wire.record_schemas import record
from unit.cluster.metadata_log.writing import (
    HOUR,
    NO_LEADER,
    ORDERS,
    A,
    B,
    C,
    Written,
    changed,
    created,
    cut_off,
    minimum_of,
    registered,
    snapshot,
    whole,
)

ALL = 1 << 30


def restarted(log: Written, kept: KeptHistory | None, at: int, state: bytes) -> Image:
    """A new process, of a log that begins with a snapshot."""
    image = Image(awaited=kept)
    image.load(at, 1, batches.read_snapshot(state))
    for batch in batches.read(log.data):
        if batch.first >= at:
            image.apply(batch)
    assert image.doubt is None, image.doubt
    return image


def test_who_left_before_the_log_was_cut_off_is_told_by_what_was_kept() -> None:
    log = created()
    log.add(changed(isr=[A, B]))
    cut = log.end
    log.add(changed(isr=[A]))
    kept = log.image().kept()
    log.add(changed(leader=NO_LEADER))

    again = restarted(log, kept, cut, cut_off((A, B)))

    assert again.history(ORDERS, 0) == log.history()
    without = restarted(log, None, cut, cut_off((A, B)))
    assert without.history(ORDERS, 0) is None
    assert (left := without.kept()) is not None
    assert left.partitions == (), "of what began before the snapshot there is nothing to be kept"


def offline_before_the_cut() -> tuple[Written, int, int]:
    """The log; where it will be cut off, and when the partition had lost its leader before that."""
    log = created()
    log.add(changed(isr=[A]))
    log.pass_time(60_000)
    log.add(changed(leader=NO_LEADER))
    lost = log.now
    cut = log.end
    log.pass_time(60_000)
    return log, cut, lost


def without_leader() -> bytes:
    """The snapshot at that place."""
    topic = record("Topic", 0, Values(name="orders", topic_id=ORDERS))
    brokers = [registered(A, 2), registered(B, 3), registered(C, 4)]
    state = whole((A, B, C), isr=(A,), leader=NO_LEADER, leader_epoch=1)
    return snapshot(topic, minimum_of("orders", "2"), *brokers, state)


def test_since_when_a_partition_is_offline_outlives_kafka_s_log_of_it() -> None:
    log, cut, lost = offline_before_the_cut()

    assert restarted(log, log.image().kept(), cut, without_leader()).leaderless_at(ORDERS, 0) == lost
    assert restarted(log, None, cut, without_leader()).leaderless_at(ORDERS, 0) is None


def test_what_was_kept_begins_no_outage_of_a_partition_that_has_a_leader() -> None:
    log, cut = left_one_by_one(B, C)
    kept = log.image().kept()
    assert kept is not None
    forged = replace(kept, partitions=tuple(replace(each, leaderless_at=1) for each in kept.partitions))

    again = restarted(log, forged, cut, cut_off((A,)))

    assert again.history(ORDERS, 0) == log.history()
    assert again.leaderless_at(ORDERS, 0) is None


def test_what_was_read_of_an_outage_counts_for_more_than_what_was_kept_of_it() -> None:
    """Who kept it may have read it by a clock that could not be believed."""
    log, cut = left_one_by_one(B, C)
    log.add(changed(leader=NO_LEADER))
    lost, kept = log.image().leaderless_at(ORDERS, 0), log.image().kept()
    assert kept is not None
    untold = replace(kept, partitions=tuple(replace(each, leaderless_at=None) for each in kept.partitions))

    again = restarted(log, untold, cut, cut_off((A,)))

    assert again.history(ORDERS, 0) == log.history()
    assert lost is not None
    assert again.leaderless_at(ORDERS, 0) == lost


def test_what_is_in_sync_is_not_kept() -> None:
    log = created()
    log.add(changed(isr=[A, B]))
    kept = log.image().kept()
    assert kept is not None
    assert [(each.topic_id, each.index) for each in kept.partitions] == [(ORDERS, 0)]

    log.add(changed(isr=[A, B, C]))

    kept = log.image().kept()
    assert kept is not None
    assert (kept.upto, kept.partitions, kept.topics, kept.registrations) == (log.end, (), (), ())


def test_a_topic_that_is_gone_is_not_kept() -> None:
    log = created()
    log.add(changed(isr=[A, B]))
    log.add(record("RemoveTopic", 0, Values(topic_id=ORDERS)))

    kept = log.image().kept()

    assert (kept and kept.partitions) == ()


def test_a_process_that_ended_before_the_log_was_cut_off_is_not_forgotten() -> None:
    log = created()
    log.add(changed(isr=[A]))
    second = log.add(registered(B, log.end))
    cut = log.end
    log.add(changed(leader=NO_LEADER))
    kept = log.image().kept()

    again = restarted(log, kept, cut, cut_off((A,), 2, second, 4))

    history = again.history(ORDERS, 0)
    assert history == log.history()
    assert history is not None
    assert not is_intact(BrokerId(B), history)
    assert is_intact(BrokerId(C), history)


def test_a_broker_that_is_gone_since_and_a_directory_that_failed_since_are_told_as_they_were() -> None:
    log, cut = left_one_by_one(B, C)
    other_disk = registered(B, 3, incarnation=1000 * B + 3, disks=[UUID(int=999)])
    topic = record("Topic", 0, Values(name="orders", topic_id=ORDERS))
    state = snapshot(topic, minimum_of("orders", "2"), registered(A, 2), other_disk, whole((A, B, C), isr=(A,)))

    assert restarted(log, log.image().kept(), cut, state).history(ORDERS, 0) == log.history()


def test_of_a_broker_with_several_replicas_the_processes_are_kept_since_the_oldest_history_began() -> None:
    log = created()
    log.add(changed(isr=[A]))
    again = log.add(registered(B, log.end))
    bills = UUID(int=5)
    log.add(record("Topic", 0, Values(name="bills", topic_id=bills)), whole((A, B, C), topic_id=bills))
    log.add(changed(isr=[A], topic_id=bills))
    keys, fold = [(ORDERS, 0), (bills, 0)], log.image()._folded()

    for order in (keys, keys[::-1]):
        kept = kept_of(log.end, 1, log.now, order, fold)
        assert [each.epoch for each in kept.registrations if each.broker == B] == [3, again]


def test_a_snapshot_that_ends_just_where_it_was_kept_tells_no_time_so_nothing_is_taken() -> None:
    log = created()
    log.add(changed(isr=[A]))
    kept = log.image().kept()
    cut = log.end

    again = restarted(log, kept, cut, cut_off((A,)))

    assert again.history(ORDERS, 0) is None
    assert again.kept() is None, "it could not be recognized"
    log.add(record("NoOp", 0, Values()))
    assert restarted(log, kept, cut, cut_off((A,))).kept() is not None


def left_one_by_one(*brokers: int) -> tuple[Written, int]:
    """A log in which these leave the ISR; and where it may be cut off, beyond that."""
    log, isr = created(), [A, B, C]
    for broker in brokers:
        isr.remove(broker)
        log.add(changed(isr=isr))
    cut = log.end
    log.add(record("NoOp", 0, Values()))
    return log, cut


def test_what_was_kept_of_a_quorum_is_not_of_the_one_that_was_restored_from_its_backup() -> None:
    """It comes to the same offset in an epoch of the same number, and all stands as it did: only later."""
    before, cut = left_one_by_one(B, C)
    kept = before.image().kept()
    restored, _ = left_one_by_one(C, B)
    later = Written(now=before.now + HOUR)
    for batch in batches.read(restored.data):
        values = [value for _, value in batch.values] or [b""]
        later.add(*values, control=batch.control)

    again = restarted(later, kept, cut, cut_off((A,)))

    assert again.history(ORDERS, 0) is None
    assert restarted(before, kept, cut, cut_off((A,))).history(ORDERS, 0) == before.history()


def test_what_was_kept_has_to_tell_each_step_as_the_log_does_from_where_that_begins() -> None:
    before, _ = left_one_by_one(B, C)
    kept = before.image().kept()
    other, _ = left_one_by_one(C, B)
    cut = other.end - 3

    again = restarted(other, kept, cut, cut_off((A, B, C)))

    assert again.minima.of("orders") == [(cut - 1, 2)], "nothing of it was taken"


def test_steps_that_were_kept_count_among_those_that_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    log, cut = left_one_by_one(B, C)
    kept = log.image().kept()
    monkeypatch.setattr("kafka_recovery.cluster.metadata_log.image.MOST_STEPS_IN_ALL", 3)
    again = restarted(log, kept, cut, cut_off((A,)))

    log.add(changed(leader=NO_LEADER))
    for batch in batches.read(log.data):
        if batch.first >= again.upto:
            again.apply(batch)

    assert again.doubt is not None
    assert "more than 3 ISR changes" in again.doubt


def test_a_minimum_that_was_taken_away_is_in_no_snapshot_and_fits_all_the_same() -> None:
    log = created()
    log.add(changed(isr=[A, B]))
    log.add(minimum_of("orders", None))
    cut = log.end
    log.add(changed(isr=[A]))
    brokers = [registered(broker, epoch) for broker, epoch in zip((A, B, C), (2, 3, 4), strict=True)]
    topic = record("Topic", 0, Values(name="orders", topic_id=ORDERS))

    again = restarted(log, log.image().kept(), cut, snapshot(topic, *brokers, whole((A, B, C), isr=(A, B))))

    assert again.history(ORDERS, 0) == log.history()


def test_a_leader_of_transactions_that_was_killed_is_remembered_after_its_replica_was_moved_away() -> None:
    """What it lost is missing in what others fetched from it, though it holds no replica any more."""
    transactions, d = UUID(int=5), 4
    log = created(replicas=(A, C))
    log.add(registered(d, log.end))
    log.add(
        record("Topic", 0, Values(name="__transaction_state", topic_id=transactions)),
        whole((B, C, A), topic_id=transactions),
    )
    log.add(changed(isr=[B], topic_id=transactions))
    log.add(changed(isr=[A]))
    log.add(changed(leader=NO_LEADER, topic_id=transactions))
    second = log.add(registered(B, log.end))
    log.add(changed(leader=B, topic_id=transactions))
    log.add(changed(isr=[B, C], topic_id=transactions))
    log.add(changed(leader=C, topic_id=transactions))
    log.add(changed(replicas=[B, C, A, d], isr=[B, C, d], topic_id=transactions))
    log.add(changed(replicas=[d, C, A], isr=[C, d], topic_id=transactions))
    cut = log.end
    log.add(record("NoOp", 0, Values()))
    state = snapshot(
        record("Topic", 0, Values(name="orders", topic_id=ORDERS)),
        record("Topic", 0, Values(name="__transaction_state", topic_id=transactions)),
        minimum_of("orders", "2"),
        *(registered(broker, epoch) for broker, epoch in ((A, 2), (B, second), (C, 4), (d, 8))),
        whole((A, C), isr=(A,)),
        whole((d, C, A), isr=(C, d), leader=C, leader_epoch=3, topic_id=transactions),
    )

    again = restarted(log, log.image().kept(), cut, state)

    assert again._partitions[transactions, 0].whole, "else it would be in doubt whoever led it"
    assert again.history(ORDERS, 0) == log.history()
    assert (found := again.history(ORDERS, 0)) is not None
    assert found.transaction_log is LossClass.UNKNOWN


def test_what_was_kept_before_the_log_was_cut_off_has_a_gap_behind_it_and_is_left_out() -> None:
    log = created()
    log.add(changed(isr=[A]))
    kept = log.image().kept()
    log.add(record("NoOp", 0, Values()))
    cut = log.end

    again = restarted(log, kept, cut, cut_off((A,)))

    assert again.history(ORDERS, 0) is None
    assert again.awaited is None


def kept_history() -> tuple[Written, KeptHistory, int]:
    """And where its log may be cut off."""
    log = created()
    log.add(changed(isr=[A]))
    cut = log.end
    log.add(record("NoOp", 0, Values()))
    kept = log.image().kept()
    assert kept is not None
    return log, kept, cut


def ending(kept: KeptHistory, **otherwise: Any) -> KeptHistory:
    """The same, but for the last step of its only partition."""
    (one,) = kept.partitions
    steps = (*one.steps[:-1], replace(one.steps[-1], **otherwise))
    return replace(kept, partitions=(replace(one, steps=steps),))


@pytest.mark.parametrize(
    "forged",
    [
        lambda kept, one: replace(kept, epoch=2),
        lambda kept, one: replace(kept, time=kept.time - 1),
        lambda kept, one: replace(kept, upto=kept.upto - 1),
        lambda kept, one: replace(kept, partitions=(replace(one, topic_id=UUID(int=78)),)),
        lambda kept, one: replace(kept, partitions=(replace(one, index=1),)),
        lambda kept, one: replace(kept, partitions=(replace(one, steps=one.steps[:1]),)),
        lambda kept, one: ending(kept, leader_epoch=LeaderEpoch(9)),
        lambda kept, one: ending(kept, recovering=True),
        lambda kept, one: replace(kept, topics=(replace(kept.topics[0], minima=((7, 3),)),)),
        lambda kept, one: replace(kept, registrations=kept.registrations[:1]),
        lambda kept, one: replace(
            kept,
            registrations=tuple(replace(each, incarnation=UUID(int=9)) for each in kept.registrations),
        ),
    ],
    ids=[
        "quorum's epoch",
        "time",
        "place",
        "topic",
        "partition",
        "state",
        "leader epoch",
        "recovery state",
        "minimum",
        "processes left out",
        "other processes",
    ],
)
def test_nothing_is_taken_of_what_does_not_fit_the_log(
    forged: Callable[[KeptHistory, KeptPartition], KeptHistory], caplog: pytest.LogCaptureFixture
) -> None:
    log, kept, cut = kept_history()

    again = restarted(log, forged(kept, kept.partitions[0]), cut, cut_off((A,)))

    assert again.history(ORDERS, 0) is None
    assert f"that was kept up to offset {forged(kept, kept.partitions[0]).upto} is not of this" in caplog.text


def test_nothing_is_kept_of_a_log_that_is_in_doubt_or_not_read_to_where_the_last_one_ended() -> None:
    _, kept, _ = kept_history()
    assert Image().kept() is None
    assert Image(awaited=kept, upto=1, at=1).kept() is None
    assert Image(upto=1, at=1, doubt="a gap").kept() is None


def stormy(seed: int) -> SimulatedKafka:
    """Two topics under a storm of brokers that stop, are killed, stand still and come back."""
    kafka = SimulatedKafka(seed, brokers=(1, 2, 3, 4), controllers=3, settings=Settings(elr=seed % 2 == 0))
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 4]], min_isr=2)
    kafka.create_topic("bills", [[3, 4, 1]], min_isr=1)
    chance = Random(seed)
    faults: list[Callable[[int], None]] = [
        kafka.kill, kafka.start, kafka.start, kafka.host_crash, kafka.pause, kafka.thaw, kafka.shut_down,
    ]  # fmt: skip
    for _ in range(30):
        kafka.scheduler.at(chance.uniform(0, 90), partial(chance.choice(faults), chance.randint(1, 4)))
    kafka.scheduler.at(45, kafka.fail_over_controller)
    kafka.run_until(100)
    return kafka


def histories(kafka: SimulatedKafka, image: Image) -> dict[TopicPartition, PartitionHistory | None]:
    assert image.doubt is None, image.doubt
    ids = {id: kafka.truth.state(id) for id in kafka.controllers.log.partition_ids(kafka.controllers.log.end)}
    return {id: image.history(uuid_of(state.topic_id), id.partition) for id, state in ids.items() if state}


@pytest.mark.parametrize("seed", range(12))
def test_wherever_it_was_kept_and_the_log_cut_off_histories_are_the_same_or_begin_later(seed: int) -> None:
    kafka, chance = stormy(seed), Random(seed)
    written = WrittenByModel(kafka, lambda broker: (f"kafka-{broker}", 9092))
    every = list(batches.read(written.read(0, ALL)))
    told = Image()
    for batch in every:
        told.apply(batch)
    longest = histories(kafka, told)
    for _ in range(8):
        cut, kept_at = sorted(chance.sample([batch.last + 1 for batch in every[5:]], k=2))
        before = Image()
        for batch in every:
            if batch.last < kept_at:
                before.apply(batch)
        again = Image(awaited=before.kept())
        again.load(cut, written.epoch_at(cut - 1), batches.read_snapshot(written.snapshot(cut)))
        for batch in every:
            if batch.first >= cut:
                again.apply(batch)
        for id, found in histories(kafka, again).items():
            where = f"seed {seed}, {id}, kept at {kept_at}, cut off at {cut}"
            whole = longest[id]
            assert (found is None) == (whole is None), where
            if found is None or whole is None:
                continue
            assert [(s.leader, s.leader_epoch, s.isr) for s in found.steps] == [
                (s.leader, s.leader_epoch, s.isr) for s in whole.steps
            ], where
            assert all(mine.min_isr <= s.min_isr for mine, s in zip(found.steps, whole.steps, strict=True)), where
            assert [s for s in whole.starts if s.epoch > found.steps[0].since] == [
                s for s in found.starts if s.epoch > found.steps[0].since
            ], where
