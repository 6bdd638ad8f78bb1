"""What Kafka, and people, do to a recovery that is under way: the hazards met on real brokers, and some more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.domain.election import (
    ALL_OFFLINE,
    Answer,
    ElectionAnswer,
    ElectionRequest,
    Gone,
    Leadership,
    Sighting,
)
from kafka_recovery.domain.ids import TopicId, TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval, Limits
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ports import PlanForAnotherCluster
from kafka_recovery.recovery.wave import FRESH
from unit.recovery.brokers import Fate
from unit.recovery.world import AUTO, MANUAL, ORDERS, PAYMENTS, World, code, crash, dies_in, policy

QUARANTINE = timedelta(seconds=60)


async def test_a_candidate_that_dies_before_it_is_fenced_is_not_called_recovered(world: World) -> None:
    """Kafka says that all went well, and elects the dead broker."""
    world.offline({3: 15, 2: 27})
    world.before("elect", lambda: world.kafka.kill(2))

    report = await world.recover()

    assert world.kafka.elected == [(ORDERS, 2), (ORDERS, 3)]
    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 3)
    assert len(report.plans) == 2
    assert world.kept_its_promises()


async def test_the_other_replica_needs_an_approval_of_its_own(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("elect", lambda: world.kafka.kill(2))
    world.before("elect", lambda: setattr(world, "approver", None))

    report = await world.recover(MANUAL)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.FAILED, "AwaitingApproval"), "an election was held"
    assert world.kafka.elected == [(ORDERS, 2)]
    assert world.kept_its_promises()


async def test_a_leader_that_dies_between_its_answer_and_the_restore_is_not_called_recovered(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("restore", lambda: world.kafka.kill(2))
    world.before("restore", lambda: world.kafka.fence(2))

    report = await world.recover()

    assert report[ORDERS].leader == world.leader() == 3


async def test_another_leader_that_follows_is_waited_for_before_it_is_called_one(world: World) -> None:
    """The designated leader answered; before its order is read back, a replica that caught up takes over."""
    world.offline({3: 15, 2: 27})
    world.before("restore", lambda: hand_over(world))
    world.after("restore", lambda: world.clock.later(timedelta(seconds=5), lambda: begin_to_lead(world)))

    report = await world.recover()

    assert (report[ORDERS].leader, report[ORDERS].leader_epoch) == (3, 7)


async def test_a_leader_that_another_one_followed_which_never_answers_is_none(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("restore", lambda: hand_over(world))

    report = await world.recover()

    assert world.leader() is None
    assert (report[ORDERS].outcome, code(report)) == (Outcome.FAILED, "LeaderUnresponsive")
    assert world.kept_its_promises()


def hand_over(world: World) -> None:
    """Broker 3 is the leader now, and has not begun to lead."""
    world.kafka.nodes[3].busy = True
    world.kafka.elect_uncleanly(ORDERS, 3)


def begin_to_lead(world: World) -> None:
    world.kafka.nodes[3].busy = False


async def test_a_candidate_that_is_fenced_in_the_last_moment_leaves_another_leader_than_planned(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("elect", lambda: world.kafka.fence(2))

    report = await world.recover()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.FAILED, "UnexpectedLeader")
    assert "log end 15; planned was broker 2 with 27" in str(report[ORDERS].reason)
    assert world.kept_its_promises()


async def test_an_equal_replica_elected_instead_is_not_what_was_planned_but_loses_no_more(world: World) -> None:
    world.offline({3: 27, 2: 27})
    plan = await world.plan()
    chosen = plan.decisions[0].leader
    assert chosen is not None
    world.before("elect", lambda: world.kafka.fence(chosen))

    report = await world.recover()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.FAILED, "UnexpectedLeader")
    assert report[ORDERS].leader != chosen
    assert "nothing more is lost than planned" in str(report[ORDERS].reason)


@pytest.mark.parametrize("moment", ["record", "gather", "wave_started", "elect"])
async def test_an_isr_member_that_is_back_first_leads_cleanly(world: World, moment: str) -> None:
    world.offline()
    world.before(moment, lambda: world.kafka.start(1), nth=2 if moment == "gather" else 1)

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED_CLEANLY, 1)
    assert report[ORDERS].warnings == ()
    assert world.kafka.elected == []
    assert world.kept_its_promises()


async def test_an_elr_member_that_is_back_first_leads_cleanly(world: World) -> None:
    world.offline(elr=(1,))
    world.before("elect", lambda: world.kafka.start(1))

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED_CLEANLY, 1)


@pytest.mark.parametrize("moment", ["record", "wave_started", "elect"])
async def test_an_isr_member_that_is_back_with_less_is_warned_of(world: World, moment: str) -> None:
    world.offline({3: 15, 2: 27})
    world.before(moment, lambda: world.kafka.start(1, with_end=0))

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY
    assert "log end 0" in report[ORDERS].warnings[0]
    assert "27" in report[ORDERS].warnings[0]


async def test_a_quarantine_is_exactly_a_minute_long_and_then_everything_is_looked_at_again(world: World) -> None:
    world.offline()
    world.kafka.elect_fates = [Fate.LOST]
    ends: list[timedelta] = []
    world.after("elect", lambda: ends.append(world.clock.monotonic() + QUARANTINE))
    world.before("answering", lambda: ends.append(world.clock.monotonic()))

    report = await world.recover()

    assert ends[0] == ends[1]
    assert world.waited_out()
    assert [why.code for why in world.waits] == ["InDoubt"]
    assert report[ORDERS].outcome is Outcome.RECOVERED, "decided and elected again"
    assert world.kept_its_promises()


@pytest.mark.parametrize("fate", [Fate.DONE, Fate.LATE])
async def test_an_unanswered_election_that_took_effect_is_verified_like_any_other(world: World, fate: Fate) -> None:
    world.offline()
    world.kafka.elect_fates = [fate]

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 2), report
    assert world.steps.calls.count("elect") == 1
    assert world.kept_its_promises()


async def test_a_late_leader_is_given_time_to_begin_to_lead(world: World) -> None:
    world.offline()
    world.kafka.elect_fates = [Fate.LATE]
    world.kafka.nodes[2].busy = True
    world.clock.later(QUARANTINE + timedelta(seconds=20), lambda: setattr(world.kafka.nodes[2], "busy", False))

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED


async def test_who_claims_to_lead_in_an_old_epoch_is_no_new_leader(world: World) -> None:
    world.offline()
    world.kafka.elect_fates = [Fate.LOST]
    world.after("elect", lambda: setattr(world.kafka.nodes[2], "fooled", True))

    report = await world.recover()

    assert not report.recovered
    assert world.kafka.elected == []


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.DONE, Fate.LATE])
async def test_an_unanswered_restore_is_looked_at_again_after_quarantine(world: World, fate: Fate) -> None:
    world.offline()
    world.kafka.restore_fates = [fate]
    asked: list[timedelta] = []
    for nth in (1, 2):
        world.before("restore", lambda: asked.append(world.clock.monotonic()), nth)

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert report[ORDERS].order_restored
    assert len(asked) == 1 or asked[1] - asked[0] >= QUARANTINE
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_an_order_that_can_not_be_restored_is_said_and_left_to_undo(world: World) -> None:
    world.offline()
    world.kafka.restore_fates = [Fate.LOST] * 2

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert not report[ORDERS].order_restored
    assert await world.open_runs() == list(report.plans)

    undone = await world.undo()

    assert undone[ORDERS].order_restored
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_why_an_order_could_not_be_restored_is_told_with_the_outcome_until_it_is(world: World) -> None:
    world.offline()
    restore = world.kafka.restore
    why = Reason("OrderCannotBeSet", "broker 1 is not registered in the cluster")

    async def refused(requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        return {request.id: ElectionAnswer(Answer.REFUSED, why) for request in requests}

    world.kafka.restore = refused  # type: ignore[method-assign]
    reports = [await world.recover(), await world.undo()]
    world.kafka.restore = restore  # type: ignore[method-assign]
    undone = await world.undo()

    for report in reports:
        assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.RECOVERED, False)
        assert f"order could not be put back: {why.message}" in report[ORDERS].warnings[0]
    assert (undone[ORDERS].order_restored, undone[ORDERS].warnings) == (True, ())


async def test_what_a_resume_can_not_see_may_have_been_elected_and_is_unknown(world: World) -> None:
    world.offline()
    world.kafka.restore_fates = [Fate.LOST] * 2
    await world.recover()
    world.kafka.hidden.add(ORDERS)

    blind = await world.resume()
    world.kafka.hidden.clear()
    resumed = await world.resume()

    assert (blind[ORDERS].outcome, blind[ORDERS].order_restored) == (Outcome.IN_DOUBT, None)
    assert code(blind) == "TopicAuthorizationFailed"
    assert (resumed[ORDERS].outcome, resumed[ORDERS].order_restored) == (Outcome.RECOVERED, True)


async def test_an_order_that_is_seen_altered_again_while_another_is_restored_does_not_break_the_wave(
    world: World,
) -> None:
    """A second look may come from a broker that has not learned yet what the first one had."""
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    held, restore = world.kafka.partitions, world.kafka.restore

    async def only_payments_at_first(requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        answers = await restore(requests)
        if ORDERS not in answers or PAYMENTS not in answers:
            altered = next(request.order for request in world.kafka.requests if request.id == PAYMENTS)
            held[PAYMENTS].shown = tuple(altered)
            world.clock.later(timedelta(seconds=2), lambda: setattr(held[PAYMENTS], "shown", None))
            return answers
        return {**answers, ORDERS: ElectionAnswer(Answer.REFUSED, Reason("NotController", "try again"))}

    world.kafka.restore = only_payments_at_first  # type: ignore[method-assign]

    report = await world.recover()

    assert [report[id].order_restored for id in (ORDERS, PAYMENTS)] == [True, True]
    assert await world.open_runs() == []


async def test_an_altered_order_never_passes_for_the_original_in_the_next_plan(world: World) -> None:
    """The election takes no effect, the order it set can't be put back: deciding again would make it the original."""
    world.offline()
    world.kafka.elect_fates = [Fate.LOST]
    world.kafka.restore_fates = [Fate.LOST] * 2

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.IN_DOUBT, False)
    assert len(report.plans) == 1

    recovered = await world.recover()

    assert recovered[ORDERS].outcome is Outcome.RECOVERED
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def left_altered(world: World) -> None:
    """A run ended before it could put back the order that it had set."""
    world.offline()
    world.kafka.elect_fates = [Fate.LOST]
    world.kafka.restore_fates = [Fate.LOST] * 4
    await world.recover()


async def test_a_partition_whose_order_an_earlier_run_left_altered_is_refused_and_takes_no_place_of_the_limit(
    world: World,
) -> None:
    """The broker that may hold its request may never come back, and the others are to have their turn."""
    await left_altered(world)
    world.offline({3: 8, 4: 9}, PAYMENTS)

    report = await world.recover(replace(AUTO, limits=Limits(partitions=1)))

    assert code(report) == "OrderNotRestored"
    assert report[ORDERS].order_restored is False, "the run that tried to put it back has seen it stand"
    assert report[PAYMENTS].outcome is Outcome.RECOVERED

    await world.undo()

    assert world.kept_its_promises()


@pytest.mark.parametrize("act", ["recover", "resume", "undo"])
async def test_what_one_run_left_altered_is_not_called_the_original_order_by_another_that_never_touched_it(
    world: World, act: str
) -> None:
    """Both plans elect in it; the second was executed where nobody had put back the order of the first."""
    await left_altered(world)
    world.offline({3: 8, 4: 9}, PAYMENTS)
    plan = await world.plan()
    world.kafka.restore_fates = [Fate.LOST] * 2
    world.before("elect", crash)
    await dies_in(world.execute(plan))
    open_runs = await world.open_runs()
    world.calm_down()
    world.kafka.restore_fates = [Fate.LOST] * 2

    report = await getattr(world, act)()

    assert len(open_runs) == 2
    assert world.unrestored() == [ORDERS]
    assert not report[ORDERS].is_settled
    assert not report[ORDERS].order_restored
    assert world.kafka.elected.count((ORDERS, 2)) <= 1

    world.calm_down()
    await world.undo()

    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_a_plan_that_was_made_where_an_earlier_runs_order_stands_is_not_executed_there(world: World) -> None:
    await left_altered(world)

    plan = await world.plan()
    world.steps.calls.clear()
    report = await world.execute(plan)

    assert plan.elections
    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "OrderNotRestored")
    assert "elect" not in world.changed()


async def test_an_order_that_is_not_yet_in_the_brokers_metadata_is_restored_nevertheless(world: World) -> None:
    """The controller sets the order, then refuses the election: the brokers still show the original one."""
    world.offline()
    world.kafka.denied[ORDERS] = Answer.REFUSED
    world.kafka.lag = timedelta(milliseconds=300)

    report = await world.recover()

    assert code(report) == "Denied"
    world.clock.advance(timedelta(minutes=1))
    assert world.kept_its_promises()


async def test_a_restored_order_that_shows_late_is_waited_for(world: World) -> None:
    world.offline()
    world.before("restore", lambda: setattr(world.kafka, "lag", timedelta(seconds=3)))

    report = await world.recover()

    assert report[ORDERS].order_restored
    assert await world.open_runs() == []


async def test_an_assignment_that_somebody_changes_before_the_election_is_decided_anew(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("gather", lambda: world.kafka.reassign(ORDERS, (2, 3, 1)), nth=2)

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert world.kafka.partitions[ORDERS].assignment == (2, 3, 1)


@pytest.mark.parametrize("as_planned", [False, True], ids=["another order", "the very order of the plan"])
async def test_an_assignment_that_somebody_changes_while_the_engine_stands_still_is_left_alone(
    world: World, *, as_planned: bool
) -> None:
    """Between its last look and the designation: nothing was asked for yet, so whatever stands there is theirs."""

    def stand_still() -> None:
        world.clock.advance(2 * FRESH)
        world.kafka.reassign(ORDERS, theirs)

    world.offline({3: 15, 2: 27})
    plan = await world.plan()
    theirs = plan.elections[ORDERS].order if as_planned else (3, 1, 2)
    world.after("wave_started", stand_still)

    report = await world.execute(plan)

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert report[ORDERS].order_restored
    assert world.kafka.partitions[ORDERS].assignment == theirs
    assert await world.open_runs() == []


async def test_an_assignment_that_somebody_changes_after_the_election_is_left_alone(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.after("elect", lambda: world.kafka.reassign(ORDERS, (3, 2, 1)))

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert report[ORDERS].order_restored
    assert world.kafka.partitions[ORDERS].assignment == (3, 2, 1)


async def test_another_replica_set_is_left_alone(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("elect", lambda: world.kafka.reassign(ORDERS, (3, 2)))

    await world.recover()

    assert world.kafka.partitions[ORDERS].assignment == (3, 2)


@pytest.mark.parametrize("moment", ["record", "elect", "restore"])
async def test_a_topic_that_is_recreated_is_another_topic(world: World, moment: str) -> None:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.before(moment, lambda: world.kafka.recreate(ORDERS))

    report = await world.recover(policy(Approval.AUTO, 1))

    assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY, "the new topic has a leader of its own"
    assert world.kafka.partitions[ORDERS].assignment == (3,)
    assert report[PAYMENTS].outcome is Outcome.RECOVERED


async def test_a_recreated_topic_in_our_order_by_chance_is_not_ours_to_restore(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.after("elect", lambda: world.kafka.recreate(ORDERS, (2, 3, 1)))

    report = await world.recover()

    assert report[ORDERS].order_restored
    assert world.kafka.partitions[ORDERS].assignment == (2, 3, 1)
    assert await world.open_runs() == []


@pytest.mark.parametrize("moment", ["record", "elect", "restore"])
async def test_a_topic_that_is_deleted_holds_up_nobody(world: World, moment: str) -> None:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.before(moment, lambda: world.kafka.partitions.pop(ORDERS))

    report = await world.recover(policy(Approval.AUTO, 1))

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "PartitionGone")
    assert report[PAYMENTS].outcome is Outcome.RECOVERED
    assert await world.open_runs() == []


async def test_another_cluster_at_the_same_address_is_not_touched(world: World) -> None:
    world.offline()
    world.before("gather", lambda: setattr(world.kafka, "id", "another-cluster"), nth=2)

    with pytest.raises(PlanForAnotherCluster, match="another-cluster"):
        await world.recover()

    assert world.changed() == []


async def test_a_run_whose_restore_may_still_be_under_way_keeps_its_wave_open(world: World) -> None:
    """Else the next run would not wait out the minute, and the late restore would undo its order."""
    world.offline()
    world.kafka.restore_fates = [Fate.LOST, Fate.LATE]

    await world.recover()
    began = world.clock.monotonic()
    report = await world.undo()

    assert world.clock.monotonic() - began >= QUARANTINE
    assert report[ORDERS].order_restored
    assert await world.open_runs() == []


async def test_the_leader_of_an_own_election_that_died_and_came_back_is_no_clean_way_out(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("elect", lambda: world.kafka.kill(2))
    world.before("gather", lambda: world.kafka.start(2), nth=3)

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 2), report


async def test_a_leader_that_somebody_else_elected_uncleanly_is_not_called_clean(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.after("granted", lambda: world.kafka.elect_uncleanly(ORDERS, 3))

    report = await world.recover(MANUAL)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.FAILED, "UnexpectedLeader")
    assert world.kept_its_promises()


async def test_an_order_that_is_put_back_while_a_wave_waits_is_not_elected_by(world: World) -> None:
    """The wave before takes long and the look at this one is old: it is looked at again, and its order is not ours."""
    world.offline()
    world.offline({3: 15, 4: 27}, PAYMENTS)
    world.after("designate", lambda: world.kafka.reassign(PAYMENTS, (1, 3, 4)), nth=2)
    world.after("designate", lambda: world.clock.advance(timedelta(seconds=10)), nth=2)

    report = await world.recover(policy(Approval.AUTO, 1))

    assert (PAYMENTS, 3) not in world.kafka.elected
    assert report[PAYMENTS].outcome is Outcome.RECOVERED, "decided again"


async def test_a_wave_that_was_prepared_in_vain_gets_its_orders_back(world: World) -> None:
    world.offline()
    world.offline({3: 15, 4: 27}, PAYMENTS)
    with world.process(policy(Approval.AUTO, 1)) as engine:
        world.after("designate", engine.stop, nth=2)
        report = await engine.recover(ALL_OFFLINE)

    assert code(report, PAYMENTS) == "Interrupted"
    assert world.steps.calls.count("elect") == 1
    assert world.kept_its_promises()


async def test_a_wave_whose_designation_is_unanswered_waits_out_the_minute_before_its_orders_are_restored(
    world: World,
) -> None:
    world.offline()
    world.kafka.designate_fates = [Fate.LATE]

    report = await world.recover()

    assert world.waited_out()
    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert world.kept_its_promises()


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "made anew"])
async def test_one_wrong_word_about_a_topic_leaves_no_order_behind(world: World, gone: bool) -> None:
    """The answer to the restore is read from the same broker, so it is as wrong."""
    world.offline({3: 15, 2: 27})
    restore, leaders, wrong = world.kafka.restore, world.kafka.leaders, ["restore", "leaders"]

    async def misread(requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        if "restore" not in wrong:
            return await restore(requests)
        wrong.remove("restore")
        return {each.id: ElectionAnswer(Answer.ACCEPTED) for each in requests}

    async def misled(*given: Any) -> Mapping[TopicPartition, Sighting]:
        looks = dict(await leaders(*given))
        if wrong == ["leaders"]:
            wrong.clear()
            look = looks[ORDERS]
            assert isinstance(look, Leadership)
            looks[ORDERS] = Gone(ORDERS, Reason("NoTopic", "")) if gone else replace(look, topic_id=TopicId("another"))
        return looks

    world.kafka.restore = misread  # type: ignore[method-assign]
    world.kafka.leaders = misled  # type: ignore[assignment, method-assign]

    await world.recover()

    assert wrong == []
    assert world.kept_its_promises()
