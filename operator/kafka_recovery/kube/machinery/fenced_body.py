"""The body of a write: what it passes last, before its bytes are sent, is the fence."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload


class FencedBody(BytesPayload):
    """A body that passes the fence at the moment it is sent: a call may have waited long for a free connection."""

    def __init__(self, fence: Callable[[], None], value: bytes, *, content_type: str) -> None:
        super().__init__(value, content_type=content_type)
        self._fence = fence

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._fence()
        await super().write(writer)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._fence()
        await super().write_with_length(writer, content_length)
