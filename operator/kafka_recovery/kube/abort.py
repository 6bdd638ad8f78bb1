"""Ending an aborted recovery that nobody can work on: its cluster is gone, or no policy says what it is for."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafka_recovery.domain.documents import InvalidDocument
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.api import ApiError, Object
from kafka_recovery.kube.config_map_journal import ConfigMapJournal
from kafka_recovery.kube.objects import Objects
from kafka_recovery.kube.outages import Outage
from kafka_recovery.kube.resources import PartitionRecovery
from kafka_recovery.kube.told import Told
from kafka_recovery.recovery.ports import JournalUnwritable

_LOG = logging.getLogger(__name__)

_WHY = Reason("Aborted", "spec.abort is true; nobody could work on it, and no order is altered for it")


async def ended_unworked(
    raw: Object, recovery: PartitionRecovery, journal: ConfigMapJournal, objects: Objects, told: Told
) -> Sequence[Outage] | None:
    """End it; returns what its plan leaves without a leader. None: it has begun, so its orders are restored first."""
    try:
        if await journal.unfinished():
            return None
        left = await _let_plan_go(recovery.status.get("plan", {}).get("digest"), journal)
        await journal.settle()
    except (InvalidDocument, JournalUnwritable) as trouble:
        _LOG.warning("an aborted recovery can't end yet: %s", trouble)
        return None
    await _answer_all(raw, recovery, objects, told)
    await told.aborted(raw, _WHY, left)
    return left


async def _let_plan_go(digest: str | None, journal: ConfigMapJournal) -> Sequence[Outage]:
    plan = await journal.kept(digest) if digest else None
    if digest is None or plan is None:
        return ()
    await journal.discard(digest)
    led_by_nobody = (each for each in plan.evidence.partitions if each.leader is None)
    return tuple(Outage(each.id, each.topic_id, each.leader_epoch) for each in led_by_nobody)


async def _answer_all(raw: Object, recovery: PartitionRecovery, objects: Objects, told: Told) -> None:
    meta = raw["metadata"]
    try:
        said = await objects.approvals((meta["namespace"], meta["name"]))
    except (ApiError, InvalidDocument) as error:
        _LOG.warning("approvals can't be read, so none is answered any more: %s", error)
        return
    for approval in said:
        if approval.recovery_uid == recovery.meta.uid and not approval.answered:
            await told.answer(approval, Reason("TooLate", f"the recovery has ended: {_WHY}"))
