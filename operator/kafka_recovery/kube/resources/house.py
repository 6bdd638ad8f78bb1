"""What holds for the whole operator: its greatest authority, and the ConfigMap that suspends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import NotFound, Object
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.recovery.supervision import Authority

HOUSE = "kafka-recovery-operator"
"""The name of the operator's own ConfigMap, whose key `suspend` stops everything, unless it was given another one."""


@dataclass(frozen=True, slots=True)
class House:
    """What holds for the whole operator: how far it may go, and why nothing may be elected, if so."""

    authority: Authority
    suspended: Reason | None = None


class Reads(Protocol):
    """All of the API that is needed for that."""

    async def get(self, path: str) -> Object:
        """An object."""
        ...


def house_path(key: Key) -> str:
    """Where the API keeps the operator's own ConfigMap."""
    return f"/api/v1/namespaces/{key[0]}/configmaps/{key[1]}"


async def read_house(api: Reads, key: Key, authority: Authority) -> House:
    """What the operator's own ConfigMap says now; `authority` is what it was started with. Raises ApiError."""
    try:
        data = (await api.get(house_path(key))).get("data") or {}
    except NotFound:
        return House(authority)
    if str(data.get("suspend", "false")).lower() in ("", "false"):
        return House(authority)
    return House(authority, Reason("Suspended", f"ConfigMap {key[0]}/{key[1]} says suspend: {data['suspend']}"))
