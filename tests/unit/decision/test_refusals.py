"""What refuses a whole partition, makes it wait, or leaves it alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Broker, MinInsyncReplicas, Reassignment, Replica
from kafka_recovery.domain.ids import BrokerId, MetadataOffset, TopicPartition
from kafka_recovery.domain.plan import Decision, Verdict
from kafka_recovery.domain.policy import EvidenceRules, Limits, Policy, RequiredAnswers, Rule, TopicSelector
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import NOON, Held, broker, code, dead, decided, evidence, log, partition, policy

COPIES = {1: None, 2: log(27), 3: log(15)}
LATER = timedelta(minutes=1)


def test_a_topic_that_no_rule_selects_is_observed_only() -> None:
    only_payments = Policy((Rule("payments", TopicSelector(prefixes=("pay-",))),))
    decision = decided(evidence(partition(COPIES)), only_payments)

    assert (decision.verdict, code(decision), decision.rule) == (Verdict.REFUSE, "NoRule", "")


def test_a_single_replica_waits_for_its_broker() -> None:
    decision = decided(evidence(partition({2: log(27)}, isr=(1,))), policy(min_replication_factor=2))
    assert code(decision) == "ReplicationFactorTooLow"


def test_an_ongoing_reassignment_is_not_disturbed() -> None:
    ongoing = Reassignment(adding=(BrokerId(4),), removing=(BrokerId(1),))
    decision = decided(evidence(partition(COPIES, reassignment=ongoing)))

    assert code(decision) == "ReassignmentOngoing"
    assert "adding brokers 4, removing 1" in str(decision.reason)


def test_a_reassignment_nobody_could_see_might_be_one() -> None:
    assert str(decided(evidence(partition(COPIES, reassignment_known=False))).reason).startswith(
        "AnswerIncomplete: the controller did not say whether orders-0 is being reassigned"
    )


def test_an_old_leader_that_still_answers_as_leader_stops_everything() -> None:
    """KRaft brokers do not fence themselves: clients may still write to it. There is nothing good to wait for."""
    alone: dict[int, Held] = {1: Replica(BrokerId(1), None, leads=True), 2: log(27), 3: log(15)}
    decision = decided(evidence(partition(alone), brokers=(dead(1, reachable=True), broker(2), broker(3))))

    assert (decision.verdict, code(decision)) == (Verdict.REFUSE, "OldLeaderAnswers")
    assert "broker 1 still answers as leader of orders-0" in str(decision.reason)


def test_a_measurement_from_before_is_no_evidence() -> None:
    old = log(27, observed_at=NOON - timedelta(seconds=61))
    decision = decided(evidence(partition({1: None, 2: old, 3: log(15)})))

    assert code(decision) == "EvidenceTooOld"
    assert "61s before" in str(decision.reason)
    assert decided(evidence(partition({1: None, 2: log(27, observed_at=NOON - LATER), 3: log(15)}))).leader == 2


def test_a_living_broker_that_stays_silent_may_hold_what_nobody_else_does() -> None:
    problem = Reason("ConnectionRefused", "connection refused at 10.0.3.7:9092")
    silent = partition(
        {1: None, 2: log(27), 3: Replica(BrokerId(3), None, problem)}, min_isr=MinInsyncReplicas(2, "topic")
    )
    decision = decided(evidence(silent))

    assert (decision.verdict, code(decision)) == (Verdict.REFUSE, "LiveReplicaUnmeasured")
    assert (decision.reason and decision.reason.message) == (
        "broker 3 counts as alive, but its log was not measured within 5s (3 attempts; connection refused at "
        "10.0.3.7:9092). Without it 2 of 3 replicas are unknown. With min.insync.replicas 2 an acknowledged record may "
        "be only there. To go on: have broker 3 answer, with its own, intact disk; or stop it, KEEP its volume, and "
        "copy its directories: the controller then fences it; or set requiredAnswers: Any."
    )
    assert decided(evidence(silent), policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))).leader == 2


def test_brokers_that_all_stand_still_have_no_controller() -> None:
    brokers = (dead(1), broker(2, metadata_advances=False), broker(3, metadata_advances=False))
    assert code(decided(evidence(partition(COPIES), brokers=brokers))) == "NoActiveController"


def test_brokers_that_are_late_are_no_missing_controller() -> None:
    """It told what it has committed; nobody had applied that in time."""
    brokers = (dead(1), broker(2, metadata_advances=False), broker(3, metadata_advances=False))
    late = decided(evidence(partition(COPIES), brokers=brokers, view_from=BrokerId(2), committed=MetadataOffset(4711)))

    assert code(late) == "BrokerCutOff"
    assert "the controller had committed 4711: the controller is there, and the broker is late" in str(late.reason)


def test_as_many_brokers_down_as_the_limit_allows_refuse_nothing() -> None:
    seen = evidence(partition(COPIES), brokers=(dead(1), broker(2), broker(3), broker(4)))

    assert code(decided(seen, policy(Limits(brokers_down_percent=24)))) == "TooManyBrokersDown"
    assert decided(seen, policy(Limits(brokers_down_percent=25))).leader == 2


def test_a_full_plan_takes_the_most_urgent_partitions() -> None:
    ids = [TopicPartition(topic, 0) for topic in ("clicks", "orders")]
    seen = evidence(*[partition(COPIES, id=id) for id in ids])
    urgent = Rule("urgent", TopicSelector(("orders",)), tier=1)
    plan = decide(seen, Policy((urgent, Rule("rest")), Limits(partitions=1)))

    clicks, orders = plan.decisions
    assert (clicks.verdict, code(clicks), clicks.leader) == (Verdict.REFUSE, "PartitionLimitReached", None)
    assert orders.verdict is Verdict.ELECT
    assert plan.waves == ((orders.id,),)


def test_where_nobody_is_elected_anyway_no_place_of_a_full_plan_is_taken() -> None:
    ids = [TopicPartition(topic, 0) for topic in ("clicks", "orders")]
    seen = evidence(*[partition(COPIES, id=id) for id in ids])
    why = Reason("OrderNotRestored", "an earlier run's order stands there")
    plan = decide(seen, policy(Limits(partitions=1)), kept_off={ids[0]: why})

    clicks, orders = plan.decisions
    assert (clicks.verdict, clicks.reason, clicks.leader) == (Verdict.REFUSE, why, None)
    assert orders.verdict is Verdict.ELECT


def test_a_leader_that_is_back_is_left_alone_where_nobody_would_be_elected() -> None:
    seen = evidence(partition(COPIES, leader=BrokerId(2)))
    plan = decide(seen, policy(), kept_off={seen.partitions[0].id: Reason("OrderNotRestored", "it stands there")})

    assert plan.decisions[0].verdict is Verdict.NOTHING


def test_an_elr_member_is_waited_for_as_well() -> None:
    back = partition(COPIES, isr=(), elr=(BrokerId(3),))
    decision = decided(evidence(back))

    assert decision.verdict is Verdict.WAIT
    assert "broker 3 is in the ELR and is alive, so" in str(decision.reason)


NOBODY_IS_LEFT: dict[str, Any] = {"isr": (), "elr": (), "last_known_elr": (BrokerId(1),)}
"""ELR on: broker 1 led last and stopped uncleanly, so it was taken out of the ELR when it registered anew."""


@pytest.mark.parametrize(("back", "seen"), [
    (broker(1), "is alive"),
    (broker(1, fenced=True), "answers again, though it is still fenced"),
    (broker(1, reachable=False, metadata_advances=None), "is alive"),
])  # fmt: skip
def test_the_last_known_leader_that_is_back_is_waited_for(back: Broker, seen: str) -> None:
    """KIP-966: the controller elects it by itself, whatever a plan designates."""
    offline = evidence(partition(COPIES, **NOBODY_IS_LEFT), brokers=(back, broker(2), broker(3)))
    decision = decided(offline)

    assert (decision.verdict, code(decision)) == (Verdict.WAIT, "ElectableBrokerReturning")
    assert f"broker 1, its last known leader, {seen}: the controller elects it by itself" in str(decision.reason)
    by_any_answer = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    assert decided(offline, by_any_answer, waited=timedelta(seconds=30)).verdict is Verdict.ELECT


@pytest.mark.parametrize(
    "changes",
    [{"isr": (BrokerId(9),)}, {"elr": (BrokerId(9),)}, {"last_known_elr": (BrokerId(1), BrokerId(3))}],
    ids=["the ISR has a member", "the ELR has a member", "two are named"],
)
def test_a_last_known_leader_that_kafka_does_not_elect_is_not_waited_for(changes: dict[str, Any]) -> None:
    seen = partition(COPIES, **{**NOBODY_IS_LEFT, **changes})
    assert decided(evidence(seen, brokers=(broker(1, fenced=True), broker(2), broker(3)))).verdict is Verdict.ELECT


def offline_disk(**changes: Any) -> Decision:
    """Broker 3 lives, and the disk with its replica is gone."""
    problem = Reason("LogDirOffline", "/var/lib/kafka is offline there")
    failed = {1: None, 2: log(27), 3: Replica(BrokerId(3), None, problem)}
    return decided(evidence(partition(failed, **changes)))


def test_a_replica_on_a_failed_disk_of_a_living_broker_needs_its_disk_not_its_broker() -> None:
    decision = offline_disk()

    assert (decision.verdict, code(decision)) == (Verdict.REFUSE, "LogDirOffline")
    assert decision.reason is not None
    said = decision.reason.message
    assert said.startswith("broker 3 lives, but the log directory with its replica of orders-0 is offline")
    assert "repair that disk with what is on it" in said
    assert "have broker 3 answer" not in said
    assert "empty disk" not in said


def test_a_failed_disk_of_an_isr_member_must_not_come_back_empty() -> None:
    """Kafka would elect it at once."""
    stuck = offline_disk(isr=(1, 3))
    assert stuck.verdict is Verdict.WAIT
    problem = Reason("LogDirOffline", "/var/lib/kafka is offline there")
    seen = partition({1: None, 2: log(27), 3: Replica(BrokerId(3), None, problem)}, isr=(BrokerId(1), BrokerId(3)))
    waited_enough = decided(evidence(seen), waited=timedelta(seconds=30))

    assert "Never put an empty disk in its place" in str(waited_enough.reason)


def test_configs_that_could_not_be_read_are_warned_of() -> None:
    why = Reason("TopicAuthorizationFailed", "the principal lacks DESCRIBE_CONFIGS on topic orders")
    (warning,) = decided(evidence(partition(COPIES, configs_problem=why))).warnings

    assert "min.insync.replicas" in warning
    assert why.message in warning
