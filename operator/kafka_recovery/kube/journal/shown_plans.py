"""The plans that the status of a PartitionRecovery names: those alone are carried out, whatever RecoveryRecords say.

Neither is written by people: no role of ours lets them. So to forge a run takes both. A plan's digest stands in the
status before the first fact says that it began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_recovery.kube.journal.broken_records import unwritable
from kafka_recovery.kube.journal.facts import RecoveryRef
from kafka_recovery.kube.machinery.api import ApiError, Conflict, NotFound
from kafka_recovery.kube.machinery.status_changes import OTHERS, Statuses, change_status
from kafka_recovery.kube.resources.kinds import FINALIZER, RECOVERIES
from kafka_recovery.recovery.ports import JournalUnwritable

BEGUN = "begun"
"""The status's field that names them; it is written here alone."""
MOST = 256
"""Plans that a status names: a recovery begins one at a time, and what ended without an election is forgotten."""


@dataclass(frozen=True, slots=True)
class Named:
    """Digests that a status names: of plans that were begun, the oldest first, and of the one that people see."""

    begun: tuple[str, ...] = ()
    shown: str | None = None

    @classmethod
    def by(cls, status: Mapping[str, Any], uid: str) -> Named:
        """What a status names; one that was restored from a backup of another object names no plan as begun."""
        begun = status.get(BEGUN) or {}
        plans = begun.get("plans", ()) if begun.get("recoveryUid") == uid else ()
        return cls(tuple(plans), (status.get("plan") or {}).get("digest"))


@dataclass(frozen=True, slots=True)
class ShownPlans:
    """Reads and writes them, for one recovery. Reading raises ApiError, writing JournalUnwritable."""

    api: Statuses
    namespace: str
    recovery: RecoveryRef

    async def named(self) -> Named:
        """What the status names now; nothing, if the recovery is gone."""
        try:
            seen = await self.api.get(self._path)
        except NotFound:
            return Named()
        if seen["metadata"]["uid"] != self.recovery.uid:
            return Named()
        return Named.by(seen.get("status") or {}, self.recovery.uid)

    async def altering(self) -> str | None:
        """The plan that was begun last, while our finalizer stands; None: no order is altered."""
        try:
            seen = await self.api.get(self._path)
        except NotFound:
            return None
        meta = seen["metadata"]
        if meta["uid"] != self.recovery.uid or FINALIZER not in (meta.get("finalizers") or ()):
            return None
        return next(reversed(Named.by(seen.get("status") or {}, self.recovery.uid).begun), None)

    async def begin(self, digest: str, is_kept: Callable[[str], bool]) -> Collection[str]:
        """Name a plan as begun; returns all that are. Of earlier ones those stay of which something `is_kept`."""

        def named(before: Sequence[str]) -> Sequence[str]:
            return before if digest in before else _newest((*filter(is_kept, before), digest))

        begun = await self._change(named)
        if begun is None:
            raise JournalUnwritable(f"{self._name} is gone (it had uid {self.recovery.uid}): nothing of it is begun")
        if digest not in begun:  # what a definition lacks is left out of a status
            why = f"its status does not keep `{BEGUN}`: is its CustomResourceDefinition older than the operator?"
            raise JournalUnwritable(f"plan {digest[:12]} of {self._name} is not begun, for {why}")
        return begun

    async def forget(self, digest: str) -> None:
        """Name a plan as begun no more: no fact says that it was, and it goes. A recovery that is gone is fine."""
        await self._change(lambda before: [each for each in before if each != digest] if digest in before else before)

    async def _change(self, wanted: Callable[[Sequence[str]], Sequence[str]]) -> Sequence[str] | None:
        """The plans that are named as begun now; None: the recovery is gone, or another one has its name."""
        uid = self.recovery.uid

        def changed(status: Mapping[str, Any]) -> Mapping[str, Any]:
            before = Named.by(status, uid).begun
            plans = wanted(before)
            if plans is before:
                return status
            return {**status, BEGUN: {"recoveryUid": uid, "plans": list(plans)}}

        try:
            now = await change_status(self.api, self._path, uid, changed)
        except Conflict as lost:
            raise JournalUnwritable(f"the status of {self._name} can't be written: {OTHERS}") from lost
        except ApiError as error:
            raise unwritable(f"the status of {self._name}", error) from error
        return None if now is None else Named.by(now.get("status") or {}, uid).begun

    @property
    def _path(self) -> str:
        return RECOVERIES.path(self.namespace, self.recovery.name)

    @property
    def _name(self) -> str:
        return f"PartitionRecovery {self.namespace}/{self.recovery.name}"


def _newest(plans: Iterable[str]) -> list[str]:
    return list(plans)[-MOST:]
