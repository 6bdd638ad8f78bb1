"""A reason that an engine gave, together with what it can be held against."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Concluded, Looked
from kafka_recovery.simulator.histories.judging.words import LAST_SEEN
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.model.metadata import PartitionState

PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class Told:
    """A reason that was given, and all that it can be held against.

    `looked`: the last look at the partition; `around`: the cluster by the last look at anything, which may be later.
    """

    story: Chronicle
    scenario: Scenario
    said: Concluded
    looked: Looked | None
    seen: PartitionEvidence | None
    around: ClusterState | None

    @property
    def plans(self) -> Iterator[Plan]:
        """The plans that this machine had, newest first."""
        mine = [kept for kept in self.story.kept if kept.machine == self.said.machine and kept.name == PLAN]
        return (self.story.plan(kept.digest) for kept in reversed(mine) if kept.at <= self.said.at)

    @property
    def planned(self) -> tuple[Plan, Decision] | None:
        """The newest decision to elect it."""
        of_it = ((plan, decision) for plan in self.plans for decision in plan.decisions)
        return next((p for p in of_it if p[1].id == self.said.outcome.id and p[1].leader is not None), None)


def told_of(story: Chronicle, scenario: Scenario, said: Concluded) -> Told:
    """What that outcome can be held against."""
    mine = [look for look in reversed(story.looked) if look.process == said.process and look.at <= said.at]
    looked = next((look for look in mine if look.partition(said.outcome.id) is not None), None)
    around = mine[0].evidence.cluster if mine else None
    return Told(story, scenario, said, looked, looked.partition(said.outcome.id) if looked else None, around)


def near(told: Told) -> tuple[PartitionState, ...]:
    """The partition's states by the controller itself since its process may have looked."""
    return told.story.states(told.said.outcome.id, may_have_looked_since(told), told.said.at)


def may_have_looked_since(told: Told) -> float:
    """When its process began, at the earliest, to look at what it says."""
    since = told.story.awake_before(told.said.process, told.said.at, LAST_SEEN)
    if told.looked is not None:
        since = min(since, told.looked.at - told.looked.evidence.cluster.took.total_seconds() - LAST_SEEN)
    return since


def relay_is_out_of_reach(said: Concluded) -> bool:
    """Whether a silent relay is the reason that was given, and its process could not have asked that broker."""
    reason = said.outcome.reason
    named = re.search(r"through broker (\d+)", reason.message) if reason and reason.code == "RelaySilent" else None
    return named is not None and int(named[1]) not in said.in_reach


def held_up_by_a_relay(story: Chronicle, id: TopicPartition) -> bool:
    """Whether its order could not be put back because a broker that may hold a request could not be asked any more."""
    said = [said for said in story.concluded if said.outcome.id == id]
    return any(relay_is_out_of_reach(one) for one in said)
