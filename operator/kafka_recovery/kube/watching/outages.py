"""Outages, and how a finished recovery's status keeps those it left: nobody takes them up again by himself. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from kafka_recovery.cluster.scan import OfflinePartition
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.domain.plan import Plan

LARGEST = 300 * 1024
"""Bytes of JSON that a status keeps of them: with its scope, an object must stay below etcd's 1.5 MiB."""


class Outage(NamedTuple):
    """One spell of a partition without a leader; an election ends it, and what comes after is another one."""

    id: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch

    @classmethod
    def of(cls, partition: OfflinePartition | PartitionEvidence) -> Outage:
        """The spell that this partition is in."""
        return cls(partition.id, partition.topic_id, partition.leader_epoch)


def outages_seen(plan: Plan) -> Iterator[Outage]:
    """What was without a leader when a plan was made."""
    return (Outage.of(each) for each in plan.evidence.partitions if each.leader is None)


def with_begins(evidence: Evidence, seen_since: Mapping[Outage, datetime]) -> Evidence:
    """The same, its leaderless partitions with since when they are seen to be so, where the metadata log tells nothing.

    A time after the evidence is another clock's, and says nothing.
    """

    def told(each: PartitionEvidence) -> PartitionEvidence:
        if each.leader is not None or each.offline_since is not None:
            return each
        since = seen_since.get(Outage.of(each))
        return replace(each, offline_since=since) if since and since <= evidence.cluster.observed_at else each

    return replace(evidence, partitions=tuple(map(told, evidence.partitions))) if seen_since else evidence


def left_offline(outages: Iterable[Outage]) -> list[dict[str, Any]]:
    """As `status.leftOffline` says it: partitions of a topic that share a leader epoch stand together.

    Of more than a status can hold the first ones by topic.
    """
    groups: dict[tuple[str, TopicId, LeaderEpoch], list[int]] = {}
    for outage in sorted(outages):
        groups.setdefault((outage.id.topic, outage.topic_id, outage.leader_epoch), []).append(outage.id.partition)
    kept: list[dict[str, Any]] = []
    room = LARGEST
    for (topic, topic_id, epoch), partitions in groups.items():
        said = {"topic": topic, "topicId": topic_id, "leaderEpoch": epoch, "partitions": partitions}
        room -= len(json.dumps(said, separators=(",", ":"))) + 1
        if room < 0:
            break
        kept.append(said)
    return kept


def outages_left(status: Mapping[str, Any]) -> frozenset[Outage]:
    """What a finished recovery's status says it left. A status may be written by anybody: what is no outage is none."""
    said = status.get("leftOffline")
    return frozenset(outage for group in (said if isinstance(said, list) else ()) for outage in _outages(group))


def _outages(group: object) -> Iterator[Outage]:
    if not isinstance(group, Mapping):
        return
    partitions = group.get("partitions")
    known = isinstance(group.get("topic"), str) and isinstance(group.get("topicId"), str)
    if not known or not isinstance(group.get("leaderEpoch"), int) or not isinstance(partitions, list):
        return
    for partition in partitions:
        if isinstance(partition, int):
            id = TopicPartition(group["topic"], partition)
            yield Outage(id, TopicId(group["topicId"]), LeaderEpoch(group["leaderEpoch"]))
