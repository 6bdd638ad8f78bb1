"""Scenarios as people write them: YAML, checked whole, with the line and field of everything that is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import yaml
from pydantic import TypeAdapter, ValidationError

from kafka_recovery.domain.documents import InvalidDocument, as_data
from kafka_recovery.domain.plain_yaml import PlainLoader
from kafka_recovery.simulator.histories.scenario import VERSION, Fault, Kind, Scenario

_LONGEST = 3600.0
"""Seconds of virtual time that one history may take."""

_MOST_RECORDS = 10_000
_OF_A_BROKER = frozenset(
    {Kind.KILL, Kind.START, Kind.STOP, Kind.CRASH, Kind.REPLACE_DISK, Kind.FREEZE, Kind.THAW, Kind.SLOW, Kind.CUT}
)

_SCENARIO = TypeAdapter(Scenario)


def written(scenario: Scenario) -> str:
    """The scenario as YAML, without what is as usual."""
    text: str = yaml.safe_dump(_told(as_data(scenario)), sort_keys=False, default_flow_style=None, width=120)
    return text


def load_scenario(text: str, name: str) -> Scenario:
    """Read a scenario; raises InvalidDocument with the line and the field of everything that is wrong."""
    try:
        node = yaml.compose(text, Loader=PlainLoader)
        data = yaml.load(text, Loader=PlainLoader)
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
