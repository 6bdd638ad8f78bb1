"""A snapshot of a real cluster: every copy of every partition, led or not, as its own broker tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.conftest import Command
from kafka_recovery.decision.logs import equal
from kafka_recovery.fleet.export import Archive
from testbed.cluster import RealKafka
from unit.fleet.looks import newest

pytestmark = pytest.mark.brokers


def test_copies_of_partitions_that_are_led_are_measured_too(kafka: RealKafka, command: Command, tmp_path: Path) -> None:
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 1]])
    kafka.create_topic("lost", [[1]])
    kafka.produce("orders", 0, 20, "all")
    kafka.wait_for_log_ends(3, "orders", {0: 20})
    kafka.kill(1)
    kafka.wait_until_fenced(1)

    words = ("snapshot", "--to", str(tmp_path / "archive"), "--bootstrap-server", kafka.bootstrap)
    taken = command("kafka-recovery", *words)

    assert taken.returncode == 0, taken.stderr
    evidence = newest(Archive.at(str(tmp_path / "archive")), kafka.cluster_id)
    seen = {
        (partition.id.topic, partition.id.partition, int(replica.broker)): replica
        for partition in evidence.partitions
        for replica in partition.replicas
    }
    orders = [seen["orders", 0, broker] for broker in (1, 2, 3)]
    assert [replica.log.end if replica.log else replica.problem and replica.problem.code for replica in orders] == [
        "BrokerUnreachable",
        20,
        20,
    ]
    two, three = orders[1].log, orders[2].log
    assert two is not None
    assert three is not None
    assert equal(two, three)
    assert {partition.id.topic for partition in evidence.partitions if partition.leader is None} == {"lost"}
