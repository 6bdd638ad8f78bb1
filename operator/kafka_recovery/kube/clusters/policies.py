"""Reconciling RecoveryPolicy objects: their status says whether they hold, before anybody needs them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import Api, NotFound
from kafka_recovery.kube.machinery.conditions import Standing, merged, standing
from kafka_recovery.kube.machinery.status_changes import write_status
from kafka_recovery.kube.resources.kinds import POLICIES, read_policy
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.resources.unknown import ASKED, NONE, told


class Policies:
    """Nothing is remembered: who uses a policy reads it afresh."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def reconcile(self, key: Key) -> timedelta | None:
        """Write one policy's status."""
        path = POLICIES.path(*key)
        try:
            raw = await self._api.get(path)
            generation = int(raw["metadata"]["generation"])
            status: dict[str, Any] = {"observedGeneration": generation}
            unknown = NONE
            try:
                policy = read_policy(raw)
                status["digest"], unknown = policy.digest, policy.unknown
                count = len(policy.policy.rules)
                how, why = Standing.DONE, Reason("AsExpected", f"{count} {'rule' if count == 1 else 'rules'}")
            except InvalidDocument as invalid:
                how, why = Standing.STUCK, Reason("InvalidSpec", str(invalid))
            said = standing(how, why.code, why.message, generation)
            now = datetime.now(UTC)
            status["conditions"] = merged(raw.get("status", {}).get("conditions", ()), said, now)
            await write_status(self._api, path, raw, told(status, unknown, ASKED, raw, now))
        except NotFound:
            return None
        return None
