"""An incident becomes a PartitionRecovery that people find."""

from __future__ import annotations

import pytest

from kafka_recovery.kube.clusters import clusters as module
from kafka_recovery.kube.clusters.desk import ClusterDesk
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, WATCHED_LABEL, label_value
from kafka_recovery.kube.watching.incidents import Incident
from kafka_recovery.kube.watching.watcher import NotOpened
from unit.kube.clusters.test_clusters_changing import SilentKafka, Watched
from unit.kube.our_objects import PROD, inhabited
from unit.kube.watching.sights import offline, seconds
from unit.recovery.brokers import CLUSTER

LONG = "a" * 100


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(module, "KafkaCluster", SilentKafka)
    return Watched(inhabited())


@pytest.mark.parametrize("name", [PROD[1], LONG], ids=["prod", "a long name"])
async def test_it_is_found_by_its_cluster(watched: Watched, name: str) -> None:
    await ClusterDesk(watched.all, (PROD[0], name), CLUSTER).open_incident(
        Incident("an-incident", (offline(),), seconds(0))
    )

    opened = watched.api.recovery("an-incident")
    assert opened["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "kafka-recovery-operator",
        WATCHED_LABEL: label_value(name),
        CLUSTER_LABEL: label_value(CLUSTER),
    }
    assert len(label_value(name)) <= 63
    assert opened["spec"]["clusterRef"] == {"name": name}


async def test_one_that_is_there_already_will_do(watched: Watched) -> None:
    desk, incident = ClusterDesk(watched.all, PROD, CLUSTER), Incident("an-incident", (offline(),), seconds(0))
    await desk.open_incident(incident)
    before = watched.api.recovery("an-incident")

    await desk.open_incident(incident)

    assert watched.api.recovery("an-incident") == before


async def test_one_that_can_not_be_opened_is_told(watched: Watched) -> None:
    watched.api.refused = ApiError(403, "Forbidden", "exceeded quota")

    with pytest.raises(NotOpened, match="exceeded quota"):
        await ClusterDesk(watched.all, PROD, CLUSTER).open_incident(Incident("an-incident", (offline(),), seconds(0)))
