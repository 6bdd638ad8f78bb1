"""Whether a process can see what it works on, for its readiness probe: one that can't must not end a rollout.

A definition that is not installed, or a Role that is too small, is waited for and told in the log; the Pod runs on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from kafka_recovery.kube.machinery.api import ApiError, Object

_LOG = logging.getLogger(__name__)

AGAIN = 2.0
"""Seconds until what could not be listed is tried again."""


class Lists(Protocol):
    """What is asked of the API."""

    async def first(self, path: str) -> Sequence[Object]:
        """One object of a collection, if there is any."""
        ...


class Readiness:
    """`unready`: why it is not ready, in a few words; empty: it is. Any thread may read it."""

    def __init__(self) -> None:
        self.unready = "it has not begun to list what it watches"

    async def reached(self, api: Lists, paths: Iterable[str]) -> None:
        """Return once each of these collections was listed by this process; what can't be yet is told in `unready`."""
        for path in paths:
            while (why := await refused(api, path)) is not None:
                self.unready = why
                await asyncio.sleep(AGAIN)
        self.unready = ""
        _LOG.info("ready: all that is watched can be listed")

    async def keep(self, api: Lists, paths: Iterable[str]) -> None:
        """The same, without an end: whoever runs it takes the end of any task for an error."""
        await self.reached(api, paths)
        await asyncio.Event().wait()


async def refused(api: Lists, path: str) -> str | None:
    """Why this collection can't be listed, in a few words, if it can't."""
    try:
        await api.first(path)
    except ApiError as error:
        return f"{path} can't be listed: {error.reason}"
    return None
