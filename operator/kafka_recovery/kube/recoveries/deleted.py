"""A deletion of a recovery waits until its orders are restored, and not for ever."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.recoveries.status_writer import StatusWriter
from kafka_recovery.kube.resources.kinds import FINALIZER

AGAIN = timedelta(seconds=10)
"""So often it is looked at meanwhile."""
GIVE_UP_UNDOING = timedelta(minutes=10)
"""So long a deletion waits for orders to be restored, counted from when Kafka could be reached for it."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """Lets deleted recoveries go in the end, though orders of theirs may be altered, and says so."""

    told: StatusWriter

    async def undoing(
        self, raw: Object, journal: RecordJournal, cluster: OpenCluster, since: datetime | None
    ) -> datetime | None:
        """After ten minutes with a Kafka that answers, the finalizer comes off; returns since when it has answered.

        Where that Kafka can't be opened again, after ten minutes in all.
        """
        if not _leaving_for(raw):
            return since
        if cluster.only_restores:
            await self.let_go_in_time(raw, journal, cluster.only_restores)
            return since
        if not cluster.reachable():
            return None
        now = datetime.now(UTC)
        since = since or now
        if now - since >= GIVE_UP_UNDOING:
            await self._let_go(raw, journal, "its assignment orders could not be restored in ten minutes")
        return since

    async def let_go_in_time(self, raw: Object, journal: RecordJournal, why: Reason) -> timedelta | None:
        """The same where there is no run that could restore anything, and why; returns when to look again."""
        leaving = _leaving_for(raw)
        if leaving >= GIVE_UP_UNDOING:
            await self._let_go(raw, journal, f"ten minutes after its deletion no order could be restored for it: {why}")
        return AGAIN if leaving else None

    async def _let_go(self, raw: Object, journal: RecordJournal, why: str) -> None:
        await journal.let_go()
        await self.told.let_go(raw, why)


def _leaving_for(raw: Object) -> timedelta:
    """How long its deletion has waited for us; zero: it does not."""
    meta = raw["metadata"]
    since = meta.get("deletionTimestamp")
    waits = since and FINALIZER in (meta.get("finalizers") or ())
    return datetime.now(UTC) - datetime.fromisoformat(since) if waits else timedelta(0)
