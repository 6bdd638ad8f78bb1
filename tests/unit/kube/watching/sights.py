"""Pulses and offline partitions by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from kafka_recovery.cluster.metadata import BrokerEntry
from kafka_recovery.cluster.pulse import BrokerPulse, Pulse
from kafka_recovery.cluster.scan import OfflinePartition
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.domain.reason import Reason

SILENT = Reason("BrokerTimeout", "no answer within 1s")
REFUSED = Reason("BrokerUnreachable", "connection refused")


def seconds(at: float) -> timedelta:
    return timedelta(seconds=at)


def pulse(
    *alive: int,
    fenced: Iterable[int] = (),
    silent: Iterable[int] = (),
    refusing: Iterable[int] = (),
    late: Iterable[int] = (),
    applied: int | Mapping[int, int | None] = 100,
    moved: Iterable[int] = (),
    **more: Any,
) -> Pulse:
    """Brokers that are alive and answer, unless they are among those that do not. `moved`: to another address."""
    brokers: dict[BrokerId, BrokerPulse] = {}
    for id in sorted({*alive, *fenced}):
        entry = BrokerEntry(BrokerId(id), Address(f"b{id}" + "x" * (id in moved), 9092), None, id in fenced)
        offset = applied if isinstance(applied, int) else applied.get(id)
        told = BrokerPulse(entry, True, offset)
        if id in silent:
            told = BrokerPulse(entry, False, offset, SILENT)
        if id in refusing:
            told = BrokerPulse(entry, False, offset, REFUSED, refused=True)
        if id in late:
            told = BrokerPulse(entry, None, offset)
        brokers[entry.id] = told
    fields = {"cluster_id": "abc", "view_from": Address("b1", 9092), "lists_fenced": True, "brokers": brokers}
    return Pulse(**{**fields, **more})


def offline(
    topic: str = "orders", partition: int = 0, epoch: int = 5, replicas: int = 3, topic_id: str | None = None
) -> OfflinePartition:
    """A partition without a leader."""
    assignment = tuple(BrokerId(id) for id in range(1, replicas + 1))
    return OfflinePartition(
        TopicPartition(topic, partition),
        TopicId(topic_id or f"id-of-{topic}"),
        LeaderEpoch(epoch),
        assignment,
        assignment[:1],
        (),
    )
