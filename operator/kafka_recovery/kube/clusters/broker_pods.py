"""The Pods that the brokers of a Kafka of Strimzi's run in, their volume claims and their nodes, as they are now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus

from kafka_recovery.decision.fenced_members import short_of
from kafka_recovery.decision.returns import away
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.pods import BrokerPod, NodeState
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters import pod_homes
from kafka_recovery.kube.clusters import pod_objects as objects
from kafka_recovery.kube.clusters.residences import Home
from kafka_recovery.kube.clusters.strimzi_objects import BROKER_LABEL, CLUSTER_LABEL
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound, Object
from kafka_recovery.kube.resources.kinds import WatchedCluster

DEADLINE = timedelta(seconds=2)
"""For one look, while an incident waits for it."""


@dataclass(frozen=True, slots=True)
class BrokerPods:
    """Of one Kafka of Strimzi's in a namespace. What may not be read is unknown, and no error."""

    api: Api
    namespace: str
    kafka: str
    deadline: timedelta = DEADLINE

    async def look(self) -> tuple[BrokerPod, ...] | Reason:
        """All of them, without their nodes; a reason: they can't be seen. Raises nothing of the API's."""
        found = await self._read()
        return found if isinstance(found, Reason) else objects.pods_of(self.kafka, *found)

    async def beside(self, gathering: Awaitable[Evidence]) -> Evidence:
        """The evidence that is gathered, with the Pods of brokers with a copy that are silent, or are to be stopped.

        They are looked at meanwhile, so that a look takes no longer for it where brokers are waited for. Raises what
        `gathering` does.
        """
        reading = asyncio.ensure_future(self._read())
        try:
            evidence = await gathering
            absent = silent(evidence) | to_be_stopped(evidence)
            if not absent:
                return evidence
            found = await reading
        finally:
            reading.cancel()
        if isinstance(found, Reason):
            return replace(evidence, cluster=replace(evidence.cluster, pods_problem=found))
        theirs = (pod for pod in objects.pods_of(self.kafka, *found, of=absent) if pod.broker in absent)
        pods = await self.with_nodes(theirs)
        return replace(evidence, cluster=replace(evidence.cluster, pods=pods))

    async def homes(self) -> Mapping[BrokerId, Home] | Reason:
        """Where the processes of brokers live, as Pods say, and Nodes after them; a reason: it can't be seen.

        Raises nothing of the API's.
        """
        found = await self._read()
        if isinstance(found, Reason):
            return found
        lodgings = pod_homes.lodgings(self.kafka, *found)
        names = sorted({each.node for each in lodgings.values()})
        try:
            async with asyncio.timeout(self.deadline.total_seconds()):
                boots = dict(zip(names, await asyncio.gather(*map(self._boot, names)), strict=True))
        except (ApiError, TimeoutError) as error:
            return Reason("ObjectsUnreadable", f"nodes can't be read: {_why(error, self.deadline, 'nodes')}")
        return {id: each.at(boot) for id, each in lodgings.items() if (boot := boots[each.node]) is not None}

    async def _boot(self, node: str) -> pod_homes.Boot | None:
        """Raises ApiError, but for a node that is not there."""
        try:
            return pod_homes.boot_of(await self.api.get(f"/api/v1/nodes/{node}", deadline=self.deadline))
        except (NotFound, ValueError):
            return None

    async def _read(self) -> tuple[list[Object], list[Object] | None] | Reason:
        mine = f"{CLUSTER_LABEL}={self.kafka}"
        try:
            async with asyncio.timeout(self.deadline.total_seconds()):
                pods, claims = await asyncio.gather(
                    self._all("pods", f"{mine},{BROKER_LABEL}=true"), self._readable("persistentvolumeclaims", mine)
                )
        except (ApiError, TimeoutError) as error:
            said = f"the Pods of Kafka {self.kafka} can't be seen: {_why(error, self.deadline)}"
            return Reason("ObjectsUnreadable", said)
        return pods, claims

    async def with_nodes(self, pods: Iterable[BrokerPod]) -> tuple[BrokerPod, ...]:
        """The same Pods with the state of their nodes. Raises nothing of the API's."""
        pods = tuple(pods)
        names = sorted({pod.node for pod in pods if pod.node})
        states = dict(zip(names, await asyncio.gather(*map(self._state, names)), strict=True))
        return tuple(replace(pod, node_state=states[pod.node]) if pod.node else pod for pod in pods)

    async def _state(self, node: str) -> NodeState:
        try:
            async with asyncio.timeout(self.deadline.total_seconds()):
                return objects.node_state(await self.api.get(f"/api/v1/nodes/{node}", deadline=self.deadline))
        except NotFound:
            return NodeState.GONE
        except (ApiError, TimeoutError, ValueError):
            return NodeState.UNKNOWN

    async def _readable(self, plural: str, selector: str) -> list[Object] | None:
        try:
            return await self._all(plural, selector)
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                return None
            raise

    async def _all(self, plural: str, selector: str) -> list[Object]:
        path = f"/api/v1/namespaces/{self.namespace}/{plural}"
        return await self.api.list_all(path, params={"labelSelector": selector}, deadline=self.deadline)


def silent(evidence: Evidence) -> frozenset[BrokerId]:
    """Who holds a copy of a partition without a leader, and gave no answer for it."""
    offline = (partition for partition in evidence.partitions if partition.leader is None)
    return frozenset(broker for partition in offline for broker in away(partition))


def to_be_stopped(evidence: Evidence) -> frozenset[BrokerId]:
    """Who answers, and holds less than others where Kafka can elect it."""
    return short_of([each for each in evidence.partitions if each.leader is None], evidence.cluster)


def broker_pods(api: Api, cluster: WatchedCluster) -> BrokerPods | None:
    """Those of a watched cluster; None: nothing says which Pods are its brokers'."""
    return BrokerPods(api, cluster.meta.namespace, cluster.strimzi.name) if cluster.strimzi else None


def _why(error: Exception, deadline: timedelta, allowed: str = "strimzi") -> str:
    if isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN:
        return f"{error.message}; manifests/rbac/optional/{allowed}.yaml allows it"
    return error.reason if isinstance(error, ApiError) else f"no answer within {deadline.total_seconds():g} s"
