"""What a client feels: how long a real producer waits for its first acknowledgement after a leader died.

The producer writes a record to each of two partitions every few milliseconds, in order, and gives none of them up. The
first one that the dead leader never acknowledged is the one that waits longest.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from bench import cores, elections
from bench.disks import Disk, SyncDelay, available
from bench.results import Result
from confluent_kafka import Producer

from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.recovery.ports import Silent
from testbed.cluster import RealKafka
from testbed.topics import client

FEW, PARTITIONS = 50, 2000
URGENT, ORDINARY = TopicPartition("z-urgent", 0), TopicPartition("ordinary", PARTITIONS - FEW - 1)
EVERY = 0.01
"""Seconds between two records."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Of one partition: when its first failed record was handed over, and acknowledged (monotonic seconds)."""

    failed: float
    acknowledged: float


class Writer:
    """A process of its own with a producer that writes to some partitions until it is told to stop."""

    def __init__(self, bootstrap: str, partitions: tuple[TopicPartition, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self._link, there = context.Pipe()
        self._process = context.Process(target=_write, args=(there, bootstrap, partitions), daemon=True)
        self._process.start()
        self._link.recv()

    def waits(self, deadline: float = 60.0) -> dict[TopicPartition, Wait]:
        """Stop, let what was written be acknowledged, and say which record of each partition waited longest."""
        self._link.send("stop")
        if not self._link.poll(deadline):
            raise RuntimeError(f"the producer's records were not acknowledged within {deadline:g} s")
        found: dict[TopicPartition, Wait] = self._link.recv()
        self._process.join()
        return found

    def close(self) -> None:
        self._process.kill()


def _write(link: Any, bootstrap: str, partitions: tuple[TopicPartition, ...]) -> None:
    longest: dict[TopicPartition, Wait] = {}
    failed: list[str] = []

    def acknowledged(id: TopicPartition, sent: float, error: object, _: object) -> None:
        wait, known = Wait(sent, time.monotonic()), longest.get(id)
        if error is not None:
            failed.append(f"a record for {id} was given up: {error}")
        elif known is None or wait.acknowledged - sent > known.acknowledged - known.failed:
            longest[id] = wait

    # One request at a time: none overtakes the one that waits. No idempotence: its ids don't outlive such an election.
    properties = client(bootstrap, acks="all", message_timeout_ms=300_000, max_in_flight_requests_per_connection=1)
    producer = Producer(properties)

    def write() -> None:
        for id in partitions:
            done = partial(acknowledged, id, time.monotonic())
            producer.produce(id.topic, b"x", partition=id.partition, on_delivery=done)

    write()
    producer.flush(60)
    longest.clear()
    link.send("writing")
    while not link.poll():
        write()
        producer.poll(0)
        time.sleep(EVERY)
    producer.flush(60)
    if failed:
        raise RuntimeError(failed[0])
    link.send(longest)


class Waits(Silent):
    """How long the engine waited for members that might come back, in seconds."""

    patience = 0.0

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """The engine says so each time that it begins to wait."""
        self.patience += duration.total_seconds()


@dataclass(frozen=True, slots=True)
class Felt:
    """When everything happened (monotonic seconds): the controller had no leader, the engine began, a leader answered.

    `patience` is what the engine waited for a member's return.
    """

    waits: dict[TopicPartition, Wait]
    offline: float
    began: float
    patience: float
    led: dict[TopicPartition, float]


def felt(disk: Disk) -> Felt:
    """Fifty urgent partitions among 2000 lose their only ISR member while a producer writes to one of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        delay = SyncDelay(Path(folder))
        with RealKafka(heap=768, properties=elections.BIG, session_timeout=6, environment=delay.environment) as kafka:
            kafka.create_topic(URGENT.topic, [[1, 2, 3]] * FEW)
            kafka.create_topic(ORDINARY.topic, [[1, 2, 3]] * (PARTITIONS - FEW))
            for topic in (URGENT.topic, ORDINARY.topic):
                kafka.wait_for(topic, lambda state: len(state.isr) == len(kafka.brokers))
            for broker in (2, 3):
                kafka.freeze(broker)
            kafka.wait_until_fenced(2, 3)
            with delay.on(disk), cores.apart(kafka.processes), _writing(kafka) as writer:
                return _killed(kafka, writer)


@contextmanager
def _writing(kafka: RealKafka) -> Iterator[Writer]:
    writer = Writer(kafka.bootstrap, (URGENT, ORDINARY))
    try:
        yield writer
    finally:
        writer.close()


def _killed(kafka: RealKafka, writer: Writer) -> Felt:
    kafka.kill(1)
    for broker in (2, 3):
        kafka.thaw(broker)
    ordinary: elections.Wanted = {ORDINARY.topic: (ORDINARY.partition,)}
    watcher = elections.Watcher(kafka, (2, 3), ordinary, {URGENT.topic: (URGENT.partition,)})
    for topic in (URGENT.topic, ORDINARY.topic):
        kafka.wait_for(topic, lambda state: state.leader is None)
    offline = time.monotonic()
    kafka.wait_until_unfenced(2, 3)
    observer, began = Waits(), time.monotonic()
    asyncio.run(_recover(kafka, observer))
    last, first = watcher.wait()
    return Felt(writer.waits(), offline, began, observer.patience, {URGENT: first, ORDINARY: last})


async def _recover(kafka: RealKafka, observer: Waits) -> None:
    async with elections.connected(kafka) as cluster:
        with tempfile.TemporaryDirectory() as folder, local_journal(Path(folder), kafka.cluster_id) as journal:
            driver, policy = AssignmentOrderElection(cluster), elections.policy_for([URGENT.topic])
            engine = Engine(cluster, driver, journal, elections.AtOnce(), policy, observer=observer)
            report = await engine.recover(ALL_OFFLINE)
    if not report.recovered:
        raise RuntimeError(f"not recovered: {[o for o in report.outcomes if not o.outcome.is_recovered][:3]}")


def run() -> Iterator[Result]:
    """The whole wait of each partition's producer, then its parts."""
    for disk in available():
        seen = felt(disk)
        for id, kind in ((URGENT, f"one of {FEW} urgent"), (ORDINARY, f"the last of {PARTITIONS - FEW} ordinary")):
            wait, led = seen.waits[id], seen.led[id]
            yield Result(
                f"client of {kind}, {disk}: first failed to first acknowledged",
                _rounded(wait.acknowledged - wait.failed),
                "s",
            )
            yield Result(
                "  session timeout, until the controller has no leader", _rounded(seen.offline - wait.failed), "s"
            )
            yield Result(
                "  until the survivors are back, which had stood still", _rounded(seen.began - seen.offline), "s"
            )
            yield Result("  patience for members that may return", _rounded(seen.patience), "s")
            yield Result("  first look to leader answering", _rounded(led - seen.began - seen.patience), "s")
            yield Result("  until the client has found the leader", _rounded(wait.acknowledged - led), "s")


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
