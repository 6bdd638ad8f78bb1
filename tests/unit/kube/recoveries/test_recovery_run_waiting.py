"""A recovery that can't go on: held, in trouble or stuck, it says so, and is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from kafka_recovery.domain.election import Answer, ElectionAnswer, ElectionRequest
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import End, Outcome
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.journal.record_journal import VAIN_KEPT
from kafka_recovery.kube.machinery.api import ApiError, Conflict, Object
from kafka_recovery.kube.recoveries.pauses import LONGEST_BACKSTOP, LOOK
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.resources.kinds import CLUSTERS, POLICIES, RECOVERIES
from kafka_recovery.kube.resources.operator_switch import KnownSwitch, OperatorSwitch
from kafka_recovery.recovery.supervision import Authority
from unit.kube.journal.journals import NAME
from unit.kube.operated import Going, Operated, died, plans
from unit.kube.our_objects import inhabited
from unit.recovery.brokers import Fate
from unit.recovery.world import ORDERS, PAYMENTS, World, crash

MINUTE = timedelta(minutes=1)
RULES = [{"name": "everything", "approval": "AutoApprove", "patience": "0s"}]
SUSPENDED = Reason("Suspended", "ConfigMap kafka/operator says suspend: true")


# Held


async def test_orders_are_restored_also_while_it_is_suspended_and_no_leader_is_elected(automatic: Operated) -> None:
    automatic.world.after("designate", crash)

    await died(automatic)
    automatic.api.change(RECOVERIES, NAME, suspend=True)
    going = await Going.up_to(Phase.HELD, automatic.process())
    held = automatic.world.unrestored(), automatic.world.leader()
    automatic.api.change(RECOVERIES, NAME, suspend=False)

    assert (*held, await going.end()) == ([], None, End.RECOVERED)


async def test_who_is_suspended_while_a_person_reads_is_told_so_and_the_plan_is_kept(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    by_hand.api.change(RECOVERIES, NAME, suspend=True)
    going.run.wake()
    await going.until(Phase.HELD, within=0.3)
    code = going.run.progress.reason.code
    by_hand.api.change(RECOVERIES, NAME, suspend=False)
    by_hand.api.approve(going.digest)

    assert (code, await going.end()) == ("Suspended", End.RECOVERED)
    assert len(plans(by_hand.api)) == 1


async def test_a_no_that_could_not_be_read_while_it_is_suspended_is_read_soon_afterwards(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    suspended(by_hand)
    going.run.wake()
    await going.until(Phase.HELD)
    by_hand.api.approve(going.digest, name="no", decision="Refuse")
    by_hand.api.unread = "recoveryapprovals"
    going.run.wake()
    await asyncio.sleep(100)
    by_hand.api.unread = None

    assert await going.end(within=20) is End.REFUSED_BY_APPROVER


async def test_a_no_ends_what_is_stuck_with_nobody_to_elect(automatic: Operated) -> None:
    automatic.world.kafka.fence(2)
    automatic.world.kafka.fence(3)

    going = await Going.up_to(Phase.STUCK, automatic.process())
    automatic.api.approve(going.digest, name="no", decision="Refuse")
    going.run.wake()

    assert await going.end() is End.REFUSED_BY_APPROVER


async def test_a_no_between_waves_ends_what_runs_by_its_rules(automatic: Operated) -> None:
    automatic.scope = (ORDERS, PAYMENTS)
    automatic.world.offline({3: 8, 4: 9}, PAYMENTS)
    automatic.api.change(POLICIES, "rules", rules=RULES, limits={"waveSizes": [1]})

    going = Going(automatic.process())

    def refuse() -> None:
        automatic.api.approve(going.digest, name="no", decision="Refuse")
        going.run.listen()

    automatic.world.after("elect", refuse)

    assert await going.end() is End.REFUSED_BY_APPROVER
    assert [automatic.world.leader(id) is None for id in (ORDERS, PAYMENTS)] == [False, True]
    assert automatic.world.unrestored() == []


async def test_however_many_say_something_they_are_listed_twice_a_second_at_most(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    by_hand.api.reads.clear()
    for _ in range(1000):
        going.run.listen()
        await asyncio.sleep(0.001)

    assert 2 <= len(by_hand.api.reads) <= 3


async def test_who_is_held_looks_again_though_nobody_tells_that_it_may_go_on(automatic: Operated) -> None:
    automatic.switch = OperatorSwitch(Authority.AUTOMATIC, SUSPENDED)
    keeping_up = asyncio.get_running_loop().create_task(automatic.known_switch.keep_up())

    going = Going(automatic.process())
    await asyncio.sleep(1000)
    automatic.switch = OperatorSwitch(Authority.AUTOMATIC)

    assert await going.end(within=16) is End.RECOVERED
    assert not keeping_up.done()


async def test_a_defect_in_reading_the_operators_config_map_ends_nothing() -> None:
    now = OperatorSwitch(Authority.APPROVE)
    found: list[OperatorSwitch | Exception] = [RuntimeError("a defect"), ApiError(500, "InternalError", "no"), now]

    async def read() -> OperatorSwitch:
        if isinstance(next_one := found.pop(0), Exception):
            raise next_one
        return next_one

    switch = KnownSwitch(read)
    keeping_up = asyncio.get_running_loop().create_task(switch.keep_up())
    await asyncio.sleep(11)

    assert (switch.last, keeping_up.done()) == (now, False)
    keeping_up.cancel()


def suspended(operated: Operated) -> None:
    operated.api.change(RECOVERIES, NAME, suspend=True)


def suspended_everywhere(operated: Operated) -> None:
    operated.switch = OperatorSwitch(Authority.AUTOMATIC, SUSPENDED)


def cut_off(operated: Operated) -> None:
    operated.state.alone = Reason("ViewUnavailable", "OperatorCutOff: two of three do not answer us")


def without_policy(operated: Operated) -> None:
    operated.api.change(CLUSTERS, "prod", policyRef=None)


def with_a_policy_that_is_gone(operated: Operated) -> None:
    operated.api.remove(POLICIES, "rules")


HOLDS = (suspended, suspended_everywhere, cut_off, without_policy, with_a_policy_that_is_gone)


@pytest.mark.parametrize("hold", HOLDS)
async def test_who_is_held_asks_for_nothing_while_nothing_changes(
    automatic: Operated, hold: Callable[[Operated], None]
) -> None:
    hold(automatic)
    going = await Going.up_to(Phase.HELD, automatic.process())
    await asyncio.sleep(1)
    automatic.api.reads.clear()
    for _ in range(100):
        await asyncio.sleep(5)
        going.run.stir()

    assert automatic.api.reads == []


async def test_who_is_held_finds_also_what_nobody_told_of(automatic: Operated) -> None:
    """A watch may miss an event: a while later everything is read again."""
    suspended(automatic)
    going = await Going.up_to(Phase.HELD, automatic.process())
    automatic.api.change(RECOVERIES, NAME, suspend=False)

    assert await going.end(within=(LONGEST_BACKSTOP + 2 * LOOK).total_seconds()) is End.RECOVERED


async def test_what_held_it_before_does_not_leave_orders_altered_that_a_later_try_could_not_put_back(
    automatic: Operated,
) -> None:
    cut_off(automatic)
    going = await Going.up_to(Phase.HELD, automatic.process())

    def everything_fails() -> None:
        cut_off(automatic)
        automatic.api.unread = "recoveryrecords"
        automatic.world.kafka.restore_fates = [Fate.LOST] * 12

    automatic.world.before("restore", everything_fails)
    automatic.state.alone = None
    going.run.stir()
    await going.until(Phase.STUCK)
    altered = automatic.world.unrestored()
    automatic.api.unread = None
    automatic.world.kafka.restore_fates.clear()
    await asyncio.sleep(60)

    assert (altered, automatic.world.unrestored()) == ([ORDERS], [])
    assert going.run.progress.end is End.RECOVERED


async def test_what_holds_it_now_is_told_and_not_what_held_it_first(automatic: Operated) -> None:
    cut_off(automatic)
    going = await Going.up_to(Phase.HELD, automatic.process())
    await asyncio.sleep(100)
    automatic.state.alone = Reason("JournalDamaged", "a deleted recovery may have altered any order here")
    going.run.stir()

    assert going.run.progress.reason.code == "JournalDamaged"


async def test_an_api_server_that_does_not_answer_is_asked_again_though_nobody_tells(automatic: Operated) -> None:
    automatic.api.unread = "watchedclusters"
    going = await Going.up_to(Phase.HELD, automatic.process())
    await asyncio.sleep(1000)
    automatic.api.unread = None

    assert await going.end(within=16) is End.RECOVERED


# Trouble


async def test_a_kafka_that_cannot_be_reached_holds_it_until_it_can(automatic: Operated) -> None:
    nodes = automatic.world.kafka.nodes.values()

    for node in nodes:
        node.mute = True
    going = await Going.up_to(Phase.HELD, automatic.process())
    code = going.run.progress.reason.code
    for node in nodes:
        node.mute = False

    assert (code, await going.end()) == ("Unavailable", End.RECOVERED)


async def test_a_journal_that_cannot_be_written_stops_it_before_anything_is_changed(automatic: Operated) -> None:
    automatic.api.refusing = lambda what: what.endswith("-plan")

    going = await Going.up_to(Phase.STUCK, automatic.process())
    stuck = going.run.progress.reason.code, automatic.world.changed()
    automatic.api.refusing = lambda what: False

    assert (*stuck, await going.end()) == ("JournalUnwritable", [], End.RECOVERED)


async def test_a_run_that_met_trouble_in_its_middle_is_gone_on_with_and_not_planned_anew(by_hand: Operated) -> None:
    """Else what a person approved would be thrown away, and they be asked again."""
    by_hand.api.refusing = lambda what: "-wave-" in what

    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    by_hand.api.approve(going.digest)
    await going.until(Phase.STUCK)
    by_hand.api.refusing = lambda what: False

    assert await going.end() is End.RECOVERED
    assert len(plans(by_hand.api)) == 1


async def test_who_writes_the_object_all_the_time_costs_no_approval(
    by_hand: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that sets a label without a pause may win every race for a while."""

    async def lost(path: str, *_: object) -> Object:
        raise Conflict(409, "Conflict", "modified", path)

    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    with monkeypatch.context() as racing:
        racing.setattr(by_hand.api, "apply_status", lost)
        by_hand.api.approve(going.digest)
        await going.until(Phase.STUCK)

    assert going.run.progress.reason.code == "JournalUnwritable"
    assert await going.end() is End.RECOVERED
    assert len(plans(by_hand.api)) == 1


async def test_a_plan_that_another_process_has_ended_is_followed_by_a_new_one(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    shown = going.digest
    await going.killed()
    again = by_hand.process(shown=shown)
    await again._begin()
    await again.journal.finished(shown)
    following = Going(again)
    by_hand.world.clock.advance(MINUTE)
    await following.until(Phase.AWAITING_APPROVAL)

    assert following.digest != shown

    assert following.digest
    assert len(plans(by_hand.api)) == 2


async def test_an_error_of_our_own_is_told_and_tried_again(
    automatic: Operated, caplog: pytest.LogCaptureFixture
) -> None:
    def defect() -> None:
        raise ZeroDivisionError

    automatic.world.before("gather", defect)

    going = await Going.up_to(Phase.STUCK, automatic.process())

    assert (going.run.progress.reason.code, await going.end()) == ("InternalError", End.RECOVERED)
    assert "ZeroDivisionError" in caplog.text


# Stuck


def without_candidates(world: World) -> None:
    for broker in (2, 3):
        world.kafka.nodes[broker].alive, world.kafka.nodes[broker].fenced = False, True


async def test_who_is_stuck_stays_so_while_it_is_tried_again(automatic: Operated) -> None:
    """Tools that watch would else see it fail and go on, again and again."""
    automatic.api.change(POLICIES, "rules", limits={"brokersDownPercent": 100})
    without_candidates(automatic.world)

    going = await Going.up_to(Phase.STUCK, automatic.process())
    tries = automatic.world.steps.calls.count("gather")
    await asyncio.sleep(600)
    more, code = automatic.world.steps.calls.count("gather") - tries, going.run.progress.reason.code

    assert (automatic.phases, code) == ([Phase.PLANNING, Phase.STUCK], "NoCandidate")
    assert 5 <= more <= 12


async def test_who_is_refused_for_hours_does_not_fill_the_cluster_with_plans(
    automatic: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try looks anew, and so makes another plan."""
    no = Reason("Forbidden", "CLUSTER_AUTHORIZATION_FAILED (31)")

    async def refuse(requests: Sequence[ElectionRequest]) -> dict[TopicPartition, ElectionAnswer]:
        return {request.id: ElectionAnswer(Answer.REFUSED, no) for request in requests}

    monkeypatch.setattr(automatic.world.kafka, "elect", refuse)

    going = Going(automatic.process())
    await asyncio.sleep(3 * 3600)
    kept = len(plans(automatic.api))
    monkeypatch.undo()
    going.run.wake()

    assert (kept, await going.end()) == (VAIN_KEPT, End.RECOVERED)


async def test_who_is_stuck_goes_on_as_soon_as_something_changes(automatic: Operated) -> None:
    without_candidates(automatic.world)

    going = Going(automatic.process())
    await asyncio.sleep(1000)
    automatic.world.kafka.nodes[2].alive, automatic.world.kafka.nodes[2].fenced = True, False
    going.run.wake()

    assert await going.end(within=1) is End.RECOVERED


async def test_however_often_something_changes_replicas_are_asked_twice_a_second_at_most(automatic: Operated) -> None:
    without_candidates(automatic.world)

    going = Going(automatic.process())
    for _ in range(1000):
        await asyncio.sleep(0.01)
        going.run.wake()

    assert automatic.world.steps.calls.count("gather") <= 21


async def test_what_another_recovery_holds_is_left_to_it_and_the_rest_goes_on(world: World) -> None:
    world.offline({3: 8, 4: 9}, PAYMENTS)
    operated = Operated(world, inhabited(ORDERS, PAYMENTS), (ORDERS, PAYMENTS), elsewhere={ORDERS: "older"})

    going = await Going.up_to(Phase.STUCK, operated.process())
    seen = going.run.progress.reason.code, going.run.progress.outcomes[PAYMENTS].outcome, world.leader()
    operated.elsewhere = {}

    assert (*seen, await going.end()) == ("InOtherRecovery", Outcome.RECOVERED, None, End.RECOVERED)


@pytest.mark.parametrize("phase", [Phase.STUCK, Phase.AWAITING_APPROVAL])
async def test_a_process_that_ends_just_when_something_changes_ends(by_hand: Operated, phase: Phase) -> None:
    if phase is Phase.STUCK:
        without_candidates(by_hand.world)

    going = Going(by_hand.process())
    await going.until(phase)
    await asyncio.sleep(1)
    going.run.wake()
    going.task.cancel()
    await asyncio.wait([going.task], timeout=60)

    assert going.task.cancelled()
