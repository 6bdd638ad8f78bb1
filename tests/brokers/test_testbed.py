"""The testbed itself: what other tests take for given about the accidents it makes, checked with Kafka's own files.

What is marked `full` the tests of the product would show as well, only less plainly, or nobody has touched for long.
What they show as plainly (fresh disks, controllers that are gone, ways in, cut-off brokers) is not told again here.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from brokers.conftest import TWO_DISKS, USUAL
from testbed import distribution
from testbed.cluster import RealKafka
from testbed.distribution import RELEASES, DistributionUnavailable, Release, fetch
from testbed.replicas import EpochStart
from testbed.security import Credentials, Mechanism, Security
from testbed.waiting import WaitedInVain, wait_until
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers

PASSWORD = 'a "good" \\ secret=1'
ELR_OFF_AND_ON = [("3.9", False), ("4.0", False), ("4.0", True), ("newest", False), ("newest", True)]
NEWEST_ALWAYS = [
    ("newest", True) if each == ("newest", True) else pytest.param(*each, marks=pytest.mark.full)
    for each in ELR_OFF_AND_ON
]


def racks_and_topics(kafka: RealKafka) -> tuple[dict[int, str], set[str]]:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    nodes = admin.describe_cluster().result().nodes
    return {node.id: node.rack for node in nodes}, set(admin.list_topics(timeout=20).topics)


@pytest.mark.parametrize(("release", "elr"), NEWEST_ALWAYS)
def test_survivors_of_a_divergence_differ_in_log_end_and_in_last_epoch(
    release: str, elr: bool, warm: WarmKafka
) -> None:
    with warm.lent(release, **(USUAL if (release, elr) == ("newest", True) else {"elr": elr})) as kafka:
        orders = kafka.offline_partition("orders", survivors={2: 27, 3: 15}, partitions=2)

        assert (orders.dead, orders.survivors, kafka.running) == ((1,), (2, 3), (2, 3))
        assert kafka.unfenced() == {2, 3}
        for index, state in kafka.describe("orders").items():
            assert state.leader is None
            assert (state.isr, state.elr) == (((), (1,)) if elr else ((1,), ()))
            assert state.leader_epoch == orders[index].leader_epoch
            epochs = {broker: kafka.epoch_checkpoint(broker, "orders", index) for broker in kafka.brokers}
            assert {broker: starts[0] for broker, starts in epochs.items()} == dict.fromkeys(
                (1, 2, 3), EpochStart(0, 0)
            )
            assert epochs[2][-1].epoch < epochs[3][-1].epoch < epochs[1][-1].epoch <= state.leader_epoch
            assert {starts[-1].offset for starts in epochs.values()} == {10}
            assert {broker: kafka.log_end(broker, "orders", index) for broker in (2, 3)} == {2: 27, 3: 15}


def test_the_testbed_asks_nobody_who_is_behind(kafka: RealKafka) -> None:
    """A thawed broker still shows the leader it knew; what the testbed says must not be that."""
    kafka.create_topic("orders", [[1, 2, 3]], min_insync_replicas=1)
    kafka.freeze(1)
    kafka.wait_for("orders", lambda state: state.leader == 2)

    kafka.thaw(1)

    assert kafka.describe("orders")[0].leader == 2


def test_a_frozen_broker_stands_still_at_once(kafka: RealKafka) -> None:
    """A leader that went on for a moment would serve a follower that is thawed next."""
    for broker in kafka.brokers:
        kafka.freeze(broker)
        stopped = [pid for pid in kafka.processes if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)]
        assert len(stopped) == broker


def test_a_topic_is_made_though_those_that_may_be_named_as_controller_stand_still(kafka: RealKafka) -> None:
    for broker in (2, 3):
        kafka.freeze(broker)

    for name in ("first", "second", "third"):
        kafka.create_topic(name, [[1]])

    assert kafka.unfenced() >= {1}


def test_a_wait_in_vain_says_for_what_and_what_it_saw(kafka: RealKafka) -> None:
    kafka.create_topic("orders", [[1, 2, 3]])
    with pytest.raises(WaitedInVain, match=r"all partitions of orders are as wanted; last seen: .*leader=1"):
        kafka.wait_for("orders", lambda state: state.leader == 2, patience=0.3)


def test_a_cluster_that_nobody_has_stands_still_and_whoever_has_it_next_finds_it_whole(warm: WarmKafka) -> None:
    with warm.lent(**USUAL) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]])
        kafka.freeze(1)
        kafka.kill(2)

    assert kafka.running == ()

    with warm.lent(**USUAL) as again:
        assert again is kafka
        assert again.unfenced() == {1, 2, 3}
        assert racks_and_topics(again)[1] == set()


@pytest.mark.full
@pytest.mark.xdist_group("disks")
def test_a_disk_that_was_broken_can_be_broken_again_by_whoever_has_the_cluster_next(warm: WarmKafka) -> None:
    for _ in ("first", "next"):
        with warm.lent(elr=False, **TWO_DISKS) as kafka:
            leads_no_more_what_is_on_its_broken_disk(kafka)


def leads_no_more_what_is_on_its_broken_disk(kafka: RealKafka) -> None:
    kafka.create_topic("orders", [[1, 2, 3]] * 4)
    whole, broken = ({name for name in kafka.on_disk(1, disk) if name.startswith("orders")} for disk in (1, 2))
    assert whole | broken == {f"orders-{index}" for index in range(4)}
    assert broken

    kafka.break_disk(1)

    kafka.wait_for("orders", lambda state: (state.leader == 1) is (f"orders-{state.index}" in whole))


@pytest.mark.full
def test_kafkas_own_tools_take_our_properties() -> None:
    """Asked on 3.9, the last release whose main jar has a tool that takes --command-config."""
    with RealKafka("3.9", brokers=1, security=Security(super_users=("User:ann", "User:CN=bob"))) as kafka:
        kafka.add_scram_user("ann", PASSWORD)
        for who in (Credentials(Mechanism.SCRAM, "ann", PASSWORD), Credentials(Mechanism.MTLS, "bob")):
            where = ("--bootstrap-server", kafka.bootstrap_for(who.mechanism))
            how = ("--command-config", str(kafka.client_properties(who)))

            said = kafka.run_tool("kafka.admin.BrokerApiVersionsCommand", *where, *how)

            assert f"{kafka.address(1, who.mechanism)} (id: 1 " in said


def test_nodes_do_not_outlive_an_owner_who_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-m", "testbed", "--brokers", "1"],
        stdout=subprocess.PIPE,
        text=True,
        env=own_environment(tmp_path),
    )
    assert owner.stdout
    with owner, owner.stdout:
        said = [owner.stdout.readline() for _ in range(3)]
        bootstrap = said[2].split()[-1]
        host, port = bootstrap.split(":")
        socket.create_connection((host, int(port)), timeout=10).close()
        assert list(tmp_path.iterdir())

        owner.kill()

    wait_until("its folder is gone", lambda: list(tmp_path.iterdir()), lambda left: not left)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=10)


@pytest.mark.full
def test_the_playground_ends_at_a_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "testbed", "--brokers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own_environment(tmp_path)) as owner:
        assert owner.stdout
        said = [owner.stdout.readline() for _ in range(4)]
        owner.send_signal(signal.SIGINT)

        assert owner.stdout.read() == "Ended.\n"

    assert owner.returncode == 0
    assert "controller" in said[3]
    assert not list(tmp_path.iterdir())


def own_environment(temporary: Path) -> dict[str, str]:
    tests = str(Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": tests, "TMPDIR": str(temporary)}


def test_what_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_RECOVERY_CACHE", str(tmp_path))
    with pytest.raises(DistributionUnavailable, match=r"Kafka 0\.0\.0 \('imaginary'\) can't be had: .*kafka_2\.13"):
        fetch(Release("imaginary", "0.0.0", "", elr=False))

    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_jars_that_are_not_the_pinned_ones_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_RECOVERY_CACHE", str(tmp_path))
    monkeypatch.setattr(distribution, "_download", lambda release, repository: [forged(repository)])
    with pytest.raises(DistributionUnavailable, match="its jars are not the pinned ones"):
        fetch(RELEASES["newest"])

    assert not list(tmp_path.glob("kafka-*/"))


def forged(repository: Path) -> Path:
    repository.mkdir()
    jar = repository / "kafka.jar"
    jar.write_bytes(b"not Kafka")
    return jar
