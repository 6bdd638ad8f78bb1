"""Guards, and chains of them: the first one that objects is what a person is told.

A guard is a condition with a code and a sentence. The condition and the code are data, which every engine reads; the
sentence is written only where a person will read it. A new guard is one function, one line in a chain and one test;
operator/write_checks.py then writes it into `checks`, which is what decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec

from kafka_recovery.decision.conditions import ALWAYS, Condition

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Told:
    """A code that the evidence itself brings along at this path, or else another one."""

    path: str
    otherwise: str


Code = str | Told


@dataclass(frozen=True, slots=True, eq=False)
class Guard(Generic[P]):
    """Objects with `code` if `when` is true of what it is asked about; `explain` says it in a sentence."""

    code: Code
    when: Condition
    explain: Callable[P, str]


@dataclass(frozen=True, slots=True, eq=False)
class EachReplica:
    """Asks a partition's replicas one after the other, in assignment order: the first one objected to counts.

    Its guards are asked about a replica and whatever the chain is about. `when`: whether at all; `among`: about whom.
    """

    guards: tuple[Guard[...], ...]
    when: Condition = ALWAYS
    among: Condition = ALWAYS


Link = Guard[P] | EachReplica


def objects(code: Code, when: Condition) -> Callable[[Callable[P, str]], Guard[P]]:
    """Make a guard of the function that explains its objection."""
    return lambda explain: Guard(code, when, explain)


def each_replica(*guards: Guard[...], when: Condition = ALWAYS, among: Condition = ALWAYS) -> EachReplica:
    """A link of a partition's chain that asks every replica, see EachReplica."""
    return EachReplica(guards, when, among)
