"""Functions of chains and orders that tests make up or change, written as `checks` is and then read at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import write_checks
from kafka_recovery.decision.chains import Guard
from kafka_recovery.decision.conditions import Condition
from kafka_recovery.decision.order import Key
from kafka_recovery.domain.reason import Reason


def objection(chain: tuple[Any, ...]) -> Callable[..., Reason | None]:
    """What such a chain's function in `checks` would say."""
    found: dict[str, Guard[...]] = {}

    def place(guard: Guard[...]) -> str:
        name = f"guard_{len(found)}"
        found[name] = guard
        return name

    made: Callable[..., Reason | None] = _read(write_checks.objection("made", chain, place), {"Reason": Reason} | found)
    return made


def predicate(condition: Condition, *subjects: str) -> Callable[..., bool]:
    """Whether the condition is true of these subjects."""
    made: Callable[..., bool] = _read(write_checks.predicate("made", condition, *subjects), {})
    return made


def merit(keys: tuple[Key, ...]) -> Callable[..., tuple[float, ...]]:
    """What a log is worth by this order."""
    made: Callable[..., tuple[float, ...]] = _read(write_checks.merit("made", keys), {"math": math})
    return made


def _read(source: str, names: dict[str, Any]) -> Any:
    exec("from __future__ import annotations\n" + source, names)  # a test reads what was just written
    return names["made"]
