"""A broker's copy of one partition, and what the broker process offers to its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.controller import Controllers
from kafka_recovery.simulator.model.log import Log
from kafka_recovery.simulator.model.metadata import BrokerState, PartitionState, TopicState
from kafka_recovery.simulator.model.network import Network, Node
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import Switches
from kafka_recovery.simulator.model.timeline import Timeline


@dataclass(slots=True)
class Copy:
    """`state` is the newest metadata the broker has acted on."""

    id: TopicPartition
    log: Log
    state: PartitionState


class Host(Protocol):
    """The broker process, as seen by its parts."""

    id: BrokerId
    node: Node
    network: Network
    controllers: Controllers
    settings: Settings
    switches: Switches
    timeline: Timeline
    epoch: int

    @property
    def now(self) -> float:
        """Virtual time."""
        ...

    def offline(self, id: TopicPartition) -> bool:
        """Whether the copy lies in a dead log directory."""
        ...

    def broker_state(self, broker: BrokerId) -> BrokerState | None:
        """A broker's registration by this broker's own metadata."""
        ...

    def topic_state(self, name: str) -> TopicState | None:
        """A topic by this broker's own metadata."""
        ...

    def has_room(self) -> bool:
        """Whether its volume takes a write; a broker whose volume does not take one ends."""
        ...

    def written(self, log: Log) -> None:
        """The log has new records in the page cache."""
        ...

    def set_watermark(self, log: Log, high_watermark: int) -> None:
        """Move a log's high watermark."""
        ...

    def forward(
        self, kind: str, question: Callable[[], Any], answered: Callable[[Any], None], timeout: float | None
    ) -> None:
        """Ask the active controller, again after every failure to reach it; `answered(None)` after `timeout`."""
        ...
