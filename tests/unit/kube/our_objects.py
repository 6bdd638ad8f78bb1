"""Our own resources in a small Kubernetes: what people write into them, and what the operator makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from kafka_recovery.kube.machinery.api import ApiError, Conflict, Object
from kafka_recovery.kube.machinery.applied import says
from kafka_recovery.kube.resources.kinds import API_VERSION, APPROVALS, CLUSTERS, POLICIES, RECOVERIES, Kind
from unit.kube.journal.journals import NAME, NAMESPACE, UID
from unit.kube.kubernetes_in_memory import KubernetesInMemory, over_the_wire
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import ORDERS

KEY = (NAMESPACE, NAME)
PROD = (NAMESPACE, "prod")
SILENT = ApiError(503, "ServiceUnavailable", "etcd has no leader")


class OurObjects(KubernetesInMemory):
    """As much of `Api` as the operator's own parts use. `unread`: a part of the paths that get no answer.

    `refusing`: which writes are refused, by what they say: "create <path>", "patch <path>".
    """

    def __init__(self) -> None:
        super().__init__()
        self.unread: str | None = None
        self.refusing: Callable[[str], bool] = lambda what: False
        self.reads: list[str] = []
        self.versions_read: list[str] = []
        self.statuses: list[Object] = []

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        self._read(path)
        return await super().get(path)

    async def metadata(self, path: str, *, deadline: timedelta | None = None) -> Object:
        self.versions_read.append(path)
        await asyncio.sleep(0.01)
        found: Object = (await super().get(path))["metadata"]
        return found

    async def list_all(
        self, path: str, *, params: Mapping[str, str] | None = None, deadline: timedelta | None = None
    ) -> list[Object]:
        self._read(path)
        found = await super().list_all(path, params=params)
        return [each for each in found if _selected(each, (params or {}).get("fieldSelector"))]

    async def apply_status(self, path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        now = await self.get(path)
        if says(seen, status) and now.get("status", {}).keys() == status.keys():
            return now
        if now["metadata"]["resourceVersion"] != seen["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", f'"{path}" has been modified', path)
        self._write(f"status {path}")
        self.statuses.append(dict(status))
        self._keep(path, now | {"status": over_the_wire(status)})
        return await self.get(path)

    def put(self, kind: Kind, name: str, spec: Object, status: Object | None = None, **meta: Any) -> Object:
        """Somebody creates an object, or changes the spec of the one that is there."""
        path = kind.path(NAMESPACE, name)
        old = self.objects.get(path, {"metadata": {"generation": 0}})
        made = {
            "apiVersion": API_VERSION,
            "kind": kind.kind,
            "metadata": {
                "namespace": NAMESPACE,
                "name": name,
                "uid": f"uid-{next(self._numbers)}",
                "creationTimestamp": f"{self.now:%Y-%m-%dT%H:%M:%SZ}",
                **old["metadata"],
                "generation": old["metadata"]["generation"] + 1,
                **meta,
            },
            "spec": spec,
            "status": old.get("status", {}) if status is None else status,
        }
        self._keep(path, made)
        return made

    def change(self, kind: Kind, name: str, **fields: Any) -> None:
        """Somebody sets fields of a spec; None takes one away."""
        spec = self.objects[kind.path(NAMESPACE, name)]["spec"] | fields
        self.put(kind, name, {field: value for field, value in spec.items() if value is not None})

    def remove(self, kind: Kind, name: str) -> None:
        """It is gone, whatever held it."""
        del self.objects[kind.path(NAMESPACE, name)]

    def approve(self, digest: str, name: str = "yes", *, decision: str = "Approve", **fields: Any) -> Object:
        """Somebody says something about a plan of the recovery."""
        spec = {"recoveryRef": {"name": NAME, "uid": UID}, "planDigest": digest, "approver": "ann"}
        return self.put(APPROVALS, name, {**spec, "decision": decision, **fields})

    def remove_approval(self, name: str) -> None:
        """Somebody deletes it."""
        self.remove(APPROVALS, name)

    def recovery(self, name: str = NAME) -> Object:
        """As it is now."""
        return self.objects[RECOVERIES.path(NAMESPACE, name)]

    def _read(self, path: str) -> None:
        self.reads.append(path)
        if self.unread and self.unread in path:
            raise SILENT

    def _write(self, what: str) -> BaseException | None:
        if self.refusing(what):
            self.writes.append(what)
            raise ApiError(403, "Forbidden", "exceeded quota", what.partition(" ")[2])
        return super()._write(what)


POLICIES_OF_ADMISSION = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")


def policy_in_force(api: KubernetesInMemory, name: str, since: str = "2026-01-01T00:00:00Z") -> None:
    """An admission policy of ours and its binding are there since then, never changed."""
    for plural in POLICIES_OF_ADMISSION:
        path = f"/apis/admissionregistration.k8s.io/v1/{plural}/{name}"
        spec = {"policyName": name, "validationActions": ["Deny"]}
        api._keep(
            path, {"metadata": {"uid": f"{plural}-{name}", "creationTimestamp": since, "generation": 1}, "spec": spec}
        )


def inhabited(*partitions: Any, approval: str = "AutoApprove", **limits: Any) -> OurObjects:
    """A cluster with full authority, its policy with one rule, and one recovery of these partitions."""
    api = OurObjects()
    where = {"clusterId": CLUSTER, "bootstrapServers": ["kafka:9092"]}
    api.put(CLUSTERS, "prod", {**where, "policyRef": {"name": "rules"}, "authority": "Automatic"})
    rules = [{"name": "rule", "approval": approval, "patience": "30s"}]
    api.put(POLICIES, "rules", {"rules": rules, "limits": {"waveSizes": [500], **limits}})
    scope = [{"topic": id.topic, "partition": id.partition} for id in partitions or (ORDERS,)]
    spec = {"clusterRef": {"name": "prod"}, "clusterId": CLUSTER, "scope": {"partitions": scope}}
    api.put(RECOVERIES, NAME, spec, uid=UID)
    return api


def _selected(each: Object, selector: str | None) -> bool:
    if not selector:
        return True
    field, _differs, wanted = selector.replace("!=", "=!").partition("=")
    value: Any = each
    for part in field.split("."):
        value = value.get(part, {}) if isinstance(value, dict) else {}
    said = str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else ""
    return said != wanted[1:] if wanted.startswith("!") else said == wanted
