"""Random evidence: any state of brokers and replicas that a gather could report, and some that it should not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from hypothesis import strategies as st

from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    EpochVector,
    Evidence,
    MinInsyncReplicas,
    PartitionEvidence,
    Reassignment,
    Replica,
    ReplicaLog,
    WitnessedEnd,
)
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.policy import (
    CandidateOrder,
    EvidenceRules,
    Limits,
    Policy,
    RequiredAnswers,
    Rule,
    TopicSelector,
)
from kafka_recovery.domain.reason import Reason

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
EPOCH = LeaderEpoch(7)
BROKERS = tuple(BrokerId(n) for n in range(1, 6))
OFFLINE = Reason("LogDirOffline", "its log directory is offline")
PROBLEM = Reason("TimedOut", "no answer within 5 s")

LOTS = 400
"""Bytes: more than a cluster with five partitions needs."""

TOPICS = ("orders", "pay", "__consumer_offsets", "__transaction_state")
T = TypeVar("T")


class Lots:
    """What chance decides, read byte for byte: to let Hypothesis draw each of hundreds takes longer than the check.

    A zero is what is usual, so that whatever fails shrinks to a cluster with little unusual about it.
    """

    def __init__(self, given: bytes) -> None:
        self._given = iter(given)

    def below(self, limit: int) -> int:
        return next(self._given, 0) % limit

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def some(self, choices: Iterable[T], count: int) -> list[T]:
        """So many of them, in any order."""
        left = list(choices)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]

    def hardly(self) -> bool:
        return self.below(6) == 5

    def mostly(self) -> bool:
        return not self.hardly()


def _vector(lots: Lots, end: int) -> EpochVector | None:
    if lots.hardly():
        return None
    epochs = sorted(lots.some(range(7), lots.below(4)))
    starts = sorted(lots.below(end + 1) for _ in epochs)
    return tuple(EpochEntry(LeaderEpoch(e), Offset(o)) for e, o in zip(epochs, starts, strict=True))


def _log(lots: Lots) -> ReplicaLog:
    end = lots.below(7)
    return ReplicaLog(
        start=Offset(lots.below(end + 1) if lots.hardly() else 0),
        end=Offset(end),
        epochs=_vector(lots, end),
        high_watermark=None,
        answered_under=EPOCH if lots.mostly() else lots.one_of((None, LeaderEpoch(6))),
        observed_at=NOON - timedelta(seconds=61 * lots.hardly()),
        took=timedelta(milliseconds=3),
        local_start=Offset(lots.below(end + 1)) if lots.hardly() else None,
        almost_full=lots.hardly(),
    )


def _replica(lots: Lots, broker: BrokerId) -> Replica:
    problem = lots.one_of((None, None, None, PROBLEM, OFFLINE))
    return Replica(broker, _log(lots) if lots.mostly() else None, problem, leads=lots.hardly() and lots.hardly())


def _partition(lots: Lots, id: TopicPartition) -> PartitionEvidence:
    assigned = lots.some(BROKERS, 1 + lots.below(4))

    def members() -> tuple[BrokerId, ...]:
        return tuple(lots.some(assigned, lots.one_of((0, 0, 1, 2))))

    return PartitionEvidence(
        id=id,
        topic_id=TopicId(f"id-of-{id.topic}"),
        internal=id.topic.startswith("__"),
        leader=lots.one_of(assigned) if lots.hardly() else None,
        leader_epoch=EPOCH,
        isr=members(),
        elr=lots.one_of((None, members())),
        last_known_elr=lots.one_of((None, members())),
        replicas=tuple(_replica(lots, broker) for broker in assigned),
        reassignment=Reassignment((BrokerId(9),), ()) if lots.hardly() else None,
        reassignment_known=lots.mostly(),
        min_isr=lots.one_of((None, MinInsyncReplicas(2, "topic"))),
        witnessed_ends=(WitnessedEnd("group g", Offset(lots.below(10))),) if lots.hardly() else (),
    )


def _broker(lots: Lots, id: BrokerId) -> Broker:
    reachable = lots.mostly()
    return Broker(
        id=id,
        host=f"broker-{id}",
        port=9092,
        rack=lots.one_of((None, "a", "b")),
        registered=True if lots.mostly() else lots.one_of((None, False)),
        fenced=lots.hardly(),
        stopping=lots.one_of((None, None, None, False, True)),
        reachable=reachable,
        metadata_offset=1000,
        metadata_advances=None if not reachable else True if lots.mostly() else lots.one_of((None, False)),
        problem=None if reachable else PROBLEM,
    )


def _cluster(lots: Lots) -> ClusterState:
    known = sorted(lots.some(BROKERS, 2 + lots.below(4)))
    return ClusterState(
        cluster_id="prod",
        release=lots.one_of((None, "4.0", "4.1")),
        features=(("eligible.leader.replicas.version", 1), ("metadata.version", 27)),
        elr_enabled=lots.one_of((None, False, True)),
        view_from=lots.one_of(known),
        brokers=tuple(_broker(lots, broker) for broker in known),
        observed_at=NOON,
        took=timedelta(seconds=1),
    )


def _evidence(lots: Lots) -> Evidence:
    everywhere = [TopicPartition(topic, partition) for topic in TOPICS for partition in range(4)]
    ids = sorted(lots.some(everywhere, 1 + lots.below(5)))
    return Evidence(_cluster(lots), tuple(_partition(lots, id) for id in ids))


_lots = st.binary(min_size=LOTS, max_size=LOTS).map(Lots)
clusters = _lots.map(_cluster)
evidence = _lots.map(_evidence)

rules = st.builds(
    Rule,
    name=st.just("everything"),
    tier=st.integers(0, 2),
    min_replication_factor=st.integers(1, 2),
    candidate_order=st.sampled_from(CandidateOrder),
    evidence=st.builds(EvidenceRules, required_answers=st.sampled_from(RequiredAnswers)),
)
policies = st.builds(
    lambda rule, urgent, limits: Policy((*urgent, rule), limits),
    rules,
    st.sampled_from(((), (Rule("pay", TopicSelector(("pay",)), tier=1),))),
    st.builds(
        Limits,
        partitions=st.sampled_from((1, 3, 5000)),
        brokers_down_percent=st.sampled_from((40, 100, 100)),
        wave_sizes=st.sampled_from(((1,), (1, 2), (1, 50, 500))),
    ),
)
