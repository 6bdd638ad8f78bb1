"""Clusters that Strimzi runs: the way in from a Kafka and a KafkaUser, and whether a roll or a rebalance goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters import strimzi_controllers as controllers
from kafka_recovery.kube.clusters import strimzi_objects as objects
from kafka_recovery.kube.clusters.cant_open import CantOpen, secret_missing
from kafka_recovery.kube.clusters.credentials import Credentials, credentials
from kafka_recovery.kube.clusters.history import HistoryFollower, HistoryStore, MetadataLogReader
from kafka_recovery.kube.clusters.strimzi_objects import (
    BROKER_LABEL,
    CLUSTER_LABEL,
    USER_WHERE,
    StrimziPending,
)
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound, Object
from kafka_recovery.kube.resources.fields import StrimziRef
from kafka_recovery.kube.resources.kinds import WatchedCluster
from kafka_recovery.kube.resources.ways_in import ControllersSpec
from kafka_recovery.kube.watching.waits import UNSEEN, Others, Waits

__all__ = [
    "Strimzi",
    "StrimziPending",
    "follower",
    "others",
    "way_in",
]

GROUP = "kafka.strimzi.io"

SPOKEN = ("v1", "v1beta2")
"""Versions of Strimzi's API that we read, best first: Strimzi has v1 since 0.49, and nothing else since 1.0."""

_DEADLINE = timedelta(seconds=3)
"""For each question while an incident waits for the answers."""


async def way_in(api: Api, cluster: WatchedCluster) -> Credentials:
    """Addresses and credentials, by the cluster's own spec or as Strimzi has them now.

    Raises CantOpen, ApiError and InvalidDocument.
    """
    if cluster.strimzi:
        cluster = await Strimzi(api, cluster.meta.namespace, cluster.strimzi).way_in(cluster)
    return await credentials(api, cluster)


def follower(
    cluster: WatchedCluster, kafka: MetadataLogReader, store: HistoryStore, changed: Callable[[], None]
) -> HistoryFollower:
    """Who follows its metadata log, once started; what a person has to do for that differs where Strimzi runs it."""
    if cluster.strimzi is None:
        return HistoryFollower(kafka, store, changed)
    name = cluster.strimzi.name
    return HistoryFollower(kafka, store, changed, advice=controllers.advice(name), problem=controllers.unasked(name))


def others(api: Api, cluster: WatchedCluster) -> Others | None:
    """Who else works on the cluster, if we can know."""
    return Strimzi(api, cluster.meta.namespace, cluster.strimzi) if cluster.strimzi else None


@dataclass(frozen=True, slots=True)
class Strimzi:
    """One Kafka of Strimzi's. Port `Others`."""

    api: Api
    namespace: str
    ref: StrimziRef

    async def way_in(self, cluster: WatchedCluster) -> WatchedCluster:
        """The cluster with what its strimziRef leaves out. Raises CantOpen, InvalidDocument."""
        try:
            version = await self._version()
            kafka = await self.api.get(f"{self._path('kafkas', version)}/{self.ref.name}")
        except NotFound:
            message = f"there is no Kafka {self.ref.name} ({GROUP}) in namespace {self.namespace}"
            raise CantOpen("InvalidReference", message) from None
        except ApiError as error:
            raise _forbidden(error) from error
        found = objects.way_in(kafka, self.ref, cluster)
        if self.ref.user:
            objects.check_owner(await self._secret(self.ref.user, USER_WHERE), self.ref)
        wanted = cluster.controllers
        if isinstance(wanted, ControllersSpec) and not wanted.addresses:
            found = replace(found, controllers=await self._controllers(wanted, version))
        return found

    async def _controllers(self, wanted: ControllersSpec, version: str) -> ControllersSpec | Reason:
        """Where the controllers are. What keeps them from being known keeps nobody from recovering the cluster.

        Raises ApiError for what is over by itself: the log that was read so far must not be given up for it.
        """
        secret = controllers.ca_secret(self.ref.name)
        try:
            pools = await self._all(self._path("kafkanodepools", version), f"{CLUSTER_LABEL}={self.ref.name}")
            named = wanted.tls is not None and wanted.tls.ca is not None
            ca = {} if named else (await self._secret(secret, "spec.controllers.tls.caSecretRef")).get("data") or {}
            return controllers.found(wanted, pools, ca, self.ref.name, self.namespace)
        except CantOpen as problem:
            return problem.reason
        except InvalidDocument as wrong:
            return Reason("InvalidReference", str(wrong))
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            right = f"manifests/rbac/optional/strimzi.yaml, and the verb get on Secret {secret}"
            return Reason("Forbidden", f"the controllers can't be found: {error.message}; it takes {right}")

    async def at_work(self) -> Waits:
        """See the port."""
        mine = f"{CLUSTER_LABEL}={self.ref.name}"
        try:
            version = await self._version()
            pods, pools, rebalances = await asyncio.gather(
                self._all(f"/api/v1/namespaces/{self.namespace}/pods", f"{mine},{BROKER_LABEL}=true"),
                self._all(self._path("kafkanodepools", version), mine),
                self._all(self._path("kafkarebalances", version), mine),
            )
            return objects.at_work(pods, pools, rebalances, datetime.now(UTC))
        except (ApiError, InvalidDocument, CantOpen) as error:
            why = error.reason if isinstance(error, ApiError) else str(error)
            message = f"whether Strimzi restarts brokers of Kafka {self.ref.name} can't be seen: {why}"
            return Waits(everything=Reason(UNSEEN, message))

    async def _all(self, path: str, selector: str) -> list[Object]:
        return await self.api.list_all(path, params={"labelSelector": selector}, deadline=_DEADLINE)

    async def _version(self) -> str:
        """The version of Strimzi's API to ask in. Raises CantOpen if there is none."""
        try:
            group: Mapping[str, Any] = await self.api.get(f"/apis/{GROUP}", deadline=_DEADLINE)
        except NotFound:
            message = f"Strimzi is not installed: the API server does not know {GROUP}"
            raise CantOpen("ApiMissing", f"{message}; spec.strimziRef needs its definitions") from None
        served = [each.get("version") for each in group.get("versions") or ()]
        for version in SPOKEN:
            if version in served:
                return version
        message = f"of {GROUP} the API server has {', '.join(map(str, served))}; this version reads"
        raise CantOpen("ApiMissing", f"{message} {' and '.join(SPOKEN)}")

    async def _secret(self, name: str, where: str) -> Object:
        try:
            return await self.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{name}")
        except NotFound:
            raise secret_missing(name, None, where) from None

    def _path(self, plural: str, version: str) -> str:
        return f"/apis/{GROUP}/{version}/namespaces/{self.namespace}/{plural}"


def _forbidden(error: ApiError) -> Exception:
    """A refusal by RBAC as what can be done about it; any other error as it is."""
    if error.status != HTTPStatus.FORBIDDEN:
        return error
    return CantOpen("Forbidden", f"{error.message}; manifests/rbac/optional/strimzi.yaml allows it")
