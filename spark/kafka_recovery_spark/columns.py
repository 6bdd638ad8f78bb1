"""The conditions, chains and orders of `decision` as columns over the rows of evidence files.

A guard is asked about a replica inside of a higher-order function over the row's `replicas`, so nothing is shuffled and
no row leaves the JVM. Paths are those of the domain; `Seen` says where a row keeps what they lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from kafka_recovery.decision.chains import Code, EachReplica, Guard, Link
from kafka_recovery.decision.cluster_index import unknown_broker
from kafka_recovery.decision.conditions import (
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
    Term,
    Times,
    Unknown,
    Value,
)
from kafka_recovery.decision.order import FACTS, Key
from kafka_recovery.decision.subjects import field
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import Limits

MICROSECOND = timedelta(microseconds=1)
NOT_KNOWN_AT_ALL = unknown_broker(BrokerId(-1))
"""What a row says by leaving a broker's state out."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a condition is asked about, in terms of columns.

    `replica` and `position`: the variables of the higher-order function around it, if there is one. Rules stand in the
    column `rule` under the last names of their paths, durations as microseconds.
    """

    limits: Limits
    waited: timedelta
    replica: Column | None = None
    position: Column | None = None

    def at(self, path: str) -> Column:
        """The column at a path; instants and durations in microseconds."""
        kind = field(path).type
        subject, *names = path.split(".")
        match subject:
            case "limits":
                return F.lit(getattr(self.limits, names[0]))
            case "waited":
                return F.lit(self.waited // MICROSECOND)
            case "rule":
                return F.col("rule")[names[-1]]
            case "position":
                return _given(self.position, path)
            case "broker":
                return _of_broker(_given(self.replica, path)["broker_state"], names[0])
            case "replica" | "log":
                start = _given(self.replica, path)
                found = reduce(Column.getItem, names, start["log"] if subject == "log" else start)
            case "cluster" | "counts":
                found = F.col("cluster")[names[0]]
            case _:
                found = reduce(Column.getItem, names[1:], F.col(names[0]))
        return F.unix_micros(found) if kind is datetime else found

    def of(self, replica: Column, position: Column | None = None) -> Seen:
        """The same, of one replica."""
        return replace(self, replica=replica, position=position)


def _given(variable: Column | None, path: str) -> Column:
    if variable is None:
        raise ValueError(f"{path}: no replica is meant here")
    return variable


def _of_broker(state: Column, name: str) -> Column:
    otherwise = getattr(NOT_KNOWN_AT_ALL, name)
    if otherwise is None:
        return state[name]
    if field(f"broker.{name}").optional:
        return F.when(state.isNull(), F.lit(otherwise)).otherwise(state[name])
    return F.coalesce(state[name], F.lit(otherwise))


def true_if(condition: Condition, seen: Seen) -> Column:
    """The condition as a column that is true or false, never null: see `conditions` for what each one means."""
    match condition:
        case Unknown(path):
            return seen.at(path).isNull()
        case Holds(path):
            return _surely(seen.at(path))
        case Same(one, other):
            return term(one, seen).eqNullSafe(term(other, seen))
        case Less(one, other):
            return _surely(term(one, seen) < term(other, seen))
        case OneOf(member, of):
            return _surely(F.array_contains(seen.at(of), seen.at(member)))
        case Not(inner):
            return ~true_if(inner, seen)
        case All(inner):
            return every(true_if(each, seen) for each in inner)
        case Either(inner):
            return reduce(or_, (true_if(each, seen) for each in inner), F.lit(False))
        case SomeReplica(inner):
            return F.exists("replicas", lambda replica: true_if(inner, seen.of(replica)))
        case On(brokers):
            known = _given(seen.replica, "replica")["broker_state"].isNotNull()
            return known & true_if(brokers.condition, seen)
        case AnyIs(of, brokers):
            listed = seen.at(of)
            return _surely(F.size(listed) > 0) & F.exists(
                "replicas",
                lambda replica: (
                    _surely(F.array_contains(listed, replica["broker"])) & true_if(On(brokers), seen.of(replica))
                ),
            )


def every(columns: Iterable[Column]) -> Column:
    """All of these are true."""
    return reduce(and_, columns, F.lit(True))


def _surely(column: Column) -> Column:
    return F.coalesce(column, F.lit(False))


def term(of: Term, seen: Seen) -> Column:
    """The term as a column; numbers of 64 bits where something is reckoned."""
    match of:
        case str(path):
            return seen.at(path)
        case Value(constant):
            return F.lit(str(constant) if isinstance(constant, str) else constant)
        case Size(path):
            return F.size(seen.at(path))
        case Times(one, other):
            return term(one, seen).cast("bigint") * term(other, seen).cast("bigint")
        case Before(instant, duration):
            return seen.at(instant) - seen.at(duration)


def first_objection(chain: Sequence[Link[...]], seen: Seen) -> Column:
    """The code of the first guard of the chain that objects, or null."""
    return F.coalesce(*[_objection(link, seen) for link in chain])


def _objection(link: Link[...], seen: Seen) -> Column:
    if isinstance(link, Guard):
        return F.when(true_if(link.when, seen), _code(link.code, seen))
    asked = true_if(link.when, seen)
    if len(link.guards) == 1 and isinstance(link.guards[0].code, str):
        guard = link.guards[0]
        some = F.exists("replicas", lambda replica: true_if(All(link.among, guard.when), seen.of(replica)))
        return F.when(asked & some, F.lit(guard.code))
    each = F.transform("replicas", lambda replica: _objection_to(link, seen.of(replica)))
    return F.when(asked, F.get(F.filter(each, lambda code: code.isNotNull()), F.lit(0)))


def _objection_to(link: EachReplica, seen: Seen) -> Column:
    return F.when(true_if(link.among, seen), first_objection(link.guards, seen))


def _code(code: Code, seen: Seen) -> Column:
    return F.lit(code) if isinstance(code, str) else F.coalesce(seen.at(code.path), F.lit(code.otherwise))


def sort_keys(keys: Sequence[Key], seen: Seen) -> list[Column]:
    """Numbers by which the best replica comes first, ascending; an unknown fact is followed by one that puts it last.

    The complement turns an order round: other than the negative, it does not overflow.
    """
    columns = []
    for key in keys:
        fact = FACTS[key.fact]
        number = seen.at(fact.path).cast("bigint")
        ranked = F.bitwise_not(number) if key.descending else number
        if fact.read_from is None:
            columns += [F.lit(False), ranked]
        else:
            columns += [number.isNull(), F.coalesce(ranked, F.lit(0).cast("bigint"))]
    return columns


def literal(value: Any) -> Column:
    """A field of a rule as a column: text, a number, or microseconds."""
    if isinstance(value, timedelta):
        return F.lit(value // MICROSECOND).cast("bigint")
    return F.lit(str(value) if isinstance(value, str) else value)
