"""Each guard with the smallest evidence it rejects; the neighbour it lets through is the incident itself."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Broker, Replica
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import CandidateOrder, EvidenceRules, RequiredAnswers
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import Held, broker, code, dead, decided, evidence, log, partition, policy, rejected

TWO = BrokerId(2)
REFUSED = Reason("ConnectionRefused", "connection refused at broker-2:9092")


@pytest.mark.parametrize(
    ("sick", "expected", "says"),
    [
        (broker(2, registered=False, fenced=True), "NotRegistered", "not registered"),
        (broker(2, registered=None, fenced=True), "NotRegistered", "lists unfenced brokers only"),
        (broker(2, fenced=True), "Fenced", "though it answers here"),
        (broker(2, stopping=True), "BrokerStopping", "controlled shutdown"),
        (broker(2, reachable=False, problem=REFUSED), "BrokerUnreachable", "connection refused at broker-2:9092"),
        (broker(2, metadata_advances=False), "BrokerCutOff", "was at metadata offset 1000"),
    ],
)
def test_a_replica_on_a_broker_that_can_not_lead_is_passed_over(sick: Broker, expected: str, says: str) -> None:
    decision = decided(evidence(partition({1: None, 2: log(99), 3: log(27)}), brokers=(dead(1), sick, broker(3))))

    assert decision.leader == 3
    assert rejected(decision)[2] == expected
    assert says in next(r.reason.message for r in decision.rejections if r.broker == 2)


def test_a_broker_the_cluster_never_heard_of_is_not_registered() -> None:
    decision = decided(evidence(partition({7: log(99), 3: log(27)})))

    assert decision.leader == 3
    assert rejected(decision) == {7: "NotRegistered"}


def test_a_broker_that_fell_silent_while_it_was_looked_at_is_not_elected() -> None:
    silent = broker(2, metadata_advances=None)
    decision = decided(evidence(partition({1: None, 2: log(27)}), brokers=(dead(1), silent)))
    assert rejected(decision)[2] == "MetadataAgeUnknown"


@pytest.mark.parametrize(
    ("useless", "expected"),
    [(log(99, answered_under=None), "ReplicaOnOldEpoch"), (log(99, epochs=None), "EpochVectorUnreadable")],
)
def test_nobody_is_elected_over_a_living_replica_that_can_not_be_compared(useless: Held, expected: str) -> None:
    seen = evidence(partition({1: None, 2: useless, 3: log(27)}))

    assert code(decided(seen)) == expected
    any_answer = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    assert decided(seen, any_answer).leader == 3


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"unclean_election_enabled": True}, "unclean.leader.election.enable is on"),
        ({"tiered": True}, "Beyond the new leader's log end nothing of the tier can be read"),
        ({"isr": (BrokerId(7),)}, "the address of broker 7 in the ISR is not known"),
    ],
)
def test_what_a_person_should_know_before_is_a_warning(said: dict[str, Any], words: str) -> None:
    (warning,) = decided(evidence(partition({1: None, 2: log(27), 3: log(15)}, **said))).warnings
    assert words in warning


def test_a_broker_is_judged_once_and_its_rejection_shared() -> None:
    copies = {1: None, 2: log(9)}
    plan = decide(evidence(partition(copies), partition(copies, id=TopicPartition("orders", 1))), policy())

    first, second = plan.decisions
    assert first.rejections[0] is second.rejections[0]


@pytest.mark.parametrize(
    ("copy", "expected", "says"),
    [
        (Replica(TWO, None, Reason("LogDirOffline", "its log directory is offline")), "LogDirOffline", "directory"),
        (Replica(TWO, log(99), Reason("LogDirOffline", "its log directory is offline")), "LogDirOffline", "directory"),
        (Replica(TWO, None, Reason("TimedOut", "no answer within 5 s")), "TimedOut", "no answer within 5 s"),
        (Replica(TWO, None), "AnswerIncomplete", "said nothing about its log of orders-0"),
        (Replica(TWO, log(99, answered_under=LeaderEpoch(4))), "ReplicaOnOldEpoch", "under leader epoch 4"),
        (Replica(TWO, log(99, answered_under=None)), "ReplicaOnOldEpoch", "under no leader epoch"),
        (Replica(TWO, log(99, epochs=None)), "EpochVectorUnreadable", "READ on topic orders"),
    ],
)
def test_a_copy_that_proves_too_little_is_passed_over(copy: Replica, expected: str, says: str) -> None:
    any_answer = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    decision = decided(evidence(partition({1: None, 2: copy, 3: log(27)})), any_answer)

    assert decision.leader == 3
    assert rejected(decision)[2] == expected
    assert says in next(r.reason.message for r in decision.rejections if r.broker == 2)


def test_longest_log_ranks_a_replica_whose_epochs_nobody_could_read() -> None:
    seen = evidence(partition({1: None, 2: log(99, epochs=None), 3: log(27)}))
    assert decided(seen, policy(candidate_order=CandidateOrder.LONGEST_LOG)).leader == 2


def test_the_unreadable_epochs_problem_is_told() -> None:
    denied = Reason("TopicAuthorizationFailed", "not authorized to read orders")
    seen = evidence(partition({1: None, 2: Replica(TWO, log(99, epochs=None), denied)}))
    decision = decided(seen)

    assert code(decision) == "EpochVectorUnreadable"
    assert "not authorized to read orders" in str(decision.reason)


def test_nobody_left_names_every_replica_s_reason() -> None:
    brokers = (dead(1), dead(2), broker(3, fenced=True))
    decision = decided(evidence(partition({1: None, 2: log(9), 3: log(9)}), brokers=brokers))

    assert decision.verdict is Verdict.REFUSE
    assert code(decision) == "NoCandidate"
    assert rejected(decision) == {1: "Fenced", 2: "Fenced", 3: "Fenced"}
    assert decision.reason is not None
    assert "Fenced: broker 1 is fenced" in decision.reason.message
    assert "Fenced: broker 3 is fenced" in decision.reason.message, "it answers, and broker 1 does not"
    assert decision.reason.message.count("Fenced: ") == 2
    assert " The same of broker 2." in decision.reason.message
