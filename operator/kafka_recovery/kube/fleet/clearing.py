"""Clearing away what finished runs left: their SparkApplications with all Pods, and the copies of their policies."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_recovery.kube.fleet.dialect import PLURAL
from kafka_recovery.kube.fleet.naming import RANKING_LABEL, RUN_LABEL
from kafka_recovery.kube.fleet.runs import Memory
from kafka_recovery.kube.fleet.spark_operators import DIALECTS, SparkOperators
from kafka_recovery.kube.machinery.api import Api, Conflict, Object
from kafka_recovery.kube.resources.kinds import Meta


@dataclass(frozen=True, slots=True)
class Clearing:
    """Looks for objects, not into a memory: what a lost attempt left goes as well. Raises ApiError."""

    api: Api
    operators: SparkOperators

    async def clear(self, ranking: Meta, memory: Memory) -> None:
        """Delete all of the ranking's own that belongs to no run in its status."""
        kept = {run.name for run in memory.runs} | ({memory.active.name} if memory.active else set())
        collections = [f"/api/v1/namespaces/{ranking.namespace}/configmaps"]
        for dialect in DIALECTS.values():
            if await self.operators.serves(dialect):
                collections.append(f"/apis/{dialect.api}/namespaces/{ranking.namespace}/{PLURAL}")
        for path in collections:
            for each in await self.api.list_all(path, params={"labelSelector": f"{RANKING_LABEL}={ranking.name}"}):
                if _is_of(each, ranking) and each["metadata"]["labels"].get(RUN_LABEL) not in kept:
                    await self._delete(path, each)

    async def _delete(self, path: str, each: Object) -> None:
        try:
            await self.api.delete(f"{path}/{each['metadata']['name']}", uid=each["metadata"]["uid"])
        except Conflict:  # another one under this name by now
            return


def _is_of(each: Object, ranking: Meta) -> bool:
    return any(owner.get("uid") == ranking.uid for owner in each["metadata"].get("ownerReferences") or ())
