"""A scenario as data: the cluster, its traffic, the policy, who runs the engine when, and what goes wrong.

Together with its seed it is all that a history depends on. It is written and read as YAML (or JSON, which is YAML), so
that a person can read what happened, change it and try again. All times are seconds of virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from kafka_recovery.domain.documents import InvalidDocument, as_data
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

VERSION = 1
"""What a seed means: raised whenever the same seed or scenario would give another history than before."""

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)

_DEEPEST = 20
_LONGEST = 3600.0
"""Seconds of virtual time that one history may take."""

_MOST_RECORDS = 10_000


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
    CUT = "cut"
    """What `broker` sends to `other` is lost; the other direction is not."""
    ISOLATE = "isolate"
    """A broker and the controller don't hear each other."""
    HIDE = "hide"
    """The engines can't reach a broker, though the others can."""
    HEAL = "heal"
    """Every network fault is over."""
    FAILOVER = "failover"
    """Another controller takes over."""
    NO_CONTROLLER = "no-controller"
    """Every controller is frozen; brokers go on forwarding what they are asked."""
    REASSIGN = "reassign"
    """Somebody else gives a partition other replicas, or the same in another order."""
    RECREATE = "recreate"
    """Somebody deletes a topic and creates another one of that name."""
    LOG_DIR = "log-dir"
    """A broker's log directory goes offline."""
    JUMP = "jump"
    """The wall clock of a machine that runs engines jumps by `delay` seconds."""
    KILL_ENGINE = "kill-engine"
    """The engine that runs on a machine is killed wherever it is."""
    DISK_FULL = "disk-full"
    """A machine can't write its journal for a while."""


_OF_A_BROKER = frozenset(
    {Kind.KILL, Kind.START, Kind.STOP, Kind.CRASH, Kind.REPLACE_DISK, Kind.FREEZE, Kind.THAW, Kind.SLOW, Kind.CUT}
)


class Upon(StrEnum):
    """A request of an engine that is about to be sent, or a plan it has made and waits to carry out."""

    APPROVE = "approve"
    DESIGNATE = "designate"
    ELECT = "elect"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that happens at a moment. `leader_of` names a broker by what it leads then, instead of `broker`.

    `upon`: not before an engine sends such a request, and `later` seconds after that; `designated` then names the
    broker that this request is to make leader. `lasting`: when it is over by itself; None: it stays until something
    else ends it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    at: float
    kind: Kind
    broker: int | None = None
    other: int | None = None
    leader_of: str | None = None
    designated: bool = False
    upon: Upon | None = None
    later: float = 0.0
    partition: str | None = None
    replicas: tuple[int, ...] = ()
    machine: int | None = None
    delay: float = 0.0
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
class Rules:
    """The policy, flat: one rule for all topics."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    candidate_order: CandidateOrder = CandidateOrder.EPOCH_FIRST
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


class Driver(StrEnum):
    """How a leader is designated."""

    ASSIGNMENT_ORDER = "assignment-order"
    DESIGNATED = "designated"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One history's whole cause. `quiet_at`: from then on nothing goes wrong and everybody is back.

    `within`: how long one run of the engine may take before it begins no more waves; None: as long as it wants.
    `knows_history`: whether the engine is handed the ISR history a proof of losslessness stands on.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    version: int
    seed: int
    brokers: int
    topics: tuple[Topic, ...]
    elr: bool = True
    driver: Driver = Driver.ASSIGNMENT_ORDER
    knows_history: bool = False
    rules: Rules = Rules()
    within: float | None = None
    traffic: tuple[Traffic, ...] = ()
    faults: tuple[Fault, ...] = ()
    engines: tuple[EngineRun, ...] = ()
    quiet_at: float = 120.0

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Every partition of every topic."""
        return tuple(TopicPartition(t.name, index) for t in self.topics for index in range(len(t.assignments)))

    @property
    def machines(self) -> tuple[int, ...]:
        """The machines that run engines."""
        return tuple(sorted({run.machine for run in self.engines}))


_SCENARIO = TypeAdapter(Scenario)


def written(scenario: Scenario) -> str:
    """The scenario as YAML, without what is as usual."""
    text: str = yaml.safe_dump(_told(as_data(scenario)), sort_keys=False, default_flow_style=None, width=120)
    return text


def load_scenario(text: str, name: str) -> Scenario:
    """Read a scenario; raises InvalidDocument with the line and the field of everything that is wrong."""
    try:
        node = yaml.compose(text, Loader=_Loader)
        data = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidDocument(f"{name}:{line}: not YAML that can be read: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = str(error).splitlines()[0][:120]
        raise InvalidDocument(f"{name}:1: not YAML that can be read: {problem}") from None
    if not isinstance(data, dict) or not isinstance(node, yaml.MappingNode):
        raise InvalidDocument(f"{name}:1: a scenario is a mapping of fields (version, seed, brokers, topics, …)")
    if data.get("version") is True or data.get("version") != VERSION:
        raise InvalidDocument(
            f"{name}:{_line(node, ('version',))}: version: this simulator replays version {VERSION}, the scenario has "
            f"{data.get('version')!r}; run it with the release that wrote it"
        )
    try:
        scenario = _SCENARIO.validate_python(data)
    except ValidationError as error:
        problems = [
            f"{name}:{_line(node, item['loc'])}: {'.'.join(map(str, item['loc']))}: {item['msg']} "
            f"(got {str(item['input'])[:60]!r})"
            for item in error.errors(include_url=False)
        ]
        raise InvalidDocument("\n".join(problems)) from None
    if problems := [f"{name}:{_line(node, path)}: {problem}" for path, problem in _nonsense(scenario)]:
        raise InvalidDocument("\n".join(problems))
    return scenario


class _Loader(yaml.SafeLoader):
    """Without aliases, some lines of which make a document of gigabytes, and bounded in depth."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        problem = "it is nested too deeply for a scenario" if self.depth >= _DEEPEST else None
        if isinstance(event, yaml.AliasEvent):
            problem = "aliases are not supported; repeat the value"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


Path = tuple[int | str, ...]


def _nonsense(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """What has the right form and can't be."""
    known = set(range(1, scenario.brokers + 1))
    partitions = {str(id) for id in scenario.partitions}
    yield from _out_of_range(scenario)
    for place, topic in enumerate(scenario.topics):
        for index, replicas in enumerate(topic.assignments):
            if not replicas or len(set(replicas)) != len(replicas) or not set(replicas) <= known:
                text = f"topics.{place}.assignments.{index}: {list(replicas)} are not different brokers of 1 to"
                yield ("topics", place, "assignments", index), f"{text} {scenario.brokers}"
    for place, fault in enumerate(scenario.faults):
        for field, broker in (("broker", fault.broker), ("other", fault.other)):
            if broker is not None and broker not in known:
                yield ("faults", place, field), f"faults.{place}.{field}: there is no broker {broker}"
        for field, partition in (("leader_of", fault.leader_of), ("partition", fault.partition)):
            if partition is not None and partition not in partitions:
                yield ("faults", place, field), f"faults.{place}.{field}: there is no partition {partition}"
    for place, traffic in enumerate(scenario.traffic):
        if traffic.partition not in partitions:
            yield (
                ("traffic", place, "partition"),
                f"traffic.{place}.partition: there is no partition {traffic.partition}",
            )


def _needed(fault: Fault) -> Iterator[tuple[str, bool]]:
    """The fields that this kind can't do without, and whether they are there."""
    if fault.kind in _OF_A_BROKER:
        yield "broker", fault.broker is not None or fault.leader_of is not None or fault.designated
    if fault.kind is Kind.CUT:
        yield "other", fault.other is not None
    if fault.kind in (Kind.REASSIGN, Kind.RECREATE):
        yield "partition", fault.partition is not None


def _out_of_range(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Numbers and names that would make a history hollow or endless."""
    names = [topic.name for topic in scenario.topics]
    checks: list[tuple[Path, float | int | None, float, float]] = [
        (("quiet_at",), scenario.quiet_at, 1, _LONGEST),
        (("within",), scenario.within, 0, _LONGEST),
    ]
    for place, topic in enumerate(scenario.topics):
        if names.index(topic.name) != place:
            yield ("topics", place, "name"), f"topics.{place}.name: there are two topics of the name {topic.name}"
        checks.append((("topics", place, "min_isr"), topic.min_isr, 1, scenario.brokers))
    for place, fault in enumerate(scenario.faults):
        for field, there in _needed(fault):
            if not there:
                yield ("faults", place), f"faults.{place}.{field}: is missing; {fault.kind} needs it"
        checks += [
            (("faults", place, "at"), fault.at, 0, scenario.quiet_at),
            (("faults", place, "later"), fault.later, 0, _LONGEST),
            (("faults", place, "delay"), fault.delay if fault.kind is Kind.SLOW else None, 0, _LONGEST),
            (("faults", place, "lasting"), fault.lasting, 0, _LONGEST),
        ]
    for place, traffic in enumerate(scenario.traffic):
        checks += [
            (("traffic", place, "first"), traffic.first, 0, traffic.last),
            (("traffic", place, "last"), traffic.last, 0, _LONGEST),
            (("traffic", place, "every"), traffic.every, 0.01, _LONGEST),
            (("traffic", place, "records"), traffic.records, 1, _MOST_RECORDS),
        ]
    for place, engine in enumerate(scenario.engines):
        checks += [
            (("engines", place, "at"), engine.at, 0, _LONGEST),
            (("engines", place, "thinking"), engine.thinking, 0, _LONGEST),
        ]
    for path, value, least, most in checks:
        if value is not None and not least <= value <= most:
            yield path, f"{'.'.join(map(str, path))}: must be from {least:g} to {most:g} (got {value:g})"


def _line(node: yaml.Node, path: Path) -> int:
    """The line of the field at this path, or of the nearest thing around it."""
    line = node.start_mark.line + 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(part)]
            if not found:
                return line
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line


_USUAL: dict[str, object] = {"delay": 0.0, "later": 0.0, "designated": False}


def _told(data: object) -> object:
    """Without nulls and empty lists, which say nothing."""
    if isinstance(data, dict):
        return {key: _told(value) for key, value in data.items() if value not in (None, []) and not _usual(key, value)}
    return [_told(value) for value in data] if isinstance(data, list) else data


def _usual(key: str, value: object) -> bool:
    return key in _USUAL and _USUAL[key] == value
