"""Whose Pod is held back while another leader is elected: of brokers that are down, and that Kafka would elect first.

An ISR or ELR member, and where both are empty the last known leader (KIP-966), is elected by the controller as soon as
it is back, its disk empty or not; the survivors then truncate to its log (KIP-101). A broker that runs is not stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kafka_recovery.decision.kubectl import Kubectl
from kafka_recovery.decision.pods import SILENT_BROKER, pods_of
from kafka_recovery.decision.returns import away, elected_by_kafka, has_failed_disk
from kafka_recovery.domain.evidence import ClusterState
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.pods import CLAIM_GOES, BrokerPod

MOST = 50
"""So many Pods are held back by one recovery."""


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A Pod that must not be created. `uid`: of the one that is there and has to go; None: none has to."""

    broker: BrokerId
    name: str
    uid: str | None = None


@dataclass(frozen=True, slots=True)
class NotHeld:
    """A broker that may return meanwhile, and why its Pod is not held back."""

    broker: BrokerId
    why: str


@dataclass(frozen=True, slots=True)
class Holding:
    """What is held back, and what is not though it was wanted."""

    pods: tuple[HeldPod, ...] = ()
    not_held: tuple[NotHeld, ...] = ()


def may_return(plan: Plan, partitions: Collection[TopicPartition] | None = None) -> tuple[BrokerId, ...]:
    """The brokers that nobody could measure, and that Kafka elects before the planned leader once they are back.

    `partitions`: of the plan's elections; None: all of them. None of these brokers is to lead anything by the plan.
    """
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    elections = plan.elections
    leaders = {decision.leader for decision in elections.values()}
    wanted = elections.keys() if partitions is None else elections.keys() & set(partitions)
    return tuple(
        sorted(
            {
                broker
                for id in wanted
                for broker in frozenset(elected_by_kafka(seen[id])).intersection(away(seen[id])) - leaders
                if not has_failed_disk(seen[id], broker)
            }
        )
    )


def choose(
    brokers: Sequence[BrokerId],
    cluster: ClusterState,
    pods: Collection[BrokerPod],
    before: Mapping[BrokerId, str],
) -> Holding:
    """Which Pods to hold back. `cluster`, `pods`: as they are now. `before`: Pods that are held back already."""
    found = [_choose(broker, cluster, [pod for pod in pods if pod.broker == broker], before) for broker in brokers]
    held = tuple(each for each in found if isinstance(each, HeldPod))
    over = tuple(NotHeld(each.broker, f"one recovery holds back {MOST} Pods at most") for each in held[MOST:])
    return Holding(held[:MOST], (*(each for each in found if isinstance(each, NotHeld)), *over)[:MOST])


def keep_off(cluster: ClusterState, broker: BrokerId, kubectl: Kubectl, *, running: bool = False) -> str:
    """How nothing starts its process: with commands where Kubernetes names one Pod that may be deleted.

    Where nobody knows which Kubernetes the reader reaches, a Pod of that name may be another Kafka's. `running`: it is
    to be stopped, so that its Pod may be Ready.

    A Pod that Strimzi runs is made again in seconds, also while its Kafka is paused: the controller of StrimziPodSets
    knows no pause (seen in its code before 1.3). Only without the cluster operator it is not.
    """
    found = [pod for pod in pods_of(cluster, broker) if pod.name]
    if not kubectl.namespace or len(found) != 1 or _stays(replace(found[0], ready=found[0].ready and not running)):
        return SILENT_BROKER
    return (
        f"first {kubectl.line('scale deployment strimzi-cluster-operator --replicas 0', 'STRIMZI')} (STRIMZI: "
        f"{SILENT_BROKER}); once Strimzi's Pod is gone, {kubectl.line(f'delete pod {found[0].name}')}; once "
        "another leads, scale it to 1: until then Strimzi mends no Kafka"
    )


def _choose(
    broker: BrokerId, cluster: ClusterState, pods: Sequence[BrokerPod], before: Mapping[BrokerId, str]
) -> HeldPod | NotHeld:
    there = [pod for pod in pods if pod.name]
    if runs(cluster, broker):
        return NotHeld(broker, f"broker {broker} runs: it answers, or its heartbeats reach the controllers")
    if len(there) > 1:
        names = ", ".join(str(pod.name) for pod in there[:3])
        return NotHeld(broker, f"several Pods say that they are broker {broker}: {names}; delete the wrong one")
    if not there:
        if broker in before:
            return HeldPod(broker, before[broker])
        return NotHeld(broker, f"broker {broker} has no Pod at the moment, so its name is not known; start nothing")
    (pod,) = there
    if why := _stays(pod):
        return NotHeld(broker, f"Pod {pod.name} of broker {broker} {why}")
    return HeldPod(broker, str(pod.name), None if pod.reason == TERMINATING else pod.uid)


TERMINATING = "Terminating"
"""The reason of a Pod that was deleted and is not gone yet."""


def _stays(pod: BrokerPod) -> str | None:
    if pod.ready:
        return "is Ready, so its broker runs, though neither operator nor controllers hear of it: look at its network"
    if pod.ephemeral:
        return "keeps its log in an emptyDir, which would be deleted with it; keep the Pod from starting by hand"
    if pod.controller:
        return "is a controller of the quorum as well, which may need it; keep the Pod from starting by hand"
    if pod.claims is None:
        return (
            "may use a volume claim that is being deleted, and those can't be read; keep the Pod from starting by hand"
        )
    if going := next((claim.name for claim in pod.claims if claim.phase == CLAIM_GOES), None):
        return f"is what keeps claim {going}, which is being deleted: do not delete this Pod, copy its disk first"
    return None


def runs(cluster: ClusterState, broker: BrokerId) -> bool:
    """Whether it answers, or counts as alive at the controllers. One that is not listed is away."""
    seen = cluster.broker(broker)
    return seen is not None and (seen.reachable or (seen.registered is not False and not seen.fenced))
