"""Port `ReplicaReader`: the ways to ask a broker where its logs end. What one can't tell, another reading fills in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from kafka_recovery.cluster.broker_reader import ANY_EPOCH, DEBUGGING_CONSUMER, LATEST, BrokerReader
from kafka_recovery.cluster.metadata import PartitionState
from kafka_recovery.domain.ids import BrokerEpoch, TopicPartition

FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75


class LogEnd(NamedTuple):
    """What one replica's broker told: an error code, or where the log ends."""

    error_code: int
    offset: int


class ReplicaReader(Protocol):
    """One way to ask one broker. Leader epochs and log starts are Fetch's to tell, whichever way this is."""

    @property
    def asks(self) -> str:
        """The request."""

    @property
    def epoch(self) -> BrokerEpoch | None:
        """The broker's own epoch; None: it was not told."""

    def needs(self, topic: str) -> str:
        """The right that it takes."""

    async def log_ends(
        self, reader: BrokerReader, states: Iterable[PartitionState], *, any_epoch: bool = False
    ) -> Mapping[TopicPartition, LogEnd]:
        """Each log end under the partition's current leader epoch, or the error, such as that the broker knows another.

        `any_epoch`: whichever the broker knows. Who is left out has not been told of. Raises ClusterError.
        """


class ListOffsets:
    """Port `ReplicaReader`, on any release: a debugging consumer is told the log end by any replica."""

    asks, epoch = "ListOffsets", None

    def needs(self, topic: str) -> str:
        """See the port."""
        return f"DESCRIBE on topic {topic}"

    async def log_ends(
        self, reader: BrokerReader, states: Iterable[PartitionState], *, any_epoch: bool = False
    ) -> Mapping[TopicPartition, LogEnd]:
        """See the port."""
        epochs = {state.id: ANY_EPOCH if any_epoch else state.leader_epoch for state in states}
        told = await reader.list_offsets(epochs, LATEST, DEBUGGING_CONSUMER)
        return {id: LogEnd(part.error_code, part.offset) for id, part in told.items()}
