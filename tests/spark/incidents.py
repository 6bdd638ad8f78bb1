"""Incidents like those of life, by chance but the same for the same seed: copies are equal, or nearly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    EpochVector,
    Evidence,
    PartitionEvidence,
    Reassignment,
    Replica,
    ReplicaLog,
    WitnessedEnd,
)
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.reason import Reason

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
EPOCH = LeaderEpoch(7)
BROKERS = tuple(BrokerId(n) for n in range(1, 7))
TOPICS = ("orders", "pay", "__consumer_offsets")
PROBLEMS = (Reason("TimedOut", "no answer within 5 s"), Reason("LogDirOffline", "its log directory is offline"))

LARGEST = 2**63 - 1
LARGEST_EPOCH = LARGEST_BROKER = 2**31 - 1
FAR_OFFSETS = (0, 1, 2, 3, 2**61, 2**62, 2**62 + 1, LARGEST - 2, LARGEST - 1, LARGEST)
FAR_EPOCHS = (0, 1, 2, 3, 2**16, LARGEST_EPOCH - 1, LARGEST_EPOCH)
FAR_BROKERS = dict(zip(BROKERS, (0, 1, 2, 2**16, LARGEST_BROKER - 1, LARGEST_BROKER), strict=True))


def incidents(seed: int, number: int) -> Iterator[Evidence]:
    """So many clusters in trouble; every third one has the smallest and the largest numbers there are."""
    chance = Random(seed)
    for n in range(number):
        seen = _of_some_kafka(_cluster(chance), Random(f"{seed} {n}"))
        yield far(seen) if n % 3 == 0 else seen


def _of_some_kafka(seen: Evidence, chance: Random) -> Evidence:
    """The same on an old or a new release, with a last known leader here and there."""
    by_request, release = chance.random() < 0.5, chance.choice(("3.9", "4.1", "4.1", None))
    partitions = [
        replace(partition, last_known_elr=chance.choice(((), partition.assignment[:1], partition.assignment[:2])))
        if partition.elr is not None
        else partition
        for partition in seen.partitions
    ]
    cluster = replace(seen.cluster, release=release, designated_elections=by_request)
    return Evidence(cluster, tuple(partitions))


def far(seen: Evidence) -> Evidence:
    """The same with offsets, epochs and broker ids up to the largest numbers that Kafka's protocol has.

    What has an order keeps it. Of a topic's partitions every second one has the smallest epoch there is, the others
    the largest, and whoever answered under a stale epoch names the opposite.
    """
    cluster = seen.cluster
    brokers = tuple(replace(broker, id=_far_broker(broker.id)) for broker in cluster.brokers)
    return Evidence(
        replace(cluster, view_from=_far_broker(cluster.view_from), brokers=brokers),
        tuple(map(_far_partition, seen.partitions)),
    )


def without_replicas(seen: Evidence) -> Evidence:
    """The same with nobody assigned to anything."""
    bare: dict[str, Any] = {"replicas": (), "isr": (), "elr": None, "last_known_elr": None}
    return replace(seen, partitions=tuple(replace(partition, **bare) for partition in seen.partitions))


def _cluster(chance: Random) -> Evidence:
    ill = chance.choice((0.02, 0.1, 0.3))
    known = chance.sample(BROKERS, chance.randint(4, len(BROKERS)))
    stands_still = chance.random() < 0.08
    brokers = tuple(_broker(chance, id, ill, stands_still) for id in sorted(known))
    state = ClusterState("prod", "4.1", (), None, chance.choice(known), brokers, NOON, timedelta(seconds=1))
    ids = [TopicPartition(topic, index) for topic in TOPICS for index in range(2)]
    return Evidence(state, tuple(_partition(chance, id, ill) for id in ids))


def _broker(chance: Random, id: BrokerId, ill: float, stands_still: bool) -> Broker:
    silent = chance.random() < ill
    advances = None if silent else chance.choice((None, False)) if chance.random() < ill else True
    return Broker(
        id=id,
        host=f"broker-{id}",
        port=9092,
        rack=chance.choice((None, "a", "b")),
        registered=chance.choice((None, False)) if chance.random() < ill else True,
        fenced=chance.random() < ill,
        stopping=chance.random() < ill or None,
        reachable=not silent,
        metadata_offset=1000,
        metadata_advances=advances and not stands_still,
    )


def _partition(chance: Random, id: TopicPartition, ill: float) -> PartitionEvidence:
    assigned = chance.sample(BROKERS, chance.randint(1, 4))
    common = _log(chance)
    return PartitionEvidence(
        id=id,
        topic_id=TopicId(f"id-of-{id.topic}"),
        internal=id.topic.startswith("__"),
        leader=assigned[0] if chance.random() < ill / 2 else None,
        leader_epoch=EPOCH,
        isr=(chance.choice(assigned),) if chance.random() < 0.1 else (),
        elr=chance.choice((None, (), (assigned[-1],))) if chance.random() < 0.2 else None,
        last_known_elr=None,
        replicas=tuple(_replica(chance, broker, common, ill) for broker in assigned),
        reassignment=Reassignment((BrokerId(9),), ()) if chance.random() < ill / 4 else None,
        reassignment_known=chance.random() >= ill / 4,
        witnessed_ends=(WitnessedEnd("group g", Offset(chance.randint(0, 9))),) if chance.random() < 0.2 else (),
    )


def _replica(chance: Random, broker: BrokerId, common: ReplicaLog, ill: float) -> Replica:
    problem = chance.choice(PROBLEMS) if chance.random() < ill / 2 else None
    log = None if chance.random() < ill else _on_its_disk(broker, _like(chance, common, ill))
    return Replica(broker, log, problem, leads=chance.random() < ill / 6)


def _log(chance: Random) -> ReplicaLog:
    end = chance.randint(0, 9)
    start = chance.choice((0, 0, 0, chance.randint(0, end)))
    epochs = sorted(chance.sample(range(6), chance.randint(0, 4)))
    starts = sorted(chance.randint(0, end) for _ in epochs)
    vector = tuple(EpochEntry(LeaderEpoch(e), Offset(o)) for e, o in zip(epochs, starts, strict=True))
    return ReplicaLog(Offset(start), Offset(end), vector, None, EPOCH, NOON, timedelta(milliseconds=3))


def _like(chance: Random, log: ReplicaLog, ill: float) -> ReplicaLog:
    """A copy: the same, told otherwise, shorter or gone astray; at times measured late or under another epoch."""
    match chance.randint(0, 7):
        case 0:
            log = replace(log, epochs=(*(log.epochs or ()), EpochEntry(LeaderEpoch(6), log.end)))
        case 1:
            log = replace(log, epochs=_without_empty(log))
        case 2:
            log = replace(log, end=Offset(chance.randint(log.start, log.end)))
        case 3:
            log = replace(_log(chance), end=log.end, start=log.start)
        case 4:
            log = replace(log, start=Offset(chance.randint(0, log.end)))
    return replace(
        log,
        epochs=None if chance.random() < ill / 2 else log.epochs,
        answered_under=chance.choice((None, LeaderEpoch(6))) if chance.random() < ill / 2 else EPOCH,
        observed_at=NOON - timedelta(seconds=chance.choice((60, 61))) if chance.random() < ill / 3 else NOON,
    )


def _on_its_disk(broker: BrokerId, log: ReplicaLog) -> ReplicaLog:
    """The same, tiered or without room at times; by chance of its own, so that all else is drawn as if it were not."""
    chance = Random(f"{broker} {log}")
    start = Offset(chance.randint(log.start, log.end)) if chance.random() < 0.2 else None
    return replace(log, local_start=start, almost_full=chance.random() < 0.2)


def _without_empty(log: ReplicaLog) -> EpochVector:
    """What a replica that was told of records only has written down."""
    epochs = log.epochs or ()
    ends = [*[entry.start for entry in epochs[1:]], log.end]
    return tuple(entry for entry, end in zip(epochs, ends, strict=False) if entry.start < end)


def _far_partition(partition: PartitionEvidence) -> PartitionEvidence:
    epochs = (LARGEST_EPOCH, 0) if partition.id.partition % 2 else (0, LARGEST_EPOCH)
    current, stale = map(LeaderEpoch, epochs)

    def far_replica(replica: Replica) -> Replica:
        log = replica.log and _far_log(replica.log)
        if log and log.answered_under is not None:
            log = replace(log, answered_under=current if log.answered_under == partition.leader_epoch else stale)
        return replace(replica, broker=_far_broker(replica.broker), log=log)

    return replace(
        partition,
        leader=None if partition.leader is None else _far_broker(partition.leader),
        leader_epoch=current,
        isr=_far_brokers(partition.isr),
        elr=partition.elr and _far_brokers(partition.elr),
        last_known_elr=partition.last_known_elr and _far_brokers(partition.last_known_elr),
        replicas=tuple(map(far_replica, partition.replicas)),
        witnessed_ends=tuple(WitnessedEnd(seen.source, _far_offset(seen.end)) for seen in partition.witnessed_ends),
    )


def _far_log(log: ReplicaLog) -> ReplicaLog:
    vector = log.epochs
    entries = None if vector is None else tuple(EpochEntry(_far_epoch(e), _far_offset(o)) for e, o in vector)
    return replace(log, start=_far_offset(log.start), end=_far_offset(log.end), epochs=entries)


def _far_offset(offset: int) -> Offset:
    return Offset(FAR_OFFSETS[offset])


def _far_epoch(epoch: int) -> LeaderEpoch:
    return LeaderEpoch(FAR_EPOCHS[epoch])


def _far_broker(id: BrokerId) -> BrokerId:
    return BrokerId(FAR_BROKERS[id])


def _far_brokers(ids: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    return tuple(map(_far_broker, ids))
