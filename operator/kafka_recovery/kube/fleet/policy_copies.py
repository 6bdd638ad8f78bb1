"""The policy of an attempt, in an immutable ConfigMap that its driver sees: what is edited later changes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass

from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.fleet import naming
from kafka_recovery.kube.fleet.applications import refuse_if_going
from kafka_recovery.kube.fleet.ports import NotOurs
from kafka_recovery.kube.fleet.resource import FleetRanking
from kafka_recovery.kube.fleet.runs import Active
from kafka_recovery.kube.machinery.api import AlreadyExists, Api, NotFound, Object
from kafka_recovery.kube.machinery.applied import FIELD_MANAGER
from kafka_recovery.kube.resources.kinds import POLICIES, read_policy


class PolicyChanged(Exception):
    """The policy is another one than the attempt was to run under, and no copy was made of that one."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


class PolicyLost(Exception):
    """There is no policy to copy any more."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PolicyCopies:
    """Raises ApiError."""

    api: Api

    async def digest(self, ranking: FleetRanking) -> str | Reason:
        """Of the policy as it is now, or why there is none."""
        found = await self._read(ranking)
        return found if isinstance(found, Reason) else found[0]

    async def keep(self, ranking: FleetRanking, active: Active) -> None:
        """Have a copy for the attempt. Raises PolicyChanged, PolicyLost, NotOurs, PreviousObjectsTerminating."""
        path = f"/api/v1/namespaces/{ranking.meta.namespace}/configmaps"
        if await self._there(f"{path}/{active.application}", ranking):
            return
        found = await self._read(ranking)
        if isinstance(found, Reason):
            raise PolicyLost(found)
        digest, spec = found
        if digest != active.policy_digest:
            raise PolicyChanged(digest)
        try:
            await self.api.create(path, _copy(ranking, active, spec))
        except AlreadyExists:
            await self._there(f"{path}/{active.application}", ranking)

    async def _there(self, path: str, ranking: FleetRanking) -> bool:
        try:
            found = await self.api.get(path)
        except NotFound:
            return False
        if not any(each.get("uid") == ranking.meta.uid for each in found["metadata"].get("ownerReferences") or ()):
            refuse_if_going(found, naming.owner(ranking.meta))
            raise NotOurs(f"a ConfigMap {found['metadata']['name']} is there, and not of this FleetRanking")
        return True

    async def _read(self, ranking: FleetRanking) -> tuple[str, Object] | Reason:
        name = ranking.spec.policy_ref.name
        try:
            raw = await self.api.get(POLICIES.path(ranking.meta.namespace, name))
            policy = read_policy(raw)  # the job is of this release, and refuses what that does not know
            return policy.digest, dict(policy.spec)
        except NotFound:
            return Reason("InvalidReference", f"there is no RecoveryPolicy {name}")
        except InvalidDocument as invalid:
            return Reason("InvalidSpec", str(invalid))


def _copy(ranking: FleetRanking, active: Active, spec: Object) -> Object:
    owner = naming.owner(ranking.meta)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": active.application,
            "namespace": ranking.meta.namespace,
            "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER, **naming.labels(ranking.meta, active.name)},
            "ownerReferences": [
                {
                    "apiVersion": owner.api_version,
                    "kind": owner.kind,
                    "name": owner.name,
                    "uid": owner.uid,
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "immutable": True,
        "data": {naming.POLICY_FILE: json.dumps(spec, sort_keys=True)},
    }
