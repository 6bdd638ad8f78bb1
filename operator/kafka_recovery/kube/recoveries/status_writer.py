"""What people are told of a recovery: its status, events where it takes a turn, and an answer to each approval."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import Api, ApiError, Object
from kafka_recovery.kube.machinery.conditions import condition, condition_of, merged
from kafka_recovery.kube.machinery.events import LONGEST_NOTE, Events
from kafka_recovery.kube.machinery.logs import about
from kafka_recovery.kube.machinery.news import News
from kafka_recovery.kube.machinery.status_changes import write_status
from kafka_recovery.kube.recoveries.hold_back import is_over, let_go_of, named_by
from kafka_recovery.kube.recoveries.pods_again import PodsAgain
from kafka_recovery.kube.recoveries.status import Known, Phase, aborted, status_of, untaken
from kafka_recovery.kube.resources import unknown
from kafka_recovery.kube.resources.kinds import (
    APPROVALS,
    FINALIZER,
    RECOVERIES,
    Meta,
    PartitionRecovery,
    RecoveryApproval,
    heard,
)
from kafka_recovery.kube.watching.outages import Outage

_LOG = logging.getLogger(__name__)


class StatusWriter:
    """Writes what is known; a status that another wrote meanwhile raises Requeue."""

    def __init__(self, api: Api, events: Events) -> None:
        self._api = api
        self._events = events
        self._news = News()
        self.pods_again = PodsAgain(api, self.held_back)

    async def known(self, raw: Object, recovery: PartitionRecovery, known: Known) -> bool:
        """The status of a recovery that has its run; False: the object is gone."""
        now = datetime.now(UTC)
        status = status_of(known, recovery.meta.generation, recovery.status, now)
        asked = known.plan if known.phase is Phase.AWAITING_APPROVAL else None
        told = unknown.told(status, recovery.unknown, unknown.ASKED, raw, now)
        return await self._write(raw, told, asked.opens if asked else ())

    async def untaken(self, raw: Object, why: Reason, *, stuck: bool) -> None:
        """The status of a recovery whose journal was not read yet: the plan that people see must not go from it.

        It keeps no Pod away, unless it has begun and goes on: nobody may ever come who would let go.
        """
        meta, old = raw["metadata"], raw.get("status", {})
        status = untaken(why, meta["generation"], old, datetime.now(UTC), stuck=stuck)
        has_begun = FINALIZER in meta.get("finalizers", ())
        await self._write(raw, status if has_begun and not is_over(raw) else let_go_of(status))

    async def aborted(self, raw: Object, why: Reason, left: Sequence[Outage]) -> None:
        """The last status of a recovery that ends without a run."""
        meta, old = raw["metadata"], raw.get("status", {})
        await self._write(raw, aborted(why, meta["generation"], old, datetime.now(UTC), left))

    async def news(self, raw: Object, news: list[Reason]) -> None:
        """Events of what came and went between two looks."""
        while news:
            why = news.pop(0)
            await self._events.say(raw, "Warning", why.code, "Approve", why.message)

    async def held_back(self, raw: Object, why: Reason, good: bool) -> None:
        """That a Pod is held back, is not, or is let go."""
        await self._events.say(raw, "Normal" if good else "Warning", why.code, "HoldBack", why.message)

    async def let_go(self, raw: Object, why: str) -> None:
        """That a deleted recovery goes though orders of its may be altered."""
        message = f"{why}; the journal stays, and who watches its Kafka restores what it names"
        await self._events.say(raw, "Warning", "OrphanedJournal", "Undo", message)

    async def answer(self, approval: Meta, against: Reason | None) -> bool:
        """Say to the author of an approval whether it counts; False: it could not be said."""
        path = APPROVALS.path(approval.namespace, approval.name)
        reason = against or Reason("AsExpected", "it holds for the plan of this recovery")
        said = condition("Accepted", against is None, reason.code, reason.message, approval.generation)
        try:
            seen = await self._api.get(path)
            old, now = seen.get("status", {}).get("conditions", []), datetime.now(UTC)
            status = unknown.told({"conditions": merged(old, [said], now)}, _unknown(seen), _NOT_HEARD, seen, now)
            await self._api.apply_status(path, seen, status)
        except ApiError as error:
            _LOG.warning("approval %s can't be answered: %s", approval.name, error)
            return False
        if against and against.code not in {each.get("reason") for each in old}:
            await self._events.say(seen, "Warning", against.code, "Approve", against.message)
        return True

    async def _write(self, raw: Object, status: dict[str, Any], opens: Sequence[str] = ()) -> bool:
        """`opens`: what its event tells besides, as far as there is room."""
        meta = raw["metadata"]
        if await write_status(self._api, RECOVERIES.path(meta["namespace"], meta["name"]), raw, status) is None:
            return False
        before, after = condition_of(raw.get("status"), "Ready"), condition_of(status, "Ready")
        if self._news.is_told(meta["uid"], before, after):
            turn = Reason(after["reason"], after["message"])
            stalled = condition_of(status, "Stalled").get("status") == "True"
            with about(recovery=f"{meta['namespace']}/{meta['name']}"):
                _LOG.log(logging.WARNING if stalled else logging.INFO, "%s", turn)
            await self._events.say(
                raw, "Warning" if stalled else "Normal", turn.code, "Recover", with_card(opens, turn.message)
            )
        held, holds = named_by(raw.get("status") or {}), named_by(status)
        await self.pods_again.let_go((meta["namespace"], meta["name"]), raw, {*held.values()} - {*holds.values()})
        return True


def with_card(sentences: Sequence[str], message: str) -> str:
    """The message, and as many of the sentences as an event has room for: none is cut off before its condition."""
    for each in sentences:
        longer = f"{message.removesuffix('.')}. {each}"
        if len(longer.encode()) > LONGEST_NOTE:
            break
        message = longer
    return message


_NOT_HEARD = "a yes does not count"


def _unknown(approval: Object) -> unknown.UnknownFields:
    """What stands in an approval that is not known here."""
    said = heard(approval)
    return said.unknown if isinstance(said, RecoveryApproval) else unknown.NONE
