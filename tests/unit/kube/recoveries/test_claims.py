"""The index of claims says what going through all recoveries would, and goes through those only that changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import cast

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.kube.recoveries.claims import Claimant, Claims
from kafka_recovery.kube.recoveries.run import RecoveryRun
from unit.kube.kubernetes_in_memory import NOON

IDS = [TopicPartition("orders", number) for number in range(6)]


@dataclass
class SmallProgress:
    """What of a run's progress says which partitions are open; counts how often it was gone through."""

    ended: set[TopicPartition] = field(default_factory=set)
    version: int = 0
    looks: int = 0

    def open_partitions(self, scope: Iterable[TopicPartition]) -> list[TopicPartition]:
        self.looks += 1
        return [id for id in scope if id not in self.ended]

    def ends(self, id: TopicPartition) -> None:
        self.ended.add(id)
        self.version += 1


@dataclass
class SmallRun:
    """What of a run makes its claims."""

    scope: list[TopicPartition]
    progress: SmallProgress = field(default_factory=SmallProgress)
    holds: frozenset[TopicPartition] = frozenset()
    taken_up: bool = True


@dataclass
class Small:
    """An open recovery of a story."""

    name: str
    created_at: datetime
    run: SmallRun

    def claimant(self) -> Claimant:
        return Claimant(("dev", self.name), self.created_at, cast(RecoveryRun, self.run))


def gone_through(all_: Iterable[Small]) -> dict[TopicPartition, str]:
    """The rule in other words: from the weakest claim to the strongest, each takes what it claims."""
    oldest_last = sorted(all_, key=lambda each: (each.created_at, each.name), reverse=True)
    taken: dict[TopicPartition, str] = {}
    for each in oldest_last:
        taken |= dict.fromkeys(each.run.progress.open_partitions(each.run.scope), each.name)
    for each in oldest_last:
        taken |= dict.fromkeys([] if each.run.taken_up else each.run.scope, each.name)
    for each in oldest_last:
        taken |= dict.fromkeys(each.run.holds, each.name)
    return taken


def something_happens(known: dict[str, Small], chance: Random) -> None:
    """A recovery comes, goes, is replaced, is taken up, begins, lets go, or ends a partition."""
    name = f"r{chance.randrange(4)}"
    if name not in known or chance.random() < 0.2:
        scope = chance.sample(IDS, chance.randrange(1, 5))
        run = SmallRun(scope, taken_up=chance.random() < 0.5)
        known[name] = Small(name, NOON + timedelta(seconds=chance.randrange(3)), run)
    elif chance.random() < 0.15:
        del known[name]
    elif chance.random() < 0.3:
        known[name].run.taken_up = True
    elif chance.random() < 0.5:
        scope = known[name].run.scope
        known[name].run.holds = frozenset(chance.sample(scope, chance.randrange(len(scope) + 1)))
    else:
        known[name].run.progress.ends(chance.choice(known[name].run.scope))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_it_says_what_going_through_all_would(seed: int) -> None:
    chance, claims, known = Random(seed), Claims(), dict[str, Small]()
    for _ in range(200):
        something_happens(known, chance)
        claims.update(each.claimant() for each in known.values())
        assert claims.holders == gone_through(known.values())


def test_only_what_changed_is_gone_through_again() -> None:
    known = [Small(f"r{n}", NOON, SmallRun(IDS)) for n in range(3)]
    claims = Claims()
    for _ in range(5):
        claims.update(each.claimant() for each in known)
    known[1].run.progress.ends(IDS[0])
    claims.update(each.claimant() for each in known)

    assert [each.run.progress.looks for each in known] == [1, 2, 1]


def test_what_is_gone_is_not_kept() -> None:
    claims = Claims()
    claims.update([Small("one", NOON, SmallRun(IDS)).claimant()])
    claims.update([])

    assert (claims.holders, claims._first, claims._rest, claims._known) == ({}, {}, {}, {})
