"""Policies as people write them: the RecoveryPolicy resource's spec in YAML, checked whole before any of it is used."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

import durationpy
import yaml
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from kafka_recovery.domain.documents import InvalidDocument
from kafka_recovery.domain.partition_files import topic_name_problem
from kafka_recovery.domain.plain_yaml import PlainLoader
from kafka_recovery.domain.policy import (
    Approval,
    CandidateOrder,
    EvidenceRules,
    Limits,
    Policy,
    RequiredAnswers,
    Rule,
    TopicSelector,
)

LARGEST_FILE = 1024 * 1024
"""Bytes of UTF-8."""
_NOT_YET = frozenset({"lossBudgetRecords", "coolDown", "salvage", "LeastLoss"})
"""Words of the wider design that nothing honours yet: accepting them would promise what is not done."""

Path = tuple[int | str, ...]
Model = TypeVar("Model", bound=BaseModel)


def load_policy(text: str, name: str) -> Policy:
    """Read a policy: the bare spec, or a RecoveryPolicy document with it.

    Raises InvalidDocument with a line for every problem: where, what is wrong, the value, and what would be right.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > LARGEST_FILE:
        raise InvalidDocument(f"{name}: has {size} bytes; at most {LARGEST_FILE} are read")
    source = _Source(name)
    data, path = source.parse(text), Path()
    if isinstance(data, dict) and not data.keys().isdisjoint(("apiVersion", "kind", "metadata", "spec")):
        source.check(_Document, data, path)
        data, path = data.get("spec"), ("spec",)
    policy = source.check(_Policy, data, path)
    if isinstance(data, dict) and isinstance(data.get("rules"), list):
        source.check_rules_together(data["rules"], (*path, "rules"))
    return source.sound(policy).as_policy()


def _wrong(problem: str) -> PydanticCustomError:
    return PydanticCustomError("wrong", "{problem}", {"problem": problem})


def _whole(low: int, high: int) -> PlainValidator:
    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise _wrong(f"must be a whole number from {low} to {high}")

    return PlainValidator(check)


def _duration(longest: str) -> PlainValidator:
    """Go's form, as in Kubernetes. Checked here first: durationpy takes months (`mm`) and skips what it can't read."""
    bound: timedelta = durationpy.from_str(longest)

    def check(value: object) -> timedelta:
        if not isinstance(value, str) or not re.fullmatch(r"((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+", value, re.A):
            raise _wrong(f"must be a duration such as 500ms, 5s or 1m30s, at most {longest}")
        try:
            duration: timedelta = durationpy.from_str(value)
        except (durationpy.DurationError, OverflowError):
            raise _wrong(f"must be at most {longest}") from None
        if not timedelta() < duration <= bound:
            raise _wrong(f"must be longer than zero and at most {longest}")
        return duration

    return PlainValidator(check)


def _word(kind: type[StrEnum]) -> PlainValidator:
    words = [str(word) for word in kind]

    def check(value: object) -> StrEnum:
        if isinstance(value, str) and value in words:
            return kind(value)
        if isinstance(value, str) and value in _NOT_YET:
            raise _wrong(f"is not supported by this version; use {' or '.join(words)}")
        raise _wrong(f"must be {' or '.join(words)}{_did_you_mean(value, words)}")

    return PlainValidator(check)


def _text(problem_of: Callable[[str], str | None]) -> PlainValidator:
    def check(value: object) -> str:
        if not isinstance(value, str):
            raise _wrong("must be text; write it in quotes")
        problem = problem_of(value)
        if problem:
            raise _wrong(problem)
        return value

    return PlainValidator(check)


def _prefix_problem(prefix: str) -> str | None:
    # "." alone is a sound beginning, though no topic may be named so.
    return topic_name_problem(prefix + "0") if prefix else "is empty; leave topics out to select every topic"


def _rule_name_problem(name: str) -> str | None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name):
        return "must be a name of up to 63 letters, digits, dots, underscores and dashes"


_ABSENT: Any = None  # Defaults stand in one place, the domain's dataclasses: what was not given is not passed on.


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    def given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}


class _Topics(_Fields):
    names: Annotated[list[Annotated[str, _text(topic_name_problem)]], Field(min_length=1)] = _ABSENT
    prefixes: Annotated[list[Annotated[str, _text(_prefix_problem)]], Field(min_length=1)] = _ABSENT

    @model_validator(mode="after")
    def _selects(self) -> Self:
        if not self.model_fields_set:
            raise _wrong("selects nothing; give names or prefixes, or leave topics out to select every topic")
        return self

    def as_selector(self) -> TopicSelector:
        return TopicSelector(**{key: tuple(value) for key, value in self.given().items()})


class _Evidence(_Fields):
    deadline: Annotated[timedelta, _duration("10m")] = _ABSENT
    attempts: Annotated[int, _whole(1, 20)] = _ABSENT
    required_answers: Annotated[RequiredAnswers, _word(RequiredAnswers)] = _ABSENT
    max_age: Annotated[timedelta, _duration("1h")] = _ABSENT

    @model_validator(mode="after")
    def _can_be_fresh(self) -> Self:
        rules = self.as_rules()
        if rules.max_age < rules.deadline:
            ages = f"maxAge {durationpy.to_str(rules.max_age)}, deadline {durationpy.to_str(rules.deadline)}"
            raise _wrong(f"maxAge must not be shorter than deadline ({ages}), or no evidence is ever fresh enough")
        return self

    def as_rules(self) -> EvidenceRules:
        return EvidenceRules(**self.given())


class _Rule(_Fields):
    name: Annotated[str, _text(_rule_name_problem)]
    topics: _Topics = _ABSENT
    tier: Annotated[int, _whole(1, 9)] = _ABSENT
    min_replication_factor: Annotated[int, _whole(1, 32767)] = _ABSENT
    candidate_order: Annotated[CandidateOrder, _word(CandidateOrder)] = _ABSENT
    approval: Annotated[Approval, _word(Approval)] = _ABSENT
    evidence: _Evidence = _ABSENT
    patience: Annotated[timedelta, _duration("24h")] = _ABSENT

    def as_rule(self) -> Rule:
        given = self.given()
        if "topics" in given:
            given["topics"] = self.topics.as_selector()
        if "evidence" in given:
            given["evidence"] = self.evidence.as_rules()
        return Rule(**given)


class _Limits(_Fields):
    partitions: Annotated[int, _whole(1, 1_000_000)] = _ABSENT
    brokers_down_percent: Annotated[int, _whole(1, 100)] = _ABSENT
    wave_sizes: Annotated[list[Annotated[int, _whole(1, 10_000)]], Field(min_length=1, max_length=100)] = _ABSENT

    def as_limits(self) -> Limits:
        given = self.given()
        return Limits(**given | ({"wave_sizes": tuple(given["wave_sizes"])} if "wave_sizes" in given else {}))


class _Policy(_Fields):
    limits: _Limits = _ABSENT
    rules: Annotated[list[_Rule], Field(min_length=1, max_length=1000)]

    def as_policy(self) -> Policy:
        rules = tuple(rule.as_rule() for rule in self.rules)
        return Policy(rules, self.limits.as_limits() if "limits" in self.model_fields_set else Limits())


class _Document(_Fields):
    api_version: Literal["kafka-recovery.dev/v1alpha1"]
    kind: Literal["RecoveryPolicy"]
    metadata: dict[str, Any] = _ABSENT
    spec: Any = None


class _Loader(PlainLoader):
    """YAML without its traps: all but true, false, null and decimal numbers is text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own name and type


_TAG = "tag:yaml.org,2002:"
_Loader.add_implicit_resolver(f"{_TAG}null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(f"{_TAG}bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF"))
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    f"{_TAG}float", re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z"), list("-+.0123456789")
)
_SCALARS: dict[str, Callable[[str], Any]] = {
    f"{_TAG}str": str,
    f"{_TAG}null": lambda text: None,
    f"{_TAG}bool": lambda text: text.lower() == "true",
    f"{_TAG}int": int,
    f"{_TAG}float": float,
}


class _Source:
    """One policy file: the line each field stands in, and every problem found."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: dict[Path, int] = {}
        self._problems: list[tuple[int, str]] = []

    def parse(self, text: str) -> Any:
        """The document as plain data; raises InvalidDocument if it is not YAML at all."""
        try:
            loader = _Loader(text)
            node = loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = ", ".join(part for part in (error.context, error.problem) if part)
            where = f"{self._name}:{mark.line + 1}: column {mark.column + 1}" if mark else self._name
            raise InvalidDocument(f"{where}: not YAML that can be read: {problem}") from None
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML lets chr() and int() speak for themselves
            raise InvalidDocument(f"{self._name}: not YAML that can be read: {' '.join(str(error).split())}") from None
        if node is None:
            raise InvalidDocument(f"{self._name}: is empty; a policy has at least one rule")
        return self._data(node, ())

    def check(self, model: type[Model], data: Any, path: Path) -> Model | None:
        """The data as `model`, or None with its problems noted."""
        try:
            return model.model_validate(data)
        except ValidationError as error:
            for item in error.errors(include_url=False):
                self._note(path + item["loc"], _explain(item, model))

    def check_rules_together(self, rules: list[Any], path: Path) -> None:
        """Names are unique, and no rule stands behind one that selects every topic."""
        first: dict[str, int] = {}
        catches_all: int | None = None
        for index, rule in enumerate(rules):
            name = rule.get("name") if isinstance(rule, dict) else None
            if isinstance(name, str) and first.setdefault(name, index) != index:
                self._note((*path, index, "name"), f"rule names are unique; rules[{first[name]}] has it{_got(name)}")
            if catches_all is not None:
                problem = f"never holds: the first match wins, and rules[{catches_all}] selects every topic; move it up"
                self._note((*path, index), problem)
            elif isinstance(rule, dict) and "topics" not in rule:
                catches_all = index

    def sound(self, checked: Model | None) -> Model:
        """What was checked; raises InvalidDocument if there was any problem."""
        if self._problems or checked is None:
            lines = [f"{self._name}:{line}: {problem}" for line, problem in sorted(self._problems)]
            raise InvalidDocument("\n".join(lines))
        return checked

    def _data(self, node: yaml.Node, path: Path) -> Any:
        self._lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self._data(child, (*path, index)) for index, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, path)
        try:
            return _SCALARS[node.tag](node.value)
        except (KeyError, ValueError, TypeError):
            self._note(path, f"can't be read as {_plain(node.tag.removeprefix(_TAG))}; write it without a tag")

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != f"{_TAG}str":
                self._lines[(*path, "?")] = key.start_mark.line + 1
                self._note((*path, "?"), "a field's name must be text")
                continue
            where = (*path, key.value)
            if key.value in data:
                first, line = self._lines[where], key.start_mark.line + 1
                self._problems.append((line, f"{_written(where)}: stands here again; it is at line {first} already"))
                continue
            data[key.value] = self._data(value, where)
            self._lines[where] = key.start_mark.line + 1
        return data

    def _note(self, path: Path, problem: str) -> None:
        known = next((path[:length] for length in range(len(path), -1, -1) if path[:length] in self._lines), ())
        self._problems.append((self._lines.get(known, 1), f"{_written(path)}: {problem}"))


def _explain(item: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value = item["type"], item["input"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return _unknown_field(str(item["loc"][-1]), _fields_at(model, item["loc"][:-1]))
    if value is None:
        return "is empty; give it a value or leave it out"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"must be a mapping of fields{_got(value)}"
    if kind == "list_type":
        return f"must be a list{_got(value)}"
    if kind == "too_short":
        return "must have at least one entry"
    if kind == "literal_error":
        return f"must be {item.get('ctx', {}).get('expected')}{_got(value)}"
    return f"{item['msg']}{_got(value)}"


def _unknown_field(field: str, known: list[str]) -> str:
    if field in _NOT_YET:
        return "is not supported by this version; remove it"
    return f"is an unknown field{_did_you_mean(field, known) or '; known are ' + ', '.join(known)}"


def _fields_at(model: type[BaseModel], path: Path) -> list[str]:
    for part in path:
        if isinstance(part, str):
            kind: Any = next(field.annotation for field in model.model_fields.values() if field.alias == part)
            model = next(iter(get_args(kind)), kind)
    return [field.alias or name for name, field in model.model_fields.items()]


def _did_you_mean(value: object, known: Iterable[str]) -> str:
    by_lower = {word.lower(): word for word in known}
    lower = value.lower().replace("_", "").replace("-", "") if isinstance(value, str) else ""
    close = difflib.get_close_matches(lower[:100], by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


def _written(path: Path) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{_plain(part)}" for part in path)
    return "".join(parts).lstrip(".") or "document"


def _plain(word: str) -> str:
    return word if re.fullmatch(r"[\w./-]{1,80}", word, re.A) else ascii(word[:80])


def _got(value: object) -> str:
    if isinstance(value, dict | list):
        return ""
    text = json.dumps(value)
    return f" (got {text if len(text) <= 80 else text[:79] + '…'})"
