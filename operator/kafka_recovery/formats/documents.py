"""Plans and outcomes as canonical JSON: the same value gives the same bytes, and reading checks every field."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, SchemaValidator

from kafka_recovery.domain.plan import Plan

T = TypeVar("T")

CAMEL_CASE = ConfigDict(alias_generator=to_camel, serialize_by_alias=True)
"""Of a type whose documents have names as Kubernetes has them."""


_MANY = ("list", "tuple", "set", "frozenset", "dict")
_WORDS = {"unexpected_keyword_argument": "this release knows no such field; a newer one may have written it"}
"""What pydantic says in words of Python's, in words of a document's."""
_SHOWN = 256 << 10
"""Bytes of a document up to which the values that are wrong in it are told: of a missing field, that is all of it."""
_TOLD = 1000
"""So many wrong fields are told one by one. A small file may have a million of them, and each has a line."""
_KEY = 249
"""Characters of a key that a message shows: the longest name of a topic, for a hostile key may be megabytes long."""


class InvalidDocument(ValueError):
    """A file or stored document that is not what it should be; the message names the field and the value."""


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


@cache
def validator(kind: Hashable) -> SchemaValidator:
    """What checks values of a kind: no field too many, and of a sequence or a mapping the first wrong item only."""
    return SchemaValidator(cast(CoreSchema, _strict(_adapter(kind).core_schema)))


def _strict(schema: Any) -> Any:
    """The schema by which no field is dropped unread, for a newer release may have written what it stands for.

    The first wrong item of a sequence or a mapping is the last: a million of them would be a gigabyte.
    """
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    stricter = {key: _strict(each) for key, each in schema.items()}
    if schema.get("type") in _MANY:
        stricter["fail_fast"] = True
    if schema.get("type") == "dataclass-args":
        stricter["extra_behavior"] = "forbid"
    return stricter


def as_data(value: object) -> Any:
    """Any domain value as plain JSON data (dicts, lists, strings, numbers)."""
    return _adapter(cast(Hashable, type(value))).dump_python(value, mode="json")


_AT_ONCE = 200
"""Items of a sequence that are written at once: until they are, no other thread of the process runs."""


def canonical(value: object) -> bytes:
    """UTF-8 JSON, no white space, fields in the order in which they are declared: equal values have equal bytes."""
    return b"".join(_written(value, type(value)))


def _written(value: Any, kind: Any) -> Iterator[bytes | memoryview]:
    """Its parts. What is long is written piece by piece, so that the process' other threads go on meanwhile."""
    if (
        isinstance(kind, type)
        and is_dataclass(kind)
        and any(_is_long(getattr(value, name)) for name, _ in _fields(kind))
    ):
        for place, (name, field_kind) in enumerate(_fields(kind)):
            yield b'%b"%b":' % (b"," if place else b"{", name.encode())
            yield from _written(getattr(value, name), field_kind)
        yield b"}"
    elif _is_long(value) and get_args(kind)[1:] == (...,):
        for start in range(0, len(value), _AT_ONCE):
            yield b"," if start else b"["
            yield memoryview(_adapter(kind).dump_json(value[start : start + _AT_ONCE]))[1:-1]
        yield b"]"
    else:
        yield _adapter(kind).dump_json(value)


def _is_long(value: object) -> bool:
    return isinstance(value, tuple) and len(value) > _AT_ONCE


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The names of a dataclass' fields, and what each holds."""
    hints = get_type_hints(kind)
    return tuple((each.name, hints[each.name]) for each in fields(kind))


def digest(plan: Plan) -> str:
    """SHA-256 of the plan's canonical JSON, in hex: what a person approves."""
    return digest_of_canonical(canonical(plan))


def canonical_again(data: object) -> bytes:
    """The same of a document that was read as plain data: what it has in it, in its order, not what a release knows."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


def digest_of_canonical(raw: bytes) -> str:
    """The digest of a plan whose canonical JSON is at hand."""
    return hashlib.sha256(raw).hexdigest()


def read(kind: type[T], raw: bytes, name: str) -> T:
    """Parse `raw` as `kind`; raises InvalidDocument naming the document, the field and the value.

    A field that `kind` does not have is wrong, too: nobody can tell here what it changes about the others.
    Of a sequence or a mapping the first wrong item is named, and no other.
    """
    try:
        value: T = validator(cast(Hashable, kind)).validate_json(raw, strict=True)
    except ValidationError as error:
        raise InvalidDocument(describe(error, name, with_values=len(raw) <= _SHOWN)) from None
    return value


def describe(error: ValidationError, name: str, *, with_values: bool = True) -> str:
    """A validation error as one line a field: path, what is wrong, the value seen."""
    if error.error_count() > _TOLD:
        return f"{name}: document: {error.error_count()} fields are wrong, too many to be told"
    lines = []
    for item in error.errors(include_url=False, include_input=with_values):
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{_cut(part, _KEY)}" for part in item["loc"]).lstrip(
            "."
        )
        seen = "" if item["type"] == "missing" or not with_values else f" (got {_short(item['input'])})"
        wrong = _WORDS.get(item["type"], item["msg"])
        lines.append(f"{name}: {path or 'document'}: {wrong}{seen}")
    return "\n".join(lines)


def _short(value: object, limit: int = 80) -> str:
    return _cut(repr(value), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
