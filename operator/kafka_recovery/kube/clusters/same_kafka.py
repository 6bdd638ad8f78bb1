"""WatchedClusters that name one and the same Kafka: two of them would act on it side by side. The oldest acts alone.

A name is no claim. It counts once the Kafka behind it has said that it is the one: who only names another's Kafka, or
names it first, is in nobody's way. While several name it that none of them has seen, all of them only look.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.cant_open import CantOpen
from kafka_recovery.kube.resources.kinds import WatchedCluster
from kafka_recovery.kube.resources.objects import Key


@dataclass(frozen=True, slots=True, order=True)
class _Claim:
    unconfirmed: bool
    created_at: datetime
    key: Key
    cluster_id: str
    uid: str


@dataclass(slots=True)
class SameKafka:
    """Every WatchedCluster that this process can read, in all of its namespaces; those of others are not known."""

    _claims: dict[Key, _Claim] = field(default_factory=dict)
    _namespaces: dict[str, set[str]] = field(default_factory=dict)

    def met(self, spec: WatchedCluster) -> Collection[Key]:
        """A cluster as it is now; returns the others that have to be looked at again because of it."""
        meta = spec.meta
        key = meta.namespace, meta.name
        claim = _Claim(not spec.confirmed, meta.created_at, key, spec.cluster_id, meta.uid)
        if self._claims.get(key) == claim:
            return ()
        self._namespaces.setdefault(spec.cluster_id, set()).add(meta.namespace)
        left = self.forget(key)
        self._claims[key] = claim
        return {*left, *(other.key for other in self._others(claim))}

    def forget(self, key: Key) -> Collection[Key]:
        """It is gone, or can't be understood; returns the others as above."""
        claim = self._claims.pop(key, None)
        return [other.key for other in self._others(claim)] if claim else ()

    def namespaces(self, cluster_id: str) -> Collection[str]:
        """Where recoveries of this Kafka may be: wherever a WatchedCluster of it ever was."""
        return self._namespaces.get(cluster_id, ())

    def let_act(self, key: Key) -> None:
        """Raises CantOpen if another one acts: the oldest of those that were confirmed."""
        claim = self._claims[key]
        first = min(self._others(claim), default=claim)
        if first < claim and not first.unconfirmed:
            why = "was seen to lead there" if claim.unconfirmed else "is older"
            message = f"{_named(first)}, which {why}, {_same(claim)}: only that one acts; delete one"
            raise CantOpen("DuplicateCluster", message)

    def only_looks(self, key: Key) -> Reason | None:
        """Why nothing may be begun with one that may be open, if so: it is not the only one, and not confirmed."""
        claim = self._claims[key]
        others = self._others(claim)
        if not others or not claim.unconfirmed:
            return None
        message = f"{_named(min(others))} {_same(claim)}: nobody is elected before the Kafka behind this one said it"
        return Reason("DuplicateCluster", message)

    def doubled(self, key: Key) -> Reason | None:
        """What is to be said of one that acts though it is not the only one."""
        claim = self._claims.get(key)
        others = [each for each in self._others(claim) if not each.unconfirmed] if claim else ()
        if claim is None or not others:
            return None
        first, more = _named(min(others)), f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        return Reason("DuplicateCluster", f"{first}{more} {_same(claim)}: only this one, the oldest, acts; delete one")

    def _others(self, claim: _Claim) -> Collection[_Claim]:
        return [each for each in self._claims.values() if each.cluster_id == claim.cluster_id and each.key != claim.key]


def _named(claim: _Claim) -> str:
    return f"WatchedCluster {'/'.join(claim.key)}"


def _same(claim: _Claim) -> str:
    return f"has the same clusterId {claim.cluster_id}"
