"""Strimzi's StrimziPodSets, as far as we touch them: one is woken, so that Strimzi makes its missing Pods at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Protocol

from kafka_recovery.kube.machinery.api import ApiError, NotFound, Object
from kafka_recovery.kube.machinery.conditions import instant

GROUP = "core.strimzi.io"

_DEADLINE = timedelta(seconds=3)
"""For each question: a recovery waits for the answer, and Strimzi looks without us within five minutes."""


class PodSetsApi(Protocol):
    """What of the API is needed here; see `kube.machinery.api.Api`."""

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        """An object."""
        ...

    async def patch(self, path: str, change: Mapping[str, Any], *, deadline: timedelta | None = None) -> Object:
        """Change an object by a merge patch."""
        ...


@dataclass(frozen=True, slots=True)
class PodSets:
    """Those of one namespace."""

    api: PodSetsApi
    namespace: str

    async def wake(self, name: str, why: str) -> bool:
        """Have Strimzi look at this one at once; False: there is none, so Strimzi makes no Pods of it. Raises ApiError.

        Strimzi looks whenever any part of one changes, and then writes the status as it finds it (seen in 1.2). So its
        status is changed, and no more: the right to change the rest is the right to run any Pod in the namespace.
        """
        said = {"type": "PodsLetGo", "status": "True", "reason": "PodLetGo", "message": why}
        change = {"status": {"conditions": [said | {"lastTransitionTime": instant(datetime.now(UTC))}]}}
        try:
            known = await self.api.get(f"/apis/{GROUP}", deadline=_DEADLINE)
            version = known["preferredVersion"]["version"]  # all that there were have the same conditions
            where = f"/apis/{GROUP}/{version}/namespaces/{self.namespace}/strimzipodsets"
            await self.api.patch(f"{where}/{name}/status", change, deadline=_DEADLINE)
        except NotFound:
            return False
        return True


def pod_set_of(pod: str) -> str:
    """The StrimziPodSet of a broker's Pod: Strimzi names Pods `<StrimziPodSet>-<node id>`."""
    return pod.rpartition("-")[0]


def not_woken(name: str, namespace: str, error: ApiError) -> str:
    """What is said where one can't be woken, with the command that does it."""
    lacks_our_right = error.status == HTTPStatus.FORBIDDEN and error.path.endswith("/status")
    allows = "; manifests/rbac/optional/hold-back.yaml allows it" if lacks_our_right else ""
    command = f'kubectl annotate strimzipodset {name} --namespace {namespace} woken="$(date +%s)" --overwrite'
    return (
        f"Strimzi may make the Pods of StrimziPodSet {name} five minutes late: it can't be woken "
        f"({error.message}{allows}). To have it look at once: {command}"
    )
