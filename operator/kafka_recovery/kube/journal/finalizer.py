"""The finalizer that stands while an assignment order may be altered: who carries it waits for its restoration.

A PartitionRecovery carries it from the beginning of a run to its end, and its WatchedCluster with it: that says how the
Kafka is reached in which the orders are restored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafka_recovery.kube.journal.broken_records import unwritable
from kafka_recovery.kube.journal.facts import RecordsApi
from kafka_recovery.kube.machinery.api import ApiError, Conflict, NotFound, Object
from kafka_recovery.kube.machinery.status_changes import ATTEMPTS, OTHERS
from kafka_recovery.kube.resources.kinds import FINALIZER, Kind
from kafka_recovery.recovery.ports import JournalUnwritable


@dataclass(frozen=True, slots=True)
class OrderFinalizer:
    """Our own entry among one object's finalizers; others' stay. Raises JournalUnwritable."""

    api: RecordsApi
    kind: Kind
    namespace: str
    name: str
    uid: str

    async def put_on(self) -> Object:
        """From now on the object can't be deleted before we are done. One that is being deleted takes no more."""
        seen = await self._change(lambda there: [*there, FINALIZER] if FINALIZER not in there else there)
        if seen is None:
            raise JournalUnwritable(f"{self._name} is gone (it had uid {self.uid}): nothing of it is begun")
        return seen

    async def take_off(self) -> Object | None:
        """Nothing is left to undo. An object that is gone is fine."""
        return await self._change(lambda there: [each for each in there if each != FINALIZER])

    async def _change(self, wanted: Callable[[Sequence[str]], Sequence[str]]) -> Object | None:
        """The object with the finalizers wanted; None: it is gone, or another one has its name."""
        path = self.kind.path(self.namespace, self.name)
        for _ in range(ATTEMPTS):
            try:
                seen = await self.api.get(path)
                meta = seen["metadata"]
                there = meta.get("finalizers") or []
                finalizers = wanted(there)
                if meta["uid"] != self.uid:
                    return None
                if finalizers == there:
                    return seen
                if meta.get("deletionTimestamp") and len(finalizers) > len(there):
                    raise JournalUnwritable(f"{self._name} is being deleted: nothing of it is begun any more")
                guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
                return await self.api.patch(path, {"metadata": {**guard, "finalizers": finalizers}})
            except NotFound:
                return None
            except Conflict:
                continue
            except ApiError as error:
                raise unwritable(self._name, error) from error
        raise JournalUnwritable(f"{self._name} can't be written: {OTHERS}")

    @property
    def _name(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"
