"""Fields of documents that people write: each check says what would be right, and shows its bounds to who asks.

The bounds are data, so that a test can hold them equal to a schema written elsewhere (crds/).
"""

from __future__ import annotations

import difflib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar, get_args

import durationpy
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

NOT_YET = frozenset({"controllerServers", "salvage"})
"""Words of the wider design that nothing honours yet: accepting them would promise what is not done."""

ABSENT: Any = None
"""Default of a field that may be left out where another value is made of the fields: that one has the real default."""

Path = tuple[int | str, ...]
Problem = tuple[Path, str]
"""Where something is wrong, and what."""
Model = TypeVar("Model", bound=BaseModel)

DURATION = r"([0-9]+(\.[0-9]{1,3})?(ms|s|m|h))+"
"""Go's form, as in Kubernetes, but in whole microseconds: Python counts no nanoseconds, and must agree with Go."""
LONGEST_DURATION = 32
"""Characters."""


def wrong(problem: str) -> PydanticCustomError:
    """What a check raises."""
    return PydanticCustomError("wrong", "{problem}", {"problem": problem})


class Check(ABC):
    """Reads one value, or raises `wrong` with what would be right. Stands in a field's annotation."""

    __slots__ = ()

    @abstractmethod
    def read(self, value: object) -> Any:
        """The value as the domain has it."""

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)


@dataclass(frozen=True, slots=True)
class Whole(Check):
    """A whole number, both bounds included."""

    low: int
    high: int

    def read(self, value: object) -> int:
        """The number."""
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value
        raise wrong(f"must be a whole number from {self.low} to {self.high}")


@dataclass(frozen=True, slots=True)
class Flag(Check):
    """True or false. `only`: the other one makes no sense here."""

    only: bool | None = None

    def read(self, value: object) -> bool:
        """The flag."""
        if isinstance(value, bool) and self.only in (None, value):
            return value
        raise wrong("must be true or false" if self.only is None else f"must be {json.dumps(self.only)}, or left out")


@dataclass(frozen=True, slots=True)
class Duration(Check):
    """A duration in Go's form, bounds included."""

    longest: str
    shortest: str = "1ms"

    def read(self, value: object) -> timedelta:
        """The duration. The form is checked first: durationpy takes months (`mm`) and skips what it can't read."""
        if not isinstance(value, str) or len(value) > LONGEST_DURATION or not re.fullmatch(DURATION, value):
            raise wrong(f"must be a duration such as 500ms, 5s or 1m30s, at most {self.longest}")
        duration = _duration(value)
        if duration is None or not durationpy.from_str(self.shortest) <= duration <= durationpy.from_str(self.longest):
            least = "" if self.shortest == "0s" else f"at least {self.shortest} and "
            raise wrong(f"must be {least}at most {self.longest}")
        return duration


@dataclass(frozen=True, slots=True)
class OneOf(Check):
    """One word of an enumeration; with `only`, one of these."""

    kind: type[StrEnum]
    only: tuple[StrEnum, ...] = ()

    @property
    def words(self) -> list[str]:
        """What is right, in the enumeration's order."""
        return [str(word) for word in self.only or self.kind]

    def read(self, value: object) -> StrEnum:
        """The member."""
        if isinstance(value, str) and value in self.words:
            return self.kind(value)
        right = " or ".join(self.words)
        raise wrong(f"must be {right}{_did_you_mean(value, self.words)}")


@dataclass(frozen=True, slots=True)
class Text(Check):
    """Text of bounded length, all of which matches `pattern`; None: any text.

    `problem_of` may say better than `otherwise` what is wrong; it must agree with pattern and length.
    """

    pattern: str | None
    longest: int
    otherwise: str = ""
    problem_of: Callable[[str], str | None] | None = None

    def read(self, value: object) -> str:
        """The text."""
        if not isinstance(value, str):
            raise wrong("must be text; write it in quotes")
        problem = self.problem_of(value) if self.problem_of else self._problem(value)
        if problem:
            raise wrong(problem)
        return value

    def _problem(self, value: str) -> str | None:
        if not 0 < len(value) <= self.longest or not (self.pattern is None or re.fullmatch(self.pattern, value)):
            return f"must be {self.otherwise}, of 1 to {self.longest} characters"


class Fields(BaseModel):
    """A mapping of known fields, written in camelCase. An unknown one is refused, unless it is `checked_as_known`.

    A value like any other once it is read. One that code makes as well says the alias of each such field itself.
    """

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, frozen=True)

    def given(self) -> dict[str, Any]:
        """The fields that were written, by their Python names."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def checked(model: type[Model], data: object, path: Path = ()) -> tuple[Model | None, list[Problem]]:
    """The data, which stands at `path`, as `model`; or None and everything that is wrong with it."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        found = error.errors(include_url=False)
    return None, [((*path, *item["loc"]), _explain(item, model)) for item in found]


def checked_as_known(
    model: type[Model], data: object, path: Path = ()
) -> tuple[Model | None, list[Problem], Mapping[Path, object]]:
    """The same without the fields that the model does not know; those come beside it, each with its value."""
    try:
        return model.model_validate(data), [], {}
    except ValidationError as error:
        found = error.errors(include_url=False)
    unknown = {item["loc"]: item["input"] for item in found if item["type"] == "extra_forbidden"}
    read, problems = checked(model, without(data, unknown), path)
    return read, problems, {(*path, *place): value for place, value in unknown.items()}


def without(data: Any, places: Iterable[Path]) -> Any:
    """A copy of plain data in which nothing stands at these places, each of which is a field of a mapping."""
    below: dict[int | str, list[Path]] = {}
    for place in places:
        below.setdefault(place[0], []).append(place[1:])
    if not below:
        return data
    items = data.items() if isinstance(data, dict) else enumerate(data)
    left = {key: without(value, below.get(key, ())) for key, value in items if () not in below.get(key, ())}
    return left if isinstance(data, dict) else list(left.values())


def written(path: Path) -> str:
    """A path as people write it: `rules[0].tier`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{plain(part)}" for part in path)
    return "".join(parts).lstrip(".") or "document"


def plain(word: str) -> str:
    """A word from outside, fit for a line of text."""
    return word if re.fullmatch(r"[\w./-]{1,80}", word, re.A) else ascii(word[:80])


def got(value: object) -> str:
    """The value seen, behind a sentence about it; nothing where it would be long."""
    if isinstance(value, dict | list):
        return ""
    text = json.dumps(value)
    return f" (got {text if len(text) <= 80 else text[:79] + '…'})"


def _duration(text: str) -> timedelta | None:
    try:
        duration: timedelta = durationpy.from_str(text)
    except (durationpy.DurationError, OverflowError):
        return None
    return duration


def _explain(item: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value = item["type"], item["input"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return _unknown_field(str(item["loc"][-1]), _fields_at(model, item["loc"][:-1]))
    if value is None:
        return "is empty; give it a value or leave it out"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"must be a mapping of fields{got(value)}"
    if kind == "list_type":
        return f"must be a list{got(value)}"
    if kind == "too_short":
        return "must have at least one entry"
    if kind == "too_long":
        return f"must have at most {item.get('ctx', {}).get('max_length')} entries"
    if kind == "literal_error":
        return f"must be {item.get('ctx', {}).get('expected')}{got(value)}"
    return f"{item['msg']}{got(value)}"


def _unknown_field(field: str, known: list[str]) -> str:
    if field in NOT_YET:
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
