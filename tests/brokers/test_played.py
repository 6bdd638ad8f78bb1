"""Kafka's own tools on a cluster that is only played: they need a Java and a jar, and no broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.play.stage import named_incident
from kafka_recovery.simulator.wire.metadata_log import Written
from testbed.kafka_tools import KafkaTools
from testbed.waiting import wait_until
from unit.simulator.play.playing import Played, played

pytestmark = pytest.mark.brokers
GROUP = "played"


@pytest.fixture
def cluster() -> Iterator[Played]:
    """Three brokers, and a topic of two partitions."""
    kafka = SimulatedKafka(1)
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 1]], min_isr=2)
    kafka.run_for(2)
    with played(kafka) as found:
        yield found


@pytest.fixture
def tools(cluster: Played, tmp_path: Path) -> KafkaTools:
    """Kafka's tools, told where the cluster is."""
    return KafkaTools(cluster.bootstrap, tmp_path)


def test_kafka_topics_makes_and_describes(tools: KafkaTools) -> None:
    tools.run("TopicCommand", "--create", "--topic", "payments", "--partitions", "2", "--replication-factor", "3")

    told = tools.run("TopicCommand", "--describe")

    assert "Topic: payments" in told
    assert "PartitionCount: 2\tReplicationFactor: 3" in told
    assert "Topic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1" in told


def test_what_the_console_producer_writes_the_console_consumer_reads(tools: KafkaTools) -> None:
    tools.run("ConsoleProducer", "--topic", "orders", given="one\ntwo\nthree\n")

    def read() -> list[str]:
        return sorted(
            line
            for partition in ("0", "1")
            for line in tools.run(
                "consumer.ConsoleConsumer", "--topic", "orders", "--partition", partition, "--offset", "earliest",
                "--timeout-ms", "3000",
            ).split()
        )  # fmt: skip

    wait_until("a consumer is quick enough to read all", read, lambda lines: lines == ["one", "three", "two"])


def test_kafka_metadata_quorum_tells_who_leads_it(tools: KafkaTools) -> None:
    told = tools.run("MetadataQuorumCommand", "describe", "--status")

    assert "LeaderId:               3000" in told
    assert "HighWatermark:" in told


def test_kafka_metadata_quorum_asks_a_controller_itself(cluster: Played, tmp_path: Path) -> None:
    tools = KafkaTools(cluster.server.controllers, tmp_path, "--bootstrap-controller")

    told = tools.run("MetadataQuorumCommand", "describe", "--replication")

    assert "3000" in told
    assert "Leader" in told


def test_kafka_reads_the_metadata_log(tmp_path: Path) -> None:
    """As a file: nothing but a broker fetches it, and that would take part in the cluster."""
    kafka = SimulatedKafka(1)
    kafka.create_topic("orders", [[1, 2, 3]], min_isr=2)
    kafka.run_for(2)
    kafka.kill(1)
    kafka.run_for(5)
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(Written(kafka, lambda id: ("127.0.0.1", 9092)).read(0, 2**20))

    told = KafkaTools("", tmp_path).dumped(file)

    for said in (
        '"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":27}',
        '"type":"TOPIC_RECORD","version":0,"data":{"name":"orders"',
        '"resourceName":"orders","name":"min.insync.replicas","value":"2"',
        '"replicas":[1,2,3],"isr":[1,2,3],"removingReplicas":[],"addingReplicas":[],"leader":1,"leaderEpoch":0',
        '"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":0,"data":{"brokerId":1,"brokerEpoch":3,"fenced":1}',
        '"isr":[2,3],"leader":2}',
    ):
        assert said in told, told
    assert told.count("isvalid: true") == told.count("isvalid") > 1


def test_kafka_leader_election_elects_uncleanly(tmp_path: Path) -> None:
    """As Kafka does it: the first replica in the assignment that lives, which is the one that has nothing.

    Told brokers that live: on the one whose host is gone the tool would wait for as long as it waits for everything.
    """
    found = named_incident("empty-disk")
    kafka = found.staged()
    kafka.run_until(found.begins_at)
    with played(kafka) as cluster:
        alive = [cluster.server.address(broker.id) for broker in kafka.brokers.values() if broker.is_open]
        tools = KafkaTools(",".join(f"{host}:{port}" for host, port in alive), tmp_path)

        told = tools.run("LeaderElectionCommand", "--election-type", "unclean", "--topic", "orders", "--partition", "0")

        assert "orders-0" in told
        state = cluster.do(lambda: kafka.truth.state(TopicPartition("orders", 0)))
        assert state is not None
        assert state.leader == 2
