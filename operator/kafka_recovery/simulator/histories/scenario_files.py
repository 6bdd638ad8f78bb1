"""Scenarios as people write them: YAML, checked whole, with the line and field of everything that is wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from kafka_recovery.formats.documents import InvalidDocument, as_data
from kafka_recovery.formats.plain_yaml import Path, PlainLoader, repeated
from kafka_recovery.simulator.histories.scenario import (
    OF_MACHINES,
    OF_PARTITIONS,
    USUAL,
    VERSION,
    EngineRun,
    Fault,
    Kind,
    Rules,
    Scenario,
    Topic,
    Traffic,
)
from kafka_recovery.simulator.model.grants import OF_TOPICS
from kafka_recovery.simulator.model.switches import AS_RELEASED, Switches

_LONGEST = 3600.0
"""Seconds of virtual time that one history may take."""

_FARTHEST_JUMP = 366 * 86400.0
"""Seconds by which a clock may jump."""

_MOST_BROKERS = 100
_MOST_RECORDS = 10_000
_OF_A_BROKER = frozenset(
    {
        Kind.KILL, Kind.START, Kind.STOP, Kind.CRASH, Kind.REPLACE_DISK, Kind.FREEZE, Kind.THAW, Kind.SLOW, Kind.CUT,
        Kind.ISOLATE, Kind.HIDE, Kind.LOG_DIR, Kind.MUTE, Kind.DEAF, Kind.STALL, Kind.NAMELESS,
        Kind.SHARED, Kind.MISREPORT, Kind.LAG, Kind.FULL_VOLUME, Kind.CLEANED_DISK,
    }
)  # fmt: skip
_SCENARIO = TypeAdapter(Scenario)
_USUAL_SETTINGS, _USUAL_SWITCHES = as_data(USUAL), as_data(AS_RELEASED)
_BELOW: dict[str, type] = {
    "topics": Topic,
    "traffic": Traffic,
    "faults": Fault,
    "engines": EngineRun,
    "rules": Rules,
    "switches": Switches,
}
"""What the entries of a scenario's fields are."""


def written(scenario: Scenario) -> str:
    """The scenario as YAML, without what is as usual, and without faults of machines where no engine runs.

    Those strike nobody: the history is the same, and whoever reads the file is spared them.
    """
    faults = tuple(fault for fault in scenario.faults if _machine_of(fault) in (None, *scenario.machines))
    data = as_data(replace(scenario, faults=faults))
    data["settings"] = {key: value for key, value in data["settings"].items() if value != _USUAL_SETTINGS[key]}
    switches = {name: on for name, on in data["switches"].items() if on is not _USUAL_SWITCHES[name]}
    data = _told(data | {"switches": switches or None})
    text: str = yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=120)
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
    if twice := [
        f"{name}:{again.line}: {_dotted(again.path)}: stands here again; it is at line {again.first} already"
        for again in repeated(node)
    ]:
        raise InvalidDocument("\n".join(twice))
    if data.get("version") is True or data.get("version") != VERSION:
        raise InvalidDocument(
            f"{name}:{_line(node, ('version',))}: version: this simulator replays version {VERSION}, the scenario has "
            f"{data.get('version')!r}; run it with the release that wrote it"
        )
    try:
        scenario = _SCENARIO.validate_python(data)
    except ValidationError as error:
        problems = [
            f"{name}:{_line(node, item['loc'])}: {_dotted(item['loc'])}: {_explained(item)}"
            for item in error.errors(include_url=False)
        ]
        raise InvalidDocument("\n".join(problems)) from None
    if found := sorted((_line(node, path), problem) for path, problem in _nonsense(scenario)):
        raise InvalidDocument("\n".join(f"{name}:{line}: {problem}" for line, problem in found))
    return scenario


def _explained(item: ErrorDetails) -> str:
    """One of pydantic's problems in our words, with what would be right."""
    kind, path, seen = item["type"], item["loc"], item["input"]
    if kind in ("missing", "missing_argument"):
        return "is missing"
    if kind == "unexpected_keyword_argument":
        known = [field.name for field in fields(_BELOW[str(path[0])] if len(path) > 1 else Scenario)]
        return f"is an unknown field; {_suggested(path[-1], known)}"
    if kind == "enum":
        known = re.findall(r"'([^']*)'", str(item.get("ctx", {}).get("expected")))
        return f"there is no {path[-1]} {str(seen)[:60]!r}; {_suggested(seen, known)}"
    return f"{item['msg']} (got {str(seen)[:60]!r})"


def _suggested(word: object, known: list[str]) -> str:
    close = difflib.get_close_matches(str(word)[:60].lower().replace("_", "-"), [w.replace("_", "-") for w in known], 1)
    meant = next((w for w in known if close and w.replace("_", "-") == close[0]), None)
    return f"did you mean {meant}?" if meant else f"known are {', '.join(known)}"


def _nonsense(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """What has the right form and can't be."""
    partitions = {str(id) for id in scenario.partitions}
    for path, problem in (*_out_of_range(scenario), *_unknown_brokers(scenario), *_hollow_faults(scenario)):
        yield path, f"{_dotted(path)}: {problem}"
    named: list[tuple[Path, str | None]] = []
    for place, fault in enumerate(scenario.faults):
        named += [
            (("faults", place, "leader_of"), fault.leader_of),
            (("faults", place, "partition"), fault.partition),
        ]
    named += [(("traffic", place, "partition"), traffic.partition) for place, traffic in enumerate(scenario.traffic)]
    for path, partition in named:
        if partition is not None and partition not in partitions:
            yield path, f"{_dotted(path)}: there is no partition {partition}"


def _unknown_brokers(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    known = range(1, scenario.brokers + 1)
    assigned: list[tuple[Path, tuple[int, ...]]] = [
        (("topics", place, "assignments", index), replicas)
        for place, topic in enumerate(scenario.topics)
        for index, replicas in enumerate(topic.assignments)
    ]
    for place, lost in enumerate(scenario.lost):
        if lost not in known:
            yield ("lost", place), f"there is no broker {lost}; there are 1 to {scenario.brokers}"
    for place, fault in enumerate(scenario.faults):
        if fault.replicas:
            assigned.append((("faults", place, "replicas"), fault.replicas))
        for field, broker in (("broker", fault.broker), ("other", fault.other)):
            if broker is not None and broker not in known:
                yield ("faults", place, field), f"there is no broker {broker}; there are 1 to {scenario.brokers}"
    for path, replicas in assigned:
        if not replicas or len(set(replicas)) != len(replicas) or any(b not in known for b in replicas):
            yield path, f"{list(replicas)} are not different brokers of 1 to {scenario.brokers}"


def _hollow_faults(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Faults that would strike nobody."""
    running = " or ".join(map(str, scenario.machines))
    right = f"engines run on {running}" if running else "no engine runs at all: say under engines when one does"
    for place, fault in enumerate(scenario.faults):
        for field, there in _needed(fault):
            if not there:
                needed = f": different brokers of 1 to {scenario.brokers}" if field == "replicas" else ""
                yield ("faults", place, field), f"is missing; {fault.kind} needs it{needed}"
        if fault.kind is Kind.CUT and fault.other is not None and fault.other == fault.broker:
            yield ("faults", place, "other"), f"broker {fault.other} can't be cut off from itself; name another one"
        if fault.designated and fault.upon is None:
            yield ("faults", place, "designated"), "needs upon: which request of an engine names the broker?"
        machine = _machine_of(fault)
        if machine is not None and machine not in scenario.machines:
            default = " (which is meant where none is named)" if fault.machine is None else ""
            yield ("faults", place, "machine"), f"no engine runs on machine {machine}{default}; {right}"


def _machine_of(fault: Fault) -> int | None:
    """The machine that is struck; None: this kind strikes none."""
    if fault.kind not in OF_MACHINES or (fault.machine is None and fault.upon is not None):
        return None
    return fault.machine or 0


def _needed(fault: Fault) -> Iterator[tuple[str, bool]]:
    """The fields that this kind can't do without, and whether they are there."""
    if fault.kind in _OF_A_BROKER:
        yield "broker", fault.broker is not None or fault.leader_of is not None or fault.designated
    if fault.kind in (Kind.CUT, Kind.SHARED):
        yield "other", fault.other is not None
    if fault.kind is Kind.WIRE:
        yield "wire", fault.wire is not None
    if fault.kind is Kind.RIGHTS:
        yield "right", fault.right is not None
    if fault.kind in OF_PARTITIONS or (fault.kind is Kind.RIGHTS and fault.right in OF_TOPICS):
        yield "partition", fault.partition is not None
    if fault.kind is Kind.REASSIGN:
        yield "replicas", bool(fault.replicas) or fault.designated
    if fault.kind is Kind.MIN_ISR:
        yield "count", fault.count > 0
    if fault.kind is Kind.RULES:
        yield "rules", fault.rules is not None
    if fault.kind is Kind.AUTHORITY:
        yield "authority", fault.authority is not None
    if fault.kind in (Kind.LOSE, Kind.REORDER):
        yield "chance", fault.chance != 0


def _out_of_range(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Numbers and names that would make a history hollow or endless."""
    names = [topic.name for topic in scenario.topics]
    checks: list[tuple[Path, float | int | None, float, float]] = [
        (("brokers",), scenario.brokers, 1, _MOST_BROKERS),
        (("quiet_at",), scenario.quiet_at, 1, _LONGEST),
        (("within",), scenario.within, 0, _LONGEST),
        (("witnessed",), scenario.witnessed, 0.1, _LONGEST),
        (("controllers",), scenario.controllers, 1, 9),
    ]
    for place, topic in enumerate(scenario.topics):
        if names.index(topic.name) != place:
            yield ("topics", place, "name"), f"there are two topics of the name {topic.name}"
        checks.append((("topics", place, "min_isr"), topic.min_isr, 1, scenario.brokers))
    for place, fault in enumerate(scenario.faults):
        checks += [
            (("faults", place, "at"), fault.at, 0, scenario.quiet_at),
            (("faults", place, "later"), fault.later, 0, _LONGEST),
            (("faults", place, "delay"), fault.delay if fault.kind in (Kind.SLOW, Kind.LAG) else None, 0, _LONGEST),
            (
                ("faults", place, "delay"),
                fault.delay if fault.kind is Kind.JUMP else None,
                -_FARTHEST_JUMP,
                _FARTHEST_JUMP,
            ),
            (
                ("faults", place, "delay"),
                fault.delay if fault.kind is Kind.MISREPORT else None,
                -_MOST_RECORDS,
                _MOST_RECORDS,
            ),
            (("faults", place, "lasting"), fault.lasting, 0, _LONGEST),
            (("faults", place, "turn"), fault.turn, 1, 1000),
            (("faults", place, "count"), fault.count, 0, _MOST_RECORDS),
            (("faults", place, "chance"), fault.chance, 0, 1),
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
            yield path, f"must be from {least:g} to {most:g} (got {value:g})"


def _dotted(path: Iterable[int | str]) -> str:
    return ".".join(map(str, path))


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


_USUAL: dict[str, object] = {
    "delay": 0.0, "chance": 0.0, "later": 0.0, "designated": False, "turn": 1, "count": 0,
}  # fmt: skip


def _told(data: object) -> object:
    """Without nulls and empty lists, which say nothing."""
    if isinstance(data, dict):
        return {
            key: _told(value) for key, value in data.items() if value not in (None, [], {}) and not _usual(key, value)
        }
    return [_told(value) for value in data] if isinstance(data, list) else data


def _usual(key: str, value: object) -> bool:
    return key in _USUAL and _USUAL[key] == value
