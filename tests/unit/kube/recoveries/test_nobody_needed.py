"""Plans that waited for a person, who is not needed any more: their cool-down is over, or the operator may act."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.recoveries.pauses import LOOK
from kafka_recovery.kube.recoveries.status import Phase, status_of
from kafka_recovery.kube.resources.kinds import POLICIES
from kafka_recovery.kube.resources.operator_switch import OperatorSwitch
from kafka_recovery.recovery.supervision import Authority
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.operated import FULL, Going, Operated
from unit.recovery.world import ORDERS, PAYMENTS

COOLS = Reason("CoolingDown", "another recovery held an automatic election")
BY_ITSELF = {"name": "rule", "approval": "AutoApprove"}


@pytest.fixture
def by_itself(by_hand: Operated) -> Operated:
    """Its rules ask nobody."""
    by_hand.api.change(POLICIES, "rules", rules=[BY_ITSELF])
    return by_hand


async def waiting(by_hand: Operated) -> Going:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    await asyncio.sleep(2 * LOOK.total_seconds())
    assert going.run.progress.phase is Phase.AWAITING_APPROVAL
    return going


async def test_the_plan_that_was_shown_is_carried_out_when_the_cool_down_is_over_and_nobody_tells(
    by_itself: Operated,
) -> None:
    by_itself.state.cools = COOLS
    going = await waiting(by_itself)
    shown = going.digest
    by_itself.state.cools = None

    assert await going.end(within=2 * LOOK.total_seconds()) is End.RECOVERED
    known = going.run.progress.known()
    assert (going.digest, known.approval, by_itself.automatic) == (shown, None, 1)
    assert known.plan
    assert not known.plan.needs_approval


@pytest.mark.parametrize(
    ("switch", "caution", "because"),
    [
        (FULL, COOLS, COOLS.message),
        (OperatorSwitch(Authority.APPROVE), None, "authority is Approve, of the operator or of the WatchedCluster"),
        (OperatorSwitch(Authority.OBSERVE), None, None),
    ],
    ids=["cool-down", "authority", "observed"],
)
async def test_whoever_is_asked_about_what_the_policy_asks_nobody_about_reads_why(
    by_itself: Operated, switch: OperatorSwitch, caution: Reason | None, because: str | None
) -> None:
    by_itself.switch, by_itself.state.cools = switch, caution
    going = await waiting(by_itself)
    told = shown_in_status(going)

    assert told.get("askedBecause") == because
    if because:
        assert "Nobody knows yet: start nothing, approve nothing" in told["waiting"]
        assert "would elect broker 2 on 1 partition, if it is approved." in told["summary"]
    by_itself.switch, by_itself.state.cools = FULL, None
    going.run.wake()
    assert await going.end() is End.RECOVERED
    told = shown_in_status(going)
    assert ("askedBecause" in told, "the policy asks NOBODY about that" in told["summary"]) == (False, True)


async def test_whoever_is_asked_about_the_rest_after_a_failure_reads_that(by_itself: Operated) -> None:
    by_itself.scope = (ORDERS, PAYMENTS)
    by_itself.world.offline({3: 8, 4: 9}, PAYMENTS)
    by_itself.api.change(POLICIES, "rules", rules=[BY_ITSELF], limits={"waveSizes": [1]})
    by_itself.world.after("elect", lambda: by_itself.world.kafka.elect_uncleanly(ORDERS, 3))
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_itself.process())

    why = "an election of this recovery did not verify: a person decides how to go on"
    assert shown_in_status(going)["askedBecause"] == why


async def test_a_cool_down_that_begins_again_is_told_and_nothing_is_weighed_again(
    by_itself: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_itself.state.cools = COOLS
    going = await waiting(by_itself)
    monkeypatch.delattr("kafka_recovery.kube.recoveries.approvals.plan_asked")
    by_itself.state.cools = Reason("CoolingDown", "a third one has held another since")
    await asyncio.sleep(2 * LOOK.total_seconds())

    assert shown_in_status(going)["askedBecause"] == "a third one has held another since"


def shown_in_status(going: Going) -> dict[str, Any]:
    """What the status says of the plan."""
    told: dict[str, Any] = status_of(going.run.progress.known(), 1, {}, NOON)["plan"]
    return told


async def test_the_plan_that_was_shown_is_carried_out_when_the_operator_may_act_by_itself(by_itself: Operated) -> None:
    by_itself.switch = OperatorSwitch(Authority.APPROVE)
    going = await waiting(by_itself)
    shown = going.digest
    by_itself.switch = FULL
    going.run.wake()

    assert (await going.end(within=LOOK.total_seconds()), going.digest) == (End.RECOVERED, shown)


async def test_what_the_policy_approves_by_itself_by_now_is_planned_again_and_carried_out(by_hand: Operated) -> None:
    going = await waiting(by_hand)
    by_hand.api.change(POLICIES, "rules", rules=[BY_ITSELF])
    going.run.wake()

    assert await going.end(within=LOOK.total_seconds()) is End.RECOVERED
    assert "who has to approve was ManualApprove, now it is AutoApprove" in going.run.progress.news[-1].message


async def test_after_a_cool_down_only_what_its_rules_approve_is_carried_out(half_automatic: Operated) -> None:
    half_automatic.state.cools = COOLS
    going = await waiting(half_automatic)
    shown = going.digest
    assert half_automatic.world.leader(ORDERS) is None
    half_automatic.state.cools = None
    await asyncio.sleep(2 * LOOK.total_seconds())

    assert [half_automatic.world.leader(id) is not None for id in (ORDERS, PAYMENTS)] == [True, False]
    assert (going.run.progress.phase, going.digest) == (Phase.AWAITING_APPROVAL, shown)
    half_automatic.api.approve(shown)
    going.run.wake()
    assert await going.end() is End.RECOVERED


async def test_what_a_cool_down_begins_again_for_waits_for_the_next(by_itself: Operated) -> None:
    """Another recovery of the same cluster was sooner: nothing goes round, and nothing is forgotten."""
    by_itself.state.cools = COOLS
    going = await waiting(by_itself)

    def another_was_sooner() -> None:
        by_itself.state.cools = COOLS

    by_itself.world.before("designate", another_was_sooner)
    by_itself.state.cools = None
    await asyncio.sleep(2 * LOOK.total_seconds())
    await going.until(Phase.AWAITING_APPROVAL)
    again = by_itself.world.leader(ORDERS), by_itself.world.unrestored()
    by_itself.state.cools = None

    assert again == (None, [])
    assert await going.end() is End.RECOVERED


async def test_after_a_cool_down_a_plan_that_changed_is_not_carried_out(by_itself: Operated) -> None:
    by_itself.state.cools = COOLS
    going = await waiting(by_itself)
    shown = going.digest
    by_itself.world.kafka.partitions[ORDERS].ends[3] = 40
    by_itself.world.clock.advance(timedelta(minutes=2))
    by_itself.state.cools = None

    assert await going.end() is End.RECOVERED
    assert going.digest != shown
    assert by_itself.world.leader(ORDERS) == 3


async def test_after_a_cool_down_nothing_is_carried_out_while_the_cluster_is_out_of_sight(by_itself: Operated) -> None:
    by_itself.state.cools = COOLS
    going = await waiting(by_itself)
    for node in by_itself.world.kafka.nodes.values():
        node.mute = True
    by_itself.world.clock.advance(timedelta(seconds=70))
    await asyncio.sleep(2 * LOOK.total_seconds())
    by_itself.state.cools = None
    await asyncio.sleep(2 * LOOK.total_seconds())
    meanwhile = going.run.progress.phase, by_itself.world.steps.calls.count("designate")
    for node in by_itself.world.kafka.nodes.values():
        node.mute = False

    assert meanwhile == (Phase.AWAITING_APPROVAL, 0)
    assert await going.end() is End.RECOVERED


async def test_a_no_that_nobody_told_of_is_heard_before_a_plan_is_carried_out_with_nobody_s_yes(
    by_itself: Operated,
) -> None:
    by_itself.state.cools = COOLS
    going = await waiting(by_itself)
    by_itself.api.approve(going.digest, "no", decision="Refuse")
    by_itself.state.cools = None

    assert await going.end() is End.REFUSED_BY_APPROVER
    assert by_itself.world.leader(ORDERS) is None
