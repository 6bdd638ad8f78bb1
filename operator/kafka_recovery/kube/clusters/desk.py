"""What the watcher of one cluster asks the operator, and what it has done: a recovery is opened for an incident."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.kube.machinery.api import AlreadyExists, ApiError
from kafka_recovery.kube.machinery.applied import FIELD_MANAGER
from kafka_recovery.kube.resources.kinds import API_VERSION, RECOVERIES
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, WATCHED_LABEL, label_value
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.watching.incidents import Incident
from kafka_recovery.kube.watching.watcher import NotOpened, WatchView

if TYPE_CHECKING:
    from kafka_recovery.kube.clusters.clusters import Clusters

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterDesk:
    """Port `Desk`: what the watcher of one cluster asks and tells."""

    clusters: Clusters
    key: Key
    cluster_id: str

    def policy(self) -> Policy | None:
        """The policy of now; None: observe only."""
        return self.clusters.policy(self.key)

    def open(self) -> Mapping[TopicPartition, str]:
        """Partitions in open recoveries of this cluster, by the recovery's name."""
        return self.clusters.claims(self.key)

    def changed(self, view: WatchView) -> None:
        """Something is not as it was."""
        self.clusters.seen(self.key, view)

    def _labels(self) -> Mapping[str, str]:
        """For people who look for them; nothing here relies on these."""
        return {
            "app.kubernetes.io/managed-by": FIELD_MANAGER,
            WATCHED_LABEL: label_value(self.key[1]),
            CLUSTER_LABEL: label_value(self.cluster_id),
        }

    async def open_incident(self, incident: Incident) -> None:
        """Have a PartitionRecovery for it; one of that name that is there already will do. Raises NotOpened."""
        namespace, name = self.key
        body = {
            "apiVersion": API_VERSION,
            "kind": RECOVERIES.kind,
            "metadata": {"name": incident.name, "namespace": namespace, "labels": self._labels()},
            "spec": {
                "clusterRef": {"name": name},
                "clusterId": self.cluster_id,
                "scope": {"partitions": incident.scope},
            },
        }
        try:
            await self.clusters.api.create(RECOVERIES.path(namespace), body)
        except AlreadyExists:
            return
        except ApiError as error:
            raise NotOpened(str(error)) from error
        self.clusters.opened((namespace, incident.name))
        _LOG.warning("opened recovery %s of %d offline partitions", incident.name, len(incident.partitions))
