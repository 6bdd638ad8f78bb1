"""A scenario as data: the cluster, its traffic, the policy, who runs the engine when, and what goes wrong.

Together with its seed it is all that a history depends on. It is written and read as YAML (or JSON, which is YAML), so
that a person can read what happened, change it and try again. All times are seconds of virtual time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import (
    Approval,
    CandidateOrder,
    EvidenceRules,
    Limits,
    Policy,
    RequiredAnswers,
    Rule,
)
from kafka_recovery.simulator.host.weather import WireFault
from kafka_recovery.simulator.model.grants import Operation
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import AS_RELEASED, Switches

USUAL = Settings()
"""Times and sizes of a cluster of which nothing else is said."""

VERSION = 1
"""What a scenario means: raised whenever the same one would give another history. Seeds have one of their own."""

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


class Kind(StrEnum):
    """What can go wrong, or get well again."""

    KILL = "kill"
    """A broker's process dies; its host keeps the page cache."""
    START = "start"
    STOP = "stop"
    """A controlled shutdown."""
    CRASH = "crash"
    """A broker's host dies, and what was not flushed with it."""
    REPLACE_DISK = "replace-disk"
    """A broker comes back with an empty disk and the same id."""
    FREEZE = "freeze"
    THAW = "thaw"
    SLOW = "slow"
    """All that a broker sends takes `delay` seconds longer."""
    LAG = "lag"
    """A broker applies what the controllers write `delay` seconds late (a busy metadata thread)."""
    CUT = "cut"
    """What `broker` sends to `other` is lost; the other direction is not."""
    ISOLATE = "isolate"
    """A broker and the controller don't hear each other."""
    HIDE = "hide"
    """The engines can't reach a broker, though the others can."""
    LOSE = "lose"
    """Every message is lost with the probability `chance`, whoever sends it."""
    REORDER = "reorder"
    """Every message is late with the probability `chance`, so that others overtake it."""
    HEAL = "heal"
    """Every network fault is over."""
    FAILOVER = "failover"
    """Another controller takes over."""
    NO_CONTROLLER = "no-controller"
    """Every controller is frozen; brokers go on forwarding what they are asked."""
    REBALANCE = "rebalance"
    """The controller moves leaderships to preferred leaders that are in sync."""
    REASSIGN = "reassign"
    """Somebody else gives a partition other replicas, or the same in another order."""
    RECREATE = "recreate"
    """Somebody deletes a topic and creates another one of that name."""
    LOG_DIR = "log-dir"
    """A broker's log directory goes offline."""
    FULL_VOLUME = "full-volume"
    """A broker's volume has no room for another write."""
    CLEANED_DISK = "cleaned-disk"
    """A partition's topic is tiered from now on, and a broker's own disk keeps the last `count` records only."""
    JUMP = "jump"
    """The wall clock of a machine that runs engines jumps by `delay` seconds."""
    KILL_ENGINE = "kill-engine"
    """The engine that runs on a machine is killed wherever it is."""
    DISK_FULL = "disk-full"
    """A machine can't write its journal for a while."""
    PAUSE_ENGINE = "pause-engine"
    """The engine that runs on a machine is stopped where it is, and goes on after `lasting` seconds (SIGSTOP, CONT)."""
    SUSPEND = "suspend"
    """The owners suspend every run."""
    AUTHORITY = "authority"
    """The owners let engines do what `authority` says, and no more."""
    RULES = "rules"
    """The owners have other `rules` from now on."""
    MIN_ISR = "min-isr"
    """Somebody sets min.insync.replicas of a partition's topic to `count`."""
    UNCLEAN = "unclean"
    """Somebody sets unclean.leader.election.enable for a partition's topic."""
    DELETE_RECORDS = "delete-records"
    """A partition's leader deletes all but its last `count` records."""
    ELECT = "elect"
    """Another admin holds an unclean election of a partition."""
    PREFER = "prefer"
    """Another admin holds an election of a partition's preferred leader."""
    CANCEL = "cancel"
    """Another admin cancels a partition's reassignment."""
    MUTE = "mute"
    """The controllers hear nothing from a broker; it hears them."""
    DEAF = "deaf"
    """A broker hears nothing from the controllers; they hear it."""
    KILL_CONTROLLER = "kill-controller"
    """The active controller's process dies, and is back after `lasting` seconds."""
    WIRE = "wire"
    """Of each answer to an engine becomes what `wire` says, with the probability `chance`."""
    STALL = "stall"
    """What engines send to a broker stands still on its way, and arrives when this is over."""
    NAMELESS = "nameless"
    """The address that brokers tell of `broker` does not resolve."""
    SHARED = "shared"
    """The address that brokers tell of `broker` is that of `other`."""
    RIGHTS = "rights"
    """Engines lose the right `right`; where it is one on a topic, on that of `partition`."""
    MISREPORT = "misreport"
    """When `broker` is asked where a log ends (ListOffsets, GetReplicaLogInfo), it is wrong by `delay` records."""


OF_PARTITIONS = frozenset(
    {
        Kind.REASSIGN, Kind.CANCEL, Kind.RECREATE, Kind.MIN_ISR, Kind.UNCLEAN, Kind.DELETE_RECORDS, Kind.ELECT,
        Kind.PREFER, Kind.CLEANED_DISK,
    }
)  # fmt: skip
"""What strikes a partition or its topic."""

OF_MACHINES = frozenset({Kind.JUMP, Kind.KILL_ENGINE, Kind.DISK_FULL, Kind.PAUSE_ENGINE})
"""What strikes a machine that runs engines."""

OF_ENGINES = OF_MACHINES | {Kind.SUSPEND, Kind.AUTHORITY, Kind.RULES}
"""What strikes engines, their machines and their owners, and nobody else."""

OF_WIRES = frozenset({Kind.WIRE, Kind.STALL, Kind.NAMELESS, Kind.SHARED, Kind.RIGHTS, Kind.MISREPORT})
"""What strikes the ways between engines and brokers, or what these tell those."""


class Upon(StrEnum):
    """A step of an engine: a request that is about to be sent, or what it has just done."""

    APPROVE = "approve"
    DESIGNATE = "designate"
    ELECT = "elect"
    RESTORE = "restore"
    LOOKED = "looked"
    """It has gathered evidence."""
    PLANNED = "planned"
    """A plan of it is durable."""
    BEGUN = "begun"
    """That a wave begins is durable."""
    ENDED = "ended"
    """That a wave has ended is durable."""
    SAID = "said"
    """It has given a partition its outcome."""
    WAITS = "waits"
    """It waits for something."""


REQUESTS = frozenset({Upon.APPROVE, Upon.DESIGNATE, Upon.ELECT, Upon.RESTORE})
"""Steps that name a broker which is to lead."""


class Authority(StrEnum):
    """How far owners let an engine go."""

    OBSERVE = "Observe"
    APPROVE = "Approve"
    AUTOMATIC = "Automatic"


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy, flat: one rule for all topics."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    candidate_order: CandidateOrder = CandidateOrder.LEAST_LOSS
    approval: Approval = Approval.AUTO
    required_answers: RequiredAnswers = RequiredAnswers.ALL
    patience: float = 30.0
    deadline: float = 5.0
    attempts: int = 3
    max_age: float = 60.0
    min_replication_factor: int = 1
    partitions: int = 5000
    brokers_down_percent: int = 100
    wave_sizes: tuple[int, ...] = (1, 50)

    @property
    def policy(self) -> Policy:
        """As the engine takes it."""
        evidence = EvidenceRules(
            timedelta(seconds=self.deadline), self.attempts, self.required_answers, timedelta(seconds=self.max_age)
        )
        rule = Rule(
            "all",
            min_replication_factor=self.min_replication_factor,
            candidate_order=self.candidate_order,
            approval=self.approval,
            evidence=evidence,
            patience=timedelta(seconds=self.patience),
        )
        return Policy((rule,), Limits(self.partitions, self.brokers_down_percent, self.wave_sizes))


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that happens at a moment. `leader_of` names a broker by what it leads then, instead of `broker`.

    `upon`: not before an engine takes such a step for the `turn`-th time since `at`, and `later` seconds after that;
    `designated` then names the broker that this request is to make leader, and no `machine` is the engine's own.
    `lasting`: when it is over by itself; None: it stays until something else ends it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    at: float
    kind: Kind
    broker: int | None = None
    other: int | None = None
    leader_of: str | None = None
    designated: bool = False
    upon: Upon | None = None
    turn: int = 1
    later: float = 0.0
    partition: str | None = None
    replicas: tuple[int, ...] = ()
    machine: int | None = None
    delay: float = 0.0
    chance: float = 0.0
    count: int = 0
    authority: Authority | None = None
    rules: Rules | None = None
    wire: WireFault | None = None
    right: Operation | None = None
    lasting: float | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; `assignments` holds the replicas of each partition, the preferred leader first."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    assignments: tuple[tuple[int, ...], ...]
    min_isr: int = 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """A producer that sends a batch of `records` to a partition every `every` seconds."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    partition: str
    acks_all: bool
    first: float
    last: float
    every: float
    records: int = 1


class Command(StrEnum):
    """What an engine is asked to do."""

    RECOVER = "recover"
    EXECUTE = "execute"
    """Plan, take some time, and execute exactly that plan."""
    RESUME = "resume"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class EngineRun:
    """One process of the engine. Engines on one machine share its journal, and only one of them can hold it.

    `kill_at`: the IO step at which it dies. `approves`: whether the person who is asked says yes, after `thinking`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    at: float
    command: Command = Command.RECOVER
    machine: int = 0
    kill_at: int | None = None
    approves: bool = True
    thinking: float = 1.0
    whole_cluster: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """One history's whole cause. `quiet_at`: from then on nothing goes wrong, and everybody but `lost` is back.

    `lost`: brokers that never come back; whoever then runs an engine must still finish, or say why not.
    `settings`: how fast everything is; `controllers`: how many of these. `within`: how long one run of the engine may
    take before it begins no more waves; None: as long as it wants. `knows_history`: whether the engine is handed the
    ISR history a proof of losslessness stands on. `witnessed`: every so many seconds somebody notes how far each
    leader's high watermark is; None: nobody does. `switches`: which of Kafka's safety rules hold; as released where
    nothing is said.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    version: int
    seed: int
    brokers: int
    topics: tuple[Topic, ...]
    elr: bool = True
    driver: Driver = Driver.ASSIGNMENT_ORDER
    knows_history: bool = False
    switches: Switches = AS_RELEASED
    witnessed: float | None = None
    rules: Rules = Rules()
    within: float | None = None
    traffic: tuple[Traffic, ...] = ()
    faults: tuple[Fault, ...] = ()
    engines: tuple[EngineRun, ...] = ()
    quiet_at: float = 120.0
    lost: tuple[int, ...] = ()
    controllers: int = 2
    settings: Settings = USUAL

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Every partition of every topic."""
        return tuple(TopicPartition(t.name, index) for t in self.topics for index in range(len(t.assignments)))

    @property
    def machines(self) -> tuple[int, ...]:
        """The machines that run engines."""
        return tuple(sorted({run.machine for run in self.engines}))
