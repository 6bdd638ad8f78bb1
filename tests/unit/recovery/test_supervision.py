"""What a run's owners want may change while it goes on: from the next wave on the stricter of plan and now holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval, CandidateOrder, Limits, Policy, TopicSelector
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery import rollout
from kafka_recovery.recovery.supervision import Authority, Permission
from kafka_recovery.recovery.wave import FRESH
from unit.recovery.world import ORDERS, PAYMENTS, World, code, crash, dies_in, policy

SUSPENDED = Reason("Suspended", "spec.suspend is true")
ONE_BY_ONE = policy(Approval.AUTO, 1)
ONLY_ORDERS = replace(ONE_BY_ONE, rules=(replace(ONE_BY_ONE.rules[0], topics=TopicSelector(names=("orders",))),))
SHIPMENTS = TopicPartition("shipments", 0)


class Owners:
    """Port `Supervision`, changed by tests. `interrupted`: so many of the next readings find the run suspended."""

    def __init__(self, policy: Policy) -> None:
        self.now = Permission(policy)
        self.interrupted = 0

    async def permission(self) -> Permission:
        if self.interrupted:
            self.interrupted -= 1
            return replace(self.now, halt=SUSPENDED)
        return self.now

    def suspend(self) -> None:
        self.now = replace(self.now, halt=SUSPENDED)

    def let_go_on(self) -> None:
        self.now = replace(self.now, halt=None)

    def say(self, authority: Authority) -> None:
        self.now = replace(self.now, authority=authority)

    def want(self, policy: Policy) -> None:
        self.now = replace(self.now, policy=policy)


@pytest.fixture
def owners() -> Owners:
    return Owners(ONE_BY_ONE)


@pytest.fixture
def world(world: World) -> World:
    """Orders are recovered first, then payments, each in a wave of its own."""
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    return world


def payments_under(**changes: object) -> Policy:
    """As `ONE_BY_ONE`, but the rule has changed for payments."""
    (rule,) = ONE_BY_ONE.rules
    only_payments = replace(rule, topics=TopicSelector(names=("payments",)), **changes)  # type: ignore[arg-type]
    return replace(ONE_BY_ONE, rules=(only_payments, rule))


async def test_a_plan_of_which_nothing_was_asked_for_is_over_when_the_run_is_suspended(
    world: World, owners: Owners
) -> None:
    """Its order was the owner's own by then, as the plan wanted it: no later run may take that for the plan's."""

    def stand_still() -> None:
        world.clock.advance(2 * FRESH)
        world.kafka.reassign(ORDERS, theirs)
        owners.suspend()

    del world.kafka.partitions[PAYMENTS]
    theirs = (await world.plan()).elections[ORDERS].order
    world.after("wave_started", stand_still)
    report = await world.recover(owners)
    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "Suspended")
    assert await world.open_runs() == []

    await world.undo()

    assert world.kafka.partitions[ORDERS].assignment == theirs


async def test_a_run_that_is_suspended_ends_after_its_wave_and_a_resume_goes_on(world: World, owners: Owners) -> None:
    world.before("elect", owners.suspend)

    report = await world.recover(owners)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert (report[PAYMENTS].outcome, code(report, PAYMENTS)) == (Outcome.REFUSED, "Suspended")
    assert world.kept_its_promises()
    assert await world.open_runs() == list(report.plans)

    owners.let_go_on()
    resumed = await world.resume(owners)

    assert resumed.recovered
    assert await world.open_runs() == []


async def test_a_wave_that_is_prepared_when_the_run_is_suspended_gets_its_orders_back(
    world: World, owners: Owners
) -> None:
    world.after("designate", owners.suspend, nth=2)

    report = await world.recover(owners)

    assert world.steps.calls.count("designate") == 2
    assert code(report, PAYMENTS) == "Suspended"
    assert world.kafka.elected == [(ORDERS, 2)]
    assert world.kept_its_promises()


async def test_a_run_that_is_suspended_while_a_wave_waits_for_the_leaders_before_it_elects_no_more(
    world: World, owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look at the second wave has grown old, so it waits; the owners speak before the first leader does."""
    monkeypatch.setattr(rollout, "BATCH", 1)
    owners.want(policy(Approval.AUTO, 2))
    leads, answers = world.kafka.leads, [False]
    world.kafka.leads = lambda id, broker: answers[-1] and leads(id, broker)  # type: ignore[method-assign]

    def grow_old() -> None:
        world.clock.advance(2 * FRESH)
        world.clock.later(timedelta(seconds=1), owners.suspend)
        world.clock.later(timedelta(seconds=2), lambda: answers.append(True))

    world.after("designate", grow_old, nth=2)

    report = await world.recover(owners)

    assert (code(report), code(report, PAYMENTS)) == (None, "Suspended")
    assert world.kafka.elected == [(ORDERS, 2)]
    assert world.kept_its_promises()


async def test_no_order_is_set_ahead_for_a_run_that_is_suspended(world: World, owners: Owners) -> None:
    world.after("elect", owners.suspend)

    await world.recover(owners)

    assert world.steps.calls.count("designate") == 1


async def test_a_suspension_that_is_over_before_the_wave_is_due_costs_nothing(world: World, owners: Owners) -> None:
    """It was met only when the wave was to be prepared ahead of its time: one leader of two answers, one is busy."""
    world.offline({3: 8, 4: 9}, SHIPMENTS)
    world.kafka.nodes[4].busy = True
    world.clock.later(timedelta(seconds=5), lambda: setattr(world.kafka.nodes[4], "busy", False))
    owners.want(policy(Approval.AUTO, 2))
    world.after("elect", lambda: setattr(owners, "interrupted", 1))

    report = await world.recover(owners)

    assert owners.interrupted == 0
    assert report.recovered
    assert await world.open_runs() == []


async def test_to_abort_is_to_suspend_and_then_to_undo(world: World, owners: Owners) -> None:
    world.after("designate", owners.suspend, nth=2)
    await world.recover(owners)

    with world.process(owners) as engine:  # suspended still: to put back and to close is no election
        report = await engine.undo()

    assert report[ORDERS].leader == 2
    assert code(report, PAYMENTS) == "Aborted"
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_whoever_is_suspended_from_the_beginning_asks_nobody_and_begins_nothing(
    world: World, owners: Owners
) -> None:
    owners.want(policy(Approval.MANUAL, 1))
    owners.suspend()

    report = await world.recover(owners)

    assert {code(report), code(report, PAYMENTS)} == {"Suspended"}
    assert report.plans == ()
    assert not {"granted", "approved", "wave_started"} & set(world.steps.calls)
    assert world.changed() == []


async def test_owners_that_can_not_be_asked_halt_the_run_and_are_not_taken_for_a_policy_without_rules(
    world: World, owners: Owners
) -> None:
    owners.now = Permission(Policy(()), halt=Reason("ObjectsUnreadable", "the API server does not answer"))

    report = await world.recover(owners)

    assert {code(report), code(report, PAYMENTS)} == {"ObjectsUnreadable"}
    assert world.changed() == []


async def test_a_plan_that_was_executed_under_suspension_can_be_executed_later(world: World, owners: Owners) -> None:
    plan = await world.plan(ONE_BY_ONE)
    owners.suspend()
    await world.execute(plan, owners)
    owners.let_go_on()

    assert (await world.execute(plan, owners)).recovered


async def test_an_engine_that_may_only_observe_plans_and_elects_nobody(world: World, owners: Owners) -> None:
    owners.say(Authority.OBSERVE)

    report = await world.recover(owners)

    assert {code(report), code(report, PAYMENTS)} == {"ObserveOnly"}
    assert world.changed() == []


async def test_orders_are_put_back_also_by_an_engine_that_may_only_observe(world: World, owners: Owners) -> None:
    world.before("elect", crash)
    await dies_in(world.recover(owners))
    assert world.unrestored() == [ORDERS]
    owners.say(Authority.OBSERVE)

    await world.undo(owners)

    assert world.kept_its_promises()


async def test_with_the_authority_to_propose_a_person_is_asked_where_the_rule_would_not(
    world: World, owners: Owners
) -> None:
    owners.say(Authority.APPROVE)

    assert (await world.recover(owners)).recovered
    assert "granted" in world.steps.calls


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda owners: owners.say(Authority.APPROVE), "authority is Approve now"),
        (lambda owners: owners.want(payments_under(approval=Approval.MANUAL, name="rule")), "says ManualApprove now"),
    ],
    ids=["authority", "rule"],
)
async def test_what_needs_approval_only_now_waits_for_it_and_an_approval_lets_it_go_on(
    world: World, owners: Owners, change: Callable[[Owners], None], told: str
) -> None:
    plan = await world.plan(ONE_BY_ONE)
    world.before("elect", lambda: change(owners))

    report = await world.execute(plan, owners)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert (report[PAYMENTS].outcome, code(report, PAYMENTS)) == (Outcome.REFUSED, "AwaitingApproval")
    assert told in str(report[PAYMENTS].reason)
    assert "granted" not in world.steps.calls

    approved = await world.execute(plan, owners)

    assert approved.recovered
    assert world.steps.calls.count("granted") == 1
    assert await world.open_runs() == []


async def test_a_wave_that_comes_to_want_an_approval_is_not_told_as_begun(world: World, owners: Owners) -> None:
    """Whoever is told counts it as an election that nobody was asked about, and lets others wait for its cool-down."""
    world.after("designate", lambda: owners.say(Authority.APPROVE))

    await world.recover(owners)

    assert world.kafka.elected == []
    assert world.waves == []


async def test_an_approval_that_was_given_holds_when_the_rules_come_to_want_one(world: World, owners: Owners) -> None:
    owners.say(Authority.APPROVE)
    world.before("elect", lambda: owners.want(policy(Approval.MANUAL, 1)))

    assert (await world.recover(owners)).recovered


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (ONLY_ORDERS, "NoRule"),
        (payments_under(candidate_order=CandidateOrder.LONGEST_LOG), "PlanOutdated"),
        (replace(ONE_BY_ONE, limits=Limits(partitions=1, wave_sizes=(1,))), "PartitionLimitReached"),
    ],
)
async def test_what_the_rules_of_now_do_not_allow_any_more_is_refused_with_what_changed(
    world: World, owners: Owners, now: Policy, reason: str
) -> None:
    world.before("elect", lambda: owners.want(now))

    report = await world.recover(owners)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert (report[PAYMENTS].outcome, code(report, PAYMENTS)) == (Outcome.REFUSED, reason)
    assert world.kafka.elected == [(ORDERS, 2)]
    assert world.kept_its_promises()
    assert await world.open_runs() == [], "only a new plan could elect it"


async def test_what_is_forbidden_after_its_order_was_set_is_not_elected_and_gets_its_order_back(
    world: World, owners: Owners
) -> None:
    world.after("designate", lambda: owners.want(ONLY_ORDERS), nth=2)

    report = await world.recover(owners)

    assert world.steps.calls.count("designate") == 2
    assert (report[PAYMENTS].outcome, code(report, PAYMENTS)) == (Outcome.REFUSED, "NoRule")
    assert world.kafka.elected == [(ORDERS, 2)]
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_the_least_urgent_of_a_wave_exceed_a_lower_limit(world: World, owners: Owners) -> None:
    world.offline({3: 8, 4: 9}, SHIPMENTS)
    owners.want(policy(Approval.AUTO, 1, 2))
    world.before("elect", lambda: owners.want(replace(ONE_BY_ONE, limits=Limits(partitions=2, wave_sizes=(1, 2)))))

    report = await world.recover(owners)

    assert report[PAYMENTS].outcome is Outcome.RECOVERED
    assert code(report, SHIPMENTS) == "PartitionLimitReached"


async def test_smaller_wave_sizes_hold_for_the_waves_that_are_left_of_a_plan(world: World, owners: Owners) -> None:
    world.offline({3: 8, 4: 9}, SHIPMENTS)
    owners.want(policy(Approval.MANUAL, 3))
    world.before("granted", lambda: owners.want(policy(Approval.MANUAL, 1, 2)))

    report = await world.recover(owners)

    assert report.recovered
    assert world.waves == [(1, 2, 1), (2, 2, 2)], "the wave of three was split, the canary first"


@pytest.mark.parametrize("designations", [1, 2], ids=["before its order is set", "after its order was set"])
async def test_a_guard_that_is_stricter_now_holds_for_what_was_planned_before(
    world: World, owners: Owners, designations: int
) -> None:
    stricter = payments_under(name="rule", min_replication_factor=4)
    world.after("designate", lambda: owners.want(stricter), nth=designations)

    report = await world.recover(owners)

    assert world.steps.calls.count("designate") == designations
    assert code(report, PAYMENTS) == "ReplicationFactorTooLow"
    assert world.kafka.elected == [(ORDERS, 2)]
    assert world.kept_its_promises()


async def test_a_guard_that_is_looser_now_does_not_loosen_a_plan(world: World, owners: Owners) -> None:
    strict = replace(ONE_BY_ONE, limits=Limits(brokers_down_percent=50, wave_sizes=(1,)))
    plan = await world.plan(strict)
    for broker in (3, 4):
        world.kafka.nodes[broker].alive, world.kafka.nodes[broker].fenced = False, True

    report = await world.execute(plan, owners)

    assert code(report) == "TooManyBrokersDown"
    assert world.changed() == []


async def test_an_execution_that_is_suspended_before_it_can_go_on_puts_orders_back_and_stays_open(
    world: World, owners: Owners
) -> None:
    plan = await world.plan(ONE_BY_ONE)
    world.after("designate", crash)
    await dies_in(world.execute(plan))
    world.calm_down()
    owners.suspend()

    report = await world.execute(plan, owners)

    assert code(report) == "Suspended"
    assert world.kept_its_promises()
    assert len(await world.open_runs()) == 1, "it goes on once that is over"
    owners.let_go_on()
    assert (await world.execute(plan, owners)).recovered
