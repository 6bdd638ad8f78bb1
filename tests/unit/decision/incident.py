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
from kafka_recovery.domain.history import BrokerStart, HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    MetadataOffset,
    Offset,
    TopicId,
    TopicPartition,
)
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.policy import Limits, Policy, Rule

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
EPOCH = LeaderEpoch(5)
AS_OF = MetadataOffset(1000)
"""Of the look at the cluster, and of every history."""
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
        reachable=True, metadata_offset=AS_OF, metadata_advances=True,
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
        as_of=AS_OF,
    )
    return Evidence(replace(cluster, **changes), partitions)


def step(*isr: int, min_isr: int = 2, replicas: Iterable[int] = (1, 2, 3), **changes: Any) -> HistoryStep:
    """What held for a while: broker 1 led, in the present leader epoch."""
    members = tuple(map(BrokerId, isr))
    led = HistoryStep(
        MetadataOffset(0), BrokerId(1), EPOCH, tuple(map(BrokerId, replicas)), members, None, min_isr
    )  # fmt: skip
    return replace(led, **changes)


def history(
    *steps: HistoryStep, intact: Iterable[int] = (), transactions: LossClass | None = None, **changes: Any
) -> PartitionHistory:
    """These steps, one every ten offsets. Brokers that are not `intact` were started again at the end of them all."""
    placed = [replace(each, since=MetadataOffset(10 * place)) for place, each in enumerate(steps, 1)]
    replicas = sorted({broker for each in steps for broker in each.replicas})
    starts = [started(broker, 1) for broker in replicas]
    starts += [started(broker, 900 + broker) for broker in replicas if broker not in tuple(intact)]
    known = PartitionHistory(TopicId("id-of-orders"), AS_OF, tuple(placed), tuple(starts), transactions)
    return replace(known, **changes)


def started(broker: int, epoch: int, **known: Any) -> BrokerStart:
    """A broker's process, registered at that offset of the metadata log."""
    return BrokerStart(BrokerId(broker), BrokerEpoch(epoch), **known)


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
