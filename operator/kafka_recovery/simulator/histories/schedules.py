"""A scenario drawn from a seed: an incident that leaves partitions without a leader, engines that recover it, trouble.

Purely random faults seldom get a partition offline with survivors worth electing, so each scenario has an incident that
does (followers fall behind, the leader falls, some come back), and chance around it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.policy import Approval, CandidateOrder, RequiredAnswers
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.histories.scenario import VERSION as SCENARIOS
from kafka_recovery.simulator.histories.scenario import (
    Command,
    EngineRun,
    Fault,
    Kind,
    Rules,
    Scenario,
    Topic,
    Traffic,
    Upon,
)

VERSION = 2
"""What a seed means: raised whenever the same seed would draw another scenario than before."""

_TROUBLE = (
    *(Kind.KILL,) * 4, *(Kind.START,) * 5, Kind.STOP, *(Kind.CRASH,) * 2, Kind.REPLACE_DISK, *(Kind.FREEZE,) * 2,
    *(Kind.SLOW,) * 2, *(Kind.CUT,) * 2, *(Kind.ISOLATE,) * 2, *(Kind.HIDE,) * 2, Kind.FAILOVER, Kind.NO_CONTROLLER,
    Kind.REASSIGN, Kind.RECREATE, Kind.LOG_DIR, Kind.JUMP, *(Kind.KILL_ENGINE,) * 2, Kind.DISK_FULL,
    *(Kind.LOSE,) * 2, *(Kind.REORDER,) * 2, *(Kind.REBALANCE,) * 2,
)  # fmt: skip
_AMBUSHES = (
    *(Kind.KILL,) * 3, Kind.CRASH, Kind.FREEZE, *(Kind.ISOLATE,) * 2, *(Kind.HIDE,) * 3, *(Kind.START,) * 3,
    *(Kind.REASSIGN,) * 2, Kind.FAILOVER, *(Kind.NO_CONTROLLER,) * 2, *(Kind.KILL_ENGINE,) * 2,
    Kind.LOSE, Kind.REORDER, Kind.REBALANCE,
)  # fmt: skip
_PASSING = frozenset(
    {
        Kind.NO_CONTROLLER, Kind.FREEZE, Kind.SLOW, Kind.CUT, Kind.ISOLATE, Kind.HIDE, Kind.DISK_FULL, Kind.LOSE,
        Kind.REORDER,
    }
)  # fmt: skip
_WITHOUT_A_PLACE = frozenset({Kind.FAILOVER, Kind.NO_CONTROLLER, Kind.LOSE, Kind.REORDER, Kind.REBALANCE})
_LOST = (0.01, 0.05, 0.2, 0.5)
_OVERTAKEN = (0.1, 0.3, 0.9)
_DIVERGING = 14.0
"""Seconds from the first leader's fall to the second one's."""
_MOST_SEEDS = 1_000_000
_MANY_STEPS = 150
"""An engine's run seldom takes more IO steps than this."""


def seeds(text: str) -> tuple[int, ...]:
    """`200`, `40..60` (without the last), or either with the version that drew them: `v2:40..60`.

    Raises InvalidDocument, also for seeds of another version: they would draw other histories.
    """
    form = re.fullmatch(r"(v\d{1,9}:)?(?:(\d{1,9})\.\.)?(\d{1,9})", text, re.ASCII)
    if form is None:
        raise InvalidDocument(f"--seeds {text!r}: give how many (200), or first..last+1 (40..60)")
    version, first, end = form.groups()
    _same_version(f"--seeds {text}", version)
    wanted = range(int(first or 0), int(end))
    if not wanted:
        raise InvalidDocument(f"--seeds {text}: that is no history at all")
    if len(wanted) > _MOST_SEEDS:
        raise InvalidDocument(f"--seeds {text}: at most {_MOST_SEEDS} histories at a time")
    return tuple(wanted)


def the_seed(text: str) -> int:
    """One seed, `17` or `v2:17`. Raises InvalidDocument as `seeds` does."""
    form = re.fullmatch(r"(v\d{1,9}:)?(\d{1,9})", text, re.ASCII)
    if form is None:
        raise InvalidDocument(f"--seed {text!r}: give the seed of one history (17, or v{VERSION}:17)")
    _same_version(f"--seed {text}", form[1])
    return int(form[2])


def _same_version(said: str, version: str | None) -> None:
    if version is not None and version != f"v{VERSION}:":
        message = f"these are seeds of version {version.strip('v:')}, and this simulator draws version {VERSION}"
        raise InvalidDocument(f"{said}: {message}; use the release that named them, or leave out {version}")


def draw(seed: int) -> Scenario:
    """The scenario of this seed, always the same one for one VERSION."""
    return _Draw(random.Random(f"{VERSION}/{seed}")).scenario(seed)


@dataclass(frozen=True, slots=True)
class _Draw:
    chance: random.Random

    def scenario(self, seed: int) -> Scenario:
        chance = self.chance
        brokers = chance.randint(3, 5)
        topics = tuple(self._topics(brokers))
        fallen = self._moment(18, 30)
        called = fallen + chance.uniform(1, 25)
        quiet = called + chance.uniform(60, 110)
        diverges = chance.random() < 0.3
        burst = Traffic(f"{topics[0].name}-0", False, fallen - _DIVERGING, fallen - _DIVERGING + 2.5, 0.2, 3)
        engines = tuple(sorted(self._engines(called, quiet), key=lambda run: run.at))
        machines = sorted({run.machine for run in engines})
        faults = [
            *(self._divergence if diverges else self._incident)(topics, fallen),
            *self._trouble(topics, brokers, machines, quiet),
            *self._ambushes(topics, brokers, called),
        ]
        return Scenario(
            SCENARIOS,
            seed,
            brokers,
            topics,
            elr=chance.random() < 0.5,
            driver=Driver.DESIGNATED if chance.random() < 0.25 else Driver.ASSIGNMENT_ORDER,
            knows_history=chance.random() < 0.5,
            rules=self._rules(),
            within=chance.choice((None, None, 30.0, 90.0)),
            traffic=(*self._traffic(topics, quiet), *([burst] if diverges else [])),
            faults=tuple(sorted(faults, key=lambda fault: fault.at)),
            engines=engines,
            quiet_at=self._moment(quiet, quiet),
        )

    def _topics(self, brokers: int) -> Iterator[Topic]:
        for name in ("orders", "payments")[: self.chance.randint(1, 2)]:
            replication = self.chance.randint(2, min(brokers, 4))
            assignments = tuple(
                tuple(self.chance.sample(range(1, brokers + 1), replication)) for _ in range(self.chance.randint(1, 3))
            )
            yield Topic(name, assignments, self.chance.randint(1, min(replication, 3)))

    def _traffic(self, topics: tuple[Topic, ...], quiet: float) -> Iterator[Traffic]:
        for topic in topics:
            for index in range(len(topic.assignments)):
                for acks_all in (True, False):
                    if acks_all or self.chance.random() < 0.3:
                        first, every = self._moment(1, 4), round(self.chance.uniform(0.5, 3), 2)
                        records = self.chance.randint(1, 4)
                        yield Traffic(f"{topic.name}-{index}", acks_all, first, quiet + 20, every, records)

    def _incident(self, topics: tuple[Topic, ...], fallen: float) -> Iterator[Fault]:
        """Followers fall behind one after the other, then the leader falls, then some of them come back."""
        topic = self.chance.choice(topics)
        replicas = self.chance.choice(topic.assignments)
        leader, followers = replicas[0], list(replicas[1:])
        self.chance.shuffle(followers)
        way = self.chance.choice((Kind.KILL, Kind.KILL, Kind.FREEZE, Kind.ISOLATE, Kind.CRASH))
        for broker in followers:
            yield Fault(self._moment(3, fallen - 3), way, broker)
        end = self.chance.choice((Kind.KILL,) * 5 + (Kind.CRASH,) * 2 + (Kind.ISOLATE,))
        yield Fault(self._moment(fallen, fallen + 2), end, leader)
        back = {Kind.FREEZE: Kind.THAW, Kind.ISOLATE: Kind.HEAL}.get(way, Kind.START)
        if way is end is Kind.ISOLATE:
            return
        for broker in followers:
            if self.chance.random() < 0.85:
                yield Fault(self._moment(fallen + 1, fallen + 15), back, broker)
        if self.chance.random() < 0.1:
            yield from _flicker(leader, followers, fallen)

    def _divergence(self, topics: tuple[Topic, ...], fallen: float) -> Iterator[Fault]:
        """The first leader dies with records nobody has; the next one writes others, loses its follower and falls."""
        first, second, *others = topics[0].assignments[0]
        at = fallen - _DIVERGING
        for broker in (second, *others):
            yield Fault(at, Kind.CUT, first, other=broker, lasting=4)
        yield Fault(self._moment(at + 1, at + 2.5), Kind.KILL, first)
        for broker in others:
            yield Fault(self._moment(at + 5, at + 8), Kind.KILL, broker)
        yield Fault(self._moment(fallen, fallen + 1), Kind.KILL, second)
        for broker in (first, *others):
            if self.chance.random() < 0.9:
                yield Fault(self._moment(fallen + 5, fallen + 12), Kind.START, broker)

    def _trouble(self, topics: tuple[Topic, ...], brokers: int, machines: list[int], quiet: float) -> Iterator[Fault]:
        """Anything, at any time, to anybody."""
        for _ in range(self.chance.choice((0, 1, 2, 4, 7, 12))):
            kind, at = self.chance.choice(_TROUBLE), self._moment(2, quiet - 1)
            lasting = round(self.chance.uniform(0.5, 40), 2) if kind in _PASSING else None
            broker, other = self.chance.sample(range(1, brokers + 1), 2)
            topic = self.chance.choice(topics)
            index = self.chance.randrange(len(topic.assignments))
            partition = f"{topic.name}-{index}"
            if kind is Kind.REASSIGN:
                yield Fault(at, kind, partition=partition, replicas=self._others(topic.assignments[index], brokers))
            elif kind is Kind.RECREATE:
                yield Fault(at, kind, partition=partition)
            elif kind in (Kind.JUMP, Kind.KILL_ENGINE, Kind.DISK_FULL):
                delay = self.chance.choice((-86400.0, -30.0, 45.0, 86400.0)) if kind is Kind.JUMP else 0.0
                yield Fault(at, kind, machine=self.chance.choice(machines), delay=delay, lasting=lasting)
            elif kind in _WITHOUT_A_PLACE:
                yield Fault(at, kind, chance=self._probability(kind), lasting=lasting)
            elif kind in (Kind.KILL, Kind.CRASH) and self.chance.random() < 0.4:
                yield Fault(at, kind, leader_of=partition)
            else:
                delay = round(self.chance.uniform(0.1, 6), 2) if kind is Kind.SLOW else 0.0
                yield Fault(
                    at, kind, broker, other=other if kind is Kind.CUT else None, delay=delay, lasting=lasting
                )  # fmt: skip

    def _ambushes(self, topics: tuple[Topic, ...], brokers: int, called: float) -> Iterator[Fault]:
        """What goes wrong at the worst moment: just as an engine changes something."""
        for _ in range(self.chance.choice((0, 1, 1, 2, 3))):
            upon, kind = self.chance.choice(tuple(Upon)), self.chance.choice(_AMBUSHES)
            at = self._moment(called - 1, called + self.chance.choice((0, 0, 0, 30)))
            later = self.chance.choice((0.0, 0.0, 0.003, 0.5, 2.0))
            lasting = round(self.chance.uniform(0.5, 40), 2) if kind in _PASSING else None
            topic = self.chance.choice(topics)
            index = self.chance.randrange(len(topic.assignments))
            if kind is Kind.REASSIGN:
                others = self._others(topic.assignments[index], brokers)
                yield Fault(at, kind, upon=upon, later=later, partition=f"{topic.name}-{index}", replicas=others)
            elif kind is Kind.KILL_ENGINE:
                yield Fault(at, kind, upon=upon, later=later, machine=0)
            elif kind in _WITHOUT_A_PLACE:
                yield Fault(at, kind, upon=upon, later=later, chance=self._probability(kind), lasting=lasting)
            elif kind is Kind.START:
                yield Fault(at, kind, self.chance.randint(1, brokers), upon=upon, later=later)
            else:
                yield Fault(at, kind, designated=True, upon=upon, later=later, lasting=lasting)

    def _probability(self, kind: Kind) -> float:
        """How many of the messages are concerned."""
        return self.chance.choice({Kind.LOSE: _LOST, Kind.REORDER: _OVERTAKEN}.get(kind, (0.0,)))

    def _others(self, replicas: tuple[int, ...], brokers: int) -> tuple[int, ...]:
        """The same replicas in another order, or with one of them somewhere else."""
        new = list(replicas)
        spare = sorted(set(range(1, brokers + 1)) - set(replicas))
        if spare and self.chance.random() < 0.5:
            new[self.chance.randrange(len(new))] = self.chance.choice(spare)
        self.chance.shuffle(new)
        return tuple(new)

    def _engines(self, called: float, quiet: float) -> Iterator[EngineRun]:
        """One run, often killed and followed by others; sometimes on two machines at once."""
        machines = (0, 1) if self.chance.random() < 0.25 else (0,)
        for machine in machines:
            at = called + self.chance.uniform(0, 10)
            command = self.chance.choice((Command.RECOVER,) * 3 + (Command.EXECUTE,))
            while at < quiet:
                kill_at = self.chance.randint(1, _MANY_STEPS) if self.chance.random() < 0.5 else None
                yield EngineRun(
                    self._moment(at, at),
                    command,
                    machine,
                    kill_at,
                    approves=self.chance.random() < 0.85,
                    thinking=round(self.chance.choice((0.0, 1.0, 5.0, 40.0)) * self.chance.random(), 2),
                    whole_cluster=self.chance.random() < 0.5,
                )
                if kill_at is None and self.chance.random() < 0.7:
                    return
                at += self.chance.uniform(2, 40)
                command = self.chance.choice(tuple(Command))

    def _rules(self) -> Rules:
        choice = self.chance.choice
        return Rules(
            choice(tuple(CandidateOrder)),
            choice((Approval.AUTO, Approval.AUTO, Approval.MANUAL, Approval.AUTO_LOSSLESS)),
            choice((RequiredAnswers.ALL, RequiredAnswers.ANY)),
            patience=choice((1.0, 5.0, 20.0)),
            deadline=choice((1.0, 2.0, 5.0)),
            attempts=choice((1, 2, 3)),
            max_age=choice((5.0, 60.0)),
            min_replication_factor=choice((1, 1, 1, 1, 2, 3)),
            partitions=choice((1, 2, 5000, 5000, 5000)),
            brokers_down_percent=choice((50, 70, 100, 100, 100, 100)),
            wave_sizes=choice(((1,), (1, 2), (50,), (1, 50))),
        )

    def _moment(self, first: float, last: float) -> float:
        """Whole hundredths read better and lose nothing."""
        return round(self.chance.uniform(first, last), 2)


def _flicker(leader: int, followers: list[int], fallen: float) -> Iterator[Fault]:
    """The last leader is back for some seconds, heard by nobody: another epoch, and the same logs."""
    for broker in followers:
        yield Fault(fallen, Kind.CUT, leader, other=broker, upon=Upon.APPROVE, lasting=15)
    yield Fault(fallen, Kind.START, leader, upon=Upon.APPROVE)
    yield Fault(fallen, Kind.KILL, leader, upon=Upon.APPROVE, later=4)
