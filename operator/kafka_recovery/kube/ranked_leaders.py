"""Leaders that a FleetRanking chose, for a recovery that names one: each is designated, and passes the same guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from kafka_recovery.domain.documents import InvalidDocument, canonical, digest_of_canonical
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.manifest import Expected
from kafka_recovery.kube.api import ApiError, NotFound, NotServed, Object
from kafka_recovery.kube.fleet.fields import Task
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.fleet.runs import Outcome, Run, Unreadable, remembered
from kafka_recovery.kube.objects import SOON
from kafka_recovery.kube.progress import Progress
from kafka_recovery.kube.recovery_status import RankedBy
from kafka_recovery.kube.resources import RANKINGS, PartitionRecovery

if TYPE_CHECKING:
    from kafka_recovery.fleet.choices import Choice

NOT_SEEN_YET = Reason("NotSeenYet", "its cluster has not been gone through yet: which outage each partition is in")


class Rankings(Protocol):
    """All of the API that is needed for that."""

    async def get(self, path: str, *, deadline: timedelta) -> Object:
        """An object."""
        ...


class ReadsChoices(Protocol):
    """Where runs of FleetRankings write to."""

    async def choices(
        self, url: str, expected: Expected, checksum: str, cluster_id: str
    ) -> Mapping[TopicPartition, Choice] | Reason:
        """What a run chose for a cluster, if its results are whole and the answer to what was asked."""
        ...


class RankedLeaders:
    """Of one recovery. `offline`: leader epochs of what is offline now; None: nobody has looked yet.

    `designated` is added to; leaders that a person named stand. The run that an earlier process took is kept to as long
    as the ranking knows it: a newer one would change a plan that somebody is reading.
    """

    def __init__(
        self,
        api: Rankings,
        results: ReadsChoices,
        recovery: PartitionRecovery,
        offline: Callable[[], Mapping[TopicPartition, LeaderEpoch] | None],
        designated: MutableMapping[TopicPartition, BrokerId],
        progress: Progress,
    ) -> None:
        self._api = api
        self._results = results
        self._ranking = recovery.ranking_name
        self._namespace = recovery.meta.namespace
        self._cluster_id = recovery.cluster_id
        self._offline = offline
        self._by_hand = recovery.designated
        self._designated = designated
        self._progress = progress
        self._pinned = recovery.status.get("ranking", {}).get("run")
        self._read: tuple[Run, Mapping[TopicPartition, Choice]] | None = None

    async def name_leaders(self, policy: Policy) -> Reason | None:
        """Designate the leaders that were chosen for outages that last; or why that can't be done now."""
        if self._ranking is None:
            return None
        try:
            self._read = self._read or await self._chosen(self._ranking)
        except _Unusable as why:
            return why.reason
        run, found = self._read
        digest = digest_of_canonical(canonical(policy))
        if run.policy_digest != digest:
            self._read = self._pinned = None  # a later run may have the right one
            said = f"run {run.name} ranked by policy {run.policy_digest[:12]}; in force is {digest[:12]}"
            return Reason("RankingOfOtherPolicy", f"{said}: rank anew, or make a recovery without rankingRef")
        offline = self._offline()
        if offline is None:
            return NOT_SEEN_YET
        lasting = {id: each.leader for id, each in found.items() if offline.get(id) == each.leader_epoch}
        self._designated.clear()
        self._designated.update({**lasting, **self._by_hand})
        self._progress.ranked = RankedBy(run.name, run.checksum or "", len(lasting))
        return None

    async def _chosen(self, ranking: str) -> tuple[Run, Mapping[TopicPartition, Choice]]:
        """The run whose answer is taken, and the answer. Raises _Unusable."""
        run = await self._run(ranking)
        folder = run.result.partition("?")[0].rstrip("/").rpartition("/")[2]
        expected = Expected(Task.RANK.lower(), folder, run.policy_digest)
        found = await self._results.choices(run.result, expected, run.checksum or "", self._cluster_id)
        if isinstance(found, Reason):
            raise _Unusable(found.code, f"run {run.name} of FleetRanking {ranking}: {found.message}")
        return run, found

    async def _run(self, name: str) -> Run:
        """The pinned one, else the last that succeeded. Raises _Unusable."""
        try:
            raw = await self._api.get(RANKINGS.path(self._namespace, name), deadline=SOON)
            ranking = read_ranking(raw)
            runs = remembered(ranking.status).runs
        except (NotFound, NotServed):
            raise _Unusable("RankingMissing", f"there is no FleetRanking {name} (spec.rankingRef)") from None
        except (InvalidDocument, Unreadable) as invalid:
            raise _Unusable("RankingInvalid", str(invalid)) from None
        except ApiError as error:
            right = "the operator may not read FleetRankings, see manifests/rbac/optional/fleet.yaml: "
            forbidden = error.status == HTTPStatus.FORBIDDEN
            raise _Unusable("RankingUnreadable", f"{right if forbidden else ''}{error}") from None
        if ranking.task is not Task.RANK:
            raise _Unusable("RankingOfOtherTask", f"FleetRanking {name} has task {ranking.task}; right is Rank")
        good = [run for run in runs if run.outcome is Outcome.SUCCEEDED and run.checksum]
        kept = [run for run in good if run.name == self._pinned]
        if not good:
            raise _Unusable("RankingNotReady", f"no run of FleetRanking {name} has succeeded yet")
        return (kept or good)[0]


class _Unusable(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.reason = Reason(code, message)


def who_named(recovery: PartitionRecovery) -> Reason | None:
    """Who named leaders, if anybody did: that wants an approver."""
    if recovery.designated:
        message = "somebody named leaders (spec.scope.partitions[].designatedLeader): that wants an approver"
        return Reason("LeaderDesignated", message)
    if recovery.ranking_name:
        message = f"leaders are those of FleetRanking {recovery.ranking_name} (spec.rankingRef): that wants an approver"
        return Reason("LeadersRanked", message)
    return None
