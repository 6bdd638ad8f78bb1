"""Every plan of a recovery stays readable, and its status says what became of it, the newest first."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_recovery.cluster.errors import reason_for
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.counts import Stage, counted
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.recoveries.plan_history import KEPT, LISTED, Became, PlanHistory, PlanTold
from kafka_recovery.kube.recoveries.progress import is_final
from kafka_recovery.kube.recoveries.status import ApprovedBy, status_of
from kafka_recovery.kube.resources.kinds import POLICIES
from unit.decision.incident import evidence, partition
from unit.kube.journal.journals import NAME, NAMESPACE, UID
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.office import Office
from unit.kube.recoveries.test_progress import BOTH, DIGEST, PLAN, Seen, outcome
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import ORDERS


async def planned_anew(office: Office, end: int) -> str:
    """Broker 3 holds more than before, and the rules changed, so that the plan is looked at again; its digest."""
    before = office.status()["plan"]["digest"]
    office.world.kafka.partitions[ORDERS].ends[3] = end
    office.api.change(POLICIES, "rules", limits={"waveSizes": [end]})
    office.changed()
    await office.another_plan(before)
    return str(office.status()["plan"]["digest"])


async def test_a_plan_that_was_replaced_says_by_which_and_how_that_differs_and_can_be_read(
    asking_office: Office,
) -> None:
    first = (await asking_office.asks())["plan"]["digest"]

    second = await planned_anew(asking_office, 40)

    now, before = asking_office.status()["plans"]
    assert (now["digest"], now["became"]) == (second, "Current")
    assert (before["digest"], before["became"], before["replacedBy"]) == (first, "Replaced", second)
    assert before["differs"] == "1 with another leader (orders-0: broker 2 before, 3 now)"
    assert "the leader to elect was 2, now it is 3" in before["message"]
    assert digest(await journal(asking_office).plan(first)) == first


async def test_of_many_plans_that_were_replaced_the_newest_stay_readable_and_a_restart_forgets_none(
    asking_office: Office,
) -> None:
    asking_office.takes_up()
    digests = [(await asking_office.until("AwaitingApproval"))["plan"]["digest"]]
    for end in range(40, 40 + KEPT):
        digests.append(await planned_anew(asking_office, end))
    await asking_office.all.stop()
    again = Office(asking_office.world, asking_office.api)
    again.takes_up()
    digests += [await planned_anew(again, end) for end in (90, 91)]

    told = again.status()["plans"]
    assert [each["digest"] for each in told] == digests[::-1]
    assert [each["readable"] for each in told].count(False) == len(digests) - KEPT - 2
    for each in told:
        held = [name for name in again.api.records() if name == f"{NAME}-{each['digest'][:16]}-plan"]
        assert bool(held) == each["readable"]
    await again.all.stop()


@pytest.mark.parametrize(("decision", "became"), [("Approve", "CarriedOut"), ("Refuse", "RefusedByApprover")])
async def test_the_last_plan_says_what_became_of_it(asking_office: Office, decision: str, became: str) -> None:
    shown = (await asking_office.asks())["plan"]["digest"]
    asking_office.answer(shown, decision=decision)
    await asking_office.until("Recovered" if decision == "Approve" else "RefusedByApprover")

    (told,) = asking_office.status()["plans"]
    assert (told["digest"], told["became"]) == (shown, became)
    assert told["message"].startswith("1 of 1 leaders were elected by it" if decision == "Approve" else "ann refused")


def journal(office: Office) -> RecordJournal:
    return RecordJournal(office.api, NAMESPACE, NAME, UID, CLUSTER)


def became(seen: Seen) -> list[tuple[str, str]]:
    return [(told.digest, str(told.became)) for told in seen.progress.known().history]


def test_a_plan_that_holds_no_more_is_void_until_another_one_is_made() -> None:
    seen = Seen()
    seen.progress.planned(PLAN, DIGEST)
    seen.progress.plan_void(Reason("PlanOutdated", "the leader epoch was 5, now it is 6"))

    assert became(seen) == [(DIGEST, "Void")]

    seen.progress.planned(BOTH, digest(BOTH))

    assert became(seen) == [(digest(BOTH), "Current"), (DIGEST, "Replaced")]
    assert seen.progress.known().history[1].differs == "1 added (payments-0)"


def test_a_plan_that_was_begun_is_never_called_replaced() -> None:
    seen = Seen()
    seen.progress.planned(BOTH, digest(BOTH))
    seen.progress.wave_started(1, 2, 1)
    seen.progress.concluded(outcome(Outcome.RECOVERED))
    seen.progress.planned(PLAN, DIGEST)

    told = seen.progress.known().history[1]
    assert (told.became, told.message, told.replaced_by) == (
        Became.CARRIED_OUT, "1 of 2 leaders were elected by it", DIGEST,
    )  # fmt: skip


def test_a_plan_by_which_nobody_was_elected_was_in_vain() -> None:
    seen = Seen()
    seen.progress.planned(PLAN, DIGEST)
    seen.progress.wave_started(1, 1, 1)
    seen.progress.concluded(outcome(Outcome.REFUSED, "Fenced"))
    seen.progress.ended(End.ABORTED, Reason("Aborted", "spec.abort is true"))

    assert became(seen) == [(DIGEST, "InVain")]


def test_what_an_earlier_process_showed_and_nobody_finds_any_more_is_not_the_plan_of_this_moment() -> None:
    seen = Seen()
    seen.progress.history = PlanHistory.of({"plans": [{"digest": "a" * 64, "became": "Current"}]})

    assert became(seen) == [("a" * 64, "Void")]


def test_a_word_of_a_later_release_is_no_reason_to_stop() -> None:
    (told,) = PlanHistory.of({"plans": [{"digest": "a" * 64, "became": "Archived"}]}).told("a" * 64)

    assert told.became is Became.VOID


def test_a_status_lists_the_newest_and_reads_back_what_it_said() -> None:
    history = PlanHistory()
    for number in range(LISTED + 5):
        history.shows(PlanTold(f"{number:064}", "2026-11-21T12:00:00Z", number))

    said: list[dict[str, Any]] = [told.as_said() for told in history.told(None)]

    assert [each["elections"] for each in said] == list(range(LISTED + 4, 4, -1))
    assert [told.as_said() for told in PlanHistory.of({"plans": said}).told(None)] == said


def test_after_the_end_the_plan_that_was_begun_is_told_of_and_who_approved_it() -> None:
    """A later one that elects nobody costs nothing, and nobody was asked: said of the recovery, that is false."""
    seen, ann = Seen(), ApprovedBy("ann-1", "uid", "ann")
    seen.progress.planned(PLAN, DIGEST)
    seen.progress.approved(ann)
    seen.progress.wave_started(1, 1, 1)
    seen.progress.concluded(outcome(Outcome.RECOVERED))
    later = decide(evidence(partition({1: None}, isr=(1,))), PLAN.policy)
    assert not later.elections
    seen.progress.planned(later, digest(later))
    seen.progress.ended(End.RECOVERED, Reason("Recovered", "all lead"))

    known = seen.progress.known()
    said = status_of(known, 1, {}, NOON)

    assert (said["plan"]["digest"], said["plan"]["elections"]) == (DIGEST, 1)
    assert said["approval"]["by"] == "ann"


def test_a_topic_that_kafka_knows_no_more_is_waited_for_no_longer() -> None:
    """The word is Kafka's own, as the client reads it from error 3."""
    gone = PartitionOutcome(ORDERS, Outcome.REFUSED, reason_for(3, "Metadata of orders"))

    assert is_final(gone)
    assert counted({ORDERS: gone}, 1, Stage()).offline == 0


def test_a_plan_that_the_journal_forgot_is_not_called_readable() -> None:
    history = PlanHistory({each: PlanTold(each, "", 1, Became.IN_VAIN) for each in ("1", "2")})

    history.forgets(["1", "an older one"])

    assert [(told.digest, told.readable) for told in history.told(None)] == [("2", True), ("1", False)]
