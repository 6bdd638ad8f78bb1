"""What leaves partitions without a leader and with survivors worth electing: chance alone seldom gets there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafka_recovery.simulator.histories.scenario import Fault, Kind, Topic, Traffic, Upon

_DIVERGING = 14.0
"""Seconds from the first leader's fall to the second one's."""

_BEST_STANDS_LAST = 0.6
"""How often followers fall behind in the order of their assignment: else most orders elect the best one as they are."""

_COPIES = 3
"""Of so many, two in sync and two that answer prove how much is lost at most."""

_FULL_TOO = 0.3
"""How often volumes fill up besides, where disks were cleaned."""

_BACK = {Kind.FREEZE: Kind.THAW, Kind.ISOLATE: Kind.HEAL}
"""What brings a broker back; any other is started."""


@dataclass(frozen=True, slots=True)
class Incident:
    """What happens to a partition, and what is written for its sake. `alone`: since when nothing else is written.

    `elr`: without eligible leader replicas it would be none; `bounds`: nor without what bounds a loss. `raises`:
    min.insync.replicas is raised from 1 while its leader's metadata are behind. `apart`: there is no other partition.
    """

    partition: str
    replicas: tuple[int, ...]
    faults: tuple[Fault, ...]
    traffic: tuple[Traffic, ...] = ()
    alone: float | None = None
    elr: bool = False
    bounds: bool = False
    raises: bool = False
    apart: bool = False

    def of(self, topic: Topic) -> bool:
        """Whether the partition is one of this topic's."""
        return self.partition.rpartition("-")[0] == topic.name


@dataclass(frozen=True, slots=True)
class Incidents:
    """One kind or another, by chance."""

    chance: random.Random
    brokers: int

    def drawn(self, topics: tuple[Topic, ...], fallen: float, called: float) -> Incident:
        """An incident whose last leader falls at `fallen`, before an engine is `called`."""
        kinds = (
            self._lag,
            self._lag,
            self._lag,
            self._divergence,
            self._fork,
            self._cut_off,
            self._moving,
            self._eligible,
        )
        incident = self.chance.choice(kinds)(topics, fallen)
        if self.chance.random() < 0.15:
            returning = self._returning(topics, called)
            return replace(incident, faults=(*incident.faults, *returning))
        return incident

    def _lag(self, topics: tuple[Topic, ...], fallen: float) -> Incident:
        """Followers fall behind one after the other, then the leader falls, then some of them come back."""
        name, replicas = self._partition(topics)
        return Incident(name, replicas, tuple(self._one_by_one(replicas, fallen)))

    def _one_by_one(self, replicas: tuple[int, ...], fallen: float) -> Iterator[Fault]:
        leader, followers = replicas[0], list(replicas[1:])
        way = self.chance.choice((Kind.KILL, Kind.KILL, Kind.FREEZE, Kind.ISOLATE, Kind.CRASH))
        if self.chance.random() >= _BEST_STANDS_LAST:
            self.chance.shuffle(followers)
        moments = sorted(self._moment(3, fallen - 7) for _ in followers)
        for broker, at in zip(followers, moments, strict=True):
            yield Fault(at, way, broker)
        end = self.chance.choice((Kind.KILL,) * 5 + (Kind.CRASH,) * 2 + (Kind.ISOLATE,))
        yield Fault(self._moment(fallen, fallen + 2), end, leader)
        if way is end is Kind.ISOLATE:
            return
        for broker in followers:
            if self.chance.random() < 0.9:
                yield Fault(self._moment(fallen + 1, fallen + 12), _BACK.get(way, Kind.START), broker)
        if self.chance.random() < 0.1:
            yield from _flicker(leader, followers, fallen)

    def contested(self, topics: tuple[Topic, ...], fallen: float) -> Incident:
        """The same, and the best of them stays away until some engine sets another order."""
        name, replicas = f"{topics[0].name}-0", topics[0].assignments[0]
        leader, *others, _ = replicas
        moments = sorted(self._moment(3, fallen - 7) for _ in replicas[1:])
        faults = [Fault(at, Kind.KILL, broker) for broker, at in zip(replicas[1:], moments, strict=True)]
        faults.append(Fault(self._moment(fallen, fallen + 2), Kind.KILL, leader))
        faults += [Fault(self._moment(fallen + 1, fallen + 3), Kind.START, broker) for broker in others]
        return Incident(name, replicas, tuple(faults))

    def _divergence(self, topics: tuple[Topic, ...], fallen: float) -> Incident:
        """The first leader dies with records nobody has; the next one writes others, loses its follower and falls."""
        at = fallen - _DIVERGING
        name, replicas = f"{topics[0].name}-0", topics[0].assignments[0]
        burst = Traffic(name, False, at, at + 2.5, 0.2, 3)
        bounds = len(replicas) == _COPIES and self.chance.random() < 0.5
        return Incident(name, replicas, tuple(self._diverging(replicas, fallen)), (burst,), bounds=bounds)

    def _fork(self, topics: tuple[Topic, ...], fallen: float) -> Incident:
        """The same, and the next leader takes as many records as the first one had alone: two logs of one length."""
        at, name, replicas = fallen - _DIVERGING, f"{topics[0].name}-0", topics[0].assignments[0]
        many = self.chance.randint(1, 20)
        first = Traffic(name, False, at + 0.05, at + 0.35, 0.25, many)
        second = Traffic(name, False, at + 10, at + 10.35, 0.25, many)
        faults = tuple(self._diverging(replicas, fallen, (11.5, 13)))
        return Incident(name, replicas, faults, (first, second), at - 1)

    def _diverging(
        self, replicas: tuple[int, ...], fallen: float, behind: tuple[float, float] = (5, 8)
    ) -> Iterator[Fault]:
        first, second, *others = replicas
        at = fallen - _DIVERGING
        for broker in (second, *others):
            yield Fault(at, Kind.CUT, first, other=broker, lasting=4)
        yield Fault(self._moment(at + 1, at + 2.5), Kind.KILL, first)
        for broker in others:
            yield Fault(self._moment(at + behind[0], at + behind[1]), Kind.KILL, broker)
        yield Fault(self._moment(fallen, fallen + 1), Kind.KILL, second)
        for broker in (first, *others):
            if self.chance.random() < 0.95:
                yield Fault(self._moment(fallen + 5, fallen + 12), Kind.START, broker)

    def _cut_off(self, topics: tuple[Topic, ...], fallen: float) -> Incident:
        """The last leader lives on, cut off from the controllers one way or both, and does not know it is none."""
        name, replicas = self._partition(topics)
        leader, *followers = replicas
        faults = [Fault(self._moment(3, fallen - 7), Kind.KILL, broker) for broker in followers]
        lasting = self.chance.choice((None, self._moment(10, 60)))
        way = self.chance.choice((Kind.ISOLATE, Kind.MUTE, Kind.DEAF))
        faults.append(Fault(fallen, way, leader, lasting=lasting))
        if way is Kind.DEAF:  # it goes on telling that it lives: somebody else's word is needed
            faults.append(Fault(fallen, Kind.MUTE, leader, lasting=lasting))
        if self.chance.random() < 0.5:
            faults.append(Fault(fallen, Kind.HIDE, leader, lasting=self._moment(5, 60)))
        faults += [Fault(self._moment(fallen + 1, fallen + 12), Kind.START, broker) for broker in followers]
        return Incident(name, replicas, tuple(faults))

    def _eligible(self, topics: tuple[Topic, ...], fallen: float) -> Incident:
        """An eligible replica answers again while nobody leads, but the controllers do not hear it."""
        known = [topic for topic in topics if topic.min_isr > 1 and len(topic.assignments[0]) > 2]
        if not known:
            return self._lag(topics, fallen)
        leader, eligible, *others = known[0].assignments[0]
        faults = [Fault(self._moment(3, 6), Kind.KILL, broker) for broker in others]
        faults += [Fault(self._moment(fallen - 9, fallen - 8), Kind.FREEZE, eligible)]
        faults += [Fault(self._moment(fallen - 1, fallen), Kind.KILL, leader)]
        faults += [Fault(self._moment(fallen + 1, fallen + 3), Kind.START, broker) for broker in others]
        upon = self.chance.choice((None, Upon.LOOKED, Upon.PLANNED, Upon.APPROVE))
        back, lasting = round(fallen + 3, 2), self._moment(30, 90)
        faults += [Fault(back, Kind.ISOLATE, eligible, upon=upon, lasting=lasting)]
        faults += [Fault(back, Kind.THAW, eligible, upon=upon, later=1.0 if upon else 0.0)]
        return Incident(f"{known[0].name}-0", known[0].assignments[0], tuple(faults), elr=True)

    def raised(self, topics: tuple[Topic, ...], fallen: float) -> Incident:
        """A leader that applies a raised min.insync.replicas late is soon alone, and acknowledges by the old value.

        It learns of its ISR by the answers to its own requests: what the controllers write reaches it too late. The
        others were cut off from it alone, and go on as the processes that they were.
        """
        name, replicas = self._partition(topics)
        leader, *followers = replicas
        faults = [
            Fault(2.5, Kind.LAG, leader, delay=40.0),
            Fault(2.8, Kind.MIN_ISR, partition=name, count=min(2, len(replicas))),
            *(Fault(self._moment(3, 3.5), Kind.CUT, broker, other=leader, lasting=fallen) for broker in followers),
            Fault(fallen, self.chance.choice((Kind.KILL, Kind.CRASH)), leader),
        ]
        return Incident(name, replicas, tuple(faults), raises=True)

    def on_disk(self, topics: tuple[Topic, ...], fallen: float, called: float, *, tiered: bool) -> Incident:
        """Nothing is written any more when followers and leader fall, so that all hold the same; their disks differ.

        `tiered`: each has cleaned its own disk. Else volumes fill up while nobody leads, once an engine is called too.
        """
        name, replicas = f"{topics[0].name}-0", topics[0].assignments[0]
        alone = self._moment(5, 7)
        faults = [Fault(self._moment(alone + 4, fallen - 3), Kind.KILL, broker) for broker in replicas[1:]]
        faults.append(Fault(self._moment(fallen, fallen + 1), Kind.KILL, replicas[0]))
        faults += [Fault(self._moment(fallen + 1, fallen + 3), Kind.START, broker) for broker in replicas[1:]]
        if tiered:
            for broker in replicas:
                at, count = self._moment(alone + 1, alone + 4), self.chance.choice((0, 1, 1, 3, 10))
                faults.append(Fault(at, Kind.CLEANED_DISK, broker, partition=name, count=count))
        if not tiered or self.chance.random() < _FULL_TOO:
            for broker in self.chance.sample(replicas, self.chance.randint(1, len(replicas))):
                upon = self.chance.choice((None, None, None, Upon.LOOKED, Upon.PLANNED))
                at = fallen + 3 if upon is None else called - 1
                lasting = self.chance.choice((None, None, self._moment(10, 60)))
                faults.append(Fault(round(at, 2), Kind.FULL_VOLUME, broker, upon=upon, lasting=lasting))
        return Incident(name, replicas, tuple(faults), alone=alone, apart=True)

    def _moving(self, topics: tuple[Topic, ...], fallen: float) -> Incident:
        """The same as ever, while the partition is being moved to another broker."""
        name, replicas = self._partition(topics)
        spare = sorted(set(range(1, self.brokers + 1)) - set(replicas))
        faults = list(self._one_by_one(replicas, fallen))
        if spare:
            target = (*replicas[:-1], self.chance.choice(spare))
            faults.append(Fault(fallen, Kind.REASSIGN, partition=name, replicas=target))
            faults.append(Fault(fallen, Kind.FREEZE, target[-1], lasting=self._moment(5, 60)))
            if self.chance.random() < 0.3:
                faults.append(Fault(fallen + self._moment(5, 40), Kind.CANCEL, partition=name))
        return Incident(name, replicas, tuple(faults))

    def _returning(self, topics: tuple[Topic, ...], called: float) -> Iterator[Fault]:
        """A replica answers again, and is not heard by the controllers, just when an engine has looked."""
        broker = self.chance.choice(self._partition(topics)[1])
        upon = self.chance.choice((Upon.LOOKED, Upon.PLANNED, Upon.APPROVE, Upon.BEGUN))
        lasting = self._moment(5, 40)
        yield Fault(called - 1, Kind.MUTE, broker, upon=upon, lasting=lasting)
        yield Fault(called - 1, Kind.START, broker, upon=upon)
        yield Fault(called - 1, Kind.THAW, broker, upon=upon, later=0.5)

    def _partition(self, topics: tuple[Topic, ...]) -> tuple[str, tuple[int, ...]]:
        topic = self.chance.choice(topics)
        index = self.chance.randrange(len(topic.assignments))
        return f"{topic.name}-{index}", topic.assignments[index]

    def _moment(self, first: float, last: float) -> float:
        return round(self.chance.uniform(first, last), 2)


def _flicker(leader: int, followers: list[int], fallen: float) -> Iterator[Fault]:
    """The last leader is back for some seconds, heard by nobody: another epoch, and the same logs."""
    for broker in followers:
        yield Fault(fallen, Kind.CUT, leader, other=broker, upon=Upon.APPROVE, lasting=15)
    yield Fault(fallen, Kind.START, leader, upon=Upon.APPROVE)
    yield Fault(fallen, Kind.KILL, leader, upon=Upon.APPROVE, later=4)
