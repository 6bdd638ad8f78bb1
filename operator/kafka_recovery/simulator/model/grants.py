"""What brokers and controllers grant a client, and when it has asked too much."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

EVERY_TOPIC = "*"
"""As a topic: all of them."""


class Operation(Enum):
    """Kafka's ACL operations, with what they are on."""

    CLUSTER_ACTION = "CLUSTER_ACTION on the cluster"
    DESCRIBE_CLUSTER = "DESCRIBE on the cluster"
    ALTER_CLUSTER = "ALTER on the cluster"
    DESCRIBE = "DESCRIBE on a topic"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS on a topic"
    READ = "READ on a topic"


@dataclass(slots=True)
class Grants:
    """Who has no entry may everything, at once. `pauses`: seconds for which a client over its quota shall wait."""

    pauses: dict[str, float] = field(default_factory=dict)
    _denied: set[tuple[str, Operation, str | None]] = field(default_factory=set)

    def deny(self, client: str, operation: Operation, topic: str | None = None) -> None:
        """An ACL that takes this away; `topic` goes with DESCRIBE."""
        self._denied.add((client, operation, topic))

    def allow(self, client: str, operation: Operation, topic: str | None = None) -> None:
        """That ACL is gone."""
        self._denied.discard((client, operation, topic))

    def permits(self, client: str, operation: Operation, topic: str | None = None) -> bool:
        """Whether the client may."""
        if not self._denied:
            return True
        return not {(client, operation, topic), (client, operation, topic and EVERY_TOPIC)} & self._denied
