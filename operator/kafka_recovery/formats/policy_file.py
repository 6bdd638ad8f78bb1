"""Policies as people write them: the RecoveryPolicy resource's spec in YAML, checked whole before any of it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

import durationpy
import yaml
from pydantic import Field, model_validator

from kafka_recovery.domain.policy import (
    Approval,
    CandidateOrder,
    EvidenceRules,
    HoldBack,
    Limits,
    Policy,
    RequiredAnswers,
    Rule,
    TopicSelector,
)
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.fields import (
    ABSENT,
    Duration,
    Fields,
    Flag,
    OneOf,
    Path,
    Problem,
    Text,
    Whole,
    checked,
    checked_as_known,
    got,
    plain,
    without,
    written,
    wrong,
)
from kafka_recovery.formats.partition_files import topic_name_problem
from kafka_recovery.formats.plain_yaml import PlainLoader

LARGEST_FILE = 1024 * 1024
"""Bytes of UTF-8."""


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
        source.note(checked(_Document, data)[1])
        data, path = data.get("spec"), ("spec",)
    policy, problems = _check(data, path)
    source.note(problems)
    return source.sound(policy)


def policy_as_known(
    spec: object, name: str, path: Path = ()
) -> tuple[Policy, Mapping[str, Any], Mapping[Path, object]]:
    """The policy in a RecoveryPolicy's spec, by the same checks as in files; `path` is where the spec stands.

    What is not known here is no part of it: returns also the spec without that, and that with its values.
    Raises InvalidDocument with a line for every problem: where, what is wrong, the value, and what would be right.
    """
    _, _, unknown = checked_as_known(PolicySpec, spec, path)
    known = without(spec, [place[len(path) :] for place in unknown])
    policy, problems = _check(known, path)
    if policy is None:
        raise InvalidDocument("\n".join(f"{name}: {written(where)}: {problem}" for where, problem in problems))
    return policy, known, unknown


def _check(spec: object, path: Path) -> tuple[Policy | None, list[Problem]]:
    """The policy; or None and everything that is wrong with it."""
    policy, problems = checked(PolicySpec, spec, path)
    if isinstance(spec, dict) and isinstance(spec.get("rules"), list):
        problems += _problems_of_rules_together(spec["rules"], (*path, "rules"))
    return (None if problems or policy is None else policy.as_policy()), problems


def _problems_of_rules_together(rules: list[Any], path: Path) -> Iterator[Problem]:
    """Names are unique, and no rule stands behind one that selects every topic."""
    first: dict[str, int] = {}
    catches_all: int | None = None
    for index, rule in enumerate(rules):
        name = rule.get("name") if isinstance(rule, dict) else None
        if isinstance(name, str) and first.setdefault(name, index) != index:
            yield (*path, index, "name"), f"rule names are unique; rules[{first[name]}] has it{got(name)}"
        if catches_all is not None:
            problem = f"never holds: the first match wins, and rules[{catches_all}] selects every topic; move it up"
            yield (*path, index), problem
        elif isinstance(rule, dict) and "topics" not in rule:
            catches_all = index


def _prefix_problem(prefix: str) -> str | None:
    # "." alone is a sound beginning, though no topic may be named so.
    return topic_name_problem(prefix + "0") if prefix else "is empty; leave topics out to select every topic"


TOPIC = Text(r"\.{0,2}[a-zA-Z0-9_-][a-zA-Z0-9._-]*|\.{3}[a-zA-Z0-9._-]*", 249, problem_of=topic_name_problem)
PREFIX = Text(r"[a-zA-Z0-9._-]+", 248, problem_of=_prefix_problem)
_RULE_NAME = Text(r"[A-Za-z0-9][A-Za-z0-9._-]*", 63, "a name of letters, digits, dots, underscores and dashes")


_CAREFUL_RULE: dict[str, Any] = {"min_replication_factor": 2, "patience": timedelta(minutes=2)}
_CAREFUL_LIMITS: dict[str, Any] = {"brokers_down_percent": 50}
"""What a policy that is written down leaves out, where it goes by itself: a partition with one replica waits for its
broker, a broker may restart, and while most brokers are down nothing is elected. Without any policy somebody sits at a
terminal and reads each plan: then the domain's own values hold."""


class _Topics(Fields):
    names: Annotated[list[Annotated[str, TOPIC]], Field(min_length=1, max_length=1000)] = ABSENT
    prefixes: Annotated[list[Annotated[str, PREFIX]], Field(min_length=1, max_length=1000)] = ABSENT

    @model_validator(mode="after")
    def _selects(self) -> Self:
        if not self.model_fields_set:
            raise wrong("selects nothing; give names or prefixes, or leave topics out to select every topic")
        return self

    def as_selector(self) -> TopicSelector:
        return TopicSelector(**{key: tuple(value) for key, value in self.given().items()})


class _Evidence(Fields):
    deadline: Annotated[timedelta, Duration("10m")] = ABSENT
    attempts: Annotated[int, Whole(1, 20)] = ABSENT
    required_answers: Annotated[RequiredAnswers, OneOf(RequiredAnswers)] = ABSENT
    max_age: Annotated[timedelta, Duration("1h")] = ABSENT

    @model_validator(mode="after")
    def _can_be_fresh(self) -> Self:
        rules = self.as_rules()
        if rules.max_age < rules.deadline:
            ages = f"maxAge {durationpy.to_str(rules.max_age)}, deadline {durationpy.to_str(rules.deadline)}"
            raise wrong(f"maxAge must not be shorter than deadline ({ages}), or no evidence is ever fresh enough")
        return self

    def as_rules(self) -> EvidenceRules:
        return EvidenceRules(**self.given())


class _Rule(Fields):
    name: Annotated[str, _RULE_NAME]
    topics: _Topics = ABSENT
    tier: Annotated[int, Whole(1, 9)] = ABSENT
    min_replication_factor: Annotated[int, Whole(1, 32767)] = ABSENT
    candidate_order: Annotated[CandidateOrder, OneOf(CandidateOrder)] = ABSENT
    approval: Annotated[Approval, OneOf(Approval)] = ABSENT
    evidence: _Evidence = ABSENT
    patience: Annotated[timedelta, Duration("24h", shortest="0s")] = ABSENT

    def as_rule(self) -> Rule:
        given = self.given()
        if "topics" in given:
            given["topics"] = self.topics.as_selector()
        if "evidence" in given:
            given["evidence"] = self.evidence.as_rules()
        return Rule(**_CAREFUL_RULE | given)


class _Limits(Fields):
    partitions: Annotated[int, Whole(1, 1_000_000)] = ABSENT
    brokers_down_percent: Annotated[int, Whole(1, 100)] = ABSENT
    wave_sizes: Annotated[list[Annotated[int, Whole(1, 10_000)]], Field(min_length=1, max_length=100)] = ABSENT
    cool_down: Annotated[timedelta, Duration("168h", shortest="0s")] = ABSENT
    loss_budget_records: Annotated[int, Whole(0, 10**15)] = ABSENT

    def as_limits(self) -> Limits:
        given = _CAREFUL_LIMITS | self.given()
        return Limits(**given | ({"wave_sizes": tuple(given["wave_sizes"])} if "wave_sizes" in given else {}))


class PolicySpec(Fields):
    """What a RecoveryPolicy's spec may say; crds/recoverypolicies.yaml says the same to the API server."""

    limits: _Limits = Field(default_factory=_Limits)
    hold_back: Annotated[HoldBack, OneOf(HoldBack)] = ABSENT
    require_reason: Annotated[bool, Flag()] = ABSENT
    rules: Annotated[list[_Rule], Field(min_length=1, max_length=200)]

    def as_policy(self) -> Policy:
        """The policy; what was left out is careful, or as the domain has it."""
        rules, limits, given = tuple(rule.as_rule() for rule in self.rules), self.limits.as_limits(), self.given()
        return Policy(rules, limits, given.get("hold_back"), given.get("require_reason", False))


class _Document(Fields):
    api_version: Literal["kafka-recovery.dev/v1alpha1"]
    kind: Literal["RecoveryPolicy"]
    metadata: dict[str, Any] = ABSENT
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

    def note(self, problems: Iterable[Problem]) -> None:
        """Keep what is wrong, each with the line it stands in."""
        for path, problem in problems:
            self._note(path, problem)

    def sound(self, policy: Policy | None) -> Policy:
        """What was checked; raises InvalidDocument if there was any problem."""
        if self._problems or policy is None:
            lines = [f"{self._name}:{line}: {problem}" for line, problem in sorted(self._problems)]
            raise InvalidDocument("\n".join(lines))
        return policy

    def _data(self, node: yaml.Node, path: Path) -> Any:
        self._lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self._data(child, (*path, index)) for index, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, path)
        try:
            return _SCALARS[node.tag](node.value)
        except (KeyError, ValueError, TypeError):
            self._note(path, f"can't be read as {plain(node.tag.removeprefix(_TAG))}; write it without a tag")

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
                self._problems.append((line, f"{written(where)}: stands here again; it is at line {first} already"))
                continue
            data[key.value] = self._data(value, where)
            self._lines[where] = key.start_mark.line + 1
        return data

    def _note(self, path: Path, problem: str) -> None:
        known = next((path[:length] for length in range(len(path), -1, -1) if path[:length] in self._lines), ())
        self._problems.append((self._lines.get(known, 1), f"{written(path)}: {problem}"))
