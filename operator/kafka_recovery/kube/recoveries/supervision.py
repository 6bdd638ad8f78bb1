"""Port `Supervision`: what the owners of a recovery say in their objects, at this moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol, TypeVar

from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import ApiError, NotFound
from kafka_recovery.kube.recoveries.status import OBSERVE_ONLY
from kafka_recovery.kube.resources.kinds import PartitionRecovery, RecoveryPolicy, WatchedCluster, strictest
from kafka_recovery.kube.resources.objects import Key, Objects
from kafka_recovery.kube.resources.operator_switch import KnownSwitch, OperatorSwitch
from kafka_recovery.kube.resources.watched_by import elsewhere
from kafka_recovery.recovery.signs_of_life import SignsOfLife
from kafka_recovery.recovery.supervision import Authority, Permission

T = TypeVar("T")

OVER = frozenset({Decisive.ABORTED})
"""Halts that end a recovery: its orders are restored, and that is all."""

_BY_AUTHORITY = "authority is Approve, of the operator or of the WatchedCluster"


class ClusterState(Protocol):
    """What the watcher knows about a recovery's cluster."""

    def isolated(self) -> Reason | None:
        """Why our own look can't be trusted, if it can't."""
        ...

    def cooling(self, recovery_uid: str, lasts: timedelta | None) -> Reason | None:
        """Why no automatic election of this recovery may follow the last one of another, if so."""
        ...

    def goes_first(self, recovery_uid: str) -> None:
        """This recovery goes on after a cool-down; the others wait for it."""
        ...


class KubeSupervision:
    """Reads recovery, its cluster (by that name) and policy anew for each question; the strictest word of all holds.

    `named`: who named leaders, if anybody did: that wants an approver. `signs`: what looks found of attestations.
    `lease`: this operator's; who has none believes to watch alone.
    """

    def __init__(
        self,
        objects: Objects,
        key: Key,
        uid: str,
        cluster: str,
        switch: KnownSwitch,
        state: ClusterState,
        *,
        begun: Callable[[], bool],
        failed: Callable[[], bool],
        named: Reason | None,
        refused: Callable[[], Reason | None] = lambda: None,
        signs: SignsOfLife | None = None,
        lease: Key | None = None,
    ) -> None:
        self._objects = objects
        self._key = key
        self._uid = uid
        self._cluster_name = cluster
        self._policy_name: str | None = None
        self._switch = switch
        self._state = state
        self._begun = begun
        self._failed = failed
        self._named = named
        self._refused = refused
        self._signs = signs or SignsOfLife()
        self._lease = lease
        self._last = Policy(())
        self._attested: tuple[Attestation, ...] = ()
        self._beyond_us: Reason | None = None
        """What a newer release would heed in the objects that were read last, and this one does not know."""
        self._again: Callable[[], Permission] | None = None
        self.caution: Reason | None = None
        """Why a person is asked though the rules don't want one; None if the rules decide."""

    async def permission(self) -> Permission:
        """What is allowed now. Whatever can't be read halts: silence is no permission."""
        self._again = None
        try:
            return await self._read()
        except NotFound as missing:
            return self._until_told(self._missing(missing))
        except InvalidDocument as wrong:
            return self._until_told(Reason("InvalidSpec", str(wrong)))
        except ApiError as error:
            message = f"the API server does not tell what is allowed now ({error}); nothing is begun until it does"
            return self._halted(Reason("ObjectsUnreadable", message))

    def judged_again(self) -> Permission | None:
        """What is allowed by what was read last, and by what is known without asking; None: only asking tells.

        It is for who waits. Who is about to act asks for a `permission`.
        """
        return self._again() if self._again else None

    def goes_on(self) -> None:
        """Nobody needs to say yes any more: others that wait for the same wait for this recovery now."""
        self._state.goes_first(self._uid)

    def asked_because(self, now: Permission) -> str:
        """Why a person is asked about all elections, whatever the policy says; empty: it decides."""
        if now.authority is Authority.AUTOMATIC or (self.caution and self.caution.code == OBSERVE_ONLY):
            return ""
        return self.caution.message if self.caution else _BY_AUTHORITY

    def _until_told(self, halt: Reason) -> Permission:
        """What objects say that are watched: it holds until one of them changes."""
        halted = self._halted(halt)
        self._again = lambda: halted
        return halted

    def _halted(self, halt: Reason) -> Permission:
        return Permission(self._last, halt=halt, attestations=self._signs.applied(self._attested))

    async def _read(self) -> Permission:
        """All of it is asked for at once: an election waits for half a dozen of these."""
        looked = await asyncio.gather(
            self._objects.recovery(self._key), self._switch(), self._ruled(), return_exceptions=True
        )
        recovery = _held(looked[0])
        self._attested = recovery.attestations
        if over := self._over(recovery):
            return self._halted(over)
        switch, (cluster, policy) = _held(looked[1]), _held(looked[2])
        if unruled := _unruled(recovery, cluster):
            return self._until_told(unruled)
        if policy is not None:
            self._last = policy.policy
        read = (recovery, cluster) if policy is None else (recovery, cluster, policy)
        self._beyond_us = next(filter(None, (each.unknown.restricts for each in read)), None)
        self._again = lambda: self._judged(self._switch.last or switch, recovery, cluster)
        return self._judged(switch, recovery, cluster)

    def _judged(self, switch: OperatorSwitch, recovery: PartitionRecovery, cluster: WatchedCluster) -> Permission:
        halt = self._refused() or self._halt(switch, recovery, cluster)
        attested = self._signs.applied(recovery.attestations)
        return Permission(self._last, self._authority(switch, cluster), halt, attestations=attested)

    async def _ruled(self) -> tuple[WatchedCluster, RecoveryPolicy | None]:
        """The cluster and its policy, if it names one: in one round trip, if it is the same one as the last time."""
        looked = await asyncio.gather(
            self._objects.cluster((self._key[0], self._cluster_name)),
            self._policy(self._policy_name),
            return_exceptions=True,
        )
        cluster = _held(looked[0])
        if cluster.policy_name == self._policy_name:
            return cluster, _held(looked[1])
        self._policy_name = cluster.policy_name
        return cluster, await self._policy(cluster.policy_name)

    async def _policy(self, name: str | None) -> RecoveryPolicy | None:
        return None if name is None else await self._objects.policy((self._key[0], name))

    def _over(self, recovery: PartitionRecovery) -> Reason | None:
        if recovery.meta.uid != self._uid or recovery.meta.deleting_since:
            return Reason(Decisive.ABORTED, "the PartitionRecovery was deleted: nothing more is elected for it")
        if recovery.abort:
            return Reason(Decisive.ABORTED, "spec.abort is true: nothing more is elected, orders are restored")

    def _missing(self, missing: NotFound) -> Reason:
        if f"partitionrecoveries/{self._key[1]}" in missing.path:
            return Reason(Decisive.ABORTED, "the PartitionRecovery is gone: nothing more is elected for it")
        kind = "RecoveryPolicy" if "/recoverypolicies/" in missing.path else "WatchedCluster"
        name = missing.path.rpartition("/")[2]
        return Reason("InvalidReference", f"{kind} {name} is not there: without it nothing is elected; create it")

    def _halt(self, switch: OperatorSwitch, recovery: PartitionRecovery, cluster: WatchedCluster) -> Reason | None:
        if suspended := suspended_itself(recovery):
            return suspended
        if self._lease and cluster.watched_by not in (None, self._lease):
            return elsewhere(cluster.watched_by)
        if cluster.meta.deleting_since:
            message = f"WatchedCluster {cluster.meta.name} is being deleted: altered orders are restored, no more"
            return Reason("WatchedClusterDeleted", message)
        if cluster.suspend:
            return Reason("Suspended", f"spec.suspend of WatchedCluster {cluster.meta.name} is true")
        return switch.suspended or self._state.isolated()

    def _authority(self, switch: OperatorSwitch, cluster: WatchedCluster) -> Authority:
        """Before a recovery has begun, Observe is shown as Approve: it plans, and its approval is never honoured."""
        allowed = strictest(switch.authority, cluster.authority)
        self.caution = None
        if allowed is Authority.OBSERVE:
            self.caution = Reason(OBSERVE_ONLY, "authority is Observe: this shows what would be done, no more")
            return allowed if self._begun() else Authority.APPROVE
        if allowed is Authority.AUTOMATIC:
            cooling = self._state.cooling(self._uid, self._last.limits.cool_down)
            self.caution = cooling or self._beyond_us or self._doubt()
            return Authority.APPROVE if self.caution else allowed
        return allowed

    def _doubt(self) -> Reason | None:
        if self._named:
            return self._named
        if self._failed():
            return Reason("AfterFailure", "an election of this recovery did not verify: a person decides how to go on")


def suspended_itself(recovery: PartitionRecovery) -> Reason | None:
    """That nothing is begun for it because it says so itself."""
    return Reason("Suspended", "spec.suspend of this PartitionRecovery is true") if recovery.suspend else None


def _unruled(recovery: PartitionRecovery, cluster: WatchedCluster) -> Reason | None:
    """Why no policy holds for a recovery, whatever its cluster's policy says."""
    name = cluster.meta.name
    if cluster.cluster_id != recovery.cluster_id:
        message = f"this recovery is for cluster {recovery.cluster_id}; WatchedCluster {name} is another one now"
        return Reason(Decisive.CLUSTER_ID_MISMATCH, f"{message} ({cluster.cluster_id})")
    if cluster.policy_name is None:
        return Reason(
            Decisive.NO_POLICY, f"WatchedCluster {name} names no policy (spec.policyRef): it is observed only"
        )


def _held(looked: T | BaseException) -> T:
    """What was looked at together with other things; raises what came instead."""
    if isinstance(looked, BaseException):
        raise looked
    return looked
