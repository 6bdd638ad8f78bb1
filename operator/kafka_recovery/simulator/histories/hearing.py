"""What stands between an engine and what it sees: who hears that, and who adds what witnesses have seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.domain.election import Lead, Leadership, Relay, Scope, Sighting, Unseen
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence, WitnessedEnd
from kafka_recovery.domain.ids import BrokerId, MetadataOffset, Offset, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Claimed, Shown, Unshown, Witnessed
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.host.mortality import Process
from kafka_recovery.simulator.model.timeline import Event, What


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
    """Port `Cluster` of one process: the real client, and what witnesses and the metadata log add to its evidence.

    `looked` hears of every evidence as the engine gets it: an order may rank by what a history proves.
    """

    process: Process
    cluster: KafkaCluster
    looked: Callable[[Evidence], object]
    story: Chronicle
    scenario: Scenario

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        """As the client does."""
        evidence = await self.cluster.gather(scope, rules, known)
        partitions = tuple(map(self._witnessed, evidence.partitions))
        if self.scenario.knows_history:
            self.process.step("read histories")
            told = self.story.metadata_log.histories(partition.id for partition in partitions)
            partitions = tuple(replace(partition, history=told.get(partition.id)) for partition in partitions)
        evidence = replace(evidence, partitions=partitions)
        self.looked(evidence)
        return evidence

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Mapping[TopicPartition, Sighting]:
        """As the client does."""
        found = await self.cluster.leaders(partitions, deadline, not_before)
        now = self.story.now
        self.story.shown += [
            Shown(
                now, self.process.name, id, look.topic_id, look.leader, look.leader_epoch, look.assignment, look.as_of
            )
            for id, look in found.items()
            if isinstance(look, Leadership)
        ]
        self.story.unshown += [
            Unshown(now, self.process.name, id) for id, look in found.items() if isinstance(look, Unseen)
        ]
        return found

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """As the client does."""
        found = await self.cluster.answering(candidates, deadline)
        now = self.story.now
        self.story.claimed += [Claimed(now, self.process.name, id, lead.leader) for id, lead in found.items()]
        return found

    async def relay_answers(self, relay: Relay, deadline: timedelta) -> bool:
        """As the client does."""
        return await self.cluster.relay_answers(relay, deadline)

    def _witnessed(self, partition: PartitionEvidence) -> PartitionEvidence:
        seen = self.story.witnessed.get(partition.id)
        if self.scenario.witnessed is None or seen is None or seen.topic_id != partition.topic_id:
            return partition
        return replace(partition, witnessed_ends=(WitnessedEnd("watcher", Offset(seen.end)),))
