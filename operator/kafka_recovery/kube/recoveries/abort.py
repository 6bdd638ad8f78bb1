"""Ending an aborted recovery that nobody can work on: its cluster is gone, or no policy says what it is for."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.recoveries.approvals import too_late, unanswered
from kafka_recovery.kube.recoveries.status_writer import StatusWriter
from kafka_recovery.kube.resources.kinds import PartitionRecovery
from kafka_recovery.kube.resources.objects import Objects
from kafka_recovery.kube.watching.outages import Outage, outages_seen
from kafka_recovery.recovery.ports import JournalUnwritable

_LOG = logging.getLogger(__name__)

_WHY = Reason(Decisive.ABORTED, "spec.abort is true; nobody could work on it, and no order is altered for it")


async def ended_unworked(
    raw: Object, recovery: PartitionRecovery, journal: RecordJournal, objects: Objects, told: StatusWriter
) -> Sequence[Outage] | None:
    """End it; returns what its plan leaves without a leader. None: it has begun, so its orders are restored first.

    That they are, nobody but Kafka can say, which can't be asked here: what a record says of it counts for nothing.
    """
    try:
        if await journal.unfinished() or journal.never_shown or await journal.begun_plans():
            return None
        left = await _let_plan_go(recovery.status.get("plan", {}).get("digest"), journal)
        await journal.settle()
    except (InvalidDocument, JournalUnwritable) as trouble:
        _LOG.warning("an aborted recovery can't end yet: %s", trouble)
        return None
    for approval in await unanswered(objects, (recovery.meta.namespace, recovery.meta.name), recovery.meta.uid):
        await told.answer(approval.meta, too_late(_WHY))
    await told.aborted(raw, _WHY, left)
    return left


async def _let_plan_go(digest: str | None, journal: RecordJournal) -> Sequence[Outage]:
    plan = await journal.kept(digest) if digest else None
    if digest is None or plan is None:
        return ()
    await journal.discard(digest)
    return tuple(outages_seen(plan))
