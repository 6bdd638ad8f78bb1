"""Leaders that a FleetRanking chose, for a recovery that names one: each is designated, and passes the same guards.

They stand in the FleetRanking's status, which only the fleet operator may write. No storage is read here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Protocol

from kafka_recovery.decision.planner import open_to_ranking
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan, Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest_of_canonical
from kafka_recovery.kube.fleet.fields import Task
from kafka_recovery.kube.fleet.leaders import unpacked
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.fleet.runs import Run, Unreadable, remembered
from kafka_recovery.kube.machinery.api import ApiError, NotFound, NotServed, Object
from kafka_recovery.kube.recoveries.progress import Progress
from kafka_recovery.kube.recoveries.status import RankedBy
from kafka_recovery.kube.resources.kinds import RANKINGS, PartitionRecovery
from kafka_recovery.kube.resources.objects import SOON

_WAY_OUT = "; or make a recovery without rankingRef"

_MAY_PASS = frozenset({Decisive.RANKING_NOT_READY, Decisive.OBJECTS_UNREADABLE})
"""What waiting may mend; the rest wants a person."""


class Rankings(Protocol):
    """All of the API that is needed for that."""

    async def get(self, path: str, *, deadline: timedelta) -> Object:
        """An object."""
        ...


class RankedLeaders:
    """Of one recovery. `ranked` is filled when its leaders are known, and stays as it is from then on.

    It tells how many elections have the leader that the ranking named for them: not each of its words is heeded.
    The run that an earlier process took is kept to as long as the ranking knows it: a newer one would change a plan
    that somebody is reading.
    """

    def __init__(
        self,
        api: Rankings,
        recovery: PartitionRecovery,
        scope: Collection[TopicPartition],
        ranked: dict[TopicPartition, Ranked],
        progress: Progress,
    ) -> None:
        self._api = api
        self._ranking = recovery.ranking_name
        self._namespace = recovery.meta.namespace
        self._cluster_id = recovery.cluster_id
        self._scope = frozenset(scope)
        self._ranked = ranked
        self._designated = recovery.designated
        self._progress = progress
        progress.ranked = _told_before(recovery.status)
        progress.noted = self.note
        self._run: Run | None = None
        self._elected: dict[TopicPartition, Ranked] = {}
        """By all plans, those whose leader the ranking may have named."""

    def note(self, plan: Plan) -> None:
        """A plan was made, or an earlier process carried it out."""
        if self._ranking is None:
            return
        for decision in plan.decisions:
            if decision.verdict is not Verdict.NOTHING:
                self._elected.pop(decision.id, None)
        self._elected |= {id: each for id, each in open_to_ranking(plan).items() if id not in self._designated}
        self._tell()

    def _tell(self) -> None:
        """Until the run's choices are known, what an earlier process told holds."""
        if self._run is not None:
            heeded = sum(self._ranked.get(id) == each for id, each in self._elected.items())
            self._progress.ranked = RankedBy(self._run.name, self._run.checksum or "", heeded)

    async def name_leaders(self, policy: Policy) -> Reason | None:
        """Know the leaders that were chosen; or why that can't be."""
        if self._ranking is None:
            return None
        try:
            run = self._run or await self._find(self._ranking)
            digest = digest_of_canonical(canonical(policy))
            if run.policy_digest != digest:
                said = f"run {run.name} ranked by policy {run.policy_digest[:12]}; in force is {digest[:12]}"
                raise _Unusable("InvalidReference", f"{said}: rank again{_WAY_OUT}")
            if self._run is None:
                await self._take(run, self._ranking)
        except _Unusable as why:
            self._run = None  # a later one may be right
            return why.reason
        return None

    async def _take(self, run: Run, ranking: str) -> None:
        """Read what the run chose. Raises _Unusable."""
        try:
            found = await asyncio.to_thread(unpacked, run.leaders or "", f"run {run.name} of FleetRanking {ranking}")
        except InvalidDocument as invalid:
            raise _Unusable("InvalidReference", str(invalid)) from None
        if self._cluster_id not in found:
            said = f"run {run.name} of FleetRanking {ranking} had no evidence of cluster {self._cluster_id}"
            raise _Unusable("InvalidReference", f"{said}{_WAY_OUT}")
        ours = {id: each for id, each in found[self._cluster_id].items() if id in self._scope}
        self._ranked.clear()
        self._ranked.update(ours)
        self._run = run
        self._tell()

    async def _find(self, name: str) -> Run:
        """The pinned one, else the last that succeeded. Raises _Unusable."""
        try:
            raw = await self._api.get(RANKINGS.path(self._namespace, name), deadline=SOON)
            ranking = read_ranking(raw)
            runs = remembered(ranking.status).runs
        except (NotFound, NotServed):
            raise _Unusable(
                "InvalidReference", f"there is no FleetRanking {name} (spec.rankingRef){_WAY_OUT}"
            ) from None
        except (InvalidDocument, Unreadable) as invalid:
            raise _Unusable("InvalidReference", str(invalid)) from None
        except ApiError as error:
            right = "; manifests/rbac/optional/fleet.yaml allows it" if error.status == HTTPStatus.FORBIDDEN else ""
            said = f"FleetRanking {name} can't be read: {error}{right}"
            raise _Unusable(Decisive.OBJECTS_UNREADABLE, said) from None
        if ranking.spec.task is not Task.RANK:
            raise _Unusable("InvalidReference", f"FleetRanking {name} has task {ranking.spec.task}, not Rank{_WAY_OUT}")
        well = [run for run in runs if run.outcome is RunOutcome.SUCCEEDED and run.checksum]
        good = [run for run in well if run.leaders]
        taken = self._progress.ranked
        kept = [run for run in good if taken and run.name == taken.run]
        if well and not good:
            said = f"run {well[0].name} of FleetRanking {name} holds no leaders: {well[0].reason.message}"
            raise _Unusable("InvalidReference", f"{said}{_WAY_OUT}")
        if not good:
            raise _Unusable(Decisive.RANKING_NOT_READY, f"no run of FleetRanking {name} has succeeded yet")
        return (kept or good)[0]


class _Unusable(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.reason = Reason(code, message)


def may_pass(why: Reason) -> bool:
    """Whether waiting may mend what keeps leaders from being known."""
    return why.code in _MAY_PASS


def _told_before(status: Mapping[str, Any]) -> RankedBy | None:
    """What an earlier process said of it."""
    told = status.get("ranking") or {}
    return RankedBy(**told) if told.keys() == {"run", "checksum", "leaders"} else None


def who_named(recovery: PartitionRecovery) -> Reason | None:
    """Who named leaders, if anybody did: that wants an approver."""
    if recovery.designated:
        message = "somebody named leaders (spec.scope.partitions[].designatedLeader): that wants an approver"
        return Reason("AwaitingApproval", message)
    if recovery.ranking_name:
        message = f"leaders are those of FleetRanking {recovery.ranking_name} (spec.rankingRef): that wants an approver"
        return Reason("AwaitingApproval", message)
    return None
