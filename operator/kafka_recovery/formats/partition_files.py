"""Files that name partitions: KIP-1275's input, and the designated leaders that `kafka-elect-leaders` takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.formats.documents import InvalidDocument

T = TypeVar("T")

LARGEST_FILE = 16 * 1024 * 1024
"""Characters; some 250,000 designated leaders."""
_LARGEST_ID = 2**31 - 1
_LONGEST_TOPIC = 249
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_PROBLEMS_SHOWN = 20
_LISTED = '{"topic": "orders", "partitions": [0, 3]}'
_DESIGNATED = '{"topic": "orders", "partition": 0, "designatedLeader": 1}'


@dataclass(frozen=True, slots=True)
class NamedPartitions:
    """Partitions in the file's order; `designated` holds a leader for each of them, or is empty."""

    partitions: tuple[TopicPartition, ...]
    designated: Mapping[TopicPartition, BrokerId]


class _Form(Enum):
    LISTED = "partitions"
    DESIGNATED = "designatedLeader"


def topic_name_problem(name: str) -> str | None:
    """Why Kafka would not accept this topic name (its own rules), or None."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is reserved"
    if len(name) > _LONGEST_TOPIC:
        return f"has {len(name)} characters; Kafka allows {_LONGEST_TOPIC}"
    if not _TOPIC.fullmatch(name):
        return "has characters other than letters, digits, dot, underscore and dash"


def read_partitions(text: str, name: str) -> NamedPartitions:
    """Read either form; raises InvalidDocument with one line for each problem (the first 20 of them)."""
    reading = _Reading(name)
    entries = reading.entries(_parse(text, name))
    for index, entry in enumerate(entries):
        reading.entry(f"partitions[{index}]", entry)
    return reading.result()


def write_designated(designated: Mapping[TopicPartition, BrokerId]) -> str:
    """The designated form, one partition a line, so that a person can review and edit it."""
    lines = [
        json.dumps({"topic": id.topic, "partition": id.partition, "designatedLeader": leader})
        for id, leader in designated.items()
    ]
    return '{"partitions": [\n  ' + ",\n  ".join(lines) + "\n]}\n"


def _parse(text: str, name: str) -> Any:
    if len(text) > LARGEST_FILE:
        raise InvalidDocument(f"{name}: has {len(text)} characters; at most {LARGEST_FILE} are read")
    try:
        return json.loads(text, object_pairs_hook=_without_duplicate_keys, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InvalidDocument(f"{name}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise InvalidDocument(f"{name}: is nested too deeply; {_LISTED} is as deep as it gets") from None
    except ValueError as error:  # a key twice, NaN, or a number with thousands of digits
        raise InvalidDocument(f"{name}: {error}") from None


def _without_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for key, value in pairs:
        if key in entry:
            raise ValueError(f"the key {_shown(key)} stands twice in one object; which one holds can't be known")
        entry[key] = value
    return entry


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number in JSON")


def _shown(value: object, limit: int = 80) -> str:
    if isinstance(value, dict | list):
        return ("an" if value else "an empty") + (" object" if isinstance(value, dict) else " array")
    text = json.dumps(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


class _Reading:
    """One file being read: what was found, where each partition stood first, and every problem."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._problems: list[str] = []
        self._forms: dict[_Form, str] = {}
        self._first_at: dict[TopicPartition, str] = {}
        self._designated: dict[TopicPartition, BrokerId] = {}

    def entries(self, document: Any) -> list[Any]:
        """The entries of the document's only field."""
        if not isinstance(document, dict):
            self._problem("document", document, f'must be an object: {{"partitions": [{_LISTED}]}}')
            return []
        self._known_keys("", document, {"partitions"})
        entries = document.get("partitions")
        if not isinstance(entries, list) or not entries:
            self._problem("partitions", entries, f"must be a list with at least one entry such as {_LISTED}")
            return []
        return entries

    def entry(self, path: str, entry: Any) -> None:
        """Take in one entry of either form."""
        if not isinstance(entry, dict):
            self._problem(path, entry, f"must be an object such as {_LISTED} or {_DESIGNATED}")
            return
        form = _Form.LISTED if "partitions" in entry else _Form.DESIGNATED
        if form is _Form.LISTED or not entry.keys().isdisjoint({"partition", "designatedLeader"}):
            self._forms.setdefault(form, path)
        if form is _Form.LISTED:
            self._known_keys(path, entry, {"topic", "partitions"})
            self._listed(path, entry)
        else:
            self._known_keys(path, entry, {"topic", "partition", "designatedLeader"})
            self._one(path, entry)

    def result(self) -> NamedPartitions:
        """What was read; raises InvalidDocument if there was any problem."""
        if len(self._forms) > 1:
            where = f"{self._forms[_Form.LISTED]} lists partitions, {self._forms[_Form.DESIGNATED]} designates a leader"
            self._say("partitions", f"mixes two forms ({where}); use one of them in a file")
        if self._problems:
            shown = self._problems[:_PROBLEMS_SHOWN]
            more = len(self._problems) - len(shown)
            raise InvalidDocument("\n".join([*shown, f"{self._name}: and {more} more problems"] if more else shown))
        return NamedPartitions(tuple(self._first_at), self._designated)

    def _listed(self, path: str, entry: dict[str, Any]) -> None:
        topic = self._topic(path, entry)
        indexes = entry["partitions"]
        if not isinstance(indexes, list) or not indexes:
            self._problem(f"{path}.partitions", indexes, "must be a list with at least one partition number")
            return
        for position, index in enumerate(indexes):
            where = f"{path}.partitions[{position}]"
            number = self._number(where, index, "a partition number")
            if topic is not None and number is not None:
                self._add(where, TopicPartition(topic, number))

    def _one(self, path: str, entry: dict[str, Any]) -> None:
        topic = self._topic(path, entry)
        number = self._field(path, entry, "partition", lambda at, value: self._number(at, value, "a partition number"))
        leader = self._field(path, entry, "designatedLeader", lambda at, value: self._number(at, value, "a broker id"))
        if topic is not None and number is not None and leader is not None:
            id = TopicPartition(topic, number)
            self._add(path, id)
            self._designated.setdefault(id, BrokerId(leader))

    def _topic(self, path: str, entry: dict[str, Any]) -> str | None:
        return self._field(path, entry, "topic", self._topic_name)

    def _topic_name(self, path: str, value: Any) -> str | None:
        problem = topic_name_problem(value) if isinstance(value, str) else "must be text"
        if problem is None:
            return str(value)
        self._problem(path, value, f"{problem}; a topic name is right here")

    def _number(self, path: str, value: Any, what: str) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_ID:
            return value
        self._problem(path, value, f"must be {what}: a whole number from 0 to {_LARGEST_ID}")

    def _field(self, path: str, entry: dict[str, Any], key: str, check: Callable[[str, Any], T | None]) -> T | None:
        if key in entry:
            return check(f"{path}.{key}", entry[key])
        self._say(f"{path}.{key}", f"is missing; an entry is {_LISTED} or {_DESIGNATED}")

    def _add(self, path: str, id: TopicPartition) -> None:
        first = self._first_at.setdefault(id, path)
        if first != path:
            self._say(path, f"{id} is named twice, first at {first}")

    def _known_keys(self, path: str, entry: dict[str, Any], known: set[str]) -> None:
        for key in sorted(entry.keys() - known):
            where = f"{path}." if path else ""
            self._say(f"{where}{_shown(key)}", f"is an unknown key; known are {', '.join(sorted(known))}")

    def _problem(self, path: str, value: Any, problem: str) -> None:
        self._say(path, f"{problem} (got {_shown(value)})")

    def _say(self, path: str, problem: str) -> None:
        self._problems.append(f"{self._name}: {path}: {problem}")
