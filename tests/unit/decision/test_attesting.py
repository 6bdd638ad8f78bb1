"""A person says that a broker's disk is lost for good: what that changes, what it never changes, what voids it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.decision.attesting import attested, hosting, standing, told, without_a_copy
from kafka_recovery.decision.card import at_the_prompt, card
from kafka_recovery.decision.explanation import explain
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.recheck import LastLook, before
from kafka_recovery.decision.sameness import difference
from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.evidence import Broker, Evidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.policy import Approval
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import canonical, digest, read
from unit.decision.incident import (
    NOON,
    ORDERS,
    THREE,
    Held,
    broker,
    code,
    dead,
    decided,
    evidence,
    history,
    log,
    partition,
    policy,
    started,
    step,
)

COPIES: dict[int, Held] = {1: None, 2: log(27), 3: log(15)}
FAILED = Replica(BrokerId(1), None, Reason("LogDirOffline", "the log directory of orders-0 is offline"))
ON_A_FAILED_DISK: dict[int, Held] = {1: FAILED, 2: log(27), 3: log(15)}
ALL_RUN = (broker(1), broker(2), broker(3))
OTHER = TopicPartition("payments", 0)


def lost(id: int, **changes: Any) -> Attestation:
    """What Ann says of this broker's disk."""
    ann_says = Attestation(
        BrokerId(id), Witness.DISK_LOST, "ann", "INC-7: the volume was deleted", NOON - timedelta(minutes=5),
        NOON + timedelta(minutes=55),
    )  # fmt: skip
    return replace(ann_says, **changes)


def said_of(seen: Evidence, *ids: int) -> Evidence:
    """The same look, and Ann says of these brokers that their disks are lost."""
    return attested(seen, [lost(id) for id in ids])


def void(seen: Evidence) -> str | None:
    """Why the only attestation does not count, for machines."""
    (only,) = seen.cluster.attestations
    return only.void.code if only.void else None


# What it changes


def test_nor_is_the_last_known_leader() -> None:
    alone: dict[str, Any] = {"isr": (), "elr": (), "last_known_elr": (BrokerId(1),)}
    seen = evidence(partition(ON_A_FAILED_DISK, **alone), brokers=ALL_RUN)
    assert code(decided(seen)) == "ElectableBrokerReturning"

    assert decided(said_of(seen, 1)).verdict is Verdict.ELECT


def test_another_member_that_is_back_is_waited_for_all_the_same() -> None:
    seen = evidence(partition(ON_A_FAILED_DISK, isr=(1, 3)), brokers=ALL_RUN)

    decision = decided(said_of(seen, 1))

    assert (decision.verdict, code(decision)) == (Verdict.WAIT, "ElectableBrokerReturning")
    assert decision.reason is not None
    assert decision.reason.message.startswith("broker 3 is in the ISR")


def test_the_refusal_for_a_failed_disk_names_it_as_a_way_on() -> None:
    decision = decided(evidence(partition(ON_A_FAILED_DISK), brokers=ALL_RUN), waited=timedelta(hours=1))

    assert "If the disk is lost for good, so is what it alone held: say so (kafka-recovery" in str(decision.reason)
    assert "--attest broker=1:disk-lost" in str(decision.reason)


# What it never changes


def proven(intact: tuple[int, ...]) -> Decision:
    """Three replicas, two of them needed for each record; broker 1 led alone at the end, and its disk is lost."""
    known = history(step(1, 2, 3), step(1, 2), step(1), intact=intact)
    return decided(said_of(evidence(partition({1: None, 2: log(27), 3: log(27)}, history=known)), 1))


def test_a_proof_that_needs_nothing_of_the_lost_disk_goes_on_without_it() -> None:
    """Broker 2 was in the ISR until nothing could be acknowledged any more, and its copy is intact."""
    decision = proven((2, 3))

    assert decision.loss is not None
    assert decision.loss.loss_class is LossClass.LOSSLESS
    assert decision.loss.unmeasured == (1,)


@pytest.mark.parametrize("approval", Approval)
def test_of_a_broker_that_is_dead_it_changes_no_decision(approval: Approval) -> None:
    seen, by = evidence(partition(COPIES)), policy(approval=approval)

    assert decided(said_of(seen, 1), by) == decided(seen, by)


# What voids it


LATER = dead(1, reachable=True)
OLD_LEADER = Replica(BrokerId(1), None, leads=True)
STILL_ALIVE = broker(1, reachable=False, metadata_advances=None)
VOIDED: dict[str, tuple[dict[int, Held], Broker, str]] = {
    "its copy was measured": (
        COPIES | {1: log(27)},
        broker(1),
        "broker 1 answered for its copy of orders-0 (log end 27), though",
    ),
    "it is fenced and answers": (COPIES, LATER, "broker 1 answered this look, though its disk was attested lost"),
    "it is registered and not fenced": (COPIES, STILL_ALIVE, "broker 1 still counts as alive at the controller"),
    "it answers as the old leader": (COPIES | {1: OLD_LEADER}, LATER, "broker 1 leads orders-0, though"),
}


@pytest.mark.parametrize(("copies", "itself", "how"), VOIDED.values(), ids=list(VOIDED))
def test_any_sign_of_life_voids_it_and_all_is_decided_as_without_it(
    copies: dict[int, Held], itself: Broker, how: str
) -> None:
    seen = evidence(partition(copies), brokers=(itself, broker(2), broker(3)))

    claimed = said_of(seen, 1)

    assert void(claimed) == "AttestedBrokerAnswers"
    assert decide(claimed, policy()).decisions == decide(seen, policy()).decisions
    (sentence,) = told(claimed)
    assert sentence.startswith("VOID: ann attested at 2026-11-21 11:55:00 UTC that the disk of broker 1 is lost")
    assert how in sentence


def test_a_broker_that_leads_another_partition_gave_a_sign_of_life() -> None:
    """Of what is led nothing is measured."""
    led = partition(dict.fromkeys((1, 2, 3)), id=OTHER, leader=BrokerId(1))
    seen = evidence(partition(ON_A_FAILED_DISK), led, brokers=ALL_RUN)

    assert void(said_of(seen, 1)) == "AttestedBrokerAnswers"


def test_that_it_follows_the_leader_of_another_partition_says_nothing_of_its_disk() -> None:
    """Its copy there was not measured."""
    followed = partition(dict.fromkeys((1, 2, 3)), id=OTHER, leader=BrokerId(2))
    assert void(said_of(evidence(partition(ON_A_FAILED_DISK), followed, brokers=ALL_RUN), 1)) is None


def test_a_broker_with_a_disk_that_answers_has_not_lost_all_that_is_on_it() -> None:
    """One of two log directories failed: nobody can tell which of them was meant."""
    readable = partition(COPIES | {1: log(9)}, id=OTHER)
    seen = evidence(partition(ON_A_FAILED_DISK), readable, brokers=ALL_RUN)

    claimed = said_of(seen, 1)

    assert void(claimed) == "AttestedBrokerAnswers"
    assert "only one of its log directories is lost, plan for the partitions in that one alone" in next(told(claimed))
    assert void(said_of(evidence(partition(ON_A_FAILED_DISK), brokers=ALL_RUN), 1)) is None


def test_a_broker_whose_copy_was_not_measured_for_another_reason_says_nothing_of_its_disk() -> None:
    silent = Replica(BrokerId(1), None, Reason("TimedOut", "no answer within 5 s"))
    seen = evidence(partition(ON_A_FAILED_DISK), partition(COPIES | {1: silent}, id=OTHER), brokers=ALL_RUN)

    assert void(said_of(seen, 1)) == "AttestedBrokerAnswers"


MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("at", "expires", "counts"),
    [
        (NOON, NOON + MINUTE, True),
        (NOON - MINUTE, NOON, True),
        (NOON - MINUTE, NOON - SECOND, False),
        (NOON + SECOND, NOON + MINUTE, False),
    ],
    ids=["at its first moment", "at its last one", "after it", "by a clock that was set back"],
)
def test_outside_its_time_it_counts_as_none_and_says_so(at: Any, expires: Any, counts: bool) -> None:
    seen = evidence(partition(ON_A_FAILED_DISK), brokers=ALL_RUN)

    claimed = attested(seen, [lost(1, at=at, expires=expires)])

    assert void(claimed) == (None if counts else "AttestationEnded")
    assert (decided(claimed).verdict is Verdict.ELECT) == counts
    assert next(told(claimed)).startswith("ann attested" if counts else "VOID: ann attested")


# The last look


def last_look(fresh: Evidence, planned: Evidence | None = None, *given: Attestation) -> Reason | None:
    """Plan with what Ann says of broker 1, look again, and see `fresh`."""
    plan = decide(attested(planned or evidence(partition(COPIES)), given or [lost(1)]), policy())
    decision = plan.elections[ORDERS]
    held = standing(plan.evidence.cluster)
    return LastLook(fresh, plan.policy, attestations=held).difference(decision, before(plan)[ORDERS])


def test_a_failed_disk_that_was_repaired_after_the_plan_ends_it() -> None:
    planned = evidence(partition(ON_A_FAILED_DISK), brokers=ALL_RUN)
    assert last_look(planned, planned) is None

    reason = last_look(evidence(partition(COPIES | {1: log(27)}), brokers=ALL_RUN), planned)

    assert (reason and reason.code) == "AttestedBrokerAnswers"


def test_a_plan_that_waited_longer_than_the_attestation_holds_is_over() -> None:
    reason = last_look(evidence(partition(COPIES), observed_at=NOON + timedelta(minutes=56)))

    assert (reason and reason.code) == "AttestationEnded"
    assert "holds from 2026-11-21 11:55:00 UTC until 2026-11-21 12:55:00 UTC" in str(reason)


def test_a_start_that_the_history_shows_is_an_answer_though_the_broker_is_silent_again() -> None:
    known = history(step(1, 2, 3), step(1, 2), step(1), intact=(2, 3))
    planned = evidence(partition(COPIES, history=known))
    since = replace(known, starts=(*known.starts, started(1, 990)))

    assert last_look(evidence(partition(COPIES, history=known)), planned) is None
    reason = last_look(evidence(partition(COPIES, history=since)), planned)

    assert (reason and reason.code) == "AttestedBrokerAnswers"
    assert "broker 1 was started after the plan was made" in str(reason)


def test_a_broker_of_other_partitions_alone_does_not_end_the_plan_for_this_one() -> None:
    with_four = evidence(partition(COPIES), brokers=(*THREE, dead(4)))
    back = evidence(partition(COPIES), brokers=(*THREE, dead(4, reachable=True)))

    assert last_look(back, with_four, lost(4)) is None


# What is told


def planned(*ids: int, **facts: Any) -> Plan:
    """Brokers 1 and 2 are dead, both in the ISR; 3 answers."""
    held: dict[int, Held] = {1: None, 2: None, 3: log(15)}
    seen = evidence(partition(held, isr=(1, 2)), brokers=(dead(1), dead(2), broker(3)))
    return decide(said_of(seen, *ids), policy(**facts))


def test_nobody_is_asked_whether_a_lost_disk_can_be_started() -> None:
    """The next one is asked about."""
    assert any("Can broker 1 be started" in sentence for sentence in at_the_prompt(planned()))

    shown = list(at_the_prompt(planned(1)))

    assert shown[0] == (
        "ann attested at 2026-11-21 11:55:00 UTC that the disk of broker 1 is lost for good (INC-7: the volume was "
        "deleted); that holds until 2026-11-21 12:55:00 UTC. Nothing of broker 1 is waited for. What it alone held is "
        "lost, and no loss class is better for it."
    )
    assert not any("Can broker 1 be started" in sentence for sentence in shown)
    assert any("Can broker 2 be started" in sentence for sentence in shown)


def test_where_all_of_them_are_lost_nobody_is_asked_and_the_empty_disk_is_warned_of() -> None:
    shown = list(at_the_prompt(planned(1, 2)))

    assert not any("be started with its own, intact disk?" in sentence for sentence in shown)
    assert any(sentence.startswith("NEVER start a broker of these partitions") for sentence in shown)


def test_a_leader_without_records_sends_nobody_to_a_lost_disk() -> None:
    empty = evidence(partition({1: None, 2: None, 3: log(0)}, isr=(1,)), brokers=(dead(1), dead(2), broker(3)))
    (warning,) = card(decide(said_of(empty, 1), policy())).stop

    assert warning.startswith("DO NOT APPROVE. Broker 3 is EMPTY: it holds no record of orders-0. ")
    assert "See first if broker 2 can start with its own disk." in warning
    assert card(decide(said_of(empty, 1, 2), policy())).stop == (
        "Broker 3 is EMPTY: it holds no record of orders-0. Once it leads, the others delete ALL they hold there.",
    )


def test_the_card_and_the_explanation_say_who_attested_and_what_is_void() -> None:
    void_first = attested(evidence(partition(COPIES)), [lost(1), lost(2, reason="INC-8")])
    plan = decide(void_first, policy())

    sentences = list(told(plan.evidence))

    assert sentences[0].startswith("VOID: ann attested at 2026-11-21 11:55:00 UTC that the disk of broker 2 is lost")
    assert [each for each in card(plan).situation if "attested" in each] == sentences
    assert list(explain(plan, ORDERS).attested) == sentences


def test_an_explanation_leaves_out_what_is_about_brokers_of_other_partitions() -> None:
    seen = evidence(partition(COPIES), partition({3: log(9), 4: None}, id=OTHER), brokers=(*THREE, dead(4)))
    plan = decide(said_of(seen, 4), policy())

    assert not explain(plan, ORDERS).attested
    assert len(explain(plan, OTHER).attested) == 1


# Part of the plan


def test_it_is_a_part_of_the_plan_and_of_its_digest() -> None:
    seen = evidence(partition(COPIES))
    plan, other = decide(said_of(seen, 1), policy()), decide(attested(seen, [lost(1, by="bob")]), policy())

    assert len({digest(plan), digest(other), digest(decide(seen, policy()))}) == 3
    kept = read(Plan, canonical(plan), "plan.json")
    assert kept.evidence.cluster.attestations == (lost(1),)


def test_a_broker_without_a_copy_of_what_was_looked_at_is_found_out() -> None:
    seen = evidence(partition(COPIES))

    assert hosting(seen) == {1, 2, 3}
    assert without_a_copy(seen, [lost(1), lost(33)]) == lost(33)
    assert without_a_copy(seen, [lost(3)]) is None
    assert without_a_copy(evidence(), [lost(33)]) is None, "nothing is offline, so nothing is to be done"


# Whose consent is wanted


ASKING_NOBODY = policy(approval=Approval.AUTO)


def test_a_person_is_asked_about_an_election_that_nothing_else_makes_possible() -> None:
    """Whoever attests may not be who approves, and the policy did not count on such a word."""
    other = partition({4: None, 2: log(27), 3: log(15)}, id=OTHER, isr=(4,))
    first = partition(ON_A_FAILED_DISK, isr=(2,))
    seen = attested(evidence(first, other, brokers=(*ALL_RUN, dead(4))), [lost(1), lost(4)])

    decision, asked = [decide(seen, by, waited=timedelta(hours=1)).decisions[0] for by in (ASKING_NOBODY, policy())]

    assert (decision.verdict, decision.approval, decision.needs_approval) == (Verdict.ELECT, Approval.MANUAL, True)
    assert decision.warnings[-1] == (
        "without the attested loss of the disk of broker 1 nobody would be elected: a person has to approve it"
    )
    assert not asked.warnings, "a person is asked in any case"


def test_nobody_is_asked_because_of_it_where_patience_alone_made_the_election_possible() -> None:
    """What was waited for is over with and without that word."""
    seen = evidence(partition(COPIES, isr=(3,)))
    assert decided(seen, ASKING_NOBODY).verdict is Verdict.WAIT
    waited = timedelta(hours=1)
    assert decided(seen, ASKING_NOBODY, waited=waited).verdict is Verdict.ELECT

    assert not decided(said_of(seen, 1), ASKING_NOBODY, waited=waited).needs_approval


# Another plan


def test_a_plan_with_another_attestation_is_another_plan() -> None:
    seen = evidence(partition(COPIES))
    planned = decide(said_of(seen, 1), ASKING_NOBODY)

    assert difference(planned, decide(said_of(seen, 1), ASKING_NOBODY)) is None
    for given in ([], [lost(1), lost(2)], [lost(1, by="bob")], [lost(1, reason="INC-8")]):
        different = difference(planned, decide(attested(seen, given), ASKING_NOBODY))
        assert different is not None
        assert different.message.startswith(
            "what is attested was broker 1: disk-lost (by ann, until 12:55:00 UTC), now"
        )


def test_so_is_one_in_which_it_does_not_count_any_more() -> None:
    seen = evidence(partition(COPIES))
    planned, now = decide(said_of(seen, 1), ASKING_NOBODY), evidence(partition(COPIES), brokers=(LATER, *THREE[1:]))

    different = difference(planned, decide(said_of(now, 1), ASKING_NOBODY))

    assert different is not None
    assert different.message.startswith("an attestation does not count any more: broker 1 answered this look")


def test_one_in_which_it_counts_no_more_than_before_is_none() -> None:
    seen = evidence(partition(COPIES), brokers=(LATER, *THREE[1:]))
    planned, now = (decide(said_of(seen, 1), ASKING_NOBODY) for _ in range(2))

    assert standing(planned.evidence.cluster) == ()
    assert difference(planned, now) is None
