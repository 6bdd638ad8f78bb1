"""Leaders of a FleetRanking for one recovery: which run, of which outage, and why none can be named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import Ranked as Chosen
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.domain.policy import CandidateOrder, Limits, Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import canonical, digest_of_canonical
from kafka_recovery.kube.fleet.prefixes import Prefixes
from kafka_recovery.kube.fleet.results import StoredResults
from kafka_recovery.kube.machinery.api import ApiError, NotFound, NotServed, Object
from kafka_recovery.kube.recoveries.progress import Progress
from kafka_recovery.kube.recoveries.ranked_leaders import RankedLeaders, may_pass, who_named
from kafka_recovery.kube.recoveries.status import RankedBy
from kafka_recovery.kube.resources.kinds import RANKINGS, PartitionRecovery, read_recovery
from unit.decision.incident import evidence, history, log, partition, policy, step
from unit.fleet.rankings import Ranked, run_in
from unit.kube.fleet.asked import run_of
from unit.kube.our_objects import inhabited
from unit.kube.specs import RANKING, stored

POLICY = Policy()
DIGEST = digest_of_canonical(canonical(POLICY))
OTHER_POLICY = Policy(limits=Limits(partitions=7))
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
TOLD = {"run": "nightly-1", "checksum": "cd" * 32, "leaders": 2}
COPIES = {1: None, 2: log(10, (0, 0), (4, 8)), 3: log(5, (0, 0), (3, 2))}
PROVEN = history(step(1, 2, 3), step(1, 3), step(1), intact=[2, 3])
"""Broker 3 left the ISR last, and its copy is intact."""
ROWS = [Ranked("orders", 0, [3], leader_epoch=5), Ranked("payments", 0, [2], leader_epoch=8)]


@dataclass
class World:
    """A FleetRanking as the API server has it, its results, and what is offline."""

    folder: Path
    recovery: PartitionRecovery
    answer: Object | ApiError
    ranked: dict[TopicPartition, Chosen] = field(default_factory=dict)
    progress: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(ranked=None))
    asked: int = 0

    async def get(self, path: str, *, deadline: timedelta) -> Object:
        self.asked += 1
        assert path == RANKINGS.path("kafka", "nightly")
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer

    def process(self) -> RankedLeaders:
        """As a process that has just started makes it."""
        scope = (ORDERS, PAYMENTS)
        results = StoredResults(Prefixes.of([self.folder.as_uri()]))
        return RankedLeaders(self, results, self.recovery, scope, self.ranked, cast(Progress, self.progress))

    async def why_not(self, policy: Policy = POLICY) -> str | None:
        """The code of why no leaders can be named."""
        told = await self.process().name_leaders(policy)
        return told.code if told else None


def nightly(*runs: Mapping[str, Any], **spec: Any) -> Object:
    """The FleetRanking with these runs, the newest first."""
    return stored(RANKINGS, RANKING | spec) | {"status": {"runs": list(runs)}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    place, checksum = run_in(tmp_path, ROWS, policy_digest=DIGEST)
    recovery = replace(read_recovery(inhabited().recovery()), ranking_name="nightly", cluster_id="one")
    return World(place, recovery, nightly(run_of(place.as_uri(), checksum, policyDigest=DIGEST)))


async def test_what_was_chosen_is_known_with_the_outage_it_is_for(world: World) -> None:
    assert await world.why_not() is None
    assert world.ranked == {
        ORDERS: Chosen(BrokerId(3), LeaderEpoch(5)),
        PAYMENTS: Chosen(BrokerId(2), LeaderEpoch(8)),
    }
    assert world.progress.ranked == RankedBy("nightly-1", checksum_of(world), 0), "no plan was made yet"


@pytest.mark.parametrize(
    ("order", "known", "heeded"),
    [
        (CandidateOrder.LEAST_LOSS, PROVEN, 0),
        (CandidateOrder.LEAST_LOSS, None, 1),
        (CandidateOrder.EPOCH_FIRST, PROVEN, 1),
    ],
    ids=["the plan goes by proofs", "nobody watched", "the order asks for no proof"],
)
async def test_only_leaders_that_a_plan_took_from_the_ranking_are_counted(
    world: World, order: CandidateOrder, known: PartitionHistory | None, heeded: int
) -> None:
    """Payments has another outage by now than the one that was ranked."""
    leaders = world.process()
    await leaders.name_leaders(POLICY)
    seen = evidence(partition(COPIES, history=known), partition(COPIES, id=PAYMENTS, history=known))
    leaders.note(decide(seen, policy(candidate_order=order), ranked=world.ranked))

    assert world.progress.ranked.leaders == heeded


async def test_a_leader_that_a_person_named_is_not_the_ranking_s(world: World) -> None:
    world.recovery = replace(world.recovery, designated={ORDERS: BrokerId(3)})
    leaders = world.process()
    await leaders.name_leaders(POLICY)
    leaders.note(decide(evidence(partition(COPIES)), policy(), designated=world.recovery.designated))

    assert world.progress.ranked.leaders == 0


async def test_only_partitions_of_the_recovery_count(world: World) -> None:
    place, checksum = run_in(world.folder / "more", [*ROWS, Ranked("another", 0, [1])], policy_digest=DIGEST)
    world.answer = nightly(run_of(place.as_uri(), checksum, policyDigest=DIGEST))

    assert await world.why_not() is None
    assert world.ranked.keys() == {ORDERS, PAYMENTS}


async def test_results_are_read_once(world: World) -> None:
    leaders = world.process()
    await leaders.name_leaders(POLICY)
    world.answer = NotFound(404, "NotFound", "deleted meanwhile", "x")

    assert await leaders.name_leaders(POLICY) is None
    assert world.asked == 1


async def test_a_recovery_without_ranking_asks_nobody(world: World) -> None:
    world.recovery = replace(world.recovery, ranking_name=None)

    assert await world.why_not() is None
    assert (world.ranked, world.asked) == ({}, 0)


# Which run


async def test_the_newest_run_that_succeeded_is_taken(world: World) -> None:
    good = run_of(world.folder.as_uri(), checksum_of(world), policyDigest=DIGEST)
    failed = run_of("file:///nowhere", None, "nightly-3", outcome="Failed")
    world.answer = nightly(failed, good, run_of("file:///nowhere", "ef" * 32, "nightly-0"))

    assert await world.why_not() is None
    assert world.ranked


async def test_the_run_of_an_earlier_process_is_kept_to(world: World) -> None:
    good = run_of(world.folder.as_uri(), checksum_of(world), policyDigest=DIGEST)
    world.answer = nightly(run_of("file:///nowhere", "ef" * 32, "nightly-2"), good)
    world.recovery = replace(world.recovery, status={"ranking": TOLD})

    assert await world.why_not() is None
    assert world.progress.ranked.run == "nightly-1"


async def test_the_run_that_an_earlier_process_took_is_told_on_at_once(world: World) -> None:
    world.recovery = replace(world.recovery, status={"ranking": TOLD})
    world.process()

    assert world.progress.ranked == RankedBy("nightly-1", "cd" * 32, 2)


async def test_what_was_ranked_by_another_policy_is_not_used(world: World) -> None:
    for file in (world.folder / "ranking").iterdir():
        file.unlink()  # nor is it read: that may take long, and is tried again and again

    assert await world.why_not(OTHER_POLICY) == "RankingOfOtherPolicy"
    assert world.ranked == {}


async def test_a_later_run_by_the_policy_in_force_is_found(world: World) -> None:
    leaders = world.process()
    assert await leaders.name_leaders(OTHER_POLICY)

    assert await leaders.name_leaders(POLICY) is None
    assert world.asked == 2


# What can't be used


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (NotFound(404, "NotFound", "no such thing", "x"), "RankingMissing"),
        (NotServed(404, "NotFound", "no such kind", "x"), "RankingMissing"),
        (ApiError(403, "Forbidden", "no right", "x"), "RankingUnreadable"),
        (nightly(), "RankingNotReady"),
        (nightly(run_of("x", None, outcome="Failed")), "RankingNotReady"),
        (nightly(task="Readiness"), "RankingOfOtherTask"),
        (nightly(task="Guess"), "RankingInvalid"),
        (nightly({"name": "half a run"}), "RankingInvalid"),
        (nightly(run_of("file:///nowhere/at/all", "ef" * 32, policyDigest=DIGEST)), "ResultUnreadable"),
    ],
)
async def test_a_ranking_that_cannot_be_used_says_why(world: World, answer: Object | ApiError, code: str) -> None:
    world.answer = answer

    assert await world.why_not() == code
    assert world.ranked == {}


async def test_a_manifest_that_was_written_anew_since_is_refused(world: World) -> None:
    world.answer = nightly(run_of(world.folder.as_uri(), "ef" * 32, policyDigest=DIGEST))

    assert await world.why_not() == "ResultInvalid"


async def test_a_run_without_evidence_of_the_cluster_is_refused(world: World) -> None:
    world.recovery = replace(world.recovery, cluster_id="two")

    assert await world.why_not() == "RankingWithoutCluster"


async def test_a_result_that_was_changed_since_is_refused(world: World) -> None:
    (world.folder / "ranking" / "part-0.parquet").write_bytes(b"PAR1")

    assert await world.why_not() == "ResultInvalid"
    assert world.ranked == {}


@pytest.mark.parametrize(("code", "passes"), [("RankingNotReady", True), ("RankingMissing", False)])
def test_a_person_is_told_where_waiting_mends_nothing(code: str, passes: bool) -> None:
    assert may_pass(Reason(code, "")) == passes


# Who is asked


def test_who_named_leaders_is_told_to_the_approver(world: World) -> None:
    named = replace(world.recovery, designated={ORDERS: BrokerId(1)})

    assert [told.code if told else None for told in map(who_named, (world.recovery, named))] == [
        "LeadersRanked",
        "LeaderDesignated",
    ]
    assert who_named(replace(world.recovery, ranking_name=None)) is None


def checksum_of(world: World) -> str:
    """Of the manifest that is there."""
    assert isinstance(world.answer, dict)
    runs = world.answer["status"]["runs"]
    return str(next(run["checksum"] for run in runs if run["name"] == "nightly-1"))
