"""What engines saw, wrote, asked and said, and what that did to the cluster: all an oracle needs to judge a history.

Engines are heard at their ports, the cluster at its timeline. What only the truth knows at one moment (which records an
elected replica lacks) is noted at that moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest_of_canonical, read
from kafka_recovery.simulator.histories.facts import (
    CREATION,
    Answered,
    Asked,
    Claimed,
    Concluded,
    Configured,
    Copy,
    Delayed,
    Filled,
    Granted,
    Held,
    Kept,
    Led,
    Looked,
    Misreported,
    Ordered,
    Paused,
    Ran,
    Shown,
    Step,
    Unshown,
    Waited,
    Wished,
    Witnessed,
)
from kafka_recovery.simulator.histories.metadata_log import ReadLog
from kafka_recovery.simulator.host.disks import Disk
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.log import RecordId
from kafka_recovery.simulator.model.metadata import PartitionState
from kafka_recovery.simulator.model.timeline import Event, What

_STEPS = {"plan.json": "planned", "started.json": "begun", "ended.json": "ended"}
"""What an engine has done when such a file is durable."""


@dataclass(slots=True)
class Chronicle:
    """Everything in the order in which it happened."""

    kafka: SimulatedKafka
    disks: dict[str, Disk] = field(default_factory=dict)
    looked: list[Looked] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    unshown: list[Unshown] = field(default_factory=list)
    claimed: list[Claimed] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    granted: list[Granted] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    wished: list[Wished] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    ordered: list[Ordered] = field(default_factory=list)
    led: list[Led] = field(default_factory=list)
    concluded: list[Concluded] = field(default_factory=list)
    waited: list[Waited] = field(default_factory=list)
    delayed: list[Delayed] = field(default_factory=list)
    paused: list[Paused] = field(default_factory=list)
    configured: list[Configured] = field(default_factory=list)
    misreported: list[Misreported] = field(default_factory=list)
    filled: list[Filled] = field(default_factory=list)
    witnessed: dict[TopicPartition, Witnessed] = field(default_factory=dict)
    """The last of each partition that no later leader contradicts."""
    committed: dict[tuple[TopicPartition, TopicId], int] = field(default_factory=dict)
    """How far anybody who led was ever seen to have committed."""
    ran: list[Ran] = field(default_factory=list)
    struck: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """When the wire's weather has done what to an answer."""
    when_step: list[Callable[[Step], object]] = field(default_factory=list)
    """Called when an engine takes a step."""
    metadata_log: ReadLog = field(init=False)
    _plans: dict[str, Plan] = field(default_factory=dict)
    _lost: dict[tuple[TopicPartition, TopicId], set[RecordId]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metadata_log = ReadLog(self.kafka)

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

    def topic_id(self, id: TopicPartition) -> TopicId | None:
        """Which topic has the name now, by the controller itself; None: none."""
        state = self.kafka.truth.state(id)
        return None if state is None else state.topic_id

    def in_reach_of(self, process: str) -> Iterator[BrokerId]:
        """The brokers that a process can ask."""
        network = self.kafka.network
        network.node(process)
        for id, broker in self.kafka.brokers.items():
            awake = broker.is_open and broker.node.running and not broker.node.paused
            if awake and network.joined(process, id):
                yield id

    def lost_later(self, election: Held) -> tuple[RecordId, ...]:
        """Records that a leader whom this election overthrew acknowledged after it, and that the new one never held.

        It did not know; whoever sent them (acks=all) was told that they are safe.
        """
        before = [h.epoch for h in self.held if (h.id, h.topic_id) == (election.id, election.topic_id)]
        since = max((epoch for epoch in before if epoch < election.epoch), default=-1)
        return tuple(
            record
            for sent in self.kafka.truth.sent(election.id)
            if sent.acks == "all" and sent.topic_id == election.topic_id
            if sent.acknowledged_at is not None and sent.acknowledged_at > election.at
            if since <= sent.leader_epoch < election.epoch
            for record in sent.ids
            if record not in election.held
        )

    def plan(self, digest: str) -> Plan:
        """A plan that some journal holds; raises KeyError if none does."""
        return self._plans[digest]

    def known(self, digest: str, plan: Plan) -> None:
        """A plan that no machine of this history holds."""
        self._plans[digest] = plan

    def plans(self) -> Iterator[tuple[Kept, Plan]]:
        """Every plan that became durable, and when."""
        for kept in self.kept:
            if kept.name == "plan.json":
                yield kept, self.plan(kept.digest)

    def requests(self, what: str) -> Iterator[Asked]:
        """The changes of one kind that engines asked for."""
        return (asked for asked in self.asked if asked.what == what)

    def decision(self, asked: Asked, request: ElectionRequest) -> tuple[str, Decision] | None:
        """Digest and decision that a request stands on: of the plan of whose waves the partition was in the newest.

        None: no begun plan of the machine allows it. Another plan that wants exactly the same is no excuse.
        """
        mine = [kept for kept in self.kept if kept.machine == asked.machine and kept.at <= asked.at]
        newest = next((kept for kept in reversed(mine) if request.id in kept.wave), None)
        if newest is None or not any((kept.name, kept.digest) == ("begun.json", newest.digest) for kept in mine):
            return None
        decision = next((d for d in self.plan(newest.digest).decisions if d.id == request.id), None)
        return None if decision is None or _wanted(decision) != request else (newest.digest, decision)

    def wishes(self, since: float, until: float) -> tuple[Wished, ...]:
        """What the owners wanted at any moment of this time, oldest first."""
        ends = [wish.at for wish in self.wished[1:]] + [float("inf")]
        return tuple(wish for wish, end in zip(self.wished, ends, strict=True) if wish.at <= until and end >= since)

    def awake_before(self, process: str, at: float, seconds: float) -> float:
        """The moment since when, up to `at`, this process has been running for so many seconds."""
        since = at - seconds
        for paused in sorted((p for p in self.paused if p.process == process), key=lambda p: p.until, reverse=True):
            if paused.at < at and paused.until > since:
                since -= min(paused.until, at) - paused.at
        return since

    def has_struck(self, fault: str, since: float, until: float) -> bool:
        """Whether the wire's weather did this to any answer in this time."""
        return any(since <= at <= until for at in self.struck.get(fault, ()))

    def states(self, id: TopicPartition, since: float, until: float) -> tuple[PartitionState, ...]:
        """The partition's states by the controller itself that were in force at any moment of this time.

        None of a partition that never was: a garbled answer may have told an engine of it.
        """
        log = self.kafka.controllers.log
        found = log.partitions.all_of(id)
        times = [log.time(offset) for offset, _ in found]
        ends = [*times, float("inf")][1:]
        return tuple(
            state
            for (_, state), began, end in zip(found, times, ends, strict=True)
            if state is not None and began <= until and end >= since
        )

    def looks(self, asked: Asked, id: TopicPartition) -> Iterator[Looked]:
        """The evidence about a partition that the process had when it asked, the newest first."""
        for looked in reversed(self.looked):
            if looked.process == asked.process and looked.at <= asked.at and looked.partition(id) is not None:
                yield looked

    def last_look(self, asked: Asked, id: TopicPartition) -> Looked | None:
        """The newest of them."""
        return next(self.looks(asked, id), None)

    def copies(self, evidence: Evidence) -> Iterator[tuple[tuple[TopicPartition, BrokerId], Copy]]:
        """The true logs of the replicas that were measured."""
        for partition in evidence.partitions:
            for replica in partition.replicas:
                log = self.kafka.brokers[replica.broker].storage.peek(partition.id) if replica.log else None
                if log is not None:
                    yield (partition.id, replica.broker), Copy(log.start, log.end, tuple(log.batches), log.local_start)

    def step(
        self,
        what: str,
        machine: str,
        partition: TopicPartition | None = None,
        designated: BrokerId | None = None,
    ) -> None:
        """An engine of this machine takes a step."""
        place = machine.rpartition("-")[2]
        for listener in self.when_step:
            listener(Step(what, int(place) if place.isdigit() else 0, partition, designated))

    def _first_of(self, digest: str, wave: frozenset[TopicPartition]) -> tuple[TopicPartition | None, BrokerId | None]:
        """The first partition of a wave, or of a plan, and whom the plan is to make its leader."""
        elected = [d for d in self.plan(digest).decisions if d.leader is not None and (not wave or d.id in wave)]
        return (elected[0].id, elected[0].leader) if elected else (None, None)

    def _hear(self, event: Event) -> None:
        id, details = event.partition, event.details
        if event.what is What.TOPIC and "created" in details:
            self._created(event.at, details["created"])
        if event.what is What.TOPIC and ("created" in details or "configured" in details):
            topic = str(details.get("created", details.get("configured")))
            self.configured.append(Configured(event.at, topic, self.kafka.controllers.state.topics[topic].min_isr))
        if id is None:
            return
        if event.what is What.LEADS:
            self.led.append(Led(event.at, id, event.actor, details["leader_epoch"]))
        topic_id = self.topic_id(id)
        if topic_id is None:
            return
        if event.what is What.ELECTED and details["leader"] is not None:
            self._elected(event, id, topic_id)
        elif event.what is What.ORDER:
            before, after = tuple(details["before"]), tuple(details["after"])
            self.ordered.append(Ordered(event.at, id, topic_id, before, after, str(details["by"])))
        elif event.what is What.REASSIGNMENT:
            after = tuple(broker for broker in details["replicas"] if broker not in details["removing"])
            self.ordered.append(Ordered(event.at, id, topic_id, (), after, str(details["by"]), reassigned=True))

    def _created(self, at: float, topic: str) -> None:
        for id, state in self.kafka.controllers.state.partitions.items():
            if id.topic == topic:
                after = tuple(state.replicas)
                self.ordered.append(Ordered(at, id, state.topic_id, (), after, CREATION, reassigned=True))

    def _elected(self, event: Event, id: TopicPartition, topic_id: TopicId) -> None:
        leader, truth = event.details["leader"], self.kafka.truth
        known = self._lost.setdefault((id, topic_id), set())
        lost = tuple(record for record in truth.missing(leader, id) if record not in known)
        known.update(lost)
        epoch, by = event.details["leader_epoch"], str(event.details["by"])
        self.held.append(Held(event.at, id, topic_id, leader, epoch, by, lost, truth.records(leader, id)))

    def _hear_disk(self, disk: Disk, directory: str, name: str) -> None:
        process = disk.holder.name if disk.holder else "nobody"
        files = disk.directories[directory]
        plan = files["plan.json"].raw
        digest = digest_of_canonical(plan)
        if digest not in self._plans:
            self._plans[digest] = read(Plan, plan, "plan.json")
        begun = json.loads(files[name].raw)["partitions"] if name.endswith("-started.json") else ()
        wave = frozenset(map(TopicPartition.parse, begun))
        ended = json.loads(files[name].raw)["outcomes"] if name.endswith("-ended.json") else ()
        outcomes = read(tuple[PartitionOutcome, ...], json.dumps(ended).encode(), name)
        self.kept.append(Kept(self.now, process, disk.name, digest, name, wave, outcomes))
        if step := _STEPS.get(name.rpartition("-")[2]):
            self.step(step, disk.name, *self._first_of(digest, wave))


def _wanted(decision: Decision) -> ElectionRequest | None:
    """The election that a decision wants, if it wants one."""
    if decision.leader is None:
        return None
    return ElectionRequest(
        decision.id, decision.topic_id, decision.leader_epoch, decision.leader, decision.order, decision.assignment
    )


@dataclass(frozen=True, slots=True)
class Ears:
    """What one engine's process is heard with: port `Observer`, and what adapters tell."""

    chronicle: Chronicle
    process: str
    machine: str

    def looked(self, evidence: Evidence) -> None:
        """Evidence was gathered."""
        copies = dict(self.chronicle.copies(evidence))
        self.chronicle.looked.append(Looked(self.chronicle.now, self.process, evidence, copies))
        self.chronicle.step("looked", self.machine)

    def asked(self, what: str, requests: Sequence[ElectionRequest]) -> None:
        """A change is about to be sent."""
        if not requests:
            return
        told = ", ".join(f"{b.id} {list(b.assignment if what == 'restore' else b.order)}" for b in requests)
        self.chronicle.kafka.note(self.process, f"asks to {what}: {told}")
        asked = Asked(self.chronicle.now, self.process, self.machine, what, tuple(requests))
        self.chronicle.asked.append(asked)
        self.chronicle.step(what, self.machine, requests[0].id, requests[0].designated)

    def decided(self, plan: Plan, took: timedelta) -> None:
        """Nothing: what will be done is told when it is durable."""

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
        left = {True: "", False: "; its order is still altered", None: "; its order may be altered"}[
            outcome.order_restored
        ]
        why = f": {outcome.reason}" if outcome.reason else ""
        chronicle.kafka.note(self.process, f"says {outcome.id} is {outcome.outcome.value}{lead}{left}{why}")
        chronicle.concluded.append(
            Concluded(
                chronicle.now,
                self.process,
                self.machine,
                outcome,
                chronicle.topic_id(outcome.id),
                chronicle.assignment(outcome.id),
                frozenset(chronicle.in_reach_of(self.process)),
            )
        )
        chronicle.step("said", self.machine)

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """The engine waits."""
        self.chronicle.delayed.append(Delayed(self.chronicle.now, self.process, why.code))
        if why.code == "InDoubt":
            now = self.chronicle.now
            self.chronicle.waited.append(Waited(now, self.process, now + duration.total_seconds()))
        self.chronicle.kafka.note(self.process, f"waits {duration.total_seconds():g} s: {why}")
        self.chronicle.step("waits", self.machine)
