"""The model as a whole: replayable, cheap, large; its logs and its truth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from kafka_recovery.domain.evidence import EpochEntry
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.simulator.histories.metadata_log import ReadLog
from kafka_recovery.simulator.model.kafka import LoadedPartition, SimulatedKafka
from kafka_recovery.simulator.model.log import Batch, LoadedLog, Log
from kafka_recovery.simulator.model.requests import DescribePartitions
from kafka_recovery.simulator.model.settings import Settings
from simulation.telling import ORDERS, A, B, C, Story


def stormy(seed: int, seconds: float = 120.0) -> SimulatedKafka:
    """Three partitions under producers and faults that come from the seed."""
    kafka = SimulatedKafka(seed, brokers=(1, 2, 3, 4), controllers=3, settings=Settings(elr=seed % 2 == 0))
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 4], [3, 4, 1]], min_isr=1 + seed % 2)
    for index in range(3):
        kafka.producer(f"p{index}", TopicPartition("orders", index), every=0.7, acks="all" if index else "1")
    chance = Random(seed)
    faults: list[Callable[[int], None]] = [
        kafka.kill, kafka.start, kafka.host_crash, kafka.start, kafka.pause, kafka.thaw, kafka.shut_down,
    ]  # fmt: skip
    for _ in range(40):
        fault, broker = chance.choice(faults), chance.randint(1, 4)
        kafka.scheduler.at(chance.uniform(0, seconds * 0.8), partial(fault, broker))
    kafka.scheduler.at(seconds / 2, kafka.fail_over_controller)
    for broker in (1, 2, 3, 4):
        kafka.scheduler.at(seconds * 0.8, partial(kafka.thaw, broker))
        kafka.scheduler.at(seconds * 0.8, partial(kafka.start, broker))
    kafka.run_until(seconds)
    return kafka


def test_the_same_seed_gives_the_same_history_and_another_seed_another() -> None:
    assert str(stormy(5).timeline) == str(stormy(5).timeline)
    assert str(stormy(5).timeline) != str(stormy(6).timeline)


def test_when_all_is_quiet_in_sync_replicas_hold_the_same_records() -> None:
    for seed in range(12):
        kafka = stormy(seed)
        for index in range(3):
            id = TopicPartition("orders", index)
            state = kafka.truth.state(id)
            assert state is not None
            for broker in state.isr if state.leader else ():
                assert state.leader is not None
                mark = min(kafka.truth.high_watermark(broker, id), kafka.truth.log_end(state.leader, id))
                mine = [batch for batch in kafka.truth.log(broker, id) if batch.end <= mark]
                leaders = [batch for batch in kafka.truth.log(state.leader, id) if batch.end <= mark]
                assert mine == leaders, f"seed {seed}, {id}, broker {broker}\n{kafka.timeline}"


def lacking_candidates(kafka: SimulatedKafka) -> list[str]:
    """Who stands in the ISR or the ELR now and lacks something acknowledged; KIP-966's LeaderCandidateCompleteness."""
    state = kafka.truth.state(ORDERS)
    candidates = (*state.isr, *state.elr) if state else ()
    missing = {broker: kafka.truth.missing(broker, ORDERS) for broker in candidates}
    return [f"{kafka.scheduler.now:.2f} s: broker {broker} {lacks}" for broker, lacks in missing.items() if lacks]


def test_process_kills_alone_lose_nothing_acknowledged_with_acks_all() -> None:
    """Page caches live on, so every clean leader has what was acknowledged, and whoever may become one had it before.

    As some candidate is always left, nothing is lost globally either: KIP-966's NoCommittedRecordLostGlobally.
    """
    for seed in range(20):
        kafka = SimulatedKafka(seed, settings=Settings(elr=seed % 2 == 0))
        kafka.create_topic("orders", [[1, 2, 3]], min_isr=2)
        kafka.producer("p", ORDERS, every=0.3)
        chance = Random(seed)
        for _ in range(12):
            broker = chance.randint(1, 3)
            kafka.scheduler.at(chance.uniform(0, 60), partial(kafka.kill, broker))
            kafka.scheduler.at(chance.uniform(0, 60), partial(kafka.start, broker))
        for broker in (1, 2, 3):
            kafka.scheduler.at(61, partial(kafka.start, broker))
        while kafka.scheduler.now < 100:
            kafka.run_for(0.7)
            assert not lacking_candidates(kafka), f"seed {seed}: {lacking_candidates(kafka)}\n{kafka.timeline}"
        state = kafka.truth.state(ORDERS)
        assert state is not None
        assert state.isr or state.elr
        assert state.leader is not None, f"seed {seed}\n{kafka.timeline}"
        assert kafka.truth.missing(state.leader, ORDERS) == (), f"seed {seed}\n{kafka.timeline}"


def test_two_virtual_minutes_of_a_small_cluster_are_some_thousands_of_events() -> None:
    assert stormy(1).scheduler.events_run < 10_000


def test_a_large_cluster_is_loaded_without_a_protocol() -> None:
    """The bench has 200,000; what matters here is that nothing but the load itself takes time."""
    log = LoadedLog((EpochEntry(LeaderEpoch(2), Offset(0)),), Offset(50))
    kafka = SimulatedKafka(1, brokers=range(1, 101), keep_timeline=False)
    parts = []
    for index in range(10_000):
        first = BrokerId(index % 98 + 1)
        replicas = (first, BrokerId(first + 1), BrokerId(first + 2))
        parts.append(LoadedPartition(replicas, replicas, first, LeaderEpoch(2), dict.fromkeys(replicas, log)))
    kafka.load("big", parts, idle=True)
    answers: list[object] = []
    kafka.request("client", 1, DescribePartitions(None), answers.append)
    kafka.run_for(1)
    (answer,) = answers
    assert len(answer.partitions) == 10_000  # type: ignore[attr-defined]
    assert kafka.truth.log_end(1, TopicPartition("big", 0)) == 50


def test_a_host_crash_drops_what_was_not_flushed_and_a_kill_does_not() -> None:
    story = Story(A, B, C)
    story.write("old")
    story.run_for(story.settings.writeback + 1)
    story.write("new")
    story.kill(B)
    story.host_crash(C)
    assert story.holds(B) == ["old", "new"]
    assert story.holds(C) == ["old"]


def test_a_recreated_topic_has_another_id_and_none_of_the_old_records() -> None:
    story = Story(A, B, C)
    story.write("old")
    former = story.state.topic_id
    story.kill(C)
    story.delete_topic("orders")
    story.create_topic("orders", [[A, B, C]])
    story.start(C)
    story.run_for(10)
    story.write("new")
    assert story.state.topic_id != former
    assert story.holds(A) == story.holds(C) == ["new"]


def test_deleted_records_are_not_missing_and_followers_take_the_new_start_over() -> None:
    story = Story(A, B, C)
    story.write("one")
    story.write("two")
    story.run_for(2)
    story.delete_records(ORDERS, 1)
    story.write("three")
    story.run_for(2)
    assert story.lost() == set()
    assert story.holds(B) == ["two", "three"]


def test_a_vector_keeps_gaps_until_a_record_comes_and_no_more_generations_than_allowed() -> None:
    log = Log(TopicId("t"), vector_limit=3)
    for epoch in (1, 2, 4, 5, 6):
        log.assign(epoch, log.end)
        if epoch != 4:
            log.append(Batch(log.end, 2, epoch, "p", log.end, 0.0))
    assert [tuple(entry) for entry in log.epochs] == [(2, 2), (5, 4), (6, 6)]
    assert log.end_of(4) == (2, 4)
    assert log.end_of(7) == (-1, -1)
    assert log.truncate(5) == 3
    assert (log.end, log.latest_epoch) == (5, 5)


def test_a_vector_of_one_generation_knows_its_last_one_after_a_cut_through_those_it_forgot() -> None:
    log = Log(TopicId("t"), vector_limit=1)
    for epoch in (1, 2, 3):
        log.append(Batch(log.end, 2, epoch, "p", log.end, 0.0))
    assert (log.forgets(1), log.end_of(2)) == (True, (2, 4))
    log.truncate(1)
    assert (log.vector, log.forgotten) == ((), 1)
    assert (log.forgets(1), log.end_of(1), log.end_of(2)) == (False, (1, 1), (-1, -1))


def test_the_history_tells_each_change_of_the_isr_and_begins_anew_once_all_are_in_sync() -> None:
    story = Story(A, B, C, min_isr=2)
    story.write("r")
    story.host_crash(C)
    story.until_isr(A, B)
    told = ReadLog(story)
    history = told.histories([ORDERS])[ORDERS]
    assert [(step.isr, step.min_isr, step.recovering) for step in history.steps] == [
        ((A, B, C), 2, False),
        ((A, B), 2, False),
    ]
    (crashed,) = [start.boot for start in history.starts if start.broker == C]

    story.start(C)
    story.until_isr(A, B, C)

    history = told.histories([ORDERS])[ORDERS]
    assert [step.isr for step in history.steps] == [(A, B, C)]
    boots = {id: {start.boot for start in history.starts if start.broker == id} for id in (A, C)}
    assert len(boots[A]) == 1
    assert boots[C] - {crashed}
