"""What a run tells of itself: each change once, and what is final for a partition."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.counts import GONE
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome, Report
from kafka_recovery.domain.policy import EvidenceRules, Policy, Rule, TopicSelector
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.recoveries import progress
from kafka_recovery.kube.recoveries.progress import Progress, evidence_lasts, is_final
from kafka_recovery.kube.recoveries.status import Phase
from unit.decision.incident import ORDERS, evidence, log, partition
from unit.kube.recoveries.standings import BY

PAYMENTS = TopicPartition("payments", 0)
HELD = {1: None, 2: log(27), 3: log(15)}
RULES = Policy(
    (
        Rule("pay", TopicSelector(names=("payments",)), evidence=EvidenceRules(max_age=timedelta(seconds=20))),
        Rule("unused", TopicSelector(names=("other",)), evidence=EvidenceRules(max_age=timedelta(seconds=5))),
        Rule("rest"),
    )
)
PLAN = decide(evidence(partition(HELD)), RULES)
BOTH = decide(evidence(partition(HELD), partition(HELD, id=PAYMENTS)), RULES)
DIGEST = digest(PLAN)
WHY = Reason("Electing", "wave 1 of 1 is being elected")


REFUSED = [
    PartitionOutcome(TopicPartition("t", number), Outcome.REFUSED, Reason("AwaitingApproval", f"say yes to {number}"))
    for number in range(5000)
]


class Seen:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.changes = 0
        self.elected: list[bool] = []
        self.progress = Progress(self._changed, self.elected.append, Metrics(), "kafka/prod")

    def _changed(self) -> None:
        self.changes += 1

    def told(self) -> int:
        """How many changes since this was asked last."""
        told, self.changes = self.changes, 0
        return told


@pytest.fixture
def seen() -> Seen:
    return Seen()


def outcome(kind: Outcome, code: str = "", **more: Any) -> PartitionOutcome:
    return PartitionOutcome(ORDERS, kind, Reason(code, "because") if code else None, **more)


@pytest.mark.parametrize(
    ("found", "final"),
    [
        (None, False),
        (outcome(Outcome.RECOVERED), True),
        (outcome(Outcome.RECOVERED_CLEANLY), True),
        (outcome(Outcome.RECOVERED_UNDER_MIN_ISR), True),
        (outcome(Outcome.RECOVERED, order_restored=False), False),
        (outcome(Outcome.FAILED, "UnexpectedLeader"), True),
        (outcome(Outcome.FAILED, "UnexpectedLeader", order_restored=False), False),
        (outcome(Outcome.IN_DOUBT), False),
        (outcome(Outcome.REFUSED, "NoCandidate"), False),
        (outcome(Outcome.REFUSED), False),
        *((outcome(Outcome.REFUSED, code), True) for code in sorted(GONE)),
    ],
)
def test_what_is_final_for_a_partition(seen: Seen, found: PartitionOutcome | None, final: bool) -> None:
    if found:
        seen.progress.concluded(found)

    assert is_final(found) == final
    assert seen.progress.open_partitions([ORDERS]) == ([] if final else [ORDERS])


@pytest.mark.parametrize(
    ("found", "in_vain"),
    [
        (outcome(Outcome.REFUSED, "Forbidden"), True),
        (outcome(Outcome.REFUSED, "Forbidden", order_restored=False), False),
        (outcome(Outcome.REFUSED, "Forbidden", order_restored=None), False),
        (outcome(Outcome.RECOVERED_CLEANLY), True),
        (outcome(Outcome.RECOVERED), False),
        (outcome(Outcome.RECOVERED_UNDER_MIN_ISR), False),
        (outcome(Outcome.FAILED, "UnexpectedLeader"), False),
        (outcome(Outcome.IN_DOUBT), False),
    ],
)
def test_a_try_was_in_vain_only_if_surely_nothing_was_elected(
    seen: Seen, found: PartitionOutcome, in_vain: bool
) -> None:
    told: list[bool] = []
    seen.progress.tried = told.append
    seen.progress.told(Report((REFUSED[0], found)))
    seen.progress.interrupted()

    assert told == [in_vain, False]


def test_a_long_wait_says_until_when(seen: Seen) -> None:
    """A duration says nothing to whoever reads the status later."""
    before = datetime.now(UTC)

    seen.progress.waiting(Reason("InDoubt", "nothing is changed until it can't"), timedelta(minutes=1))

    said = re.fullmatch(r"nothing is changed until it can't \(until (.*)\)", seen.progress.reason.message)
    assert said, seen.progress.reason.message
    assert timedelta(0) <= datetime.fromisoformat(said[1]) - before <= timedelta(minutes=1, seconds=5)


def test_a_short_wait_that_goes_on_is_told_once(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC) for second in range(9))
    monkeypatch.setattr(progress, "instant", lambda at=None: str(next(moments)))

    for _ in range(3):
        seen.progress.waiting(Reason("RelaySilent", "broker 3 does not answer"), timedelta(seconds=1))

    assert seen.told() == 1
    assert seen.progress.reason.message == "broker 3 does not answer"


@pytest.mark.parametrize(
    "act",
    [
        lambda progress: progress.enter(Phase.ELECTING, WHY),
        lambda progress: progress.enter(Phase.PLANNING, Reason("Planning", "other words")),
        lambda progress: progress.planned(PLAN, DIGEST),
        lambda progress: progress.approved(BY),
        lambda progress: progress.wave_started(1, 1, 1),
        lambda progress: progress.concluded(outcome(Outcome.RECOVERED)),
        lambda progress: progress.waiting(WHY, timedelta(seconds=1)),
        lambda progress: progress.ended(End.RECOVERED, WHY),
    ],
)
def test_each_turn_is_told(seen: Seen, act: Any) -> None:
    act(seen.progress)

    assert seen.told() >= 1


def test_each_outcome_that_comes_or_goes_makes_another_version(seen: Seen) -> None:
    """By it, others know that another partition may be free."""
    id = next(iter(PLAN.elections))
    refused = PartitionOutcome(id, Outcome.REFUSED, WHY)
    turns: list[Callable[[], None]] = [
        lambda: seen.progress.concluded(refused),
        lambda: seen.progress.concluded(refused),
        lambda: seen.progress.planned(PLAN, DIGEST),
    ]
    versions = [seen.progress.version]
    for turn in turns:
        turn()
        versions.append(seen.progress.version)

    assert id not in seen.progress.outcomes
    assert versions == [0, 1, 1, 2]


def test_an_approval_is_of_one_plan(seen: Seen) -> None:
    seen.progress.planned(PLAN, DIGEST)
    seen.progress.approved(BY)
    seen.progress.planned(PLAN, DIGEST)
    assert seen.progress.known().approval == BY

    seen.progress.planned(BOTH, digest(BOTH))
    assert seen.progress.known().approval is None


def test_a_void_plan_is_shown_no_longer(seen: Seen) -> None:
    seen.progress.planned(PLAN, DIGEST)
    seen.progress.approved(BY)

    seen.progress.plan_void(Reason("PlanOutdated", "the leader epoch was 5, now it is 6"))

    known = seen.progress.known()
    assert (known.plan, known.approval, known.reason.code) == (None, None, "PlanOutdated")


@pytest.mark.parametrize(
    "leave",
    [
        lambda progress: progress.plan_void(Reason("PlanOutdated", "the leader epoch was 5, now it is 6")),
        lambda progress: progress.planned(BOTH, digest(BOTH)),
    ],
    ids=["void", "replaced"],
)
@pytest.mark.parametrize(("kind", "begun"), [(Outcome.RECOVERED, [DIGEST]), (Outcome.RECOVERED_CLEANLY, [])])
def test_a_plan_by_which_an_earlier_process_elected_is_not_forgotten(
    seen: Seen, leave: Callable[[Progress], None], kind: Outcome, begun: list[str]
) -> None:
    seen.progress.concluded(outcome(kind))
    seen.progress.planned(PLAN, DIGEST)

    leave(seen.progress)

    assert [plan.digest for plan in seen.progress.known().begun] == begun


@pytest.mark.parametrize("approved", [True, False])
def test_a_wave_is_told_with_whether_a_person_stands_behind_it(seen: Seen, approved: bool) -> None:
    seen.progress.planned(PLAN, DIGEST)
    if approved:
        seen.progress.approved(BY)

    seen.progress.wave_started(1, 2, 3)

    assert seen.elected == [approved]


@pytest.mark.parametrize(
    ("kinds", "failed"),
    [((), False), ((Outcome.RECOVERED,), False), ((Outcome.IN_DOUBT,), False), ((Outcome.FAILED,), True)],
)
def test_whether_an_election_did_not_verify(seen: Seen, kinds: tuple[Outcome, ...], failed: bool) -> None:
    for kind in kinds:
        seen.progress.concluded(outcome(kind))

    assert seen.progress.any_failed() == failed


def test_evidence_ages_by_the_strictest_of_the_rules_that_a_plan_stands_on() -> None:
    assert evidence_lasts(PLAN) == timedelta(seconds=60)
    assert evidence_lasts(BOTH) == timedelta(seconds=20)
    assert evidence_lasts(replace(PLAN, decisions=())) == timedelta(minutes=1)


def test_thousands_that_are_refused_for_one_cause_are_one_line_and_said_again_only_when_that_changes(
    seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(2):
        for each in REFUSED:
            seen.progress.concluded(each)
        seen.progress.told(Report(tuple(REFUSED)))
    assert [record.message for record in caplog.records] == [
        "5000 refused: AwaitingApproval, the first: t-0: AwaitingApproval: say yes to 0"
    ]

    seen.progress.told(Report(tuple(REFUSED[:3])))
    assert len(caplog.records) == 2


def test_what_another_plan_refused_waits_again_once_a_plan_elects_it(seen: Seen) -> None:
    """But for an order that is not the original one yet: that must not go from sight."""
    seen.progress.concluded(outcome(Outcome.REFUSED, "NoCandidate"))
    altered = PartitionOutcome(PAYMENTS, Outcome.REFUSED, Reason("Fenced", "it is"), order_restored=False)
    seen.progress.concluded(altered)

    seen.progress.planned(BOTH, digest(BOTH))

    assert seen.progress.outcomes == {PAYMENTS: altered}
