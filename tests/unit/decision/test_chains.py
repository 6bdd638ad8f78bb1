"""The first guard of a chain that objects is what a person is told."""

from __future__ import annotations

from collections.abc import Callable

from kafka_recovery.decision.chains import Guard, Told, each_replica, objects
from kafka_recovery.decision.checks import broker_objection
from kafka_recovery.decision.cluster_index import ClusterIndex, index_of
from kafka_recovery.decision.conditions import ALIVE, Holds, Not, On, Same, Unknown, Value
from kafka_recovery.domain.evidence import Broker, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import Policy, Rule
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import broker, dead, evidence, log, partition
from unit.decision.written import objection

Objection = Callable[[PartitionEvidence, Rule, ClusterIndex], Reason | None]


@objects("Fenced", when=Holds("broker.fenced"))
def fenced(broker: Broker) -> str:
    return f"broker {broker.id} is fenced"


@objects("Silent", when=Not(Holds("broker.reachable")))
def silent(broker: Broker) -> str:
    return f"broker {broker.id} is silent"


@objects(Told("replica.problem.code", otherwise="AnswerIncomplete"), when=Unknown("replica.log"))
def unmeasured(replica: Replica, partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
    return f"broker {replica.broker} of {partition.id} by {rule.name}"


@objects("Leads", when=Holds("replica.leads"))
def leading(replica: Replica, partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
    return f"broker {replica.broker} leads"


def around(*brokers: Broker) -> ClusterIndex:
    return index_of(evidence(partition({}), brokers=brokers).cluster, Policy(), broker_objection)


def test_the_order_of_a_chain_decides_who_speaks() -> None:
    both = dead(1)

    assert objection((fenced, silent))(both) == Reason("Fenced", "broker 1 is fenced")
    assert objection((silent, fenced))(both) == Reason("Silent", "broker 1 is silent")
    assert objection((fenced, silent))(broker(2)) is None


def test_a_sentence_is_written_only_when_it_is_needed() -> None:
    def never(broker: Broker) -> str:
        raise AssertionError("nobody objects")

    assert objection((Guard("Fenced", fenced.when, never),))(broker(2)) is None


def test_a_guard_can_be_asked_alone() -> None:
    assert objection((fenced,))(dead(1)) == Reason("Fenced", "broker 1 is fenced")
    assert objection((fenced,))(broker(1)) is None


def test_replicas_are_asked_in_assignment_order_whichever_guard_objects() -> None:
    told = Reason("TimedOut", "no answer within 5 s")
    seen = partition({3: Replica(BrokerId(3), log(9), leads=True), 2: Replica(BrokerId(2), None, told), 4: None})
    asked: Objection = objection((each_replica(unmeasured, leading),))
    later: Objection = objection((each_replica(unmeasured), each_replica(leading)))

    assert asked(seen, Rule("all"), around(broker(2))) == Reason("Leads", "broker 3 leads")
    assert later(seen, Rule("all"), around(broker(2))) == Reason("TimedOut", "broker 2 of orders-0 by all")


def test_a_code_that_nobody_told_has_a_name_of_its_own() -> None:
    asked = objection((unmeasured,))
    assert asked(Replica(BrokerId(4), None), partition({}), Rule("all"), around(broker(2))) == Reason(
        "AnswerIncomplete", "broker 4 of orders-0 by all"
    )


def test_only_those_it_is_about_are_asked() -> None:
    seen = partition({1: None, 2: None})
    alive: Objection = objection((each_replica(unmeasured, among=On(ALIVE)),))
    by_name: Objection = objection((each_replica(unmeasured, when=Same("rule.name", Value("other"))),))

    reason = alive(seen, Rule("all"), around(dead(1), broker(2)))
    assert reason is not None
    assert reason.message.startswith("broker 2 ")
    assert alive(seen, Rule("all"), around(dead(1), dead(2), broker(3))) is None
    assert by_name(seen, Rule("all"), around(broker(2))) is None


def test_what_no_guard_of_ours_objects_to_is_a_healthy_broker() -> None:
    assert broker_objection(broker(2)) is None
