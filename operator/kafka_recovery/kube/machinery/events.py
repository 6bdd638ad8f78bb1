"""Events (events.k8s.io/v1) about our objects, as `kubectl describe` shows them. They never hold up what they tell of.

    await events.say(recovery, "Normal", "Planned", "Recover", "plan 3f2a… elects 12 leaders")

What is said again within a while becomes a series: one object with a count, not a hundred objects.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.formats.printable import printable
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound

_LOG = logging.getLogger(__name__)

LONGEST_NOTE = 1024
"""Bytes; the API server's bound."""

REMEMBERED = 1000
"""Series that may go on; the oldest is forgotten, and what it said would begin another one."""

WAITING = 200
"""Events that may wait to be sent while the API server is slow; more are dropped: they only tell, status decides."""

SERIES = timedelta(minutes=30)
"""How long after the last time the same belongs to the same series. Events are kept for an hour by default."""

DEADLINE = timedelta(seconds=10)
"""For sending one, with all tries."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What is the same in all of a series."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class _Series:
    """An Event that is there, how often it was said, and when last (monotonic seconds)."""

    event: str
    count: int
    last: float


class Events:
    """`component`: who reports, for example kafka-recovery-operator; `instance`: which process of it.

    Sends in the background, one after the other; belongs to one event loop.
    """

    def __init__(self, api: Api, component: str, instance: str | None = None) -> None:
        self._api = api
        self._component = component
        self._instance = instance or f"{component}-{socket.gethostname()}"[:128]
        self._waiting: dict[_Said, int] = {}
        self._series: dict[_Said, _Series] = {}
        self._sending: asyncio.Task[None] | None = None
        self._dropped = 0

    async def say(self, about: Mapping[str, Any], type: str, reason: str, action: str, note: str) -> None:
        """Tell something about an object (with its apiVersion, kind and metadata). Returns at once and never raises.

        `type`: Normal or Warning. `reason`: why, `action`: what was done, both CamelCase and the same for the same
        cause. `note`: for people, cut to what fits. What still waits when the process ends is lost, unless flushed.
        """
        meta = about.get("metadata") or {}
        said = _Said(
            api_version=str(about.get("apiVersion", "")),
            kind=str(about.get("kind", "")),
            namespace=str(meta.get("namespace") or ""),
            name=str(meta.get("name") or ""),
            uid=str(meta.get("uid") or ""),
            type=type,
            reason=reason,
            action=action,
            note=_cut(printable(note)),
        )
        if said not in self._waiting and len(self._waiting) >= WAITING:
            self._dropped += 1
            return
        self._waiting[said] = self._waiting.get(said, 0) + 1
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all(), name="events")

    async def flush(self, grace: timedelta) -> None:
        """Wait until all is sent, at most so long; what is left then is lost."""
        if self._sending:
            await asyncio.wait([self._sending], timeout=grace.total_seconds())
            self._sending.cancel()
            await asyncio.wait([self._sending], timeout=1)

    async def _send_all(self) -> None:
        while self._waiting:
            said = next(iter(self._waiting))
            times = self._waiting.pop(said)
            try:
                await self._send(said, times)
            except ApiError as error:
                _LOG.warning("Event %s of %s was not posted: %s", said.reason, said.name, error)
            except Exception:  # noqa: BLE001 - a fault in telling must not end what it tells of
                _LOG.exception("Event %s of %s was not posted", said.reason, said.name)
        if self._dropped:
            _LOG.warning("%d Events were dropped: more than %d were waiting", self._dropped, WAITING)
            self._dropped = 0

    async def _send(self, said: _Said, times: int) -> None:
        series = self._series.pop(said, None)
        if series is None or time.monotonic() - series.last > SERIES.total_seconds():
            await self._begin(said, times)
            return
        series.count, series.last = series.count + times, time.monotonic()
        try:
            await self._api.patch(f"{_path(said)}/{series.event}", {"series": _told(series.count)}, deadline=DEADLINE)
        except NotFound:  # its time was over for the server
            await self._begin(said, times)
            return
        self._series[said] = series

    async def _begin(self, said: _Said, times: int) -> None:
        # The name is chosen here, so that a try whose answer was lost can't become a second Event.
        name = f"{said.name[:200]}.{uuid.uuid4().hex[:16]}"
        event: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": said.namespace or "default"},
            "eventTime": _now(),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "regarding": {
                "apiVersion": said.api_version,
                "kind": said.kind,
                "namespace": said.namespace,
                "name": said.name,
                "uid": said.uid,
            },
            "type": said.type,
            "reason": said.reason,
            "action": said.action,
            "note": said.note,
        }
        await self._api.create(
            _path(said), event if times == 1 else event | {"series": _told(times)}, deadline=DEADLINE
        )
        if len(self._series) >= REMEMBERED:
            del self._series[next(iter(self._series))]
        self._series[said] = _Series(name, times, time.monotonic())


def _path(said: _Said) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{said.namespace or 'default'}/events"


def _told(count: int) -> dict[str, Any]:
    return {"count": count, "lastObservedTime": _now()}


def _now() -> str:
    """A MicroTime: six digits."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _cut(note: str) -> str:
    raw = note.encode()
    if len(raw) <= LONGEST_NOTE:
        return note
    return raw[: LONGEST_NOTE - len("…".encode())].decode(errors="ignore") + "…"
