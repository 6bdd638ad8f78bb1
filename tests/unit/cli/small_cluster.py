"""A Kafka small enough to keep in the head: both ports over a dictionary, and what was changed in it, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from kafka_recovery.cli.cluster.wiring import Connection, Target
from kafka_recovery.cluster.errors import ClusterIdMismatch, ClusterUnavailable
from kafka_recovery.domain.election import (
    Answer,
    ElectionAnswer,
    ElectionRequest,
    Gone,
    Lead,
    Leadership,
    Relay,
    Scope,
    Sighting,
)
from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    Evidence,
    MinInsyncReplicas,
    MissingPartition,
    PartitionEvidence,
    Replica,
    ReplicaLog,
)
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset, Offset, TopicId, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import Reason

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DEAD = BrokerId(1)
"""Every offline partition here was led by broker 1, which is gone."""

UNKNOWN = Reason("UnknownTopicOrPartition", "no such partition, or the principal lacks DESCRIBE on the topic")


@dataclass
class _Partition:
    logs: dict[BrokerId, int | None]
    assignment: tuple[BrokerId, ...]
    leader: BrokerId | None
    epoch: int
    isr: tuple[BrokerId, ...]


@dataclass
class SmallCluster:
    """Ports `Cluster` and `Election`. `before_election` runs first, with the names of the partitions.

    `now`: when it is looked at. `dead_answers`: the dead broker answers again, and is fenced still.
    `tiered`: whether its topics have a remote tier. `local_starts`: where their logs begin on brokers' disks.
    """

    id: str = "lk3uXe8CSIqRTHM1qPHJFw"
    racks: dict[int, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    before_election: Callable[[list[str]], None] = lambda ids: None
    election_takes: float = 0.0
    refuses: set[TopicPartition] = field(default_factory=set)
    problem: Exception | None = None
    now: datetime = NOON
    dead_answers: bool = False
    target: Target | None = None
    gone: Reason = UNKNOWN
    vanished: Reason | None = None
    tiered: bool | None = None
    local_starts: Mapping[int, int] = field(default_factory=dict)
    _partitions: dict[TopicPartition, _Partition] = field(default_factory=dict)
    _gathers: int = 0

    def offline(self, partition: str, survivors: Mapping[int, int | None]) -> TopicPartition:
        """Broker 1 led it and is gone; the survivors have these log ends (None: they do not answer)."""
        id = TopicPartition.parse(partition)
        logs = {BrokerId(broker): end for broker, end in survivors.items()}
        self._partitions[id] = _Partition(logs, (DEAD, *logs), None, 7, (DEAD,))
        return id

    def online(self, partition: str, leader: int, end: int) -> TopicPartition:
        """It has a leader, and nothing is to be done."""
        id = self.offline(partition, {leader: end})
        self._partitions[id].leader = BrokerId(leader)
        return id

    def leader(self, id: TopicPartition) -> int | None:
        """Who leads now."""
        return self._partitions[id].leader

    def assignment(self, id: TopicPartition) -> tuple[BrokerId, ...]:
        """The assignment order that stands now."""
        return self._partitions[id].assignment

    def shorten(self, id: TopicPartition, broker: int, end: int) -> None:
        """A replica loses what it held beyond this end."""
        self._partitions[id].logs[BrokerId(broker)] = end

    def alter(self, id: TopicPartition, order: tuple[BrokerId, ...]) -> None:
        """As a run leaves it that did not end."""
        self._partitions[id].assignment = order

    @asynccontextmanager
    async def open(self, target: Target) -> AsyncIterator[Connection]:
        """What the command line opens instead of a Kafka."""
        self.target = target
        if self.problem:
            raise self.problem
        if target.expected_cluster_id not in (None, self.id):
            raise ClusterIdMismatch(target.bootstrap, target.expected_cluster_id or "", self.id)
        yield Connection(self, self, self.every_partition)

    async def every_partition(self, deadline: timedelta) -> tuple[TopicPartition, ...]:
        return tuple(self._partitions)

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        self._gathers += 1
        self._look()
        if scope.partitions is None:
            wanted = [id for id, partition in self._partitions.items() if partition.leader is None]
        else:
            wanted = list(scope.partitions)
        listed = sorted(id for id in wanted if id in self._partitions)
        missing = tuple(MissingPartition(id, self.gone) for id in sorted(wanted) if id not in self._partitions)
        return Evidence(self._state(), tuple(self._seen(id) for id in listed), missing)

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Mapping[TopicPartition, Sighting]:
        self._look()
        return {id: self._sighting(id) for id in partitions}

    def _look(self) -> None:
        if self.vanished:
            raise ClusterUnavailable({"kafka-1:9092": self.vanished})

    async def relay_answers(self, relay: Relay, deadline: timedelta) -> bool:
        return True

    def _sighting(self, id: TopicPartition) -> Sighting:
        if (p := self._partitions.get(id)) is None:
            return Gone(id, self.gone)
        end = None if p.leader is None else Offset(p.logs[p.leader] or 0)
        epoch, topic_id = LeaderEpoch(p.epoch), TopicId(f"id-of-{id.topic}")
        return Leadership(id, topic_id, p.leader, epoch, p.assignment, p.isr, end)

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        self._look()
        led = {id: self._partitions[id] for id, broker in candidates.items() if self._partitions[id].leader == broker}
        return {
            id: Lead(candidates[id], LeaderEpoch(p.epoch), Offset(p.logs[candidates[id]] or 0)) for id, p in led.items()
        }

    async def designate(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        return {request.id: self._designate(request) for request in requests}

    async def elect(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        self.before_election([str(request.id) for request in requests])
        await asyncio.sleep(self.election_takes)
        return {request.id: self._elect(request) for request in requests}

    async def restore(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        if self.vanished:
            return {request.id: ElectionAnswer(Answer.CHANGED, self.vanished) for request in requests}
        for request in requests:
            if self._partitions[request.id].assignment == request.order:
                self._partitions[request.id].assignment = request.assignment
                self.changes.append(f"restore {request.id}")
        return {request.id: ElectionAnswer(Answer.ACCEPTED) for request in requests}

    def _designate(self, request: ElectionRequest) -> ElectionAnswer:
        if request.id in self.refuses:
            return ElectionAnswer(Answer.REFUSED, Reason("ClusterAuthorizationFailed", "the principal lacks ALTER"))
        self._partitions[request.id].assignment = request.order
        return ElectionAnswer(Answer.ACCEPTED)

    def _elect(self, request: ElectionRequest) -> ElectionAnswer:
        partition = self._partitions[request.id]
        partition.leader = request.designated
        partition.isr, partition.epoch = (request.designated,), partition.epoch + 1
        self.changes.append(f"elect {request.designated} for {request.id}")
        return ElectionAnswer(Answer.ACCEPTED)

    def _state(self) -> ClusterState:
        alive = {broker for partition in self._partitions.values() for broker in partition.logs} or {BrokerId(2)}
        ids = sorted(alive | {DEAD})
        brokers = tuple(
            Broker(
                id=id,
                host=f"kafka-{id}",
                port=9092,
                rack=self.racks.get(id),
                registered=True,
                fenced=id == DEAD,
                stopping=None,
                reachable=id != DEAD or self.dead_answers,
                metadata_offset=None if id == DEAD else 1000 + self._gathers,
                metadata_advances=None if id == DEAD else True,
            )
            for id in ids
        )
        return ClusterState(self.id, "4.3", (), False, ids[-1], brokers, self.now, timedelta(seconds=1))

    def _seen(self, id: TopicPartition) -> PartitionEvidence:
        partition = self._partitions[id]
        return PartitionEvidence(
            id=id,
            topic_id=TopicId(f"id-of-{id.topic}"),
            internal=False,
            leader=partition.leader,
            leader_epoch=LeaderEpoch(partition.epoch),
            isr=partition.isr,
            elr=None,
            last_known_elr=None,
            replicas=tuple(
                _replica(broker, partition, self.now, self.local_starts.get(broker)) for broker in partition.assignment
            ),
            min_isr=MinInsyncReplicas(1, "DEFAULT_CONFIG"),
            unclean_election_enabled=False,
            tiered=self.tiered,
        )


def _replica(broker: BrokerId, partition: _Partition, now: datetime, local_start: int | None) -> Replica:
    end = partition.logs.get(broker)
    if end is None:
        return Replica(broker, None, Reason("BrokerTimeout", f"broker {broker} did not answer within 5s"))
    epochs = (EpochEntry(LeaderEpoch(5), Offset(0)),)
    log = ReplicaLog(Offset(0), Offset(end), epochs, None, LeaderEpoch(partition.epoch), now, timedelta(seconds=1))
    return Replica(broker, log if local_start is None else replace(log, local_start=Offset(local_start)))
