"""Leaders of a FleetRanking for one recovery: which run, of which outage, and why none can be named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.domain.policy import CandidateOrder, Limits, Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import canonical, digest_of_canonical
from kafka_recovery.kube.fleet.leaders import packed
from kafka_recovery.kube.machinery.api import ApiError, NotFound, NotServed, Object
from kafka_recovery.kube.recoveries.progress import Progress
from kafka_recovery.kube.recoveries.ranked_leaders import RankedLeaders, may_pass, who_named
from kafka_recovery.kube.resources.kinds import RANKINGS, PartitionRecovery, read_recovery
from unit.decision.incident import evidence, history, log, partition, policy, step
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
CHOSEN = {
    ORDERS: Ranked(BrokerId(3), LeaderEpoch(5), TopicId("id-of-orders")),
    PAYMENTS: Ranked(BrokerId(2), LeaderEpoch(8), TopicId("id-of-payments")),
}
CHECKSUM = "ab" * 32


@dataclass
class World:
    """A FleetRanking as the API server has it, and what is offline."""

    recovery: PartitionRecovery
    answer: Object | ApiError
    ranked: dict[TopicPartition, Ranked] = field(default_factory=dict)
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
        return RankedLeaders(self, self.recovery, scope, self.ranked, cast(Progress, self.progress))

    async def why_not(self, policy: Policy = POLICY) -> str | None:
        """The code of why no leaders can be named."""
        told = await self.process().name_leaders(policy)
        return told.code if told else None


def nightly(*runs: Mapping[str, Any], **spec: Any) -> Object:
    """The FleetRanking with these runs, the newest first."""
    return stored(RANKINGS, RANKING | spec) | {"status": {"runs": list(runs)}}


def good(name: str = "nightly-1", leaders: Mapping[TopicPartition, Ranked] = CHOSEN, **fields: Any) -> dict[str, Any]:
    """A run that succeeded and chose these leaders of cluster one."""
    given = {"policyDigest": DIGEST, "leaders": packed({"one": leaders})}
    return run_of("s3://fleet/results/nightly-1", CHECKSUM, name, **given | fields)


@pytest.fixture
def world() -> World:
    recovery = replace(read_recovery(inhabited().recovery()), ranking_name="nightly", cluster_id="one")
    return World(recovery, nightly(good()))


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
    world.answer = nightly(good(leaders={**CHOSEN, TopicPartition("another", 0): CHOSEN[ORDERS]}))

    assert await world.why_not() is None
    assert world.ranked.keys() == {ORDERS, PAYMENTS}


async def test_leaders_are_read_once(world: World) -> None:
    leaders = world.process()
    await leaders.name_leaders(POLICY)
    world.answer = NotFound(404, "NotFound", "deleted meanwhile", "x")

    assert await leaders.name_leaders(POLICY) is None
    assert world.asked == 1


# Which run


async def test_the_newest_run_that_succeeded_is_taken(world: World) -> None:
    failed = run_of("file:///nowhere", None, "nightly-3", outcome="Failed")
    world.answer = nightly(failed, good(), good("nightly-0", {}))

    assert await world.why_not() is None
    assert world.ranked


async def test_the_run_of_an_earlier_process_is_kept_to(world: World) -> None:
    world.answer = nightly(good("nightly-2"), good())
    world.recovery = replace(world.recovery, status={"ranking": TOLD})

    assert await world.why_not() is None
    assert world.progress.ranked.run == "nightly-1"


async def test_a_run_that_holds_its_leaders_no_more_gives_way_to_the_newest_that_does(world: World) -> None:
    """Where the leaders of all runs are too long for a status, the older ones go without."""
    world.answer = nightly(good("nightly-2"), good(leaders={}) | {"leaders": None})
    world.recovery = replace(world.recovery, status={"ranking": TOLD})

    assert await world.why_not() is None
    assert world.progress.ranked.run == "nightly-2"


async def test_what_was_ranked_by_another_policy_is_not_used(world: World) -> None:
    assert await world.why_not(OTHER_POLICY) == "InvalidReference"
    assert world.ranked == {}


async def test_a_later_run_by_the_policy_in_force_is_found(world: World) -> None:
    leaders = world.process()
    assert await leaders.name_leaders(OTHER_POLICY)

    assert await leaders.name_leaders(POLICY) is None
    assert world.asked == 2


# What can't be used


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (NotFound(404, "NotFound", "no such thing", "x"), "InvalidReference: there is no FleetRanking nightly"),
        (NotServed(404, "NotFound", "no such kind", "x"), "InvalidReference: there is no FleetRanking nightly"),
        (ApiError(403, "Forbidden", "no right", "x"), "ObjectsUnreadable: FleetRanking nightly can't be read"),
        (nightly(), "RankingNotReady: no run of FleetRanking nightly has succeeded yet"),
        (nightly(run_of("x", None, outcome="Failed")), "RankingNotReady: no run"),
        (nightly(task="Readiness"), "InvalidReference: FleetRanking nightly has task Readiness"),
        (nightly(task="Guess"), "InvalidReference: FleetRanking "),
        (nightly({"name": "half a run"}), "InvalidReference: status"),
        (
            nightly(run_of("x", CHECKSUM, policyDigest=DIGEST)),
            "InvalidReference: run nightly-1 of FleetRanking nightly holds no leaders",
        ),
        (nightly(good() | {"leaders": "no leaders"}), "InvalidReference: run"),
    ],
)
async def test_a_ranking_that_cannot_be_used_says_why(world: World, answer: Object | ApiError, told: str) -> None:
    world.answer = answer

    why = await world.process().name_leaders(POLICY)

    assert str(why).startswith(told)
    assert world.ranked == {}


async def test_a_run_that_chose_too_many_leaders_says_so_and_the_way_out(world: World) -> None:
    many = "7 partitions of 1 clusters; no recovery can name it: it chose 7 leaders"
    world.answer = nightly(run_of("x", CHECKSUM, policyDigest=DIGEST, message=many))
    told = await world.process().name_leaders(POLICY)

    assert (told and told.message) == (
        f"run nightly-1 of FleetRanking nightly holds no leaders: {many}; or make a recovery without rankingRef"
    )


async def test_a_run_without_evidence_of_the_cluster_is_refused(world: World) -> None:
    world.recovery = replace(world.recovery, cluster_id="two")

    assert await world.why_not() == "InvalidReference"


@pytest.mark.parametrize(("code", "passes"), [("RankingNotReady", True), ("InvalidReference", False)])
def test_a_person_is_told_where_waiting_mends_nothing(code: str, passes: bool) -> None:
    assert may_pass(Reason(code, "")) == passes


# Who is asked


def test_who_named_leaders_is_told_to_the_approver(world: World) -> None:
    named = replace(world.recovery, designated={ORDERS: BrokerId(1)})

    assert [str(told).partition(" (")[0] for told in map(who_named, (world.recovery, named))] == [
        "AwaitingApproval: leaders are those of FleetRanking nightly",
        "AwaitingApproval: somebody named leaders",
    ]
    assert who_named(replace(world.recovery, ranking_name=None)) is None
