"""A scenario drawn from a seed: an incident that leaves partitions without a leader, engines that recover it, trouble.

Purely random faults seldom get a partition offline with survivors worth electing, so each scenario has an incident that
does (followers fall behind, the leader falls, some come back), and chance around it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.policy import Approval, CandidateOrder, RequiredAnswers
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.histories.accidents import Accidents
from kafka_recovery.simulator.histories.incidents import Incident, Incidents
from kafka_recovery.simulator.histories.ordeals import Ordeals
from kafka_recovery.simulator.histories.scenario import VERSION as SCENARIOS
from kafka_recovery.simulator.histories.scenario import (
    Command,
    EngineRun,
    Rules,
    Scenario,
    Topic,
    Traffic,
)
from kafka_recovery.simulator.histories.wires import SHARE, Wires
from kafka_recovery.simulator.model.settings import Settings

VERSION = 8
"""What a seed means: raised whenever the same seed would draw another scenario than before."""

_STREAM = 5
"""What chance is made from beside the seed: the version in which all seeds were drawn anew."""

_RIVALS = 0.05
"""How many of all histories are about two machines at one partition."""

_ALIKE = 0.4
"""How often all partitions of a topic have the same replicas, so that they fall together and take several waves."""

_TAKEN_OVER = 10
"""One history of so many is about a run that takes over from a killed one."""

_RAISED, _RAISED_FIRST = 20, 18
"""One history of so many, and the first of them, is about a minimum that is raised before its leader knows."""

_ON_DISK, _TIERED_FIRST, _FULL_FIRST = 20, 7, 13
"""One history of so many, and the first of them, is about a tiered topic, and another one about full volumes."""

_MOST_SEEDS = 1_000_000
_STEPS = (40, 100, 150, 250)
"""An engine's run seldom takes more IO steps than the last of these."""


def seeds(text: str) -> tuple[int, ...]:
    """`200`, `40..60` (without the last), or either with the version that drew them: `v8:40..60`.

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
    """One seed, `17` or `v8:17`. Raises InvalidDocument as `seeds` does."""
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
    return _Draw(random.Random(f"{_STREAM}/{seed}")).scenario(seed)


@dataclass(frozen=True, slots=True)
class _Draw:
    """Every probability is drawn anew for each seed: some histories are full of one thing, others free of it."""

    chance: random.Random

    def scenario(self, seed: int) -> Scenario:
        chance = self.chance
        rivals = chance.random() < _RIVALS
        brokers = chance.randint(4 if rivals else 3, 5)
        topics = tuple(self._topics(brokers, 4 if rivals else None))
        fallen = self._moment(20, 32)
        called = fallen + chance.uniform(3, 28)
        quiet = called + chance.uniform(60, 110)
        incidents = Incidents(chance, brokers)
        incident = incidents.contested(topics, fallen) if rivals else incidents.drawn(topics, fallen, called)
        if seed % _RAISED == _RAISED_FIRST:
            incident = Incidents(random.Random(f"raised/{_STREAM}/{seed}"), brokers).raised(topics, fallen)
        if (place := seed % _ON_DISK) in (_TIERED_FIRST, _FULL_FIRST):
            apart = Incidents(random.Random(f"on disk/{_STREAM}/{seed}"), brokers)
            incident = apart.on_disk(topics, fallen, called, tiered=place == _TIERED_FIRST)
        if incident.apart:
            topics = (replace(topics[0], assignments=topics[0].assignments[:1]),)
        if incident.bounds or incident.raises:
            at_first = 1 if incident.raises else 2
            topics = tuple(replace(topic, min_isr=at_first) if incident.of(topic) else topic for topic in topics)
        runs = self._rivals(called) if rivals else self._engines(called, quiet)
        if seed % _TAKEN_OVER == _TAKEN_OVER - 1:
            runs = self._taken_over(called)
        engines = tuple(sorted(runs, key=lambda run: run.at))
        machines = sorted({run.machine for run in engines})
        settings = self._settings()
        ordeals = Ordeals(chance, incident.partition, incident.replicas, fallen, called, engines[0].at, self._rules)
        accidents = Accidents(chance, topics, brokers, tuple(machines))
        faults = [
            *incident.faults,
            *accidents.retention(fallen),
            *accidents.anywhere(quiet),
            *accidents.in_wait(called, self._rules),
            *(ordeals.rivals() if rivals else ordeals.drawn()),
        ]
        if seed % SHARE == 0:
            partitions = tuple(f"{topic.name}-{index}" for topic in topics for index in range(len(topic.assignments)))
            wires = Wires(random.Random(f"wires/{_STREAM}/{seed}"), brokers, partitions)
            faults += wires.drawn(called, engines[0].at, quiet)
        return Scenario(
            SCENARIOS,
            seed,
            brokers,
            topics,
            elr=settings.fenced_listed and not incident.raises and (incident.elr or chance.random() < 0.5),
            driver=Driver.DESIGNATED if chance.random() < 0.1 else Driver.ASSIGNMENT_ORDER,
            knows_history=chance.random() < 0.5 or incident.bounds or incident.raises,
            witnessed=chance.choice((None, 0.5, 5.0)),
            rules=self._by_length() if incident.bounds else self._rules(),
            within=chance.choice((None, None, 15.0, 30.0, 90.0)),
            traffic=(*self._traffic(topics, quiet, incident), *incident.traffic),
            faults=tuple(sorted(faults, key=lambda fault: fault.at)),
            engines=engines,
            quiet_at=self._moment(quiet, quiet),
            lost=tuple(sorted(chance.sample(range(1, brokers + 1), chance.choice((0, 0, 0, 1, 2))))),
            controllers=chance.choice((1, 2, 3, 3)),
            settings=settings,
        )

    def _topics(self, brokers: int, wanted: int | None) -> Iterator[Topic]:
        for name in ("orders", "payments")[: self.chance.randint(1, 2)]:
            replication = wanted or min(brokers, self.chance.choice((2, 3, 3, 4)))
            count = self.chance.randint(1, 3)
            assignments = tuple(tuple(self.chance.sample(range(1, brokers + 1), replication)) for _ in range(count))
            if self.chance.random() < _ALIKE:
                assignments = assignments[:1] * count
            yield Topic(name, assignments, self.chance.randint(1, min(replication, 3)))

    def _traffic(self, topics: tuple[Topic, ...], quiet: float, incident: Incident) -> Iterator[Traffic]:
        for topic in topics:
            for index in range(len(topic.assignments)):
                for acks_all in (True, False):
                    if acks_all or self.chance.random() < 0.3:
                        first, every = self._moment(1, 4), round(self.chance.uniform(0.7, 4), 2)
                        records = self.chance.randint(1, 4)
                        name = f"{topic.name}-{index}"
                        alone = incident.alone if name == incident.partition else None
                        last = round(quiet + 20 if alone is None else alone, 2)
                        yield Traffic(name, acks_all, first, last, every, records)

    def _settings(self) -> Settings:
        """How fast everything is: half of it as usual. What Kafka fixes, and what is no time, stays as it is."""
        old = self.chance.random() < 0.15
        heartbeat = self._some(1.0, 0.3, 2.0)
        session = self._some(3.0, 2 * heartbeat, 4 * heartbeat)
        return Settings(
            release="3.9" if old else "4.1",
            fenced_listed=not old,
            delay=self._some(0.001, 0.0002, 0.02),
            jitter=self._some(0.002, 0.0, 0.03),
            fetch_max_wait=self._some(0.5, 0.1, 1.0),
            fetch_timeout=self._some(5.0, 2.0, 10.0),
            fetch_backoff=self._some(1.0, 0.2, 2.0),
            fetch_records=self.chance.choice((10_000, 10_000, 40, 5)),
            lag_max=self._some(10.0, 2.0, 15.0),
            heartbeat=heartbeat,
            session=session,
            self_fencing=round(1.5 * session, 4),
            registration_retry=self._some(0.5, 0.1, 2.0),
            no_op=self._some(0.5, 0.2, 0.5),
            linger=self._some(0.002, 0.0, 0.02),
            forward_retry=self._some(1.0, 0.1, 2.0),
            forward_timeout=self._some(30.0, 5.0, 30.0),
            controller_election=self._some(1.5, 0.3, 5.0),
            writeback=self._some(5.0, 0.5, 30.0),
            watermark_checkpoint=self._some(5.0, 0.5, 15.0),
            startup=self._some(1.0, 0.2, 3.0),
            recovery=self._some(0.01, 0.0, 0.5),
            leading=self._some(0.005, 0.001, 0.2),
            preferred_check=self.chance.choice((300.0, 60.0, 20.0, 3600.0)),
            unclean_check=self._some(300.0, 10.0, 60.0),
        )

    def _some(self, usual: float, least: float, most: float) -> float:
        return usual if self.chance.random() < 0.5 else round(self.chance.uniform(least, most), 4)

    def _engines(self, called: float, quiet: float) -> Iterator[EngineRun]:
        """One run, often killed and followed by others; sometimes on two machines at once."""
        machines = (0, 1) if self.chance.random() < 0.3 else (0,)
        dies, agrees = self.chance.choice((0.0, 0.3, 0.6)), self.chance.choice((1.0, 1.0, 0.6))
        steps = self.chance.choice(_STEPS)
        for machine in machines:
            at = called + self.chance.uniform(0, 10) * self.chance.choice((0.1, 1))
            command = self.chance.choice((Command.RECOVER,) * 3 + (Command.EXECUTE,))
            while at < quiet:
                kill_at = self.chance.randint(10, steps) if self.chance.random() < dies else None
                yield EngineRun(
                    self._moment(at, at),
                    command,
                    machine,
                    kill_at,
                    approves=self.chance.random() < agrees,
                    thinking=round(self.chance.choice((0.0, 1.0, 5.0, 40.0)) * self.chance.random(), 2),
                    whole_cluster=self.chance.random() < 0.5,
                )
                if kill_at is None and self.chance.random() < 0.6:
                    return
                at += self.chance.uniform(2, 40)
                command = self.chance.choice((*Command, Command.RECOVER))

    def _rivals(self, called: float) -> Iterator[EngineRun]:
        """Two machines that know nothing of each other."""
        for machine, later in ((0, 0.0), (1, self.chance.uniform(3, 8))):
            yield EngineRun(self._moment(called + later, called + later), Command.RECOVER, machine, thinking=0.0)

    def _taken_over(self, called: float) -> Iterator[EngineRun]:
        """A run is killed in its first wave or soon after, and the next one finds what it left."""
        chance = random.Random(f"taken over/{_STREAM}/{called}")
        at = self._moment(called, called)
        yield EngineRun(at, kill_at=chance.randint(60, 160), thinking=0.0, whole_cluster=True)
        yield EngineRun(round(at + chance.uniform(4, 15), 2), thinking=0.0, whole_cluster=True)

    def _rules(self) -> Rules:
        choice = self.chance.choice
        return Rules(
            choice((CandidateOrder.LEAST_LOSS, CandidateOrder.LONGEST_LOG)),
            choice((Approval.AUTO,) * 3 + (Approval.MANUAL, Approval.AUTO_LOSSLESS)),
            choice((RequiredAnswers.ALL, RequiredAnswers.ANY)),
            patience=choice((1.0, 1.0, 5.0, 20.0)),
            deadline=choice((1.0, 2.0, 5.0)),
            attempts=choice((1, 2, 3)),
            max_age=choice((5.0, 60.0)),
            min_replication_factor=choice((1,) * 6 + (2, 3)),
            partitions=choice((1, 2, 5000, 5000, 5000)),
            brokers_down_percent=choice((50, 70) + (100,) * 6),
            wave_sizes=choice(((1,), (1, 2), (50,), (1, 50))),
        )

    def _by_length(self) -> Rules:
        return replace(self._rules(), candidate_order=CandidateOrder.LONGEST_LOG)

    def _moment(self, first: float, last: float) -> float:
        """Whole hundredths read better and lose nothing."""
        return round(self.chance.uniform(first, last), 2)
