"""Reading Kafka's messages from bytes that nobody vouches for.

kafka-python generates a decoder for each message and version. Its decoders read strings past the end, believe any array
size and any length of a number, and take null for what can't be null. Here the same generated code checks itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, make_dataclass
from functools import cache
from typing import Any, Self

from kafka.protocol.api_data import ApiData
from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields
from kafka.protocol.schemas.fields.codegen import CodegenContext

_Decoder = Callable[[memoryview, int], tuple[Any, int]]
"""What is read from this place on, and where it ends."""


class Unreadable(ValueError):
    """The bytes are no message of this kind and version."""


def decode(message: Any, version: int, data: memoryview, *, all_of_it: bool = True) -> Any:
    """`data` as a message of this class; it may go on only where not `all_of_it` is wanted. Raises Unreadable."""
    try:
        found, end = _decoder(message, version)(data, 0)
    except (ValueError, IndexError, AssertionError, struct.error) as error:
        raise Unreadable(f"{_name(message)} v{version}: {type(error).__name__} {error}") from error
    if all_of_it and end != len(data):
        raise Unreadable(f"{_name(message)} v{version}: {len(data)} bytes, of which {end} are read")
    null = _never_null(message, version).broken(found)
    if null is not None:
        raise Unreadable(f"{_name(message)} v{version}: {null} is null")
    return found


def _name(message: Any) -> str:
    """A record may have a field of that name."""
    return str(message.json["name"])


@cache
def _decoder(message: Any, version: int) -> _Decoder:
    """As `StructField.compiled_decode_from` makes it, with checks."""
    flexible = message.flexible_version_q(version)
    layout, proxy = message._struct, message._struct._data_class
    layout._data_class = message if issubclass(message, ApiData) else message[None]
    try:
        return _compiled(layout, "obj", version, compact=flexible, tagged=flexible)
    finally:
        layout._data_class = proxy


def _compiled(layout: Any, name: str, version: int, *, compact: bool, tagged: bool | None) -> _Decoder:
    """A decoder of this layout. The library reads a structure called `obj` as one that is no field of another."""
    context = _Checked()
    context.lines.append("def _decode(data, pos):")
    layout.emit_decode_from(context, name, "    ", version=version, compact=compact, tagged=tagged)
    context.emit("    ", f"return {name}, pos")
    for key, value in context.globs.items():
        if isinstance(value, TaggedFields):
            context.globs[key] = _Tagged.of(value, version)
    context.globs["_number"] = _number
    exec(compile(context.source(), f"<checked {layout.name} v{version}>", "exec"), context.globs)
    found: _Decoder = context.globs["_decode"]
    return found


def structure(kind: Any, *names: str) -> Callable[..., Any]:
    """A constructor of a message's structure by the values of these fields; the library's own takes ten times as long.

    The other fields have their defaults.
    """
    others = [(getattr(kind, field.name), field.default) for field in kind.fields.values() if field.name not in names]

    def blank(self: Any) -> None:
        self._version = self.tags = self.unknown_tags = None
        for slot, default in others:
            slot.__set__(self, default)

    body = {"__slots__": (), "__post_init__": blank}
    return make_dataclass(kind.__name__, names, bases=(kind,), namespace=body, eq=False, repr=False)


_LOOP = re.compile(r" *for _\w+ in range\((_\w+)\):")
_SHIFT = re.compile(r" *_sh\w+ \+= 7")
_SLICE = re.compile(r"( *)pos \+= _ln\w+")
_EMPTY = re.compile(r" *pos \+= 1  # empty tagged fields")
_TAIL = re.compile(r" *_bio\w+ = _BytesIO\(bytes\(data\[pos:\]\)\)")
_TO_BE_CHECKED = re.compile(r"\brange\(|_sh\w+ \+?= .*7|_BytesIO\(|pos \+= _ln")
"""What the checks hang on: in another shape than the ones above it would go unchecked, so nothing is decoded then."""

_NUMBER = re.compile(
    r"""( *)(_\w+) = 0
\1(_sh\w+) = 0
\1while True:
\1    (_b\w+) = data\[pos\]
\1    pos \+= 1
\1    \2 \|= \(\4 & 0x7f\) << \3
\1    if not \(\4 & 0x80\): break
\1    \3 \+= 7"""
)
_TAGGED = re.compile(
    r"""( *)(_bio\w+) = _BytesIO\(bytes\(data\[pos:\]\)\)
\1_tfd = (_tf\w+)\.decode\(\2, version=\d+\)
\1pos \+= \2\.tell\(\)
\1if _tfd:
(?:\1 .*\n)*\1            setattr\((\w+), _tk, _tv\)"""
)
_INTEGERS = re.compile(
    r"""( *)(_\w+) = \[\]
\1(if not 0 <= (_n\w+) .*)
\1for _\w+ in range\(\4\):
\1    (_\w+) = unpack_from\(">i", data, pos\)\[0\]
\1    pos \+= 4
\1    \2\.append\(\5\)"""
)
_QUICKER = (
    (_NUMBER, r"\1\2 = data[pos]\n\1pos += 1\n\1if \2 > 0x7f: \2, pos = _number(data, pos - 1)"),
    (_TAGGED, r"\1pos = \3.read(\4, data, pos)"),
    (_INTEGERS, r"\1\3\n\1\2 = list(unpack_from(f'>{\4}i', data, pos))\n\1pos += 4 * \4"),
)
"""What the library generates, and what stands there instead: a number that fits into its first byte, as nearly all do;
tagged fields; an array of integers."""


class _Checked(CodegenContext):
    """An array has no more items than bytes are left, a number five bytes, and what is read was there."""

    def emit(self, indent: str, line: str) -> None:
        """One line of the decoder."""
        loop = _LOOP.fullmatch(line)
        if loop:
            super().emit(indent, f"if not 0 <= {loop[1]} <= len(data) - pos: raise ValueError('array size')")
        elif _EMPTY.fullmatch(line):
            super().emit(indent, "if data[pos]: raise ValueError('tagged fields in a tagged field')")
        super().emit(indent, line)
        if slice := _SLICE.fullmatch(line):
            super().emit(indent, f"{slice[1]}if pos > len(data): raise ValueError('string beyond the end')")
        elif not (loop or _SHIFT.fullmatch(line) or _TAIL.fullmatch(line)) and _TO_BE_CHECKED.search(line):
            raise _not_known(line)

    def source(self) -> str:
        """The decoder. Numbers and tagged fields are read by what is here: the library's believes any size of them."""
        found = str(super().source())
        for generated, quicker in _QUICKER:
            found = generated.sub(quicker, found)
        if left := _TO_BE_REPLACED.search(found):
            raise _not_known(left[0])
        return found


_TO_BE_REPLACED = re.compile(r".*(?:\b_sh|_BytesIO|_tfd).*")
"""What would be of a number or of tagged fields, if one were generated in another shape."""


def _not_known(line: str) -> NotImplementedError:
    return NotImplementedError(f"kafka-python generates decoders that are not known here: {line.strip()}")


_MOST_TAGS = 1000
"""Tagged fields of one structure; Kafka's have a handful."""


@dataclass(frozen=True, slots=True)
class _Tagged:
    """Tagged fields of one structure, by tag; the library's own reader of them believes any size, and is slow."""

    known: Mapping[int, tuple[str, _Decoder]]

    @classmethod
    def of(cls, fields: Any, version: int) -> Self:
        """As the library knows them."""
        # compact, and without tagged fields of its own: so the library reads what stands in a tagged field
        decoders = {
            tag: (field.name, _compiled(field, "value", version, compact=True, tagged=None))
            for tag, field in fields._tags.items()
        }
        return cls(decoders)

    def read(self, message: Any, data: memoryview, pos: int) -> int:
        """Give the message those that stand here, unknown ones as bytes by their number; returns where they end."""
        count, pos = _number(data, pos)
        if count > _MOST_TAGS:
            raise ValueError("more tagged fields than anybody sends")
        for _ in range(count):
            tag, size, pos = data[pos], data[pos + 1], pos + 2
            if tag > _ONE_BYTE or size > _ONE_BYTE:
                tag, pos = _number(data, pos - 2)
                size, pos = _number(data, pos)
            end = pos + size
            if end > len(data):
                raise ValueError("tagged field beyond the end")
            if tag in self.known:
                name, decode = self.known[tag]
                value, read = decode(data, pos)
                if read != end:
                    raise ValueError(f"tagged field {name} of {size} bytes, of which {read - pos} are read")
                setattr(message, name, value)
            else:
                if message.unknown_tags is None:
                    message.unknown_tags = {}
                message.unknown_tags[f"_{tag}"] = bytes(data[pos:end])
            pos = end
        return pos


_ONE_BYTE = 0x7F
"""The largest number of one byte."""


def _number(data: memoryview, pos: int) -> tuple[int, int]:
    """An unsigned varint, and where it ends."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise ValueError("number of more than five bytes")


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
