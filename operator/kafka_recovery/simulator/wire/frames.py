"""Request and response frames: the header in front of a message, and the message itself."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

from kafka.protocol.schemas.fields.codecs import EncodeBufferPool

_HEAD = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_API_VERSIONS = 18


class BadFrame(ValueError):
    """What came is no Kafka request that this broker knows: the connection is to be closed."""


class Head(NamedTuple):
    """A request's header. `end`: where its message begins, for one without tagged fields."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int


def read_head(frame: memoryview) -> Head:
    """The header up to its tagged fields. Raises BadFrame."""
    try:
        api_key, version, correlation_id, length = _HEAD.unpack_from(frame)
        end = _HEAD.size + max(length, 0)
        if end > len(frame):
            raise BadFrame("the client id goes beyond the end")
        client_id = None if length < 0 else str(frame[_HEAD.size : end], "utf-8")
    except (struct.error, UnicodeDecodeError) as error:
        raise BadFrame(f"no request header: {error}") from error
    return Head(api_key, version, correlation_id, client_id, end)


def skip_tagged_fields(frame: memoryview, pos: int) -> int:
    """Where the message begins, behind the header's tagged fields, none of which is known. Raises BadFrame."""
    count, pos = _number(frame, pos)
    for _ in range(count):
        _, pos = _number(frame, pos)
        size, pos = _number(frame, pos)
        pos += size
        if pos > len(frame):
            raise BadFrame("a tagged field goes beyond the end")
    return pos


def _number(frame: memoryview, pos: int) -> tuple[int, int]:
    """An unsigned varint, and what follows it."""
    value = 0
    for shift in range(0, 35, 7):
        if pos >= len(frame):
            raise BadFrame("the header ends early")
        byte = frame[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise BadFrame("a number of more than five bytes")


def response(message: Any, version: int, correlation_id: int, values: Any) -> bytes:
    """A response frame; `values` has the message's fields as attributes."""
    return response_head(message, version, correlation_id) + body(message, version, values)


def response_head(message: Any, version: int, correlation_id: int) -> bytes:
    """ApiVersions' header never has tagged fields, because its reader does not know the version yet (KIP-511)."""
    tagged = message.API_KEY != _API_VERSIONS and message.flexible_version_q(version)
    return _CORRELATION.pack(correlation_id) + (b"\0" if tagged else b"")


def body(message: Any, version: int, values: Any) -> bytes:
    """An encoded message."""
    encode = _encoder(message, version)
    with EncodeBufferPool.acquire() as out:
        encode(values, out)
        return bytes(out.result())


@cache
def _encoder(message: Any, version: int) -> Any:
    flexible = message.flexible_version_q(version)
    return message._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
