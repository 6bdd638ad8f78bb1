"""What was read of brokers and partitions, as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kafka_recovery.cluster.metadata import BrokerEntry, PartitionState, TopicConfigs, topic_uuid
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.evidence import Broker, PartitionEvidence, Reassignment, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.quickly import made_quickly
from kafka_recovery.domain.reason import Reason


def broker_of(entry: BrokerEntry, versions: ApiVersions | None, advances: bool | None, why: Reason | None) -> Broker:
    """One broker, by its entry in DescribeCluster and by what it said of itself; `why` it said nothing."""
    return Broker(
        id=entry.id,
        host=entry.address.host,
        port=entry.address.port,
        rack=entry.rack,
        registered=True,
        fenced=entry.fenced,
        stopping=None,
        reachable=versions is not None,
        metadata_offset=versions.finalized_features_epoch if versions else None,
        metadata_advances=advances,
        problem=why,
    )


_evidence = made_quickly(PartitionEvidence)
_NOT_ASKED = Reason("AlreadyOnline", "the partition has a leader")


def partition_of(
    state: PartitionState,
    measured: Mapping[BrokerId, Replica],
    ongoing: Mapping[TopicPartition, Reassignment] | Reason,
    configs: TopicConfigs,
    elr: bool,
) -> PartitionEvidence:
    """One partition, by its state in the metadata, and by what was asked besides."""
    known = isinstance(ongoing, Mapping)
    return _evidence(
        id=state.id,
        topic_id=state.topic_id,
        internal=state.internal,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        elr=state.elr if elr else None,
        last_known_elr=state.last_known_elr if elr else None,
        replicas=tuple(measured.get(broker) or Replica(broker, None, _NOT_ASKED) for broker in state.replicas),
        reassignment=ongoing.get(state.id) if isinstance(ongoing, Mapping) else None,
        reassignment_known=known,
        min_isr=configs.min_isr,
        unclean_election_enabled=configs.unclean_election_enabled,
        tiered=configs.tiered,
        configs_problem=configs.problem,
    )


_BEGAN = datetime(1970, 1, 1, tzinfo=UTC)
"""Of the clock that a log's timestamps are told by."""


def with_history(seen: PartitionEvidence, log: Image, now: datetime) -> PartitionEvidence:
    """The same, with what the metadata log tells of it. A time that is yet to come is none."""
    key = topic_uuid(seen.topic_id), seen.id.partition
    at = log.leaderless_at(*key) if seen.leader is None else None
    if at is not None and at > (now - _BEGAN) / timedelta(milliseconds=1):
        at = None
    since = None if at is None else _BEGAN + timedelta(milliseconds=at)
    return replace(seen, history=log.history(*key), offline_since=since)
