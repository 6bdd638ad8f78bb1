"""What all partitions of one look at a cluster share, worked out once instead of once per partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafka_recovery.decision.attesting import attested_lost
from kafka_recovery.decision.checks import is_alive, is_back
from kafka_recovery.decision.subjects import Counts
from kafka_recovery.domain.evidence import Broker, ClusterState
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import Policy, Rule
from kafka_recovery.domain.reason import Reason, Rejection

Rejections = tuple[Rejection, ...]


class Rejected(dict[BrokerId, Rejections]):
    """For each broker the guard it fails, alone in a tuple, or none; judged when first asked, then remembered."""

    __slots__ = ("_judge",)

    def __init__(self, judge: Callable[[BrokerId], Reason | None]) -> None:
        super().__init__()
        self._judge = judge

    def __missing__(self, broker: BrokerId) -> Rejections:
        reason = self._judge(broker)
        self[broker] = rejections = () if reason is None else (Rejection(broker, reason),)
        return rejections


class Rules(dict[str, Rule | None]):
    """The rule for each topic, looked up in the policy when first asked, then remembered."""

    __slots__ = ("_policy",)

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self._policy = policy

    def __missing__(self, topic: str) -> Rule | None:
        self[topic] = rule = self._policy.rule_for(topic)
        return rule


@dataclass(frozen=True, slots=True)
class ClusterIndex:
    """The cluster around a partition.

    `alive`: registered and not fenced, as the controller sees it. `back`: alive or answering us, so about to be.
    `required`: alive, so that their silence blocks. Both are without brokers whose disk was attested lost.
    `listed`: those that may be registered, as far as the cluster tells.
    """

    cluster: ClusterState
    brokers: Mapping[BrokerId, Broker]
    alive: frozenset[BrokerId]
    back: frozenset[BrokerId]
    required: frozenset[BrokerId]
    listed: frozenset[BrokerId]
    rejected: Mapping[BrokerId, Rejections]
    rules: Mapping[str, Rule | None]
    counts: Counts


def index_of(cluster: ClusterState, policy: Policy, broker_guard: Callable[[Broker], Reason | None]) -> ClusterIndex:
    """Index the cluster for judging many partitions; `broker_guard` is asked once a broker."""
    brokers = {broker.id: broker for broker in cluster.brokers}
    alive = frozenset(id_ for id_, broker in brokers.items() if is_alive(broker))
    rejected = Rejected(lambda id_: broker_guard(brokers.get(id_) or unknown_broker(id_)))
    listed = frozenset(id_ for id_, broker in brokers.items() if broker.registered is not False)
    counts = _counts(cluster, len(alive))
    required = alive - attested_lost(cluster)
    return ClusterIndex(cluster, brokers, alive, back(cluster), required, listed, rejected, Rules(policy), counts)


def back(cluster: ClusterState) -> frozenset[BrokerId]:
    """The brokers that are alive as the controller sees it, or answer us, so are about to be: their disks with them."""
    return frozenset(broker.id for broker in cluster.brokers if is_back(broker)) - attested_lost(cluster)


def _counts(cluster: ClusterState, alive: int) -> Counts:
    view = cluster.broker(cluster.view_from)
    return Counts(
        brokers_known=len(cluster.brokers),
        brokers_down=len(cluster.brokers) - alive,
        controller_present=controller_present(cluster),
        view_advances=view.metadata_advances if view else None,
    )


def controller_present(cluster: ClusterState) -> bool | None:
    """Whether metadata go on at any broker, or a controller told itself; None: nobody knows."""
    asked = [b.metadata_advances for b in cluster.brokers if b.reachable and b.metadata_advances is not None]
    return True if cluster.committed is not None else any(asked) if asked else None


def unknown_broker(broker: BrokerId) -> Broker:
    """What stands for a broker that the cluster does not know."""
    return Broker(
        id=broker, host=None, port=None, rack=None, registered=False, fenced=True, stopping=None, reachable=False,
        metadata_offset=None, metadata_advances=None,
    )  # fmt: skip
