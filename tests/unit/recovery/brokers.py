"""A small Kafka in memory behind ports Cluster and Election, and a clock that costs nothing.

It holds what the engine must cope with, not how Kafka works inside: a controller that elects the first unfenced replica
in assignment order even if its process is dead, brokers that are fenced only when their session ends, requests that are
never answered and take effect, or not, or later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from kafka_recovery.domain.election import (
    Answer,
    ElectionAnswer,
    ElectionRequest,
    Gone,
    Lead,
    Leadership,
    Relay,
    Scope,
    Sighting,
    Unseen,
)
from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    Evidence,
    MinInsyncReplicas,
    MissingPartition,
    PartitionEvidence,
    Replica,
    ReplicaLog,
)
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset, Offset, TopicId, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import ClusterFault, Reason

P = ParamSpec("P")
T = TypeVar("T")

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
SESSION = timedelta(seconds=9)
LATE = timedelta(seconds=50)
EPOCH = 5
APPLIED = MetadataOffset(100)
"""What every broker has applied."""


_HIDDEN = Reason("TopicAuthorizationFailed", "the principal lacks DESCRIBE")


class Crash(BaseException):
    """The process ends here, without another word to anybody."""


class Unavailable(ClusterFault):
    """No broker answers."""


class StaleMetadata(ClusterFault):
    """Only brokers answer whose metadata are older than what was seen before, or than was asked for."""


@dataclass
class Steps:
    """Every call over a port, in order; what a test lets happen before one or after it took effect."""

    calls: list[str] = field(default_factory=list)
    taken: int = 0
    crash_at: int | None = None
    dead: bool = False
    """The process has ended: nothing that still runs of it may have any effect."""
    _hooks: dict[str, list[tuple[int, Callable[[], object]]]] = field(default_factory=dict)

    def hook(self, point: str, nth: int, action: Callable[[], object]) -> None:
        self._hooks.setdefault(point, []).append((nth, action))

    def unhook(self) -> None:
        """Nothing more will happen."""
        self._hooks.clear()
        self.crash_at = None

    def take(self, point: str) -> None:
        self.taken += 1
        if self.dead or self.taken == self.crash_at:
            self.dead = True
            raise Crash(point)
        waiting = self._hooks.pop(point, [])
        self._hooks[point] = [(nth - 1, action) for nth, action in waiting if nth > 1]
        try:
            for _, action in (entry for entry in waiting if entry[0] == 1):
                action()
        except Crash:
            self.dead = True
            raise


class HasSteps(Protocol):
    steps: Steps


S = TypeVar("S", bound=HasSteps)


def port(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """A call over a port: a fault, or the end of the process, may come before it has any effect, and after."""

    @wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.steps.calls.append(method.__name__)
        self.steps.take(f"before {method.__name__}")
        result = await method(self, *args, **kwargs)
        self.steps.take(f"after {method.__name__}")
        return result

    return call


class FakeClock:
    """Port `Clock`: time passes only in `sleep`, and what is due happens then; other tasks go on first."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.sleeps: list[timedelta] = []
        self.wall = datetime(2026, 11, 21, 3, tzinfo=UTC)
        self._at = timedelta(hours=1)
        self._due: list[tuple[timedelta, Callable[[], object]]] = []

    def now(self) -> datetime:
        return self.wall + self._at

    def monotonic(self) -> timedelta:
        return self._at

    @port
    async def sleep(self, duration: timedelta) -> None:
        self.sleeps.append(duration)
        for _ in range(10):
            await asyncio.sleep(0)
        self.advance(duration)

    def advance(self, duration: timedelta) -> None:
        until = self._at + max(duration, timedelta())
        while due := [entry for entry in self._due if entry[0] <= until]:
            entry = min(due, key=lambda entry: entry[0])
            self._due.remove(entry)
            self._at = max(self._at, entry[0])
            entry[1]()
        self._at = until

    def later(self, after: timedelta, action: Callable[[], object]) -> None:
        self._due.append((self._at + after, action))


class Fate(Enum):
    """What becomes of one request that changes something."""

    ANSWERED = "done and answered"
    LOST = "not done, not answered"
    DONE = "done, but the answer is lost"
    LATE = "done 50 s later, never answered"


@dataclass
class Held:
    """A partition as the controller keeps it.

    `owned` is the assignment its owner wants; `ends` each replica's log end. `shown` is what brokers show until they
    have learned of the present assignment.
    """

    topic_id: TopicId
    assignment: tuple[int, ...]
    owned: tuple[int, ...]
    ends: dict[int, int]
    isr: tuple[int, ...]
    leader: int | None = None
    epoch: int = EPOCH
    elr: tuple[int, ...] | None = None
    min_isr: int | None = 1
    shown: tuple[int, ...] | None = None


@dataclass
class Node:
    """A broker. `busy`: it has not begun to lead what it was elected for. `advances`: whether its metadata are seen to.

    `fooled`: it does not know that it was fenced, and answers as leader. `mute`: it lives, but answers nobody.
    `disk_failed`: it lives, and says that the log directory with its replicas is offline.
    """

    alive: bool = True
    fenced: bool = False
    busy: bool = False
    advances: bool | None = True
    fooled: bool = False
    mute: bool = False
    disk_failed: bool = False

    @property
    def answers(self) -> bool:
        return self.alive and not self.mute


class FakeKafka:
    """The cluster, as its controller and its brokers see it, and what may happen to it."""

    def __init__(self, steps: Steps, clock: FakeClock) -> None:
        self.steps = steps
        self.clock = clock
        self.id = CLUSTER
        self.nodes = {broker: Node() for broker in (1, 2, 3, 4)}
        self.partitions: dict[TopicPartition, Held] = {}
        self.designate_fates: list[Fate] = []
        self.elect_fates: list[Fate] = []
        self.restore_fates: list[Fate] = []
        self.denied: dict[TopicPartition, Answer] = {}
        self.hidden: set[TopicPartition] = set()
        """What may not be described any more."""
        self.lag = timedelta()
        self.applied: MetadataOffset | None = APPLIED
        """How new the metadata are that can be seen; None: brokers do not say."""
        self.newest: MetadataOffset | None = None
        """What the process that looks has seen of it."""
        self.relay: Relay | None = None
        """Through whom requests go that change something, where that is to be known."""
        self.release = "4.1"
        """Before Kafka 4.0 brokers that are fenced are not listed."""
        self.designates = False
        """Whether an election names its leader, as KIP-1275 has it, and takes nobody else."""
        self.known: list[frozenset[TopicPartition]] = []
        """What whoever gathered knew of already, each time."""
        self.elected: list[tuple[TopicPartition, int]] = []
        self.requests: list[ElectionRequest] = []

    def kill(self, broker: int) -> None:
        """Its process dies; the controller learns of it when the session ends."""
        self.nodes[broker].alive = False
        self.clock.later(SESSION, lambda: None if self.nodes[broker].alive else self.fence(broker))

    def fence(self, broker: int) -> None:
        self.nodes[broker].fenced = True
        for held in self.partitions.values():
            if held.leader == broker:
                held.leader, held.epoch = None, held.epoch + 1

    def boot(self, broker: int) -> None:
        """It answers again, but the controller has not unfenced it yet."""
        self.nodes[broker].alive = True

    def start(self, broker: int, *, with_end: int | None = None) -> None:
        """It is back, perhaps with less than it had, and leads at once wherever it was in the ISR or ELR."""
        self.nodes[broker].alive, self.nodes[broker].fenced = True, False
        for held in self.partitions.values():
            if with_end is not None and broker in held.ends:
                held.ends[broker] = with_end
            if held.leader is None and broker in (*held.isr, *(held.elr or ())):
                _lead(held, broker)

    def elect_uncleanly(self, id: TopicPartition, broker: int) -> None:
        """Somebody else makes it the leader."""
        _lead(self.partitions[id], broker)

    def reassign(self, id: TopicPartition, assignment: tuple[int, ...]) -> None:
        """Somebody else changes the assignment."""
        held = self.partitions[id]
        held.assignment = held.owned = assignment

    def recreate(self, id: TopicPartition, replicas: tuple[int, ...] = (3,)) -> None:
        """Somebody deletes the topic and creates another one of that name."""
        ends = dict.fromkeys(replicas, 0)
        leader = replicas[0]
        self.partitions[id] = Held(TopicId(f"another-{id}"), replicas, replicas, ends, replicas, leader=leader, epoch=0)

    def cut_off(self, id: TopicPartition, leader: int, applied: MetadataOffset | None) -> None:
        """From now on only brokers answer that were cut off with a zombie: it led once, and still does for them."""
        held, node = self.partitions[id], self.nodes[leader]
        node.alive, node.fenced = True, False
        held.leader, held.epoch = leader, EPOCH - 1
        self.applied = applied

    @port
    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        self._stale(self.newest)
        self.known.append(frozenset(known or ()))
        wanted = scope.partitions
        if wanted is None:
            wanted = tuple(id for id, held in self.partitions.items() if held.leader is None)
        gone, hidden = Reason("PartitionGone", "no such partition"), _HIDDEN
        missing = {id: gone for id in wanted if id not in self.partitions} | dict.fromkeys(self.hidden, hidden)
        return Evidence(
            self._cluster_state(),
            tuple(self._evidence(id) for id in sorted(set(wanted)) if id not in missing),
            tuple(MissingPartition(id, missing[id]) for id in sorted(set(wanted) & missing.keys())),
        )

    @port
    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Mapping[TopicPartition, Sighting]:
        self._view()
        self._stale(not_before)
        self._stale(self.newest)
        return {id: self._sighting(id) for id in partitions}

    @port
    async def relay_answers(self, relay: Relay, deadline: timedelta) -> bool:
        """A process that is gone refuses the connection: only one that stands still gives no sign of life."""
        node = self.nodes[relay.broker or 0]
        return node.answers or not node.alive

    @port
    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        leading = {id: (broker, self.partitions[id]) for id, broker in candidates.items() if self.leads(id, broker)}
        fooled = {id: broker for id, broker in candidates.items() if self.nodes[broker].fooled}
        return {
            id: Lead(broker, LeaderEpoch(EPOCH), Offset(self.partitions[id].ends[broker]))
            for id, broker in fooled.items()
        } | {
            id: Lead(broker, LeaderEpoch(held.epoch), Offset(held.ends[broker]))
            for id, (broker, held) in leading.items()
        }

    @port
    async def designate(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        fate = self.designate_fates.pop(0) if self.designate_fates else Fate.ANSWERED
        return self._fated(fate, requests, self._designate)

    @port
    async def elect(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        self.requests.extend(requests)
        fate = self.elect_fates.pop(0) if self.elect_fates else Fate.ANSWERED
        return self._fated(fate, requests, self._elect)

    @port
    async def restore(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        fate = self.restore_fates.pop(0) if self.restore_fates else Fate.ANSWERED
        return self._fated(fate, requests, self._restore)

    def leads(self, id: TopicPartition, broker: int) -> bool:
        """Whether this broker answers as the partition's leader."""
        held, node = self.partitions.get(id), self.nodes[broker]
        return held is not None and held.leader == broker and node.answers and not node.busy

    def _fated(
        self, fate: Fate, requests: Sequence[ElectionRequest], do: Callable[[ElectionRequest], ElectionAnswer]
    ) -> dict[TopicPartition, ElectionAnswer]:
        if fate is Fate.ANSWERED:
            return {request.id: do(request) for request in requests}
        if fate is Fate.DONE:
            for request in requests:
                do(request)
        if fate is Fate.LATE:
            for request in requests:
                self.clock.later(LATE, partial(do, request))
        unanswered = ElectionAnswer(Answer.UNANSWERED, Reason("BrokerTimeout", "no answer within 20s"), self.relay)
        return {request.id: unanswered for request in requests}

    def _designate(self, request: ElectionRequest) -> ElectionAnswer:
        held = self.partitions.get(request.id)
        if held is None or sorted(held.assignment) != sorted(request.order):
            return ElectionAnswer(Answer.CHANGED, Reason("InvalidReplicaAssignment", "another replica set"))
        self._assign(held, request.order)
        return ElectionAnswer(Answer.ACCEPTED)

    def _assign(self, held: Held, order: tuple[int, ...]) -> None:
        if self.lag:
            held.shown = held.assignment
            self.clock.later(self.lag, partial(setattr, held, "shown", None))
        held.assignment = order

    def _elect(self, request: ElectionRequest) -> ElectionAnswer:
        held = self.partitions.get(request.id)
        if held is None:
            return ElectionAnswer(Answer.CHANGED, Reason("UnknownTopicOrPartition", "it is gone"))
        if request.id in self.denied:
            return ElectionAnswer(self.denied[request.id], Reason("Denied", "the controller said no"), self.relay)
        if held.leader is not None:
            return ElectionAnswer(Answer.NOT_NEEDED, Reason("ElectionNotNeeded", "it has a leader"))
        wanted = (request.designated,) if self.designates else held.assignment
        acceptable = [broker for broker in wanted if not self.nodes[broker].fenced]
        if not acceptable:
            return ElectionAnswer(Answer.CHANGED, Reason("EligibleLeadersNotAvailable", "none acceptable"))
        _lead(held, acceptable[0])
        self.elected.append((request.id, acceptable[0]))
        return ElectionAnswer(Answer.ACCEPTED)

    def _restore(self, request: ElectionRequest) -> ElectionAnswer:
        if request.id in self.hidden and request.order != request.assignment:
            return ElectionAnswer(Answer.CHANGED, _HIDDEN)
        held = self.partitions.get(request.id)
        if held is not None and (held.topic_id, held.shown or held.assignment) == (
            request.topic_id,
            request.order,
        ):
            self._assign(held, request.assignment)
        return ElectionAnswer(Answer.ACCEPTED)

    def _view(self) -> BrokerId:
        view = next((broker for broker, node in self.nodes.items() if node.answers and not node.fenced), None)
        if view is None:
            raise Unavailable
        return BrokerId(view)

    def _stale(self, floor: MetadataOffset | None) -> None:
        if self.applied is not None and floor is not None and self.applied < floor:
            raise StaleMetadata
        self.newest = self.applied

    def _cluster_state(self) -> ClusterState:
        brokers = tuple(
            Broker(
                BrokerId(broker), f"b{broker}", 9092, None, True, node.fenced, None, node.answers, 100, node.advances
            )
            for broker, node in self.nodes.items()
            if not (node.fenced and self.release.startswith("3."))
        )
        took = timedelta(milliseconds=80)
        return ClusterState(
            self.id,
            self.release,
            (),
            True,
            self._view(),
            brokers,
            self.clock.now(),
            took,
            self.designates,
            self.applied,
        )

    def _evidence(self, id: TopicPartition) -> PartitionEvidence:
        held = self.partitions[id]
        return PartitionEvidence(
            id,
            held.topic_id,
            False,
            None if held.leader is None else BrokerId(held.leader),
            LeaderEpoch(held.epoch),
            tuple(map(BrokerId, held.isr)),
            tuple(map(BrokerId, held.elr or ())),
            (),
            tuple(self._replica(held, broker) for broker in held.shown or held.assignment),
            min_isr=None if held.min_isr is None else MinInsyncReplicas(held.min_isr, "topic"),
        )

    def _replica(self, held: Held, broker: int) -> Replica:
        node = self.nodes[broker]
        if held.leader is not None or not node.answers:
            return Replica(BrokerId(broker), None, Reason("BrokerTimeout", f"broker {broker} did not answer"))
        if node.disk_failed:
            return Replica(
                BrokerId(broker), None, Reason("LogDirOffline", f"broker {broker}'s log directory is offline")
            )
        end, epochs = Offset(held.ends[broker]), (EpochEntry(LeaderEpoch(EPOCH), Offset(0)),)
        log = ReplicaLog(
            Offset(0), end, epochs, None, LeaderEpoch(held.epoch), self.clock.now(), timedelta(milliseconds=10)
        )
        return Replica(BrokerId(broker), log, leads=node.fooled)

    def _sighting(self, id: TopicPartition) -> Sighting:
        if id in self.hidden:
            return Unseen(id, _HIDDEN)
        if id not in self.partitions:
            return Gone(id, Reason("UnknownTopicOrPartition", "no such partition"))
        held = self.partitions[id]
        leader = None if held.leader is None else BrokerId(held.leader)
        answers = leader is not None and self.leads(id, leader)
        return Leadership(
            id,
            held.topic_id,
            leader,
            LeaderEpoch(held.epoch),
            tuple(map(BrokerId, held.shown or held.assignment)),
            tuple(map(BrokerId, held.isr)),
            Offset(held.ends[leader]) if leader is not None and answers else None,
            as_of=self.applied,
        )


def _lead(held: Held, broker: int) -> None:
    """A broker that shows this shows all that came before it in the metadata log."""
    held.shown = None
    held.leader, held.epoch, held.isr, held.elr = broker, held.epoch + 1, (broker,), None
