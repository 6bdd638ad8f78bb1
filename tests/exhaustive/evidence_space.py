"""Small evidence by the thousand: every state that a broker, and every answer that a replica of it, can be in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations_with_replacement, permutations, product
from typing import NamedTuple, TypeVar

import pytest

from exhaustive.every_log import CURRENT, NOW, measured
from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    PartitionEvidence,
    Reassignment,
    Replica,
    ReplicaLog,
)
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.policy import CandidateOrder, EvidenceRules, Limits, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason

MAX_AGE = timedelta(seconds=60)
PATIENCE = timedelta(seconds=30)
A_MOMENT = timedelta(microseconds=1)
IN_TIME = PATIENCE - A_MOMENT

SILENT_PROBLEM = Reason("TimedOut", "no answer within 5 s")
LOG_DIR_OFFLINE = Reason("LogDirOffline", "its log directory is offline")


def broker(
    id: int, *, registered: bool | None = True, fenced: bool = False, stopping: bool | None = None,
    reachable: bool = True, advances: bool | None = True,
) -> Broker:  # fmt: skip
    """One that is well, but for what is said."""
    return Broker(BrokerId(id), f"b{id}", 9092, None, registered, fenced, stopping, reachable, 100, advances)


WELL = broker(0)
EVERY_BROKER: tuple[Broker | None, ...] = (
    None,
    *(
        broker(0, registered=registered, fenced=fenced, stopping=stopping, reachable=reachable, advances=advances)
        for registered, fenced, stopping, reachable, advances in product(
            (True, None, False), (False, True), (None, False, True), (True, False), (True, None, False)
        )
    ),
)
"""None: the cluster does not know it."""

KINDS_OF_BROKER: tuple[Broker | None, ...] = (
    WELL, None, broker(0, registered=None, reachable=False, advances=None), broker(0, registered=False),
    broker(0, fenced=True), broker(0, fenced=True, reachable=False, advances=None), broker(0, stopping=True),
    broker(0, reachable=False, advances=None), broker(0, reachable=False), broker(0, advances=None),
    broker(0, advances=False),
)  # fmt: skip
"""One for each rule about brokers; fenced with an answer and without, silent from the start and by now."""

ORDERS_OF_LOGS = (CandidateOrder.EPOCH_FIRST, CandidateOrder.LONGEST_LOG)

ITS_TOPIC = TopicId("id-of-orders")
LOG = measured(0, 2, (EpochEntry(LeaderEpoch(1), Offset(0)),))
EVERY_ANSWER: tuple[Replica, ...] = (
    Replica(BrokerId(0), LOG),
    Replica(BrokerId(0), None),
    Replica(BrokerId(0), None, SILENT_PROBLEM),
    Replica(BrokerId(0), None, LOG_DIR_OFFLINE),
    Replica(BrokerId(0), LOG, LOG_DIR_OFFLINE),
    Replica(BrokerId(0), LOG, SILENT_PROBLEM),
    Replica(BrokerId(0), replace(LOG, answered_under=LeaderEpoch(CURRENT - 1))),
    Replica(BrokerId(0), replace(LOG, answered_under=None)),
    Replica(BrokerId(0), replace(LOG, epochs=None)),
    Replica(BrokerId(0), replace(LOG, epochs=None, answered_under=None)),
    Replica(BrokerId(0), replace(LOG, observed_at=NOW - MAX_AGE)),
    Replica(BrokerId(0), replace(LOG, observed_at=NOW - MAX_AGE - A_MOMENT)),
)


class Standing(NamedTuple):
    """One replica: its broker, its answer, and where the controller's metadata have it: ISR, ELR, or as last leader."""

    broker: Broker | None
    answer: Replica
    member_of: str = ""


def standings(
    brokers: Iterable[Broker | None], answers: Iterable[Replica], members: Iterable[str] = ("", "ISR", "ELR")
) -> list[Standing]:
    """All of these brokers with all of these answers, also as one who believes to lead; in ISR, ELR or neither."""
    each = product(brokers, answers, (False, True), members)
    return [Standing(broker, replace(answer, leads=leads), member) for broker, answer, leads, member in each]


@dataclass
class Crowd:
    """One cluster for many partitions: each kind of broker stands in it once for each place in an assignment.

    One broker that is well shows the metadata, so that nothing is wrong with the cluster as a whole.
    """

    kinds: Sequence[Broker | None]

    def __post_init__(self) -> None:
        self._number = {kind: number for number, kind in enumerate(self.kinds)}
        known = [
            replace(kind, id=self.id(kind, place)) for kind in self.kinds if kind is not None for place in range(3)
        ]
        self.cluster = cluster([*known, broker(WATCHER)], view_from=WATCHER)

    def id(self, kind: Broker | None, place: int) -> BrokerId:
        """The broker of this kind for this place."""
        return BrokerId(10 + 3 * self._number[kind] + place)

    def partition(self, number: int, replicas: Sequence[Standing]) -> PartitionEvidence:
        """One whose replicas stand like that, in assignment order."""
        ids = [self.id(standing.broker, place) for place, standing in enumerate(replicas)]
        members = [(id, standing.member_of) for id, standing in zip(ids, replicas, strict=True)]
        return partition(
            number,
            [replace(standing.answer, broker=id) for id, standing in zip(ids, replicas, strict=True)],
            isr=[id for id, member in members if member == "ISR"],
            elr=[id for id, member in members if member == "ELR"],
            last_known_elr=[id for id, member in members if member == "last"],
        )


WATCHER = 1

State = TypeVar("State")


def one_arrangement(states: Sequence[State], replicas: int) -> Iterator[tuple[State, ...]]:
    """Replicas are alike, so one arrangement stands for all of a set; which one, changes from set to set."""
    for number, found in enumerate(combinations_with_replacement(states, replicas)):
        arranged = list(permutations(found))
        yield arranged[number % len(arranged)]


def cluster(brokers: Iterable[Broker], view_from: int) -> ClusterState:
    """These brokers, looked at through one of them."""
    return ClusterState("prod", "4.1", (), True, BrokerId(view_from), tuple(brokers), NOW, timedelta(seconds=1))


def partition(
    number: int, replicas: Iterable[Replica], *, isr: Iterable[int] = (), elr: Iterable[int] | None = None,
    last_known_elr: Iterable[int] | None = None, leader: int | None = None,
    reassignment: Reassignment | None = None, reassignment_known: bool = True,
) -> PartitionEvidence:  # fmt: skip
    """A leaderless partition of the topic `orders`."""
    return PartitionEvidence(
        TopicPartition("orders", number),
        ITS_TOPIC,
        internal=False,
        leader=None if leader is None else BrokerId(leader),
        leader_epoch=CURRENT,
        isr=tuple(map(BrokerId, isr)),
        elr=None if elr is None else tuple(map(BrokerId, elr)),
        last_known_elr=None if last_known_elr is None else tuple(map(BrokerId, last_known_elr)),
        replicas=tuple(replicas),
        reassignment=reassignment,
        reassignment_known=reassignment_known,
    )


def of_logs(number: int, logs: Iterable[ReplicaLog], ids: Iterable[int] = (1, 2, 3)) -> PartitionEvidence:
    """All replicas answered, on these brokers; the ISR died."""
    return partition(number, [Replica(BrokerId(id), log) for id, log in zip(ids, logs, strict=False)], isr=[9])


ENDLESS = Limits(partitions=1_000_000)
HEALTHY = cluster([broker(id) for id in (1, 2, 3)], view_from=1)


def rule(
    order: CandidateOrder = CandidateOrder.EPOCH_FIRST, answers: RequiredAnswers = RequiredAnswers.ALL, *,
    least_replicas: int = 1,
) -> Rule:  # fmt: skip
    """For every topic."""
    return Rule(
        "every topic",
        candidate_order=order,
        min_replication_factor=least_replicas,
        evidence=EvidenceRules(required_answers=answers, max_age=MAX_AGE),
        patience=PATIENCE,
    )


Policies = Callable[..., Iterator[Policy]]


def policies(*required: RequiredAnswers) -> Iterator[Policy]:
    """The orders of logs, with answers required of all, or of any; one plan may elect as many as there are.

    By least loss is by epochs where there is no history.
    """
    for order, answers in product(ORDERS_OF_LOGS, required or RequiredAnswers):
        yield Policy((rule(order, answers),), ENDLESS)


def policies_in_pairs() -> Iterator[Policy]:
    """Each order of logs once, each requirement once: for what is asked under all four elsewhere too."""
    for order, answers in zip(ORDERS_OF_LOGS, RequiredAnswers, strict=True):
        yield Policy((rule(order, answers),), ENDLESS)


UNDER = [
    pytest.param(policies_in_pairs, id="each order and requirement once"),
    pytest.param(policies, id="all of them", marks=pytest.mark.full),
]
"""Values for `under`."""
