"""Whether producers with acks=all can write after an election: by min.insync.replicas, and by who can be in sync."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest

from kafka_recovery.decision.card import at_the_prompt
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Broker, MinInsyncReplicas, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import THREE, Held, broker, dead, evidence, log, partition

ANY = Policy((Rule("any", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))
SILENT = Replica(BrokerId(1), None, Reason("BrokerTimeout", "broker 1 did not answer"))


def told(*minima: int | None, brokers: Iterable[Broker] = THREE, third: Held = None) -> str:
    """Of partitions on brokers 1 to 3, of which 2 is elected."""
    held: dict[int, Held] = {1: SILENT, 2: log(27), 3: third or log(15)}
    seen = [
        partition(
            held,
            id=TopicPartition("orders", number),
            min_isr=None if minimum is None else MinInsyncReplicas(minimum, "TOPIC_CONFIG"),
        )
        for number, minimum in enumerate(minima)
    ]
    plan = decide(evidence(*seen, brokers=brokers), ANY, waited=timedelta(hours=1))
    assert len(plan.elections) == len(minima)
    return " ".join(at_the_prompt(plan))


DOWN = "Writes with acks=all STAY DOWN (min.insync.replicas: 2, up: 1); reads and acks=1 can work."


@pytest.mark.parametrize(
    "third", [dead(3), broker(3, fenced=True), broker(3, registered=False), broker(3, stopping=True)]
)
def test_where_the_new_leader_is_the_only_one_that_lives_acks_all_stays_down(third: Broker) -> None:
    assert DOWN in told(2, brokers=(dead(1), broker(2), third))


def test_a_replica_whose_log_directory_failed_does_not_catch_up() -> None:
    failed = Replica(BrokerId(3), None, Reason("LogDirOffline", "the log directory of orders-0 is offline"))
    assert DOWN in told(2, third=failed)


def test_a_minimum_that_nobody_could_read_is_not_taken_for_one() -> None:
    assert "Whether writes with acks=all can work is not known: min.insync.replicas could not be read." in told(None)


def test_partitions_that_differ_are_counted_the_worst_first() -> None:
    assert (
        "After the election: Writes with acks=all STAY DOWN on 1 partition (min.insync.replicas: 3, up: 2); reads and "
        "acks=1 can work. "
        "Writes with acks=all work on 2 partitions once 2 replicas are in sync (min.insync.replicas); 2 are up. "
        "Writes with acks=all can work at once on 1 partition: min.insync.replicas is 1."
    ) in told(2, 3, 1, 2)
