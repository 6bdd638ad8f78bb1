"""What forbids an election, who may lead, and who is waited for: of all brokers, answers and clusters there can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import combinations_with_replacement, product

import pytest

from exhaustive.every_log import CURRENT, NOW
from exhaustive.evidence_space import (
    A_MOMENT,
    ENDLESS,
    EVERY_ANSWER,
    EVERY_BROKER,
    HEALTHY,
    IN_TIME,
    ITS_TOPIC,
    KINDS_OF_BROKER,
    LOG,
    MAX_AGE,
    PATIENCE,
    SILENT_PROBLEM,
    UNDER,
    WELL,
    Crowd,
    Policies,
    Standing,
    broker,
    cluster,
    one_arrangement,
    partition,
    policies,
    rule,
    standings,
)
from exhaustive.judging import Count, hold_for_each
from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.evidence import Broker, ClusterState, Reassignment, Replica
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId
from kafka_recovery.domain.policy import Limits, Policy, RequiredAnswers, TopicSelector

BESIDE_IT = Standing(WELL, EVERY_ANSWER[0])
"""One who may lead."""

SILENT = broker(0, reachable=False, advances=None)
DEAD = broker(0, fenced=True, reachable=False, advances=None)
SOME_ANSWERS = (
    Replica(BrokerId(0), LOG),
    Replica(BrokerId(0), None, SILENT_PROBLEM),
    Replica(BrokerId(0), replace(LOG, answered_under=LeaderEpoch(CURRENT - 1))),
    Replica(BrokerId(0), replace(LOG, epochs=None)),
)


def each_holds(
    kinds: Sequence[Broker | None],
    arranged: Iterable[Sequence[Standing]],
    counted: Count,
    *waits: timedelta,
    under: Policies = policies,
) -> None:
    """Under every policy, and however long was waited, some are elected and some are not, each as it must be."""
    crowd = Crowd(kinds)
    looked = [crowd.partition(number, replicas) for number, replicas in enumerate(arranged)]
    for policy, waited in product(under(), waits):
        assert 0 < hold_for_each(looked, crowd.cluster, policy, waited) < len(looked)
        counted(len(looked))


def test_one_replica_in_any_state_alone_and_beside_one_that_may_lead(counted: Count) -> None:
    states = standings(KINDS_OF_BROKER, EVERY_ANSWER)
    arranged = [replicas for it in states for replicas in ((it,), (it, BESIDE_IT))]
    each_holds(KINDS_OF_BROKER, arranged, counted, IN_TIME, PATIENCE)


def test_any_three_replicas_of_which_some_forbid_to_elect_the_others(counted: Count) -> None:
    kinds = (WELL, SILENT, DEAD)
    states = [it for it in standings(kinds, SOME_ANSWERS) if not it.member_of]
    each_holds(kinds, one_arrangement(states, 3), counted, PATIENCE)


@pytest.mark.parametrize("under", UNDER)
def test_any_three_replicas_of_which_some_may_be_waited_for(counted: Count, under: Policies) -> None:
    kinds = (WELL, SILENT, DEAD, broker(0, fenced=True))
    each_holds(kinds, one_arrangement(standings(kinds, SOME_ANSWERS[:1]), 3), counted, IN_TIME, under=under)


@pytest.mark.parametrize("under", UNDER)
def test_any_three_replicas_of_which_the_last_known_leader_may_be_waited_for(counted: Count, under: Policies) -> None:
    kinds = (WELL, SILENT, DEAD, broker(0, fenced=True))
    states = standings(kinds, SOME_ANSWERS[:1], ("", "last", "ELR"))
    each_holds(kinds, one_arrangement(states, 3), counted, IN_TIME, under=under)


SEEN = [
    broker(0, fenced=not up, reachable=reachable, advances=advances)
    for up, reachable, advances in product((True, False), (True, False), (True, None, False))
]
PERCENTAGES = (1, 33, 34, 50, 66, 67, 100)


def clusters(states: Sequence[Broker], brokers: int) -> Iterator[ClusterState]:
    """Each with so many brokers in these states, looked at through each of them, and through one that is not listed."""
    for found in combinations_with_replacement(states, brokers):
        known = [replace(state, id=BrokerId(id)) for id, state in enumerate(found, start=1)]
        yield from (cluster(known, view_from) for view_from in range(1, brokers + 2))


def refused_by_cluster(states: Sequence[Broker], brokers: int, percentages: Sequence[int], counted: Count) -> None:
    """One partition stands for all: what is wrong with a cluster forbids each election."""
    looked = partition(0, [replace(BESIDE_IT.answer, broker=BrokerId(id)) for id in (1, 2, 3)], isr=[9])
    policies = [Policy((rule(answers=RequiredAnswers.ANY),), Limits(brokers_down_percent=p)) for p in percentages]
    elected = Counter(
        hold_for_each([looked], seen, policy, PATIENCE) for seen in clusters(states, brokers) for policy in policies
    )
    assert min(elected[0], elected[1]) > 0
    counted(elected.total())


@pytest.mark.parametrize("brokers", [1, 2, 3])
def test_any_cluster_of_up_to_three_brokers(brokers: int, counted: Count) -> None:
    refused_by_cluster(SEEN, brokers, PERCENTAGES if brokers < 3 else (33, 66, 67), counted)


def test_whatever_the_controller_says_of_a_partition(counted: Count) -> None:
    """Leader, rule, replication factor, reassignment, ages and waits at their edges: all of them together."""
    answers = (
        *(replace(BESIDE_IT.answer, leads=leads) for leads in (False, True)),
        *(replace(BESIDE_IT.answer, log=replace(LOG, observed_at=NOW - age)) for age in (MAX_AGE, MAX_AGE + A_MOMENT)),
    )
    looked = [
        partition(
            number,
            [replace(answer, broker=BrokerId(id)) for id in range(1, replicas + 1)],
            isr=isr,
            leader=leader,
            reassignment=reassignment,
            reassignment_known=known,
        )
        for number, (answer, replicas, isr, leader, reassignment, known) in enumerate(
            product(answers, (1, 2, 3), ((), (1,)), (None, 1), (None, Reassignment((BrokerId(4),), ())), (True, False))
        )
    ]
    for least_replicas, waited in product((1, 2, 3, 4), (timedelta(0), IN_TIME, PATIENCE)):
        selects_it = rule(least_replicas=least_replicas)
        for chosen in ((selects_it,), (replace(selects_it, topics=TopicSelector(("others",))),), ()):
            hold_for_each(looked, HEALTHY, Policy(chosen, ENDLESS), waited)
            counted(len(looked))


NOBODY_S = BrokerId(99)
"""A broker without a replica."""


@pytest.mark.parametrize("kind", [WELL, SILENT, None], ids=["well", "silent", "without a replica"])
def test_a_leader_named_by_a_person_or_a_ranking_leads_or_the_reason_says_why_not(
    kind: Broker | None, counted: Count
) -> None:
    """Whatever the state of two others and of the partition. What a person says stands over a ranking."""
    crowd, policy = Crowd(KINDS_OF_BROKER), Policy((rule(),), ENDLESS)
    named = NOBODY_S if kind is None else crowd.id(kind, 0)
    ones = standings(KINDS_OF_BROKER, SOME_ANSWERS[:1])
    others = [it for it in standings((WELL, SILENT, DEAD), SOME_ANSWERS[:2]) if not it.member_of]
    looked = [crowd.partition(n, (one, BESIDE_IT, other)) for n, (one, other) in enumerate(product(ones, others))]
    for waited in (IN_TIME, PATIENCE):
        hold_for_each(
            looked, crowd.cluster, policy, waited, designated=named, ranked=Ranked(BrokerId(98), CURRENT, ITS_TOPIC)
        )
        hold_for_each(looked, crowd.cluster, policy, waited, ranked=Ranked(named, CURRENT, ITS_TOPIC))
        counted(2 * len(looked))
    earlier, made_anew = Ranked(named, LeaderEpoch(CURRENT - 1), ITS_TOPIC), Ranked(named, CURRENT, TopicId("another"))
    for of_another_outage in (earlier, made_anew):
        hold_for_each(looked, crowd.cluster, policy, PATIENCE, ranked=of_another_outage)
        counted(len(looked))


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_any_two_replicas_in_any_two_states(counted: Count) -> None:
    """A quarter of a million pairs, four policies, with patience and without: some three minutes."""
    pairs = one_arrangement(standings(KINDS_OF_BROKER, EVERY_ANSWER), 2)
    each_holds(KINDS_OF_BROKER, pairs, counted, IN_TIME, PATIENCE)


@pytest.mark.full
def test_one_replica_on_a_broker_in_any_state_at_all(counted: Count) -> None:
    """Each field of a broker takes each of its values: 109 brokers, 72 states of a replica on each."""
    states = standings(EVERY_BROKER, EVERY_ANSWER)
    arranged = [replicas for it in states for replicas in ((it,), (it, BESIDE_IT), (BESIDE_IT, it))]
    each_holds(EVERY_BROKER, arranged, counted, IN_TIME, PATIENCE)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_any_cluster_of_three_brokers_in_any_state_at_all(counted: Count) -> None:
    """Each field of each of three brokers takes each of its values, stopping aside: a few minutes."""
    states = [seen for seen in EVERY_BROKER if seen is not None and seen.stopping is None]
    refused_by_cluster(states, 3, (33, 66, 100), counted)
