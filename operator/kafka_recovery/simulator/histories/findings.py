"""A broken promise, and what an invariant is: a question asked of a whole history, about one thing after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.scenario import Scenario


class Broken(NamedTuple):
    """What an invariant says of a thing that is not as promised: when, and what a person has to know of it."""

    at: float
    message: str


KEPT = None
"""What an invariant says of a thing that could have been wrong and is not."""

Examined = Iterator[Broken | None]
"""One entry for each thing that could have been wrong: an invariant that examines nothing promises nothing."""

Invariant = Callable[[Chronicle, Scenario], Examined]
"""Its name is what a finding is known by; its docstring says what must hold."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken promise, and whose. `named`: the known defect of the engine that it shows, if any."""

    invariant: str
    at: float
    message: str
    named: str | None = None

    def __str__(self) -> str:
        known = f" [known: {self.named}]" if self.named else ""
        return f"{self.at:9.3f} s  {self.invariant}{known}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every finding in the order of time, how many things each invariant has examined, and what the history contained.

    `marks`: see `judging.marks`.
    """

    findings: tuple[Finding, ...]
    examined: Mapping[str, int]
    marks: frozenset[str] = frozenset()


def unless(kept: bool, at: float, message: str) -> Broken | None:
    """Nothing where the promise was kept; else what is wrong."""
    return KEPT if kept else Broken(at, message)
