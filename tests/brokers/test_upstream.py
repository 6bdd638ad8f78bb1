"""What Kafka itself does, a story for each report in docs/explanation/upstream.md: nothing of ours is under test here.

    make upstream                          # all of them
    make upstream ARGS="-k KAFKA_19522"    # one

A test that fails says that Kafka no longer does what its report claims. Then the report goes, and somebody looks again
at what the engine does about it. Each story has a cluster of its own, for some leave one behind that nothing mends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsRequest

from brokers.acknowledged import Acknowledged, acknowledging
from testbed import metadata, replicas, topics
from testbed.cluster import RealKafka
from testbed.metadata import PartitionState
from testbed.tiers import tier, tiered
from testbed.waiting import wait_until
from testbed.wire import Connection, accept

pytestmark = [pytest.mark.brokers, pytest.mark.full]
MINIMUM = "min.insync.replicas"
IN_NO_TOPIC = "existed in isrMembers, but not in the topics map"
SEVERAL = 3
SETTLED = 3.0
"""Seconds after which a controller would have elected whom it wants: it does within one, as soon as a broker is in."""
BUSY_WITH = 2500
"""Replicas that a broker is told to create. Its metadata thread does nothing else for some seconds."""
SLOW: dict[str, Any] = {"session_timeout": 8, "properties": {"replica.lag.time.max.ms": "1000"}}
"""A follower that stands still leaves the ISR by its leader's word, long before its own session ends."""
MANY = 40
TIERED: dict[str, str | int] = {
    "remote_storage_enable": "true",
    "segment_bytes": 400,
    "local_retention_bytes": 1,
    "file_delete_delay_ms": 0,
}
"""Five records fill a segment, and one that is in the tier is kept on no disk."""
REFUSED_BY_BROKER_1 = {
    ("2", "background.threads"): "2",
    ("3", "background.threads"): "2",
    ("", "background.threads"): "4",
    ("", MINIMUM): "2",
}
"""A broker doubles its threads at most, and broker 1 has one: it refuses four, and all else that is set for all."""


def on(*releases: str) -> pytest.MarkDecorator:
    each = [pytest.param(release, marks=pytest.mark.xdist_group(f"upstream {release}")) for release in releases]
    return pytest.mark.parametrize("release", each)


@on("newest")
def test_controller_loop(release: str, tmp_path: Path, say: Callable[[str], None]) -> None:
    """A broker is killed that was eligible once, for a topic that is gone: whoever registers it stops to be controller.

    Takes half a minute: sessions run out, and a controller is started twice.
    """
    with RealKafka(release, elr=True, folder=tmp_path / "kafka") as kafka:
        kafka.create_topic("orders", [[1, 2, 3]], min_insync_replicas=2)
        for broker in (3, 2):
            kafka.kill(broker)
            kafka.wait_until_fenced(broker)
        kafka.wait_for("orders", lambda state: state.elr == (2,))
        kafka.configure_topic("orders", MINIMUM, "1")
        kafka.wait_for("orders", lambda state: state.elr == ())
        for broker in (2, 3):
            kafka.start(broker)
        kafka.wait_for("orders", lambda state: set(state.isr) == {1, 2, 3})
        kafka.delete_topic("orders")
        kafka.kill(2)
        kafka.wait_until_fenced(2)
        assert failures(tmp_path) == 0

        kafka.start(2, wait=False)
        at_first = wait_until("the controller fails", lambda: failures(tmp_path), lambda seen: seen >= SEVERAL)
        kafka.kill(2)
        kafka.kill_controller()
        kafka.start_controller()
        kafka.start(2, wait=False)
        in_all = wait_until("the next one too", lambda: failures(tmp_path), lambda seen: seen >= at_first + SEVERAL)

        assert 2 not in kafka.unfenced()
        say(f"the controller resigned {at_first} times, and {in_all - at_first} times more after it was started anew")


@on("4.0")
def test_KAFKA_19522(release: str, say: Callable[[str], None]) -> None:  # noqa: N802 (its name)
    """The last known leader is elected when it registers, though it is fenced then; clients are sent there."""
    with RealKafka(release, elr=True) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]], min_insync_replicas=1)
        kafka.kill(3)
        kafka.wait_for("orders", lambda state: 3 not in state.isr)
        kafka.kill(2)
        kafka.wait_for("orders", lambda state: state.isr == (1,))
        kafka.kill(1)
        kafka.start(2)
        kafka.wait_until_unfenced(2)
        kafka.wait_until_fenced(1)
        kafka.wait_for("orders", lambda state: state.leader is None and state.last_known_elr == (1,))

        kafka.start(1, wait=False)
        kafka.wait_for("orders", lambda state: state.leader == 1)
        kafka.freeze(1)  # it is unfenced a quarter of a second later

        assert 1 not in kafka.unfenced()
        say("broker 1 leads by the metadata, and is fenced")


@pytest.mark.parametrize("minimum", [None, "1", "3"], ids=["unchanged", "lowered", "raised"])
@on("newest")
def test_cleared_elr(release: str, minimum: str | None, say: Callable[[str], None]) -> None:
    """Everybody who could lead is forgotten, though nobody leads and so nothing can be acknowledged meanwhile.

    Takes 20 s: a session runs out, and three brokers are started.
    """
    with RealKafka(release, elr=True) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]], min_insync_replicas=2)
        told = kafka.produce("orders", 0, 20, "told")
        stop_all_but_one(kafka)
        kafka.kill(1)  # before broker 3 is back, or that might join the ISR
        kafka.start(3)
        kafka.wait_until_unfenced(3)
        kafka.wait_until_fenced(1)
        kafka.wait_for("orders", lambda state: state.leader is None and set(state.elr) == {1, 2})
        if minimum:
            kafka.configure_topic("orders", MINIMUM, minimum)
            kafka.wait_for("orders", lambda state: (state.elr, state.last_known_elr) == ((), ()))

        for broker in (2, 1):
            kafka.start(broker)
            kafka.wait_until_unfenced(broker)
            assert kafka.read_replica(broker, "orders", 0) == told
        time.sleep(SETTLED)

        leader = kafka.describe("orders")[0].leader
        assert leader == (None if minimum else 2)
        say(
            f"all brokers are back, 2 and 1 with all that was acknowledged; {MINIMUM} set to {minimum}: leader {leader}"
        )


@on("newest", "4.0")
def test_raised_minimum(release: str, say: Callable[[str], None]) -> None:
    """The controller counts the new minimum when it writes it, the leader when it hears of it.

    Broker 4 is there to be asked: what broker 1 has not applied yet, it can't tell. Takes 20 s: a session runs out.
    """
    with RealKafka(release, brokers=4, elr=True, **SLOW) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]], min_insync_replicas=1)
        kafka.terminate(3)
        kafka.wait_until_fenced(3)
        with acknowledging(kafka.address(1), ["orders"]) as told:
            told.wait_for_more("orders")
            create_replicas(kafka, broker=1)
            topics.configure(kafka.address(4), "orders", MINIMUM, "2")
            kafka.freeze(2)
            wait_until("1 is alone", lambda: seen_by(kafka, 4), lambda state: (state.isr, state.elr) == ((1,), (2,)))
            told.wait_for_more("orders")
            kafka.kill(1)
        kafka.thaw(2)

        (elected,) = kafka.wait_for("orders", lambda state: state.leader == 2).values()

        assert elected.isr == (2,)
        lost = missing(kafka, 2, told)
        assert lost
        say(f"broker 2 was elected cleanly; lost {len(lost)} of {len(told.values['orders'])} acknowledged records")


@on("newest")
def test_refused_default(release: str, say: Callable[[str], None]) -> None:
    """One setting that a broker can't take over keeps it from all that are for all brokers; the controller counts them.

    Takes 15 s: two sessions run out.
    """
    with RealKafka(release, elr=True) as kafka:
        kafka.create_topic("orders", [[1, 3, 2]])
        for (whose, key), value in REFUSED_BY_BROKER_1.items():
            topics.configure(kafka.address(int(whose or 2)), whose, key, value, kind=topics.BROKER)
        with acknowledging(kafka.address(1), ["orders"]) as told:
            told.wait_for_more("orders")
            for broker in (3, 2):
                kafka.freeze(broker)
                kafka.wait_until_fenced(broker)
            kafka.wait_for("orders", lambda state: (state.isr, state.elr) == ((1,), (2,)))
            told.wait_for_more("orders")
            kafka.kill(1)
        kafka.thaw(2)

        (elected,) = kafka.wait_for("orders", lambda state: state.leader == 2).values()

        assert elected.isr == (2,)
        lost = missing(kafka, 2, told)
        assert lost
        say(f"broker 2 was elected cleanly; lost {len(lost)} of {len(told.values['orders'])} acknowledged records")


@pytest.mark.parametrize("anew", [False, True], ids=["as it came back", "built anew"])
@on("4.0")
def test_tier_cut(release: str, anew: bool, tmp_path: Path, say: Callable[[str], None]) -> None:
    """A replica that is behind is elected; the one that led begins anew at its end, leads, and the tier is cut there.

    Takes half a minute: a session runs out, and 80 records are written one by one, for a batch is in one segment.
    """
    with RealKafka(release, properties=tiered(tmp_path)) as kafka:
        kafka.create_topic("orders", [[1, 2]], **TIERED)
        write_one_by_one(kafka, "first")
        kafka.wait_for_log_ends(2, "orders", {0: MANY})
        kafka.kill(2)
        kafka.wait_for("orders", lambda state: state.isr == (1,))
        write_one_by_one(kafka, "second")
        wait_until("broker 1 deletes", lambda: begins(kafka, 1, local=True), lambda start: start > MANY)
        kafka.kill(1)
        kafka.wait_until_fenced(1)
        kafka.start(2)
        kafka.wait_until_unfenced(2)
        kafka.wait_for("orders", lambda state: state.leader is None)
        kafka.unclean_elect("orders", [0])
        kafka.wait_for("orders", lambda state: state.leader == 2)
        wait_until("its log can be read", lambda: len(kafka.consume("orders", 0)), lambda count: count == MANY)
        held = tier(tmp_path)
        assert max(held) > MANY
        kafka.start(1)
        kafka.wait_for("orders", lambda state: set(state.isr) == {1, 2})
        assert (begins(kafka, 1), begins(kafka, 2)) == (MANY, 0)
        if anew:
            kafka.alter_assignment("orders", 0, [2])
            kafka.alter_assignment("orders", 0, [2, 1])
            kafka.wait_for("orders", lambda state: set(state.isr) == {1, 2})
            wait_until("broker 1 begins as its leader does", lambda: begins(kafka, 1), lambda start: start == 0)

        kafka.terminate(2)
        kafka.wait_for("orders", lambda state: state.leader == 1)

        if anew:
            time.sleep(SETTLED)
        else:
            wait_until("the tier is cut", lambda: tier(tmp_path), lambda left: all(each >= MANY for each in left))
        readable = len(kafka.consume("orders", 0))
        assert readable == (MANY if anew else 0)
        say(f"of {MANY} records that the elected leader had, {readable} are left once broker 1 leads")


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """A line for who runs it by `make upstream`."""
    return lambda line: print(f"\n{request.node.name}: {line}")


def write_one_by_one(kafka: RealKafka, label: str) -> None:
    for number in range(MANY):
        assert kafka.produce("orders", 0, 1, f"{label}-{number}")


def begins(kafka: RealKafka, broker: int, *, local: bool = False) -> int:
    return replicas.log_start(kafka.address(broker), "orders", 0, local=local)


def stop_all_but_one(kafka: RealKafka) -> None:
    """Brokers 3 and 2, cleanly; the latter stays eligible."""
    kafka.terminate(3)
    kafka.wait_for("orders", lambda state: 3 not in state.isr)
    kafka.terminate(2)
    kafka.wait_for("orders", lambda state: (state.isr, state.elr) == ((1,), (2,)))


def create_replicas(kafka: RealKafka, broker: int) -> None:
    """Many on one broker. The controller answers before that broker has created them."""
    kind = CreateTopicsRequest.CreatableTopic
    there = [kind.CreatableReplicaAssignment(partition_index=index, broker_ids=[broker]) for index in range(BUSY_WITH)]
    topic = kind(name="many", num_partitions=-1, replication_factor=-1, assignments=there, configs=[])
    with Connection(kafka.controller_address, deadline=60) as controller:
        answer = controller.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60000, validate_only=False), 6)
    accept("CreateTopics", answer.topics[0].error_code)


def seen_by(kafka: RealKafka, broker: int) -> PartitionState:
    return metadata.describe(kafka.address(broker), "orders")[0]


def missing(kafka: RealKafka, broker: int, told: Acknowledged) -> list[str]:
    """What was acknowledged and is not in this broker's log."""
    held = set(kafka.read_replica(broker, "orders", 0))
    return [value for value in told.values["orders"] if value not in held]


def failures(folder: Path) -> int:
    """How often the controller's log says it."""
    log = folder / "kafka" / "node-100" / "server.log"
    return log.read_text(errors="replace").count(IN_NO_TOPIC)
