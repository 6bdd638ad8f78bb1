"""Which brokers the controller counts as alive, and under which registration: each of these sends it heartbeats.

A heartbeat names the broker epoch, and the controller takes none of another one (KIP-631). After a session timeout
(`broker.session.timeout.ms`) without one it fences the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_recovery.cluster.metadata_log.records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, MetadataOffset

_UNFENCED, _UNCHANGED = -1, 0


@dataclass(frozen=True, slots=True)
class Alive:
    """Brokers that were not fenced when the log was read, each with the epoch of its newest registration.

    `as_of`: how far it was read; a controller that works writes at least a no-op twice a second (KIP-835).
    `quorum_epoch`: of the controller that led. A new one gives every broker a whole session.
    """

    as_of: MetadataOffset
    quorum_epoch: int
    brokers: Mapping[BrokerId, BrokerEpoch]


@dataclass(slots=True)
class Unfenced:
    """The fold over the records that tell of it."""

    _newest: dict[int, int] = field(default_factory=dict)
    _alive: set[int] = field(default_factory=set)

    def replay(self, record: Any) -> None:
        """The next one of these; any other tells nothing."""
        match record:
            case RegisterBrokerRecord():
                self._newest[record.broker_id] = record.broker_epoch
                self._put(record.broker_id, alive=not record.fenced)
            case UnregisterBrokerRecord():
                self._put(record.broker_id, alive=False)
            case BrokerRegistrationChangeRecord() if record.broker_epoch != self._newest.get(record.broker_id):
                self._put(record.broker_id, alive=False)
            case BrokerRegistrationChangeRecord() if record.fenced != _UNCHANGED:
                self._put(record.broker_id, alive=record.fenced == _UNFENCED)

    def lose(self) -> None:
        """A record that tells of it can't be read: who is fenced is not known until each is unfenced again."""
        self._alive.clear()

    def told(self, as_of: MetadataOffset, quorum_epoch: int) -> Alive:
        """As of what was replayed."""
        brokers = {BrokerId(id): BrokerEpoch(self._newest[id]) for id in sorted(self._alive)}
        return Alive(as_of, quorum_epoch, brokers)

    def _put(self, id: int, *, alive: bool) -> None:
        (self._alive.add if alive else self._alive.discard)(id)
