"""The whole way of a recovery, and each of the engine's rules as a story."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from kafka_recovery.domain.election import ALL_OFFLINE, Answer, Scope
from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval
from kafka_recovery.formats.documents import canonical, digest
from kafka_recovery.recovery.engine import Effort
from kafka_recovery.recovery.outcomes import MINIMUM_UNREAD
from kafka_recovery.recovery.ports import ViewStandsStill
from unit.recovery.brokers import SESSION, Held, Unavailable
from unit.recovery.world import AUTO, ORDERS, PAYMENTS, World, code, policy

SHIPMENTS = TopicPartition("shipments", 0)


async def test_an_offline_partition_is_led_by_its_best_survivor_and_keeps_its_order(world: World) -> None:
    world.offline({3: 15, 2: 27})

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert (report[ORDERS].leader, report[ORDERS].log_end, world.leader()) == (2, 27, 2)
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_a_healthy_cluster_is_left_alone(world: World) -> None:
    report = await world.recover()

    assert report.outcomes == ()
    assert report.recovered
    assert world.changed() == []


async def test_the_plan_is_durable_before_anything_is_changed(world: World) -> None:
    world.offline()

    await world.recover()

    steps = ["record", "approved", "wave_started", "designate", "elect", "restore"]
    assert [call for call in world.steps.calls if call in steps] == steps


async def test_nothing_is_changed_before_the_last_look(world: World) -> None:
    world.offline()

    await world.recover()

    calls = world.steps.calls[: world.steps.calls.index("elect")]
    assert calls[-3:] == ["gather", "wave_started", "designate"]


async def test_a_replica_that_falls_silent_after_planning_is_not_elected(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("gather", lambda: world.kafka.kill(2), nth=2)

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert world.changed() == []
    world.clock.advance(SESSION)

    assert (await world.recover())[ORDERS].leader == 3, "now that the controller says that it is gone"
    assert world.kept_its_promises()


async def test_the_engine_waits_for_a_clean_member_that_is_about_to_be_back(world: World) -> None:
    world.offline()
    world.kafka.boot(1)
    world.clock.later(timedelta(seconds=20), lambda: world.kafka.start(1))

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY
    assert report[ORDERS].leader == 1
    assert report[ORDERS].warnings == ()
    assert world.changed() == []
    assert "ElectableBroker" in world.waits[0].code


async def test_patience_with_a_clean_member_ends(world: World) -> None:
    world.offline()
    world.kafka.boot(1)
    began = world.clock.monotonic()

    report = await world.recover(policy(patience=30))

    assert report[ORDERS].leader == 2
    assert timedelta(seconds=30) <= world.clock.monotonic() - began < timedelta(seconds=35)


async def test_a_plan_is_brought_into_its_canonical_form_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of partitions that is what takes longest between a yes and the first election."""
    world.offline()
    plan = await world.plan()
    made: list[str] = []

    def counted(of: Plan) -> str:
        made.append(digest(of))
        return made[-1]

    monkeypatch.setattr("kafka_recovery.recovery.engine.digest_of", counted)

    assert (await world.execute(plan)).recovered
    assert made == [], "the journal makes it when it records the plan"


async def test_nobody_waits_for_the_patience_of_another_and_nobodys_is_cut_short(world: World) -> None:
    """The clean member of refunds comes back ten seconds after that of orders, while payments is being elected."""
    payments, refunds = PAYMENTS, TopicPartition("refunds", 0)
    world.offline({3: 15, 2: 27})
    world.offline({3: 15, 2: 27}, payments, dead=4)
    world.offline({3: 15, 2: 27}, refunds, dead=4)
    world.kafka.boot(1)
    world.kafka.nodes[2].busy = True
    began = world.clock.monotonic()
    world.clock.later(timedelta(seconds=5), lambda: world.kafka.boot(4))
    world.clock.later(timedelta(seconds=11), lambda: setattr(world.kafka.nodes[2], "busy", False))
    elected: dict[TopicPartition, timedelta] = {}

    def note() -> None:
        id, _ = world.kafka.elected[-1]
        elected[id] = world.clock.monotonic() - began

    for nth in (1, 2, 3):
        world.after("elect", note, nth=nth)

    report = await world.recover(policy(Approval.AUTO, 1, patience=20))

    assert report.recovered
    assert timedelta(seconds=20) <= elected[ORDERS] < timedelta(seconds=24)
    assert timedelta(seconds=31) <= elected[refunds] < timedelta(seconds=36)


async def test_who_waits_for_a_clean_member_reads_no_log_again_that_it_knows(world: World) -> None:
    world.offline()
    world.kafka.boot(1)

    await world.recover(policy(patience=5))

    gathered = world.kafka.known
    assert gathered[0] == frozenset(), "the first look knows of nothing"
    assert len(gathered) > 5
    assert set(gathered[1:]) == {frozenset({ORDERS})}


async def test_who_may_ask_once_only_looks_as_if_nothing_were_known_for_a_last_look_asks_less(world: World) -> None:
    """One attempt at what is known is how a last look is told from others: no volumes are asked for there."""
    world.offline()
    world.kafka.boot(1)

    await world.recover(policy(patience=5, attempts=1))

    assert world.kafka.known.count(frozenset()) > 5


async def test_a_clean_member_that_answers_while_a_person_ponders_gets_its_full_patience(world: World) -> None:
    world.offline()
    world.before("granted", lambda: world.clock.advance(timedelta(minutes=10)))
    world.after("granted", lambda: world.kafka.boot(1))
    world.after("granted", lambda: world.clock.later(timedelta(seconds=20), lambda: world.kafka.start(1)))

    report = await world.recover(policy(Approval.MANUAL, patience=30))

    assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY
    assert world.kafka.elected == []


async def test_a_clean_member_that_comes_and_goes_wins_no_time(world: World) -> None:
    world.offline()
    for second in range(0, 600, 4):
        world.clock.later(timedelta(seconds=second), lambda: world.kafka.boot(1))
        world.clock.later(timedelta(seconds=second + 2), lambda: setattr(world.kafka.nodes[1], "alive", False))
    began = world.clock.monotonic()

    report = await world.recover(policy(patience=30))

    assert report[ORDERS].outcome.is_recovered
    assert world.clock.monotonic() - began < timedelta(seconds=90)


async def test_one_partition_that_waits_does_not_hold_up_the_others(world: World) -> None:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS, dead=2)
    world.kafka.nodes[2].alive = world.kafka.nodes[2].fenced = True
    began = world.clock.monotonic()
    world.after("elect", lambda: began_at.append(world.clock.monotonic()))
    began_at: list[timedelta] = []

    await world.recover()

    assert began_at[0] - began < timedelta(seconds=5)
    assert world.leader(ORDERS) is not None


async def test_one_partition_nobody_can_recover_does_not_hold_up_the_others(world: World) -> None:
    world.offline()
    world.offline({3: 8}, PAYMENTS)
    world.kafka.partitions[PAYMENTS].assignment = world.kafka.partitions[PAYMENTS].owned = (1,)
    world.offline({3: 8, 2: 9}, SHIPMENTS)
    world.kafka.denied[SHIPMENTS] = Answer.REFUSED

    report = await world.recover(policy(Approval.AUTO, 1))

    assert code(report, PAYMENTS) == "NoCandidate"
    assert (report[SHIPMENTS].outcome, code(report, SHIPMENTS)) == (Outcome.REFUSED, "Denied")
    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert world.kept_its_promises()


async def test_a_partition_that_is_not_there_is_refused(world: World) -> None:
    report = await world.recover(scope=Scope((ORDERS,)))

    assert code(report) == "PartitionGone"


async def test_a_partition_that_is_online_already_is_nothing_to_do(world: World) -> None:
    world.offline()
    world.kafka.start(1)

    report = await world.recover(scope=Scope((ORDERS,)))

    assert (report[ORDERS].outcome, code(report)) == (Outcome.RECOVERED_CLEANLY, "AlreadyOnline")
    assert world.changed() == []


async def test_a_leader_that_takes_its_time_to_begin_is_waited_for(world: World) -> None:
    world.offline()
    world.kafka.start(1)
    world.kafka.nodes[1].busy = True
    world.clock.later(timedelta(seconds=25), lambda: setattr(world.kafka.nodes[1], "busy", False))

    report = await world.recover(scope=Scope((ORDERS,)))

    assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY


async def test_a_leader_that_never_answers_is_not_called_recovered(world: World) -> None:
    world.offline()
    world.kafka.start(1)
    world.kafka.nodes[1].busy = True

    report = await world.recover(scope=Scope((ORDERS,)))

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "LeaderUnresponsive")


async def test_recovered_means_that_the_new_leader_itself_answered(world: World) -> None:
    world.offline()
    world.kafka.nodes[2].busy = True

    report = await world.recover()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.FAILED, "LeaderUnresponsive")
    assert world.kept_its_promises()


async def test_a_leader_under_min_insync_replicas_is_said_to_be(world: World) -> None:
    world.offline(min_isr=2)
    world.offline({3: 8, 4: 9}, PAYMENTS)

    report = await world.recover(policy(Approval.AUTO, 1))

    assert report[ORDERS].outcome is Outcome.RECOVERED_UNDER_MIN_ISR
    assert report[PAYMENTS].outcome is Outcome.RECOVERED, "it does not hold up later waves"
    assert report.recovered


async def test_a_minimum_that_was_raised_after_the_plan_is_the_one_that_counts(world: World) -> None:
    world.offline(min_isr=1)

    def raised() -> None:
        world.kafka.partitions[ORDERS].min_isr = 2

    world.after("gather", raised)

    assert (await world.recover())[ORDERS].outcome is Outcome.RECOVERED_UNDER_MIN_ISR


async def test_a_minimum_that_nobody_could_read_is_told(world: World) -> None:
    world.offline(min_isr=None)

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert report[ORDERS].warnings == (MINIMUM_UNREAD,)


async def test_a_wave_that_does_not_verify_stops_the_later_ones(world: World) -> None:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.kafka.nodes[2].busy = True

    report = await world.recover(policy(Approval.AUTO, 1))

    assert report[ORDERS].outcome is Outcome.FAILED
    assert code(report, PAYMENTS) == "EarlierWaveFailed"
    assert [request.id for request in world.kafka.requests] == [ORDERS]


async def test_waves_are_counted_for_whoever_watches(world: World) -> None:
    for topic in ("a", "b", "c"):
        world.offline({3: 8, 4: 9}, TopicPartition(topic, 0))

    await world.recover(policy(Approval.AUTO, 1, 2))

    assert world.waves == [(1, 2, 1), (2, 2, 2)]
    assert len(world.concluded_outcomes) == 3, "each partition is concluded once"


async def test_time_that_is_over_ends_the_run_between_waves(world: World) -> None:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.after("elect", lambda: world.clock.advance(timedelta(minutes=2)))

    report = await world.recover(policy(Approval.AUTO, 1), effort=Effort(within=timedelta(minutes=1)))

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert code(report, PAYMENTS) == "Interrupted"
    assert world.kept_its_promises()


async def test_time_that_is_over_ends_the_wait_for_a_clean_member(world: World) -> None:
    world.offline()
    world.kafka.boot(1)

    report = await world.recover(effort=Effort(within=timedelta(seconds=5)))

    assert code(report) == "Interrupted"
    assert "ElectableBroker" in str(report[ORDERS].reason)
    assert world.changed() == []


async def test_whoever_is_stopped_while_waiting_asks_nobody_for_approval(world: World) -> None:
    world.offline()
    world.kafka.boot(1)
    with world.process(policy(Approval.MANUAL, patience=5)) as engine:
        world.clock.later(timedelta(seconds=4), engine.stop)
        report = await engine.recover(ALL_OFFLINE)

    assert code(report) == "Interrupted"
    assert "granted" not in world.steps.calls


@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(hours=-1), timedelta(days=400)])
async def test_a_wall_clock_that_jumps_changes_nothing(world: World, jump: timedelta) -> None:
    world.offline()
    for call in ("record", "granted", "wave_started", "elect"):
        world.before(call, lambda: setattr(world.clock, "wall", world.clock.wall + jump))

    report = await world.recover(policy(Approval.MANUAL))

    assert report.recovered
    assert len(report.plans) == 1
    assert world.kept_its_promises()


async def test_the_same_cluster_gives_the_same_plan_and_the_same_story(tmp_path: Path) -> None:
    stories = []
    for name in ("one", "two"):
        world = World(tmp_path / name)
        world.offline()
        world.offline({3: 8, 4: 9}, PAYMENTS)
        plan = await world.plan()
        report = await world.recover()
        stories.append((canonical(plan), report, world.steps.calls))

    assert stories[0] == stories[1]


async def test_a_person_may_name_the_leader_but_not_a_fenced_one(world: World) -> None:
    world.offline({3: 15, 2: 27})
    with world.process() as engine:
        refused = await engine.recover(ALL_OFFLINE, {ORDERS: BrokerId(1)})
        named = await engine.recover(ALL_OFFLINE, {ORDERS: BrokerId(3)})

    assert code(refused) == "DesignatedLeaderRejected"
    assert named[ORDERS].leader == 3
    assert world.kept_its_promises()


async def test_only_partitions_of_the_plan_are_touched(world: World) -> None:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.kafka.partitions[SHIPMENTS] = Held(TopicId("ships"), (2, 3), (2, 3), {2: 5, 3: 5}, (2, 3), leader=2)

    await world.recover(scope=Scope((ORDERS,)))

    assert {request.id for request in world.kafka.requests} == {ORDERS}
    assert world.leader(PAYMENTS) is None
    assert world.kafka.partitions[SHIPMENTS].epoch == 5


async def test_planning_changes_nothing_and_keeps_nothing(world: World) -> None:
    world.offline()

    plan = await world.plan()

    assert world.steps.calls == ["gather"]
    assert digest(plan)


async def test_a_partition_that_changes_again_and_again_is_given_up(world: World) -> None:
    world.offline()
    world.kafka.denied[ORDERS] = Answer.CHANGED

    report = await world.recover(AUTO, effort=Effort(attempts=3))

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "Denied")
    assert world.steps.calls.count("elect") == 4
    assert world.kept_its_promises()


async def test_a_cluster_that_stands_still_is_not_said_to_have_nothing_offline(world: World) -> None:
    """Every broker that answers is cut off from the controllers: what they lost since is not to be seen."""
    for node in world.kafka.nodes.values():
        node.advances = False

    with pytest.raises(ViewStandsStill, match="stands still"):
        await world.recover()


@pytest.mark.parametrize(
    ("advances", "why"),
    [(False, "NoActiveController"), (None, "MetadataAgeUnknown")],
    ids=["they stand still", "whether they move is not known"],
)
async def test_a_leader_that_only_old_metadata_may_show_is_not_called_recovered(
    world: World, advances: bool | None, why: str
) -> None:
    """It may be one of before."""
    world.offline()
    world.kafka.partitions[ORDERS].leader = 2
    for node in world.kafka.nodes.values():
        node.advances = advances

    report = await world.recover(scope=Scope((ORDERS,)))

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, why)


def one_is_led_and_one_is_not(world: World) -> None:
    """Orders have a leader when the plan is made; payments are elected."""
    world.offline()
    world.kafka.partitions[ORDERS].leader = 2
    world.offline({1: 30, 2: 27}, PAYMENTS)


def cut_off(world: World) -> None:
    """Every broker answers, and hears of no controller."""
    for node in world.kafka.nodes.values():
        node.advances = False


def nobody_answers() -> None:
    raise Unavailable("no broker answers")


async def test_a_leader_of_before_the_elections_is_not_called_recovered_by_metadata_that_stand_still_since(
    world: World,
) -> None:
    """While another partition was elected, every broker that answers lost its way to the controllers."""
    one_is_led_and_one_is_not(world)
    world.before("wave_ended", lambda: cut_off(world))

    report = await world.recover(scope=Scope((ORDERS, PAYMENTS)))

    assert report[PAYMENTS].outcome.is_recovered
    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "NoActiveController")


async def test_what_had_a_leader_is_decided_again_where_nobody_can_be_asked_after_the_elections(world: World) -> None:
    one_is_led_and_one_is_not(world)
    failed: list[str] = []

    def fails() -> None:
        failed.append("once")
        nobody_answers()

    world.before("wave_ended", lambda: world.before("gather", fails))

    report = await world.recover(scope=Scope((ORDERS, PAYMENTS)))

    assert failed == ["once"]
    assert report[PAYMENTS].outcome.is_recovered
    assert (report[ORDERS].outcome, code(report)) == (Outcome.RECOVERED_CLEANLY, "AlreadyOnline")


async def test_an_executed_plan_calls_nothing_recovered_by_metadata_that_stand_still_after_a_failed_look(
    world: World,
) -> None:
    """A plan that is executed is not decided anew: what had a leader is concluded at the end."""
    one_is_led_and_one_is_not(world)
    with world.process(AUTO) as engine:
        plan = await engine.plan(Scope((ORDERS, PAYMENTS)))

    def fails_and_is_cut_off() -> None:
        world.before("gather", nobody_answers)
        cut_off(world)

    world.before("wave_ended", fails_and_is_cut_off)

    report = await world.execute(plan)

    assert report[PAYMENTS].outcome.is_recovered
    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "NoActiveController")


@pytest.mark.parametrize(
    ("then", "now", "why"),
    [(True, False, "NoActiveController"), (None, True, "AlreadyOnline")],
    ids=["they stand still since", "they are seen to move by now"],
)
async def test_what_is_led_is_told_by_the_view_of_when_the_plan_is_executed(
    world: World, then: bool | None, now: bool, why: str
) -> None:
    """Nobody is elected by the plan, and it may be of long ago."""
    world.offline()
    world.kafka.partitions[ORDERS].leader = 2
    for node in world.kafka.nodes.values():
        node.advances = then
    with world.process(AUTO) as engine:
        plan = await engine.plan(Scope((ORDERS,)))
    for node in world.kafka.nodes.values():
        node.advances = now

    report = await world.execute(plan)

    assert code(report) == why
