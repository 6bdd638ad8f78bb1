"""What brokers and controllers grant a client, and when it has asked too much."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Operation(StrEnum):
    """Kafka's ACL operations that the requests of an admin need; those on a topic come with its name."""

    CLUSTER_ACTION = "cluster-action"
    """On the cluster: the metadata log, GetReplicaLogInfo, and designated elections (KIP-1275)."""
    ALTER = "alter"
    """On the cluster: elections and reassignments."""
    DESCRIBE_CLUSTER = "describe-cluster"
    """DESCRIBE on the cluster: the quorum, and ongoing reassignments."""
    DESCRIBE = "describe"
    """On a topic: that it is there, its partitions, configs and offsets."""
    READ = "read"
    """On a topic: its log."""


OF_TOPICS = frozenset({Operation.DESCRIBE, Operation.READ})
"""Operations that are granted for each topic."""


@dataclass(slots=True)
class Grants:
    """Who has no entry may everything, at once. `pauses`: seconds for which a client over its quota shall wait."""

    pauses: dict[str, float] = field(default_factory=dict)
    _denied: set[tuple[str, Operation, str | None]] = field(default_factory=set)
    refused: set[Operation] = field(default_factory=set)
    """What somebody was refused so far."""

    def deny(self, client: str, operation: Operation, topic: str | None = None) -> None:
        """An ACL that takes this away; `topic` goes with those of topics."""
        self._denied.add((client, operation, topic))

    def allow(self, client: str, operation: Operation, topic: str | None = None) -> None:
        """That ACL is gone."""
        self._denied.discard((client, operation, topic))

    def permits(self, client: str, operation: Operation, topic: str | None = None) -> bool:
        """Whether the client may."""
        denied = (client, operation, topic) in self._denied
        if denied:
            self.refused.add(operation)
        return not denied

    def denies_topics(self, client: str) -> bool:
        """Whether there is a topic that the client may not see or read."""
        return any(name == client and operation in OF_TOPICS for name, operation, _ in self._denied)

    def allow_everything(self) -> None:
        """No ACL takes anything away."""
        self._denied.clear()
