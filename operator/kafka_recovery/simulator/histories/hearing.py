"""What stands between an engine and its adapters: who hears the answers to its changes, and who adds what was seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_recovery.domain.election import Answer, Ballot, ElectionAnswer, Lead, Leadership, Scope
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence, WitnessedEnd
from kafka_recovery.domain.ids import BrokerId, Offset, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.recovery.ports import Cluster, Election
from kafka_recovery.simulator.histories.chronicle import Answered, Chronicle, Witnessed
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.model.timeline import Event, What

Answers = Mapping[TopicPartition, ElectionAnswer]


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Somebody who looks every so often how far each leader's high watermark is, and keeps what nobody contradicts.

    A later leader that begins below what was seen has lost it already: that is no loss of the next election.
    """

    story: Chronicle
    partitions: Sequence[TopicPartition]
    every: float

    def begin(self) -> None:
        """Look from now on."""
        self.story.kafka.timeline.subscribe(self._hear)
        self._look()

    def _look(self) -> None:
        truth = self.story.kafka.truth
        for id in self.partitions:
            state = truth.state(id)
            if state is None or state.leader is None or not truth.leads(state.leader, id):
                continue
            end, key = truth.high_watermark(state.leader, id), (id, state.topic_id)
            self.story.committed[key] = max(self.story.committed.get(key, 0), end)
            self.story.witnessed[id] = Witnessed(self.story.now, state.topic_id, state.leader_epoch, end)
        self.story.kafka.scheduler.after(self.every, self._look)

    def _hear(self, event: Event) -> None:
        seen = self.story.witnessed.get(event.partition) if event.partition else None
        if event.partition is None or seen is None or event.what is not What.LEADS:
            return
        if event.details["leader_epoch"] > seen.epoch and event.details["log_end"] < seen.end:
            del self.story.witnessed[event.partition]


@dataclass(frozen=True, slots=True)
class HeardCluster:
    """Port `Cluster` of one process: the adapter, and what witnesses have to add to its evidence."""

    cluster: Cluster
    story: Chronicle
    scenario: Scenario

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        """As the adapter does."""
        evidence = await self.cluster.gather(scope, rules, known)
        return replace(evidence, partitions=tuple(map(self._witnessed, evidence.partitions)))

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta
    ) -> Mapping[TopicPartition, Leadership]:
        """As the adapter does."""
        return await self.cluster.leaders(partitions, deadline)

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """As the adapter does."""
        return await self.cluster.answering(candidates, deadline)

    def _witnessed(self, partition: PartitionEvidence) -> PartitionEvidence:
        seen = self.story.witnessed.get(partition.id)
        if self.scenario.witnessed is None or seen is None or seen.topic_id != partition.topic_id:
            return partition
        return replace(partition, witnessed_ends=(WitnessedEnd("watcher", Offset(seen.end)),))


@dataclass(frozen=True, slots=True)
class HeardElection:
    """Port `Election` of one process: the driver, and a note of each answer."""

    driver: Election
    story: Chronicle
    process: str
    machine: str

    async def designate(self, ballots: Sequence[Ballot]) -> Answers:
        """As the driver does."""
        return await self._heard("designate", ballots, self.driver.designate)

    async def elect(self, ballots: Sequence[Ballot]) -> Answers:
        """As the driver does."""
        return await self._heard("elect", ballots, self.driver.elect)

    async def restore(self, ballots: Sequence[Ballot]) -> Answers:
        """As the driver does."""
        return await self._heard("restore", ballots, self.driver.restore)

    async def _heard(
        self, what: str, ballots: Sequence[Ballot], ask: Callable[[Sequence[Ballot]], Awaitable[Answers]]
    ) -> Answers:
        asked_at = self.story.now
        answers = await ask(ballots)
        doubtful = frozenset(id for id, answer in answers.items() if answer.answer is Answer.UNANSWERED)
        self.story.answered.append(
            Answered(self.story.now, self.process, self.machine, what, asked_at, frozenset(answers), doubtful)
        )
        return answers
