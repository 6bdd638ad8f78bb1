"""What the watcher of one cluster asks the operator, and what it has done: a recovery is opened for an incident."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.kube.machinery.api import AlreadyExists, ApiError, Conflict, Object
from kafka_recovery.kube.machinery.applied import FIELD_MANAGER
from kafka_recovery.kube.machinery.status_changes import ATTEMPTS
from kafka_recovery.kube.resources.kinds import API_VERSION, FROM_INCIDENT, RECOVERIES
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, WATCHED_LABEL, label_value
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.watching.incidents import Incident
from kafka_recovery.kube.watching.room import Used
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

    def used(self) -> Used:
        """How much room recoveries of this cluster's incidents take up."""
        return self.clusters.used(self.key)

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
            if made := await self._created(incident, body):
                await self._mark(made)
        except ApiError as error:
            raise NotOpened(str(error)) from error
        self.clusters.opened((namespace, incident.name))

    async def _created(self, incident: Incident, body: Object) -> Object | None:
        """The object that has room as an incident; None: it has ended, or somebody opened it. Raises ApiError.

        Raises NotOpened where one of its name is for something else: to take that for it would forget these partitions.
        """
        api, namespace = self.clusters.api, self.key[0]
        try:
            made = await api.create(RECOVERIES.path(namespace), body)
        except AlreadyExists:  # perhaps ours, from before a crash, or by a call that was answered late
            there = await api.get(RECOVERIES.path(namespace, incident.name))
            if there.get("status", {}).get("finished"):
                return None
            if any(there["spec"].get(field) != wanted for field, wanted in body["spec"].items()):
                why = f"PartitionRecovery {incident.name} has its name and is for something else: delete that one"
                raise NotOpened(why) from None
            asked = {name: value for name, value in there["spec"].items() if name not in ("suspend", "abort")}
            return there if asked == body["spec"] else None
        _LOG.warning("opened recovery %s of %d offline partitions", incident.name, len(incident.partitions))
        return made

    async def _mark(self, made: Object) -> None:
        """Say in the status, which nobody else may write, that it was opened from an incident. Raises ApiError."""
        path, seen = RECOVERIES.path(self.key[0], made["metadata"]["name"]), made
        for _ in range(ATTEMPTS):
            status = seen.get("status", {})
            if seen["metadata"]["uid"] != made["metadata"]["uid"] or status.get(FROM_INCIDENT):
                return
            try:
                await self.clusters.api.apply_status(path, seen, {**status, FROM_INCIDENT: True})
            except Conflict:  # it is taken up already, and so its status is being written
                seen = await self.clusters.api.get(path)
            else:
                return
        raise NotOpened(f"the status of {made['metadata']['name']} can't be written: others write it all the time")
