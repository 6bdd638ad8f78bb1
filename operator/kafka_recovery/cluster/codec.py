"""Reading Kafka's messages from bytes that nobody vouches for.

kafka-python generates a decoder for each message and version. Its decoders read strings past the end, believe any array
size and any length of a number, and take null for what can't be null. Here the same generated code checks itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafka.protocol.schemas.fields.codegen import CodegenContext


class Unreadable(ValueError):
    """The bytes are no message of this kind and version."""


def decode(message: Any, version: int, data: memoryview, *, all_of_it: bool = True) -> Any:
    """`data` as a message of this class; it may go on only where not `all_of_it` is wanted. Raises Unreadable."""
    try:
        found, end = _decoder(message, version)(data, 0)
    except (ValueError, IndexError, AssertionError, struct.error) as error:
        raise Unreadable(f"{message.name} v{version}: {type(error).__name__} {error}") from error
    if all_of_it and end != len(data):
        raise Unreadable(f"{message.name} v{version}: {len(data)} bytes, of which {end} are read")
    null = _never_null(message, version).broken(found)
    if null is not None:
        raise Unreadable(f"{message.name} v{version}: {null} is null")
    return found


@cache
def _decoder(message: Any, version: int) -> Callable[[memoryview, int], tuple[Any, int]]:
    """As `StructField.compiled_decode_from` makes it, with checks."""
    context = _Checked()
    flexible = message.flexible_version_q(version)
    layout, proxy = message._struct, message._struct._data_class
    layout._data_class = message[None]
    try:
        context.lines.append("def _decode(data, pos):")
        layout.emit_decode_from(context, "obj", "    ", version=version, compact=flexible, tagged=flexible)
    finally:
        layout._data_class = proxy
    context.emit("    ", "return obj, pos")
    context.globs["_Rest"] = _Rest
    exec(compile(context.source(), f"<checked {message.name} v{version}>", "exec"), context.globs)
    found: Callable[[memoryview, int], tuple[Any, int]] = context.globs["_decode"]
    return found


_LOOP = re.compile(r" *for _\w+ in range\((_\w+)\):")
_SHIFT = re.compile(r"( *)(_sh\w+) \+= 7")
_SLICE = re.compile(r"( *)pos \+= _ln\w+")
_TAIL = re.compile(r"( *_\w+ = )_BytesIO\(bytes\(data\[pos:\]\)\)")
_TO_BE_CHECKED = re.compile(r"\brange\(|_sh\w+ \+?= .*7|_BytesIO\(|pos \+= _ln")
"""What the checks hang on: in another shape than the ones above it would go unchecked, so nothing is decoded then."""


class _Checked(CodegenContext):
    """An array has no more items than bytes are left, a number five bytes, and what is read was there."""

    def emit(self, indent: str, line: str) -> None:
        """One line of the decoder."""
        loop, tail = _LOOP.fullmatch(line), _TAIL.fullmatch(line)
        if loop:
            super().emit(indent, f"if not 0 <= {loop[1]} <= len(data) - pos: raise ValueError('array size')")
        elif tail:
            line = f"{tail[1]}_Rest(data, pos)"
        super().emit(indent, line)
        if shift := _SHIFT.fullmatch(line):
            super().emit(indent, f"{shift[1]}if {shift[2]} > 28: raise ValueError('number of more than five bytes')")
        elif slice := _SLICE.fullmatch(line):
            super().emit(indent, f"{slice[1]}if pos > len(data): raise ValueError('string beyond the end')")
        elif not (loop or tail) and _TO_BE_CHECKED.search(line):
            raise NotImplementedError(f"kafka-python generates decoders that are not known here: {line.strip()}")


_MOST_READS = 100_000
"""Pieces of one message's tagged fields: enough for thousands of brokers' addresses, read in a third of a second."""


class _Rest:
    """What is left, as the library's decoder of tagged fields reads it; nothing is copied for it."""

    __slots__ = ("_data", "_from", "_left", "_pos")

    def __init__(self, data: memoryview, pos: int) -> None:
        self._data, self._from, self._pos, self._left = data, pos, pos, _MOST_READS

    def read(self, size: int) -> bytes:
        """The next bytes."""
        begin, self._pos, self._left = self._pos, self._pos + size, self._left - 1
        if self._left < 0:
            raise ValueError("more tagged fields than anybody sends")
        if size < 0 or self._pos > len(self._data):
            raise ValueError("tagged field beyond the end")
        return bytes(self._data[begin : self._pos])

    def tell(self) -> int:
        """How many were read."""
        return self._pos - self._from


@dataclass(frozen=True, slots=True)
class _NeverNull:
    """Names of fields that may not be null, and what lies deeper: name, its own, and whether it is an array."""

    names: tuple[str, ...]
    deeper: tuple[tuple[str, _NeverNull, bool], ...]

    def broken(self, message: Any) -> str | None:
        """The first field that is null and may not be."""
        for name in self.names:
            if getattr(message, name) is None:
                return name
        for name, inner, many in self.deeper:
            value = getattr(message, name)
            for item in (value if many else (value,)) or ():
                null = None if item is None else inner.broken(item)
                if null is not None:
                    return f"{name}.{null}"
        return None


@cache
def _never_null(message: Any, version: int) -> _NeverNull:
    return _never_null_in(message._struct, version)


def _never_null_in(layout: Any, version: int) -> _NeverNull:
    names, deeper = [], []
    for field in layout.untagged_fields(version):
        nested = field.is_struct() or field.is_struct_array()
        variable = nested or field.is_array() or field.type_str in ("string", "bytes", "records")
        if variable and not field.nullable_for_version_q(version):
            names.append(field.name)
        if nested:
            inner = _never_null_in(field.array_of if field.is_struct_array() else field, version)
            if inner.names or inner.deeper:
                deeper.append((field.name, inner, field.is_struct_array()))
    return _NeverNull(tuple(names), tuple(deeper))
