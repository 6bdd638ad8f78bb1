"""Waves: each size is unlocked by elections that verified, and by nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import pytest

from kafka_recovery.domain.election import ElectionAnswer, ElectionRequest
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.policy import Approval, Policy
from kafka_recovery.recovery import rollout
from kafka_recovery.recovery.engine import Effort
from kafka_recovery.recovery.supervision import Permission
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


def leaderless(world: World, id: TopicPartition) -> None:
    """It has lost its new leader."""
    held = world.kafka.partitions[id]
    held.leader, held.epoch = None, held.epoch + 1


def recovered(report: Report) -> list[TopicPartition]:
    return [outcome.id for outcome in report.outcomes if outcome.outcome is Outcome.RECOVERED]


async def test_every_wave_that_verified_unlocks_the_next_size(world: World) -> None:
    report = await world.recover(CANARY)

    assert sizes(world) == [1, 2, 6]
    assert len(recovered(report)) == len(IDS)


async def test_a_canary_that_dies_as_it_begins_to_lead_stops_all_others(world: World) -> None:
    """Its log may be what ends it: the next wave would end the next one."""
    plan = await world.plan(CANARY)
    world.after("elect", lambda: leaderless(world, plan.waves[0][0]))

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


async def test_what_is_prepared_behind_a_wave_in_which_nobody_was_elected_is_no_larger(world: World) -> None:
    """Both had a leader when they were to be elected, and one of the two takes its time to begin."""
    sizes_rising = policy(Approval.AUTO, 2, 3, 500)
    plan = await world.plan(sizes_rising)
    first, second = plan.waves[0]
    leads, late = world.kafka.leads, {second}

    def somebody_else_elects() -> None:
        for id in (first, second):
            world.kafka.elect_uncleanly(id, 4)
        world.clock.later(timedelta(seconds=3), late.clear)

    world.kafka.leads = lambda id, broker: id not in late and leads(id, broker)  # type: ignore[method-assign]
    world.before("elect", somebody_else_elects)

    report = await world.execute(plan)

    assert sizes(world) == [2, 2, 3, 2]
    assert len(recovered(report)) == len(IDS)


async def test_a_canary_of_which_another_replica_became_leader_stops_all_others(world: World) -> None:
    """That is known long before its wave is over: nobody is elected meanwhile."""
    plan = await world.plan(CANARY)

    def fence_the_designated() -> None:
        world.kafka.fence(4)
        world.kafka.partitions[plan.waves[0][0]].ends[3] = 9

    world.before("elect", fence_the_designated)
    world.after("elect", lambda: setattr(world.kafka.nodes[4], "fenced", False))
    restore_late(world)

    report = await world.execute(plan)

    assert len(world.kafka.elected) == 1
    assert recovered(report) == []


async def test_a_canary_whose_leader_has_less_than_was_measured_stops_all_others(world: World) -> None:
    plan = await world.plan(CANARY)
    world.before("elect", lambda: world.kafka.partitions[plan.waves[0][0]].ends.update({4: 1}))
    restore_late(world)

    report = await world.execute(plan)

    assert len(world.kafka.elected) == 1
    assert recovered(report) == []


def restore_late(world: World) -> None:
    """Orders are restored only when the wave behind has been prepared, and time enough for its election is over."""
    restore, prepared = world.kafka.restore, asyncio.Event()
    world.after("designate", prepared.set, nth=2)

    async def late(requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        await prepared.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        return await restore(requests)

    world.kafka.restore = late  # type: ignore[method-assign]


async def test_every_leader_of_a_canary_is_waited_for_before_the_next_wave_is_elected(world: World) -> None:
    waiting = slowly(world)

    await world.recover(CANARY)

    assert waiting == [1, 2, 6]


async def test_a_canary_is_waited_for_though_the_rest_would_be_no_more_than_its_size_allows(world: World) -> None:
    waiting = slowly(world)

    await world.recover(policy(Approval.AUTO, 6, 500))

    assert waiting == [6, 3]


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


async def test_a_wave_that_is_in_doubt_is_waited_out_though_more_may_be_elected(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two waves of two may be under way; the second one's answer is lost, and the first one has verified."""
    monkeypatch.setattr(rollout, "BATCH", 2)
    world.kafka.elect_fates = [Fate.ANSWERED, Fate.DONE]
    elected_at: list[timedelta] = []
    for nth in (1, 2, 3):
        world.before("elect", lambda: elected_at.append(world.clock.monotonic()), nth=nth)

    await world.recover(policy(Approval.AUTO, 4))

    assert elected_at[2] - elected_at[1] >= timedelta(seconds=60)


async def test_the_stricter_of_the_plan_s_sizes_and_those_of_now_hold(world: World) -> None:
    plan = await world.plan(CANARY)

    await world.execute(plan, AUTO)

    assert sizes(world) == [1, 2, 6], "whoever approved the plan approved a canary"


async def test_a_size_that_was_lowered_since_holds(world: World) -> None:
    plan = await world.plan(AUTO)

    await world.execute(plan, policy(Approval.AUTO, 1, 3))

    assert sizes(world) == [1, 3, 3, 2]


async def test_a_wave_that_was_prepared_before_its_canaries_were_deleted_is_no_larger_than_they_were(
    world: World,
) -> None:
    """One of the two leads already, so the next wave is prepared; then their owner deletes both topics."""
    plan = await world.plan(policy(Approval.AUTO, 2, 500))
    canaries = plan.waves[0]
    leads = world.kafka.leads
    world.kafka.leads = lambda id, broker: id != canaries[1] and leads(id, broker)  # type: ignore[method-assign]

    def delete() -> None:
        for id in canaries:
            del world.kafka.partitions[id]

    world.after("elect", lambda: world.clock.later(timedelta(seconds=3), delete))

    report = await world.execute(plan)

    assert len(world.kafka.elected) == 2 + 2
    told = {str(report[id].reason) for id in plan.waves[1][2:]}
    assert told == {"EarlierWaveFailed: no wave verified that would have unlocked one of this size; plan again"}
    assert world.kept_its_promises()


async def test_the_next_wave_is_prepared_while_the_canary_has_yet_to_answer(world: World) -> None:
    """A broker may take its time to begin to lead; a look at the next ones and their orders need none of it."""
    leads, busy, seen = world.kafka.leads, asyncio.Event(), []
    busy.set()
    world.kafka.leads = lambda id, broker: not busy.is_set() and leads(id, broker)  # type: ignore[method-assign]
    world.after("elect", lambda: world.clock.later(timedelta(seconds=1), busy.clear))
    world.before("designate", lambda: seen.append(busy.is_set()), nth=2)

    report = await world.recover(CANARY)

    assert seen == [True]
    assert sizes(world) == [1, 2, 6], "it is elected only when the canary has verified"
    assert len(recovered(report)) == len(IDS)


async def test_a_size_that_is_lowered_while_a_wave_is_prepared_holds_for_it(world: World) -> None:
    owners = Owners(world, CANARY)
    world.after("designate", lambda: owners.want(policy(Approval.AUTO, 1)), nth=2)
    at_once: list[int] = []
    for nth in range(1, len(IDS) + 1):
        world.after("elect", lambda: at_once.append(len(world.kafka.elected) - sum(at_once)), nth=nth)

    report = await world.recover(owners)

    assert at_once == [1] * len(IDS)
    assert len(recovered(report)) == len(IDS)


# The last size


async def test_never_more_than_the_last_size_are_elected_and_do_not_lead_yet(world: World) -> None:
    """The brokers begin one after the other to lead, and later than the next wave could be ready."""
    most = slowly(world)

    report = await world.recover(policy(Approval.AUTO, 3))

    assert max(most) == 3
    assert len(recovered(report)) == len(IDS)


async def test_a_wave_is_elected_once_those_before_lead_though_their_orders_are_not_restored_yet(world: World) -> None:
    restore, elected = world.kafka.restore, asyncio.Event()
    when_restored: list[bool] = []

    async def slow(requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        await world.clock.sleep(timedelta(seconds=1))
        when_restored.append(elected.is_set())
        return await restore(requests)

    world.kafka.restore = slow  # type: ignore[method-assign]
    world.before("elect", elected.set, nth=2)
    slowly(world, every=timedelta(milliseconds=200))

    report = await world.recover(policy(Approval.AUTO, 6))

    assert when_restored == [True, True]
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


async def test_a_wave_leaves_room_for_what_the_wave_before_may_have_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 4 is to lead everything. Six may be held and not verified, one of them of the wave before."""
    monkeypatch.setattr(rollout, "CREDIT", 1)
    monkeypatch.setattr(rollout, "BATCH", 5)
    most = slowly(world)

    report = await world.recover(policy(Approval.AUTO, 6))

    assert sizes(world) == [5, 4]
    assert max(most) <= 6
    assert len(recovered(report)) == len(IDS)


async def test_the_first_election_of_another_leader_needs_room_for_what_that_one_may_have_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 3 is to lead the fifth of nine. Six may be held and not verified, two of them of the wave before."""
    monkeypatch.setattr(rollout, "CREDIT", 1)
    monkeypatch.setattr(rollout, "BATCH", 5)
    world.offline({3: 9, 4: 8}, IDS[0])

    await world.recover(policy(Approval.AUTO, 6))

    assert sizes(world)[0] == 4


def slowly(world: World, every: timedelta = timedelta(seconds=3)) -> list[int]:
    """Broker 4 begins to lead one after the other; returns how many did not answer yet whenever some were elected."""
    most: list[int] = []
    begun: set[TopicPartition] = set()
    leads = world.kafka.leads

    def begin() -> None:
        waiting = [id for id, _ in world.kafka.elected if id not in begun]
        begun.update(waiting[:1])
        world.clock.later(every, begin)

    def count() -> None:
        most.append(len({id for id, _ in world.kafka.elected} - begun))

    world.kafka.leads = lambda id, broker: id in begun and leads(id, broker)  # type: ignore[method-assign]
    for nth in range(1, len(IDS) + 1):
        world.after("elect", count, nth=nth)
    world.clock.later(every, begin)
    return most


async def test_after_a_wave_that_is_decided_again_a_canary_is_first_again(world: World) -> None:
    """The second wave's leader died; it has another one by a new plan, which begins with a single partition."""
    world.after("elect", lambda: world.kafka.kill(4), nth=2)

    await world.recover(CANARY, effort=Effort(attempts=3))

    assert sizes(world)[:4] == [1, 2, 1, 2]
    assert world.kept_its_promises()


async def test_what_is_left_of_a_plan_whose_canary_is_decided_again_is_decided_again_with_it(world: World) -> None:
    """Its leader was gone at once, and nothing else has changed: the others may still be elected."""
    canary = (await world.plan(CANARY)).waves[0][0]
    world.after("elect", lambda: leaderless(world, canary))

    report = await world.recover(CANARY, effort=Effort(attempts=3))

    assert sizes(world)[:4] == [1, 1, 2, 5]
    assert len(recovered(report)) == len(IDS)


async def test_a_wave_that_is_ready_waits_for_the_end_of_one_that_stumbled_in_the_last_moment(world: World) -> None:
    """Three of six lead, so the last three may be elected; while their owners ponder, another of the six dies."""
    six = policy(Approval.AUTO, 6)
    plan = await world.plan(six)
    leads, late = world.kafka.leads, set(plan.waves[0][3:])
    world.kafka.leads = lambda id, broker: id not in late and leads(id, broker)  # type: ignore[method-assign]
    owners = Owners(world, six)

    def die() -> None:
        leaderless(world, plan.waves[0][3])
        world.after("leaders", owners.answer)

    world.after("elect", lambda: owners.ponder(after=1, meanwhile=die))

    await world.execute(plan, owners)

    assert owners.pondered
    assert len(world.kafka.elected) == 6
    assert world.kept_its_promises()


async def test_a_canary_is_counted_once_also_while_its_wave_is_coming_to_its_end(world: World) -> None:
    """The next wave is being prepared; its owners answer in the very moment in which the canary is concluded."""
    owners = Owners(world, CANARY)
    world.concluded = lambda outcome: owners.answer()  # type: ignore[method-assign]
    world.after("elect", owners.ponder)

    report = await world.recover(owners)

    assert owners.pondered
    assert sizes(world) == [1, 2, 6]
    assert len(recovered(report)) == len(IDS)


async def test_a_run_that_is_cancelled_while_it_breaks_off_leaves_no_wave_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner starts another one at once: two that write at a time would undo each other's orders."""
    plan = await world.plan(CANARY)
    restoring = asyncio.Event()

    async def silent(requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        restoring.set()
        await asyncio.Event().wait()
        return {}

    def broken(*given: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(world.kafka, "restore", silent)
    monkeypatch.setattr(world, "wave_started", broken)

    with world.process(CANARY) as engine:
        run = asyncio.create_task(engine.execute(plan))
        await restoring.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        left = asyncio.all_tasks() - {asyncio.current_task()}

    assert left == set()


class Owners:
    """Port `Supervision`: it may ponder before it answers."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.pondered = False
        self._world = world
        self._policy = policy
        self._calls = -1
        self._until = asyncio.Event()
        self._meanwhile: Callable[[], object] = lambda: None

    def ponder(self, after: int = 0, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Let the next calls but so many wait until it is to answer."""
        self._calls, self._meanwhile = after, meanwhile

    def answer(self) -> None:
        self._until.set()

    def want(self, policy: Policy) -> None:
        self._policy = policy

    async def permission(self) -> Permission:
        self._calls -= 1
        if self._calls == -1:
            self._meanwhile()
            self.pondered |= not self._until.is_set()
            await self._until.wait()
        return Permission(self._policy)
