"""A person says that a disk is lost: whether that counts, and what is decided then, of all brokers and answers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product

import pytest

from exhaustive.every_log import NOW
from exhaustive.evidence_space import (
    ENDLESS,
    EVERY_ANSWER,
    EVERY_BROKER,
    IN_TIME,
    KINDS_OF_BROKER,
    LOG,
    LOG_DIR_OFFLINE,
    PATIENCE,
    SILENT_PROBLEM,
    UNDER,
    WELL,
    Crowd,
    Policies,
    Standing,
    broker,
    policies,
    rule,
    standings,
)
from exhaustive.judging import Count, hold_for_each
from exhaustive.naive_rules import counts
from kafka_recovery.decision.attesting import attested
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.evidence import Broker, ClusterState, Evidence, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Policy

BESIDE_IT = Standing(WELL, EVERY_ANSWER[0])
SILENT = Standing(broker(0, reachable=False, advances=None), Replica(BrokerId(0), None, SILENT_PROBLEM))
BACK = Standing(broker(0, fenced=True), Replica(BrokerId(0), LOG), "ISR")
HOUR = timedelta(hours=1)


def said(id: BrokerId, at: datetime = NOW - HOUR, expires: datetime = NOW + HOUR) -> Attestation:
    return Attestation(id, Witness.DISK_LOST, "ann", "INC-7", at, expires)


def judged(seen: Evidence, one: Attestation) -> Evidence:
    """With what was said; whether that counts is known twice."""
    claimed = attested(seen, [one])
    (held,) = claimed.cluster.attestations
    assert (held.void is None) == counts(one, seen), (held, seen)
    return claimed


@pytest.mark.parametrize("under", UNDER)
def test_of_one_replica_in_any_state_beside_others(counted: Count, under: Policies) -> None:
    """Where it counts, the broker blocks nothing and is not waited for; where it does not, nothing is decided anew."""
    crowd, took = Crowd(KINDS_OF_BROKER), set()
    alike: defaultdict[ClusterState, list[PartitionEvidence]] = defaultdict(list)
    for number, (it, others) in enumerate(
        product(
            standings(KINDS_OF_BROKER, EVERY_ANSWER),
            ((BESIDE_IT,), (BESIDE_IT, SILENT), (BESIDE_IT, BACK)),
        )
    ):
        looked = crowd.partition(number, (it, *others))
        claimed = judged(Evidence(crowd.cluster, (looked,)), said(crowd.id(it.broker, 0)))
        alike[claimed.cluster] += claimed.partitions
    for (seen, partitions), policy, waited in product(alike.items(), under(), (IN_TIME, PATIENCE)):
        elected, it_counts = hold_for_each(partitions, seen, policy, waited), seen.attestations[0].void is None
        took |= {(True, it_counts)} if elected else set()
        took |= {(False, it_counts)} if elected < len(partitions) else set()
        counted(len(partitions))
    assert len(took) == 4


OTHER = TopicPartition("payments", 0)


def also_of(looked: PartitionEvidence, answer: Replica, leader: BrokerId | None) -> PartitionEvidence:
    """Another partition with a copy on the first one's first broker."""
    return replace(looked, id=OTHER, replicas=(replace(answer, broker=looked.assignment[0]),), leader=leader, isr=())


@pytest.mark.parametrize("kinds", [KINDS_OF_BROKER, pytest.param(EVERY_BROKER, marks=pytest.mark.full)], ids=len)
@pytest.mark.parametrize("leads", [False, True])
def test_of_any_broker_with_two_copies(leads: bool, kinds: tuple[Broker | None, ...], counted: Count) -> None:
    """One on each of two disks: what one of them says, and whether it leads, counts for both."""
    crowd, took = Crowd(kinds), set()
    for state, one, other in product(kinds, EVERY_ANSWER, EVERY_ANSWER):
        looked = crowd.partition(0, (Standing(state, one), BESIDE_IT))
        broker = looked.assignment[0]
        second = also_of(looked, other, broker if leads else None)
        claimed = judged(Evidence(crowd.cluster, (looked, second)), said(broker))
        took.add(claimed.cluster.attestations[0].void is None)
        counted(1)
    assert took == ({False} if leads else {False, True})


A_MOMENT = timedelta(microseconds=1)


def test_at_the_edges_of_its_time(counted: Count) -> None:
    failed = Replica(BrokerId(0), None, LOG_DIR_OFFLINE)
    crowd: Crowd = Crowd([WELL])
    seen = Evidence(crowd.cluster, (crowd.partition(0, (Standing(WELL, failed), BESIDE_IT)),))
    edges = (NOW - HOUR, NOW - A_MOMENT, NOW, NOW + A_MOMENT, NOW + HOUR)
    for at, expires in product(edges, edges):
        claimed = judged(seen, said(crowd.id(WELL, 0), at, expires))
        elected = decide(claimed, Policy((rule(),), ENDLESS), waited=PATIENCE).elections
        assert bool(elected) == (at <= NOW <= expires)
        counted(1)


def test_no_loss_class_is_better_for_it(counted: Count) -> None:
    """Whoever is elected with it and without it, at whatever policy: the same leader at the same cost."""
    crowd: Crowd = Crowd(KINDS_OF_BROKER)
    states: list[Broker | None] = list(KINDS_OF_BROKER)
    for number, (state, answer, policy) in enumerate(product(states, EVERY_ANSWER, policies())):
        looked = crowd.partition(number, (Standing(state, answer), BESIDE_IT, BESIDE_IT))
        seen = Evidence(crowd.cluster, (looked,))
        (without,) = decide(seen, policy, waited=PATIENCE).decisions
        (having,) = decide(judged(seen, said(looked.assignment[0])), policy, waited=PATIENCE).decisions
        if without.leader is not None:
            assert having == without
        elif having.loss is not None:
            assert looked.assignment[0] in having.loss.unmeasured
        counted(1)
