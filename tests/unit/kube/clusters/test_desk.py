"""An incident becomes a PartitionRecovery that people find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafka_recovery.kube.clusters.desk import ClusterDesk
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.resources.kinds import FROM_INCIDENT, RECOVERIES
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, WATCHED_LABEL, label_value
from kafka_recovery.kube.watching.incidents import Incident
from kafka_recovery.kube.watching.watcher import NotOpened
from unit.kube.clusters.watched import Watched
from unit.kube.our_objects import PROD
from unit.kube.watching.sights import offline, seconds
from unit.recovery.brokers import CLUSTER

LONG = "a" * 100
INCIDENT = Incident("an-incident", (offline(),), seconds(0))


@pytest.fixture
def desk(watched: Watched) -> ClusterDesk:
    return ClusterDesk(watched.all, PROD, CLUSTER)


@pytest.mark.parametrize("name", [PROD[1], LONG], ids=["prod", "a long name"])
async def test_it_is_found_by_its_cluster(watched: Watched, name: str) -> None:
    await ClusterDesk(watched.all, (PROD[0], name), CLUSTER).open_incident(INCIDENT)

    opened = watched.api.recovery("an-incident")
    assert opened["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "kafka-recovery-operator",
        WATCHED_LABEL: label_value(name),
        CLUSTER_LABEL: label_value(CLUSTER),
    }
    assert len(label_value(name)) <= 63
    assert opened["spec"]["clusterRef"] == {"name": name}


async def test_one_that_is_there_already_will_do(watched: Watched, desk: ClusterDesk) -> None:
    await desk.open_incident(INCIDENT)
    before = watched.api.recovery("an-incident")

    await desk.open_incident(INCIDENT)

    assert watched.api.recovery("an-incident") == before


async def test_one_that_can_not_be_opened_is_told(watched: Watched, desk: ClusterDesk) -> None:
    watched.api.refused = ApiError(403, "Forbidden", "exceeded quota")

    with pytest.raises(NotOpened, match="exceeded quota"):
        await desk.open_incident(INCIDENT)


# Which ones have room as the operator's own


async def test_one_that_was_opened_just_before_a_crash_is_known_again(watched: Watched, desk: ClusterDesk) -> None:
    await desk.open_incident(INCIDENT)
    watched.api.recovery("an-incident")["status"] = {"observedGeneration": 1}
    watched.api.recovery("an-incident")["spec"] |= {"suspend": True, "abort": False}

    await desk.open_incident(INCIDENT)

    assert watched.api.recovery("an-incident")["status"] == {"observedGeneration": 1, FROM_INCIDENT: True}


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"rankingRef": {"name": "a-ranking"}}, {}),
        ({}, {"finished": True}),
    ],
    ids=["leaders that somebody named", "one that has ended"],
)
async def test_another_object_of_its_name_has_none_of_its_room(
    watched: Watched, desk: ClusterDesk, spec: dict[str, object], status: dict[str, object]
) -> None:
    await desk.open_incident(INCIDENT)
    there = watched.api.recovery("an-incident")
    there |= {"spec": there["spec"] | spec, "status": status}

    await desk.open_incident(INCIDENT)

    assert watched.api.recovery("an-incident")["status"] == status


async def test_one_of_its_name_for_other_partitions_does_not_have_the_incident_forgotten(
    watched: Watched, desk: ClusterDesk
) -> None:
    """The name can be guessed by anybody who knows of the outage."""
    await desk.open_incident(INCIDENT)
    watched.api.recovery("an-incident")["spec"]["scope"] = {"partitions": [{"topic": "invented", "partition": 1}]}

    with pytest.raises(NotOpened, match="an-incident has its name and is for something else: delete that one"):
        await desk.open_incident(INCIDENT)


async def test_one_that_is_taken_up_meanwhile_says_so_too(
    watched: Watched, desk: ClusterDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, path = watched.api.apply_status, RECOVERIES.path(PROD[0], "an-incident")

    async def second(at: str, seen: Object, status: Mapping[str, Any]) -> Object:
        if not watched.api.statuses:
            await real(path, await watched.api.get(path), {"observedGeneration": 1})
        return await real(at, seen, status)

    monkeypatch.setattr(watched.api, "apply_status", second)
    await desk.open_incident(INCIDENT)

    assert watched.api.recovery("an-incident")["status"] == {"observedGeneration": 1, FROM_INCIDENT: True}


async def test_an_incident_of_which_that_can_not_be_written_is_opened_again(
    watched: Watched, desk: ClusterDesk
) -> None:
    watched.api.refusing = lambda what: what.startswith("status")

    with pytest.raises(NotOpened, match="exceeded quota"):
        await desk.open_incident(INCIDENT)
