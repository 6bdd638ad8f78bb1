"""What conditions are about: the subjects that paths begin with, and what the domain's types say of their fields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from kafka_recovery.domain.evidence import Broker, ClusterState, PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.policy import Limits, Rule


@dataclass(frozen=True, slots=True)
class Counts:
    """A cluster's brokers, counted.

    `brokers_down`: fenced, or not known to be registered. `controller_present`: it told what it has committed, or the
    metadata of some broker advance; None: none was asked twice. `view_advances`: whether those of the broker advance
    whose metadata were read.
    """

    brokers_known: int
    brokers_down: int
    controller_present: bool | None
    view_advances: bool | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What is proven of the loss if a candidate leads. `loss_class`: 0 is the best; `at_most` None: no proven bound."""

    loss_class: int
    at_most: int | None


SUBJECTS: dict[str, Any] = {
    "broker": Broker,
    "replica": Replica,
    "log": ReplicaLog,
    "position": int,
    "cost": Cost,
    "partition": PartitionEvidence,
    "rule": Rule,
    "cluster": ClusterState,
    "counts": Counts,
    "limits": Limits,
    "waited": timedelta,
}


@dataclass(frozen=True, slots=True)
class Field:
    """The end of a path. `needs`: the paths on the way to it that may be unknown; itself may be, if `optional`."""

    type: Any
    needs: tuple[str, ...]
    optional: bool


@cache
def field(path: str) -> Field:
    """What stands at a path; raises ValueError if nothing does."""
    subject, *names = path.split(".")
    if subject not in SUBJECTS:
        raise ValueError(f"{path}: conditions are about {', '.join(SUBJECTS)}, not about {subject}")
    found, needs, optional, walked = SUBJECTS[subject], [], False, subject
    for name in names:
        if optional:
            needs.append(walked)
        found, optional = _without_none(_hint(found, name, path))
        walked = f"{walked}.{name}"
    return Field(found, tuple(needs), optional)


def _hint(owner: Any, name: str, path: str) -> Any:
    """The type of a field or property."""
    member = getattr(owner, name, None)
    hints = get_type_hints(member.fget) if isinstance(member, property) else get_type_hints(owner)
    if isinstance(member, property):
        return hints["return"]
    if name not in hints:
        raise ValueError(f"{path}: {owner.__name__} has no field {name}")
    return hints[name]


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The type itself, and whether None is allowed as well."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    some = [arm for arm in get_args(hint) if arm is not NoneType]
    return (some[0] if len(some) == 1 else hint), len(some) < len(get_args(hint))
