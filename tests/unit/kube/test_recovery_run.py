"""One recovery's way: what was begun is gone on with, what was shown can still be approved, what fails is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.recovery_status import ApprovedBy, End, Phase
from kafka_recovery.kube.resources import FINALIZER, POLICIES, RECOVERIES
from kafka_recovery.kube.supervision import House
from kafka_recovery.recovery.supervision import Authority
from unit.kube.journals import NAME, NAMESPACE, unowned
from unit.kube.operated import Going, Operated
from unit.kube.our_objects import OurObjects, inhabited
from unit.kube.virtual import in_no_time
from unit.recovery.brokers import Crash, Fate
from unit.recovery.world import ORDERS, PAYMENTS, World, crash

T = TypeVar("T")
MINUTE = timedelta(minutes=1)
SUSPENDED = Reason("Suspended", "ConfigMap kafka/operator says suspend: true")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.offline()
    return world


@pytest.fixture
def automatic(world: World) -> Operated:
    return Operated(world, inhabited())


@pytest.fixture
def by_hand(world: World) -> Operated:
    """A person approves each plan."""
    return Operated(world, inhabited(approval="ManualApprove"))


def plans(api: OurObjects) -> list[str]:
    return [name for name in api.config_maps() if name.endswith("-plan")]


def story(tell: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return in_no_time(tell())


async def died(operated: Operated) -> None:
    """A first process met its end as the test arranged it."""
    with pytest.raises(Crash):
        await operated.process().go()
    operated.world.calm_down()


# To the end


def test_what_may_be_elected_by_its_rules_is_recovered_and_nothing_is_left_behind(automatic: Operated) -> None:
    end = story(lambda: Going.to_its_end(automatic.process()))

    assert (end, automatic.world.leader()) == (End.RECOVERED, 2)
    assert automatic.world.kept_its_promises()
    assert (automatic.api.finalizers(NAMESPACE, NAME), unowned(automatic.api)) == ([], [])
    assert automatic.automatic == 1


def test_an_election_that_does_not_verify_ends_it_as_failed(automatic: Operated) -> None:
    automatic.world.after("elect", lambda: automatic.world.kafka.elect_uncleanly(ORDERS, 3))

    async def tell() -> tuple[End, str]:
        going = Going(automatic.process())
        return await going.end(), going.run.progress.reason.code

    assert story(tell) == (End.FAILED, "NotVerified")


def test_what_is_gone_needs_nothing_more(automatic: Operated) -> None:
    del automatic.world.kafka.partitions[ORDERS]

    assert story(lambda: Going.to_its_end(automatic.process())) is End.RECOVERED


def test_a_plan_that_was_not_needed_goes_with_its_recovery(by_hand: Operated) -> None:
    """A clean member came back while a person was reading."""

    async def tell() -> End:
        going = Going(by_hand.process())
        await going.until(Phase.AWAITING_APPROVAL)
        by_hand.world.kafka.start(1)
        by_hand.api.approve(going.digest)
        return await going.end()

    assert story(tell) is End.RECOVERED
    assert unowned(by_hand.api) == []


# What an earlier process left


def test_a_run_that_was_cut_short_is_resumed_before_anything_is_decided_anew(automatic: Operated) -> None:
    automatic.world.after("elect", crash)

    async def tell() -> End:
        await died(automatic)
        assert automatic.world.unrestored() == [ORDERS]
        return await Going(automatic.process()).end()

    assert story(tell) is End.RECOVERED
    assert (automatic.world.leader(), len(plans(automatic.api))) == (2, 1)
    assert automatic.phases.index(Phase.RESTORING) < automatic.phases.index(Phase.ENDED)
    assert automatic.world.kept_its_promises()


def test_a_resumed_run_still_shows_its_plan_and_who_approved_it(by_hand: Operated) -> None:
    by_hand.world.after("elect", crash)
    ann = ApprovedBy("yes", "uid", "ann")

    async def tell() -> tuple[str, Any]:
        going = Going(by_hand.process())
        await going.until(Phase.AWAITING_APPROVAL)
        digest = going.digest
        by_hand.api.approve(digest)
        await asyncio.gather(going.task, return_exceptions=True)
        by_hand.world.calm_down()
        again = Going(by_hand.process(shown=digest, approval=ann))
        await again.end()
        return digest, again.run.progress

    digest, progress = story(tell)
    assert (progress.plan_shown.digest, progress.approval) == (digest, ann)


def test_the_plan_that_was_shown_can_still_be_approved_after_a_restart(by_hand: Operated) -> None:
    async def tell() -> tuple[End, str, str]:
        first = Going(by_hand.process())
        await first.until(Phase.AWAITING_APPROVAL)
        shown = first.digest
        await first.killed()
        by_hand.world.clock.advance(timedelta(seconds=10))
        second = Going(by_hand.process(shown=shown))
        by_hand.api.approve(shown)
        return await second.end(), shown, second.digest

    end, shown, executed = story(tell)
    assert (end, executed, len(plans(by_hand.api))) == (End.RECOVERED, shown, 1)


def test_a_plan_that_was_shown_and_is_not_there_any_more_is_made_anew(by_hand: Operated) -> None:
    async def tell() -> None:
        await Going(by_hand.process(shown="ab" * 32)).until(Phase.AWAITING_APPROVAL)

    story(tell)
    assert len(plans(by_hand.api)) == 1


# Approvals


def test_a_plan_that_changed_is_discarded_and_another_one_is_made(by_hand: Operated) -> None:
    async def tell() -> tuple[str, str]:
        going = Going(by_hand.process())
        await going.until(Phase.AWAITING_APPROVAL)
        old = going.digest
        by_hand.world.kafka.partitions[ORDERS].ends[3] = 40
        by_hand.world.clock.advance(2 * MINUTE)
        while going.run.progress.plan_shown is None or going.digest == old:
            await asyncio.sleep(1)
        await going.until(Phase.AWAITING_APPROVAL)
        return old, going.digest

    old, new = story(tell)
    assert [old[:16] in name for name in unowned(by_hand.api)] == [False] * len(unowned(by_hand.api))
    assert any(new[:16] in name for name in unowned(by_hand.api))
    assert by_hand.world.changed() == []


def test_a_refusal_ends_it_with_its_reason_and_nothing_changed(by_hand: Operated) -> None:
    async def tell() -> tuple[End, Reason]:
        going = Going(by_hand.process())
        await going.until(Phase.AWAITING_APPROVAL)
        by_hand.api.approve(going.digest, decision="Refuse", reason="broker 1 is on its way")
        return await going.end(), going.run.progress.reason

    end, reason = story(tell)
    assert (end, reason.code) == (End.REFUSED, "ApprovalRefused")
    assert reason.message == "ann refused the plan: broker 1 is on its way"
    assert (by_hand.world.changed(), unowned(by_hand.api)) == ([], [])


def test_elections_that_need_nobody_do_not_wait_for_those_that_do(world: World) -> None:
    world.offline({3: 8, 4: 9}, PAYMENTS)
    operated = Operated(world, inhabited(ORDERS, PAYMENTS), (ORDERS, PAYMENTS))
    rules = [{"name": "pay", "topics": {"names": ["payments"]}}, {"name": "rest", "approval": "AutoApprove"}]
    operated.api.change(POLICIES, "rules", rules=rules)

    async def tell() -> tuple[tuple[int | None, int | None], End]:
        going = Going(operated.process())
        await going.until(Phase.AWAITING_APPROVAL)
        meanwhile = world.leader(), world.leader(PAYMENTS)
        operated.api.approve(going.digest)
        return meanwhile, await going.end()

    assert story(tell) == ((2, None), End.RECOVERED)
    assert (world.leader(PAYMENTS), len(plans(operated.api))) == (4, 1)
    assert world.kept_its_promises()


# Called off


def test_what_waits_and_is_aborted_ends_at_once(by_hand: Operated) -> None:
    async def tell() -> End:
        going = Going(by_hand.process())
        await going.until(Phase.AWAITING_APPROVAL)
        by_hand.api.change(RECOVERIES, NAME, abort=True)
        going.run.wake()
        return await going.end(within=5)

    assert story(tell) is End.ABORTED
    assert (by_hand.world.changed(), unowned(by_hand.api)) == ([], [])


def test_what_was_begun_and_is_aborted_gets_its_orders_back_and_elects_nobody(automatic: Operated) -> None:
    automatic.world.after("designate", crash)

    async def tell() -> End:
        await died(automatic)
        assert automatic.world.unrestored() == [ORDERS]
        automatic.api.change(RECOVERIES, NAME, abort=True)
        return await Going(automatic.process()).end()

    assert story(tell) is End.ABORTED
    assert automatic.world.leader() is None
    assert automatic.world.kept_its_promises()


def test_what_is_deleted_gets_its_orders_back_before_its_finalizer_goes(automatic: Operated) -> None:
    automatic.world.after("designate", crash)

    async def tell() -> None:
        await died(automatic)
        assert automatic.api.finalizers(NAMESPACE, NAME) == [FINALIZER]
        await automatic.api.delete(RECOVERIES.path(NAMESPACE, NAME))
        await Going(automatic.process()).end()

    story(tell)
    assert automatic.world.kept_its_promises()
    assert RECOVERIES.path(NAMESPACE, NAME) not in automatic.api.objects


def test_a_finalizer_that_stands_though_nothing_was_begun_holds_up_no_deletion(by_hand: Operated) -> None:
    """The process died between putting it on and keeping that the run begins."""
    by_hand.api.put(RECOVERIES, NAME, by_hand.api.recovery()["spec"], finalizers=[FINALIZER])

    async def tell() -> None:
        await by_hand.api.delete(RECOVERIES.path(NAMESPACE, NAME))
        await Going(by_hand.process()).end()

    story(tell)
    assert RECOVERIES.path(NAMESPACE, NAME) not in by_hand.api.objects


def test_what_cannot_be_put_back_yet_is_tried_until_it_can(automatic: Operated) -> None:
    automatic.world.after("designate", crash)

    async def tell() -> End:
        await died(automatic)
        automatic.api.change(RECOVERIES, NAME, abort=True)
        automatic.world.kafka.restore_fates = [Fate.LOST] * 12
        return await Going(automatic.process()).end()

    assert story(tell) is End.ABORTED
    assert automatic.world.kept_its_promises()


# Held


def test_orders_are_restored_also_while_it_is_suspended_and_no_leader_is_elected(automatic: Operated) -> None:
    automatic.world.after("designate", crash)

    async def tell() -> tuple[list[Any], int | None, End]:
        await died(automatic)
        automatic.api.change(RECOVERIES, NAME, suspend=True)
        going = Going(automatic.process())
        await going.until(Phase.HELD)
        held = automatic.world.unrestored(), automatic.world.leader()
        automatic.api.change(RECOVERIES, NAME, suspend=False)
        return *held, await going.end()

    assert story(tell) == ([], None, End.RECOVERED)


def test_who_is_suspended_while_a_person_reads_is_told_so_and_the_plan_is_kept(by_hand: Operated) -> None:
    async def tell() -> tuple[str, End]:
        going = Going(by_hand.process())
        await going.until(Phase.AWAITING_APPROVAL)
        by_hand.api.change(RECOVERIES, NAME, suspend=True)
        going.run.wake()
        await going.until(Phase.HELD, within=1)
        code = going.run.progress.reason.code
        by_hand.api.change(RECOVERIES, NAME, suspend=False)
        by_hand.api.approve(going.digest)
        return code, await going.end()

    assert story(tell) == ("Suspended", End.RECOVERED)
    assert len(plans(by_hand.api)) == 1


def test_who_is_held_looks_again_though_nobody_tells_that_it_may_go_on(automatic: Operated) -> None:
    automatic.house = House(Authority.AUTOMATIC, SUSPENDED)

    async def tell() -> End:
        going = Going(automatic.process())
        await asyncio.sleep(1000)
        automatic.house = House(Authority.AUTOMATIC)
        return await going.end(within=16)

    assert story(tell) is End.RECOVERED


# Trouble


def test_a_kafka_that_cannot_be_reached_holds_it_until_it_can(automatic: Operated) -> None:
    nodes = automatic.world.kafka.nodes.values()

    async def tell() -> tuple[str, End]:
        for node in nodes:
            node.mute = True
        going = Going(automatic.process())
        await going.until(Phase.HELD)
        code = going.run.progress.reason.code
        for node in nodes:
            node.mute = False
        return code, await going.end()

    assert story(tell) == ("Unavailable", End.RECOVERED)


def test_a_journal_that_cannot_be_written_stops_it_before_anything_is_changed(automatic: Operated) -> None:
    automatic.api.refusing = lambda what: what.endswith("-plan")

    async def tell() -> tuple[str, list[str], End]:
        going = Going(automatic.process())
        await going.until(Phase.STUCK)
        stuck = going.run.progress.reason.code, automatic.world.changed()
        automatic.api.refusing = lambda what: False
        return *stuck, await going.end()

    assert story(tell) == ("JournalUnwritable", [], End.RECOVERED)


def test_a_run_that_met_trouble_in_its_middle_is_gone_on_with_and_not_planned_anew(by_hand: Operated) -> None:
    """Else what a person approved would be thrown away, and they be asked again."""
    by_hand.api.refusing = lambda what: "-wave-" in what

    async def tell() -> End:
        going = Going(by_hand.process())
        await going.until(Phase.AWAITING_APPROVAL)
        by_hand.api.approve(going.digest)
        await going.until(Phase.STUCK)
        by_hand.api.refusing = lambda what: False
        return await going.end()

    assert story(tell) is End.RECOVERED
    assert len(plans(by_hand.api)) == 1


def test_a_plan_that_another_process_has_ended_is_followed_by_a_new_one(by_hand: Operated) -> None:
    async def tell() -> str:
        going = Going(by_hand.process())
        await going.until(Phase.AWAITING_APPROVAL)
        shown = going.digest
        await going.killed()
        again = by_hand.process(shown=shown)
        await again._begin()
        await again.journal.finished(shown)
        following = Going(again)
        by_hand.world.clock.advance(MINUTE)
        await following.until(Phase.AWAITING_APPROVAL)
        assert following.digest != shown
        return following.digest

    assert story(tell)
    assert len(plans(by_hand.api)) == 2


def test_an_error_of_our_own_is_told_and_tried_again(
    automatic: Operated, caplog: pytest.LogCaptureFixture
) -> None:
    def defect() -> None:
        raise ZeroDivisionError

    automatic.world.before("gather", defect)

    async def tell() -> tuple[str, End]:
        going = Going(automatic.process())
        await going.until(Phase.STUCK)
        return going.run.progress.reason.code, await going.end()

    assert story(tell) == ("InternalError", End.RECOVERED)
    assert "ZeroDivisionError" in caplog.text


# Stuck


def without_candidates(world: World) -> None:
    for broker in (2, 3):
        world.kafka.nodes[broker].alive, world.kafka.nodes[broker].fenced = False, True


def test_who_is_stuck_stays_so_while_it_is_tried_again(automatic: Operated) -> None:
    """Tools that watch would else see it fail and go on, again and again."""
    without_candidates(automatic.world)

    async def tell() -> tuple[int, str]:
        going = Going(automatic.process())
        await going.until(Phase.STUCK)
        tries = automatic.world.steps.calls.count("gather")
        await asyncio.sleep(600)
        return automatic.world.steps.calls.count("gather") - tries, going.run.progress.reason.code

    more, code = story(tell)
    assert (automatic.phases, code) == ([Phase.PLANNING, Phase.STUCK], "NoCandidate")
    assert 5 <= more <= 12


def test_who_is_stuck_goes_on_as_soon_as_something_changes(automatic: Operated) -> None:
    without_candidates(automatic.world)

    async def tell() -> End:
        going = Going(automatic.process())
        await asyncio.sleep(1000)
        automatic.world.kafka.nodes[2].alive, automatic.world.kafka.nodes[2].fenced = True, False
        going.run.wake()
        return await going.end(within=1)

    assert story(tell) is End.RECOVERED


def test_however_often_something_changes_replicas_are_asked_twice_a_second_at_most(automatic: Operated) -> None:
    without_candidates(automatic.world)

    async def tell() -> int:
        going = Going(automatic.process())
        for _ in range(1000):
            await asyncio.sleep(0.01)
            going.run.wake()
        return automatic.world.steps.calls.count("gather")

    assert story(tell) <= 21


def test_what_another_recovery_holds_is_left_to_it_and_the_rest_goes_on(world: World) -> None:
    world.offline({3: 8, 4: 9}, PAYMENTS)
    operated = Operated(world, inhabited(ORDERS, PAYMENTS), (ORDERS, PAYMENTS), elsewhere={ORDERS: "older"})

    async def tell() -> tuple[str, Outcome, int | None, End]:
        going = Going(operated.process())
        await going.until(Phase.STUCK)
        seen = going.run.progress.reason.code, going.run.progress.outcomes[PAYMENTS].outcome, world.leader()
        operated.elsewhere = {}
        return *seen, await going.end()

    assert story(tell) == ("InAnotherRecovery", Outcome.RECOVERED, None, End.RECOVERED)


def test_refusals_are_kept_once_for_each_cause(automatic: Operated) -> None:
    without_candidates(automatic.world)

    async def tell() -> tuple[int, int]:
        going = Going(automatic.process())
        await asyncio.sleep(1000)
        assert going.run.progress.plan_shown
        return len(plans(automatic.api)), going.run.progress.plan_shown.elections

    assert story(tell) == (1, 0)
