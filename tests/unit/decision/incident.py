"""Evidence in few words: brokers 1 to 3 hold orders-0, broker 1 led it and is dead, 2 and 3 answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    Evidence,
    PartitionEvidence,
    Replica,
    ReplicaLog,
)
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.policy import Limits, Policy, Rule

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
EPOCH = LeaderEpoch(5)
ORDERS = TopicPartition("orders", 0)

Held = ReplicaLog | Replica | None


def log(end: int, *epochs: tuple[int, int], start: int = 0, **changes: Any) -> ReplicaLog:
    """A measured log that ends at `end`; without epochs all of it is of epoch 0."""
    measured = ReplicaLog(
        start=Offset(start),
        end=Offset(end),
        epochs=tuple(EpochEntry(LeaderEpoch(epoch), Offset(first)) for epoch, first in epochs or ((0, 0),)),
        high_watermark=Offset(0),
        answered_under=EPOCH,
        observed_at=NOON,
        took=timedelta(milliseconds=20),
    )
    return replace(measured, **changes)


def partition(
    held: Mapping[int, Held], *, id: TopicPartition = ORDERS, isr: Iterable[int] = (1,), **changes: Any
) -> PartitionEvidence:
    """An offline partition whose assignment is `held`'s order; None: that replica was not measured."""
    seen = PartitionEvidence(
        id=id,
        topic_id=TopicId(f"id-of-{id.topic}"),
        internal=False,
        leader=None,
        leader_epoch=EPOCH,
        isr=tuple(map(BrokerId, isr)),
        elr=None,
        last_known_elr=None,
        replicas=tuple(
            what if isinstance(what, Replica) else Replica(BrokerId(broker), what) for broker, what in held.items()
        ),
    )
    return replace(seen, **changes)


def broker(id: int, **changes: Any) -> Broker:
    """A broker in good health."""
    healthy = Broker(
        id=BrokerId(id), host=f"broker-{id}", port=9092, rack=None, registered=True, fenced=False, stopping=None,
        reachable=True, metadata_offset=1000 + id, metadata_advances=True,
    )  # fmt: skip
    return replace(healthy, **changes)


def dead(id: int, **changes: Any) -> Broker:
    """A broker that the controller fenced and that does not answer."""
    return broker(id, **{"fenced": True, "reachable": False, "metadata_advances": None, **changes})


THREE = (dead(1), broker(2), broker(3))


def evidence(*partitions: PartitionEvidence, brokers: Iterable[Broker] = THREE, **changes: Any) -> Evidence:
    """What a gather saw."""
    brokers = tuple(brokers)
    cluster = ClusterState(
        cluster_id="prod",
        release="4.1",
        features=(),
        elr_enabled=False,
        view_from=max(b.id for b in brokers if b.reachable),
        brokers=brokers,
        observed_at=NOON,
        took=timedelta(seconds=1),
    )
    return Evidence(replace(cluster, **changes), partitions)


def policy(limits: Limits | None = None, **rule: Any) -> Policy:
    """One rule for everything."""
    return Policy((Rule("everything", **rule),), limits or Limits())


def decided(seen: Evidence, by: Policy | None = None, **how: Any) -> Decision:
    """The decision about the only partition."""
    (decision,) = decide(seen, by or policy(), **how).decisions
    return decision


def code(decision: Decision) -> str | None:
    """Why it was decided so, for machines."""
    return decision.reason.code if decision.reason else None


def rejected(decision: Decision) -> dict[int, str]:
    """The guard each rejected replica failed."""
    return {rejection.broker: rejection.reason.code for rejection in decision.rejections}
