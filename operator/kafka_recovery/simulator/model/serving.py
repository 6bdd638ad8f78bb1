"""What a broker answers its clients, from its own metadata and its own logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from kafka_recovery.domain.evidence import MinInsyncReplicas
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.simulator.model.broker import Broker
from kafka_recovery.simulator.model.client_requests import (
    AppendRecords,
    CreateTopics,
    DeleteTopics,
    DescribeLogDirectory,
    EndsOfEpochs,
    EpochsEnd,
    LogDirectory,
    NumberProducer,
    ProducerNumbered,
    TopicsDeleted,
    TopicsMade,
)
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.grants import Grants, Operation
from kafka_recovery.simulator.model.hosted import Hosted
from kafka_recovery.simulator.model.log import Batch, Log
from kafka_recovery.simulator.model.metadata import PartitionState
from kafka_recovery.simulator.model.requests import (
    SERVED,
    AlterReassignments,
    ApiVersions,
    At,
    BrokerListed,
    ClusterDescribed,
    ConfigsDescribed,
    Decided,
    DescribeCluster,
    DescribeConfigs,
    DescribePartitions,
    DescribeQuorum,
    ElectionType,
    ElectLeaders,
    GetReplicaLogInfo,
    ListOffsets,
    ListReassignments,
    ListTopics,
    LogInfo,
    LogRead,
    LogsRead,
    NameTopics,
    OffsetFound,
    OffsetsFound,
    PartitionDescribed,
    PartitionsDescribed,
    QuorumDescribed,
    ReadFrom,
    ReadLogs,
    ReassignmentsListed,
    ReplicaLogInfo,
    Request,
    TopicConfig,
    TopicListed,
    TopicsListed,
    TopicsNamed,
    Unsupported,
    Versions,
)
from kafka_recovery.simulator.model.timeline import What
from kafka_recovery.simulator.model.topic_requests import TopicRequests
from kafka_recovery.simulator.model.writing import Writing

Reply = Callable[[Any], None]
Failed = Callable[[Exception], object]

_NO_OFFSET, _NO_LEADER_EPOCH = Offset(-1), LeaderEpoch(-1)


@dataclass(frozen=True, slots=True)
class Serving:
    """One broker's answers. Changes and what only the controller knows are forwarded."""

    broker: Broker
    cluster_id: str
    grants: Grants = field(default_factory=Grants)

    def answer(self, request: Request[Any], reply: Reply, failed: Failed | None = None) -> None:
        """Answer now, or when the controller has; nothing is answered by a broker that fenced itself (KIP-343).

        `failed` hears of what goes wrong at the controller; else it is raised when that happens.
        """
        answer = _LOCAL.get(type(request))
        if answer is not None:
            reply(answer(self, request))
        elif isinstance(request, AppendRecords):
            Writing(self.broker, request, reply).begin()
        else:
            self._forward(request, reply, failed)

    def _forward(self, request: Request[Any], reply: Reply, failed: Failed | None) -> None:
        controllers, patience = self.broker.controllers, self.broker.settings.forwarding
        administration, timed_out = controllers.administration, Error.REQUEST_TIMED_OUT
        silent: Any
        question: Callable[[], Any]
        match request:
            case ElectLeaders():
                if request.type is ElectionType.DESIGNATED:
                    if not self.broker.switches.designated_elections:
                        reply(Unsupported())
                        return
                    if not self.grants.permits(request.by, Operation.CLUSTER_ACTION):
                        reply(Decided(Error.CLUSTER_AUTHORIZATION_FAILED, {}))
                        return
                    patience = min(patience, request.timeout)
                question, silent = partial(self._told, request, administration.elect), Decided(timed_out, {})
            case AlterReassignments():
                question, silent = partial(self._told, request, administration.reassign), Decided(timed_out, {})
            case ListReassignments():
                question, silent = partial(self._ongoing, request), ReassignmentsListed(timed_out, {})
            case CreateTopics():
                question, silent = partial(TopicRequests(administration).create, request), TopicsMade(timed_out, {})
            case DeleteTopics():
                question, silent = partial(TopicRequests(administration).delete, request), TopicsDeleted(timed_out, {})
            case NumberProducer():
                question, silent = TopicRequests(administration).number_producer, ProducerNumbered(timed_out, -1)
            case DescribeQuorum():
                question, silent = self._quorum, QuorumDescribed(timed_out, -1)
            case _:
                reply(Unsupported())
                return
        self.broker.forward(
            type(request).__name__,
            question if failed is None else partial(_contained, question, failed, silent),
            lambda answer: reply(silent if answer is None else answer),
            patience,
        )

    def _told(self, request: Any, carry_out: Callable[[Any], Decided]) -> Decided:
        controllers = self.broker.controllers
        wanted = request.targets if isinstance(request, AlterReassignments) else request.partitions
        controllers.timeline.tell(
            controllers.active or "controller",
            What.CLIENT,
            request=type(request).__name__,
            partitions=len(wanted) if wanted is not None else "all",
            by=request.by,
        )
        return carry_out(request)

    def _ongoing(self, request: ListReassignments) -> ReassignmentsListed:
        return ReassignmentsListed(Error.NONE, self.broker.controllers.administration.reassignments(request.partitions))

    def _quorum(self) -> QuorumDescribed:
        return QuorumDescribed(Error.NONE, self.broker.controllers.log.end)

    def _versions(self, _: ApiVersions) -> Versions:
        settings = self.broker.settings
        features = (("eligible.leader.replicas.version", int(settings.elr)),)
        return Versions(settings.release, features, self.broker.applied - 1, self.broker.switches.designated_elections)

    def _cluster(self, request: DescribeCluster) -> ClusterDescribed:
        """Clients that only want to be served are not told of inactive brokers (KIP-343)."""
        fenced_too = self.broker.settings.fenced_listed and request.fenced_too
        known = ((id, self.broker.broker_state(id)) for id in self.broker.controllers.log.broker_ids)
        listed = [
            BrokerListed(id, state.fenced, state.rack)
            for id, state in known
            if state is not None and (fenced_too or not state.fenced)
        ]
        return ClusterDescribed(self.cluster_id, tuple(listed), fenced_too)

    def _partitions(self, request: DescribePartitions) -> PartitionsDescribed:
        log, applied = self.broker.controllers.log, self.broker.applied
        wanted = log.partition_ids(applied) if request.partitions is None else request.partitions
        found, dead = {}, self._dead()
        for id in wanted:
            state = log.partitions.at(id, applied)
            if state is not None and not (request.offline_only and state.leader is not None):
                offline = tuple(
                    broker for broker in state.replicas if dead.get(broker, True) or self._failed(broker, id)
                )
                found[id] = _described(state, offline)
        return PartitionsDescribed(found)

    def _dead(self) -> Mapping[BrokerId, bool]:
        """Whether each broker that was ever registered is fenced."""
        states = ((id, self.broker.broker_state(id)) for id in self.broker.controllers.log.broker_ids)
        return {id: state is None or state.fenced for id, state in states}

    def _failed(self, broker: BrokerId, id: TopicPartition) -> bool:
        """Whether the replica's log directory has failed."""
        failed = self.broker.controllers.state.unacceptable
        return bool(failed) and id in failed.get(broker, ())

    def _topics(self, request: ListTopics) -> TopicsListed:
        wanted = self.broker.controllers.log.topic_names if request.names is None else request.names
        known = ((name, self.broker.topic_state(name)) for name in wanted)
        return TopicsListed(
            {name: TopicListed(topic.id, topic.partitions) for name, topic in known if topic is not None}
        )

    def _names(self, request: NameTopics) -> TopicsNamed:
        known = ((id, self.broker.controllers.log.names_by_id.get(id)) for id in request.ids)
        return TopicsNamed({id: name for id, name in known if name is not None and self._is_called(id, name)})

    def _is_called(self, id: TopicId, name: str) -> bool:
        topic = self.broker.topic_state(name)
        return topic is not None and topic.id == id

    def _configs(self, request: DescribeConfigs) -> ConfigsDescribed:
        known = ((name, self.broker.topic_state(name)) for name in request.topics)
        return ConfigsDescribed(
            {
                name: TopicConfig(MinInsyncReplicas(topic.min_isr, topic.min_isr_source), topic.unclean, topic.tiered)
                for name, topic in known
                if topic is not None
            }
        )

    def _replica(self, id: TopicPartition, epoch: int, topic_id: TopicId | None = None) -> Hosted | Error:
        """The copy that may be asked about under this leader epoch (-1: any), or why it may not."""
        if self.broker.offline(id):
            return Error.KAFKA_STORAGE_ERROR
        copy = self.broker.hosted(id)
        if topic_id is not None and (copy is None or copy.log.topic_id != topic_id):
            return Error.UNKNOWN_TOPIC_ID
        if copy is None:
            unknown = self.broker.topic_state(id.topic) is None
            return Error.UNKNOWN_TOPIC_OR_PARTITION if unknown else Error.NOT_LEADER_OR_FOLLOWER
        if epoch >= 0 and epoch != copy.state.leader_epoch:
            return Error.FENCED_LEADER_EPOCH if epoch < copy.state.leader_epoch else Error.UNKNOWN_LEADER_EPOCH
        return copy

    def _offsets(self, request: ListOffsets) -> OffsetsFound:
        return OffsetsFound({id: self._offset(id, epoch, request) for id, epoch in request.partitions.items()})

    def _offset(self, id: TopicPartition, asked: LeaderEpoch, request: ListOffsets) -> OffsetFound:
        at, debugging, copy = request.at, request.debugging, self._replica(id, asked)
        if isinstance(copy, Error):
            return OffsetFound(copy, _NO_OFFSET, _NO_LEADER_EPOCH)
        log, epoch = copy.log, copy.state.leader_epoch
        if not debugging and copy.leading is None:
            return OffsetFound(Error.NOT_LEADER_OR_FOLLOWER, _NO_OFFSET, _NO_LEADER_EPOCH)
        if at is At.EARLIEST:
            return OffsetFound(Error.NONE, Offset(log.start), epoch)
        if at is At.EARLIEST_LOCAL:
            return OffsetFound(Error.NONE, Offset(log.local_start), epoch)
        if at is At.SINCE:
            found = next((batch for batch in log.batches if batch.stamp >= request.since), None)
            return OffsetFound(Error.NONE, Offset(found.first) if found else _NO_OFFSET, epoch)
        if at is At.MAX_TIMESTAMP:
            newest = log.newest()
            if newest is None:
                return OffsetFound(Error.NONE, _NO_OFFSET, _NO_LEADER_EPOCH)
            return OffsetFound(Error.NONE, Offset(newest.end - 1), LeaderEpoch(newest.epoch))
        if debugging:
            return OffsetFound(Error.NONE, self._told_end(log), epoch)
        if copy.leading is not None and log.high_watermark < copy.leading.epoch_start:
            return OffsetFound(Error.OFFSET_NOT_AVAILABLE, _NO_OFFSET, _NO_LEADER_EPOCH)
        return OffsetFound(Error.NONE, Offset(log.high_watermark), epoch)

    def _logs(self, request: ReadLogs) -> LogsRead:
        return LogsRead({id: self._log(id, asked, request.to_the_end) for id, asked in request.partitions.items()})

    def _log(self, id: TopicPartition, asked: ReadFrom, to_the_end: bool) -> LogRead:
        copy = self._replica(id, asked.leader_epoch)
        if not isinstance(copy, Error) and asked.topic_id not in (None, copy.log.topic_id):
            copy = Error.INCONSISTENT_TOPIC_ID
        if isinstance(copy, Error):
            return LogRead(copy, _NO_OFFSET, _NO_OFFSET)
        log = copy.log
        start, high_watermark = Offset(log.start), Offset(log.high_watermark)
        out_of_range = LogRead(Error.OFFSET_OUT_OF_RANGE, _NO_OFFSET, _NO_OFFSET)
        if asked.last_epoch is not None:
            if self._forgotten(log, asked.last_epoch):
                return LogRead(Error.OFFSET_NOT_AVAILABLE, _NO_OFFSET, _NO_OFFSET)
            epoch, end = log.end_of(asked.last_epoch)
            if end < 0 or asked.offset < start:
                return out_of_range
            if epoch < asked.last_epoch or end < asked.offset:
                return LogRead(Error.NONE, start, high_watermark, (LeaderEpoch(epoch), Offset(end)))
        if not start <= asked.offset <= log.end:
            return out_of_range
        limit = log.end if to_the_end else log.high_watermark
        batches = log.read(asked.offset, self.broker.settings.fetch_records) if asked.offset < limit else ()
        return LogRead(
            Error.NONE, start, high_watermark, batches=tuple(batch for batch in batches if batch.first < limit)
        )

    def _epochs(self, request: EndsOfEpochs) -> EpochsEnd:
        return EpochsEnd({id: self._epoch(id, *asked) for id, asked in request.partitions.items()})

    def _epoch(self, id: TopicPartition, current: LeaderEpoch, asked: LeaderEpoch) -> tuple[Error, LeaderEpoch, Offset]:
        copy = self._replica(id, current)
        if isinstance(copy, Error):
            return copy, _NO_LEADER_EPOCH, _NO_OFFSET
        if copy.leading is None:
            return Error.NOT_LEADER_OR_FOLLOWER, _NO_LEADER_EPOCH, _NO_OFFSET
        if self._forgotten(copy.log, asked):
            return Error.OFFSET_NOT_AVAILABLE, _NO_LEADER_EPOCH, _NO_OFFSET
        epoch, end = copy.log.end_of(asked)
        return Error.NONE, LeaderEpoch(epoch), Offset(end)

    def _forgotten(self, log: Log, epoch: int) -> bool:
        """KAFKA-1211: whether the log no longer knows where this epoch ends, and must not guess."""
        return self.broker.switches.refuse_forgotten_epochs and log.forgets(epoch)

    def _log_directory(self, _: DescribeLogDirectory) -> LogDirectory:
        sizes = {id: sum(map(_size, copy.log.batches)) for id, copy in self.broker.copies.items()}
        return LogDirectory(sizes, tuple(sorted(self.broker.dead_directories)), self.broker.storage.full)

    def _log_infos(self, request: GetReplicaLogInfo) -> ReplicaLogInfo | Unsupported:
        """KIP-1275. That the controller has fenced this broker makes no difference to what it answers."""
        if not self.broker.switches.designated_elections:
            return Unsupported()
        asked = self._held() if request.partitions is None else request.partitions
        infos = {id: self._log_info(request.by, id, topic_id) for id, topic_id in asked[:SERVED]}
        return ReplicaLogInfo(self.broker.epoch, len(asked) > SERVED, infos, self.grants.pauses.get(request.by, 0.0))

    def _log_info(self, client: str, id: TopicPartition, topic_id: TopicId) -> LogInfo:
        copy = self._replica(id, -1, topic_id)
        if not self.grants.permits(client, Operation.CLUSTER_ACTION):
            copy = Error.CLUSTER_AUTHORIZATION_FAILED
        elif not self.grants.permits(client, Operation.DESCRIBE, id.topic):
            copy = Error.TOPIC_AUTHORIZATION_FAILED
        if isinstance(copy, Error):
            return LogInfo(copy, _NO_LEADER_EPOCH, _NO_OFFSET)
        return LogInfo(Error.NONE, copy.state.leader_epoch, self._told_end(copy.log))

    def _told_end(self, log: Log) -> Offset:
        """Where a log ends, or where a broker says so that is wrong about it."""
        return Offset(max(0, log.end + self.broker.misreports))

    def _held(self) -> tuple[tuple[TopicPartition, TopicId], ...]:
        ids = self.broker.controllers.log.partitions_of(self.broker.id)
        return tuple((id, copy.log.topic_id) for id in ids if (copy := self.broker.hosted(id)) is not None)


_LOCAL: Mapping[type, Callable[[Serving, Any], Any]] = MappingProxyType(
    {
        ApiVersions: Serving._versions,
        DescribeCluster: Serving._cluster,
        DescribePartitions: Serving._partitions,
        DescribeConfigs: Serving._configs,
        ListOffsets: Serving._offsets,
        ListTopics: Serving._topics,
        NameTopics: Serving._names,
        ReadLogs: Serving._logs,
        GetReplicaLogInfo: Serving._log_infos,
        EndsOfEpochs: Serving._epochs,
        DescribeLogDirectory: Serving._log_directory,
    }
)


def _contained(question: Callable[[], Any], failed: Failed, silent: Any) -> Any:
    """The controller's answer; `silent` where it has none because something went wrong."""
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - whoever asked hears of it
        failed(error)
        return silent


def _size(batch: Batch) -> int:
    """Bytes; of records that no real client sent, about as many as they would have."""
    return len(batch.data) if batch.data is not None else 61 + 20 * batch.records


def _described(state: PartitionState, offline: tuple[BrokerId, ...]) -> PartitionDescribed:
    return PartitionDescribed(
        state.topic_id,
        state.leader,
        state.leader_epoch,
        state.replicas,
        state.isr,
        state.elr,
        state.last_known_elr,
        offline,
    )
