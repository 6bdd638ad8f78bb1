"""Names for the numbers Kafka speaks in, so that an offset is never taken for an epoch."""

from __future__ import annotations

from typing import NamedTuple, NewType, Self

BrokerId = NewType("BrokerId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""What the controller gives a broker each time it registers: another one is another incarnation (KIP-903)."""
MetadataOffset = NewType("MetadataOffset", int)
"""The last offset of `__cluster_metadata` that a broker had applied (ApiVersions' FinalizedFeaturesEpoch)."""
TopicId = NewType("TopicId", str)
"""Kafka's own base64 form of the topic's UUID, as `kafka-topics --describe` prints it."""


class TopicPartition(NamedTuple):
    """A partition by topic name and index; written `orders-17`."""

    topic: str
    partition: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `topic-index`; raises ValueError naming the text and the form that is right."""
        topic, dash, index = text.rpartition("-")
        if not (dash and topic and index.isascii() and index.isdigit()):
            raise ValueError(f"{text!r} is not a partition; write it as topic-index, for example orders-17")
        return cls(topic, int(index))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
