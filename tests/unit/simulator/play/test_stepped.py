"""A played cluster whose time stands still until somebody lets it pass."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from unit.simulator.play.playing import Played, played

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[Played]:
    """Three brokers; a producer writes once a second."""
    kafka = SimulatedKafka(1)
    kafka.create_topic("orders", [[1, 2, 3]])
    kafka.producer("writer", ORDERS, every=1.0)
    kafka.run_for(5.5)
    with played(kafka, stepped=True) as found:
        yield found


def written(cluster: Played) -> int:
    """Where the leader's log ends."""
    return int(cluster.do(lambda: cluster.kafka.truth.log_end(BrokerId(1), ORDERS)))


def test_nothing_happens_by_itself_and_everything_in_a_step(cluster: Played) -> None:
    before = written(cluster)
    cluster.do(lambda: cluster.kafka.kill(2))

    AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10)
    assert written(cluster) == before
    assert not cluster.do(lambda: cluster.kafka.controllers.state.brokers[BrokerId(2)].fenced)

    assert cluster.step(10) == pytest.approx(cluster.do(lambda: cluster.kafka.scheduler.now))
    assert written(cluster) == before + 10
    assert cluster.do(lambda: cluster.kafka.controllers.state.brokers[BrokerId(2)].fenced)


def test_who_asks_is_answered_all_the_same(cluster: Played) -> None:
    """What goes to the controller, and what waits for other replicas, too."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("payments", 1, 3)])["payments"].result(10)
    began = cluster.do(lambda: cluster.kafka.scheduler.now)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    producer.produce("orders", b"one")

    assert producer.flush(10) == 0
    assert cluster.do(lambda: cluster.kafka.scheduler.now) < began + 2


def test_at_the_command_line_each_line_is_a_step() -> None:
    program = [sys.executable, "-m", "kafka_recovery.cli.main", "play", "--port", "0", "--incident", "healthy"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*program, "--stepped", "--from-start"], text=True, **pipes) as play:  # type: ignore[call-overload]
        told = [play.stdout.readline()]
        while not told[-1].startswith("The cluster keeps nothing"):
            told.append(play.stdout.readline())
            assert told[-1], play.communicate()
        play.stdin.write("\nsoon\n-1\n5.5\n")
        play.stdin.flush()

        assert [play.stdout.readline() for _ in range(2)] == ["virtual second 1\n", "virtual second 6.5\n"]
        play.stdin.close()
        play.send_signal(signal.SIGINT)
        assert play.wait(20) == 0
        assert play.stderr.read().count("write a number of seconds up to 3600") == 2
    assert "Time stands still. Enter lets one second pass, a number so many.\n" in told
