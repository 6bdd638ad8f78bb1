"""What a journal holds of plans that are over, or were never begun: what is told of them, and what is done away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.recoveries.pauses import Pauses
from kafka_recovery.kube.recoveries.progress import Progress
from kafka_recovery.kube.recoveries.status import plan_now
from kafka_recovery.kube.resources.kinds import FINALIZER
from kafka_recovery.recovery.engine import Engine

_LOG = logging.getLogger(__name__)

Refusals = frozenset[tuple[TopicPartition, str | None]]
"""Partitions, and why each is not elected."""


async def remembered(journal: RecordJournal, progress: Progress) -> Mapping[str, Plan]:
    """What earlier plans may have lost is told on; that one of them can't be read any more holds nothing up."""
    try:
        ended = await journal.ended()
    except InvalidDocument as damaged:
        _LOG.warning("what an earlier plan may have lost can't be told any more: %s", damaged)
        return {}
    for digest, plan in ended.items():
        progress.carried_out(plan, await asyncio.to_thread(plan_now, plan, digest))
    return ended


async def left_altered(journal: RecordJournal, engine: Callable[[], Engine]) -> Reason | None:
    """Which order is altered by a plan of which only records say that it has ended: others may write them.

    A plan that this process carried out or took over itself needs no look: its orders were read back.
    """
    for digest, plan in (await journal.begun_plans()).items():
        if digest in journal.finished_here:
            continue
        if altered := await engine().left_altered(plan):
            return Reason(
                "OrderNotRestored",
                f"the journal says that plan {digest[:12]} has ended, but {len(altered)} partitions stand in the "
                f"order that it set, or can't be seen, the first: {altered[0]}. Put their orders back with "
                "kafka-reassign-partitions, then the recovery ends; look who may write RecoveryRecords here. If "
                f"that order is the one you want, delete the recovery, and take its finalizer {FINALIZER} off",
            )
    return None


async def discard_unbegun(journal: RecordJournal, progress: Progress, *, replaced: bool = False) -> None:
    """A plan that will never be begun goes with the recovery; of those that were replaced the oldest go now."""
    shown = progress.plan_shown
    begun = {run.digest for run in await journal.unfinished()}
    if journal.never_shown:
        return  # a person compares first what is there, and deletes last
    if shown and shown.digest not in begun and await journal.kept(shown.digest):
        await journal.discard(shown.digest)
        for digest in progress.history.surplus() if replaced else ():
            if not await journal.has_begun(digest):  # one that dropped out before its first wave has
                await journal.forget(digest)


async def kept_refusals(journal: RecordJournal, progress: Progress, before: Refusals) -> Refusals:
    """Keep a plan that elects nobody as well, once for each cause, so that its refusals can be explained.

    `before`: those of the plan that was kept last; returns what they are now.
    """
    plan = progress.decided_last
    if plan is None or plan.elections:
        return before
    causes = frozenset((each.id, each.reason.code if each.reason else None) for each in plan.decisions)
    if causes != before:
        await discard_unbegun(journal, progress, replaced=True)
        progress.planned(plan, await journal.record(plan))
    return causes


async def until_mended(journal: RecordJournal, pauses: Pauses) -> None:
    """Nobody tells that a record is there again, or gone; what a record says is read again once one is."""
    before = await _versions(journal)

    async def changed() -> bool:
        return (now := await _versions(journal)) is None or now != before

    await pauses.seldom(changed)


async def _versions(journal: RecordJournal) -> frozenset[tuple[str, str]] | None:
    """None: they can't be listed."""
    try:
        return await journal.versions()
    except ApiError as error:
        _LOG.warning("the journal can't be listed: %s", error)
        return None
