"""Guards, and what a chain of them objects to first.

A guard is a condition with a code and a sentence. The condition and the code are data, which every engine reads; the
sentence is written only where a person will read it. A new guard is one function, one line in a chain and one test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import signature
from typing import Any, Generic, ParamSpec

from kafka_recovery.decision.conditions import ALWAYS, Condition
from kafka_recovery.decision.python_source import compiled, true_if, value
from kafka_recovery.domain.reason import Reason

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
    _alone: Callable[P, Reason | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_alone", _compiled((self,)))

    def __call__(self, *about: P.args, **named: P.kwargs) -> Reason | None:
        """The reason this guard alone has to object, or None."""
        return self._alone(*about, **named)


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


def first_objection(chain: tuple[Link[P], ...]) -> Callable[P, Reason | None]:
    """A function that gives the reason of the first guard of the chain that objects, or None."""
    objection: Callable[P, Reason | None] = _compiled(chain)
    return objection


@lru_cache(maxsize=256)
def _compiled(chain: tuple[Link[...], ...]) -> Callable[..., Any]:
    """The whole chain as one function: what nobody objects to costs no further call."""
    names: dict[str, Any] = {"Reason": Reason}
    arguments: list[str] = []
    lines: list[str] = []
    for link in chain:
        if isinstance(link, Guard):
            arguments = list(signature(link.explain).parameters)
            lines += _asking(link, ALWAYS, names)
        else:
            lines += [f"if {true_if(link.when)}:", "    for replica in partition.replicas:"]
            for guard in link.guards:
                arguments = [name for name in signature(guard.explain).parameters if name != "replica"]
                lines += [f"        {line}" for line in _asking(guard, link.among, names)]
    body = "\n".join(f"    {line}" for line in [*lines, "return None"])
    return compiled(f"def objection({', '.join(arguments)}):\n{body}", "objection", names)


def _asking(guard: Guard[...], among: Condition, names: dict[str, Any]) -> list[str]:
    """The lines that ask one guard. Whom it is asked about comes second: its own condition hardly ever holds."""
    explain = f"explain_{len(names)}"
    names[explain] = guard.explain
    condition = true_if(guard.when) if among is ALWAYS else f"({true_if(guard.when)}) and ({true_if(among)})"
    code = repr(guard.code) if isinstance(guard.code, str) else value(guard.code.path, repr(guard.code.otherwise))
    arguments = ", ".join(signature(guard.explain).parameters)
    return [f"if {condition}:", f"    return Reason({code}, {explain}({arguments}))"]
