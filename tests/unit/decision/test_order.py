"""Candidate orders are data; one function is written of each."""

from __future__ import annotations

from kafka_recovery.decision.order import EPOCH_FIRST, FACTS, LONGEST_LOG, ORDERS, Key
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import CandidateOrder, EvidenceRules, RequiredAnswers
from unit.decision.incident import code, decided, evidence, log, partition, policy
from unit.decision.written import merit

NEWER = log(10, (0, 0), (4, 8))
LONGER = log(50, (0, 0), (3, 8))
UNREAD = log(90, epochs=None)


def test_every_order_ranks_by_facts_that_exist_and_ends_in_the_position() -> None:
    for order in CandidateOrder:
        assert [key.fact for key in ORDERS[order] if key.fact not in FACTS] == []
        assert ORDERS[order][-1] == Key("position")


def test_epoch_first_prefers_the_newer_epoch_and_longest_log_the_longer_log() -> None:
    def by(order: tuple[Key, ...]) -> list[int]:
        worth, logs = merit(order), (UNREAD, LONGER, NEWER)
        return sorted((0, 1, 2), key=lambda position: worth(logs[position], position), reverse=True)

    assert by(EPOCH_FIRST) == [2, 1, 0]
    assert by(LONGEST_LOG) == [0, 1, 2]


def test_an_unknown_fact_sorts_last_in_either_direction() -> None:
    for descending in (True, False):
        worth = merit((Key("last_epoch", descending),))
        assert worth(UNREAD, 0) < worth(NEWER, 0)


def test_the_assignment_decides_among_equals() -> None:
    assert decided(evidence(partition({1: None, 3: log(9), 2: log(9)}))).ranking == (3, 2)


def test_an_epoch_without_records_does_not_rank() -> None:
    """A fresh leader has one at once, before it wrote anything (KAFKA-1211)."""
    elected_but_idle = log(10, (0, 0), (4, 10))
    assert decided(evidence(partition({1: None, 2: elected_but_idle, 3: log(12)}))).ranking == (3, 2)


def test_a_policy_chooses_the_order() -> None:
    seen = evidence(partition({1: None, 2: NEWER, 3: LONGER}))

    assert decided(seen, policy(candidate_order=CandidateOrder.EPOCH_FIRST)).leader == 2
    assert decided(seen, policy(candidate_order=CandidateOrder.LONGEST_LOG)).leader == 3


def test_one_unread_vector_does_not_keep_the_others_from_leading() -> None:
    any_answer = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    decision = decided(evidence(partition({1: None, 2: UNREAD, 3: NEWER})), any_answer)
    assert (decision.verdict, decision.leader, code(decision)) == (Verdict.ELECT, 3, None)
