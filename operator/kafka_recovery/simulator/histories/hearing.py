"""What stands between an engine and its adapters: who hears what it sees and asks for, and who adds what was seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest
from kafka_recovery.domain.election import (
    Answer,
    ElectionAnswer,
    ElectionRequest,
    Lead,
    Leadership,
    Relay,
    Scope,
    Sighting,
)
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence, WitnessedEnd
from kafka_recovery.domain.ids import BrokerId, MetadataOffset, Offset, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.recovery.ports import Election
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Answered, Shown, Witnessed
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.host.mortality import Process
from kafka_recovery.simulator.model.timeline import Event, What

Answers = Mapping[TopicPartition, ElectionAnswer]

_LENGTH = 4
_ELECTIONS, _ORDERS = ElectLeadersRequest.API_KEY, AlterPartitionReassignmentsRequest.API_KEY


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

    `looked` hears of every evidence as the client gathered it.
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
        self.looked(evidence)
        partitions = tuple(map(self._witnessed, evidence.partitions))
        if self.scenario.knows_history:
            self.process.step("read histories")
            truth = self.story.kafka.truth
            partitions = tuple(replace(partition, history=truth.history(partition.id)) for partition in partitions)
        return replace(evidence, partitions=partitions)

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Mapping[TopicPartition, Sighting]:
        """As the client does."""
        found = await self.cluster.leaders(partitions, deadline, not_before)
        now = self.story.now
        self.story.shown += [
            Shown(now, self.process.name, id, look.topic_id, look.leader, look.leader_epoch)
            for id, look in found.items()
            if isinstance(look, Leadership)
        ]
        return found

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """As the client does."""
        return await self.cluster.answering(candidates, deadline)

    async def relay_answers(self, relay: Relay, deadline: timedelta) -> bool:
        """As the client does."""
        return await self.cluster.relay_answers(relay, deadline)

    def _witnessed(self, partition: PartitionEvidence) -> PartitionEvidence:
        seen = self.story.witnessed.get(partition.id)
        if self.scenario.witnessed is None or seen is None or seen.topic_id != partition.topic_id:
            return partition
        return replace(partition, witnessed_ends=(WitnessedEnd("watcher", Offset(seen.end)),))


@dataclass(slots=True)
class Requests:
    """The changes of one process: what its driver was told to do, and which requests it then sends for that.

    `asked` hears of a request just before it is sent: "designate", "elect" or "restore", and for which requests.
    """

    asked: Callable[[str, Sequence[ElectionRequest]], object]
    _told: dict[tuple[str, TopicPartition], ElectionRequest] = field(default_factory=dict)

    def told(self, what: str, requests: Sequence[ElectionRequest]) -> None:
        """The driver is about to do this."""
        self._told |= {(what, request.id): request for request in requests}

    def sending(self, frame: bytes) -> None:
        """A frame with its length is about to be sent."""
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (_LENGTH, _LENGTH + 2))
        if key == _ELECTIONS:
            named = ElectLeadersRequest.decode(frame[_LENGTH:], version=version, header=True).topic_partitions
            ids = {TopicPartition(topic.topic, index) for topic in named or () for index in topic.partitions}
            told = [request for (what, _), request in self._told.items() if what == "elect"]
            self._tell("elect", [request for request in told if named is None or request.id in ids])
        elif key == _ORDERS:
            orders = tuple(_orders(frame[_LENGTH:], version))
            for what in ("designate", "restore"):
                self._tell(what, [request for id, order in orders if (request := self._wanted(what, id, order))])

    def _wanted(self, what: str, id: TopicPartition, order: tuple[BrokerId, ...]) -> ElectionRequest | None:
        """The request that this order is set for; the original order is set by restoring, others by designating."""
        request = self._told.get((what, id))
        restored = request is not None and order == request.assignment
        return request if restored == (what == "restore") else None

    def _tell(self, what: str, requests: Sequence[ElectionRequest]) -> None:
        if requests:
            self.asked(what, requests)


@dataclass(frozen=True, slots=True)
class HeardElection:
    """Port `Election` of one process: a real driver, and a note of each answer."""

    driver: Election
    requests: Requests
    story: Chronicle
    process: str
    machine: str

    async def designate(self, requests: Sequence[ElectionRequest]) -> Answers:
        """As the driver does."""
        return await self._heard("designate", requests, self.driver.designate)

    async def elect(self, requests: Sequence[ElectionRequest]) -> Answers:
        """As the driver does."""
        return await self._heard("elect", requests, self.driver.elect)

    async def restore(self, requests: Sequence[ElectionRequest]) -> Answers:
        """As the driver does."""
        return await self._heard("restore", requests, self.driver.restore)

    async def _heard(
        self,
        what: str,
        requests: Sequence[ElectionRequest],
        ask: Callable[[Sequence[ElectionRequest]], Awaitable[Answers]],
    ) -> Answers:
        self.requests.told(what, requests)
        asked_at = self.story.now
        answers = await ask(requests)
        doubtful = frozenset(id for id, answer in answers.items() if answer.answer is Answer.UNANSWERED)
        self.story.answered.append(
            Answered(self.story.now, self.process, self.machine, what, asked_at, frozenset(answers), doubtful)
        )
        return answers


def _orders(frame: bytes, version: int) -> Iterator[tuple[TopicPartition, tuple[BrokerId, ...]]]:
    for topic in AlterPartitionReassignmentsRequest.decode(frame, version=version, header=True).topics:
        for partition in topic.partitions:
            yield (
                TopicPartition(topic.name, partition.partition_index),
                tuple(map(BrokerId, partition.replicas or ())),
            )
