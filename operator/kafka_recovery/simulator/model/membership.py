"""Who belongs to the cluster: registrations, heartbeats, fencing; KIP-343's states on KRaft's broker epochs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.controller_state import ControllerState
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.messages import (
    NO_BROKER_EPOCH,
    BrokerStatus,
    Heartbeat,
    HeartbeatAnswer,
    Registration,
)
from kafka_recovery.simulator.model.metadata import BrokerState
from kafka_recovery.simulator.model.scheduler import Scheduler
from kafka_recovery.simulator.model.timeline import What

_ENDPOINT = re.compile(r"[a-z0-9.-]+:[1-9][0-9]{0,4}")
"""Host and port."""


@dataclass(slots=True)
class Membership:
    """The active controller's half of the heartbeats.

    `contacts`: when each broker was last heard of; a new active controller begins by giving everybody a full session.
    `attentive`: whether an active controller is there to notice silence.
    """

    state: ControllerState
    scheduler: Scheduler
    attentive: Callable[[], bool]
    contacts: dict[BrokerId, float] = field(default_factory=dict)

    def admit(self, broker: BrokerId, incarnation: str, rack: str | None) -> int:
        """A broker that belongs to the cluster from the start, unfenced; returns its broker epoch."""
        epoch = self.state.log.end
        self.state.write_broker(broker, BrokerState(epoch, incarnation, fenced=False, rack=rack))
        self.heard(broker)
        self._watch(broker)
        return epoch

    def register(self, request: Registration) -> tuple[Error, int]:
        """A new incarnation: it begins fenced. Refused while the former one's session lasts (KRaft).

        Raises ControllerFailed.
        """
        if request.broker < 0 or not _ENDPOINT.fullmatch(request.endpoint):
            return Error.INVALID_REQUEST, NO_BROKER_EPOCH
        known = self.state.brokers.get(request.broker)
        if known is not None and known.incarnation == request.incarnation:
            return Error.NONE, known.epoch
        if known is not None and not known.stopping and self._in_session(request.broker):
            return Error.DUPLICATE_BROKER_REGISTRATION, NO_BROKER_EPOCH
        clean = known is not None and known.epoch == request.previous_epoch
        lost = self.state.settings.elr and not clean and known is not None
        if lost:
            self.state.look_up_memberships(request.broker)
        epoch = self.state.log.end
        registered = BrokerState(epoch, request.incarnation, fenced=True, rack=request.rack, disk=request.disk)
        self.state.write_broker(request.broker, registered)
        self.state.unacceptable.pop(request.broker, None)
        self.state.timeline.tell(self.state.actor(), What.REGISTERED, broker=request.broker, epoch=epoch, clean=clean)
        self.state.leave_isr(request.broker, f"broker {request.broker} registered anew", lost_its_log=lost)
        self.heard(request.broker)
        self._watch(request.broker)
        return Error.NONE, epoch

    def heartbeat(self, request: Heartbeat) -> HeartbeatAnswer:
        """Believe a valid incarnation, move it towards the state it wants, tell it the state it has."""
        if request.broker < 0:
            return HeartbeatAnswer(Error.INVALID_REQUEST, BrokerStatus.INITIAL)
        known = self.state.brokers.get(request.broker)
        if known is None:
            return HeartbeatAnswer(Error.BROKER_ID_NOT_REGISTERED, BrokerStatus.INITIAL)
        if request.incarnation_id < known.epoch and self.state.switches.incarnations_checked:
            return HeartbeatAnswer(Error.INVALID_INCARNATION_ID, BrokerStatus.INACTIVE)
        if request.incarnation_id > known.epoch:
            known = known._replace(epoch=request.incarnation_id)
            self.state.write_broker(request.broker, known)
            self.heard(request.broker)
            self._watch(request.broker)
        self.heard(request.broker)
        self._note_dead_directories(request)
        if request.target is BrokerStatus.STOPPING:
            return self._stop(request.broker, known)
        if known.fenced and request.target is BrokerStatus.ACTIVE and request.applied > known.epoch:
            self._unfence(request.broker, known)
        now = self.state.brokers[request.broker]
        status = BrokerStatus.INACTIVE if now.fenced else BrokerStatus.ACTIVE
        return HeartbeatAnswer(Error.NONE, status, broker=request.broker, incarnation_id=now.epoch)

    def heard(self, broker: BrokerId) -> None:
        """The broker's session begins anew."""
        self.contacts[broker] = self.scheduler.now

    def is_active(self, broker: BrokerId, epoch: int, offline: frozenset[TopicPartition]) -> bool:
        """Whether a heartbeat of this incarnation with these dead replicas would tell nothing new."""
        known = self.state.brokers.get(broker)
        return (
            known is not None
            and known.epoch == epoch
            and not (known.fenced or known.stopping)
            and offline <= self.state.unacceptable.get(broker, frozenset())
        )

    def legacy_session(self, broker: BrokerId) -> None:
        """KIP-343: a broker of an old release sends no heartbeats and counts as active while it is connected at all."""
        self.heard(broker)
        known = self.state.brokers.get(broker)
        if known is not None and known.fenced:
            self._unfence(broker, known)

    def take_over(self) -> None:
        """A controller becomes active: it knows registrations, but not when it last heard of anybody."""
        for broker in self.contacts:
            self.heard(broker)

    def fence(self, broker: BrokerId, why: str) -> None:
        """KIP-343's Inactive: it leads nothing and is in no ISR but as the last member."""
        known = self.state.brokers[broker]
        if known.fenced:
            return
        self.state.write_broker(broker, known._replace(fenced=True))
        self.state.timeline.tell(self.state.actor(), What.FENCED, broker=broker, why=why)
        self.state.leave_isr(broker, f"broker {broker} fenced")

    def _unfence(self, broker: BrokerId, known: BrokerState) -> None:
        self.state.write_broker(broker, known._replace(fenced=False))
        self.state.timeline.tell(self.state.actor(), What.UNFENCED, broker=broker)
        self.state.try_leaderless(self.state.log.partitions_of(broker), f"broker {broker} unfenced")

    def _stop(self, broker: BrokerId, known: BrokerState) -> HeartbeatAnswer:
        """Controlled shutdown: out of every ISR, the leaderships too; nothing to wait for after that.

        KRaft does it at once, KIP-343 gradually: some leaderships with each heartbeat, the other ISRs at the end.
        """
        at_once = self.state.settings.leaders_moved
        if not known.stopping:
            self.state.write_broker(broker, known._replace(stopping=True))
        if at_once is not None:
            self.state.hand_over(broker, at_once, f"broker {broker} stops")
        elif not known.stopping:
            self.state.leave_isr(broker, f"broker {broker} stops")
        stops = HeartbeatAnswer(Error.NONE, BrokerStatus.STOPPING, broker=broker, incarnation_id=known.epoch)
        if self.state.leads(broker):
            return stops
        self.fence(broker, "it stops cleanly")
        return replace(stops, may_stop=True)

    def _note_dead_directories(self, request: Heartbeat) -> None:
        known = self.state.unacceptable.get(request.broker, frozenset())
        if not request.offline - known:
            return
        self.state.unacceptable[request.broker] = request.offline
        for id in sorted(request.offline - known):
            state = self.state.partitions.get(id)
            if state is not None and request.broker in state.isr:
                self.state.leave_isr_of(id, request.broker, f"log directory of broker {request.broker} is offline")

    def _in_session(self, broker: BrokerId) -> bool:
        return self.scheduler.now - self.contacts.get(broker, -1e9) < self.state.settings.session

    def _watch(self, broker: BrokerId) -> None:
        """Come back when the session would be over; fence if it is."""
        epoch = self.state.brokers[broker].epoch
        session = self.state.settings.session

        def check() -> None:
            known = self.state.brokers[broker]
            if known.epoch != epoch:
                return
            over = self.contacts[broker] + session
            if over > self.scheduler.now:
                self.scheduler.at(over, check)
                return
            if self.attentive():
                self.fence(broker, f"not heard of for {session:g} s")
            self.scheduler.after(session, check)

        self.scheduler.at(self.contacts[broker] + session, check)
