"""A broker's copies, each with the part of the leader that it may play."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.model.host import Copy, Host
from kafka_recovery.simulator.model.leading import Leading


@dataclass(slots=True)
class Hosted(Copy):
    """`leading` stands while the broker leads the partition."""

    leading: Leading | None = None


class HostOfCopies(Host, Protocol):
    """The broker process, as seen by what serves its copies."""

    def hosted(self, id: TopicPartition) -> Hosted | None:
        """This broker's copy, if its metadata gives it one and the log directory is online."""
        ...
