"""Who may say yes to what: each objection, who is answered, and that no is heard first."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.decision.card import waited_for
from kafka_recovery.decision.waiting import Choice
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.recoveries.approvals import objection
from kafka_recovery.kube.recoveries.pauses import LONGEST_BACKSTOP, LOOK, SHORTEST_BACKSTOP
from kafka_recovery.kube.recoveries.status import status_of
from kafka_recovery.kube.resources.kinds import (
    APPROVALS,
    CLUSTERS,
    POLICIES,
    RECOVERIES,
    Meta,
    read_approval,
)
from kafka_recovery.kube.resources.operator_switch import OperatorSwitch
from kafka_recovery.recovery.supervision import Authority
from unit.kube.journal.journals import NAME, UID
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.operated import Operated
from unit.kube.our_objects import KEY, OurObjects
from unit.kube.recoveries.asking import NO_POLICY, Asked, asked
from unit.kube.recoveries.standings import PLAN
from unit.kube.specs import DIGEST
from unit.recovery.world import ORDERS, PAYMENTS
from unit.virtual import in_no_time

BOUNDED = replace(PLAN, worst=LossClass.BOUNDED)
OF_AN_EARLIER_ONE = "PlanOutdated: RecoveryApproval yes is for uid of-an-earlier-one"
SAYS_WHY = replace(PLAN, wants_reason=True)


# One approval and one plan


@pytest.mark.parametrize(
    ("fields", "plan", "told"),
    [
        ({}, PLAN, None),
        ({"planDigest": "cd" * 32}, PLAN, "PlanOutdated: RecoveryApproval yes is for plan cdcdcdcdcdcd"),
        ({"recoveryRef": {"name": NAME, "uid": "of-an-earlier-one"}}, PLAN, OF_AN_EARLIER_ONE),
        (
            {"recoveryRef": {"name": "another", "uid": UID}},
            PLAN,
            f"PlanOutdated: RecoveryApproval yes is for uid {UID}",
        ),
        ({"maxLossClass": "Bounded"}, PLAN, "LossClassExceeded: "),
        ({"maxLossClass": "Lossless"}, BOUNDED, "LossClassExceeded: "),
        ({"maxLossClass": "Bounded"}, BOUNDED, None),
        ({"maxLossClass": "Unknown"}, BOUNDED, None),
        ({}, SAYS_WHY, "InvalidSpec: RecoveryApproval yes does not say why"),
        ({"reason": " \u200b"}, SAYS_WHY, "InvalidSpec: RecoveryApproval yes does not say why"),
        ({"reason": "INC-7"}, SAYS_WHY, None),
        ({"decision": "Refuse"}, SAYS_WHY, None),
        ({"decision": "Refuse", "planDigest": "cd" * 32}, PLAN, None),
        ({"decision": "Refuse", "recoveryRef": {"name": NAME, "uid": "of-an-earlier-one"}}, PLAN, OF_AN_EARLIER_ONE),
    ],
    ids=str,
)
def test_what_is_said_against_an_approval(fields: dict[str, Any], plan: Any, told: str | None) -> None:
    against = objection(read_approval(OurObjects().approve(DIGEST, **fields)), KEY, UID, plan)

    assert str(against or "").startswith(told or "")
    assert bool(against) is bool(told)


def test_an_approval_of_another_namespace_does_not_count() -> None:
    against = objection(read_approval(OurObjects().approve(DIGEST)), ("elsewhere", NAME), UID, PLAN)

    assert str(against).startswith("PlanOutdated: RecoveryApproval yes is for uid")


# Asking


async def test_an_approval_without_a_reason_is_answered_where_the_policy_wants_one(by_hand: Operated) -> None:
    by_hand.api.change(POLICIES, "rules", requireReason=True)
    question = await asked(by_hand)
    by_hand.api.approve(question.digest, name="silent")
    by_hand.api.approve(question.digest, name="tells", reason="INC-7")

    assert await question.after(1) == "ann"
    assert dict(by_hand.answers) == {"silent": "InvalidSpec", "tells": None}


async def test_the_one_who_approved_is_told_to_the_journal_and_the_status(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest)
    by, approval = await question.after(1), question.approvals.progress.approval

    assert approval
    assert (by, approval.name, approval.by) == ("ann", "yes", "ann")
    assert by_hand.answers == [("yes", None)]


async def test_an_approval_that_nobody_told_of_is_found_all_the_same(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest)
    await asyncio.wait([question.task], timeout=(LONGEST_BACKSTOP + LOOK).total_seconds())

    assert question.task.result() == "ann"


async def test_who_waits_for_an_approval_asks_for_nothing_while_nothing_changes(by_hand: Operated) -> None:
    await asked(by_hand)
    by_hand.api.reads.clear()
    await asyncio.sleep((SHORTEST_BACKSTOP - LOOK).total_seconds())

    assert by_hand.api.reads == []


async def test_however_much_is_written_who_waits_reads_a_few_times_a_second(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.reads.clear()
    for _ in range(1000):
        question.approvals.wake()
        await asyncio.sleep(0.001)

    assert by_hand.api.reads.count(APPROVALS.path(KEY[0])) <= 6


async def test_what_is_written_while_it_reads_is_read_afterwards(by_hand: Operated) -> None:
    question = await asked(by_hand)
    read = by_hand.api.list_all

    async def read_and_miss_one(path: str, **how: Any) -> list[Any]:
        found = await read(path, **how)
        if path == APPROVALS.path(KEY[0]) and not found:
            by_hand.api.approve(question.digest)
            question.approvals.wake()
        return found

    by_hand.api.list_all = read_and_miss_one  # type: ignore[method-assign]

    assert await question.after(1) == "ann"


async def test_a_yes_that_was_taken_back_while_the_cluster_was_out_of_sight_does_not_count(by_hand: Operated) -> None:
    """Nobody told of it: what was read of the yes is old by the time at which the plan is seen to hold."""
    question = await asked(by_hand)
    for node in by_hand.world.kafka.nodes.values():
        node.mute = True
    by_hand.world.clock.advance(timedelta(seconds=70))
    by_hand.api.approve(question.digest)
    assert await question.after(30) == ""
    by_hand.api.remove_approval("yes")
    for node in by_hand.world.kafka.nodes.values():
        node.mute = False
    await asyncio.sleep(60)

    assert (question.task.done(), question.reason) == (False, "AwaitingApproval")


async def test_an_author_who_can_not_be_answered_at_once_is_answered_soon_afterwards(by_hand: Operated) -> None:
    question = await asked(by_hand)
    tries: list[str] = []

    async def at_the_second_try(approval: Meta, against: Reason | None) -> bool:
        tries.append(approval.name)
        return len(tries) > 1

    question.approvals.answered = at_the_second_try
    by_hand.api.approve("cd" * 32, "old")
    await question.after((SHORTEST_BACKSTOP / 2).total_seconds())

    assert tries == ["old", "old"]


@pytest.mark.kernel
async def test_what_may_be_better_than_electing_is_weighed_beside_the_event_loop(
    by_hand: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10,000 elections it takes most of a second, in which the operator would watch no Kafka."""
    weighed_by: list[threading.Thread] = []

    def noted(plan: Plan) -> Choice:
        weighed_by.append(threading.current_thread())
        return waited_for(plan)

    monkeypatch.setattr("kafka_recovery.kube.recoveries.status.waited_for", noted)
    question = await asked(by_hand)
    known = question.approvals.progress.known()
    question.task.cancel()

    assert status_of(known, 1, {}, NOON)["plan"]["waiting"]
    assert len(weighed_by) == 1
    assert weighed_by[0] is not threading.main_thread()


@pytest.mark.parametrize("trouble", ["approvals can't be read", "who writes them is not checked"])
async def test_a_yes_that_can_not_be_acted_on_yet_is_read_again_though_nobody_tells(
    by_hand: Operated, trouble: str
) -> None:
    question = await asked(by_hand)
    if trouble == "approvals can't be read":
        by_hand.api.unread = APPROVALS.plural
    else:
        by_hand.unchecked = NO_POLICY
    by_hand.api.approve(question.digest)
    assert await question.after(30) == ""
    by_hand.api.unread = by_hand.unchecked = None
    await asyncio.wait([question.task], timeout=2 * LOOK.total_seconds())

    assert question.task.result() == "ann"


async def test_each_author_is_answered_once(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve("cd" * 32, "old")
    by_hand.api.approve(question.digest, "careful", maxLossClass="Lossless")

    assert await question.after(60) == ""

    assert by_hand.answers == [("careful", "LossClassExceeded"), ("old", "PlanOutdated")]


@pytest.mark.parametrize("yes_counts", [True, False], ids=["a yes that counts", "a yes that is held"])
async def test_no_is_heard_before_any_yes(by_hand: Operated, yes_counts: bool) -> None:
    by_hand.unchecked = None if yes_counts else NO_POLICY

    question = await asked(by_hand)
    by_hand.api.approve(question.digest, "a-first-yes")
    by_hand.api.approve(question.digest, "then-a-no", decision="Refuse", approver="bob", reason="INC-7")

    assert (await question.after(1), question.approvals.refused) == (
        None,
        Reason("RefusedByApprover", "bob refused the plan: INC-7"),
    )


async def test_who_said_yes_before_a_no_is_told_that_it_does_not_count(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest, "a-first-yes", maxLossClass="Unknown")
    by_hand.api.approve(question.digest, "then-a-no", decision="Refuse", approver="bob")
    by_hand.api.approve(question.digest, "and-another-no", decision="Refuse", approver="eve")
    await question.after(1)

    assert by_hand.answers == [("and-another-no", None), ("then-a-no", None), ("a-first-yes", "RefusedByApprover")]


async def test_who_says_the_same_as_another_before_is_answered_as_well(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest, "one")
    by_hand.api.approve(question.digest, "two", approver="bob")

    assert await question.after(1) == "ann"
    assert by_hand.answers == [("one", None), ("two", None)]


async def test_at_the_end_everybody_gets_an_answer_who_had_none(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest, "in-time")
    await question.after(1)
    by_hand.api.approve(question.digest, "a-late-no", decision="Refuse")
    by_hand.api.approve(question.digest, "about-an-earlier-one", recoveryRef={"name": NAME, "uid": "earlier"})
    await question.approvals.close(Reason("Recovered", "its partition has a leader"))

    assert by_hand.answers == [("in-time", None), ("a-late-no", "RecoveryFinished")]


def test_what_an_earlier_process_has_answered_is_not_called_too_late(by_hand: Operated) -> None:
    by_hand.api.approve("ab" * 32, "honoured")["status"] = {"conditions": [{"type": "Accepted", "status": "True"}]}

    in_no_time(by_hand.process().approvals.close(Reason("Recovered", "its partition has a leader")))

    assert by_hand.answers == []


def test_approvals_that_cannot_be_read_at_the_end_are_no_reason_not_to_end(by_hand: Operated) -> None:
    by_hand.api.unread = "/recoveryapprovals"

    in_no_time(by_hand.process().approvals.close(Reason("Recovered", "its partition has a leader")))

    assert by_hand.answers == []


async def test_approvals_that_nobody_can_list_are_told_and_nothing_is_approved(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest)
    by_hand.api.unread = "/recoveryapprovals"
    blocked = await question.after(1), question.reason
    by_hand.api.unread = None

    assert (*blocked, await question.after(1)) == ("", "ObjectsUnreadable", "ann")


async def test_a_yes_that_can_not_be_read_is_refused_alone_and_the_others_count(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest, "of-a-newer-schema", maxLossClass="NegligibleOnly")
    assert await question.after(1) == ""
    assert "RecoveryApproval of-a-newer-schema is not used" in question.approvals.progress.reason.message
    by_hand.api.approve(question.digest)

    assert await question.after(1) == "ann"
    assert by_hand.answers == [("of-a-newer-schema", "InvalidSpec"), ("yes", None)]


async def test_a_no_is_heard_also_where_the_rest_of_it_can_not_be_read(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest)
    by_hand.api.approve("of a newer form", "no", decision="Refuse")
    await question.after(1)

    assert (question.task.result(), str(question.approvals.refused)) == (
        None,
        "RefusedByApprover: ann refused the plan",
    )


async def test_a_no_that_can_not_be_read_and_is_of_another_recovery_ends_nothing(by_hand: Operated) -> None:
    question = await asked(by_hand)
    earlier = {"name": NAME, "uid": "of-an-earlier-one"}
    by_hand.api.approve("of a newer form", "no", decision="Refuse", recoveryRef=earlier)
    by_hand.api.approve(question.digest)

    assert await question.after(1) == "ann"


async def test_a_yes_whose_limits_this_release_does_not_know_is_refused_alone(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest, "limited", onlyUntil="2026-11-21T13:00:00Z")
    assert await question.after(1) == ""
    by_hand.api.approve(question.digest)

    assert await question.after(1) == "ann"
    assert by_hand.answers == [("limited", "UnknownFields"), ("yes", None)]


async def test_a_no_counts_whatever_else_it_says(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest, "no", decision="Refuse", onlyUntil="2026-11-21T13:00:00Z")
    await question.after(1)

    assert question.approvals.refused is not None


async def test_without_the_admission_policy_no_plan_that_may_lose_records_is_approved(by_hand: Operated) -> None:
    by_hand.unchecked = NO_POLICY

    question = await asked(by_hand)
    by_hand.api.approve(question.digest)
    held = await question.after(1), question.reason
    by_hand.unchecked = None

    assert (*held, await question.after(1)) == ("", "AdmissionPolicyMissing", "ann")


async def test_under_observe_the_plan_is_shown_and_no_approval_counts(by_hand: Operated) -> None:
    by_hand.switch = OperatorSwitch(Authority.OBSERVE)

    question = await asked(by_hand)
    by_hand.api.approve(question.digest)
    held = await question.after(60), question.reason
    by_hand.switch = OperatorSwitch(Authority.APPROVE)

    assert (*held, await question.after(1)) == ("", "ObserveOnly", "ann")
    assert by_hand.answers == [("yes", "ObserveOnly"), ("yes", None)]


@pytest.mark.parametrize(
    ("kind", "name", "fields"),
    [(RECOVERIES, NAME, {"suspend": True}), (RECOVERIES, NAME, {"abort": True}), (CLUSTERS, "prod", {"suspend": True})],
)
async def test_who_is_halted_is_not_asked_any_longer(by_hand: Operated, kind: Any, name: str, fields: Any) -> None:
    question = await asked(by_hand)
    by_hand.api.change(kind, name, **fields)

    assert (await question.after(1), question.approvals.void) == (None, None)


async def test_a_plan_with_both_kinds_is_carried_out_first_as_far_as_nobody_is_needed(by_hand: Operated) -> None:
    by_hand.world.offline({3: 8, 4: 9}, PAYMENTS)
    rules = [{"name": "pay", "topics": {"names": ["payments"]}}, {"name": "rest", "approval": "AutoApprove"}]
    by_hand.api.change(POLICIES, "rules", rules=rules)

    now = await by_hand.supervision().permission()
    first = Asked(by_hand, await by_hand.world.plan(now.policy))
    without_anybody = await first.after(1)
    first.approvals.progress.concluded(PartitionOutcome(ORDERS, Outcome.RECOVERED))
    first.task = asyncio.ensure_future(first.approvals.granted(first.plan, first.digest))
    waiting = await first.after(60)
    by_hand.api.approve(first.digest)

    assert (without_anybody, waiting, await first.after(1)) == (None, "", "ann")
