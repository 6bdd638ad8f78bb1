"""What holds for the whole operator: its greatest authority, and the ConfigMap that suspends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import ApiError, NotFound, Object
from kafka_recovery.kube.machinery.shared import SharedReads
from kafka_recovery.kube.resources.objects import SOON, Key
from kafka_recovery.recovery.supervision import Authority

_LOG = logging.getLogger(__name__)

SWITCH = "kafka-recovery-operator"
"""The name of the operator's own ConfigMap, whose key `suspend` stops everything, unless it was given another one."""

EVERY = timedelta(seconds=5)
"""How often it is read for all who wait: no right to watch it is asked for."""


@dataclass(frozen=True, slots=True)
class OperatorSwitch:
    """What holds for the whole operator: how far it may go, and why nothing may be elected, if so."""

    authority: Authority
    suspended: Reason | None = None


class KnownSwitch:
    """What was read last, by anybody: good enough for who waits. Who is about to act calls it, and reads anew."""

    def __init__(self, read: Callable[[], Awaitable[OperatorSwitch]]) -> None:
        self.last: OperatorSwitch | None = None
        """None: it was never read."""
        self._read: SharedReads[str, OperatorSwitch] = SharedReads(lambda _: read())

    async def __call__(self) -> OperatorSwitch:
        """As it is now. Raises ApiError."""
        self.last = switch = await self._read(SWITCH)
        return switch

    async def keep_up(self) -> None:
        """Read it for ever; while that can't be, what was read before is the last."""
        while True:
            try:
                await self()
            except ApiError as error:
                _LOG.debug("the operator's ConfigMap can't be read: %s", error)
            except Exception:  # noqa: BLE001 - a defect here must not end the process that recovers partitions
                _LOG.exception("reading the operator's ConfigMap met an internal error")
            await asyncio.sleep(EVERY.total_seconds())


class Reads(Protocol):
    """All of the API that is needed for that."""

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        """An object."""
        ...


def switch_path(key: Key) -> str:
    """Where the API keeps the operator's own ConfigMap."""
    return f"/api/v1/namespaces/{key[0]}/configmaps/{key[1]}"


async def read_switch(api: Reads, key: Key, authority: Authority) -> OperatorSwitch:
    """What the operator's own ConfigMap says now; `authority` is what it was started with. Raises ApiError."""
    try:
        data = (await api.get(switch_path(key), deadline=SOON)).get("data") or {}
    except NotFound:
        return OperatorSwitch(authority)
    if str(data.get("suspend", "false")).lower() in ("", "false"):
        return OperatorSwitch(authority)
    return OperatorSwitch(
        authority, Reason("Suspended", f"ConfigMap {key[0]}/{key[1]} says suspend: {data['suspend']}")
    )
