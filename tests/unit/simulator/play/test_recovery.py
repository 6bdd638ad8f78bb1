"""The commands for real clusters, unchanged, on a played incident, each in a process of its own."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_recovery.cli import main
from kafka_recovery.cli.fleet.play import Call, play, told
from kafka_recovery.cli.terminal.signals import Interrupts
from kafka_recovery.cluster.kip_1275 import GET_REPLICA_LOG_INFO
from kafka_recovery.cluster.properties import read_security
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.model.timeline import What
from kafka_recovery.simulator.play.stage import incident_names, named_incident, read_incident
from unit.processes import Forked
from unit.simulator.play.playing import Played, played

ORDERS = TopicPartition("orders", 0)

POLICY = """
rules:
  - name: everything
    approval: AutoApprove
    evidence: {deadline: 10s, attempts: 1, requiredAnswers: All, maxAge: 60s}
    patience: 0s
"""
"""The deadline is far longer than an answer takes: on a busy machine a broker that lives answers seconds late. No test
waits so long: the command does not wait for a broker that is fenced."""


@contextmanager
def incident(name: str) -> Iterator[Played]:
    """The incident when all of it has happened."""
    found = named_incident(name)
    kafka = found.staged()
    kafka.run_until(found.begins_at)
    with played(kafka) as cluster:
        yield cluster


def command(*words: str) -> Forked:
    """`kafka-recovery` with these words."""
    return Forked("from kafka_recovery.cli.main import main; main()", *words)


def test_the_divergent_log_is_longer_and_is_not_elected(tmp_path: Path) -> None:
    """One of its hosts is silent."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    with incident("divergent") as cluster:
        ends = {broker: cluster.kafka.truth.log_end(broker, ORDERS) for broker in (1, 3)}
        assert ends[1] > ends[3]
        at = ("--bootstrap-server", cluster.bootstrap, "--policy", str(policy), "--all-offline-partitions")

        with command("recover", *at, "--journal", str(tmp_path / "journal")) as recovering:
            shown, said = recovering.communicate(120)

        assert recovering.returncode == 0, said
        assert cluster.do(lambda: leaders(cluster)) == {"orders-0": 3, "orders-1": 3, "payments-0": 3}
        assert "2 of 2 partitions have a leader that answers" in shown + said


PROVEN_ONLY = POLICY.replace("AutoApprove", "AutoApproveLossless")


def test_what_the_metadata_log_proves_to_lose_nothing_is_recovered_with_nobody_asked(tmp_path: Path) -> None:
    """Brokers are no controllers: named as such they tell no history, and the plan says so and elects nobody."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(PROVEN_ONLY)
    with incident("lossless") as cluster:
        alive = cluster.bootstrap.partition(",")[2]
        at = ("--bootstrap-server", alive, "--policy", str(policy))
        proposed = proposals(told(named_incident("lossless"), cluster.kafka, alive, cluster.server.controllers))
        with command(*proposed["explain"]) as explaining:
            shown, _ = explaining.communicate(120)
        assert "Loss: Lossless" in shown
        with command("explain", "orders-0", *at, "--bootstrap-controller", alive) as explaining:
            shown, _ = explaining.communicate(120)
        assert "name the controllers' own" in " ".join(shown.split())
        for controllers, led in (((), None), (("--bootstrap-controller", cluster.server.controllers), 2)):
            journal = ("--journal", str(tmp_path / "journal"))
            with command("recover", *at, "--all-offline-partitions", *controllers, *journal) as recovering:
                _, said = recovering.communicate(120)
            assert cluster.do(lambda: leaders(cluster)) == {"orders-0": led}, said


WITH_KIP_1275 = """version: 1
seed: 2
brokers: 3
topics: [{name: orders, assignments: [[1, 2, 3]]}]
traffic: [{partition: orders-0, acks_all: true, first: 1, last: 20, every: 0.5}]
faults:
  - {at: 4, kind: freeze, broker: 2, lasting: 20}
  - {at: 11, kind: freeze, broker: 3, lasting: 13}
  - {at: 21, kind: kill, broker: 1}
quiet_at: 60
switches: {designated_elections: true}
"""


def test_brokers_that_have_kip_1275_measure_and_elect_by_it(tmp_path: Path) -> None:
    """Both of the KIP's requests go over TCP; by the assignment, broker 2 would lead, whose log is the shorter one."""
    found, policy = read_incident(WITH_KIP_1275, "kip-1275.yaml"), tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    kafka = found.staged()
    kafka.run_until(found.begins_at)
    altered: list[object] = []
    kafka.timeline.subscribe(lambda event: altered.append(event) if event.what is What.ORDER else None)
    with played(kafka) as cluster:
        at = ("--bootstrap-server", cluster.bootstrap, "--policy", str(policy), "--all-offline-partitions")
        by_kip = ("--driver", "designated", "--replica-log-info-api-key", str(GET_REPLICA_LOG_INFO))

        with command("recover", *at, *by_kip, "--journal", str(tmp_path / "journal")) as recovering:
            _, said = recovering.communicate(120)

        assert recovering.returncode == 0, said
        assert cluster.do(lambda: leaders(cluster)) == {"orders-0": 3}
    assert any("kafka-unclean-recovery --all-offline" in line for line in told(found, kafka, "127.0.0.1:1", "-"))
    assert altered == []
    (plan,) = (tmp_path / "journal").rglob("plan.json")
    brokers = json.loads(plan.read_text())["evidence"]["cluster"]["brokers"]
    assert {broker["id"]: broker["epoch"] is not None for broker in brokers} == {1: False, 2: True, 3: True}


def proposals(lines: Iterable[str]) -> dict[str, list[str]]:
    """The words behind `kafka-recovery` of each command that a person is told to try, by the first of them."""
    typed = [shlex.split(line) for line in lines if line.startswith("  kafka-recovery ")]
    return {words[1]: words[1:] for words in typed}


def leaders(cluster: Played) -> dict[str, int | None]:
    """Who leads, as the controller knows."""
    return {str(id): state.leader for id, state in cluster.kafka.controllers.state.partitions.items()}


def test_what_strikes_engines_is_left_out_and_a_story_is_told_as_it_is_written() -> None:
    """A scenario in which an engine is stopped. Its story has signs that mean something to a terminal."""
    written = """# see [/etc/kafka] and [orders]
version: 1
seed: 1
brokers: 3
topics: [{name: orders, assignments: [[1, 2, 3]]}]
faults: [{at: 5, kind: pause-engine, machine: 0, lasting: 3}, {at: 6, kind: suspend}, {at: 7, kind: kill, broker: 1}]
engines: [{at: 20}]
quiet_at: 40
"""
    found = read_incident(written, "history.yaml")
    kafka = found.staged()
    kafka.run_until(found.begins_at)

    assert not kafka.alive(1)
    assert "see [/etc/kafka] and [orders]" in "\n".join(told(found, kafka, "127.0.0.1:1", "127.0.0.1:2"))


def test_whoever_has_to_sign_in_is_told_how_and_the_password_is_not_shown(tmp_path: Path) -> None:
    """The commands are printed with the file that they then need; what is printed for it is what it takes."""
    found = named_incident("healthy")
    kafka = found.staged()

    lines = list(told(found, kafka, "127.0.0.1:1", "127.0.0.1:2", users=["ann"]))

    file = tmp_path / "client.properties"
    file.write_text("\n".join(line.strip() for line in lines if re.match(r"  (security|sasl)\.", line)))
    security = read_security(file)
    assert security.sasl is not None
    assert all("--command-config client.properties" in line for line in lines if "--bootstrap-server" in line)
    assert not any("Any Kafka client may come" in line for line in lines)
    assert "s3cret" not in repr(Call(None, None, 0, from_start=False, stepped=False, denied=(), user="ann:s3cret"))


@pytest.mark.parametrize("name", incident_names())
def test_each_incident_has_a_story_and_keeps_its_word(name: str) -> None:
    """What is offline is offline; the healthy cluster is healthy."""
    found = named_incident(name)
    kafka = found.staged()
    kafka.run_until(found.begins_at)

    assert found.story
    assert bool(kafka.controllers.state.leaderless) is (name != "healthy")


def test_play_says_where_it_listens_and_ends_when_told() -> None:
    with command("play", "--port", "0", "--incident", "behind") as play:
        told: list[str] = []
        while not told or not told[-1].startswith("Any Kafka client"):
            told.append(play.stdout.readline())
            assert told[-1], play.communicate(20)

        play.send_signal(signal.SIGINT)

        play.wait(20)
        assert play.returncode == 0
    assert told[1].startswith("bootstrap.servers=127.0.0.1:")
    assert any("kafka-recovery recover --all-offline-partitions" in line for line in told)


@pytest.mark.parametrize(
    ("denied", "user", "said"),
    [
        ("ALTER:cluster", None, "--user"),
        ("FLY:cluster", "ann:s3cret", "known are ALTER:cluster"),
        ("READ:cluster", "ann:s3cret", "READ:TOPIC"),
        ("ALTER", "ann:s3cret", "known are"),
    ],
)
async def test_what_can_t_be_denied_is_said_and_what_can(denied: str, user: str | None, said: str) -> None:
    call = Call(None, None, 0, from_start=True, stepped=False, denied=[denied], user=user)

    with pytest.raises(InvalidDocument, match=said):
        await play(call, Interrupts())


def test_an_incident_is_another_cluster_each_time() -> None:
    """Else a recovery would find the journal of one that was begun on a cluster which is no more."""
    found = named_incident("behind")

    assert found.staged().cluster_id != found.staged().cluster_id


def test_an_incident_that_there_is_not_is_named() -> None:
    ended = CliRunner().invoke(main.app, ["play", "--incident", "flood"])

    assert ended.exit_code == 2
    assert "'flood'; known are behind, divergent, empty-disk, healthy" in ended.stderr
