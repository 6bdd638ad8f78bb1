"""The status of a recovery, from what its run knows: every phase, every end, and nothing that is not so."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.ids import BrokerId, Offset, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Loss, Plan
from kafka_recovery.domain.policy import Approval, EvidenceRules, RequiredAnswers
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.conditions import LONGEST_MESSAGE
from kafka_recovery.kube.recoveries.status import FIRST, Known, Phase, plan_asked, plan_now, status_of, untaken
from testbed.kstatus import Kstatus, kstatus
from unit.decision.incident import evidence, log, partition, policy
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.recoveries.standings import BY, INCIDENTS, PLAN

LATER = NOON + timedelta(minutes=1)
WHY = Reason("Electing", "wave 1 of 2 is being elected")
CLUSTER_GONE = Reason("InvalidReference", "there is no WatchedCluster prod")


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def message(status: dict[str, Any], kind: str) -> str:
    return next(str(each["message"]) for each in status["conditions"] if each["type"] == kind)


def outcomes(**numbers: int) -> dict[TopicPartition, PartitionOutcome]:
    """So many partitions with each outcome."""
    kinds = [Outcome[name.upper()] for name, number in numbers.items() for _ in range(number)]
    found = [PartitionOutcome(TopicPartition("t", n), kind) for n, kind in enumerate(kinds)]
    return {outcome.id: outcome for outcome in found}


@pytest.mark.parametrize("name", INCIDENTS)
def test_every_condition_is_always_there_and_no_tool_can_read_it_two_ways(name: str) -> None:
    known, _ = INCIDENTS[name]

    status = status_of(known, 3, {}, NOON)

    said = conditions(status)
    assert said.keys() == {"Ready", "Reconciling", "Stalled", "Planned", "Approved", "Verified"}
    assert [said["Ready"][0], said["Reconciling"][0], said["Stalled"][0]].count("True") == 1
    assert {each["observedGeneration"] for each in status["conditions"]} == {3} == {status["observedGeneration"]}
    assert (status["finished"], "outcome" in status, "finishedAt" in status) == (known.end is not None,) * 3


@pytest.mark.parametrize(("end", "ready"), [(end, end is End.RECOVERED) for end in End])
def test_only_what_recovered_is_ready(end: End, ready: bool) -> None:
    status = status_of(Known(Phase.ENDED, WHY, 1, end=end), 1, {}, NOON)

    assert (conditions(status)["Ready"][0] == "True", status["outcome"]) == (ready, str(end))
    assert (conditions(status)["Verified"][0] == "True") == ready


# Approved


@pytest.mark.parametrize(
    ("known", "said", "because"),
    [
        (Known(Phase.PLANNING, WHY), ("False", "NotYet"), "there is nothing to approve"),
        (Known(Phase.AWAITING_APPROVAL, WHY, plan=PLAN), ("False", "Electing"), WHY.message),
        (Known(Phase.ELECTING, WHY, plan=PLAN, approval=BY), ("True", "AsExpected"), f"{BY.by} approved it"),
        (
            Known(Phase.ELECTING, WHY, plan=replace(PLAN, needs_approval=False)),
            ("True", "AsExpected"),
            "by the policy nobody has to be asked",
        ),
        (Known(Phase.HELD, WHY, plan=PLAN), ("False", "NotYet"), "nobody approved plan"),
        (Known(Phase.ENDED, WHY, plan=PLAN, end=End.ABORTED), ("False", "NotYet"), "nobody approved plan"),
        (
            Known(Phase.AWAITING_APPROVAL, WHY, plan=replace(PLAN, needs_approval=False)),
            ("False", "Electing"),
            WHY.message,
        ),
    ],
)
def test_approved_says_what_a_person_did_or_has_to_do(known: Known, said: tuple[str, str], because: str) -> None:
    status = status_of(known, 1, {}, NOON)

    assert conditions(status)["Approved"] == said
    assert message(status, "Approved").startswith(because)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("end", [None, *End])
def test_approved_has_the_reason_of_ready_only_while_a_person_is_asked(phase: Phase, end: End | None) -> None:
    """By that `kubectl kafka-recovery` knows that one is."""
    why = Reason(str(end or phase), "a sentence that says why")

    said = conditions(status_of(Known(phase, why, plan=PLAN, end=end), 1, {}, NOON))

    assert (said["Approved"][1] == said["Ready"][1]) == (phase is Phase.AWAITING_APPROVAL)


# Counts


def places(known: Known) -> dict[str, int]:
    """What a status counts, without the zeros."""
    return {where: number for where, number in status_of(known, 1, {}, NOON)["partitions"].items() if number}


def test_partitions_are_counted_and_what_has_no_outcome_waits() -> None:
    found = outcomes(recovered=1, recovered_cleanly=1, recovered_under_min_isr=1, refused=2, in_doubt=1, failed=1)

    status = status_of(Known(Phase.ELECTING, WHY, 20, found), 1, {}, NOON)

    assert status["partitions"] == {
        "total": 20, "offline": 17,
        "recovered": 3, "awaitingApproval": 0, "waiting": 13, "refused": 2, "failed": 1, "unknown": 1,
    }  # fmt: skip


THREE = frozenset(TopicPartition("t", number) for number in range(3))
OF_THREE = replace(PLAN, elections=3, elects=THREE)
UNSAID = Reason("AwaitingApproval", "no approval of the plan stands")


def lacking(why: Reason) -> dict[TopicPartition, PartitionOutcome]:
    return {id: PartitionOutcome(id, Outcome.REFUSED, why) for id in THREE}


@pytest.mark.parametrize(
    ("phase", "reason", "end", "where"),
    [
        (Phase.PLANNING, "Planning", None, "waiting"),
        (Phase.AWAITING_APPROVAL, "AwaitingApproval", None, "awaitingApproval"),
        (Phase.AWAITING_APPROVAL, "CoolingDown", None, "awaitingApproval"),
        (Phase.AWAITING_APPROVAL, "ObserveOnly", None, "waiting"),
        (Phase.ELECTING, "Electing", None, "waiting"),
        (Phase.HELD, "Suspended", None, "waiting"),
        (Phase.STUCK, "InternalError", None, "waiting"),
        (Phase.RESTORING, "Electing", None, "waiting"),
        (Phase.ENDED, "Aborted", End.ABORTED, "refused"),
        (Phase.ENDED, "RefusedByApprover", End.REFUSED_BY_APPROVER, "refused"),
    ],
)
@pytest.mark.parametrize("found", [{}, lacking(UNSAID)], ids=["nothing came of it", "nobody said yes"])
def test_what_a_plan_elects_is_where_its_phase_has_it_and_never_refused_while_somebody_may_say_yes(
    phase: Phase, reason: str, end: End | None, where: str, found: dict[TopicPartition, PartitionOutcome]
) -> None:
    known = Known(phase, Reason(reason, "so it is"), 3, found, OF_THREE, end=end)

    assert places(known) == {"total": 3, "offline": 3, where: 3}
    assert ("refusals" in status_of(known, 1, {}, NOON)) == (where == "refused" and bool(found))


def test_a_plan_that_is_full_leaves_the_rest_waiting_for_the_next_one() -> None:
    full = lacking(Reason("PartitionLimitReached", "they come with the next plan"))

    assert places(Known(Phase.ELECTING, WHY, 3, full)) == {"total": 3, "offline": 3, "waiting": 3}


def test_whom_a_leader_answers_is_not_offline_whatever_its_outcome_is_called() -> None:
    another = PartitionOutcome(TopicPartition("t", 0), Outcome.FAILED, leader=BrokerId(2), log_end=Offset(0))
    silent = PartitionOutcome(TopicPartition("t", 1), Outcome.FAILED, leader=BrokerId(2))
    gone = PartitionOutcome(TopicPartition("t", 2), Outcome.REFUSED, Reason("PartitionGone", "it was deleted"))

    found = {each.id: each for each in (another, silent, gone)}

    assert places(Known(Phase.STUCK, WHY, 3, found)) == {"total": 3, "offline": 1, "failed": 2, "refused": 1}


def test_only_the_first_refusals_and_failures_are_told_in_the_order_of_partitions() -> None:
    found = outcomes(failed=FIRST + 5, refused=FIRST + 5)

    status = status_of(Known(Phase.STUCK, WHY, outcomes=dict(reversed(found.items()))), 1, {}, NOON)

    assert [each["partition"] for each in status["failures"]] == [f"t-{n}" for n in range(FIRST)]
    assert [each["partition"] for each in status["refusals"]] == [f"t-{n + FIRST + 5}" for n in range(FIRST)]


def test_a_long_reason_is_cut_to_what_the_schema_allows() -> None:
    long = PartitionOutcome(TopicPartition("t", 0), Outcome.REFUSED, Reason("NoCandidate", "because " * 1000))

    status = status_of(Known(Phase.STUCK, long.reason or WHY, outcomes={long.id: long}), 1, {}, NOON)

    assert len(status["refusals"][0]["message"]) == LONGEST_MESSAGE == len(message(status, "Ready"))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (outcomes(recovered=3), "3 of 3 partitions have a leader that answered itself"),
        (outcomes(recovered=2, refused=1), "2 of 3 partitions have a leader that answered itself; 1 are gone"),
    ],
)
def test_verified_counts_only_leaders_that_answered(
    found: dict[TopicPartition, PartitionOutcome], sentence: str
) -> None:
    assert message(status_of(Known(Phase.ENDED, WHY, 3, found, end=End.RECOVERED), 1, {}, NOON), "Verified") == sentence


# What may be lost


def test_what_each_broker_may_lose_stands_in_the_status_as_it_is_approved() -> None:
    diverged = {1: None, 2: log(20, (0, 0), (1, 10)), 3: log(27)}
    plan = decide(evidence(partition(diverged)), policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)))

    told = status_of(Known(Phase.AWAITING_APPROVAL, WHY, 1, plan=plan_now(plan, "d" * 64)), 1, {}, NOON)["plan"]

    unread = "could not be read: no answer"
    assert told["mayLose"] == [
        {"broker": 3, "records": 17, "partitions": 1},
        {"broker": 1, "records": 0, "partitions": 0, "unknownPartitions": 1, "certainOffsets": 0, "because": unread},
    ]
    assert told["summary"] == (
        "This plan would elect broker 2 on 1 partition, if it is approved. Kafka calls that UNCLEAN. On orders-0 the "
        "log of broker 3 is longer than that of broker 2, but older: it ends in leader epoch 0, the other in 1. "
        "Unknown: whether records acknowledged with acks=all are lost is not known. Electing as planned may lose up to "
        "17 records that broker 3 holds and the new leader lacks, on 1 partition; "
        f"an unknown part of what broker 1 holds on 1 partition ({unread})."
    )


def awaited() -> Known:
    """A recovery that asks a person about a plan; broker 1, the last of the ISR, is dead."""
    plan = decide(
        evidence(partition({1: None, 2: log(20), 3: log(27)})),
        policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),
    )
    return Known(Phase.AWAITING_APPROVAL, WHY, 1, plan=plan_asked(plan, "d" * 64))


def test_whoever_is_asked_reads_which_broker_to_look_at_first() -> None:
    told = status_of(awaited(), 1, {}, NOON)["plan"]["waiting"]

    assert told.startswith(
        "NEVER start a broker of these partitions, or let anything start it, on an empty or replaced"
    )
    assert "Can broker 1 be started with its own, intact disk? Nobody knows yet: start nothing" in told
    assert told.endswith(
        "Before you approve: keep broker 1 off until another leads (silent is not off): docs/how-to/silent-broker.md."
    )


def test_whoever_is_asked_about_an_empty_leader_reads_first_not_to_approve() -> None:
    plan = decide(
        evidence(partition({1: None, 2: log(0), 3: log(0)})),
        policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),
    )

    told = plan_asked(plan, "d" * 64).waiting

    assert told.startswith("DO NOT APPROVE. Broker 2 is EMPTY: it holds no record of orders-0. Once it leads, the")


def test_long_advice_is_not_cut_off() -> None:
    """Longer than a condition's message may be; not without end."""
    known = awaited()
    assert known.plan is not None
    for length, end in ((2000, "NEVER"), (9000, "…")):
        plan = replace(known.plan, waiting="x" * length + "NEVER", summary="x" * length + "NEVER")
        told = status_of(replace(known, plan=plan), 1, {}, NOON)["plan"]
        assert told["waiting"].endswith(end)
        assert told["summary"].endswith(end)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.AWAITING_APPROVAL])
def test_nobody_reads_to_start_a_broker_once_the_plan_is_carried_out_or_over(phase: Phase) -> None:
    """What a broker that comes back alone holds is deleted then."""
    known = awaited()
    end = End.RECOVERED if phase is Phase.ENDED else None
    begun = (known.plan,) if known.plan else ()

    told = status_of(replace(known, phase=phase, end=end, begun=begun), 1, {}, NOON)

    assert told["plan"]["digest"] == "d" * 64
    assert "waiting" not in told["plan"]


# Times


def test_times_stay_while_nothing_flips() -> None:
    known = Known(Phase.ELECTING, WHY, 2, plan=PLAN)
    before = status_of(known, 1, {}, NOON)

    assert status_of(known, 1, before, LATER) == before
    after = status_of(replace(known, phase=Phase.ENDED, end=End.RECOVERED), 1, before, LATER)
    changed = {each["type"] for each in after["conditions"] if each["lastTransitionTime"].endswith("12:01:00Z")}
    assert changed == {"Ready", "Reconciling", "Verified"}


def test_when_it_finished_is_told_once() -> None:
    known = Known(Phase.ENDED, WHY, end=End.ABORTED)
    before = status_of(known, 1, {}, NOON)

    assert status_of(known, 1, before, LATER)["finishedAt"] == "2026-11-21T12:00:00Z"


# The plan at a glance


def plan(*losses: Loss | None, approval: Approval = Approval.MANUAL) -> Plan:
    """A plan with so many elections, each at its price."""
    held = {1: None, 2: log(27), 3: log(15)}
    seen = evidence(*(partition(held, id=TopicPartition("t", n)) for n in range(len(losses))))
    made = decide(seen, policy(approval=approval))
    return replace(made, decisions=tuple(replace(d, loss=loss) for d, loss in zip(made.decisions, losses, strict=True)))


LOSSLESS, BOUNDED, UNKNOWN = (
    Loss(LossClass.LOSSLESS, at_most=0),
    Loss(LossClass.BOUNDED, at_most=7),
    Loss(LossClass.UNKNOWN),
)


@pytest.mark.parametrize(
    ("losses", "worst", "at_most"),
    [
        ((LOSSLESS,), LossClass.LOSSLESS, 0),
        ((LOSSLESS, BOUNDED, BOUNDED), LossClass.BOUNDED, 14),
        ((UNKNOWN, BOUNDED), LossClass.UNKNOWN, None),
        ((), LossClass.LOSSLESS, 0),
    ],
)
def test_a_plan_is_as_bad_as_its_worst_election(
    losses: tuple[Loss, ...], worst: LossClass, at_most: int | None
) -> None:
    shown = plan_now(plan(*losses), "ab" * 32)

    assert (shown.worst, shown.at_most, shown.elections) == (worst, at_most, len(losses))


def test_what_of_a_plan_is_in_the_status() -> None:
    status = status_of(Known(Phase.AWAITING_APPROVAL, WHY, plan=replace(PLAN, at_most=3)), 1, {}, NOON)

    assert status["plan"] == {
        "digest": PLAN.digest,
        "policyDigest": PLAN.policy_digest,
        "madeAt": "2026-11-21T12:00:00Z",
        "elections": 2,
        "needsApproval": True,
        "lossClass": "Unknown",
        "atMost": 3,
    }
    assert "atMost" not in status_of(Known(Phase.HELD, WHY, plan=PLAN), 1, {}, NOON)["plan"]


def test_what_was_begun_may_have_lost_records_though_its_plan_is_void_by_now() -> None:
    status = status_of(Known(Phase.PLANNING, WHY, begun=(PLAN,)), 1, {}, NOON)

    assert status["plan"] == {"lossClass": "Unknown"}, "no digest: there is nothing to approve"


def test_what_ended_shows_the_last_plan_that_was_begun() -> None:
    status = status_of(Known(Phase.ENDED, WHY, begun=(PLAN,), end=End.RECOVERED), 1, {}, NOON)

    assert (status["plan"]["digest"], status["plan"]["lossClass"]) == (PLAN.digest, "Unknown")
    assert conditions(status)["Planned"] == ("True", "AsExpected")


@pytest.mark.parametrize(
    ("found", "plan"),
    [
        (outcomes(recovered=1), {"lossClass": "Unknown"}),
        (outcomes(recovered_under_min_isr=1), {"lossClass": "Unknown"}),
        (outcomes(recovered_cleanly=1, refused=1), None),
    ],
)
def test_who_was_elected_by_a_plan_that_is_not_known_any_more_may_have_lost_anything(found: Any, plan: Any) -> None:
    status = status_of(Known(Phase.ENDED, WHY, outcomes=found, end=End.RECOVERED), 1, {}, NOON)

    assert status.get("plan") == plan


# While nobody can work on it


@pytest.mark.parametrize(("stuck", "tools"), [(False, Kstatus.IN_PROGRESS), (True, Kstatus.FAILED)])
def test_what_cannot_be_taken_up_waits_or_needs_a_person(stuck: bool, tools: Kstatus) -> None:
    status = untaken(CLUSTER_GONE, 1, {"observedGeneration": -1}, NOON, stuck=stuck)

    assert kstatus({"metadata": {"generation": 1}, "status": status}) is tools
    assert conditions(status)["Ready"] == ("False", "InvalidReference")


def test_what_an_earlier_process_told_still_stands() -> None:
    before = status_of(Known(Phase.ELECTING, WHY, 2, outcomes(recovered=1), PLAN, BY), 1, {}, NOON)

    status = untaken(CLUSTER_GONE, 2, before, LATER, stuck=False)

    kept = ("partitions", "plan", "approval", "finished")
    assert {name: status[name] for name in kept} == {name: before[name] for name in kept}
    assert {kind: conditions(status)[kind] for kind in ("Planned", "Approved", "Verified")} == {
        kind: conditions(before)[kind] for kind in ("Planned", "Approved", "Verified")
    }
    assert untaken(CLUSTER_GONE, 2, status, LATER, stuck=False) == status


def test_whatever_is_said_the_plans_that_were_begun_stay_named() -> None:
    """Without their names nobody carries them out, or restores what they altered."""
    begun = {"recoveryUid": "x", "plans": ["ab" * 32]}

    said = status_of(Known(Phase.STUCK, WHY, 1), 1, {"begun": begun}, NOON)

    assert said["begun"] == begun


def test_what_a_plan_refuses_is_known_before_its_run_says_so() -> None:
    refused = TopicPartition("stuck", 0)
    copies = {1: None, 2: log(27), 3: log(15)}
    seen = evidence(partition(copies), partition(copies, id=refused, reassignment_known=False))

    assert plan_now(decide(seen, policy()), "ab" * 32).declines == {refused}
