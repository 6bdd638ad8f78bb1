"""Writing Kafka's messages by kafka-python's generated encoders, with adjacent fields packed at once.

A request about thousands of partitions is as many structures. The library packs each of their fields by itself, and
looks in each for tagged fields, also where the version has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from kafka.protocol.schemas.fields.codecs import EncodeBuffer

_Encoder = Callable[[Any, EncodeBuffer], None]

_ONE_FIELD = r"""if pos \+ \d+ > _cap:
\1    out\.pos = pos; .*
\1pack_into\('>\w', buf, pos, .+\)
\1pos \+= \d+
"""
_FIELDS = re.compile(rf"^( *){_ONE_FIELD}(?:\1{_ONE_FIELD})+", re.MULTILINE)
_FIELD = re.compile(r"pack_into\('>(\w)', buf, pos, (.+)\)\n *pos \+= (\d+)\n")
_TAGGED = re.compile(
    r"""^( *)out\.pos = pos
(?:\1#.*\n)?\1(_tf\w+)\.encode_into\(.*\)
\1pos = out\.pos
\1buf = out\.buf
\1_cap = len\(buf\)\n""",
    re.MULTILINE,
)
"""What the library generates. In another shape it is left as it is: as right, and slower."""


def encoded(message: Any, version: int) -> bytes:
    """The message in this version, without a header."""
    kind: Any = type(message)
    out = EncodeBuffer()
    _encoder(kind, version)(message, out)
    return bytes(out.result())


@cache
def _encoder(kind: Any, version: int) -> _Encoder:
    """As `StructField.compiled_encode_into` makes it."""
    flexible = kind.flexible_version_q(version)
    context = kind._struct.encode_into__optimized_context(version, compact=flexible, tagged=flexible)

    def without_tags(found: re.Match[str]) -> str:
        none = not context.globs[found[2]]._fields
        return f"{_room(found[1], 1)}{found[1]}buf[pos] = 0\n{found[1]}pos += 1\n" if none else found[0]

    source = _FIELDS.sub(_packed_at_once, _TAGGED.sub(without_tags, context.source() + "\n"))
    exec(compile(source, f"<quicker {kind.__name__} v{version}>", "exec"), context.globs)
    made: _Encoder = context.globs["_encode"]
    return made


def _packed_at_once(found: re.Match[str]) -> str:
    """Fields of a fixed size that follow one another."""
    indent, fields = found[1], _FIELD.findall(found[0])
    formats, values = "".join(format for format, _, _ in fields), ", ".join(value for _, value, _ in fields)
    size = sum(int(size) for _, _, size in fields)
    return f"{_room(indent, size)}{indent}pack_into('>{formats}', buf, pos, {values})\n{indent}pos += {size}\n"


def _room(indent: str, size: int) -> str:
    """Make the buffer larger where so many bytes do not fit."""
    larger = f"out.pos = pos; out.ensure({size}); buf = out.buf; _cap = len(buf)"
    return f"{indent}if pos + {size} > _cap:\n{indent}    {larger}\n"
