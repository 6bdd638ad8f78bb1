"""The controllers: which one is active, what it is asked, and how brokers hear of what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.administration import Administration
from kafka_recovery.simulator.model.controller_state import ControllerFailed, ControllerState
from kafka_recovery.simulator.model.isr_changes import IsrChanges
from kafka_recovery.simulator.model.membership import Membership
from kafka_recovery.simulator.model.metadata import MetadataLog
from kafka_recovery.simulator.model.network import Kind, Network, NodeName
from kafka_recovery.simulator.model.scheduler import Scheduler
from kafka_recovery.simulator.model.settings import Settings, metadata_level
from kafka_recovery.simulator.model.switches import Switches
from kafka_recovery.simulator.model.timeline import Timeline, What

Answer = TypeVar("Answer")

_FIRST_ID = 3000
"""Node ids of controllers begin here; brokers have others."""


class Controllers:
    """A quorum of controllers. Its Raft is not modelled: what the active one writes is committed at once.

    A controller that fails is followed by another live one after an election; requests at the former one are lost, or
    answered as NOT_CONTROLLER if it lives. With one controller, everything waits for it.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        settings: Settings,
        switches: Switches,
        timeline: Timeline,
        names: Sequence[str],
    ) -> None:
        self.scheduler, self.network, self.settings, self.timeline = scheduler, network, settings, timeline
        self.names = tuple(names)
        self.active: str | None = self.names[0]
        self.log = MetadataLog(timeline.now)
        self.log.lead(self.names[0])
        self.log.feature("metadata.version", metadata_level(settings.release))
        if settings.elr:
            self.log.feature("eligible.leader.replicas.version", 1)
        for name in self.names:
            network.node(name, Kind.CONTROLLER)
        self.state = ControllerState(settings, switches, timeline, self.log, self._written, self._actor)
        self.membership = Membership(self.state, scheduler, self._attentive)
        self.isr_changes = IsrChanges(self.state)
        self.administration = Administration(self.state)
        self.observers: dict[BrokerId, Callable[[int], None]] = {}
        self._push_due = False
        self._pushed = 0
        self._term = 0
        scheduler.after(settings.no_op, self._no_op)
        if settings.preferred_check is not None:
            scheduler.after(settings.preferred_check, self._rebalance)
        scheduler.after(settings.unclean_check, self._elect_uncleanly)

    def id_of(self, name: str) -> BrokerId:
        """A controller's node id."""
        return BrokerId(_FIRST_ID + self.names.index(name))

    def name_of(self, id: BrokerId) -> str | None:
        """The controller with this node id; None: it is none of theirs."""
        return dict(enumerate(self.names, _FIRST_ID)).get(id)

    def ask(self, name: str, question: Callable[[], Answer], reply: Callable[[Answer | None], None]) -> None:
        """Runs at the node `name` when a request has arrived there; None: it is not the active controller, or fails."""
        try:
            answer = question() if name == self.active else None
        except ControllerFailed as failed:
            self.timeline.tell(name, What.FAULT, failed=str(failed))
            self._lost(name)
            answer = None
        reply(answer)

    def observe(self, broker: BrokerId, observer: Callable[[int], None]) -> None:
        """From now on tell this broker how far the metadata log reaches."""
        self.observers[broker] = observer

    def kill(self, name: str) -> None:
        """SIGKILL. What it had written stays."""
        node = self.network.nodes[name]
        if node.running:
            self.timeline.tell(name, What.FAULT, killed=name)
            node.stop()
            self._lost(name)

    def start(self, name: str) -> None:
        """It joins the quorum again."""
        node = self.network.nodes[name]
        if not node.running:
            self.timeline.tell(name, What.FAULT, started=name)
            node.start()
            if self.active is None:
                self._hold_election()

    def pause(self, name: str) -> None:
        """SIGSTOP. With others in the quorum, one of them takes over."""
        node = self.network.nodes[name]
        if node.running and not node.paused:
            self.timeline.tell(name, What.FAULT, paused=name)
            node.pause()
            if len(self.names) > 1:
                self._lost(name)

    def thaw(self, name: str) -> None:
        """SIGCONT. It handles what has waited, as active controller if nobody took over."""
        node = self.network.nodes[name]
        if node.paused:
            self.timeline.tell(name, What.FAULT, thawed=name)
            if name == self.active:
                self.membership.take_over()
            node.thaw()
            if self.active is None:
                self._hold_election()

    def fail_over(self) -> None:
        """Another controller becomes active after an election; with one controller, it itself, later."""
        if self.active is not None:
            former = self.active
            self.timeline.tell(former, What.FAULT, resigned=former)
            self._lost(former)

    def _lost(self, name: str) -> None:
        if name == self.active:
            self.active = None
            self._hold_election(after=name)

    def _hold_election(self, after: str | None = None) -> None:
        self._term += 1
        self.scheduler.after(self.settings.controller_election, partial(self._elected, self._term, after))

    def _elected(self, term: int, former: str | None) -> None:
        if term != self._term or self.active is not None:
            return
        alive = [name for name in self.names if (node := self.network.nodes[name]).running and not node.paused]
        if 2 * len(alive) <= len(self.names):
            return
        self.active = next((name for name in alive if name != former), alive[0])
        self.timeline.tell(self.active, What.CONTROLLER, active=self.active)
        self.membership.take_over()
        self.log.lead(self.active)
        self._written()

    def _attentive(self) -> bool:
        return self.active is not None and not self.network.nodes[self.active].paused

    def _actor(self) -> str:
        return self.active or "controller"

    def _written(self) -> None:
        if not self._push_due:
            self._push_due = True
            self.scheduler.after(self.settings.linger, self._push)

    def _push(self) -> None:
        """Answer the observers' parked fetches. The next push makes up for one that is lost."""
        self._push_due = False
        active, end = self.active, self.log.end
        if active is None:
            return
        self._pushed = end
        for broker, observer in self.observers.items():
            if self.network.joined(active, broker):
                self.network.send(active, broker, "Metadata", partial(observer, end))

    def _no_op(self) -> None:
        if self._attentive():
            news = self.log.end > self._pushed
            self.log.no_op()
            if news:
                self._push()
            else:
                self._push_no_op(self.active or "")
        self.scheduler.after(self.settings.no_op, self._no_op)

    def _push_no_op(self, active: str) -> None:
        """In which order observers hear of nothing does not matter."""
        self._pushed = end = self.log.end
        everybody = self.network.undisturbed
        told: dict[NodeName, Callable[[], None]] = {
            broker: partial(observer, end)
            for broker, observer in self.observers.items()
            if everybody or self.network.joined(active, broker)
        }
        self.network.send_to_all(active, "Metadata", told)

    def rebalance(self) -> None:
        """The leader imbalance check, now."""
        if self._attentive():
            self.administration.move_to_preferred()

    def _rebalance(self) -> None:
        self.rebalance()
        self.scheduler.after(self.settings.preferred_check or 1.0, self._rebalance)

    def _elect_uncleanly(self) -> None:
        if self._attentive():
            ids = [id for id in self.state.leaderless if self.state.topics[id.topic].unclean]
            self.state.try_leaderless(ids, "periodic unclean election")
        self.scheduler.after(self.settings.unclean_check, self._elect_uncleanly)
