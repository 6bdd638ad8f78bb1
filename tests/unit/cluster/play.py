"""A whole cluster on stages: what its brokers say of themselves, of each other and of their logs, till a test has it
otherwise."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse

from kafka_recovery.cluster.drivers import Kip1275
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.kip_1275 import ElectLeadersResponse, GetReplicaLogInfoResponse
from kafka_recovery.cluster.metadata import PartitionState, topic_id_text
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from unit.cluster.stage import OFFERED, Heard, StagedBroker, api_versions

PATIENCE = timedelta(seconds=10)
SOON = timedelta(milliseconds=600)
TOPIC_ID = uuid.UUID(int=77)
"""Of every topic `t`: a play has but one that Fetch is asked about."""

_DESCRIBE_CLUSTER = 60
_BROKER_RESOURCE = 4

ORDERS = TopicPartition("orders", 0)
EPOCH = LeaderEpoch(5)


def offline(
    id: TopicPartition = ORDERS, replicas: Iterable[int] = (1, 2, 3), isr: Iterable[int] = (1,), **changes: Any
) -> PartitionState:
    """A partition without a leader."""
    fields: dict[str, Any] = {
        "id": id,
        "topic_id": topic_id_text(TOPIC_ID),
        "internal": False,
        "leader": None,
        "leader_epoch": EPOCH,
        "replicas": tuple(map(BrokerId, replicas)),
        "isr": tuple(map(BrokerId, isr)),
        "elr": (),
        "last_known_elr": (),
        "offline": frozenset(),
    }
    return PartitionState(**(fields | changes))


def request(id: TopicPartition = ORDERS, order: tuple[int, ...] = (3, 1, 2)) -> ElectionRequest:
    """An election of the first of `order`, of a partition whose assignment is 1, 2, 3."""
    designated, *_ = ours = tuple(map(BrokerId, order))
    return ElectionRequest(id, topic_id_text(TOPIC_ID), EPOCH, designated, ours, tuple(map(BrokerId, (1, 2, 3))))


@dataclass
class Log:
    """One replica: `epochs` as (epoch, start), oldest first; `error` is what ListOffsets says instead.

    `led_in`: the epoch in which its broker thinks that it leads. `local_start` None: that question is refused.
    """

    end: int
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    start: int = 0
    high_watermark: int = 0
    knows: int = EPOCH
    led_in: int | None = None
    error: int = 0
    local_start: int | None = None

    def offset(self, replica_id: int, timestamp: int, epoch: int) -> tuple[int, int, int]:
        """Error, leader epoch and offset, as a broker finds them."""
        knows = self.knows if self.led_in is None else self.led_in
        if self.error:
            return self.error, -1, -1
        if epoch not in (-1, knows):
            return (74 if epoch < knows else 75), -1, -1
        if replica_id == -1 and self.led_in is None:
            return 6, -1, -1
        if timestamp == -3:
            return (0, self.epochs[-1][0], self.end - 1) if self.epochs else (0, -1, -1)
        if timestamp == -2:
            return 0, self.epochs[0][0] if self.epochs else -1, self.start
        if timestamp == -4:
            return (35, -1, -1) if self.local_start is None else (0, knows, self.local_start)
        if replica_id == -2:
            return 0, knows, self.end
        begun_at = self.epochs[-1][1]
        return (78, -1, -1) if self.high_watermark < begun_at else (0, knows, self.high_watermark)

    def epoch_end(self, asked: int) -> tuple[int, int] | None:
        """The largest epoch ≤ `asked` and its end; None above the latest."""
        if not self.epochs or asked > self.epochs[-1][0]:
            return None
        ends = [start for _, start in self.epochs[1:]] + [self.end]
        found = [(epoch, end) for (epoch, _), end in zip(self.epochs, ends, strict=True) if epoch <= asked]
        return found[-1] if found else (asked, self.epochs[0][1])


@dataclass(frozen=True)
class Disk:
    """One log directory as its broker tells of it, with the copies in it; the sizes are -1 where it is offline."""

    path: str = "/data"
    error: int = 0
    total: int = 100 << 30
    usable: int = 60 << 30
    copies: tuple[TopicPartition, ...] = ()
    incoming: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True)
class Stale:
    """What a broker lists that is cut off from the controller. It does not know of brokers that came since."""

    alive: tuple[int, ...]
    fenced: tuple[int, ...] = ()


@dataclass
class Play:
    """`members` by id; `applied` metadata offsets; `logs` by broker and partition; `states` the controller's view.

    `lists_fenced` False: Kafka 3.9, whose DescribeCluster leaves fenced brokers out. `page`: partitions a page.
    `stale`: what brokers list that know no better. `election`, `reassignment`: the error codes that are answered in
    turn, the last one ever after. `designates`, `log_info`: brokers that know KIP-1275's election, and its request for
    logs under this key; of that they serve `served` partitions. `epochs`: the brokers' own. `hidden`: topics that are
    not described, and the error that is told instead. `elsewhere`: brokers that are listed under another address.
    `describes_configs` False: whoever asks lacks DESCRIBE_CONFIGS on the cluster. `metadata_versions`: the highest that
    brokers support, where it is not 4.1's, or 3.9's. `disks`: log directories by broker; one that is well if left out.
    `disks_error`: the error code that DescribeLogDirs is answered with. `tiered`: topics that have a remote tier.
    """

    members: dict[int, StagedBroker] = field(default_factory=dict)
    fenced: set[int] = field(default_factory=set)
    lists_fenced: bool = True
    stale: dict[int, Stale] = field(default_factory=dict)
    applied: dict[int, int] = field(default_factory=dict)
    watermark: int | None = 101
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    logs: dict[tuple[int, TopicPartition], Log] = field(default_factory=dict)
    page: int = 2000
    election: list[int] = field(default_factory=lambda: [0])
    reassignment: list[int] = field(default_factory=lambda: [0])
    left_out: set[TopicPartition] = field(default_factory=set)
    designates: set[int] = field(default_factory=set)
    log_info: dict[int, int] = field(default_factory=dict)
    served: int = 1000
    epochs: dict[int, int] = field(default_factory=dict)
    hidden: dict[str, int] = field(default_factory=dict)
    elsewhere: dict[int, Address] = field(default_factory=dict)
    describes_configs: bool = True
    metadata_versions: dict[int, int] = field(default_factory=dict)
    disks: dict[int, list[Disk]] = field(default_factory=dict)
    disks_error: int = 0
    tiered: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def staged(self, *brokers: int) -> AsyncIterator[Play]:
        """With these brokers on stage."""
        async with AsyncExitStack() as stack:
            for id in brokers:
                self.applied.setdefault(id, 100)
                self.members[id] = await stack.enter_async_context(StagedBroker(self._roles(id)))
            yield self

    @asynccontextmanager
    async def cluster(self, kip_1275: Kip1275 | None = None) -> AsyncIterator[KafkaCluster]:
        """Ours, that bootstraps from all of them."""
        bootstrap = [member.address for member in self.members.values()]
        async with KafkaCluster(bootstrap, PLAINTEXT, kip_1275=kip_1275) as cluster:
            yield cluster

    def add(self, state: PartitionState, **logs: Log) -> None:
        """A partition and its logs: `b2=Log(...)` for broker 2."""
        self.states[state.id] = state
        self.logs |= {(int(name.removeprefix("b")), state.id): log for name, log in logs.items()}

    def address(self, broker: int) -> Address:
        return self.members[broker].address

    @asynccontextmanager
    async def second_way_to(self, broker: int) -> AsyncIterator[Address]:
        """Another address at which this broker answers, as behind a Service with a wrong selector."""
        async with StagedBroker(self.members[broker].roles) as door:
            yield door.address

    def asked(self, name: str) -> list[Heard]:
        """All requests of a name, whoever heard them."""
        return [heard for member in self.members.values() for heard in member.heard if heard.name == name]

    def _roles(self, broker: int) -> dict[str, Any]:
        return {
            "ApiVersions": partial(self.api_versions, broker),
            "DescribeCluster": partial(self.describe_cluster, broker),
            "DescribeTopicPartitions": self.describe_partitions,
            "DescribeQuorum": self.describe_quorum,
            "DescribeConfigs": partial(self.describe_configs, broker),
            "DescribeLogDirs": partial(self.describe_log_dirs, broker),
            "ListPartitionReassignments": lambda heard: ListPartitionReassignmentsResponse(topics=[]),
            "ListOffsets": partial(self.list_offsets, broker),
            "Fetch": partial(self.fetch, broker),
            "ElectLeaders": self.elect,
            "AlterPartitionReassignments": self.reassign,
            "GetReplicaLogInfo": partial(self.replica_log_info, broker),
        }

    def api_versions(self, broker: int, heard: Heard) -> Any:
        offers = OFFERED | ({ElectLeadersResponse.API_KEY: 3} if broker in self.designates else {})
        offers |= {self.log_info[broker]: 0} if broker in self.log_info else {}
        supports = ApiVersionsResponse.SupportedFeatureKey(
            name="metadata.version", min_version=7, max_version=self.metadata_versions.get(broker, self._usual_version)
        )
        return api_versions(
            offers if self.lists_fenced else offers | {60: 1},
            finalized_features_epoch=self.applied[broker],
            supported_features=[supports],
        )

    @property
    def _usual_version(self) -> int:
        """That of Kafka 4.1, or of 3.9."""
        return 27 if self.lists_fenced else 21

    def describe_cluster(self, broker: int, heard: Heard) -> Any:
        entry = DescribeClusterResponse.DescribeClusterBroker
        alive = tuple(id for id in self.members if id not in self.fenced)
        seen = self.stale.get(broker, Stale(alive, tuple(self.fenced & self.members.keys())))
        brokers = []
        for id in sorted((*seen.alive, *(seen.fenced if self.lists_fenced else ()))):
            host, port = self.elsewhere.get(id, self.address(id))
            fenced = {"is_fenced": True} if id in seen.fenced else {}
            brokers.append(entry(broker_id=id, host=host, port=port, rack=None, **fenced))
        return DescribeClusterResponse(
            cluster_id="a-play", controller_id=1, brokers=brokers, authorized_operations=set()
        )

    def describe_quorum(self, heard: Heard) -> Any:
        topic = DescribeQuorumResponse.TopicData
        code, offset = (0, self.watermark) if self.watermark is not None else (31, -1)
        partition = topic.PartitionData(
            partition_index=0, error_code=code, high_watermark=offset, current_voters=[], observers=[]
        )
        return DescribeQuorumResponse(topics=[topic(topic_name="__cluster_metadata", partitions=[partition])], nodes=[])

    def describe_configs(self, broker: int, heard: Heard) -> Any:
        """Of topics whether they are tiered, if they are; of brokers itself only, as Kafka does."""
        make = DescribeConfigsResponse.DescribeConfigsResult
        results = []
        for asked in heard.message.resources:
            if asked.resource_type != _BROKER_RESOURCE:
                results += [_remote_storage(make, asked.resource_name)] if asked.resource_name in self.tiered else []
                continue
            error = 0 if asked.resource_name == str(broker) else 42
            message = f"Unexpected broker id, expected {broker} or empty string, but received {asked.resource_name}"
            results.append(
                make(
                    error_code=error if self.describes_configs else 31,
                    error_message=message if error else None,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[],
                )
            )
        return DescribeConfigsResponse(results=results)

    def describe_log_dirs(self, broker: int, heard: Heard) -> Any:
        """Of the copies that are asked about; of none, if none is named."""
        wanted = {TopicPartition(each.topic, index) for each in heard.message.topics for index in each.partitions}
        make = DescribeLogDirsResponse.DescribeLogDirsResult
        results = [
            make(
                error_code=disk.error,
                log_dir=disk.path,
                topics=[_lying(make, each, moving) for moving in (False, True) for each in _of(disk, moving) & wanted],
                total_bytes=disk.total,
                usable_bytes=disk.usable,
            )
            for disk in self.disks.get(broker, [Disk()])
        ]
        return DescribeLogDirsResponse(error_code=self.disks_error, results=[] if self.disks_error else results)

    def describe_partitions(self, heard: Heard) -> Any:
        kind, at = DescribeTopicPartitionsResponse, heard.message.cursor
        names = {topic.name for topic in heard.message.topics}
        begin = (at.topic_name, at.partition_index) if at else ("", 0)
        seen = [id for id in sorted(self.states) if id.topic not in self.hidden]
        wanted = [id for id in seen if (not names or id.topic in names) and id >= begin]
        shown = wanted[: min(self.page, heard.message.response_partition_limit)]
        rest = wanted[len(shown) :]
        make = kind.DescribeTopicPartitionsResponseTopic
        topics = [
            make(
                error_code=0,
                name=name,
                topic_id=TOPIC_ID,
                is_internal=False,
                partitions=[_described(self.states[id]) for id in ids],
            )
            for name, ids in groupby(shown, key=lambda id: id.topic)
        ]
        missing = sorted(names - {id.topic for id in seen})
        topics += [make(error_code=self.hidden.get(name, 3), name=name, partitions=[]) for name in missing]
        cursor = kind.Cursor(topic_name=rest[0].topic, partition_index=rest[0].partition) if rest else None
        return kind(topics=topics, next_cursor=cursor)

    def list_offsets(self, broker: int, heard: Heard) -> Any:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for asked in heard.message.topics:
            parts = []
            for part in asked.partitions:
                id = TopicPartition(asked.name, part.partition_index)
                if id in self.left_out:
                    continue
                log = self.logs.get((broker, id), Log(0, error=3))
                code, epoch, offset = log.offset(heard.message.replica_id, part.timestamp, part.current_leader_epoch)
                parts.append(
                    topic.ListOffsetsPartitionResponse(
                        partition_index=id.partition, error_code=code, leader_epoch=epoch, offset=offset
                    )
                )
            topics.append(topic(name=asked.name, partitions=parts))
        return ListOffsetsResponse(topics=topics)

    def fetch(self, broker: int, heard: Heard) -> Any:
        topic = FetchResponse.FetchableTopicResponse
        name = next(id.topic for id in self.states)
        responses = []
        for asked in heard.message.topics:
            parts = []
            for part in asked.partitions:
                log = self.logs[broker, TopicPartition(name, part.partition)]
                asked_of_none = part.last_fetched_epoch < 0
                found = None if asked_of_none else log.epoch_end(part.last_fetched_epoch)
                reached = asked_of_none and log.start <= part.fetch_offset <= log.end
                more: dict[str, Any] = {"error_code": 0 if reached else 1}
                if found:
                    end = topic.PartitionData.EpochEndOffset(epoch=found[0], end_offset=found[1])
                    more = {"diverging_epoch": end, "log_start_offset": log.start, "high_watermark": log.high_watermark}
                parts.append(topic.PartitionData(partition_index=part.partition, aborted_transactions=[], **more))
            responses.append(topic(topic_id=asked.topic_id, partitions=parts))
        return FetchResponse(responses=responses)

    def replica_log_info(self, broker: int, heard: Heard) -> Any:
        kind = GetReplicaLogInfoResponse.TopicPartitionLogInfo
        name = next(id.topic for id in self.states)
        asked = [(topic.topic_id, index) for topic in heard.message.topic_partitions for index in topic.partitions]
        topics: dict[uuid.UUID, list[Any]] = {}
        for topic_id, index in asked[: self.served]:
            id = TopicPartition(name, index)
            if id in self.left_out:
                continue
            log = self.logs.get((broker, id), Log(-1, error=3))
            epoch, end = (-1, -1) if log.error else (log.knows, log.end)
            topics.setdefault(topic_id, []).append(
                kind.PartitionLogInfo(
                    partition=index, partition_leader_epoch=epoch, log_end_offset=end, error_code=log.error
                )
            )
        return GetReplicaLogInfoResponse(
            throttle_time_ms=0,
            broker_epoch=self.epochs.get(broker, 40 + broker),
            has_more_data=len(asked) > self.served,
            topic_partition_log_info_list=[
                kind(topic_id=topic_id, partition_log_info=infos) for topic_id, infos in topics.items()
            ],
        )

    def elect(self, heard: Heard) -> Any:
        code, result = _next(self.election), ElectLeadersResponse.ReplicaElectionResult
        results = [
            result(
                topic=topic.topic,
                partition_result=[
                    result.PartitionResult(partition_id=index, error_code=code)
                    for index in topic.partitions
                    if (topic.topic, index) not in self.left_out
                ],
            )
            for topic in heard.message.topic_partitions
        ]
        return ElectLeadersResponse(error_code=0, replica_election_results=results)

    def reassign(self, heard: Heard) -> Any:
        code, response = _next(self.reassignment), AlterPartitionReassignmentsResponse.ReassignableTopicResponse
        responses = [
            response(
                name=topic.name,
                partitions=[
                    response.ReassignablePartitionResponse(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                    if (topic.name, part.partition_index) not in self.left_out
                ],
            )
            for topic in heard.message.topics
        ]
        return AlterPartitionReassignmentsResponse(error_code=0, responses=responses)


def _remote_storage(make: Any, topic: str) -> Any:
    config = make.DescribeConfigsResourceResult(
        name="remote.storage.enable", value="true", read_only=False, is_sensitive=False, synonyms=[]
    )
    return make(error_code=0, error_message=None, resource_type=2, resource_name=topic, configs=[config])


def _next(codes: list[int]) -> int:
    return codes.pop(0) if len(codes) > 1 else codes[0]


def _described(state: PartitionState) -> Any:
    make = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic.DescribeTopicPartitionsResponsePartition
    return make(
        partition_index=state.id.partition,
        leader_id=-1 if state.leader is None else state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=sorted(state.offline),
    )


def _of(disk: Disk, moving: bool) -> set[TopicPartition]:
    return set(disk.incoming if moving else disk.copies)


def _lying(make: Any, id: TopicPartition, moving: bool) -> Any:
    topic = make.DescribeLogDirsTopic
    part = topic.DescribeLogDirsPartition(
        partition_index=id.partition, partition_size=1, offset_lag=0, is_future_key=moving
    )
    return topic(name=id.topic, partitions=[part])
