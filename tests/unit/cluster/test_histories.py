"""A look brings along what the controllers' metadata log tells of its partitions; and why that is nothing, if it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.cluster.kafka_cluster import Controllers, KafkaCluster
from kafka_recovery.cluster.metadata_log.reader import MetadataLog
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.cluster.sockets import Dial
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import EvidenceRules
from unit.cluster.metadata_log import test_reader, writing
from unit.cluster.metadata_log.test_reader import ONE, TWO
from unit.cluster.metadata_log.writing import A, B, C, changed, registered
from unit.cluster.play import PATIENCE, SOON, Log, Play, offline
from unit.cluster.stage import Heard

RULES = EvidenceRules(deadline=PATIENCE)
LAST_LOOK = EvidenceRules(deadline=SOON, attempts=1)


@dataclass(frozen=True, slots=True)
class Played(Controllers):
    """Controllers as a test of the reader has them."""

    quorum: test_reader.Controllers

    def metadata_log(self, threads: Threads, dial: Dial | None) -> MetadataLog:
        return MetadataLog(self.quorum, self.addresses, threads)  # type: ignore[arg-type]


@asynccontextmanager
async def disaster(begins: datetime | None = None) -> AsyncIterator[tuple[Play, KafkaCluster, test_reader.Controllers]]:
    """B and C left the ISR of orders-0, then its leader A died; its brokers have applied all that was committed."""
    log = writing.created()
    log.now = round(begins.timestamp() * 1000) if begins else log.now
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A]))
    log.add(changed(leader=writing.NO_LEADER))
    quorum = test_reader.Controllers(log)
    play = Play(applied=dict.fromkeys((A, B, C), log.end - 1), watermark=log.end)
    play.add(offline(), b1=Log(30), b2=Log(27), b3=Log(15))
    async with play.staged(A, B, C):
        bootstrap = [member.address for member in play.members.values()]
        async with KafkaCluster(bootstrap, PLAINTEXT, controllers=Played((ONE, TWO), PLAINTEXT, quorum)) as cluster:
            yield play, cluster, quorum


async def gathered(cluster: KafkaCluster) -> PartitionHistory:
    (partition,) = (await cluster.gather(ALL_OFFLINE, RULES)).partitions
    assert partition.history is not None
    return partition.history


async def test_each_partition_has_its_history_as_new_as_the_look() -> None:
    async with disaster() as (_, cluster, _):
        evidence = await cluster.gather(ALL_OFFLINE, RULES)

    (partition,) = evidence.partitions
    assert partition.history is not None
    assert [step.isr for step in partition.history.steps] == [(A, B, C), (A, B), (A,), (A,)]
    assert partition.history.topic_id == partition.topic_id
    assert (partition.history.as_of, evidence.cluster.history_problem) == (evidence.cluster.as_of, None)


async def test_a_partition_without_a_leader_is_told_since_when_by_the_controllers_clock() -> None:
    async with disaster() as (_, cluster, quorum):
        (seen,) = (await cluster.gather(ALL_OFFLINE, RULES)).partitions

    assert seen.offline_since == datetime.fromtimestamp(quorum.log.now / 1000, UTC)


async def test_a_time_that_is_yet_to_come_is_not_told() -> None:
    async with disaster(begins=datetime.now(UTC) + timedelta(hours=1)) as (_, cluster, _):
        (seen,) = (await cluster.gather(ALL_OFFLINE, RULES)).partitions

    assert seen.history is not None
    assert seen.offline_since is None


async def test_a_broker_that_is_restarted_while_logs_are_measured_is_seen_to_be() -> None:
    """The metadata log is read last: what was measured before a restart must not count as what is there after it."""
    async with disaster() as (play, cluster, quorum):
        at = quorum.log.end

        def restarts(heard: Heard) -> Any:
            if quorum.log.end == at:
                quorum.log.add(registered(B, at))
            return play.fetch(B, heard)

        play.members[B].roles["Fetch"] = restarts
        history = await gathered(cluster)

    assert [start.epoch for start in history.starts if start.broker == B][1:] == [at]


async def test_why_no_history_is_known_is_told() -> None:
    async with disaster() as (_, cluster, quorum):
        quorum.refuses = {ONE: 31, TWO: 31}
        evidence = await cluster.gather(ALL_OFFLINE, RULES)

    assert evidence.partitions[0].history is None
    assert evidence.cluster.history_problem is not None
    assert evidence.cluster.history_problem.code == "MetadataLogUnavailable"


async def test_controllers_that_stand_still_end_no_last_look_at_brokers_of_which_one_is_silent() -> None:
    """Between two deadlines there is no third one: what was not read in time is no history, and no reason to stop."""
    async with disaster() as (play, cluster, quorum):
        seen = (await cluster.gather(ALL_OFFLINE, RULES)).partitions
        quorum.held = asyncio.Event()
        play.members[C].roles["ListOffsets"] = lambda heard: None
        evidence = await cluster.gather(ALL_OFFLINE, LAST_LOOK, {each.id: each for each in seen})

    (partition,) = evidence.partitions
    assert partition.history is None
    measured = {replica.broker for replica in partition.replicas if replica.log}
    assert measured == {BrokerId(A), BrokerId(B)}
    assert evidence.cluster.history_problem is not None
