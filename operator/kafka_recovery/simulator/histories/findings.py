"""A broken promise, and what an invariant is: a question asked of a whole history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken promise: which invariant, when, and what a person has to know of it."""

    invariant: str
    at: float
    message: str

    def __str__(self) -> str:
        return f"{self.at:9.3f} s  {self.invariant}: {self.message}"


Findings = Iterator[Finding]
Invariant = Callable[[Chronicle, Scenario], Findings]
"""Its name is what a finding is known by; its docstring says what must hold."""
