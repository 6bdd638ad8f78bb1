"""The finalizer that stands while an assignment order may be altered: a PartitionRecovery waits for its restoration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_recovery.kube.journal.facts import RecordsApi, RecoveryRef, unwritable
from kafka_recovery.kube.machinery.api import ApiError, Conflict, NotFound, Object
from kafka_recovery.kube.resources.kinds import FINALIZER, RECOVERIES
from kafka_recovery.recovery.ports import JournalUnwritable


@dataclass(frozen=True, slots=True)
class OrderFinalizer:
    """Our own entry among one recovery's finalizers; others' stay. Raises JournalUnwritable."""

    api: RecordsApi
    namespace: str
    recovery: RecoveryRef

    ATTEMPTS: Final = 10
    """How often somebody else may have written the object between our reading and writing it."""

    async def put_on(self) -> None:
        """From now on the recovery can't be deleted before we are done. One that is being deleted takes no more."""
        seen = await self._change(lambda there: [*there, FINALIZER] if FINALIZER not in there else there)
        if seen is None:
            raise JournalUnwritable(f"{self._name} is gone (it had uid {self.recovery.uid}): nothing of it is begun")

    async def take_off(self) -> None:
        """Nothing of the recovery is left to undo. One that is gone is fine."""
        await self._change(lambda there: [each for each in there if each != FINALIZER])

    async def _change(self, wanted: Callable[[Sequence[str]], Sequence[str]]) -> Object | None:
        """The recovery with the finalizers wanted; None: it is gone, or another one has its name."""
        path = RECOVERIES.path(self.namespace, self.recovery.name)
        for _ in range(self.ATTEMPTS):
            try:
                seen = await self.api.get(path)
                meta = seen["metadata"]
                there = meta.get("finalizers") or []
                finalizers = wanted(there)
                if meta["uid"] != self.recovery.uid:
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
        raise JournalUnwritable(f"{self._name} can't be written: others write it all the time ({self.ATTEMPTS} tries)")

    @property
    def _name(self) -> str:
        return f"PartitionRecovery {self.namespace}/{self.recovery.name}"
