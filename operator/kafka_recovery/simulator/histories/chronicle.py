"""What engines saw, wrote, asked and said, and what that did to the cluster: all an oracle needs to judge a history.

Engines are heard at their ports, the cluster at its timeline. What only the truth knows at one moment (which records an
elected replica lacks) is noted at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from kafka_recovery.domain.documents import read
from kafka_recovery.domain.election import Ballot
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome, Report
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ballots import ballot_of, elections
from kafka_recovery.simulator.host.memory_journal import Disk
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.timeline import Event, What

ENGINE = "engine"
"""Every engine's process has a name that begins so."""


@dataclass(frozen=True, slots=True)
class Looked:
    """An engine has gathered evidence."""

    at: float
    process: str
    evidence: Evidence

    def partition(self, id: TopicPartition) -> PartitionEvidence | None:
        """What it saw of one partition."""
        return next((partition for partition in self.evidence.partitions if partition.id == id), None)


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of a machine's journal has become durable."""

    at: float
    process: str
    machine: str
    digest: str
    name: str


@dataclass(frozen=True, slots=True)
class Granted:
    """Somebody was asked for approval and said yes (`by`) or no (None)."""

    at: float
    process: str
    digest: str
    by: str | None


@dataclass(frozen=True, slots=True)
class Asked:
    """An engine is about to send a change: "designate", "elect" or "restore"; or waits for a yes: "approve"."""

    at: float
    process: str
    machine: str
    what: str
    ballots: tuple[Ballot, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """The controller made somebody leader. `lost`: acknowledged records its log lacks that no leader lacked before."""

    at: float
    id: TopicPartition
    leader: BrokerId
    epoch: LeaderEpoch
    by: str
    lost: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """The controller has another assignment of a partition. `reassigned`: with other replicas, so `before` is empty."""

    at: float
    id: TopicPartition
    before: tuple[BrokerId, ...]
    after: tuple[BrokerId, ...]
    by: str
    reassigned: bool = False


@dataclass(frozen=True, slots=True)
class Led:
    """A broker took over as leader."""

    at: float
    id: TopicPartition
    broker: str
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class Concluded:
    """An engine gave a partition its outcome. `assignment`: the controller's at that moment."""

    at: float
    process: str
    machine: str
    outcome: PartitionOutcome
    assignment: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of an engine is over. `report` None: it was killed, or ended with `error`. `scope` None: all offline."""

    began: float
    ended: float
    process: str
    command: str
    scope: tuple[TopicPartition, ...] | None
    report: Report | None
    error: BaseException | None = None
    hangs: bool = False


@dataclass(slots=True)
class Chronicle:
    """Everything in the order in which it happened."""

    kafka: SimulatedKafka
    disks: dict[str, Disk] = field(default_factory=dict)
    looked: list[Looked] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    granted: list[Granted] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    ordered: list[Ordered] = field(default_factory=list)
    led: list[Led] = field(default_factory=list)
    concluded: list[Concluded] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)
    when_asked: list[Callable[[Asked], object]] = field(default_factory=list)
    """Called when an engine is about to send a change."""
    _plans: dict[str, Plan] = field(default_factory=dict)
    _lost: dict[TopicPartition, set[object]] = field(default_factory=dict)

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self.kafka.scheduler.now

    def listen(self) -> None:
        """Hear of every event in the cluster from now on."""
        self.kafka.timeline.subscribe(self._hear)

    def disk(self, name: str) -> Disk:
        """The journal of a machine; made when first asked for."""
        if name not in self.disks:
            self.disks[name] = Disk(name, listeners=[self._hear_disk])
        return self.disks[name]

    def assignment(self, id: TopicPartition) -> tuple[BrokerId, ...]:
        """The replicas of a partition by the controller itself; none if it does not exist."""
        state = self.kafka.truth.state(id)
        return () if state is None else tuple(state.replicas)

    def lost_since(self, id: TopicPartition) -> int:
        """Acknowledged records that the present leader lacks and no election is charged with.

        A leader that was overthrown without knowing it went on acknowledging them.
        """
        state = self.kafka.truth.state(id)
        if state is None or state.leader is None:
            return 0
        return len(set(self.kafka.truth.missing(state.leader, id)) - self._lost.get(id, set()))

    def plan(self, digest: str) -> Plan:
        """A plan that some journal holds; raises KeyError if none does."""
        if digest not in self._plans:
            raw = next(disk.runs[digest]["plan.json"] for disk in self.disks.values() if digest in disk.runs)
            self._plans[digest] = read(Plan, raw, "plan.json")
        return self._plans[digest]

    def plans(self) -> Iterator[tuple[Kept, Plan]]:
        """Every plan that became durable, and when."""
        for kept in self.kept:
            if kept.name == "plan.json":
                yield kept, self.plan(kept.digest)

    def requests(self, what: str) -> Iterator[Asked]:
        """The changes of one kind that engines asked for."""
        return (asked for asked in self.asked if asked.what == what)

    def decisions(self, asked: Asked, ballot: Ballot) -> list[tuple[str, Decision]]:
        """Digest and decision of the machine's begun plans that a ballot may stand for, newest first."""
        begun = [k for k in self.kept if k.name == "begun.json" and k.machine == asked.machine and k.at <= asked.at]
        found = []
        for kept in reversed(begun):
            decision = elections(self.plan(kept.digest)).get(ballot.id)
            if decision is not None and ballot_of(decision) == ballot:
                found.append((kept.digest, decision))
        return found

    def last_look(self, asked: Asked, id: TopicPartition) -> Looked | None:
        """The newest evidence about a partition that the process had when it asked."""
        for looked in reversed(self.looked):
            if looked.process == asked.process and looked.at <= asked.at and looked.partition(id) is not None:
                return looked
        return None

    def _hear(self, event: Event) -> None:
        id, details = event.partition, event.details
        if id is None:
            if event.what is What.TOPIC and "deleted" in details:
                self._forget(details["deleted"])
            return
        if event.what is What.ELECTED and details["leader"] is not None:
            before = self._lost.setdefault(id, set())
            missing = [record for record in self.kafka.truth.missing(details["leader"], id) if record not in before]
            before.update(missing)
            self.held.append(
                Held(event.at, id, details["leader"], details["leader_epoch"], str(details["by"]), tuple(missing))
            )
        elif event.what is What.ORDER:
            self.ordered.append(
                Ordered(event.at, id, tuple(details["before"]), tuple(details["after"]), str(details["by"]))
            )
        elif event.what is What.REASSIGNMENT:
            after = tuple(broker for broker in details["replicas"] if broker not in details["removing"])
            self.ordered.append(Ordered(event.at, id, (), after, str(details["by"]), reassigned=True))
        elif event.what is What.LEADS:
            self.led.append(Led(event.at, id, event.actor, details["leader_epoch"]))

    def _forget(self, topic: str) -> None:
        """A topic is deleted: what will have its name is another one."""
        self.ordered = [change for change in self.ordered if change.id.topic != topic]
        self._lost = {id: lost for id, lost in self._lost.items() if id.topic != topic}

    def _hear_disk(self, disk: Disk, digest: str, name: str) -> None:
        process = disk.holder.name if disk.holder else "nobody"
        self.kept.append(Kept(self.now, process, disk.name, digest, name))


@dataclass(frozen=True, slots=True)
class Ears:
    """What one engine's process is heard with: port `Observer`, and what adapters tell."""

    chronicle: Chronicle
    process: str
    machine: str

    def looked(self, evidence: Evidence) -> None:
        """Evidence was gathered."""
        self.chronicle.looked.append(Looked(self.chronicle.now, self.process, evidence))

    def asked(self, what: str, ballots: Sequence[Ballot]) -> None:
        """A change is about to be sent."""
        if not ballots:
            return
        told = ", ".join(f"{b.id} {list(b.assignment if what == 'restore' else b.order)}" for b in ballots)
        self.chronicle.kafka.note(self.process, f"asks to {what}: {told}")
        asked = Asked(self.chronicle.now, self.process, self.machine, what, tuple(ballots))
        self.chronicle.asked.append(asked)
        for listener in self.chronicle.when_asked:
            listener(asked)

    def planned(self, plan: Plan, digest: str) -> None:
        """A plan was made and is durable."""
        told = ", ".join(
            f"{d.id} {d.verdict.value}" + (f" {d.leader}, {d.loss.loss_class if d.loss else ''}" if d.leader else "")
            for d in plan.decisions
        )
        self.chronicle.kafka.note(self.process, f"has plan {digest[:8]}: {told}")

    def wave_started(self, wave: int, waves: int, partitions: int) -> None:
        """A wave is about to be re-checked and elected."""
        self.chronicle.kafka.note(self.process, f"begins wave {wave} of {waves} with {partitions} partitions")

    def concluded(self, outcome: PartitionOutcome) -> None:
        """One partition has an outcome."""
        chronicle = self.chronicle
        lead = f" (leader {outcome.leader}, epoch {outcome.leader_epoch})" if outcome.leader is not None else ""
        left = "" if outcome.order_restored else "; its order is still altered"
        why = f": {outcome.reason}" if outcome.reason else ""
        chronicle.kafka.note(self.process, f"says {outcome.id} is {outcome.outcome.value}{lead}{left}{why}")
        assignment = chronicle.assignment(outcome.id)
        chronicle.concluded.append(Concluded(chronicle.now, self.process, self.machine, outcome, assignment))

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """The engine waits."""
        self.chronicle.kafka.note(self.process, f"waits {duration.total_seconds():g} s: {why}")
