"""A broker's half of the heartbeats: registering, saying what it wants, and KIP-343's fencing of oneself."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.host import Host
from kafka_recovery.simulator.model.messages import BrokerStatus, Heartbeat, HeartbeatAnswer, Registration
from kafka_recovery.simulator.model.timeline import What


class Member(Host, Protocol):
    """The broker process, as seen by its heartbeats."""

    rack: str | None
    legacy: bool
    endpoint: str
    applied: int
    is_open: bool
    dead_directories: frozenset[TopicPartition]

    @property
    def disk(self) -> int:
        """Which of its disks it has."""
        ...

    @property
    def incarnation(self) -> str:
        """Tells this process from the broker's earlier ones."""
        ...

    def registered(self, epoch: int) -> None:
        """The controller has admitted this incarnation under a broker epoch."""
        ...

    def stop_cleanly(self) -> None:
        """The controller allows the end of a controlled shutdown."""
        ...


class Heartbeats:
    """`status` is what the controller last said; `fenced_itself`: it has not been reached for too long (KIP-343)."""

    def __init__(self, broker: Member) -> None:
        self.broker = broker
        self.status = BrokerStatus.INITIAL
        self.target = BrokerStatus.ACTIVE
        self.registered = False
        self.fenced_itself = False
        self._reached_at = 0.0

    def register(self, previous_epoch: int) -> None:
        """Register this incarnation, again and again until the former one's session is over."""
        broker = self.broker
        self.status, self.registered, self.fenced_itself = BrokerStatus.INITIAL, False, False
        request = Registration(broker.id, broker.incarnation, previous_epoch, broker.rack, broker.endpoint, broker.disk)
        membership = broker.controllers.membership

        def answered(answer: tuple[Error, int]) -> None:
            error, epoch = answer
            if error is Error.NONE:
                self.registered = True
                broker.registered(epoch)
            else:
                broker.node.after(broker.settings.registration_retry, partial(self.register, previous_epoch))

        broker.forward("Registration", partial(membership.register, request), answered, None)

    def begin(self, target: BrokerStatus) -> None:
        """Send heartbeats from now on."""
        self.registered, self.target = True, target
        self._reached_at = self.broker.now
        self._beat()

    def stop(self) -> None:
        """Ask for a controlled shutdown."""
        self.target = BrokerStatus.STOPPING
        self.send()

    def _beat(self) -> None:
        self._fence_oneself()
        self.send()
        self.broker.node.after(self.broker.settings.heartbeat, self._beat)

    def send(self) -> None:
        """One heartbeat now. A broker of an old release only keeps its session (KIP-343's legacy brokers)."""
        broker, controllers = self.broker, self.broker.controllers
        if broker.legacy and self.target is BrokerStatus.ACTIVE:
            controllers.membership.legacy_session(broker.id)
            return
        active = controllers.active
        if active is None or not self.registered:
            return
        if self._changes_nothing(active):
            controllers.membership.heard(broker.id)
            self._reached_at = broker.now
            return
        request = Heartbeat(broker.id, broker.epoch, self.target, broker.applied, broker.dead_directories)
        if not broker.is_open and self.target is BrokerStatus.ACTIVE:
            request = Heartbeat(broker.id, broker.epoch, BrokerStatus.INACTIVE, broker.applied)
        generation = broker.node.generation

        def arrived() -> None:
            controllers.ask(active, partial(controllers.membership.heartbeat, request), reply)

        def reply(answer: HeartbeatAnswer | None) -> None:
            if answer is not None:
                broker.network.send(active, broker.id, "Heartbeat answer", partial(self._answered, generation, answer))

        broker.network.send(broker.id, active, "Heartbeat", arrived)

    def _changes_nothing(self, active: str) -> bool:
        """Whether both sides would only hear what they know, and nothing keeps the two messages from arriving."""
        broker = self.broker
        node, active_already = broker.network.nodes[active], self.target is self.status is BrokerStatus.ACTIVE
        return (
            active_already
            and broker.is_open
            and node.running
            and not (node.paused or self.fenced_itself)
            and broker.network.calm(broker.id, active)
            and broker.controllers.membership.is_active(broker.id, broker.epoch, broker.dead_directories)
        )

    def _answered(self, generation: int, answer: HeartbeatAnswer) -> None:
        broker = self.broker
        if generation != broker.node.generation:
            return
        if answer.error is not Error.NONE:
            return
        self._reached_at = broker.now
        self.status = answer.current
        if self.fenced_itself and answer.current is BrokerStatus.ACTIVE:
            self.fenced_itself = False
            broker.timeline.tell(broker.node.title, What.NOTE, text="reaches the controller again and serves")
        if answer.may_stop:
            broker.stop_cleanly()

    def _fence_oneself(self) -> None:
        """KIP-343: later than the controller declares the broker inactive, so that nobody serves less than needed."""
        broker = self.broker
        cut_off = broker.now - self._reached_at > broker.settings.self_fencing
        if cut_off and broker.switches.brokers_fence_themselves and not self.fenced_itself and not broker.legacy:
            self.fenced_itself = True
            broker.timeline.tell(
                broker.node.title, What.SELF_FENCED, why=f"no controller for {broker.settings.self_fencing:g} s"
            )
