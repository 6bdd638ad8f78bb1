"""From a failing history to a short one: leave out whatever the failure does not need (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from kafka_recovery.simulator.histories.scenario import Rules, Scenario

T = TypeVar("T")

Fails = Callable[[Scenario], bool]

MOST_TRIES = 400


def shrink(scenario: Scenario, fails: Fails, most_tries: int = MOST_TRIES) -> Scenario:
    """A scenario that fails as well and from which nothing more can be left out, or not within so many tries."""
    left = _Tries(fails, most_tries)
    before = None
    while before != scenario and left.any:
        before = scenario
        scenario = _fewer(scenario, "faults", left)
        scenario = _fewer(scenario, "engines", left)
        scenario = _fewer(scenario, "traffic", left)
        for simpler in _simpler(scenario):
            if left.fails(simpler):
                scenario = simpler
    return scenario


class _Tries:
    """Counts what it costs."""

    def __init__(self, fails: Fails, most: int) -> None:
        self._fails = fails
        self._left = most

    @property
    def any(self) -> bool:
        return self._left > 0

    def fails(self, scenario: Scenario) -> bool:
        if not self.any:
            return False
        self._left -= 1
        return self._fails(scenario)


def _fewer(scenario: Scenario, field: str, tries: _Tries) -> Scenario:
    """Leave out stretches of a list, large ones first."""
    things: Sequence[object] = getattr(scenario, field)
    size = max(len(things), 1)
    while size and tries.any:
        for first in range(0, len(things), size):
            smaller = (*things[:first], *things[first + size :])
            candidate = replace(scenario, **{field: smaller})  # type: ignore[arg-type]
            if len(smaller) < len(things) and tries.fails(candidate):
                return _fewer(candidate, field, tries)
        size //= 2
    return scenario


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    """The same with one thing as usual."""
    for place, run in enumerate(scenario.engines):
        if run.kill_at is not None:
            engines = (*scenario.engines[:place], replace(run, kill_at=None), *scenario.engines[place + 1 :])
            yield replace(scenario, engines=engines)
    usual = Rules()
    for field in ("required_answers", "attempts", "deadline", "max_age", "partitions", "brokers_down_percent"):
        if getattr(scenario.rules, field) != getattr(usual, field):
            yield replace(scenario, rules=replace(scenario.rules, **{field: getattr(usual, field)}))
    yield from _without_a_topic(scenario)
    if scenario.within is not None:
        yield replace(scenario, within=None)


def _without_a_topic(scenario: Scenario) -> Iterator[Scenario]:
    """Without one topic, and all that speaks of it."""
    for topic in scenario.topics:
        others = tuple(other for other in scenario.topics if other is not topic)
        if others:
            gone = {f"{topic.name}-{index}" for index in range(len(topic.assignments))}
            yield replace(
                scenario,
                topics=others,
                traffic=tuple(one for one in scenario.traffic if one.partition not in gone),
                faults=tuple(f for f in scenario.faults if f.partition not in gone and f.leader_of not in gone),
            )
