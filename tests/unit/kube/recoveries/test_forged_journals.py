"""RecoveryRecords that somebody else wrote: they elect nobody, alter no order, and are named to a person."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.journal import record_journal
from kafka_recovery.kube.journal.facts import OWNED_LABEL
from kafka_recovery.kube.recoveries.pauses import GONE_WITHIN, LOOK, SHORTEST_BACKSTOP
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, POLICIES, RECORDS, RECOVERIES
from unit.kube.journal.forging import APPROVED, BEGUN, first_wave, forge, turned_round, worse
from unit.kube.journal.journals import NAME, NAMESPACE, PLACE, UID
from unit.kube.office import Office
from unit.kube.operated import Going, Operated, died
from unit.kube.our_objects import PROD, inhabited
from unit.recovery.world import ORDERS, PAYMENTS, World, crash, dies_in
from unit.virtual import in_no_time

END_FORGED, OWNED_FORGED = "a finished record", "labels"

LONG = 120
"""Virtual seconds: several tries."""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a journal had no notes is remembered in real seconds, and these stories are told in virtual ones."""
    monkeypatch.setattr(record_journal, "BLANK", 0.0)


def untouched(operated: Operated) -> bool:
    return operated.world.changed() == [] and operated.world.leader() is None


async def suspended_and_resumed(operated: Operated, going: Going) -> Going:
    """What a namespace's editor may do to a recovery."""
    operated.api.change(RECOVERIES, NAME, suspend=True)
    going.run.wake()
    await asyncio.sleep(20)
    operated.api.change(RECOVERIES, NAME, suspend=False)
    going.run.wake()
    return going


async def restarted(operated: Operated, going: Going) -> Going:
    """What an editor may wait for."""
    shown = going.digest
    await going.killed()
    return Going(operated.process(shown=shown))


TURNS = pytest.mark.parametrize("turn", [suspended_and_resumed, restarted])
Turn = Callable[[Operated, Going], Awaitable[Going]]


@TURNS
async def test_a_forged_approval_and_beginning_of_the_plan_that_is_shown_elect_nobody(
    by_hand: Operated, turn: Turn
) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    await forge(by_hand.api, going.digest, approval=APPROVED, begun=BEGUN)
    going = await turn(by_hand, going)
    await going.until(Phase.STUCK)
    await asyncio.sleep(LONG)
    reason = going.run.progress.reason

    assert untouched(by_hand)
    assert reason.code == "PlanNotShown"
    assert "-begun say that plan" in reason.message


@TURNS
async def test_a_forged_plan_elects_nobody_and_touches_no_order(by_hand: Operated, turn: Turn) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    assert going.run.progress.plan
    digest, raw = worse(going.run.progress.plan, leader=3)
    await forge(by_hand.api, digest, plan=raw, approval=APPROVED, begun=BEGUN, wave_0001_started=first_wave())
    going = await turn(by_hand, going)
    await going.until(Phase.STUCK)
    await asyncio.sleep(LONG)

    assert going.run.progress.reason.code == "PlanNotShown"
    assert untouched(by_hand)


async def test_an_order_that_a_forged_plan_calls_the_original_one_is_not_set(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    assert going.run.progress.plan
    digest, raw = turned_round(going.run.progress.plan)
    await forge(by_hand.api, digest, plan=raw, begun=BEGUN, wave_0001_started=first_wave())
    going = await restarted(by_hand, going)
    await going.until(Phase.STUCK)
    by_hand.api.change(RECOVERIES, NAME, abort=True)
    going.run.wake()

    assert await going.end() is End.ABORTED

    assert untouched(by_hand)
    assert by_hand.world.unrestored() == []


async def test_once_a_person_deleted_what_was_forged_the_plan_can_be_approved(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    forged = await forge(by_hand.api, going.digest, approval=APPROVED, begun=BEGUN)
    going = await restarted(by_hand, going)
    await going.until(Phase.STUCK)
    for name in forged:
        await by_hand.api.delete(f"{PLACE}/{name}")
    await going.until(Phase.AWAITING_APPROVAL)
    assert untouched(by_hand)
    by_hand.api.approve(going.digest)

    assert await going.end() is End.RECOVERED
    assert by_hand.world.leader() == 2


async def test_what_ended_by_forged_facts_alone_has_not_ended(by_hand: Operated) -> None:
    """Else an outage would be told as recovered, and nobody would look."""
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    outcome = b'{"wave":1,"outcomes":[{"id":"orders-0","outcome":"Recovered"}]}'
    facts = {"begun": BEGUN, "wave_0001_started": first_wave(), "wave_0001_ended": outcome, "finished": BEGUN}
    await forge(by_hand.api, going.digest, **facts)
    going = await restarted(by_hand, going)
    await asyncio.sleep(LONG)

    assert going.run.progress.end is None
    assert untouched(by_hand)


# A run that the operator began, and what counts for it


@pytest.fixture
def cut_short(by_hand: Operated) -> Callable[[], Awaitable[str]]:
    """Have a process die with an order altered, in a run that somebody approved; returns the plan's digest."""

    async def dies() -> str:
        by_hand.world.before("elect", crash)
        going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
        by_hand.api.approve(going.digest)
        await dies_in(going.task)
        by_hand.world.calm_down()
        assert by_hand.world.unrestored() == [ORDERS]
        return going.digest

    return dies


def deleted(operated: Operated, digest: str) -> None:
    operated.api.remove_approval("yes")


def of_another_recovery(operated: Operated, digest: str) -> None:
    operated.api.approve(digest, recoveryRef={"name": NAME, "uid": "another"})


def of_another_plan(operated: Operated, digest: str) -> None:
    operated.api.approve("ab" * 32)


def of_a_smaller_loss(operated: Operated, digest: str) -> None:
    operated.api.approve(digest, maxLossClass="Lossless")


def unchecked(operated: Operated, digest: str) -> None:
    operated.unchecked = Reason("AdmissionPolicyMissing", "nobody checks who writes approvals")


def contradicted(operated: Operated, digest: str) -> None:
    operated.api.remove_approval("yes")
    operated.unchecked = Reason("PredatesAdmissionPolicy", "perhaps nobody checked who wrote it")
    operated.api.approve(digest)


@pytest.mark.parametrize(
    "spoil", [deleted, of_another_recovery, of_another_plan, of_a_smaller_loss, unchecked, contradicted]
)
async def test_without_an_approval_that_stands_a_resumed_run_restores_orders_and_elects_nobody(
    by_hand: Operated, cut_short: Callable[[], Awaitable[str]], spoil: Callable[[Operated, str], None]
) -> None:
    """The journal tells that ann approved it: that is for whoever asks later, and lets nobody elect."""
    digest = await cut_short()
    spoil(by_hand, digest)
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process(shown=digest))
    await asyncio.sleep(LONG)
    progress = going.run.progress

    assert (by_hand.world.unrestored(), by_hand.world.leader()) == ([], None)
    assert (progress.phase, progress.approval) == (Phase.AWAITING_APPROVAL, None)


async def test_a_resumed_run_goes_on_once_its_plan_is_approved_again(
    by_hand: Operated, cut_short: Callable[[], Awaitable[str]]
) -> None:
    digest = await cut_short()
    by_hand.api.remove_approval("yes")
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process(shown=digest))
    by_hand.api.approve(digest, name="again")

    assert await going.end() is End.RECOVERED
    assert by_hand.world.leader() == 2


async def test_an_approval_that_is_taken_back_counts_for_no_further_wave(world: World) -> None:
    world.offline({3: 8, 4: 9}, PAYMENTS)
    operated = Operated(world, inhabited(ORDERS, PAYMENTS, approval="ManualApprove", waveSizes=[1]), (ORDERS, PAYMENTS))
    world.after("elect", lambda: operated.api.remove_approval("yes"))

    going = await Going.up_to(Phase.AWAITING_APPROVAL, operated.process())
    operated.api.approve(going.digest)
    going.run.wake()
    await asyncio.sleep(5)
    await going.until(Phase.AWAITING_APPROVAL)
    await asyncio.sleep(LONG)

    assert sorted([world.leader() is None, world.leader(PAYMENTS) is None]) == [False, True], "one wave was elected"
    assert world.kept_its_promises()


async def test_a_forged_approval_does_not_elect_the_part_of_a_plan_that_waits_for_one(world: World) -> None:
    world.offline({3: 8, 4: 9}, PAYMENTS)
    operated = Operated(world, inhabited(ORDERS, PAYMENTS), (ORDERS, PAYMENTS))
    rules = [{"name": "pay", "topics": {"names": ["payments"]}}, {"name": "rest", "approval": "AutoApprove"}]
    operated.api.change(POLICIES, "rules", rules=rules)

    going = await Going.up_to(Phase.AWAITING_APPROVAL, operated.process())
    await forge(operated.api, going.digest, approval=APPROVED)
    going = await restarted(operated, going)
    await going.until(Phase.AWAITING_APPROVAL)
    await asyncio.sleep(LONG)

    assert (world.leader(), world.leader(PAYMENTS)) == (2, None)


async def test_a_run_that_began_by_its_rule_goes_on_only_if_the_rule_of_now_wants_nobody(automatic: Operated) -> None:
    automatic.world.before("elect", crash)

    await died(automatic)
    automatic.api.change(POLICIES, "rules", rules=[{"name": "rule", "approval": "ManualApprove"}])
    await Going.up_to(Phase.AWAITING_APPROVAL, automatic.process())

    assert (automatic.world.unrestored(), automatic.world.leader()) == ([], None)


# A journal that somebody deleted


async def test_a_deletion_does_not_take_the_journal_of_a_wave(automatic: Operated) -> None:
    """Not with the namespace either: every record waits for the orders, and goes once they are restored."""
    automatic.world.after("elect", crash)
    await died(automatic)
    deleted = set(automatic.api.records())
    for name in deleted:
        await automatic.api.delete(f"{PLACE}/{name}")
    assert deleted == set(automatic.api.records())

    assert await Going.to_its_end(automatic.process()) is End.RECOVERED
    assert automatic.world.unrestored() == []
    assert deleted.isdisjoint(automatic.api.records())


async def test_a_journal_that_was_deleted_in_a_wave_is_missed_and_its_partitions_are_not_called_recovered(
    automatic: Operated,
) -> None:
    """A new plan would take the altered order for the original one, and nobody would look."""
    automatic.world.after("elect", crash)
    await died(automatic)
    for name in list(automatic.api.records()):
        automatic.api.tear_out(f"{PLACE}/{name}")
    going = await Going.up_to(Phase.STUCK, automatic.process())
    await asyncio.sleep(LONG)
    reason = going.run.progress.reason

    assert reason.code == "JournalDamaged"
    assert "-plan: it is missing, though status.begun names its plan" in reason.message
    assert automatic.world.unrestored() == [ORDERS], "the operator knows no more what it was"


async def test_once_a_person_mended_what_a_deleted_journal_left_the_recovery_goes_on(automatic: Operated) -> None:
    automatic.world.after("elect", crash)
    await died(automatic)
    for name in list(automatic.api.records()):
        automatic.api.tear_out(f"{PLACE}/{name}")
    going = await Going.up_to(Phase.STUCK, automatic.process())
    automatic.api.recovery()["metadata"]["finalizers"] = []

    assert await going.end() is End.RECOVERED


# What the status names


def test_a_plan_stands_in_the_status_before_anything_says_that_it_began(automatic: Operated) -> None:
    in_no_time(Going.to_its_end(automatic.process()))

    writes = [each.rpartition("/")[2] for each in automatic.api.writes]
    status, begun = writes.index(NAME, writes.index(NAME) + 1), next(i for i, at in enumerate(writes) if "-begun" in at)
    assert automatic.api.writes[status].startswith("status ")
    assert status < begun
    (digest,) = automatic.api.recovery()["status"]["begun"]["plans"]
    assert f"-{digest[:16]}-begun" in writes[begun]


async def test_a_status_that_was_restored_from_another_recovery_names_nothing(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    recovery = by_hand.api.recovery()
    status = {"begun": {"recoveryUid": "of-an-earlier-one", "plans": [going.digest]}}
    by_hand.api.put(RECOVERIES, NAME, recovery["spec"], status)
    await forge(by_hand.api, going.digest, approval=APPROVED, begun=BEGUN)
    going = await restarted(by_hand, going)
    await going.until(Phase.STUCK)

    assert going.run.progress.reason.code == "PlanNotShown"
    assert untouched(by_hand)


async def test_an_abort_says_that_no_order_was_restored_for_what_nobody_was_shown(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    await forge(by_hand.api, going.digest, approval=APPROVED, begun=BEGUN)
    going = await restarted(by_hand, going)
    await going.until(Phase.STUCK)
    by_hand.api.change(RECOVERIES, NAME, abort=True)
    going.run.wake()
    await going.task
    progress = going.run.progress

    assert (progress.end, progress.reason.code) == (End.ABORTED, "Aborted")
    assert "no order was restored for what nobody was shown" in progress.reason.message
    assert untouched(by_hand)


async def test_a_person_sees_that_it_is_stalled_and_is_told_once(asking_office: Office) -> None:
    shown = (await asking_office.asks())["plan"]["digest"]
    await asking_office.queue.stop(timedelta(seconds=1))
    await asking_office.all.stop()
    await forge(asking_office.api, shown, approval=APPROVED, begun=BEGUN)
    again = Office(asking_office.world, asking_office.api)
    again.takes_up()
    await again.until("PlanNotShown")
    await asyncio.sleep(60)
    assert again.condition("Stalled") == ("True", "PlanNotShown")
    assert [reason for _, reason in again.events.said] == ["PlanNotShown"]
    assert again.status()["plan"]["digest"] == shown, "what people read stays readable"
    await again.all.stop()

    assert asking_office.world.changed() == []
    assert asking_office.api.recovery()["metadata"]["uid"] == UID


async def never_shown(automatic: Operated) -> str:
    """Somebody wrote that the plan which is asked about was begun; returns what the operator says of it."""
    automatic.api.change(POLICIES, "rules", rules=[{"name": "rule", "approval": "ManualApprove"}])
    going = await Going.up_to(Phase.AWAITING_APPROVAL, automatic.process())
    await going.killed()
    await forge(automatic.api, going.digest, approval=APPROVED, begun=BEGUN)
    return "PlanNotShown"


async def torn_out(automatic: Operated) -> str:
    """Somebody deleted the records of a run that was begun."""
    automatic.world.after("elect", crash)
    await died(automatic)
    for name in list(automatic.api.records()):
        automatic.api.tear_out(f"{PLACE}/{name}")
    return "JournalDamaged"


WRONG = pytest.mark.parametrize("wrong", [never_shown, torn_out])
Wrong = Callable[[Operated], Awaitable[str]]


async def stalls(automatic: Operated, wrong: Wrong) -> Office:
    """A process that has found out what is wrong, and tried again for a while."""
    code = await wrong(automatic)
    office = Office(automatic.world, automatic.api)
    office.takes_up()
    await office.until(code)
    await asyncio.sleep(GONE_WITHIN.total_seconds())
    return office


@WRONG
async def test_while_nobody_mends_a_journal_it_is_listed_now_and_then_and_nothing_else_is_asked(
    automatic: Operated, wrong: Wrong
) -> None:
    office = await stalls(automatic, wrong)
    automatic.api.reads.clear()
    automatic.api.writes.clear()
    while_nobody_mends = SHORTEST_BACKSTOP - GONE_WITHIN - LOOK
    await asyncio.sleep(while_nobody_mends.total_seconds())

    assert automatic.api.writes == []
    reads = Counter(automatic.api.reads)
    assert reads.keys() == {RECORDS.path(NAMESPACE), RECOVERIES.path(NAMESPACE, NAME)}
    # The run and its neighbours each read it once in a pause that is drawn, of half of that at the least.
    assert max(reads.values()) <= 2 * math.ceil(while_nobody_mends / (GONE_WITHIN / 2))
    await office.all.stop()


def plan_was_read(automatic: Operated) -> bool:
    return any(path.endswith("-plan") for path in automatic.api.reads)


async def test_a_finalizer_that_was_changed_in_vain_has_a_journal_looked_at_once(automatic: Operated) -> None:
    office = await stalls(automatic, torn_out)
    automatic.api.recovery()["metadata"]["finalizers"].append("example.com/theirs")
    office.see()
    automatic.api.reads.clear()
    await asyncio.sleep(LOOK.total_seconds())
    tried = plan_was_read(automatic)
    await asyncio.sleep(GONE_WITHIN.total_seconds())
    automatic.api.reads.clear()
    await asyncio.sleep((SHORTEST_BACKSTOP - GONE_WITHIN - LOOK).total_seconds())

    assert (tried, plan_was_read(automatic)) == (True, False)
    await office.all.stop()


@WRONG
async def test_what_a_person_mended_in_a_journal_is_found_within_minutes_though_nobody_tells(
    automatic: Operated, wrong: Wrong
) -> None:
    office = await stalls(automatic, wrong)
    automatic.api.recovery()["status"].pop("begun", None)
    for name in list(automatic.api.records()):
        automatic.api.tear_out(f"{PLACE}/{name}")
    await forge(automatic.api, "ab" * 32, note=b"{}")
    automatic.api.reads.clear()
    await asyncio.sleep((GONE_WITHIN + LOOK).total_seconds())

    assert automatic.api.reads.count(CLUSTERS.path(*PROD)) > 0, "it was tried again"
    await office.all.stop()


async def test_a_status_that_is_restored_from_a_backup_is_believed_at_once(automatic: Operated) -> None:
    """It had been lost, and with it which plans the operator has begun."""
    automatic.world.after("elect", crash)
    await died(automatic)
    automatic.world.steps.dead = False
    backup = automatic.api.recovery()["status"].pop("begun")
    office = await stalls(automatic, lost_status)
    automatic.api.recovery()["status"]["begun"] = backup
    office.sees_change()

    await office.until("Recovered", within=100)
    assert automatic.world.unrestored() == []


async def test_what_else_changes_in_an_object_that_waits_to_be_mended_has_nothing_but_it_looked_at(
    automatic: Operated,
) -> None:
    office = await stalls(automatic, never_shown)
    automatic.api.recovery()["metadata"]["labels"] = {"team": "payments"}
    automatic.api.reads.clear()
    for _ in range(100):
        office.sees_change()
    await asyncio.sleep(LOOK.total_seconds())

    assert automatic.api.reads == [RECOVERIES.path(NAMESPACE, NAME)] * 2, "once, and to see that its status is right"
    await office.all.stop()


async def lost_status(automatic: Operated) -> str:
    """Somebody took away what the status said was begun."""
    return "PlanNotShown"


@pytest.mark.parametrize("ended", [END_FORGED, OWNED_FORGED])
async def test_a_run_that_others_call_ended_is_not_over_while_its_orders_are_altered(
    automatic: Operated, ended: str
) -> None:
    automatic.world.after("elect", crash)
    await died(automatic)
    (digest,) = automatic.api.recovery()["status"]["begun"]["plans"]
    if ended is END_FORGED:
        await forge(automatic.api, digest, finished=BEGUN)
    else:
        for record in automatic.api.records().values():
            record["metadata"]["labels"][OWNED_LABEL] = "true"

    going = Going(automatic.process())
    await going.until(Phase.STUCK)
    await asyncio.sleep(LONG)

    assert going.run.progress.reason.code == "OrderNotRestored"
    assert automatic.api.finalizers(NAMESPACE, NAME) == [FINALIZER]

    held = automatic.world.kafka.partitions[ORDERS]
    held.assignment = held.owned
    going.run.wake()
    assert (await going.end(), automatic.api.finalizers(NAMESPACE, NAME)) == (End.RECOVERED, [])
