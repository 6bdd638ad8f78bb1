"""A Kubernetes whose controller makes a broker's Pod anew, for stories of Pods that are held back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kafka_recovery.kube.machinery.api import Conflict, Object
from kafka_recovery.kube.recoveries.hold_back import named_by
from kafka_recovery.kube.resources.admission import HELD_PODS_POLICY
from kafka_recovery.kube.resources.kinds import CLUSTERS, POLICIES, RECOVERIES
from unit.kube.clusters import strimzi
from unit.kube.journal.journals import NAME, NAMESPACE
from unit.kube.kubernetes_in_memory import over_the_wire
from unit.kube.office import Office
from unit.kube.our_objects import SILENT, OurObjects, inhabited, policy_in_force

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
POD = "prod-brokers-1"
PODS_OF_STRIMZI = "/apis/core.strimzi.io"
POD_SET = f"{PODS_OF_STRIMZI}/v1/namespaces/{NAMESPACE}/strimzipodsets/prod-brokers"
WAKING = f"patch {POD_SET}/status"


class PodSet(OurObjects):
    """A Kubernetes in which a deleted Pod of a broker is made anew at once, unless the API server refuses to.

    After a refusal Strimzi asks again once its StrimziPodSet has changed, as far as these tests go.
    `deaf`: how often it makes one although a recovery holds it back: its API server has not heard of that yet.
    `hears_after`: so long after a recovery's status it refuses the Pod that the status names no more.
    """

    def __init__(self, objects: OurObjects) -> None:
        super().__init__()
        self.objects = objects.objects
        self.deaf = 0
        self.hears_after = 0.0
        self.let_go_at = 0.0
        self.loses_an_answer = False
        """Whether the next Pod is let go and the answer is lost: who writes again is told of a conflict."""
        self.strimzi = True
        self.version = "v1"
        self.sets: list[Object] = []
        """What StrimziPodSets were changed to."""
        self.lingers = False
        self.shows_pods: int | None = None
        """So many looks at Pods are answered yet; None: all of them."""

    def runs(self, broker: int = 1, **like: Any) -> None:
        """There is such a Pod."""
        made = strimzi.pod(broker, **{"ready": False, "phase": "Pending", **like})
        made["metadata"] |= {"uid": f"uid-{next(self._numbers)}", "namespace": NAMESPACE}
        self._keep(f"{PODS}/{made['metadata']['name']}", made)

    def pod(self) -> Object | None:
        return self.objects.get(f"{PODS}/{POD}")

    def held(self, name: str = NAME) -> list[str]:
        """The Pods that the API server refuses to make."""
        recovery = self.objects[RECOVERIES.path(NAMESPACE, name)]
        over = recovery["spec"].get("abort") or recovery.get("status", {}).get("finished")
        return [] if over else list(named_by(recovery.get("status", {})).values())

    async def list_all(
        self, path: str, *, params: Mapping[str, str] | None = None, deadline: timedelta | None = None
    ) -> list[Object]:
        if path == PODS:
            self._read(path)
            if self.shows_pods is not None:
                self.shows_pods -= 1
                if self.shows_pods < 0:
                    raise SILENT
            return [each for at, each in self.objects.items() if at.startswith(f"{PODS}/")]
        return await super().list_all(path, params=params, deadline=deadline)

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        gone = self.objects.get(path)
        if gone and path.startswith(PODS) and self.lingers:
            self._write(f"delete {path}")
            gone["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:30Z"
            return
        await super().delete(path, uid=uid)
        if path == f"{PODS}/{POD}" and gone and self.makes_it_anew():
            self.runs()

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        if path == PODS_OF_STRIMZI and self.strimzi:
            self._read(path)
            return {"kind": "APIGroup", "preferredVersion": {"version": self.version}}
        return await super().get(path, deadline=deadline)

    async def apply_status(self, path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        lets_go = named_by(seen.get("status", {})) and not named_by(status)
        if lets_go:
            self.let_go_at = asyncio.get_running_loop().time()
        now = await super().apply_status(path, seen, status)
        if lets_go and self.loses_an_answer:
            self.loses_an_answer = False
            raise Conflict(409, "Conflict", "the object has been modified")
        return now

    async def patch(self, path: str, change: Mapping[str, Any], *, deadline: timedelta | None = None) -> Object:
        if not path.startswith(PODS_OF_STRIMZI):
            return await super().patch(path, change)
        self._write(f"patch {path}")
        self.sets.append(over_the_wire(change))
        heard = asyncio.get_running_loop().time() >= self.let_go_at + self.hears_after
        if self.pod() is None and heard and self.makes_it_anew():
            self.runs()
        return {}

    def makes_it_anew(self) -> bool:
        every = [path.rpartition("/")[2] for path in self.objects if path.startswith(RECOVERIES.path(NAMESPACE))]
        if not any(POD in self.held(name) for name in every):
            return True
        self.deaf -= 1
        return self.deaf >= 0


def held_back() -> PodSet:
    """The policy holds Pods back, and the dead broker's is about to start."""
    api = PodSet(inhabited())
    api.change(POLICIES, "rules", holdBack="pods")
    api.change(CLUSTERS, "prod", bootstrapServers=None, strimziRef={"name": "prod"})
    policy_in_force(api, HELD_PODS_POLICY)
    api.runs()
    return api


def wakings(api: OurObjects) -> list[str]:
    return [what for what in api.writes if PODS_OF_STRIMZI in what]


async def dies(office: Office) -> None:
    """The process ends without a word."""
    for each in list(office.all._open.values()):
        each.task.cancel()
        await asyncio.gather(each.task, return_exceptions=True)
    await office.queue.stop(timedelta(0))
