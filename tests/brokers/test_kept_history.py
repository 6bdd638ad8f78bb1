"""Kafka has cut its metadata log off, and what an earlier process kept of it still proves that nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from brokers.acknowledged import acknowledging
from brokers.conftest import LED, Recovery
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.metadata_log.kept import KeptHistory
from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.formats.documents import canonical, read
from testbed.cluster import RealKafka

pytestmark = [pytest.mark.brokers, pytest.mark.full]

ORDERS = TopicPartition("orders", 0)
READ_WITHIN, ANSWERED_WITHIN = timedelta(seconds=60), timedelta(seconds=20)
BY_ITSELF = Policy((Rule("everything", approval=Approval.AUTO_LOSSLESS),))
CUT_OFF_SOON: Mapping[str, Any] = {
    "elr": False,
    "properties": {"metadata.log.max.record.bytes.between.snapshots": "1", "metadata.max.retention.ms": "20000"},
}
"""A snapshot after every record. A controller looks once a minute what it can cut off, and no setting has it look more
often; what is younger than 20 s stays, so that who reads all the time misses nothing."""


def losses(plan: Plan) -> list[LossClass]:
    return [each.loss.loss_class for each in plan.decisions if each.loss is not None]


async def is_told(ours: Recovery) -> bool:
    """Whether the log, as another process finds it now, tells how the ISR came to be what it is."""
    async with ours.cluster() as anew:
        assert await anew.read_metadata_log(READ_WITHIN, ANSWERED_WITHIN) is None
        found = anew.history_to_keep()
    assert found is not None
    return ORDERS.partition in [each.index for each in found.partitions]


async def read_all_the_time(cluster: KafkaCluster) -> None:
    """As the operator does."""
    while True:
        assert await cluster.read_metadata_log(READ_WITHIN, ANSWERED_WITHIN) is None
        await asyncio.sleep(1)


@pytest.mark.parametrize(
    "kafka",
    [
        pytest.param({"release": "newest", **CUT_OFF_SOON}, id="newest"),
        pytest.param({"release": "3.9", **CUT_OFF_SOON}, id="3.9"),
    ],
    indirect=True,
)
async def test_what_was_kept_proves_what_the_log_no_longer_tells(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Brokers 3 and 2 leave the ISR, and Kafka cuts its log off behind that; a process had read it, and keeps what it
    knows.

    Takes 75 to 130 s, nearly all of them until Kafka does.
    """
    ours = recovery(kafka).with_(policy=BY_ITSELF, approver=None, reads_history=True)
    kafka.create_topic(ORDERS.topic, [[1, 3, 2]], min_insync_replicas=2)
    with acknowledging(kafka.bootstrap, (ORDERS.topic,)) as told:
        told.wait_for_more(ORDERS.topic)
        async with ours.cluster() as before, asyncio.timeout(250):
            reading = asyncio.create_task(read_all_the_time(before))
            for broker in (3, 2):
                kafka.freeze(broker)
                await asyncio.to_thread(kafka.wait_until_fenced, broker)
            while await is_told(ours):
                await asyncio.sleep(1)
            reading.cancel()
            assert await before.read_metadata_log(READ_WITHIN, ANSWERED_WITHIN) is None
            kept = before.history_to_keep()
        assert kept is not None
        assert kept.partitions, "this process had read all of it"
        kafka.kill(1)
        for broker in (2, 3):
            kafka.thaw(broker)
        kafka.wait_until_unfenced(2, 3)
        kafka.wait_until_fenced(1)
    async with ours.cluster() as without:
        assert await without.read_metadata_log(READ_WITHIN, ANSWERED_WITHIN) is None
        with ours.engine_on(without) as engine:
            assert losses(await engine.plan(ALL_OFFLINE)) == [LossClass.UNKNOWN]

    async with ours.cluster() as later:
        later.recall_history(read(KeptHistory, canonical(kept), "what was kept"))
        assert await later.read_metadata_log(READ_WITHIN, ANSWERED_WITHIN) is None
        with ours.engine_on(later) as engine:
            report = await engine.recover(ALL_OFFLINE)

    assert report[ORDERS].outcome in LED
    there = set(kafka.consume(ORDERS.topic, 0))
    assert [value for value in told.values[ORDERS.topic] if value not in there] == []
