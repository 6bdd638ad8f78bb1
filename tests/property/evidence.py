"""Random evidence: any state of brokers and replicas that a gather could report, and some that it should not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import settings
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

costly = settings(max_examples=settings().max_examples // 2)
"""Half as many examples: to draw them takes longer than to look at them."""

mostly = st.sampled_from((True, True, True, True, True, False))
hardly = mostly.map(lambda yes: not yes)


@st.composite
def vectors(draw: st.DrawFn, end: int) -> EpochVector | None:
    if draw(hardly):
        return None
    epochs = sorted(draw(st.frozensets(st.integers(0, 6), max_size=3)))
    starts = sorted(draw(st.lists(st.integers(0, end), min_size=len(epochs), max_size=len(epochs))))
    return tuple(EpochEntry(LeaderEpoch(e), Offset(o)) for e, o in zip(epochs, starts, strict=True))


@st.composite
def logs(draw: st.DrawFn) -> ReplicaLog:
    end = draw(st.integers(0, 6))
    return ReplicaLog(
        start=Offset(draw(st.integers(0, end)) if draw(hardly) else 0),
        end=Offset(end),
        epochs=draw(vectors(end)),
        high_watermark=None,
        answered_under=EPOCH if draw(mostly) else draw(st.sampled_from((None, LeaderEpoch(6)))),
        observed_at=NOON - timedelta(seconds=61 * draw(hardly)),
        took=timedelta(milliseconds=3),
    )


@st.composite
def replicas(draw: st.DrawFn, broker: BrokerId) -> Replica:
    problem = draw(st.sampled_from((None, None, None, PROBLEM, OFFLINE)))
    return Replica(broker, draw(logs()) if draw(mostly) else None, problem, leads=draw(hardly) and draw(hardly))


@st.composite
def partitions(draw: st.DrawFn, id: TopicPartition) -> PartitionEvidence:
    assigned = draw(st.permutations(BROKERS))[: draw(st.integers(1, 4))]
    members = st.lists(st.sampled_from(assigned), unique=True, max_size=2).map(tuple)
    return PartitionEvidence(
        id=id,
        topic_id=TopicId(f"id-of-{id.topic}"),
        internal=id.topic.startswith("__"),
        leader=draw(st.sampled_from(assigned)) if draw(hardly) else None,
        leader_epoch=EPOCH,
        isr=draw(members),
        elr=draw(st.none() | members),
        last_known_elr=draw(st.none() | members),
        replicas=tuple(draw(replicas(broker)) for broker in assigned),
        reassignment=Reassignment((BrokerId(9),), ()) if draw(hardly) else None,
        reassignment_known=draw(mostly),
        min_isr=draw(st.sampled_from((None, MinInsyncReplicas(2, "topic")))),
        witnessed_ends=(WitnessedEnd("group g", Offset(draw(st.integers(0, 9)))),) if draw(hardly) else (),
    )


@st.composite
def brokers(draw: st.DrawFn, id: BrokerId) -> Broker:
    reachable = draw(mostly)
    return Broker(
        id=id,
        host=f"broker-{id}",
        port=9092,
        rack=draw(st.sampled_from((None, "a", "b"))),
        registered=True if draw(mostly) else draw(st.sampled_from((None, False))),
        fenced=draw(hardly),
        stopping=draw(st.sampled_from((None, None, None, False, True))),
        reachable=reachable,
        metadata_offset=1000,
        metadata_advances=None if not reachable else True if draw(mostly) else draw(st.sampled_from((None, False))),
        problem=None if reachable else PROBLEM,
    )


TOPICS = ("orders", "pay", "__consumer_offsets", "__transaction_state")
ids = st.lists(
    st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 3)), min_size=1, max_size=5, unique=True
).map(sorted)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    known = draw(st.lists(st.sampled_from(BROKERS), unique=True, min_size=2).map(sorted))
    return ClusterState(
        cluster_id="prod",
        release=draw(st.sampled_from((None, "4.0", "4.1"))),
        features=(("eligible.leader.replicas.version", 1), ("metadata.version", 27)),
        elr_enabled=draw(st.sampled_from((None, False, True))),
        view_from=draw(st.sampled_from(known)),
        brokers=tuple(draw(brokers(broker)) for broker in known),
        observed_at=NOON,
        took=timedelta(seconds=1),
    )


@st.composite
def evidence(draw: st.DrawFn) -> Evidence:
    return Evidence(draw(clusters()), tuple(draw(partitions(id)) for id in draw(ids)))


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
