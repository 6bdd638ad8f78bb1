"""Writes `decision/checks.py`: what the guards and orders, which are data, say in Python.

Run after a change of a guard or an order: PYTHONPATH=operator python operator/write_checks.py
Nothing that decides executes text; this writes a module that is read, tested and shipped as any other.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from inspect import signature
from pathlib import Path
from typing import Any

from kafka_recovery.decision import guards, refusals
from kafka_recovery.decision.chains import EachReplica, Guard, Link
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
    Term,
    Times,
    Unknown,
    Value,
)
from kafka_recovery.decision.order import FACTS, ORDERS, Key
from kafka_recovery.decision.subjects import field

PLACE = Path(guards.__file__).with_name("checks.py")

_HEAD = '''\
"""What the guards and orders say in Python. Written by operator/write_checks.py, never by hand.

Each function asks its chain's guards one after the other; the first one that objects is the reason.
"""

# mypy: disable-error-code="redundant-expr"

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from kafka_recovery.decision import guards, refusals
from kafka_recovery.domain.evidence import Broker, PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.policy import CandidateOrder, Limits, Rule
from kafka_recovery.domain.reason import Reason

if TYPE_CHECKING:
    from kafka_recovery.decision.cluster_index import ClusterIndex
    from kafka_recovery.decision.subjects import Cost
'''

_TYPES = {
    "broker": "Broker",
    "replica": "Replica",
    "partition": "PartitionEvidence",
    "rule": "Rule",
    "index": "ClusterIndex",
    "limits": "Limits",
    "waited": "timedelta",
}
"""What a check may be asked about."""

_PLACES = {"cluster": "index.cluster", "counts": "index.counts"}
"""Subjects that are no argument of a guard, and where they are found."""

Chain = tuple[Link[...], ...]
Place = Callable[[Guard[...]], str]


@dataclass(frozen=True, slots=True)
class Around:
    """Where an expression stands: terms that have names there, what is known not to be None, where guards are found."""

    names: Mapping[Term, str] = field_of(default_factory=dict)
    sure: frozenset[str] = frozenset()
    place: Place = str

    def knowing(self, path: str) -> Around:
        """The same where this is known as well."""
        return replace(self, sure=self.sure | set(_may_be_none(path)))


NOWHERE = Around()


def module() -> str:
    """The text of `checks.py`, formatted."""
    chains: dict[str, Chain] = {
        "broker_objection": guards.BROKER_GUARDS,
        "replica_objection": guards.REPLICA_GUARDS,
        "cluster_objection": refusals.CLUSTER_GUARDS,
        "partition_objection": refusals.PARTITION_GUARDS,
        "clean_return": refusals.RETURN_GUARDS,
    }
    parts = [
        _HEAD,
        *[predicate(f"is_{brokers.name}", brokers.condition, "broker") for brokers in (ALIVE, BACK)],
        *[objection(name, chain) for name, chain in chains.items()],
        *[merit(order.name.lower(), keys) for order, keys in ORDERS.items()],
        f"MERITS = {{{', '.join(f'CandidateOrder.{order.name}: {order.name.lower()}' for order in ORDERS)}}}\n",
    ]
    return _formatted("\n\n".join(parts))


def objection(name: str, chain: Chain, place: Place | None = None) -> str:
    """A function that gives the reason of the first guard of the chain that objects, or None.

    `place`: where the function finds a guard; by default in the modules of the guards.
    """
    asked = {about: None for link in chain for guard in _guards(link) for about in signature(guard.explain).parameters}
    if any(isinstance(link, EachReplica) for link in chain):
        asked.pop("replica")
    lines: list[str] = []
    around = replace(NOWHERE, place=place or _place)
    for link in chain:
        lines += _asking(link, around) if isinstance(link, Guard) else _asking_each(link, around)
        around = _after(link, around)
    return _function(name, tuple(asked), "Reason | None", [*lines, "return None"])


def _after(link: Link[...], around: Around) -> Around:
    """Where the next one stands: what a guard refuses to be unknown is known behind it."""
    match link:
        case Guard(when=Unknown(path)):
            return around.knowing(path)
        case _:
            return around


def predicate(name: str, condition: Condition, *subjects: str) -> str:
    """A function of the subjects that says whether the condition is true of them."""
    return _function(name, subjects, "bool", [f"return bool({true_if(condition)})"])


def merit(name: str, keys: tuple[Key, ...]) -> str:
    """A function of a log, its position and its cost by which the better one is the greater one; unknown is worst."""
    values = ", ".join(map(_higher_is_better, keys))
    return f"def {name}(log: ReplicaLog, position: int, cost: Cost) -> tuple[float, ...]:\n    return ({values},)\n"


def _higher_is_better(key: Key) -> str:
    fact = FACTS[key.fact]
    if fact.read_from is None:
        return raw(fact.path) if key.descending else f"-{raw(fact.path)}"
    seen = key.fact if key.descending else f"-{key.fact}"
    return f"(-math.inf if ({key.fact} := {raw(fact.path)}) is None else {seen})"


def _guards(link: Link[...]) -> tuple[Guard[...], ...]:
    return (link,) if isinstance(link, Guard) else link.guards


def _function(name: str, subjects: tuple[str, ...], gives: str, lines: list[str]) -> str:
    arguments = ", ".join(f"{subject}: {_TYPES[subject]}" for subject in subjects)
    body = "\n".join(f"    {line}" for line in lines)
    return f"def {name}({arguments}) -> {gives}:\n{body}\n"


def _asking(guard: Guard[...], around: Around, among: Condition = ALWAYS) -> list[str]:
    """The lines that ask one guard. Whom it is asked about comes second: its own condition hardly ever holds."""
    condition = true_if(guard.when if among is ALWAYS else All(guard.when, among), around)
    code = (
        repr(guard.code)
        if isinstance(guard.code, str)
        else value(guard.code.path, otherwise=repr(guard.code.otherwise))
    )
    arguments = ", ".join(signature(guard.explain).parameters)
    return [f"if {condition}:", f"    return Reason({code}, {around.place(guard)}.explain({arguments}))"]


def _asking_each(link: EachReplica, around: Around) -> list[str]:
    """The lines that ask about every replica; what is the same for all of them is worked out first."""
    moments = dict.fromkeys(moment for guard in link.guards for moment in _moments(guard.when))
    names: dict[Term, str] = {moment: f"moment_{place}" for place, moment in enumerate(moments)}
    inner = [line for guard in link.guards for line in _asking(guard, replace(around, names=names), link.among)]
    lines = [f"{name} = {raw(moment)}" for moment, name in names.items()]
    lines += ["for replica in partition.replicas:", *[f"    {line}" for line in inner]]
    return lines if link.when is ALWAYS else [f"if {true_if(link.when)}:", *[f"    {line}" for line in lines]]


def _moments(condition: Condition) -> Iterator[Before]:
    """Instants that a condition is about and that are always known."""
    match condition:
        case Less(one, other):
            yield from (term for term in (one, other) if isinstance(term, Before) and not list(_not_none(term)))
        case All(inner) | Either(inner):
            for each in inner:
                yield from _moments(each)


def _place(guard: Guard[...]) -> str:
    """Where the guard is found."""
    for home in (guards, refusals):
        for name, found in vars(home).items():
            if found is guard and not name.startswith("_"):
                return f"{home.__name__.rpartition('.')[2]}.{name}"
    raise ValueError(f"the guard {guard.code} has no name in {guards.__name__} or {refusals.__name__}")


def true_if(condition: Condition, around: Around = NOWHERE) -> str:
    """The condition as an expression that is true or false, or at least as good as that."""
    match condition:
        case Unknown(path):
            return " or ".join(f"{part} is None" for part in _may_be_none(path, around)) or "False"
        case Holds(path):
            return " and ".join([*_not_none(path, around, leaf=False), raw(path)])
        case Same(one, Value(bool(constant))):
            return f"{value(one, around)} is {constant}"
        case Same(str(path), Value() as other):  # no constant is unknown
            return " and ".join(
                [*_not_none(path, around, leaf=False), f"{raw(path, around)} == {value(other, around)}"]
            )
        case Same(one, other):
            return f"{value(one, around)} == {value(other, around)}"
        case Less(one, other):
            needed = [*_not_none(one, around), *_not_none(other, around)]
            return " and ".join([*needed, f"{raw(one, around)} < {raw(other, around)}"])
        case OneOf(member, of):
            needed = [*_not_none(member, around, leaf=False), *_not_none(of, around)]
            return " and ".join([*needed, f"{raw(member)} in {raw(of)}"])
        case Not(inner):
            return _not_true(inner, around)
        case All(inner):
            return " and ".join(_each_true(inner, around)) or "True"
        case Either(inner):
            return " or ".join(_apart(true_if(each, around)) for each in inner) or "False"
        case SomeReplica(inner):
            return f"any({true_if(inner)} for replica in partition.replicas)"
        case On(brokers):
            return f"replica.broker in index.{brokers.name}"
        case AnyIs(of, brokers):
            return " and ".join([*_not_none(of, around), f"not index.{brokers.name}.isdisjoint({raw(of)})"])


def _each_true(conditions: tuple[Condition, ...], around: Around) -> Iterator[str]:
    """One after the other: what the first ones found known is not asked for again."""
    for condition in _flat(conditions):
        if (expression := true_if(condition, around)) != "True":
            yield _apart(expression)
        match condition:
            case Not(Unknown(path)):
                around = around.knowing(path)


def _flat(conditions: tuple[Condition, ...]) -> Iterator[Condition]:
    for condition in conditions:
        if isinstance(condition, All):
            yield from _flat(condition.conditions)
        else:
            yield condition


def _not_true(condition: Condition, around: Around) -> str:
    match condition:
        case Unknown(path):
            return " and ".join(f"{part} is not None" for part in _may_be_none(path, around)) or "True"
        case Same(one, other) if not isinstance(other, Value):
            return f"{value(one, around)} != {value(other, around)}"
        case _:
            return f"not {_apart(true_if(condition, around))}"


def _apart(expression: str) -> str:
    """In parentheses, if it may be taken for a part of what stands around it."""
    joined = any(word in expression for word in (" and ", " or ", " == ", " is "))
    return f"({expression})" if joined and not expression.startswith("any(") else expression


def raw(term: Term, around: Around = NOWHERE) -> str:
    """The term as an expression, if what it needs is known."""
    if term in around.names:
        return around.names[term]
    match term:
        case str(path):
            field(path)  # or it leads nowhere
            subject, _, rest = path.partition(".")
            return ".".join(filter(None, (_PLACES.get(subject, subject), rest)))
        case Value(constant):
            return repr(str(constant) if isinstance(constant, str) else constant)
        case Size(path):
            return f"len({raw(path)})"
        case Times(one, other):
            return f"{raw(one)} * {raw(other)}"
        case Before(instant, duration):
            return f"{raw(instant)} - {raw(duration)}"


def value(term: Term, around: Around = NOWHERE, otherwise: str = "None") -> str:
    """The term as an expression; `otherwise` where what it needs is unknown."""
    needed = list(_not_none(term, around, leaf=isinstance(term, Size | Times | Before)))
    return f"({raw(term)} if {' and '.join(needed)} else {otherwise})" if needed else raw(term)


def _not_none(term: Term, around: Around = NOWHERE, *, leaf: bool = True) -> Iterator[str]:
    match term:
        case str(path):
            yield from (f"{part} is not None" for part in _may_be_none(path, around, leaf=leaf))
        case Size(path):
            yield from _not_none(path, around)
        case Times(one, other) | Before(one, other):
            yield from _not_none(one, around)
            yield from _not_none(other, around)


def _may_be_none(path: str, around: Around = NOWHERE, *, leaf: bool = True) -> Iterator[str]:
    """What has to be asked for, from the subject on."""
    seen = field(path)
    parts = [*map(raw, seen.needs), *([raw(path)] if leaf and seen.optional else [])]
    yield from (part for part in parts if part not in around.sure)


def _formatted(text: str) -> str:
    """As the project's own formatter has it."""
    command: list[Any] = [sys.executable, "-m", "ruff", "format", "--stdin-filename", PLACE, "-"]
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    PLACE.write_text(module())
