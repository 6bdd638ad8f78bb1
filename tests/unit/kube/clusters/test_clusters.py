"""How watched clusters are opened: what a person has to mend is told, what passes is not, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from kafka_recovery.cluster.errors import InvalidConfiguration
from kafka_recovery.cluster.security import Security
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.clusters import Clusters
from kafka_recovery.kube.clusters.credentials import SecretMissing
from kafka_recovery.kube.clusters.opening import why_not_open
from kafka_recovery.kube.journal.facts import FACT_LABEL
from kafka_recovery.kube.machinery.api import ApiError, NotServed, Unanswered, unfenced
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.resources.kinds import CLUSTERS
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, label_value
from kafka_recovery.kube.watching.watcher import Pace
from unit.kube.journal.journals import PLACE
from unit.kube.office import Told
from unit.kube.our_objects import PROD, OurObjects, inhabited
from unit.recovery.brokers import CLUSTER


@pytest.mark.parametrize(
    ("problem", "code", "told"),
    [
        (InvalidDocument("spec.clusterId: is missing"), "InvalidSpec", "spec.clusterId"),
        (SecretMissing("ca", None, "spec.tls.caSecretRef"), "SecretMissing", "Secret ca is not there"),
        (ApiError(400, "BadRequest", "field label not supported"), "ApiRequestRejected", "are the CRDs older"),
        (ApiError(403, "Forbidden", "cannot list configmaps"), "Forbidden", "manifests/rbac: cannot list configmaps"),
    ],
)
def test_what_a_person_has_to_mend_is_told(problem: Exception, code: str, told: str) -> None:
    reason = why_not_open(problem)

    assert reason.code == code
    assert told in reason.message


def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    with pytest.raises(Unanswered):
        why_not_open(Unanswered(0, "Unanswered", "GET /: no answer"))


class Silent:
    """A Kafka that never answers."""

    def __init__(self, *arguments: object, **options: object) -> None:
        """Whatever the way in is."""

    async def pulse(self, *arguments: object, **options: object) -> None:
        await asyncio.Event().wait()

    async def __aexit__(self, *error: object) -> None:
        """Nothing is open."""


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each TLS context that was made."""
    made: list[str] = []
    monkeypatch.setattr("kafka_recovery.kube.clusters.clusters.KafkaCluster", Silent)
    monkeypatch.setattr(Security, "tls_context", lambda security: made.append(str(security.protocol)))
    return made


@pytest.fixture
async def clusters() -> AsyncIterator[tuple[Clusters, OurObjects]]:
    api = inhabited()
    all = Clusters(
        cast(Any, api),
        cast(Any, Told()),
        Metrics(),
        Pace(),
        unfenced,
        soon=lambda key, after: None,
        changed=lambda key: None,
        stirred=lambda key: None,
        opened=lambda key: None,
        claims=lambda key: {},
    )
    yield all, api
    await all.stop()


async def test_certificates_are_looked_at_once_however_often_a_cluster_is(
    clusters: tuple[Clusters, OurObjects], contexts: list[str]
) -> None:
    """The system's take tens of milliseconds to read, and an operator has a hundred clusters."""
    all, api = clusters
    api.change(CLUSTERS, "prod", tls={})

    for _ in range(3):
        await all.reconcile(PROD)
    assert contexts == ["SSL"]

    api.change(CLUSTERS, "prod", bootstrapServers=["another:9093"])
    await all.reconcile(PROD)
    assert contexts == ["SSL"] * 2


async def test_certificates_that_are_none_are_told_and_what_was_open_is_closed(
    clusters: tuple[Clusters, OurObjects], contexts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(security: Security) -> None:
        raise InvalidConfiguration("Secret ca, ca.crt: is no certificate")

    all, api = clusters
    await all.reconcile(PROD)
    monkeypatch.setattr(Security, "tls_context", refuse)
    api.change(CLUSTERS, "prod", tls={})

    await all.reconcile(PROD)

    assert all.open() == ()
    told = api.objects[CLUSTERS.path(*PROD)]["status"]["conditions"]
    assert ("Ready", "False", "InvalidConfiguration") in [(c["type"], c["status"], c["reason"]) for c in told]


async def test_a_cluster_that_can_not_be_opened_is_shown_until_it_is_gone(
    clusters: tuple[Clusters, OurObjects], contexts: list[str]
) -> None:
    all, api = clusters
    api.change(CLUSTERS, "prod", clusterId="")
    labels = {"cluster": "/".join(PROD)}

    await all.reconcile(PROD)
    assert all._metrics.registry.get_sample_value("kafka_recovery_watching", labels) == 0

    del api.objects[CLUSTERS.path(*PROD)]
    await all.reconcile(PROD)
    assert all._metrics.registry.get_sample_value("kafka_recovery_watching", labels) is None


async def test_a_kind_that_is_not_served_closes_no_cluster(
    clusters: tuple[Clusters, OurObjects], contexts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody took the definitions away, perhaps to put newer ones there: that is not the end of what was defined."""

    async def unserved(*arguments: object, **options: object) -> None:
        raise NotServed(404, "NotServed", "the API server does not know it")

    all, api = clusters
    await all.reconcile(PROD)
    monkeypatch.setattr(api, "get", unserved)

    with pytest.raises(NotServed):
        await all.reconcile(PROD)

    assert len(all.open()) == 1


async def test_a_cluster_is_watched_though_a_record_that_looks_like_ours_can_not_be_read(
    clusters: tuple[Clusters, OurObjects], contexts: list[str]
) -> None:
    all, api = clusters
    labels = {CLUSTER_LABEL: label_value(CLUSTER), FACT_LABEL: "begun"}
    await api.create(PLACE, {"metadata": {"name": "a-copy", "labels": labels}})

    await all.reconcile(PROD)

    assert len(all.open()) == 1
    told = api.objects[CLUSTERS.path(*PROD)]["status"]["conditions"]
    ready = next(each for each in told if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "OrphanedJournalDamaged")
    assert "RecoveryRecord a-copy" in ready["message"]
