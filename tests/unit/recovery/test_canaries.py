"""Waves: each size is unlocked by elections that verified, and by nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.policy import Approval
from kafka_recovery.recovery import rollout
from kafka_recovery.recovery.engine import Effort
from unit.recovery.brokers import Fate
from unit.recovery.world import AUTO, World, policy

CANARY = policy(Approval.AUTO, 1, 2, 500)
IDS = tuple(TopicPartition(f"topic-{number}", 0) for number in range(9))


@pytest.fixture
def world(world: World) -> World:
    """Nine partitions; brokers 3 and 4 hold a replica of each, and that of 4 is the best."""
    for id in IDS:
        world.offline({3: 8, 4: 9}, id)
    return world


def sizes(world: World) -> list[int]:
    """Of the waves that were elected."""
    return [partitions for _, _, partitions in world.waves]


def recovered(report: Report) -> list[TopicPartition]:
    return [outcome.id for outcome in report.outcomes if outcome.outcome is Outcome.RECOVERED]


async def test_every_wave_that_verified_unlocks_the_next_size(world: World) -> None:
    report = await world.recover(CANARY)

    assert sizes(world) == [1, 2, 6]
    assert len(recovered(report)) == len(IDS)


async def test_a_canary_that_dies_as_it_begins_to_lead_stops_all_others(world: World) -> None:
    """Its log may be what killed it: the next wave would kill the next broker."""
    plan = await world.plan(CANARY)

    def die() -> None:
        world.kafka.kill(4)
        world.kafka.fence(4)

    world.after("elect", die)

    report = await world.execute(plan)

    assert len(world.kafka.elected) == 1
    assert recovered(report) == []
    assert world.kept_its_promises()


async def test_canaries_that_drop_out_before_they_are_elected_unlock_nothing(world: World) -> None:
    """Somebody else elected them meanwhile: another one is the first that this plan elects."""
    plan = await world.plan(CANARY)
    for id in (id for wave in plan.waves[:2] for id in wave):
        world.kafka.elect_uncleanly(id, 3)

    report = await world.execute(plan)

    assert sizes(world)[:2] == [1, 2]
    assert len(recovered(report)) == 6


async def test_a_canary_that_needed_no_election_unlocks_nothing(world: World) -> None:
    """In the last moment somebody else elected the planned replica: this run has held no election yet."""
    plan = await world.plan(CANARY)
    first = plan.waves[0][0]
    world.before("elect", lambda: world.kafka.elect_uncleanly(first, 4))

    report = await world.execute(plan)

    assert sizes(world) == [1, 1, 2, 5]
    assert len(recovered(report)) == len(IDS)


async def test_a_canary_of_which_another_replica_became_leader_stops_all_others(world: World) -> None:
    world.before("elect", lambda: world.kafka.fence(4))

    report = await world.recover(CANARY)

    assert len(world.kafka.elected) == 1
    assert recovered(report) == []


async def test_a_wave_in_which_one_of_two_did_not_verify_stops_all_others(world: World) -> None:
    """The first one of its wave leads; the second one's leader has lost what it was measured with."""
    plan = await world.plan(CANARY)
    second = plan.waves[1][1]
    world.before("elect", lambda: world.kafka.partitions[second].ends.update({4: 1}), nth=2)

    report = await world.execute(plan)

    assert len(world.kafka.elected) == 3
    assert report[second].outcome is Outcome.FAILED
    assert len(recovered(report)) == 2


async def test_a_canary_whose_answer_was_lost_is_waited_out_before_the_next_is_elected(world: World) -> None:
    world.kafka.elect_fates = [Fate.DONE]
    elected_at: list[timedelta] = []
    for nth in (1, 2):
        world.before("elect", lambda: elected_at.append(world.clock.monotonic()), nth=nth)

    await world.recover(CANARY)

    assert elected_at[1] - elected_at[0] >= timedelta(seconds=60)


async def test_the_stricter_of_the_plan_s_sizes_and_those_of_now_hold(world: World) -> None:
    plan = await world.plan(CANARY)

    await world.execute(plan, AUTO)

    assert sizes(world) == [1, 2, 6], "whoever approved the plan approved a canary"


async def test_a_size_that_was_lowered_since_holds(world: World) -> None:
    plan = await world.plan(AUTO)

    await world.execute(plan, policy(Approval.AUTO, 1, 3))

    assert sizes(world) == [1, 3, 3, 2]


# The last size


async def test_never_more_than_the_last_size_are_elected_and_do_not_lead_yet(world: World) -> None:
    """The brokers begin one after the other to lead, and later than the next wave could be ready."""
    most = slowly(world)

    report = await world.recover(policy(Approval.AUTO, 3))

    assert max(most) == 3
    assert len(recovered(report)) == len(IDS)


async def test_a_new_leader_is_given_no_more_than_it_can_begin_in_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 4 is to lead everything. A wave holds up to four, and is elected once two of those before are left."""
    monkeypatch.setattr(rollout, "CREDIT", 2)
    monkeypatch.setattr(rollout, "BATCH", 4)
    most = slowly(world)

    report = await world.recover(AUTO)

    assert sizes(world) == [4, 4, 1]
    assert max(most) <= 4 + 2
    assert len(recovered(report)) == len(IDS)


def slowly(world: World) -> list[int]:
    """Broker 4 begins to lead a partition a second; returns how many were elected and did not answer, each time."""
    most: list[int] = []
    begun: set[TopicPartition] = set()
    leads = world.kafka.leads

    def begin() -> None:
        waiting = [id for id, _ in world.kafka.elected if id not in begun]
        begun.update(waiting[:1])
        world.clock.later(timedelta(seconds=1), begin)

    def count() -> None:
        most.append(len({id for id, _ in world.kafka.elected} - begun))

    world.kafka.leads = lambda id, broker: id in begun and leads(id, broker)  # type: ignore[method-assign]
    for nth in range(1, len(IDS) + 1):
        world.after("elect", count, nth=nth)
    world.clock.later(timedelta(seconds=1), begin)
    return most


async def test_after_a_wave_that_is_decided_again_a_canary_is_first_again(world: World) -> None:
    """The second wave's leader died; it has another one by a new plan, which begins with a single partition."""
    world.after("elect", lambda: world.kafka.kill(4), nth=2)

    await world.recover(CANARY, effort=Effort(attempts=3))

    assert sizes(world)[:4] == [1, 2, 1, 2]
    assert world.kept_its_promises()
