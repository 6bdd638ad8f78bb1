"""What a plan outlives while it waits for a person, and which yes counts when its waves begin."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.cluster.metadata_log.reader import READING
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.log_directories import BrokerDirectories, LogDirectory
from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.recoveries.pauses import LOOK
from kafka_recovery.kube.recoveries.status import Phase, status_of
from kafka_recovery.kube.resources.kinds import POLICIES
from kafka_recovery.kube.resources.operator_switch import OperatorSwitch
from kafka_recovery.recovery.supervision import Authority
from unit.kube.journal.journals import NAME
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.operated import Going, Operated
from unit.kube.recoveries.asking import NO_POLICY, Asked, asked
from unit.recovery.world import ORDERS, PAYMENTS
from unit.virtual import in_no_time

Known = Mapping[TopicPartition, PartitionEvidence] | None

# Reading it again


def standing(by_hand: Operated, *names: str, **fields: Any) -> tuple[str | Reason | None, Reason | None]:
    """What counts for a wave of a plan about which these objects speak, and who ended the recovery."""

    async def tell() -> tuple[str | Reason | None, Reason | None]:
        plan = await by_hand.world.plan((await by_hand.supervision().permission()).policy)
        for name in names:
            by_hand.api.approve(digest(plan), name, **fields)
        approvals = by_hand.process().approvals
        return await approvals.standing(plan, digest(plan)), approvals.refused

    return in_no_time(tell())


def test_a_refusal_is_a_no_for_every_wave_and_never_the_yes_of_who_wrote_it(by_hand: Operated) -> None:
    said = standing(by_hand, "no", decision="Refuse", approver="bob", reason="INC-7")

    assert said == (None, Reason("RefusedByApprover", "bob refused the plan: INC-7"))


def test_a_yes_that_nobody_checked_counts_for_no_wave(by_hand: Operated) -> None:
    by_hand.unchecked = NO_POLICY

    assert standing(by_hand, "yes") == (NO_POLICY, None)


# What a plan outlives


async def half_done(by_hand: Operated) -> Going:
    """What nobody is asked about is elected; the evidence grew old while somebody reads the rest."""
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    assert [by_hand.world.leader(id) is not None for id in (ORDERS, PAYMENTS)] == [True, False]
    by_hand.world.clock.advance(timedelta(minutes=2))
    return going


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


async def test_what_was_elected_and_went_offline_again_is_not_approved_with_the_rest(half_automatic: Operated) -> None:
    going = await half_done(half_automatic)
    half_automatic.world.kafka.fence(2)
    half_automatic.api.approve(going.digest)
    await asyncio.sleep(2 * LOOK.total_seconds())

    assert "orders-0: the leader epoch was 5, now it is 7" in going.run.progress.news[-1].message
    assert [half_automatic.world.leader(id) for id in (ORDERS, PAYMENTS)] == [None, None]


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


async def test_a_plan_whose_manual_part_changed_is_void_though_the_rest_was_elected(half_automatic: Operated) -> None:
    going = await half_done(half_automatic)
    half_automatic.world.kafka.partitions[PAYMENTS].ends[3] = 40
    await asyncio.sleep(2 * LOOK.total_seconds())

    assert "payments-0: the leader to elect was 4, now it is 3" in going.run.progress.news[-1].message


async def test_a_plan_that_still_holds_can_be_approved_however_old_it_is(by_hand: Operated) -> None:
    question = await asked(by_hand)
    for _ in range(5):
        by_hand.world.clock.advance(timedelta(minutes=2))
        assert await question.after(6) == ""
    by_hand.world.clock.advance(timedelta(minutes=2))
    by_hand.api.approve(question.digest)

    assert (await question.after(6), by_hand.world.steps.calls.count("gather")) == ("ann", 7)


LOST = BrokerDirectories(BrokerId(2), problem=Reason("BrokerTimeout", "no answer within 1s"))
ROOM = BrokerDirectories(BrokerId(2), (LogDirectory("/data", None, 100 << 30, 60 << 30),))
FULL = BrokerDirectories(BrokerId(2), (LogDirectory("/data", None, 100 << 30, 1 << 20),))


def answers_of_disks(by_hand: Operated, *said: BrokerDirectories | None) -> None:
    """What is told of disks at the plan's look, at the next one, and so on; the last one stays."""
    kafka, gather, left = by_hand.world.kafka, by_hand.world.kafka.gather, list(said)

    async def gather_with(scope: Scope, rules: EvidenceRules, known: Known = None) -> Evidence:
        seen = await gather(scope, rules, known)
        now = left.pop(0) if len(left) > 1 else left[0]
        return replace(seen, cluster=replace(seen.cluster, log_directories=(now,) if now else ()))

    kafka.gather = gather_with  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("said", "by"),
    [
        ((ROOM, LOST), "ann"),
        ((LOST, ROOM), "ann"),
        ((LOST, LOST), "ann"),
        ((None, LOST), "ann"),
        ((ROOM, FULL), None),
    ],
    ids=["lost", "regained", "never told", "not asked before", "filled up"],
)
async def test_an_answer_about_disks_that_is_lost_or_regained_voids_no_plan_that_a_person_reads(
    by_hand: Operated, said: tuple[BrokerDirectories | None, ...], by: str | None
) -> None:
    by_hand.switch = OperatorSwitch(Authority.APPROVE)
    by_hand.api.change(POLICIES, "rules", rules=[{"name": "all", "approval": "AutoApprove"}])
    answers_of_disks(by_hand, *said)
    question = await asked(by_hand)
    by_hand.world.clock.advance(timedelta(minutes=2))
    by_hand.api.approve(question.digest)

    assert await question.after(6) == by


async def test_what_a_broker_told_of_its_room_before_counts_while_a_plan_waits(by_hand: Operated) -> None:
    """Else the look asks nobody of whom it is known, and another one of several equals comes first."""
    looked: list[Known] = []
    question = await asked(by_hand)
    kafka, gather = by_hand.world.kafka, by_hand.world.kafka.gather

    async def gather_with(scope: Scope, rules: EvidenceRules, known: Known = None) -> Evidence:
        looked.append(known)
        return await gather(scope, rules, known)

    kafka.gather = gather_with  # type: ignore[method-assign]
    by_hand.world.clock.advance(timedelta(minutes=2))
    await question.after(6)

    assert looked == [{each.id: each for each in question.plan.evidence.partitions}]


async def test_a_plan_that_changed_is_void_however_fresh_its_approval(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.world.kafka.partitions[ORDERS].ends[3] = 40
    by_hand.world.clock.advance(timedelta(minutes=2))
    by_hand.api.approve(question.digest)
    by, void = await question.after(1), question.approvals.void

    assert (by, void and void.code) == (None, "PlanOutdated")
    assert "the leader to elect was 2, now it is 3" in str(void)


async def test_a_plan_of_long_ago_is_looked_at_anew_before_anybody_s_yes_counts(by_hand: Operated) -> None:
    """Evidence has the age that it has: after a restart or a suspension the plan is old when somebody is asked."""
    now = await by_hand.supervision().permission()
    plan = await by_hand.world.plan(now.policy)
    by_hand.world.clock.advance(timedelta(minutes=2))
    by_hand.world.kafka.partitions[ORDERS].ends[3] = 40
    by_hand.api.approve(digest(plan))
    question = Asked(by_hand, plan)
    by, void = await question.after(1), question.approvals.void

    assert (by, void and void.code) == (None, "PlanOutdated")


async def test_a_plan_of_long_ago_is_not_void_because_kafka_is_silent_for_a_moment(by_hand: Operated) -> None:
    now = await by_hand.supervision().permission()
    plan = await by_hand.world.plan(now.policy)
    by_hand.world.clock.advance(timedelta(minutes=20))
    for node in by_hand.world.kafka.nodes.values():
        node.mute = True
    by_hand.api.approve(digest(plan))
    question = Asked(by_hand, plan)
    while_silent = await question.after(20)
    for node in by_hand.world.kafka.nodes.values():
        node.mute = False

    assert (while_silent, await question.after(LOOK.total_seconds() + 1)) == ("", "ann")


async def test_rules_that_changed_are_looked_at_at_once(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.change(POLICIES, "rules", rules=[{"name": "other", "approval": "ManualApprove"}])
    await question.after(1)
    void = question.approvals.void

    assert "the policy's rule was rule, now it is other" in str(void)


async def test_rules_that_changed_elsewhere_void_nothing(by_hand: Operated) -> None:
    question = await asked(by_hand)
    rules = [{"name": "pay", "topics": {"prefixes": ["pay"]}}, {"name": "rule", "patience": "30s"}]
    by_hand.api.change(POLICIES, "rules", rules=rules)
    by_hand.api.approve(question.digest)

    assert await question.after(1) == "ann"


async def test_while_the_cluster_is_out_of_sight_no_old_plan_is_approved_and_in_the_end_it_is_void(
    by_hand: Operated,
) -> None:
    question = await asked(by_hand)
    for node in by_hand.world.kafka.nodes.values():
        node.mute = True
    by_hand.api.approve(question.digest)
    by_hand.world.clock.advance(timedelta(seconds=70))
    assert (await question.after(30), question.approvals.void) == ("", None)
    by_hand.world.clock.advance(timedelta(seconds=60))

    assert await question.after(6) is None
    assert question.approvals.void
    assert question.approvals.void.code == "EvidenceTooOld"


async def test_a_cluster_out_of_sight_is_looked_for_every_few_seconds_only(by_hand: Operated) -> None:
    await asked(by_hand)
    for node in by_hand.world.kafka.nodes.values():
        node.mute = True
    by_hand.world.clock.advance(timedelta(seconds=70))
    before = by_hand.world.steps.calls.count("gather")
    await asyncio.sleep(60)

    assert by_hand.world.steps.calls.count("gather") - before <= 60 / LOOK.total_seconds() + 1


async def test_a_plan_made_before_the_metadata_log_was_read_is_looked_at_again_as_soon_as_it_is(
    by_hand: Operated,
) -> None:
    """Else what is proven waits for a person until the evidence is too old."""
    now = await by_hand.supervision().permission()
    plan = await by_hand.world.plan(now.policy)
    unread = replace(plan.evidence.cluster, history_problem=READING)
    question = Asked(by_hand, replace(plan, evidence=replace(plan.evidence, cluster=unread)))
    await asyncio.sleep(0.1)
    before = by_hand.world.steps.calls.count("gather")
    known: list[Reason | None] = [READING]
    question.approvals.history = lambda: known[-1]

    question.approvals.stir()
    await asyncio.sleep(0.1)
    assert by_hand.world.steps.calls.count("gather") == before, "the evidence is young"
    known.append(None)
    question.approvals.stir()
    await asyncio.sleep(0.1)
    assert by_hand.world.steps.calls.count("gather") == before + 1
    question.approvals.stir()
    await asyncio.sleep(0.1)
    assert by_hand.world.steps.calls.count("gather") == before + 1, "once"


async def test_that_a_plan_was_looked_at_again_and_still_holds_is_no_news(by_hand: Operated) -> None:
    """Else each of many that wait would have its status written after each `maxAge`."""
    question = await asked(by_hand)
    before, looks = question.approvals.progress.plan_shown, by_hand.world.steps.calls.count("gather")
    by_hand.phases.clear()
    told: list[str] = []
    question.approvals.progress.changed = lambda: told.append("changed")
    for _ in range(5):
        by_hand.world.clock.advance(timedelta(minutes=2))
        await question.after(6)

    assert by_hand.world.steps.calls.count("gather") == looks + 5
    assert (told, question.approvals.progress.plan_shown) == ([], before)


async def test_an_approval_that_does_nothing_is_named_where_its_plan_is_asked_about(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve("0" * 64)
    await question.after(10)

    told = operated_reason(question)
    assert told.code == "AwaitingApproval"
    assert told.message.endswith(
        "; the approval of ann is not used: RecoveryApproval yes is for plan 000000000000; the plan is "
        f"{question.digest[:12]} now: read it"
    )

    by_hand.switch = OperatorSwitch(Authority.OBSERVE)
    by_hand.api.approve(question.digest)
    await question.after(10)

    told = operated_reason(question)
    assert told.code == "ObserveOnly"
    assert "; the approval of ann is not used: authority is Observe" in told.message


async def test_an_approval_of_an_earlier_recovery_of_that_name_is_not_named_beside_the_plan(by_hand: Operated) -> None:
    question = await asked(by_hand)
    by_hand.api.approve(question.digest, recoveryRef={"name": NAME, "uid": "earlier"})
    await question.after(10)

    assert by_hand.answers == [("yes", "PlanOutdated")]
    assert "is not used" not in operated_reason(question).message


def operated_reason(question: Asked) -> Reason:
    return question.approvals.progress.reason
