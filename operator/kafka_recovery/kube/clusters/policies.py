"""Reconciling RecoveryPolicy objects: their status says whether they hold, before anybody needs them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import Api, Conflict, NotFound
from kafka_recovery.kube.machinery.conditions import condition, merged
from kafka_recovery.kube.machinery.work_queue import Requeue
from kafka_recovery.kube.resources.kinds import POLICIES, read_policy
from kafka_recovery.kube.resources.objects import Key


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
            try:
                policy = read_policy(raw)
                status["digest"] = policy.digest
                count = len(policy.policy.rules)
                ready = condition("Ready", True, "Valid", f"{count} {'rule' if count == 1 else 'rules'}", generation)
            except InvalidDocument as invalid:
                ready = condition("Ready", False, "Invalid", str(invalid), generation)
            status["conditions"] = merged(raw.get("status", {}).get("conditions", ()), [ready], datetime.now(UTC))
            await self._api.apply_status(path, raw, status)
        except Conflict as lost:
            raise Requeue from lost
        except NotFound:
            return None
        return None
