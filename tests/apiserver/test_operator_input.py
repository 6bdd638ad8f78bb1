"""What may be wrong in a WatchedCluster or its Secrets: the operator says so, and goes on once it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apiserver import incidents
from apiserver.incidents import Object, cluster, condition, reason
from testbed.access import Acl
from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.security import Credentials, Mechanism
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

PASSWORD = "correct-horse-battery"
WRONG = "tr0ub4dor-and-3"
SECRET = "kafka-user"


@pytest.fixture
def kafka(secured_kafka: RealKafka) -> RealKafka:
    """It wants a password over TLS."""
    secured_kafka.add_scram_user("ann", PASSWORD)
    return secured_kafka


def guarded(kafka: RealKafka, **spec: Any) -> Object:
    """A WatchedCluster whose certificate authority and password are in Secrets."""
    wanted = {
        "bootstrapServers": kafka.bootstrap_for(Mechanism.SCRAM).split(","),
        "tls": {"caSecretRef": {"name": "kafka-ca"}},
        "sasl": {
            "mechanism": "SCRAM-SHA-512",
            "username": "ann",
            "passwordSecretRef": {"name": SECRET, "key": "password"},
        },
    }
    return incidents.watched_cluster(kafka, **(wanted | spec))


def secret(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def authority(kafka: RealKafka) -> Object:
    """The Secret with whom to trust."""
    who = Credentials(Mechanism.SCRAM, "ann", PASSWORD)
    return secret("kafka-ca", **{"ca.crt": Path(kafka.confluent_properties(who)["ssl.ca.location"]).read_text()})


def is_ready(each: Object) -> bool:
    return condition(each, "Ready").get("status") == "True"


def is_not_for(code: str) -> Any:
    return lambda each: (condition(each, "Ready").get("status"), reason(each)) == ("False", code)


def everything_said(kubectl: Kubectl, operator: OperatorProcess) -> str:
    """Status, events and log."""
    return kubectl("get", "watchedclusters,events.events.k8s.io", "-o", "json") + operator.log.read_text()


def test_a_wrong_password_is_told_and_no_password_is_ever_shown_and_a_right_one_needs_no_restart(
    kafka: RealKafka, kubectl: Kubectl, operator: OperatorProcess
) -> None:
    kubectl.apply(authority(kafka), secret(SECRET, password=WRONG), incidents.policy(), guarded(kafka))
    said = condition(cluster(kubectl, is_not_for("AuthenticationFailed")), "Ready")["message"]
    assert "refused user ann" in said

    kubectl.apply(secret(SECRET, password=PASSWORD))
    cluster(kubectl, is_ready)

    shown = everything_said(kubectl, operator)
    assert WRONG not in shown
    assert PASSWORD not in shown


def test_a_rotated_password_is_taken_up_once_the_old_one_does_not_hold_any_more(
    kafka: RealKafka, kubectl: Kubectl, operator: OperatorProcess
) -> None:
    kafka.add_scram_user("rotating", "before")
    kafka.grant(Acl("User:rotating", "cluster", "kafka-cluster", "describe"))
    sasl = guarded(kafka)["spec"]["sasl"] | {"username": "rotating"}
    kubectl.apply(authority(kafka), secret(SECRET, password="before"), incidents.policy(), guarded(kafka, sasl=sasl))
    cluster(kubectl, is_ready)

    kafka.add_scram_user("rotating", "after")
    kubectl.apply(secret(SECRET, password="after"))
    wait_until("it was opened anew", operator.log.read_text, lambda log: "credentials of" in log, 60)

    time_of_last_probe = cluster(kubectl, is_ready)["status"]["lastProbe"]
    cluster(kubectl, lambda each: is_ready(each) and each["status"]["lastProbe"] > time_of_last_probe, within=90)
