"""Nodes that run processes, and the network between them: delay, loss, reordering, cuts in one direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from random import Random

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.scheduler import Scheduler, Timer
from kafka_recovery.simulator.model.settings import Settings

NodeName = BrokerId | int | str
Action = Callable[[], None]


class Kind(Enum):
    """What a node is to the others."""

    BROKER = "broker"
    CONTROLLER = "controller"
    CLIENT = "client"


@dataclass(slots=True)
class Node:
    """A host and the one process on it.

    `generation` counts processes: a timer or a message of an earlier one is never delivered to a later one.
    `skew`: seconds by which the wall clock is ahead.
    """

    name: NodeName
    kind: Kind
    scheduler: Scheduler
    host_up: bool = True
    running: bool = True
    paused: bool = False
    generation: int = 0
    skew: float = 0.0
    when_stopped: list[Callable[[bool], object]] = field(default_factory=list)
    """Called as the process ends, with whether its host is still up to say so."""
    _backlog: list[Action] = field(default_factory=list)

    @property
    def title(self) -> str:
        """As a person would call it."""
        return f"broker {self.name}" if self.kind is Kind.BROKER else str(self.name)

    def after(self, delay: float, action: Action) -> Timer:
        """A timer of the present process: it dies with it, and fires late if the process is paused."""
        return self.scheduler.after(delay, partial(self._fire, self.generation, action))

    def deliver(self, action: Action) -> None:
        """A message for the process: handled now, after the pause, or never."""
        if not self.running:
            return
        if self.paused:
            self._backlog.append(partial(self._fire, self.generation, action))
        else:
            action()

    def pause(self) -> None:
        """SIGSTOP."""
        self.paused = True

    def thaw(self) -> None:
        """SIGCONT: everything that waited is handled now, in order."""
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for action in backlog:
            action()

    def stop(self, *, host_up: bool = True) -> None:
        """The process ends, whatever it was doing."""
        self.running, self.paused, self.host_up = False, False, host_up
        self.generation += 1
        self._backlog.clear()
        for told in tuple(self.when_stopped):
            told(host_up)

    def start(self) -> None:
        """A new process."""
        self.running, self.host_up = True, True

    def _fire(self, generation: int, action: Action) -> None:
        if generation != self.generation or not self.running:
            return
        if self.paused:
            self._backlog.append(partial(self._fire, generation, action))
        else:
            action()


@dataclass(slots=True)
class Hold:
    """Messages of one kind that are kept back between two nodes until `release`; they then arrive in order."""

    source: NodeName
    target: NodeName
    kind: str
    _network: Network
    _kept: list[Action] = field(default_factory=list)

    @property
    def held(self) -> int:
        """How many messages wait."""
        return len(self._kept)

    def keep(self, message: Action) -> None:
        """One more waits."""
        self._kept.append(message)

    def release(self) -> None:
        """Let everything through, and hold nothing from now on."""
        self._network.holds = [hold for hold in self._network.holds if hold is not self]
        kept, self._kept = self._kept, []
        for message in kept:
            message()


@dataclass(slots=True)
class Network:
    """Who reaches whom, how late, and how surely. A message is lost if the way is cut when it leaves or arrives."""

    scheduler: Scheduler
    random: Random
    settings: Settings
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    holds: list[Hold] = field(default_factory=list)
    _cuts: set[tuple[NodeName, NodeName]] = field(default_factory=set)
    _kind_cuts: set[tuple[NodeName, Kind]] = field(default_factory=set)
    _slow: dict[NodeName, float] = field(default_factory=dict)
    _loss: float = 0.0
    _reorder: float = 0.0

    @property
    def undisturbed(self) -> bool:
        """Whether messages pass as ever between all nodes."""
        return not (self._cuts or self._kind_cuts or self._loss or self._reorder or self.holds or self._slow)

    def node(self, name: NodeName, kind: Kind = Kind.CLIENT) -> Node:
        """The node of that name; a new one if there is none."""
        if name not in self.nodes:
            self.nodes[name] = Node(name, kind, self.scheduler)
        return self.nodes[name]

    def send(
        self, source: NodeName, target: NodeName, kind: str, deliver: Action, refused: Action | None = None
    ) -> None:
        """Carry a message; `refused` comes back instead if the target's host lives and no process listens."""
        if (self._cuts or self._kind_cuts) and self.cuts(source, target):
            return
        if self.holds:
            for hold in self.holds:
                if (hold.source, hold.target, hold.kind) == (source, target, kind):
                    hold.keep(partial(self._carry, source, target, deliver, refused))
                    return
        self._carry(source, target, deliver, refused)

    def send_to_all(self, source: NodeName, kind: str, deliver: Mapping[NodeName, Action]) -> None:
        """Carry what is alike for everybody, and arrives everywhere at one time where the ways are calm."""
        calm = deliver
        if not self.undisturbed:
            calm = {target: action for target, action in deliver.items() if self.calm(source, target)}
            for target, action in deliver.items():
                if target not in calm:
                    self.send(source, target, kind, action)
        delay = self._delay(source, source) if calm else None
        if delay is not None:
            self.scheduler.after(delay, partial(self._arrive_at_all, source, calm))

    def _arrive_at_all(self, source: NodeName, deliver: Mapping[NodeName, Action]) -> None:
        for target, action in deliver.items():
            self._arrive(source, target, action, None)

    def packet(self, source: NodeName, target: NodeName, kind: str, arrive: Action, lost: Action) -> None:
        """Carry one packet from host to host, whatever their processes do; `lost` where it gets no further."""
        for hold in self.holds:
            if (hold.source, hold.target, hold.kind) == (source, target, kind):
                hold.keep(partial(self.packet, source, target, kind, arrive, lost))
                return
        delay = None if self.cuts(source, target) else self._delay(source, target)
        if delay is None:
            lost()
        else:
            self.scheduler.after(delay, partial(self._at_host, source, target, arrive, lost))

    def _at_host(self, source: NodeName, target: NodeName, arrive: Action, lost: Action) -> None:
        if self.cuts(source, target) or not self.nodes[target].host_up:
            lost()
        else:
            arrive()

    def _carry(self, source: NodeName, target: NodeName, deliver: Action, refused: Action | None) -> None:
        delay = self._delay(source, target)
        if delay is not None:
            self.scheduler.after(delay, partial(self._arrive, source, target, deliver, refused))

    def _delay(self, source: NodeName, target: NodeName) -> float | None:
        """Seconds until a message that leaves now arrives; None: it is lost."""
        chance, settings = self.random.random, self.settings
        if self._loss and chance() < self._loss:
            return None
        delay = settings.delay + chance() * settings.jitter
        if self._slow:
            delay += self._slow.get(source, 0.0) + self._slow.get(target, 0.0)
        if self._reorder and chance() < self._reorder:
            delay += chance() * 100 * (self.settings.delay + self.settings.jitter)
        return delay

    def _arrive(self, source: NodeName, target: NodeName, deliver: Action, refused: Action | None) -> None:
        if (self._cuts or self._kind_cuts) and self.cuts(source, target):
            return
        node = self.nodes[target]
        if node.running and not node.paused:
            deliver()
        elif node.running:
            node.deliver(deliver)
        elif refused is not None and node.host_up:
            self.send(target, source, "refused", refused)

    def cuts(self, source: NodeName, target: NodeName) -> bool:
        """Whether nothing gets from `source` to `target`."""
        if not (self._cuts or self._kind_cuts):
            return False
        if (source, target) in self._cuts:
            return True
        kinds = self._kind_cuts
        return bool(kinds) and (
            (source, self.nodes[target].kind) in kinds or (target, self.nodes[source].kind) in kinds
        )

    def lag(self, one: NodeName, other: NodeName) -> float:
        """Seconds that a message between them takes longer than usual."""
        return self._slow.get(one, 0.0) + self._slow.get(other, 0.0)

    def joined(self, one: NodeName, other: NodeName) -> bool:
        """Whether messages pass both ways."""
        return not (self._cuts or self._kind_cuts) or not (self.cuts(one, other) or self.cuts(other, one))

    def calm(self, one: NodeName, other: NodeName) -> bool:
        """Whether messages between them pass both ways as ever: whoever has nothing to say need not say it."""
        if self.undisturbed:
            return True
        if self._loss or self._reorder or self.holds:
            return False
        return not (self._slow and self.lag(one, other)) and self.joined(one, other)

    def cut(self, source: NodeName, target: NodeName) -> None:
        """Nothing passes from `source` to `target` any more; the other way is not touched."""
        self._cuts.add((source, target))

    def mend(self, source: NodeName, target: NodeName) -> None:
        """The way from `source` to `target` is open again."""
        self._cuts.discard((source, target))

    def isolate(self, name: NodeName, kind: Kind) -> None:
        """Nothing passes between the node and nodes of that kind, either way."""
        self._kind_cuts.add((name, kind))

    def heal(self, name: NodeName) -> None:
        """End every cut that has to do with this node."""
        self._cuts = {cut for cut in self._cuts if name not in cut}
        self._kind_cuts = {cut for cut in self._kind_cuts if cut[0] != name}

    def slow(self, name: NodeName, seconds: float) -> None:
        """Every message from and to the node takes so much longer; 0 ends it."""
        if seconds > 0:
            self._slow[name] = seconds
        else:
            self._slow.pop(name, None)

    def lose(self, probability: float) -> None:
        """Every message is lost with this probability, whoever sends it."""
        self._loss = probability

    def reorder(self, probability: float) -> None:
        """Every message is late with this probability, up to a hundred times the usual delay: others overtake it."""
        self._reorder = probability

    def hold(self, source: NodeName, target: NodeName, kind: str) -> Hold:
        """Keep back messages of one kind on one way from now on."""
        hold = Hold(source, target, kind, self)
        self.holds.append(hold)
        return hold
