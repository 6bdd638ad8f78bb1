"""Disks of real brokers: a log directory fails while its broker lives, and a volume has no room left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from brokers.conftest import ON_TWO_DISKS, ON_TWO_DISKS_OF_3_9, TWO_DISKS, Recovery, on, only_in_full
from kafka_recovery.decision.card import card
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.log_directories import BrokerDirectories
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval, EvidenceRules, Policy, RequiredAnswers, Rule
from testbed.cluster import RealKafka

pytestmark = pytest.mark.brokers
GROUP = "disks"

PARTITIONS = 4
SELDOM = {"replica.high.watermark.checkpoint.interval.ms": "600000"}
ON_TWO_DISKS_WITH_ELR = on("disks with ELR", {"elr": True, **TWO_DISKS})
BY_HAND = Policy((Rule("all", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))


AUTOMATIC = Policy((Rule("all", approval=Approval.AUTO),))


def its(evidence: Evidence, broker: int) -> BrokerDirectories:
    return next(its for its in evidence.cluster.log_directories if its.broker == broker)


def left_alone(kafka: RealKafka) -> None:
    """Broker 1 leads all partitions, is alone in the ISR, and has more than the others."""
    kafka.create_topic("orders", [[1, 2, 3]] * PARTITIONS)
    kafka.produce_to("orders", range(PARTITIONS), 10, "early")
    for broker in (2, 3):
        kafka.freeze(broker)
    kafka.wait_for("orders", lambda state: state.isr == (1,))
    kafka.produce_to("orders", range(PARTITIONS), 5, "late", acks="1")


@pytest.mark.parametrize(
    "kafka", [only_in_full(ON_TWO_DISKS_OF_3_9), ON_TWO_DISKS, only_in_full(ON_TWO_DISKS_WITH_ELR)], indirect=True
)
def test_a_directory_of_the_last_member_fails_is_named_and_brings_all_back_once_it_is_mended(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """35 s: a cluster that few others share, whose brokers have two log directories each."""
    left_alone(kafka)
    failed = int(next(name for name in kafka.on_disk(1, 2) if name.startswith("orders-")).removeprefix("orders-"))
    kafka.break_disk(1)
    for broker in (2, 3):
        kafka.thaw(broker)
    kafka.wait_until_unfenced(1, 2, 3)
    kafka.wait_for("orders", lambda state: state.index != failed or state.leader is None)
    lost = TopicPartition("orders", failed)

    plan = asyncio.run(recovery(kafka).with_(policy=BY_HAND).plan(lost))

    first, second = its(plan.evidence, 1).directories
    assert (first.error, second.error) == (None, "KAFKA_STORAGE_ERROR")
    choice = card(plan).choice
    assert choice
    [asked] = [each for each in choice.questions if each.asked.startswith("Can the failed log directory")]
    assert (
        f"Broker 1 lives; its log directory {second.path} has failed (KAFKA_STORAGE_ERROR), with {lost}"
        in (asked.known[0])
    )

    kafka.terminate(1)
    kafka.mend_disk(1)
    kafka.start(1)
    kafka.wait_for("orders", lambda state: state.index != failed or state.leader == 1)
    assert len(kafka.consume("orders", failed)) == 15


def test_a_planned_leader_without_any_room_is_warned_of_and_fails_before_it_leads(tmp_path: Path) -> None:
    """30 s: a cluster of its own. Kafka takes the directory offline for want of room to write down the leader epoch."""
    with RealKafka(disks=2, small_disks={2: 16}, properties=SELDOM, session_timeout=2.0) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]] * PARTITIONS)
        for broker in (3, 2):
            kafka.produce_to("orders", range(PARTITIONS), 10, f"with-{broker}")
            kafka.freeze(broker)
            kafka.wait_for("orders", lambda state, gone=broker: gone not in state.isr)  # type: ignore[misc]
        kafka.produce_to("orders", range(PARTITIONS), 10, "alone", acks="1")
        full, roomy = (sorted(name for name in kafka.on_disk(2, disk) if "orders" in name) for disk in (2, 1))
        kafka.kill(1)
        for broker in (2, 3):
            kafka.thaw(broker)
        kafka.wait_until_fenced(1)
        kafka.wait_until_unfenced(2, 3)
        kafka.fill_disk(2)
        ours = Recovery(kafka, tmp_path / "journal", policy=AUTOMATIC, approver="ann")

        plan = asyncio.run(ours.plan())
        report = asyncio.run(ours.recover())

        asked = {str(id): one.needs_approval for id, one in plan.elections.items()}
        assert asked == dict.fromkeys(full, True) | dict.fromkeys(roomy, False)
        volume = its(plan.evidence, 2).directories[1]
        assert (volume.error, volume.usable_bytes, [str(id) for id in volume.copies or ()]) == (None, 0, full)
        choice = card(plan).choice
        assert choice
        [warned] = [each for each in choice.first if each.startswith("Warning")]
        assert warned.startswith(
            f"Warning: broker 2 is to lead {', '.join(full)}, and the volume of its copies is almost"
        )
        led = {str(done.id): done.outcome is Outcome.RECOVERED for done in report.outcomes}
        assert led == dict.fromkeys(roomy, True) | dict.fromkeys(full, False)
        assert {done.reason.code for done in report.outcomes if done.reason} == {"LogDirOffline"}


@pytest.mark.full
def test_of_equal_copies_the_one_with_room_is_elected_with_nobody_asked(tmp_path: Path) -> None:
    """Half a minute: a cluster of its own. Broker 2 stands first in the assignment."""
    with RealKafka(disks=2, small_disks={2: 16}, properties=SELDOM, session_timeout=2.0) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]] * PARTITIONS)
        kafka.produce_to("orders", range(PARTITIONS), 10, "with-all")
        for broker in (3, 2):
            kafka.freeze(broker)
            kafka.wait_for("orders", lambda state, gone=broker: gone not in state.isr)  # type: ignore[misc]
        full = sorted(name for name in kafka.on_disk(2, 2) if "orders" in name)
        kafka.kill(1)
        for broker in (2, 3):
            kafka.thaw(broker)
        kafka.wait_until_fenced(1)
        kafka.wait_until_unfenced(2, 3)
        kafka.fill_disk(2)
        ours = Recovery(kafka, tmp_path / "journal", policy=AUTOMATIC, approver=None)

        report = asyncio.run(ours.recover())

        assert full
        assert {str(done.id): done.outcome for done in report.outcomes if done.outcome is not Outcome.RECOVERED} == {}
        assert {str(done.id): done.leader for done in report.outcomes if str(done.id) in full} == dict.fromkeys(full, 3)
