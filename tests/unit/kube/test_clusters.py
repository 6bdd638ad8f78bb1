"""Why a watched cluster can't be opened: what a person has to mend is told, what passes is not."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.documents import InvalidDocument
from kafka_recovery.kube.api import ApiError, Unanswered
from kafka_recovery.kube.clusters import why_not_open
from kafka_recovery.kube.credentials import SecretMissing


@pytest.mark.parametrize(
    ("problem", "code", "told"),
    [
        (InvalidDocument("spec.clusterId: is missing"), "InvalidSpec", "spec.clusterId"),
        (SecretMissing("ca", None, "spec.tls.caSecretRef"), "SecretMissing", "Secret ca is not there"),
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
