"""Whatever a gather can see comes back from a Parquet file as it went in."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.domain.evidence import (
    Broker,
    EpochEntry,
    Evidence,
    MinInsyncReplicas,
    MissingPartition,
    PartitionEvidence,
    Reassignment,
    Replica,
    ReplicaLog,
    WitnessedEnd,
)
from kafka_recovery.domain.history import BrokerStart, HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.parquet_files import decoded, encoded
from property.evidence import clusters, evidence


def whole(bits: int) -> st.SearchStrategy[int]:
    """Any signed number, the smallest and the largest more often than chance would have it."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.sampled_from((low, low + 1, -1, 0, 1, high)) | st.integers(low, high)


brokers = whole(32).map(BrokerId)
epochs = whole(32).map(LeaderEpoch)
offsets = whole(64).map(Offset)
flags = st.none() | st.booleans()
some_brokers = st.lists(brokers, max_size=3).map(tuple)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
instants = st.datetimes(timezones=st.just(UTC))
spans = st.integers(0, 10**15).map(lambda count: timedelta(microseconds=count))
reasons = st.none() | st.builds(Reason, texts, texts)
logs = st.builds(
    ReplicaLog,
    start=offsets,
    end=offsets,
    epochs=st.none() | st.lists(st.builds(EpochEntry, epochs, offsets), max_size=3).map(tuple),
    high_watermark=st.none() | offsets,
    answered_under=st.none() | epochs,
    observed_at=instants,
    took=spans,
    local_start=st.none() | offsets,
    almost_full=st.booleans(),
)
histories = st.builds(
    PartitionHistory,
    topic_id=texts.map(TopicId),
    as_of=offsets,
    steps=st.lists(
        st.builds(
            HistoryStep,
            since=offsets,
            leader=st.none() | brokers,
            leader_epoch=epochs,
            replicas=some_brokers,
            isr=some_brokers,
            elr=st.none() | some_brokers,
            min_isr=whole(32),
            recovering=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
    starts=st.lists(
        st.builds(
            BrokerStart,
            broker=brokers,
            epoch=offsets,
            stopped_cleanly=flags,
            directory=st.none() | texts,
            volume=st.none() | texts,
            boot=st.none() | texts,
        ),
        max_size=2,
    ).map(tuple),
    transaction_log=st.none() | st.sampled_from(LossClass),
)
partitions = st.builds(
    PartitionEvidence,
    id=st.builds(TopicPartition, texts, whole(32)),
    topic_id=texts.map(TopicId),
    internal=st.booleans(),
    leader=st.none() | brokers,
    leader_epoch=epochs,
    isr=some_brokers,
    elr=st.none() | some_brokers,
    last_known_elr=st.none() | some_brokers,
    replicas=st.lists(st.builds(Replica, brokers, st.none() | logs, reasons, st.booleans()), max_size=3).map(tuple),
    reassignment=st.none() | st.builds(Reassignment, some_brokers, some_brokers),
    reassignment_known=st.booleans(),
    min_isr=st.none() | st.builds(MinInsyncReplicas, whole(32), texts),
    unclean_election_enabled=flags,
    tiered=flags,
    witnessed_ends=st.lists(st.builds(WitnessedEnd, texts, offsets), max_size=2).map(tuple),
    history=st.none() | histories,
    configs_problem=reasons,
    offline_since=st.none() | instants,
)
odd_brokers = st.builds(
    Broker,
    id=brokers,
    host=st.none() | texts,
    port=st.none() | whole(32),
    rack=st.none() | texts,
    registered=flags,
    fenced=st.booleans(),
    stopping=flags,
    reachable=st.booleans(),
    metadata_offset=st.none() | whole(64),
    metadata_advances=flags,
    problem=reasons,
)


@st.composite
def strange(draw: st.DrawFn) -> Evidence:
    """Evidence with every null, empty list and extreme number that its types allow."""
    usual = draw(clusters)
    everyone = draw(st.lists(odd_brokers, max_size=3, unique_by=lambda broker: broker.id))
    cluster = replace(usual, brokers=tuple(everyone), view_from=draw(brokers), observed_at=draw(instants))
    seen = draw(st.lists(partitions, max_size=4, unique_by=lambda partition: partition.id))
    ids = st.builds(TopicPartition, texts, whole(32))
    missing = draw(st.lists(st.builds(MissingPartition, ids, st.builds(Reason, texts, texts)), max_size=2))
    return Evidence(cluster, tuple(seen), tuple(missing))


@given(evidence | strange())
def test_what_a_gather_sees_comes_back_as_it_went_in_and_always_from_the_same_bytes(seen: Evidence) -> None:
    written = encoded(seen, "file")

    assert decoded(written, "file") == seen
    assert encoded(seen, "file") == written
