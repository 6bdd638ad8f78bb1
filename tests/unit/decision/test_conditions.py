"""Conditions are true or false; what is unknown makes none of them true by accident."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_recovery.decision.checks import broker_objection
from kafka_recovery.decision.cluster_index import index_of
from kafka_recovery.decision.conditions import (
    ALIVE,
    ALWAYS,
    BACK,
    All,
    AnyIs,
    Before,
    Condition,
    Either,
    Holds,
    Less,
    Not,
    On,
    OneOf,
    Same,
    Size,
    SomeReplica,
    Times,
    Unknown,
    Value,
)
from kafka_recovery.domain.evidence import Replica
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import Policy, Rule
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import NOON, broker, dead, evidence, log, partition
from unit.decision.written import predicate

TWO = BrokerId(2)
MEASURED, SILENT = Replica(TWO, log(27)), Replica(TWO, None)
UNREAD = Replica(TWO, log(27, epochs=None, answered_under=None))
END = "replica.log.end"


def of_replica(condition: Condition, replica: Replica) -> bool:
    return predicate(condition, "replica")(replica)


@pytest.mark.parametrize(
    ("condition", "replica", "expected"),
    [
        (Unknown("replica.log"), SILENT, True),
        (Unknown("replica.log"), MEASURED, False),
        (Unknown("replica.log.epochs"), SILENT, True),
        (Unknown("replica.log.epochs"), UNREAD, True),
        (Unknown(END), MEASURED, False),
        (Holds("replica.leads"), MEASURED, False),
        (Holds("replica.leads"), replace(MEASURED, leads=True), True),
        (Same(END, Value(27)), MEASURED, True),
        (Same(END, Value(27)), SILENT, False),
        (Not(Same(END, Value(27))), SILENT, True),
        (Same("replica.log.answered_under", "replica.problem.code"), UNREAD, True),
        (Less(END, Value(28)), MEASURED, True),
        (Less(END, Value(27)), MEASURED, False),
        (Less(END, Value(28)), SILENT, False),
        (Less(Value(26), END), SILENT, False),
        (Less(Times(END, Value(2)), Value(55)), MEASURED, True),
        (Less(Times(END, Value(2)), Value(55)), SILENT, False),
        (ALWAYS, SILENT, True),
        (Either(), MEASURED, False),
        (All(Holds("replica.leads"), Unknown("replica.log")), SILENT, False),
        (Either(Holds("replica.leads"), Unknown("replica.log")), SILENT, True),
        (All(Either(ALWAYS, Not(ALWAYS)), Not(All(ALWAYS, Not(ALWAYS)))), MEASURED, True),
    ],
)
def test_what_is_unknown_is_never_true_by_accident(condition: Condition, replica: Replica, expected: bool) -> None:
    assert of_replica(condition, replica) is expected


def test_what_a_broker_did_not_say_neither_holds_nor_is_false() -> None:
    unlisted = broker(2, registered=None)

    assert not predicate(Holds("broker.registered"), "broker")(unlisted)
    assert not predicate(Same("broker.registered", Value(False)), "broker")(unlisted)
    assert predicate(Unknown("broker.registered"), "broker")(unlisted)


def test_lists_are_counted_and_searched() -> None:
    seen = partition({1: None, 2: log(9)}, isr=(1,), elr=None)
    about = ("partition", "replica")

    assert predicate(Less(Value(1), Size("partition.replicas")), "partition")(seen)
    assert predicate(SomeReplica(Unknown("replica.log")), "partition")(seen)
    assert predicate(OneOf("replica.broker", "partition.isr"), *about)(seen, Replica(BrokerId(1), None))
    assert not predicate(OneOf("replica.broker", "partition.elr"), *about)(seen, Replica(BrokerId(1), None))


def test_brokers_are_looked_up_in_the_index() -> None:
    around = index_of(evidence(partition({}), brokers=(dead(1), broker(2))).cluster, Policy(), broker_objection)
    about = ("partition", "replica", "index")
    seen = partition({}, isr=(1, 2), elr=None)

    alive = {id: predicate(On(ALIVE), *about)(seen, Replica(BrokerId(id), None), around) for id in (1, 2, 7)}

    assert alive == {1: False, 2: True, 7: False}
    assert predicate(AnyIs("partition.isr", BACK), *about)(seen, SILENT, around)
    assert not predicate(AnyIs("partition.elr", BACK), *about)(seen, SILENT, around)


def test_an_instant_is_compared_with_one_a_while_before_another() -> None:
    late = Less("replica.log.observed_at", Before("cluster.observed_at", "rule.evidence.max_age"))
    around = index_of(evidence(partition({}), brokers=(broker(2),)).cluster, Policy(), broker_objection)
    asks = predicate(late, "replica", "rule", "index")

    assert not asks(Replica(TWO, log(9, observed_at=NOON - timedelta(seconds=60))), Rule("all"), around)
    assert asks(Replica(TWO, log(9, observed_at=NOON - timedelta(seconds=61))), Rule("all"), around)
    assert not asks(SILENT, Rule("all"), around)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("replica.log.ned", "replica.log.ned: ReplicaLog has no field ned"),
        ("broker.fence", "broker.fence: Broker has no field fence"),
        ("topic.name", "conditions are about broker, replica"),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error_before_anything_is_judged(path: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        predicate(Holds(path), "replica")


def test_text_is_never_taken_for_source() -> None:
    code = "'] or __import__('os').abort() or ['"
    assert of_replica(Same("replica.problem.code", Value(code)), replace(SILENT, problem=Reason(code, "")))
