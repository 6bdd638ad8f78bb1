"""Topic ids as the protocol has them, and topic-partitions as most messages group them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from kafka_recovery.domain.ids import TopicId, TopicPartition

T = TypeVar("T")

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@lru_cache(10_000)
def uuid_of(id: TopicId) -> UUID:
    """A topic id as a UUID."""
    return UUID(bytes=base64.urlsafe_b64decode(id + "=="))


@lru_cache(10_000)
def topic_id_of(id: UUID | None) -> TopicId:
    """A UUID as Kafka writes topic ids; None is the zero UUID."""
    return TopicId(base64.urlsafe_b64encode(id.bytes if id else bytes(16)).decode().rstrip("="))


def is_internal(topic: str) -> bool:
    """Whether Kafka keeps its own state in this topic."""
    return topic in _INTERNAL


def by_topic(partitions: Iterable[tuple[TopicPartition, T]]) -> dict[str, list[tuple[int, T]]]:
    """Partition indexes and what belongs to them, by topic."""
    grouped: dict[str, list[tuple[int, T]]] = {}
    for (topic, index), value in partitions:
        grouped.setdefault(topic, []).append((index, value))
    return grouped
