"""What goes wrong besides: anything, at any time, to anybody; and what lies in wait for an engine's own steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kafka_recovery.simulator.histories.scenario import (
    OF_MACHINES,
    OF_PARTITIONS,
    OF_WIRES,
    REQUESTS,
    Authority,
    Fault,
    Kind,
    Rules,
    Topic,
    Upon,
)

_TROUBLE: Mapping[Kind, int] = {
    Kind.KILL: 4, Kind.START: 5, Kind.STOP: 1, Kind.CRASH: 2, Kind.REPLACE_DISK: 1, Kind.FREEZE: 2, Kind.SLOW: 2,
    Kind.CUT: 2, Kind.ISOLATE: 2, Kind.MUTE: 1, Kind.DEAF: 1, Kind.HIDE: 2, Kind.FAILOVER: 1, Kind.NO_CONTROLLER: 1,
    Kind.KILL_CONTROLLER: 1, Kind.REASSIGN: 1, Kind.CANCEL: 1, Kind.RECREATE: 1, Kind.LOG_DIR: 1, Kind.JUMP: 1,
    Kind.KILL_ENGINE: 2, Kind.PAUSE_ENGINE: 1, Kind.DISK_FULL: 1, Kind.LOSE: 2, Kind.REORDER: 2, Kind.REBALANCE: 2,
    Kind.MIN_ISR: 1, Kind.UNCLEAN: 1, Kind.DELETE_RECORDS: 2, Kind.ELECT: 1, Kind.PREFER: 1, Kind.SUSPEND: 1,
    Kind.AUTHORITY: 1,
}  # fmt: skip
"""What may happen at any time, and how often more than other things before a seed has its own opinion."""

_AMBUSHES: Mapping[Kind, int] = {
    Kind.KILL: 3, Kind.CRASH: 1, Kind.FREEZE: 1, Kind.ISOLATE: 2, Kind.MUTE: 1, Kind.DEAF: 1, Kind.HIDE: 3,
    Kind.START: 3, Kind.REASSIGN: 2, Kind.CANCEL: 1, Kind.FAILOVER: 1, Kind.NO_CONTROLLER: 2, Kind.KILL_CONTROLLER: 1,
    Kind.KILL_ENGINE: 3, Kind.PAUSE_ENGINE: 3, Kind.LOSE: 1, Kind.REORDER: 1, Kind.REBALANCE: 1, Kind.DISK_FULL: 1,
    Kind.ELECT: 1, Kind.SUSPEND: 2, Kind.AUTHORITY: 2, Kind.RULES: 2, Kind.MIN_ISR: 1, Kind.RECREATE: 1, Kind.SLOW: 1,
    Kind.LOG_DIR: 1, Kind.REPLACE_DISK: 1, Kind.STOP: 1,
}  # fmt: skip

_PASSING = frozenset(
    {
        Kind.NO_CONTROLLER, Kind.FREEZE, Kind.SLOW, Kind.CUT, Kind.ISOLATE, Kind.MUTE, Kind.DEAF, Kind.HIDE,
        Kind.DISK_FULL, Kind.LOSE, Kind.REORDER, Kind.PAUSE_ENGINE, Kind.SUSPEND, Kind.AUTHORITY, Kind.UNCLEAN,
        Kind.KILL_CONTROLLER,
    }
)  # fmt: skip
_OF_ALL = frozenset(
    {
        Kind.FAILOVER, Kind.NO_CONTROLLER, Kind.KILL_CONTROLLER, Kind.LOSE, Kind.REORDER, Kind.REBALANCE, Kind.SUSPEND,
        Kind.AUTHORITY, Kind.RULES,
    }
)  # fmt: skip
_LOST = (0.01, 0.05, 0.2, 0.5)
_OVERTAKEN = (0.1, 0.3, 0.9)
_DRAWN_APART = OF_WIRES | {Kind.LAG, Kind.FULL_VOLUME, Kind.CLEANED_DISK}
"""Accidents of which no seed has an opinion: another kind among these would change what every seed draws."""

_OPINIONS = (0, 0, 1, 1, 4)
"""What a seed thinks of one kind: it leaves it out, takes it as it comes, or likes it."""


@dataclass(frozen=True, slots=True)
class Accidents:
    """One seed's accidents."""

    chance: random.Random
    topics: tuple[Topic, ...]
    brokers: int
    machines: tuple[int, ...]
    _likes: dict[Kind, int] = field(default_factory=dict)

    def retention(self, fallen: float) -> Iterator[Fault]:
        """In some histories retention has removed what is old before anybody falls."""
        if self.chance.random() < 0.25:
            for _ in range(self.chance.randint(1, 3)):
                yield self._drawn(self._moment(5, fallen), Kind.DELETE_RECORDS)

    def anywhere(self, quiet: float) -> Iterator[Fault]:
        """Anything, at any time, to anybody, before all is well again."""
        kinds = self._by_opinion(_TROUBLE)
        for _ in range(self.chance.choice((0, 0, 1, 2, 4, 7, 12))):
            kind, at = self.chance.choice(kinds), self._moment(2, quiet - 1)
            if kind in (Kind.KILL, Kind.CRASH) and self.chance.random() < 0.4:
                yield Fault(at, kind, leader_of=self._partition()[0])
            elif kind in OF_MACHINES:
                yield self._drawn(at, kind, machine=self.chance.choice(self.machines))
            else:
                yield self._drawn(at, kind)

    def in_wait(self, called: float, rules: Callable[[], Rules]) -> Iterator[Fault]:
        """What goes wrong at the worst moment: just as an engine has done something, or is about to."""
        kinds = self._by_opinion(_AMBUSHES)
        for _ in range(self.chance.choice((0, 1, 2, 3, 4))):
            upon, kind = self.chance.choice(tuple(Upon)), self.chance.choice(kinds)
            lies: dict[str, object] = {
                "upon": upon,
                "turn": self.chance.choice((1, 1, 1, 2, 3)),
                "later": self.chance.choice((0.0, 0.0, 0.003, 0.05, 0.5, 2.0)),
            }
            at = self._moment(called - 1, called + self.chance.choice((0, 0, 0, 30)))
            if kind is Kind.RULES:
                lies["rules"] = rules()
            if kind is Kind.AUTHORITY:
                lies["authority"] = self.chance.choice((Authority.OBSERVE, Authority.APPROVE))
            named = upon in REQUESTS or upon in (Upon.PLANNED, Upon.BEGUN)
            if named and kind not in (*_OF_ALL, *OF_PARTITIONS, *OF_MACHINES, Kind.START):
                lies["designated"] = self.chance.random() < 0.8
            yield self._drawn(at, kind, **lies)

    def _by_opinion(self, weights: Mapping[Kind, int]) -> list[Kind]:
        for kind in Kind:
            if kind not in self._likes and kind not in _DRAWN_APART:
                self._likes[kind] = self.chance.choice(_OPINIONS)
        return [kind for kind, weight in weights.items() for _ in range(weight * self._likes[kind])] or [*weights]

    def _drawn(self, at: float, kind: Kind, **more: object) -> Fault:
        """A fault of this kind, with all that it needs."""
        needs: dict[str, object] = {}
        if kind in _PASSING:
            most = 90 if kind is Kind.PAUSE_ENGINE and self.chance.random() < 0.2 else 40
            needs["lasting"] = round(self.chance.uniform(0.5, most), 2)
        if kind in OF_PARTITIONS:
            needs["partition"], replicas = self._partition()
            if kind is Kind.REASSIGN:
                needs["replicas"] = self._others(replicas)
            if kind is Kind.MIN_ISR:
                needs["count"] = self.chance.randint(1, len(replicas))
            if kind is Kind.DELETE_RECORDS:
                needs["count"] = self.chance.choice((0, 1, 5, 20))
        elif kind not in (*_OF_ALL, *OF_MACHINES) and not more.get("designated"):
            needs["broker"], other = self.chance.sample(range(1, self.brokers + 1), 2)
            if kind is Kind.CUT:
                needs["other"] = other
        if kind is Kind.SLOW:
            needs["delay"] = round(self.chance.uniform(0.1, 6), 2)
        if kind is Kind.JUMP:
            needs["delay"] = self.chance.choice((-86400.0, -30.0, 45.0, 86400.0))
        if kind in (Kind.LOSE, Kind.REORDER):
            needs["chance"] = self.chance.choice(_LOST if kind is Kind.LOSE else _OVERTAKEN)
        if kind is Kind.AUTHORITY and "authority" not in more:
            needs["authority"] = self.chance.choice((Authority.OBSERVE, Authority.APPROVE))
        return Fault(at, kind, **{**needs, **more})  # type: ignore[arg-type]

    def _partition(self) -> tuple[str, tuple[int, ...]]:
        topic = self.chance.choice(self.topics)
        index = self.chance.randrange(len(topic.assignments))
        return f"{topic.name}-{index}", topic.assignments[index]

    def _others(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """The same replicas in another order, or with one of them somewhere else."""
        new = list(replicas)
        spare = sorted(set(range(1, self.brokers + 1)) - set(replicas))
        if spare and self.chance.random() < 0.5:
            new[self.chance.randrange(len(new))] = self.chance.choice(spare)
        self.chance.shuffle(new)
        return tuple(new)

    def _moment(self, first: float, last: float) -> float:
        return round(self.chance.uniform(first, last), 2)
