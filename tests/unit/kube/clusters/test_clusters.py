"""How watched clusters are opened: what a person has to mend is told, what passes is not, and nothing is done twice."""

from __future__ import annotations

import pytest

from kafka_recovery.cluster.errors import InvalidConfiguration
from kafka_recovery.cluster.security import Security
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.cant_open import secret_missing
from kafka_recovery.kube.clusters.opening import why_not_open
from kafka_recovery.kube.journal.facts import FACT_LABEL
from kafka_recovery.kube.machinery.api import ApiError, NotServed, Unanswered
from kafka_recovery.kube.machinery.metrics import labelled
from kafka_recovery.kube.resources.kinds import CLUSTERS
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, label_value
from unit.kube.clusters.watched import Watched
from unit.kube.journal.journals import PLACE
from unit.kube.our_objects import PROD
from unit.recovery.brokers import CLUSTER


@pytest.mark.parametrize(
    ("problem", "code", "told"),
    [
        (InvalidDocument("spec.clusterId: is missing"), "InvalidSpec", "spec.clusterId"),
        (secret_missing("ca", None, "spec.tls.caSecretRef"), "InvalidReference", "Secret ca is not there"),
        (ApiError(400, "BadRequest", "field label not supported"), "ApiMissing", "are the CRDs older"),
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


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each TLS context that was made."""
    made: list[str] = []
    monkeypatch.setattr(Security, "tls_context", lambda security: made.append(str(security.protocol)))
    return made


async def test_certificates_are_looked_at_once_however_often_a_cluster_is(
    watched: Watched, contexts: list[str]
) -> None:
    """The system's take tens of milliseconds to read, and an operator has a hundred clusters."""
    watched.api.change(CLUSTERS, "prod", tls={})

    for _ in range(3):
        await watched.all.reconcile(PROD)
    assert contexts == ["SSL"]

    watched.api.change(CLUSTERS, "prod", bootstrapServers=["another:9093"])
    await watched.all.reconcile(PROD)
    assert contexts == ["SSL"] * 2


async def test_certificates_that_are_none_are_told_and_what_was_open_is_closed(
    watched: Watched, contexts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(security: Security) -> None:
        raise InvalidConfiguration("Secret ca, ca.crt: is no certificate")

    await watched.all.reconcile(PROD)
    monkeypatch.setattr(Security, "tls_context", refuse)
    watched.api.change(CLUSTERS, "prod", tls={})

    await watched.all.reconcile(PROD)

    assert watched.all.open() == ()
    told = watched.api.objects[CLUSTERS.path(*PROD)]["status"]["conditions"]
    assert ("Ready", "False", "InvalidConfiguration") in [(c["type"], c["status"], c["reason"]) for c in told]


async def test_a_cluster_that_can_not_be_opened_is_shown_until_it_is_gone(
    watched: Watched, contexts: list[str]
) -> None:
    watched.api.change(CLUSTERS, "prod", clusterId="")
    labels = labelled("/".join(PROD))

    await watched.all.reconcile(PROD)
    assert watched.metrics.registry.get_sample_value("kafka_recovery_watching", labels) == 0

    del watched.api.objects[CLUSTERS.path(*PROD)]
    await watched.all.reconcile(PROD)
    assert watched.metrics.registry.get_sample_value("kafka_recovery_watching", labels) is None


async def test_a_kind_that_is_not_served_closes_no_cluster(
    watched: Watched, contexts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody took the definitions away, perhaps to put newer ones there: that is not the end of what was defined."""

    async def unserved(*arguments: object, **options: object) -> None:
        raise NotServed(404, "NotServed", "the API server does not know it")

    await watched.all.reconcile(PROD)
    monkeypatch.setattr(watched.api, "get", unserved)

    with pytest.raises(NotServed):
        await watched.all.reconcile(PROD)

    assert len(watched.all.open()) == 1


async def test_a_cluster_is_watched_though_a_record_that_looks_like_ours_can_not_be_read(
    watched: Watched, contexts: list[str]
) -> None:
    labels = {CLUSTER_LABEL: label_value(CLUSTER), FACT_LABEL: "begun"}
    await watched.api.create(PLACE, {"metadata": {"name": "a-copy", "labels": labels}})

    await watched.all.reconcile(PROD)

    assert len(watched.all.open()) == 1
    reason, message = watched.ready(PROD)
    assert (reason, "deleted recovery" in message and "RecoveryRecord a-copy" in message) == ("JournalDamaged", True)


async def test_a_cluster_with_a_field_of_a_newer_release_is_watched_and_says_what_is_ignored(watched: Watched) -> None:
    watched.api.change(CLUSTERS, "prod", aNewField=False)

    await watched.all.reconcile(PROD)

    assert watched.acting() == [PROD]
    assert watched.ready(PROD, "UnknownFields")[1].endswith(
        "ignores what it does not know: spec.aNewField says nothing"
    )
