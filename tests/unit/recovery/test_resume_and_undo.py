"""Going on with what another process began, and putting back what it left behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.policy import Approval, Limits
from kafka_recovery.recovery.ports import JournalUnwritable, PlanForAnotherCluster
from unit.recovery.brokers import Fate
from unit.recovery.world import AUTO, ORDERS, PAYMENTS, World, code, crash, dies_in, policy

QUARANTINE = timedelta(seconds=60)


async def begun(world: World, point: str = "elect", *, after: bool = True, waves: int = 1) -> None:
    """A run that was cut short at this call."""
    (world.after if after else world.before)(point, crash)
    await dies_in(world.recover(policy(Approval.AUTO, waves)))
    world.calm_down()


async def test_where_nothing_was_begun_there_is_nothing_to_do(world: World) -> None:
    world.offline()

    assert (await world.resume()).outcomes == ()
    assert (await world.undo()).outcomes == ()
    assert world.changed() == []


async def test_an_inherited_request_is_waited_out_before_anything_is_changed(world: World) -> None:
    world.offline()
    world.kafka.elect_fates = [Fate.LATE]
    await begun(world)
    began, acted = world.clock.monotonic(), []
    for call in ("elect", "restore"):
        world.before(call, lambda: acted.append(world.clock.monotonic() - began))

    report = await world.resume()

    assert min(acted) >= QUARANTINE
    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 2)
    assert world.kept_its_promises()


async def test_orders_are_put_back_before_anything_else_is_changed(world: World) -> None:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    await begun(world)
    assert world.unrestored() == [ORDERS]
    calls = len(world.steps.calls)

    await world.resume()

    assert [call for call in world.steps.calls[calls:] if call in ("elect", "restore")] == [
        "restore",
        "elect",
        "restore",
    ]
    assert world.kept_its_promises()


async def test_what_was_never_sent_needs_no_quarantine(world: World) -> None:
    world.offline()
    await begun(world, "approved")

    report = await world.resume()

    assert report.recovered
    assert not world.waited_out()


async def test_another_leader_than_planned_is_not_called_recovered_after_a_crash_either(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("elect", lambda: world.kafka.fence(2))
    await begun(world)

    report = await world.resume()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.FAILED, "UnexpectedLeader")


async def test_under_min_insync_replicas_is_said_after_a_crash_as_well(world: World) -> None:
    world.offline(min_isr=2)
    await begun(world)

    assert (await world.resume())[ORDERS].outcome is Outcome.RECOVERED_UNDER_MIN_ISR


async def test_a_member_that_came_back_with_less_is_warned_of_after_a_crash_as_well(world: World) -> None:
    world.offline({3: 15, 2: 27})
    await begun(world, after=False)
    world.kafka.start(1, with_end=3)

    report = await world.resume()

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert "log end 3" in report[ORDERS].warnings[0]


async def test_a_member_that_leads_after_a_crash_may_have_been_elected_by_the_run_that_died(world: World) -> None:
    """Its request may be carried out late, when a member is back whose empty disk cost it its place in the ELR."""
    world.offline({3: 15, 2: 27})
    await begun(world, after=False)
    world.kafka.start(1, with_end=40)

    report = await world.resume()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.RECOVERED, "MemberLeads")


async def test_a_wave_whose_leader_stays_silent_stops_the_later_ones_after_a_crash_as_well(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.kafka.nodes[2].busy = True
    await begun(world)

    report = await world.resume()

    assert report[ORDERS].outcome is Outcome.FAILED
    assert code(report, PAYMENTS) == "EarlierWaveFailed"
    assert world.unrestored() == []


async def test_what_changed_since_is_refused_and_not_planned_anew(world: World) -> None:
    world.offline({3: 15, 2: 27})
    await begun(world, after=False)
    world.kafka.nodes[2].alive, world.kafka.nodes[2].fenced = False, True

    report = await world.resume()

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert len(report.plans) == 1
    assert world.kafka.elected == []


async def test_a_topic_that_was_recreated_meanwhile_is_not_verified_against_the_old_plan(world: World) -> None:
    world.offline()
    await begun(world)
    world.kafka.recreate(ORDERS)

    report = await world.resume()

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert world.kafka.partitions[ORDERS].assignment == (3,)
    assert await world.open_runs() == []


async def test_a_topic_that_was_deleted_meanwhile_does_not_keep_the_run_open(world: World) -> None:
    world.offline()
    await begun(world)
    del world.kafka.partitions[ORDERS]

    await world.undo()

    assert await world.open_runs() == []


async def test_an_order_that_somebody_else_set_since_is_left_alone(world: World) -> None:
    world.offline({3: 15, 2: 27})
    await begun(world)
    world.kafka.reassign(ORDERS, (3, 2, 1))

    await world.undo()

    assert world.kafka.partitions[ORDERS].assignment == (3, 2, 1)
    assert await world.open_runs() == []


async def test_an_order_that_somebody_else_set_where_nothing_was_begun_is_left_alone(world: World) -> None:
    """The run died before the wave of this partition. Its owner has had the same idea since."""
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    plan = await world.plan(policy(Approval.AUTO, 1))
    await begun(world)
    same = plan.elections[PAYMENTS].order
    assert same != plan.elections[PAYMENTS].assignment
    world.kafka.reassign(PAYMENTS, same)

    await world.undo()

    assert world.kafka.partitions[PAYMENTS].assignment == same
    assert world.unrestored() == []
    assert await world.open_runs() == []


async def test_undo_restores_orders_and_leaves_leaders(world: World) -> None:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    await begun(world)

    report = await world.undo()

    assert world.unrestored() == []
    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 2), "it leads: nothing else is true"
    assert str(report[PAYMENTS].reason) == "Aborted: its recovery was ended; the assignment order is the original one"
    assert world.leader(PAYMENTS) is None
    assert (await world.resume()).outcomes == ()


async def test_undo_that_can_not_restore_says_so_and_can_be_tried_again(world: World) -> None:
    world.offline()
    await begun(world)
    world.kafka.restore_fates = [Fate.LOST] * 2

    report = await world.undo()

    assert not report[ORDERS].order_restored
    assert len(await world.open_runs()) == 1
    assert (await world.undo())[ORDERS].order_restored
    assert await world.open_runs() == []


async def test_undoing_and_resuming_twice_is_harmless(world: World) -> None:
    world.offline()
    await begun(world)

    await world.undo()
    orders, changes = world.unrestored(), world.changed()
    await world.undo()
    await world.resume()

    assert (world.unrestored(), world.changed()) == (orders, changes)


async def test_a_run_of_another_cluster_is_not_gone_on_with(world: World) -> None:
    world.offline()
    await begun(world)
    changes = world.changed()
    world.before("gather", lambda: setattr(world.kafka, "id", "another-cluster"))

    with pytest.raises(PlanForAnotherCluster):
        await world.resume()

    assert world.changed() == changes


async def test_a_resumed_run_that_crashes_again_is_waited_out_again(world: World) -> None:
    """Waves are numbered on: the second process's first wave is none of those that have ended."""
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.offline({3: 8, 4: 9}, TopicPartition("shipments", 0))
    world.after("wave_ended", crash)
    await dies_in(world.recover(policy(Approval.AUTO, 1)))
    world.kafka.elect_fates = [Fate.LATE]
    world.after("elect", crash)
    await dies_in(world.resume())
    world.calm_down()
    world.waits.clear()

    report = await world.resume()

    assert world.waited_out()
    assert report.recovered
    assert world.kept_its_promises()


@pytest.mark.parametrize("first", [World.resume, World.undo], ids=["resume", "undo"])
async def test_a_process_that_dies_while_it_puts_orders_back_is_waited_out(
    first: Callable[[World], Awaitable[Report]], world: World
) -> None:
    """Its request may be with a broker still: what the next process sees altered, or sets, would change under it."""
    world.offline()
    await begun(world)
    world.kafka.restore_fates = [Fate.LATE]
    world.after("restore", crash)
    await dies_in(first(world))
    world.calm_down()
    died, acted = world.clock.monotonic(), []
    for call in ("designate", "elect", "restore"):
        world.before(call, lambda: acted.append(world.clock.monotonic() - died))

    report = await world.resume()

    assert min(acted) >= QUARANTINE
    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert world.kept_its_promises()


async def test_an_order_that_may_still_be_put_back_keeps_its_wave_open(world: World) -> None:
    """Else the next run would not wait out the minute, and the late restore would undo its order."""
    world.offline()
    await begun(world)
    world.kafka.restore_fates = [Fate.LOST, Fate.LATE]
    await world.resume()
    began = world.clock.monotonic()

    await world.undo()

    assert world.clock.monotonic() - began >= QUARANTINE
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_what_a_dead_process_began_counts_once_for_the_limit_of_its_plan(world: World) -> None:
    """The limit is 1 by now, and it is this very election that was begun."""
    world.offline({3: 15, 2: 27})
    world.before("elect", crash)
    await dies_in(world.recover())

    report = await world.resume(replace(AUTO, limits=replace(AUTO.limits, partitions=1)))

    assert report[ORDERS].outcome is Outcome.RECOVERED


async def test_a_leader_that_verified_and_handed_over_is_no_failure_after_a_crash(world: World) -> None:
    """The end of its wave is kept; then the process dies, and Kafka moves leadership on within the ISR."""
    world.offline({3: 15, 2: 27})
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.after("wave_ended", crash)
    await dies_in(world.recover(policy(Approval.AUTO, 1)))
    held = world.kafka.partitions[ORDERS]
    held.ends[3], held.isr, held.leader, held.epoch = held.ends[2], (2, 3), 3, held.epoch + 1

    report = await world.resume(policy(Approval.AUTO, 1))

    assert (report[ORDERS].outcome, code(report), report[ORDERS].leader) == (Outcome.RECOVERED, "Recovered", 3)
    assert "leadership went on" in str(report[ORDERS].reason)
    assert report[PAYMENTS].outcome is Outcome.RECOVERED, "and it stops no later wave"


async def test_undo_that_can_not_see_a_partition_does_not_say_that_its_order_is_the_original_one(world: World) -> None:
    world.offline()
    await begun(world)
    world.kafka.hidden.add(ORDERS)

    report = await world.undo()

    assert report[ORDERS].outcome is Outcome.IN_DOUBT
    assert report[ORDERS].order_restored is None
    assert len(await world.open_runs()) == 1
    world.kafka.hidden.clear()
    assert (await world.undo())[ORDERS].order_restored
    assert world.unrestored() == []


async def test_an_order_that_was_seen_to_be_back_is_told_so_though_the_journal_could_not_keep_it(world: World) -> None:
    world.offline()
    await begun(world, "designate")

    def full() -> None:
        raise JournalUnwritable("full")

    world.before("wave_ended", full, nth=2)  # the first one ends the wave that was cut short

    with pytest.raises(JournalUnwritable):
        await world.undo()

    assert world.unrestored() == []
    assert [(told.outcome, told.order_restored) for told in world.concluded_outcomes] == [(Outcome.IN_DOUBT, True)]


async def test_what_a_run_that_was_cut_short_had_begun_counts_for_the_limit_of_now(world: World) -> None:
    """A limit that counted anew with each process would be none."""
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.after("elect", crash)
    await dies_in(world.recover(policy(Approval.AUTO, 1)))
    world.calm_down()

    report = await world.resume(replace(policy(Approval.AUTO, 1), limits=Limits(partitions=1, wave_sizes=(1,))))

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert code(report, PAYMENTS) == "PartitionLimitReached"
    assert world.kept_its_promises()
