"""The clusters of one operator's process, whose Kafkas never answer."""

from __future__ import annotations

from typing import Any, Self, cast

from kafka_recovery.cluster.errors import ClusterUnavailable
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.cant_open import secret_missing
from kafka_recovery.kube.clusters.clusters import Clusters
from kafka_recovery.kube.machinery.metrics import Metrics, labelled
from kafka_recovery.kube.resources.kinds import CLUSTERS
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.resources.watched_by import Places
from kafka_recovery.kube.watching.watcher import Pace
from unit.kube.office import Told
from unit.kube.our_objects import PROD, OurObjects


class SilentKafka:
    """All of `KafkaCluster` that is asked for here: it never answers."""

    def __init__(self, *_: object, **__: object) -> None: ...

    async def pulse(self, *_: object, **__: object) -> object:
        raise ClusterUnavailable({"kafka:9092": Reason("BrokerUnreachable", "connection refused")})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


class Watched:
    """The clusters of one operator's process; `queue` is what should be reconciled, `woken` whose recoveries were."""

    def __init__(self, api: OurObjects, places: Places | None = None) -> None:
        self.api = api
        self.queue: list[Key] = []
        self.woken: list[Key] = []
        self.events = Told()
        self.at_work = False
        """Whether a recovery of these clusters may have altered orders."""
        self.restored = False
        """Whether this process has seen that it has not, or not any more."""
        self.metrics = Metrics()
        self.all = Clusters(
            cast(Any, api),
            cast(Any, self.events),
            self.metrics,
            Pace(),
            fence=lambda: None,
            soon=lambda key, after: self.queue.append(key),
            changed=self.woken.append,
            stirred=self.woken.append,
            opened=lambda key: None,
            claims=lambda key: {},
            at_work=lambda key: self.at_work,
            is_restored=lambda key: self.restored,
            places=places,
        )

    async def settle(self, *keys: Key) -> None:
        """Reconcile these, and whatever that makes necessary."""
        self.queue += keys
        while self.queue:
            await self.all.reconcile(self.queue.pop(0))

    def ready(self, key: Key, kind: str = "Ready") -> tuple[str, str]:
        conditions = self.api.objects[CLUSTERS.path(*key)]["status"]["conditions"]
        return next((each["reason"], each["message"]) for each in conditions if each["type"] == kind)

    def known(self, key: Key = PROD) -> float | None:
        """What the alert is about."""
        return self.metrics.registry.get_sample_value("kafka_recovery_history_known", labelled("/".join(key)))

    def acting(self) -> list[Key]:
        return [each.key for each in self.all.open()]


async def loses_its_secret(*arguments: object) -> None:
    """In place of `way_in`."""
    raise secret_missing("ca", None, "spec.tls.caSecretRef")
