"""What a guard objects to, as data that more than one engine can read: a small tree of terms and conditions.

A term is a path such as `replica.log.end`, a `Value`, or simple arithmetic. None along a path makes the term unknown.
Conditions are true or false, never unknown, and what is unknown makes none of them true by accident:

- `Holds` and `Less` are false if a term is unknown, `OneOf` if the member or the list is;
- `Same` takes unknown for a value of its own: it is the same as unknown, and as nothing else;
- `Not`, `All` and `Either` are those of two-valued logic.

So a guard that must refuse what is unknown says so: `Not(Holds(...))`. operator/write_checks.py makes Python of a tree,
`kafka_recovery_spark.columns` makes columns of it; a property test holds both equal.
"""

from __future__ import annotations

from dataclasses import dataclass

# Terms.


@dataclass(frozen=True, slots=True)
class Value:
    """A constant."""

    value: str | int


@dataclass(frozen=True, slots=True)
class Size:
    """How many elements a list has."""

    of: str


@dataclass(frozen=True, slots=True)
class Times:
    """A product of whole numbers."""

    one: Term
    other: Term


@dataclass(frozen=True, slots=True)
class Before:
    """The instant that lies a duration before another one."""

    instant: str
    duration: str


Term = str | Value | Size | Times | Before
"""A bare string is a path: the name of a subject and of its fields, one after the other."""


# Conditions.


@dataclass(frozen=True, slots=True)
class Unknown:
    """The term is unknown."""

    term: str


@dataclass(frozen=True, slots=True)
class Holds:
    """The field is true; neither false nor unknown."""

    term: str


@dataclass(frozen=True, slots=True)
class Same:
    """Both terms are equal, or both are unknown."""

    one: Term
    other: Term


@dataclass(frozen=True, slots=True)
class Less:
    """Both terms are known, and the first is the smaller one, or the earlier one."""

    one: Term
    other: Term


@dataclass(frozen=True, slots=True)
class OneOf:
    """The member is in the list."""

    member: str
    of: str


@dataclass(frozen=True, slots=True)
class Not:
    """The condition is false."""

    condition: Condition


@dataclass(frozen=True, slots=True, init=False)
class All:
    """Every one of these conditions is true."""

    conditions: tuple[Condition, ...]

    def __init__(self, *conditions: Condition) -> None:
        object.__setattr__(self, "conditions", conditions)


@dataclass(frozen=True, slots=True, init=False)
class Either:
    """At least one of these conditions is true."""

    conditions: tuple[Condition, ...]

    def __init__(self, *conditions: Condition) -> None:
        object.__setattr__(self, "conditions", conditions)


@dataclass(frozen=True, slots=True)
class SomeReplica:
    """The condition is true of at least one of the partition's replicas."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of which a condition about `broker` is true; a index keeps them under this name."""

    name: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class On:
    """The replica is on one of these brokers. One that the cluster does not know is none of them."""

    brokers: Brokers


@dataclass(frozen=True, slots=True)
class AnyIs:
    """A broker of the list, if there is a list, is one of these."""

    of: str
    brokers: Brokers


Condition = Unknown | Holds | Same | Less | OneOf | Not | All | Either | SomeReplica | On | AnyIs

ALWAYS = All()

ALIVE = Brokers("alive", All(Holds("broker.registered"), Not(Holds("broker.fenced"))))
"""As the controller sees it: it may lead."""

REQUIRED = Brokers("required", ALIVE.condition)
"""Whose silence blocks. A look may leave out some of them, and of `BACK`: those whose disk a person attested lost."""

BACK = Brokers("back", Either(Holds("broker.reachable"), ALIVE.condition))
"""Alive, or about to be: it answers us."""
