"""Conditions as Python: source text, made once when the engine is imported, as fast as if written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

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
from kafka_recovery.decision.subjects import field

_PLACES = {"cluster": "scene.cluster", "counts": "scene.counts"}
"""Subjects that are no argument of a guard, and where they are found."""


def compiled(source: str, name: str, known: Mapping[str, Any]) -> Callable[..., Any]:
    """The function `name` that the source defines; `known` are the names it may use."""
    names = dict(known)
    exec(compile(source, f"<{name}>", "exec"), names)  # our own text, made of our own conditions
    function: Callable[..., Any] = names[name]
    return function


def predicate(condition: Condition, *subjects: str) -> Callable[..., bool]:
    """A function of the subjects that says whether the condition is true of them."""
    return compiled(f"def predicate({', '.join(subjects)}):\n    return bool({true_if(condition)})", "predicate", {})


def true_if(condition: Condition) -> str:
    """The condition as an expression that is true or false, or at least as good as that."""
    match condition:
        case Unknown(path):
            return " or ".join(f"{part} is None" for part in _may_be_none(path))
        case Holds(path):
            return " and ".join([*_not_none(path, leaf=False), raw(path)])
        case Same(one, other):
            return f"{value(one)} == {value(other)}"
        case Less(one, other):
            return " and ".join([*_not_none(one), *_not_none(other), f"{raw(one)} < {raw(other)}"])
        case OneOf(member, of):
            return " and ".join([*_not_none(member, leaf=False), *_not_none(of), f"{raw(member)} in {raw(of)}"])
        case Not(inner):
            return f"not ({true_if(inner)})"
        case All(inner):
            return " and ".join(f"({true_if(each)})" for each in inner) or "True"
        case Either(inner):
            return " or ".join(f"({true_if(each)})" for each in inner) or "False"
        case SomeReplica(inner):
            return f"any([{true_if(inner)} for replica in partition.replicas])"
        case On(brokers):
            return f"replica.broker in scene.{brokers.name}"
        case AnyIs(of, brokers):
            return " and ".join([*_not_none(of), f"not scene.{brokers.name}.isdisjoint({raw(of)})"])


def raw(term: Term) -> str:
    """The term as an expression, if what it needs is known."""
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


def value(term: Term, otherwise: str = "None") -> str:
    """The term as an expression; `otherwise` where what it needs is unknown."""
    needed = list(_needed(term))
    return f"({raw(term)} if {' and '.join(needed)} else {otherwise})" if needed else raw(term)


def _needed(term: Term) -> Iterator[str]:
    return _not_none(term, leaf=isinstance(term, Size | Times | Before))


def _not_none(term: Term, *, leaf: bool = True) -> Iterator[str]:
    match term:
        case str(path):
            yield from (f"{part} is not None" for part in _may_be_none(path, leaf=leaf))
        case Size(path):
            yield from _not_none(path)
        case Times(one, other) | Before(one, other):
            yield from _not_none(one)
            yield from _not_none(other)


def _may_be_none(path: str, *, leaf: bool = True) -> Iterator[str]:
    """What has to be asked for, from the subject on."""
    seen = field(path)
    yield from map(raw, seen.needs)
    if leaf and seen.optional:
        yield raw(path)
