"""`holdBack: pods`: the Pods of dead brokers that must not return while another leader is elected.

`status.holdBack` of the PartitionRecovery names them, and an admission policy (manifests/admission/held-pods.yaml)
refuses to create what an unfinished recovery names there. So: the status first, then the Pod is deleted, then a look
whether one came all the same. The hold ends when the status names it no more; to abort or delete the recovery does too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Protocol

from kafka_recovery.decision.holding import TERMINATING, HeldPod, Holding, NotHeld, choose, may_return
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import ClusterState
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.pods import BrokerPod
from kafka_recovery.domain.policy import HoldBack
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.kube.machinery.api import ApiError, Conflict, Kept, Object
from kafka_recovery.kube.machinery.conditions import cut
from kafka_recovery.kube.machinery.status_changes import Statuses, change_status
from kafka_recovery.kube.resources.kinds import RECOVERIES, UNFINISHED
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.recovery.ports import Cluster

_LOG = logging.getLogger(__name__)

HOLD_BACK = "holdBack"
"""The status's field; it is written here alone."""
LONGEST = timedelta(seconds=10)
"""So long elections wait for it at most."""
WITHIN = timedelta(seconds=3)
"""So long after the deletion no Pod may be left that runs on."""
QUIET = timedelta(seconds=1)
"""So long no new Pod has come: its controller makes one at once. API servers hear of the status in some 30 ms."""
POLL = timedelta(milliseconds=200)


class Pods(Protocol):
    """Which Pods are the brokers' of a cluster; see `kube.clusters.broker_pods`."""

    async def look(self) -> tuple[BrokerPod, ...] | Reason:
        """All of them as they are now; a reason: they can't be seen."""
        ...


class HoldApi(Statuses, Protocol):
    """What of the API is needed here."""

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        """Delete the object with this uid; Conflict if it is another one by now, and gone already is fine."""
        ...

    async def list_kept(
        self, path: str, kept: Callable[[Object], Kept], *, params: Mapping[str, str] | None = None
    ) -> list[Kept]:
        """What is kept of each object of a kind in a namespace."""
        ...


def _told_nobody() -> None:
    pass


@dataclass
class PodHold:
    """Holds back for one recovery. Port `Hold`. `uid`: the recovery's. `pods` None: nothing says whose Pod is whose.

    `unguarded`: why the API server would refuse no Pod, if so. `told`: told of the object, a reason, and whether it is
    good news. `again`: told of the Pods that were let go (`PodsAgain`). `changed`: called when others are named.
    `named`: the Pods that the status names, or may, by broker: at first what it did when this process began.
    """

    api: HoldApi
    key: Key
    uid: str
    cluster: Cluster
    pods: Pods | None
    unguarded: Callable[[], Awaitable[str | None]]
    told: Callable[[Object, Reason, bool], Awaitable[None]]
    again: Callable[[Key, Object | None, Collection[str]], Awaitable[None]]
    named: Mapping[BrokerId, str] = field(default_factory=dict)
    changed: Callable[[], None] = _told_nobody

    async def hold(self, plan: Plan, partitions: Sequence[TopicPartition]) -> None:
        """See the port."""
        brokers = may_return(plan, partitions) if plan.policy.hold_back is HoldBack.PODS else ()
        if not brokers:
            return
        leaders = {decision.leader for decision in plan.elections.values()}
        brokers = tuple(sorted({*brokers, *self.named.keys() - leaders}))  # an earlier plan may still be in doubt
        try:
            async with asyncio.timeout(LONGEST.total_seconds()):
                holding = await self._hold(plan, brokers)
            seen = await self._record(holding)
        except (ApiError, ClusterFault, TimeoutError) as trouble:
            holding = _nobody(brokers, _why(trouble))
            seen = None
        await self._tell(holding, seen)

    @property
    def pods_held(self) -> frozenset[str]:
        """Names of the Pods that must not be created, or may have to stay away."""
        return frozenset(self.named.values())

    @property
    def keeps_away(self) -> bool:
        """See the port."""
        return bool(self.named)

    async def let_go(self) -> None:
        """Name none any more: whoever makes these Pods may make them again. What can't be written is tried again."""
        if not self.named:
            return
        held: Mapping[BrokerId, str] = {}

        def without(status: Mapping[str, Any]) -> Mapping[str, Any]:
            nonlocal held
            held = named_by(status) or held  # none at the second try: the first one was done, and its answer lost
            return let_go_of(status)

        try:
            seen = await change_status(self.api, self._path, self.uid, without)
        except ApiError as error:
            _LOG.warning("The status still names the Pods that were held back; it is tried again: %s", error)
            return
        pods, self.named = held if seen else self.named, {}
        self.changed()
        await self.again(self.key, seen, pods.values())

    async def _hold(self, plan: Plan, brokers: Sequence[BrokerId]) -> Holding:
        if why := await self.unguarded():
            return _nobody(brokers, f"the API server would create the Pod all the same: {why}")
        if self.pods is None:
            return _nobody(brokers, "which Pod is its, nobody knows: the WatchedCluster has no strimziRef")
        now, pods = await asyncio.gather(
            self.cluster.gather(Scope(()), plan.policy.widest_evidence_rules), self.pods.look()
        )
        if isinstance(pods, Reason):
            kept = tuple(HeldPod(id, self.named[id]) for id in brokers if id in self.named)  # refused as before
            return replace(_nobody(set(brokers) - self.named.keys(), pods.message), pods=kept)
        unseen = {*brokers} - {pod.broker for pod in pods if pod.name} - self.named.keys()
        before = {**(await self._held_elsewhere(plan.cluster_id) if unseen else {}), **self.named}
        refused = frozenset(self.named)
        chosen = choose(brokers, now.cluster, pods, before)
        if await self._record(chosen) is None:
            return Holding()  # the recovery is gone: nothing would hold them
        left = await self._remove(self.pods, now.cluster, chosen.pods, refused)
        stay = tuple(NotHeld(each.broker, left[each.broker]) for each in chosen.pods if each.broker in left)
        held = tuple(each for each in chosen.pods if each.broker not in left)
        return replace(chosen, pods=held, not_held=(*chosen.not_held, *stay))

    async def _remove(
        self, pods: Pods, cluster: ClusterState, chosen: Sequence[HeldPod], refused: Collection[BrokerId]
    ) -> Mapping[BrokerId, str]:
        """Delete them, but who runs by now; returns of whom a Pod is left, and why.

        The first look is seconds old: brokers were asked meanwhile. `refused`: whose Pods were refused before; that
        none can be seen now ends no hold of theirs.
        """
        seen = await pods.look()
        if isinstance(seen, Reason):
            return _unseen(chosen, refused, seen)
        again = choose([each.broker for each in chosen], cluster, seen, self.named)
        why_left = {each.broker: each.why for each in again.not_held}
        return await _Removal(self, pods, again.pods, refused, why_left).done()

    async def _held_elsewhere(self, cluster_id: str) -> Mapping[BrokerId, str]:
        """The Pods that other recoveries of this cluster keep away: there are none of them to be seen. By broker."""
        namespace, own = self.key

        def held(each: Object) -> Mapping[BrokerId, str]:
            name = each["metadata"]["name"]
            return named_by(each["status"]) if name != own and _holds(each, cluster_id) else {}

        try:
            every = await self.api.list_kept(RECOVERIES.path(namespace), held, params={"fieldSelector": UNFINISHED})
        except ApiError as error:
            _LOG.warning("what other recoveries hold back can't be read: %s", error)
            return {}
        return {id: name for named in every for id, name in named.items()}

    async def _record(self, holding: Holding) -> Object | None:
        """Name them in the status; None: the recovery is gone. Raises ApiError."""
        said, named = _as_said(holding), {each.broker: each.name for each in holding.pods}
        self.named = {**self.named, **named}  # a server that does not answer may have written it
        seen = await change_status(self.api, self._path, self.uid, lambda status: {**status, HOLD_BACK: said})
        self.named = named
        self.changed()
        return seen

    async def _tell(self, holding: Holding, seen: Object | None) -> None:
        for pod in holding.pods:
            _LOG.info("Pod %s of broker %d is held back", pod.name, pod.broker)
        for each in holding.not_held:
            _LOG.warning("broker %d is not kept away: %s", each.broker, each.why)
        if seen is None:
            return
        for pod in holding.pods:
            message = f"Pod {pod.name} of broker {pod.broker} is down, and is not created until leaders are elected"
            await self.told(seen, Reason("PodHeld", message), True)
        for each in holding.not_held:
            message = f"broker {each.broker} is not kept away, and Kafka can elect it if it returns: {each.why}"
            await self.told(seen, Reason("PodNotHeld", message), False)

    @property
    def _path(self) -> str:
        return RECOVERIES.path(*self.key)


@dataclass
class _Removal:
    """Deletes Pods and looks whether they stay away."""

    hold: PodHold
    pods: Pods
    wanted: Sequence[HeldPod]
    refused: Collection[BrokerId]
    """Whose Pods were refused before this hold."""
    left: dict[BrokerId, str] = field(default_factory=dict)
    """Brokers whose Pod is there all the same, and why."""
    again: set[BrokerId] = field(default_factory=set)
    """Those whose Pod was made anew once, by an API server that had not heard of the hold yet."""

    async def done(self) -> Mapping[BrokerId, str]:
        """Delete; returns of whom a Pod is left, and why. Raises nothing of the API's."""
        await asyncio.gather(*(self._delete(each.broker, each.name, each.uid) for each in self.wanted if each.uid))
        clock = asyncio.get_running_loop().time
        end = clock() + WITHIN.total_seconds()
        quiet = clock() + QUIET.total_seconds()
        while True:
            await asyncio.sleep(POLL.total_seconds())
            seen = await self.pods.look()
            if isinstance(seen, Reason):
                return _unseen(self.wanted, self.refused, seen) | self.left
            running = [each for each in self.wanted if each.broker not in self.left and _runs_on(each, seen)]
            if not running and clock() >= quiet:
                return self.left
            if clock() >= end:
                return self.left | {each.broker: f"Pod {each.name} is still there" for each in running}
            for each in running:
                await self._once_more(each, seen)

    async def _once_more(self, pod: HeldPod, seen: Iterable[BrokerPod]) -> None:
        """Delete the Pod that was made after the first one was deleted; a second one shows that nobody refuses them."""
        new = next((each for each in seen if each.name == pod.name and each.uid != pod.uid), None)
        if new is None:
            return
        if new.ready or pod.broker in self.again:
            self.left[pod.broker] = f"Pod {pod.name} was created again: is manifests/admission/held-pods.yaml in force?"
            return
        self.again.add(pod.broker)
        await self._delete(pod.broker, pod.name, new.uid)

    async def _delete(self, broker: BrokerId, name: str, uid: str | None) -> None:
        namespace, _ = self.hold.key
        try:
            await self.hold.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", uid=uid)
        except Conflict:
            return  # another one has its name by now, and is looked at next
        except ApiError as error:
            self.left[broker] = f"Pod {name} can't be deleted: {_why(error)}"


def _unseen(wanted: Iterable[HeldPod], refused: Collection[BrokerId], why: Reason) -> dict[BrokerId, str]:
    """Of whom a Pod may be left where none can be seen: of those that nobody refused before."""
    return {each.broker: why.message for each in wanted if each.broker not in refused}


def _runs_on(pod: HeldPod, seen: Collection[BrokerPod]) -> bool:
    return any(each.name == pod.name and each.reason != TERMINATING for each in seen)


def named_by(status: Mapping[str, Any]) -> dict[BrokerId, str]:
    """The Pods that a status holds back, by broker."""
    return {BrokerId(each["broker"]): each["name"] for each in (status.get(HOLD_BACK) or {}).get("pods") or ()}


def _holds(recovery: Object, cluster_id: str) -> bool:
    """Whether it is a recovery of this cluster that holds Pods back: one that ends holds none, whatever it names."""
    spec, status = recovery["spec"], recovery.get("status") or {}
    return bool(spec.get("clusterId") == cluster_id and status.get(HOLD_BACK) and not is_over(recovery))


def is_over(recovery: Object) -> bool:
    """Whether the admission policy refuses no Pod for it any more, whatever its status names."""
    return bool(recovery["spec"].get("abort") or recovery["metadata"].get("deletionTimestamp"))


def let_go_of(status: Mapping[str, Any]) -> dict[str, Any]:
    """The status without what it holds back; whom it could not hold back is told on."""
    not_held = (status.get(HOLD_BACK) or {}).get("notHeld")
    kept = {name: value for name, value in status.items() if name != HOLD_BACK}
    return {**kept, **({HOLD_BACK: {"notHeld": not_held}} if not_held else {})}


def _as_said(holding: Holding) -> dict[str, Any]:
    pods = [{"name": each.name, "broker": int(each.broker)} for each in holding.pods]
    not_held = [{"broker": int(each.broker), "message": cut(each.why)} for each in holding.not_held]
    return {name: said for name, said in (("pods", pods), ("notHeld", not_held)) if said}


def _nobody(brokers: Iterable[BrokerId], why: str) -> Holding:
    return Holding(not_held=tuple(NotHeld(broker, why) for broker in sorted(brokers)))


def _why(trouble: Exception) -> str:
    if isinstance(trouble, ApiError) and trouble.status == HTTPStatus.FORBIDDEN:
        return f"{trouble.message}; manifests/rbac/optional/hold-back.yaml allows it"
    if isinstance(trouble, TimeoutError):
        return f"it took longer than {LONGEST.total_seconds():g} s"
    return str(trouble)
