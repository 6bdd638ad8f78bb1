"""Which requests a simulated broker knows, in which versions, and who answers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from kafka.protocol import admin, consumer, metadata, producer
from kafka.protocol import sasl as protocol_sasl

from kafka_recovery.cluster import kip_1275
from kafka_recovery.cluster.metadata_log.messages import FetchSnapshotRequest, FetchSnapshotResponse
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import Switches
from kafka_recovery.simulator.wire import changes, consuming, controlling, described, logs, producing, sasl, topics
from kafka_recovery.simulator.wire.api_versions import API_VERSIONS, ApiVersionsAnswers
from kafka_recovery.simulator.wire.exchange import Exchange

Range = tuple[int, int]
Release = tuple[int, int]

_ANY: Release = (0, 0)


@dataclass(frozen=True, slots=True)
class Known:
    """One request: its messages, its versions by release (oldest first), and who answers it."""

    request: Any
    response: Any
    versions: Mapping[Release, Range]
    serve: Callable[[Exchange], None]

    def range_in(self, settings: Settings, switches: Switches) -> Range | None:
        """What brokers so configured offer of it."""
        if self.request is kip_1275.GetReplicaLogInfoRequest and not switches.designated_elections:
            return None
        major, minor = settings.release.split(".")[:2]
        ranges = [range for since, range in self.versions.items() if since <= (int(major), int(minor))]
        if not ranges:
            return None
        lowest, highest = ranges[-1]
        if self.request is kip_1275.ElectLeadersRequest and switches.designated_elections:
            highest = 3
        if self.request is admin.DescribeClusterRequest:
            highest = 2 if settings.fenced_listed else 1
        return lowest, highest


_KNOWN = (
    Known(admin.DescribeClusterRequest, admin.DescribeClusterResponse, {_ANY: (0, 2)}, described.cluster),
    Known(
        admin.DescribeTopicPartitionsRequest,
        admin.DescribeTopicPartitionsResponse,
        {(3, 8): (0, 0)},
        described.topic_partitions,
    ),
    Known(admin.DescribeConfigsRequest, admin.DescribeConfigsResponse, {_ANY: (1, 4)}, described.configs),
    Known(admin.DescribeQuorumRequest, admin.DescribeQuorumResponse, {_ANY: (0, 1), (3, 9): (0, 2)}, changes.quorum),
    Known(
        admin.ListPartitionReassignmentsRequest,
        admin.ListPartitionReassignmentsResponse,
        {_ANY: (0, 0)},
        changes.list_reassignments,
    ),
    Known(
        admin.AlterPartitionReassignmentsRequest,
        admin.AlterPartitionReassignmentsResponse,
        {_ANY: (0, 0), (4, 1): (0, 1)},
        changes.alter_reassignments,
    ),
    Known(kip_1275.ElectLeadersRequest, kip_1275.ElectLeadersResponse, {_ANY: (0, 2)}, changes.elect_leaders),
    Known(
        consumer.ListOffsetsRequest,
        consumer.ListOffsetsResponse,
        {_ANY: (1, 8), (3, 9): (1, 9), (4, 0): (1, 10), (4, 2): (1, 11)},
        logs.list_offsets,
    ),
    Known(
        consumer.FetchRequest,
        consumer.FetchResponse,
        {_ANY: (4, 16), (3, 9): (4, 17), (4, 1): (4, 18)},
        consuming.fetch,
    ),
    Known(metadata.MetadataRequest, metadata.MetadataResponse, {_ANY: (0, 12), (4, 0): (0, 13)}, topics.metadata),
    Known(
        producer.ProduceRequest,
        producer.ProduceResponse,
        {_ANY: (3, 11), (4, 0): (3, 12), (4, 1): (3, 13)},
        producing.produce,
    ),
    Known(producer.InitProducerIdRequest, producer.InitProducerIdResponse, {_ANY: (0, 5)}, producing.init_producer_id),
    Known(
        metadata.FindCoordinatorRequest, metadata.FindCoordinatorResponse, {_ANY: (0, 6)}, producing.find_coordinator
    ),
    Known(
        consumer.OffsetForLeaderEpochRequest,
        consumer.OffsetForLeaderEpochResponse,
        {_ANY: (2, 4)},
        producing.end_of_epochs,
    ),
    Known(admin.CreateTopicsRequest, admin.CreateTopicsResponse, {_ANY: (2, 7)}, topics.create),
    Known(admin.DeleteTopicsRequest, admin.DeleteTopicsResponse, {_ANY: (1, 6)}, topics.delete),
    Known(admin.DescribeLogDirsRequest, admin.DescribeLogDirsResponse, {_ANY: (1, 4)}, topics.log_dirs),
    Known(protocol_sasl.SaslHandshakeRequest, protocol_sasl.SaslHandshakeResponse, {_ANY: (1, 1)}, sasl.handshake),
    Known(
        protocol_sasl.SaslAuthenticateRequest, protocol_sasl.SaslAuthenticateResponse, {_ANY: (0, 2)}, sasl.authenticate
    ),
    Known(kip_1275.GetReplicaLogInfoRequest, kip_1275.GetReplicaLogInfoResponse, {_ANY: (0, 0)}, logs.replica_log_info),
)


_SASL = tuple(
    known
    for known in _KNOWN
    if known.request in (protocol_sasl.SaslHandshakeRequest, protocol_sasl.SaslAuthenticateRequest)
)

_CONTROLLERS = (
    Known(consumer.FetchRequest, consumer.FetchResponse, {_ANY: (13, 17), (4, 1): (13, 18)}, controlling.fetch),
    Known(
        FetchSnapshotRequest,
        FetchSnapshotResponse,
        {_ANY: (0, 0), (3, 9): (0, 1)},
        controlling.fetch_snapshot,
    ),
    Known(
        admin.DescribeQuorumRequest, admin.DescribeQuorumResponse, {_ANY: (0, 1), (3, 9): (0, 2)}, controlling.quorum
    ),
    Known(admin.DescribeClusterRequest, admin.DescribeClusterResponse, {_ANY: (0, 2)}, controlling.cluster),
    *_SASL,
)
"""What controllers are asked on listeners of their own; they know fewer versions of Fetch than brokers."""


@dataclass(frozen=True, slots=True)
class Api:
    """One request as certain brokers offer it."""

    request: Any
    response: Any
    lowest: int
    highest: int
    serve: Callable[[Exchange], None]


@dataclass(frozen=True, slots=True)
class Apis:
    """All that certain brokers offer, by api key."""

    offered: Mapping[int, Api]
    versions: ApiVersionsAnswers

    def find(self, key: int, version: int) -> Api | None:
        """The request of this number, if they know this version of it."""
        api = self.offered.get(key)
        return api if api is not None and api.lowest <= version <= api.highest else None


@lru_cache(100)
def apis_of(settings: Settings, switches: Switches) -> Apis:
    """What brokers so configured offer."""
    return _offered(_KNOWN, settings, switches)


@lru_cache(100)
def controller_apis_of(settings: Settings, switches: Switches) -> Apis:
    """What their controllers offer."""
    return _offered(_CONTROLLERS, settings, switches)


def _offered(of: tuple[Known, ...], settings: Settings, switches: Switches) -> Apis:
    ranges = {int(known.request.API_KEY): known.range_in(settings, switches) for known in of}
    offered = {key: range for key, range in ranges.items() if range is not None} | {API_VERSIONS: (0, 4)}
    answers = ApiVersionsAnswers(MappingProxyType(dict(sorted(offered.items()))))
    first = Known(metadata.ApiVersionsRequest, metadata.ApiVersionsResponse, {}, answers.serve)
    found = {
        key: Api(known.request, known.response, *offered[key], known.serve)
        for known in (first, *of)
        for key in (int(known.request.API_KEY),)
        if key in offered
    }
    return Apis(MappingProxyType(found), answers)
