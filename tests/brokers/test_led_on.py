"""Kafka 3.9 lets a leader go on as another process, in the same leader epoch: then two logs of one epoch may differ."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brokers.conftest import ON_3_9, Recovery
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from testbed.cluster import RealKafka
from testbed.scenarios import lead_on

pytestmark = pytest.mark.brokers

FORKED = "two-logs-of-one-epoch"


@pytest.mark.parametrize("kafka", [ON_3_9], indirect=True)
async def test_behind_a_leader_that_led_on_as_another_process_a_follower_in_sync_may_lack_what_was_acknowledged(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Broker 1 lost the end of its log, and led on (KAFKA-18106). It wrote beyond the end of broker 2's log before
    broker 2 asked it. By their epochs both logs are one, so Kafka cuts nothing off, and takes broker 2 into the ISR.
    Each record is a batch of its own: a batch that spans the end of its log broker 2 can't append.

    Takes 25 s: sessions have to run out, and a broker and the controller start anew.
    """
    lead_on(kafka, FORKED)
    told = [each for number in range(60) for each in kafka.produce(FORKED, 0, 1, f"one-and-three-{number}")]
    kafka.thaw(2)
    state = kafka.wait_for(FORKED, lambda state: set(state.isr) == {1, 2, 3}, 60)[0]
    assert (state.leader, state.leader_epoch) == (1, 0), "it was elected anew"
    for broker in (3, 2):
        kafka.freeze(broker)
        kafka.wait_until_fenced(broker)
    kafka.kill(1)
    for broker in (2, 3):
        kafka.thaw(broker)
    kafka.wait_until_unfenced(2, 3)
    kafka.wait_until_fenced(1)
    assert not set(kafka.read_replica(2, FORKED, 0)) >= set(told), "broker 2 has all of it"

    async with recovery(kafka).with_(reads_history=True).engine() as engine:
        id = TopicPartition(FORKED, 0)
        plan = await engine.plan(Scope((id,)), {id: BrokerId(2)})

    assert [each.loss and each.loss.loss_class for each in plan.decisions] == [LossClass.UNKNOWN], plan.decisions
