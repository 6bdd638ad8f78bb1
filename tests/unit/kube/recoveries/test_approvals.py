"""Who may say yes to what: each objection, what a plan outlives while it waits, and that no is heard first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.cluster.metadata_log.reader import READING
from kafka_recovery.decision.card import in_place_of_electing
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.recoveries.approvals import KubeApprovals, objection
from kafka_recovery.kube.recoveries.pauses import LONGEST_BACKSTOP, LOOK, SHORTEST_BACKSTOP
from kafka_recovery.kube.recoveries.status import Phase, status_of
from kafka_recovery.kube.resources.house import House
from kafka_recovery.kube.resources.kinds import (
    APPROVALS,
    CLUSTERS,
    POLICIES,
    RECOVERIES,
    RecoveryApproval,
    read_approval,
)
from kafka_recovery.recovery.supervision import Authority
from unit.kube.journal.journals import NAME, UID
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.operated import FULL, Going, Operated
from unit.kube.our_objects import KEY, OurObjects, inhabited
from unit.kube.recoveries.standings import PLAN
from unit.kube.specs import DIGEST
from unit.recovery.world import ORDERS, PAYMENTS, World
from unit.virtual import in_no_time, taking_no_time

NO_POLICY = Reason("AdmissionPolicyMissing", "nobody checks who writes approvals")
BOUNDED = replace(PLAN, worst=LossClass.BOUNDED)


# One approval and one plan


@pytest.mark.parametrize(
    ("fields", "plan", "code"),
    [
        ({}, PLAN, None),
        ({"planDigest": "cd" * 32}, PLAN, "PlanSuperseded"),
        ({"recoveryRef": {"name": NAME, "uid": "of-an-earlier-one"}}, PLAN, "RecoveryReplaced"),
        ({"recoveryRef": {"name": "another", "uid": UID}}, PLAN, "RecoveryReplaced"),
        ({"maxLossClass": "Bounded"}, PLAN, "LossClassExceeded"),
        ({"maxLossClass": "Lossless"}, BOUNDED, "LossClassExceeded"),
        ({"maxLossClass": "Bounded"}, BOUNDED, None),
        ({"maxLossClass": "Unknown"}, BOUNDED, None),
        ({"decision": "Refuse", "planDigest": "cd" * 32}, PLAN, None),
        ({"decision": "Refuse", "recoveryRef": {"name": NAME, "uid": "of-an-earlier-one"}}, PLAN, "RecoveryReplaced"),
    ],
    ids=str,
)
def test_what_is_said_against_an_approval(fields: dict[str, Any], plan: Any, code: str | None) -> None:
    against = objection(read_approval(OurObjects().approve(DIGEST, **fields)), KEY, UID, plan)

    assert (against.code if against else None) == code


def test_an_approval_of_another_namespace_does_not_count() -> None:
    against = objection(read_approval(OurObjects().approve(DIGEST)), ("elsewhere", NAME), UID, PLAN)

    assert against
    assert against.code == "RecoveryReplaced"


# Asking


class Asked:
    """A plan that waits for its approval."""

    def __init__(self, operated: Operated, plan: Plan) -> None:
        self.operated = operated
        self.plan = plan
        self.digest = digest(plan)
        self.approvals: KubeApprovals = operated.process().approvals
        self.task = asyncio.get_running_loop().create_task(self.approvals.granted(plan, self.digest))

    async def after(self, wait: float) -> str | None:
        """Who approved within so many virtual seconds; "" while nobody has answered."""
        self.approvals.wake()
        await asyncio.wait([self.task], timeout=wait)
        return self.task.result() if self.task.done() else ""

    @property
    def reason(self) -> str:
        """What the status says."""
        return self.approvals.progress.reason.code


@pytest.fixture
def operated(tmp_path: Path) -> Operated:
    world = World(tmp_path)
    world.offline()
    return Operated(world, inhabited(approval="ManualApprove"))


async def asked(operated: Operated) -> Asked:
    now = await operated.supervision().permission()
    question = Asked(operated, await operated.world.plan(now.policy))
    await asyncio.sleep(0.1)
    assert question.approvals.progress.phase is Phase.AWAITING_APPROVAL
    return question


@taking_no_time
async def test_the_one_who_approved_is_told_to_the_journal_and_the_status(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.approve(question.digest)
    by, approval = await question.after(1), question.approvals.progress.approval

    assert approval
    assert (by, approval.name, approval.by) == ("ann", "yes", "ann")
    assert operated.answers == [("yes", None)]


@taking_no_time
async def test_an_approval_that_nobody_told_of_is_found_all_the_same(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.approve(question.digest)
    await asyncio.wait([question.task], timeout=(LONGEST_BACKSTOP + LOOK).total_seconds())

    assert question.task.result() == "ann"


@taking_no_time
async def test_who_waits_for_an_approval_asks_for_nothing_while_nothing_changes(operated: Operated) -> None:
    await asked(operated)
    operated.api.reads.clear()
    await asyncio.sleep((SHORTEST_BACKSTOP - LOOK).total_seconds())

    assert operated.api.reads == []


@taking_no_time
async def test_however_much_is_written_who_waits_reads_a_few_times_a_second(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.reads.clear()
    for _ in range(1000):
        question.approvals.wake()
        await asyncio.sleep(0.001)

    assert operated.api.reads.count(APPROVALS.path(KEY[0])) <= 6


@taking_no_time
async def test_what_is_written_while_it_reads_is_read_afterwards(operated: Operated) -> None:
    question = await asked(operated)
    read = operated.api.list_all

    async def read_and_miss_one(path: str, **how: Any) -> list[Any]:
        found = await read(path, **how)
        if path == APPROVALS.path(KEY[0]) and not found:
            operated.api.approve(question.digest)
            question.approvals.wake()
        return found

    operated.api.list_all = read_and_miss_one  # type: ignore[method-assign]

    assert await question.after(1) == "ann"


@taking_no_time
async def test_a_yes_that_was_taken_back_while_the_cluster_was_out_of_sight_does_not_count(operated: Operated) -> None:
    """Nobody told of it: what was read of the yes is old by the time at which the plan is seen to hold."""
    question = await asked(operated)
    for node in operated.world.kafka.nodes.values():
        node.mute = True
    operated.world.clock.advance(timedelta(seconds=70))
    operated.api.approve(question.digest)
    assert await question.after(30) == ""
    operated.api.remove_approval("yes")
    for node in operated.world.kafka.nodes.values():
        node.mute = False
    await asyncio.sleep(60)

    assert (question.task.done(), question.reason) == (False, "AwaitingApproval")


@taking_no_time
async def test_an_author_who_can_not_be_answered_at_once_is_answered_soon_afterwards(operated: Operated) -> None:
    question = await asked(operated)
    tries: list[str] = []

    async def at_the_second_try(approval: RecoveryApproval, against: Reason | None) -> bool:
        tries.append(approval.meta.name)
        return len(tries) > 1

    question.approvals.answered = at_the_second_try
    operated.api.approve("cd" * 32, "old")
    await question.after((SHORTEST_BACKSTOP / 2).total_seconds())

    assert tries == ["old", "old"]


async def test_what_may_be_better_than_electing_is_weighed_beside_the_event_loop(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10,000 elections it takes most of a second, in which the operator would watch no Kafka."""
    weighed_by: list[threading.Thread] = []

    def noted(plan: Plan) -> Iterator[str]:
        weighed_by.append(threading.current_thread())
        return in_place_of_electing(plan)

    monkeypatch.setattr("kafka_recovery.kube.recoveries.status.in_place_of_electing", noted)
    question = await asked(operated)
    known = question.approvals.progress.known()
    question.task.cancel()

    assert status_of(known, 1, {}, NOON)["plan"]["waiting"]
    assert len(weighed_by) == 1
    assert weighed_by[0] is not threading.main_thread()


@pytest.mark.parametrize("trouble", ["approvals can't be read", "who writes them is not checked"])
@taking_no_time
async def test_a_yes_that_can_not_be_acted_on_yet_is_read_again_though_nobody_tells(
    operated: Operated, trouble: str
) -> None:
    question = await asked(operated)
    if trouble == "approvals can't be read":
        operated.api.unread = APPROVALS.plural
    else:
        operated.unchecked = NO_POLICY
    operated.api.approve(question.digest)
    assert await question.after(30) == ""
    operated.api.unread = operated.unchecked = None
    await asyncio.wait([question.task], timeout=2 * LOOK.total_seconds())

    assert question.task.result() == "ann"


@taking_no_time
async def test_each_author_is_answered_once(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.approve("cd" * 32, "old")
    operated.api.approve(question.digest, "careful", maxLossClass="Lossless")

    assert await question.after(60) == ""

    assert operated.answers == [("careful", "LossClassExceeded"), ("old", "PlanSuperseded")]


@pytest.mark.parametrize("yes_counts", [True, False], ids=["a yes that counts", "a yes that is held"])
@taking_no_time
async def test_no_is_heard_before_any_yes(operated: Operated, yes_counts: bool) -> None:
    operated.unchecked = None if yes_counts else NO_POLICY

    question = await asked(operated)
    operated.api.approve(question.digest, "a-first-yes")
    operated.api.approve(question.digest, "then-a-no", decision="Refuse", approver="bob", reason="INC-7")

    assert (await question.after(1), question.approvals.refused) == (
        None,
        Reason("RefusedByApprover", "bob refused the plan: INC-7"),
    )


@taking_no_time
async def test_who_said_yes_before_a_no_is_told_that_it_does_not_count(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.approve(question.digest, "a-first-yes", maxLossClass="Unknown")
    operated.api.approve(question.digest, "then-a-no", decision="Refuse", approver="bob")
    operated.api.approve(question.digest, "and-another-no", decision="Refuse", approver="eve")
    await question.after(1)

    assert operated.answers == [("and-another-no", None), ("then-a-no", None), ("a-first-yes", "RefusedByApprover")]


@taking_no_time
async def test_who_says_the_same_as_another_before_is_answered_as_well(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.approve(question.digest, "one")
    operated.api.approve(question.digest, "two", approver="bob")

    assert await question.after(1) == "ann"
    assert operated.answers == [("one", None), ("two", None)]


@taking_no_time
async def test_at_the_end_everybody_gets_an_answer_who_had_none(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.approve(question.digest, "in-time")
    await question.after(1)
    operated.api.approve(question.digest, "a-late-no", decision="Refuse")
    operated.api.approve(question.digest, "about-an-earlier-one", recoveryRef={"name": NAME, "uid": "earlier"})
    await question.approvals.close(Reason("Recovered", "its partition has a leader"))

    assert operated.answers == [("in-time", None), ("a-late-no", "RecoveryFinished")]


def test_what_an_earlier_process_has_answered_is_not_called_too_late(operated: Operated) -> None:
    operated.api.approve("ab" * 32, "honoured")["status"] = {"conditions": [{"type": "Accepted", "status": "True"}]}

    in_no_time(operated.process().approvals.close(Reason("Recovered", "its partition has a leader")))

    assert operated.answers == []


def test_approvals_that_cannot_be_read_at_the_end_are_no_reason_not_to_end(operated: Operated) -> None:
    operated.api.unread = "/recoveryapprovals"

    in_no_time(operated.process().approvals.close(Reason("Recovered", "its partition has a leader")))

    assert operated.answers == []


@taking_no_time
async def test_approvals_that_cannot_be_read_are_told_and_nothing_is_approved(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.approve(question.digest)
    operated.api.approve(question.digest, "of-a-newer-schema", unheard="of")
    blocked = await question.after(1), question.reason
    operated.api.remove_approval("of-a-newer-schema")

    assert (*blocked, await question.after(1)) == ("", "ApprovalsUnreadable", "ann")


@taking_no_time
async def test_without_the_admission_policy_no_plan_that_may_lose_records_is_approved(operated: Operated) -> None:
    operated.unchecked = NO_POLICY

    question = await asked(operated)
    operated.api.approve(question.digest)
    held = await question.after(1), question.reason
    operated.unchecked = None

    assert (*held, await question.after(1)) == ("", "AdmissionPolicyMissing", "ann")


@taking_no_time
async def test_under_observe_the_plan_is_shown_and_no_approval_counts(operated: Operated) -> None:
    operated.house = House(Authority.OBSERVE)

    question = await asked(operated)
    operated.api.approve(question.digest)
    held = await question.after(60), question.reason
    operated.house = House(Authority.APPROVE)

    assert (*held, await question.after(1)) == ("", "ObserveOnly", "ann")
    assert operated.answers == [("yes", "ObserveOnly"), ("yes", None)]


@pytest.mark.parametrize(
    ("kind", "name", "fields"),
    [(RECOVERIES, NAME, {"suspend": True}), (RECOVERIES, NAME, {"abort": True}), (CLUSTERS, "prod", {"suspend": True})],
)
@taking_no_time
async def test_who_is_halted_is_not_asked_any_longer(operated: Operated, kind: Any, name: str, fields: Any) -> None:
    question = await asked(operated)
    operated.api.change(kind, name, **fields)

    assert (await question.after(1), question.approvals.void) == (None, None)


@taking_no_time
async def test_a_plan_with_both_kinds_is_carried_out_first_as_far_as_nobody_is_needed(operated: Operated) -> None:
    operated.world.offline({3: 8, 4: 9}, PAYMENTS)
    rules = [{"name": "pay", "topics": {"names": ["payments"]}}, {"name": "rest", "approval": "AutoApprove"}]
    operated.api.change(POLICIES, "rules", rules=rules)

    now = await operated.supervision().permission()
    first = Asked(operated, await operated.world.plan(now.policy))
    without_anybody = await first.after(1)
    first.approvals.progress.concluded(PartitionOutcome(ORDERS, Outcome.RECOVERED))
    first.task = asyncio.ensure_future(first.approvals.granted(first.plan, first.digest))
    waiting = await first.after(60)
    operated.api.approve(first.digest)

    assert (without_anybody, waiting, await first.after(1)) == (None, "", "ann")


# Nobody is needed any more


COOLS = Reason("CoolingDown", "another recovery held an automatic election")
BY_ITSELF = {"name": "rule", "approval": "AutoApprove"}


@pytest.fixture
def by_itself(operated: Operated) -> Operated:
    """Its rules ask nobody."""
    operated.api.change(POLICIES, "rules", rules=[BY_ITSELF])
    return operated


async def waiting(operated: Operated) -> Going:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, operated.process())
    await asyncio.sleep(2 * LOOK.total_seconds())
    assert going.run.progress.phase is Phase.AWAITING_APPROVAL
    return going


@taking_no_time
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
    ("house", "caution", "because"),
    [
        (FULL, COOLS, COOLS.message),
        (House(Authority.APPROVE), None, "authority is Approve, of the operator or of the WatchedCluster"),
        (House(Authority.OBSERVE), None, None),
    ],
    ids=["cool-down", "authority", "observed"],
)
@taking_no_time
async def test_whoever_is_asked_about_what_the_policy_asks_nobody_about_reads_why(
    by_itself: Operated, house: House, caution: Reason | None, because: str | None
) -> None:
    by_itself.house, by_itself.state.cools = house, caution
    going = await waiting(by_itself)
    told = shown_in_status(going)

    assert told.get("askedBecause") == because
    if because:
        assert "Nobody knows yet: start nothing, approve nothing" in told["waiting"]
        assert "would elect broker 2 on 1 partition, if it is approved." in told["summary"]
    by_itself.house, by_itself.state.cools = FULL, None
    going.run.wake()
    assert await going.end() is End.RECOVERED
    told = shown_in_status(going)
    assert ("askedBecause" in told, "the policy asks NOBODY about that" in told["summary"]) == (False, True)


@taking_no_time
async def test_whoever_is_asked_about_the_rest_after_a_failure_reads_that(by_itself: Operated) -> None:
    by_itself.scope = (ORDERS, PAYMENTS)
    by_itself.world.offline({3: 8, 4: 9}, PAYMENTS)
    by_itself.api.change(POLICIES, "rules", rules=[BY_ITSELF], limits={"waveSizes": [1]})
    by_itself.world.after("elect", lambda: by_itself.world.kafka.elect_uncleanly(ORDERS, 3))
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_itself.process())

    why = "an election of this recovery did not verify: a person decides how to go on"
    assert shown_in_status(going)["askedBecause"] == why


@taking_no_time
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


@taking_no_time
async def test_the_plan_that_was_shown_is_carried_out_when_the_operator_may_act_by_itself(by_itself: Operated) -> None:
    by_itself.house = House(Authority.APPROVE)
    going = await waiting(by_itself)
    shown = going.digest
    by_itself.house = FULL
    going.run.wake()

    assert (await going.end(within=LOOK.total_seconds()), going.digest) == (End.RECOVERED, shown)


@taking_no_time
async def test_what_the_policy_approves_by_itself_by_now_is_planned_again_and_carried_out(operated: Operated) -> None:
    going = await waiting(operated)
    operated.api.change(POLICIES, "rules", rules=[BY_ITSELF])
    going.run.wake()

    assert await going.end(within=LOOK.total_seconds()) is End.RECOVERED
    assert "who has to approve was ManualApprove, now it is AutoApprove" in going.run.progress.news[-1].message


@taking_no_time
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


@taking_no_time
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


@taking_no_time
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


@taking_no_time
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


@taking_no_time
async def test_a_no_that_nobody_told_of_is_heard_before_a_plan_is_carried_out_with_nobody_s_yes(
    by_itself: Operated,
) -> None:
    by_itself.state.cools = COOLS
    going = await waiting(by_itself)
    by_itself.api.approve(going.digest, "no", decision="Refuse")
    by_itself.state.cools = None

    assert await going.end() is End.REFUSED_BY_APPROVER
    assert by_itself.world.leader(ORDERS) is None


# Reading it again


def standing(operated: Operated, *names: str, **fields: Any) -> tuple[str | Reason | None, Reason | None]:
    """What counts for a wave of a plan about which these objects speak, and who ended the recovery."""

    async def tell() -> tuple[str | Reason | None, Reason | None]:
        plan = await operated.world.plan((await operated.supervision().permission()).policy)
        for name in names:
            operated.api.approve(digest(plan), name, **fields)
        approvals = operated.process().approvals
        return await approvals.standing(plan, digest(plan)), approvals.refused

    return in_no_time(tell())


def test_a_yes_that_is_there_counts_for_a_wave(operated: Operated) -> None:
    assert standing(operated, "yes") == ("ann", None)


def test_a_refusal_is_a_no_for_every_wave_and_never_the_yes_of_who_wrote_it(operated: Operated) -> None:
    said = standing(operated, "no", decision="Refuse", approver="bob", reason="INC-7")

    assert said == (None, Reason("RefusedByApprover", "bob refused the plan: INC-7"))


def test_a_yes_that_nobody_checked_counts_for_no_wave(operated: Operated) -> None:
    operated.unchecked = NO_POLICY

    assert standing(operated, "yes") == (NO_POLICY, None)


# What a plan outlives


@pytest.fixture
def half_automatic(operated: Operated) -> Operated:
    """Nobody is asked about orders, somebody is about payments."""
    operated.scope = (ORDERS, PAYMENTS)
    operated.world.offline({3: 8, 4: 9}, PAYMENTS)
    rules = [{"name": "pay", "topics": {"names": ["payments"]}}, {"name": "rest", "approval": "AutoApprove"}]
    operated.api.change(POLICIES, "rules", rules=rules)
    return operated


async def half_done(operated: Operated) -> Going:
    """What nobody is asked about is elected; the evidence grew old while somebody reads the rest."""
    going = await Going.up_to(Phase.AWAITING_APPROVAL, operated.process())
    assert [operated.world.leader(id) is not None for id in (ORDERS, PAYMENTS)] == [True, False]
    operated.world.clock.advance(timedelta(minutes=2))
    return going


@taking_no_time
async def test_a_plan_whose_automatic_elections_were_held_can_be_approved_however_old_it_is(
    half_automatic: Operated,
) -> None:
    going = await half_done(half_automatic)
    read = going.digest
    await asyncio.sleep(2 * LOOK.total_seconds())
    same = going.digest == read
    half_automatic.api.approve(read)

    assert (same, await going.end()) == (True, End.RECOVERED)
    assert half_automatic.answers == [("yes", None)]


@taking_no_time
async def test_an_equal_that_was_left_to_another_partition_is_not_taken_after_that_was_elected(
    half_automatic: Operated,
) -> None:
    for id in (ORDERS, PAYMENTS):
        half_automatic.world.offline({2: 27, 3: 27}, id)

    going = await half_done(half_automatic)
    half_automatic.api.approve(going.digest)

    assert (going.run.approvals.void, await going.end()) == (None, End.RECOVERED)
    assert {half_automatic.world.leader(id) for id in (ORDERS, PAYMENTS)} == {2, 3}
    assert half_automatic.answers == [("yes", None)]


@taking_no_time
async def test_what_was_elected_and_went_offline_again_is_not_approved_with_the_rest(half_automatic: Operated) -> None:
    going = await half_done(half_automatic)
    half_automatic.world.kafka.fence(2)
    half_automatic.api.approve(going.digest)
    await asyncio.sleep(2 * LOOK.total_seconds())

    assert "orders-0: the leader epoch was 5, now it is 7" in going.run.progress.news[-1].message
    assert [half_automatic.world.leader(id) for id in (ORDERS, PAYMENTS)] == [None, None]


@taking_no_time
async def test_what_the_automatic_part_may_have_lost_is_told_also_after_the_rest_came_back_by_itself(
    half_automatic: Operated,
) -> None:
    going = await half_done(half_automatic)
    progress, kafka = going.run.progress, half_automatic.world.kafka
    kafka.partitions[PAYMENTS].ends[3] = 40
    for nth in range(1, 9):
        half_automatic.world.before("gather", lambda: kafka.start(1) if progress.news else None, nth)
    end, known = await going.end(), progress.known()

    assert (end, known.plan) == (End.RECOVERED, None)
    assert status_of(known, 1, {}, NOON)["plan"]["lossClass"] == "Unknown"


@taking_no_time
async def test_a_plan_whose_manual_part_changed_is_void_though_the_rest_was_elected(half_automatic: Operated) -> None:
    going = await half_done(half_automatic)
    half_automatic.world.kafka.partitions[PAYMENTS].ends[3] = 40
    await asyncio.sleep(2 * LOOK.total_seconds())

    assert "payments-0: the leader to elect was 4, now it is 3" in going.run.progress.news[-1].message


@taking_no_time
async def test_a_plan_that_still_holds_can_be_approved_however_old_it_is(operated: Operated) -> None:
    question = await asked(operated)
    for _ in range(5):
        operated.world.clock.advance(timedelta(minutes=2))
        assert await question.after(6) == ""
    operated.world.clock.advance(timedelta(minutes=2))
    operated.api.approve(question.digest)

    assert (await question.after(6), operated.world.steps.calls.count("gather")) == ("ann", 7)


@taking_no_time
async def test_a_plan_that_changed_is_void_however_fresh_its_approval(operated: Operated) -> None:
    question = await asked(operated)
    operated.world.kafka.partitions[ORDERS].ends[3] = 40
    operated.world.clock.advance(timedelta(minutes=2))
    operated.api.approve(question.digest)
    by, void = await question.after(1), question.approvals.void

    assert (by, void and void.code) == (None, "PlanChanged")
    assert void
    assert "the leader to elect was 2, now it is 3" in void.message


@taking_no_time
async def test_a_plan_of_long_ago_is_looked_at_anew_before_anybody_s_yes_counts(operated: Operated) -> None:
    """Evidence has the age that it has: after a restart or a suspension the plan is old when somebody is asked."""
    now = await operated.supervision().permission()
    plan = await operated.world.plan(now.policy)
    operated.world.clock.advance(timedelta(minutes=2))
    operated.world.kafka.partitions[ORDERS].ends[3] = 40
    operated.api.approve(digest(plan))
    question = Asked(operated, plan)
    by, void = await question.after(1), question.approvals.void

    assert (by, void and void.code) == (None, "PlanChanged")


@taking_no_time
async def test_a_plan_of_long_ago_is_not_void_because_kafka_is_silent_for_a_moment(operated: Operated) -> None:
    now = await operated.supervision().permission()
    plan = await operated.world.plan(now.policy)
    operated.world.clock.advance(timedelta(minutes=20))
    for node in operated.world.kafka.nodes.values():
        node.mute = True
    operated.api.approve(digest(plan))
    question = Asked(operated, plan)
    while_silent = await question.after(20)
    for node in operated.world.kafka.nodes.values():
        node.mute = False

    assert (while_silent, await question.after(LOOK.total_seconds() + 1)) == ("", "ann")


@taking_no_time
async def test_rules_that_changed_are_looked_at_at_once(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.change(POLICIES, "rules", rules=[{"name": "other", "approval": "ManualApprove"}])
    await question.after(1)
    void = question.approvals.void

    assert void
    assert "the policy's rule was rule, now it is other" in void.message


@taking_no_time
async def test_rules_that_changed_elsewhere_void_nothing(operated: Operated) -> None:
    question = await asked(operated)
    rules = [{"name": "pay", "topics": {"prefixes": ["pay"]}}, {"name": "rule", "patience": "30s"}]
    operated.api.change(POLICIES, "rules", rules=rules)
    operated.api.approve(question.digest)

    assert await question.after(1) == "ann"


@taking_no_time
async def test_while_the_cluster_is_out_of_sight_no_old_plan_is_approved_and_in_the_end_it_is_void(
    operated: Operated,
) -> None:
    question = await asked(operated)
    for node in operated.world.kafka.nodes.values():
        node.mute = True
    operated.api.approve(question.digest)
    operated.world.clock.advance(timedelta(seconds=70))
    assert (await question.after(30), question.approvals.void) == ("", None)
    operated.world.clock.advance(timedelta(seconds=60))

    assert await question.after(6) is None
    assert question.approvals.void
    assert question.approvals.void.code == "EvidenceTooOld"


@taking_no_time
async def test_a_cluster_out_of_sight_is_looked_for_every_few_seconds_only(operated: Operated) -> None:
    await asked(operated)
    for node in operated.world.kafka.nodes.values():
        node.mute = True
    operated.world.clock.advance(timedelta(seconds=70))
    before = operated.world.steps.calls.count("gather")
    await asyncio.sleep(60)

    assert operated.world.steps.calls.count("gather") - before <= 60 / LOOK.total_seconds() + 1


@taking_no_time
async def test_a_plan_made_before_the_metadata_log_was_read_is_looked_at_again_as_soon_as_it_is(
    operated: Operated,
) -> None:
    """Else what is proven waits for a person until the evidence is too old."""
    now = await operated.supervision().permission()
    plan = await operated.world.plan(now.policy)
    unread = replace(plan.evidence.cluster, history_problem=READING)
    question = Asked(operated, replace(plan, evidence=replace(plan.evidence, cluster=unread)))
    await asyncio.sleep(0.1)
    before = operated.world.steps.calls.count("gather")
    known: list[Reason | None] = [READING]
    question.approvals.history = lambda: known[-1]

    question.approvals.stir()
    await asyncio.sleep(0.1)
    assert operated.world.steps.calls.count("gather") == before, "the evidence is young"
    known.append(None)
    question.approvals.stir()
    await asyncio.sleep(0.1)
    assert operated.world.steps.calls.count("gather") == before + 1
    question.approvals.stir()
    await asyncio.sleep(0.1)
    assert operated.world.steps.calls.count("gather") == before + 1, "once"


@taking_no_time
async def test_that_a_plan_was_looked_at_again_and_still_holds_is_no_news(operated: Operated) -> None:
    """Else each of many that wait would have its status written after each `maxAge`."""
    question = await asked(operated)
    before, looks = question.approvals.progress.plan_shown, operated.world.steps.calls.count("gather")
    operated.phases.clear()
    told: list[str] = []
    question.approvals.progress.changed = lambda: told.append("changed")
    for _ in range(5):
        operated.world.clock.advance(timedelta(minutes=2))
        await question.after(6)

    assert operated.world.steps.calls.count("gather") == looks + 5
    assert (told, question.approvals.progress.plan_shown) == ([], before)


@taking_no_time
async def test_an_approval_that_does_nothing_is_named_where_its_plan_is_asked_about(operated: Operated) -> None:
    question = await asked(operated)
    operated.api.approve("0" * 64)
    await question.after(10)

    told = operated_reason(question)
    assert told.code == "AwaitingApproval"
    assert told.message.endswith(
        "; the approval of ann is not used: RecoveryApproval yes is for plan 000000000000; the plan is "
        f"{question.digest[:12]} now: read it"
    )

    operated.house = House(Authority.OBSERVE)
    operated.api.approve(question.digest)
    await question.after(10)

    told = operated_reason(question)
    assert told.code == "ObserveOnly"
    assert "; the approval of ann is not used: authority is Observe" in told.message


def operated_reason(question: Asked) -> Reason:
    return question.approvals.progress.reason
