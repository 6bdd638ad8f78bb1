"""What the survivors of a tiered topic say of its remote tier, once the leader that filled it is dead."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brokers.conftest import LED, Recovery
from brokers.test_upstream import TIERED
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from testbed import replicas
from testbed.cluster import RealKafka
from testbed.tiers import tier, tiered
from testbed.waiting import wait_until

pytestmark = [pytest.mark.brokers, pytest.mark.full, pytest.mark.xdist_group("upstream 4.0")]

TOGETHER, WITHOUT_3, ALONE = 30, 50, 70
"""Log ends of broker 3, of broker 2, and of broker 1, which leads."""
SEGMENT = 5


def test_survivors_tell_of_nothing_in_the_tier_beyond_their_own_logs(tmp_path: Path) -> None:
    """Half a minute: 70 records are written one by one, for a batch is in one segment.

    So what they tell is no witness of what the dead leader had acknowledged. Where their own disks begin they do tell.
    """
    with RealKafka("4.0", properties=tiered(tmp_path)) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]], **TIERED)
        filled(kafka, tmp_path, 0, TOGETHER)
        wait_until("broker 3 knows", lambda: told(kafka, 3), lambda last: last == TOGETHER - SEGMENT - 1)
        kafka.freeze(3)
        kafka.wait_for("orders", lambda state: 3 not in state.isr)
        filled(kafka, tmp_path, TOGETHER, WITHOUT_3)
        wait_until("broker 2 knows", lambda: told(kafka, 2), lambda last: last == WITHOUT_3 - SEGMENT - 1)
        kafka.freeze(2)
        kafka.wait_for("orders", lambda state: state.isr == (1,))
        filled(kafka, tmp_path, WITHOUT_3, ALONE)
        kafka.kill(1)
        for broker in (2, 3):
            kafka.thaw(broker)
        kafka.wait_until_fenced(1)
        kafka.wait_until_unfenced(2, 3)

        held = tier(tmp_path)
        ends = {broker: kafka.log_end(broker, "orders", 0) for broker in (2, 3)}
        assert max(held) > max(ends.values())
        assert ends == {2: WITHOUT_3, 3: TOGETHER}
        assert {broker: told(kafka, broker) for broker in (2, 3)} == {b: end - SEGMENT - 1 for b, end in ends.items()}
        assert {broker: begins(kafka, broker) for broker in (2, 3)} == {b: end - SEGMENT for b, end in ends.items()}

        assert asyncio.run(gathered(kafka)) == {2: WITHOUT_3 - SEGMENT, 3: TOGETHER - SEGMENT}

        kafka.kill(3)
        kafka.start(3)
        wait_until("broker 3 has its log", lambda: begins(kafka, 3), lambda start: start == TOGETHER - SEGMENT)
        assert told(kafka, 3) == -1


def test_of_equal_logs_the_one_that_begins_earlier_on_its_own_disk_is_elected_and_all_can_be_read(
    tmp_path: Path,
) -> None:
    """Broker 3 is dead when the others clean their disks; whoever starts without a leader does not clean its own.

    Broker 2 stands first in the assignment. Half a minute: 30 records are written one by one, and sessions run out.
    """
    with RealKafka("4.0", properties=tiered(tmp_path)) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]], **TIERED | {"local_retention_bytes": 1 << 20})
        filled(kafka, tmp_path, 0, TOGETHER)
        kafka.wait_for_log_ends(3, "orders", {0: TOGETHER})
        kafka.kill(3)
        kafka.wait_for("orders", lambda state: 3 not in state.isr)
        kafka.configure_topic("orders", "local.retention.bytes", "1")
        wait_until("broker 2 cleans its disk", lambda: begins(kafka, 2), lambda start: start == TOGETHER - SEGMENT)
        kafka.freeze(2)
        kafka.wait_for("orders", lambda state: state.isr == (1,))
        kafka.kill(1)
        kafka.thaw(2)
        kafka.start(3)
        kafka.wait_until_fenced(1)
        kafka.wait_until_unfenced(2, 3)
        ours = Recovery(kafka, tmp_path / "journal")

        seen = asyncio.run(gathered(kafka))
        report = asyncio.run(ours.recover())

        assert seen == {2: TOGETHER - SEGMENT, 3: 0}
        assert {broker: kafka.log_end(broker, "orders", 0) for broker in (2, 3)} == {2: TOGETHER, 3: TOGETHER}
        done = report[TopicPartition("orders", 0)]
        assert (done.outcome in LED, done.leader) == (True, 3), done
        assert len(kafka.consume("orders", 0)) == TOGETHER


async def gathered(kafka: RealKafka) -> dict[int, int | None]:
    """Where logs begin on their brokers' disks, as a look tells it."""
    addresses = [Address.parse(kafka.address(broker)) for broker in (2, 3)]
    async with KafkaCluster(addresses, PLAINTEXT) as cluster:
        evidence = await cluster.gather(Scope((TopicPartition("orders", 0),)), EvidenceRules())
    (seen,) = evidence.partitions
    assert seen.tiered
    return {replica.broker: replica.log.local_start for replica in seen.replicas if replica.log}


def filled(kafka: RealKafka, folder: Path, start: int, end: int) -> None:
    """All of these are acknowledged, and in the tier, but for the segment that is written to."""
    for number in range(start, end):
        assert kafka.produce("orders", 0, 1, f"record-{number}")
    wait_until("all is in the tier", lambda: tier(folder), lambda held: max(held, default=0) == end - 2 * SEGMENT)


def told(kafka: RealKafka, broker: int) -> int:
    return replicas.last_tiered(kafka.address(broker), "orders", 0)


def begins(kafka: RealKafka, broker: int) -> int:
    return replicas.log_start(kafka.address(broker), "orders", 0, local=True)
