"""An operator as its chart installs it, on a real Kafka: what it may not do, and the one change after which it may.

No Pod runs here: it is a process of this machine, with the Pod's account and arguments.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from apiserver import incidents
from apiserver.forked import launched
from apiserver.incidents import Object, approval, condition, finished, only_recovery, policy, reason, seen
from brokers.test_acls import CLUSTER, EVERYTHING, PRINCIPALS
from charts.conftest import RELEASE, Install
from testbed.access import Acl
from testbed.cluster import RealKafka
from testbed.helm.helm import Helm
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.security import Credentials, Mechanism, Security
from testbed.waiting import wait_until
from testbed.warm import WarmKafka

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers]

NAME = "kafka-recovery-operator"
SURVIVOR = 3
USER, PASSWORD = "kafka-recovery", "correct-horse-battery"
OF_THIS_MACHINE = ("--metrics-port", "--liveness")

Run = Callable[[], OperatorProcess]


@pytest.fixture
def kafka(warm: WarmKafka) -> Iterator[RealKafka]:
    """Three brokers with TLS, passwords and ACLs, and a listener where nobody asks who is there."""
    with warm.lent(security=Security()) as cluster:
        yield cluster


@pytest.fixture
def run(control_plane: ControlPlane, kubectl: Kubectl, namespace: str, tmp_path: Path) -> Iterator[Run]:
    """Starts what the Deployment says now, after what it said before has ended."""
    started: list[OperatorProcess] = []

    def run_now() -> OperatorProcess:
        if started:
            assert started[-1].stop() == 0
        (container,) = kubectl.api.get("deployment", NAME)["spec"]["template"]["spec"]["containers"]
        given = [each for each in container["args"] if not each.startswith(OF_THIS_MACHINE)]
        account = control_plane.service_account(namespace, NAME)
        started.append(OperatorProcess(account, namespace, tmp_path, *given, launch=launched()))
        return started[-1].__enter__()

    yield run_now
    for process in started:
        process.__exit__(None, None, None)
    print(started[-1].log.read_text()[-8000:])  # for whoever reads a failed test


def answered(kubectl: Kubectl, name: str) -> Object:
    """Wait until an approval is answered."""
    return wait_until(
        f"RecoveryApproval {name} is answered",
        lambda: dict(kubectl.api.get("recoveryapproval", name)),
        lambda each: bool(condition(each, "Accepted")),
    )


def looking_only(kafka: RealKafka, kubectl: Kubectl) -> Object:
    """A WatchedCluster whose principal has what docs/how-to/acls.md gives one that may only look, and its Secrets."""
    kafka.add_scram_user(USER, PASSWORD)
    kafka.grant(*(Acl(f"User:{USER}", *EVERYTHING[acl]) for acl in sorted(PRINCIPALS["looks"])))
    client = kafka.confluent_properties(Credentials(Mechanism.SCRAM, USER, PASSWORD))
    authority = Path(client["ssl.ca.location"]).read_text()
    kubectl("create", "secret", "generic", "kafka-ca", f"--from-literal=ca.crt={authority}")
    kubectl("create", "secret", "generic", "kafka-user", f"--from-literal=password={PASSWORD}")
    password = {"name": "kafka-user", "key": "password"}
    return incidents.watched_cluster(
        kafka,
        bootstrapServers=kafka.bootstrap_for(Mechanism.SCRAM).split(","),
        tls={"caSecretRef": {"name": "kafka-ca", "key": "ca.crt"}},
        sasl={"mechanism": "SCRAM-SHA-512", "username": USER, "passwordSecretRef": password},
        authority="Automatic",
    )


def test_by_default_nobody_is_elected_and_it_takes_a_change_of_the_chart_and_one_in_kafka(
    kafka: RealKafka, kubectl: Kubectl, install: Install, defined: None, run: Run
) -> None:
    """Neither its own authority nor the broker lets it, whatever cluster, policy and approver say.

    Up to a minute on a busy machine: a Kafka with TLS is started for it, and the chart installed twice.
    """
    install(secretNames=["kafka-ca", "kafka-user"])
    operator = run()
    kubectl.apply(policy(approval="AutoApprove"), looking_only(kafka, kubectl))
    incidents.accident(kafka, 1)

    name = only_recovery(kubectl, within=60)["metadata"]["name"]
    planned = seen(kubectl, name, lambda each: reason(each) == "ObserveOnly")
    yes = approval(planned)
    kubectl.apply(yes)
    assert reason(answered(kubectl, yes["metadata"]["name"]), "Accepted") == "ObserveOnly"
    assert kafka.describe("orders")[0].leader is None

    install(secretNames=["kafka-ca", "kafka-user"], authority="Automatic")
    run()
    seen(kubectl, name, lambda each: "not authorized (31); the principal lacks ALTER" in incidents.told(each))
    assert kafka.describe("orders")[0].leader is None

    kafka.grant(Acl(f"User:{USER}", *CLUSTER, "alter"))
    ended = finished(kubectl, name)
    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
    assert kafka.describe("orders")[0].leader == SURVIVOR
    assert "lacks the right" not in operator.log.read_text()
    wait_until(
        "the cluster can be deleted without the operator",
        lambda: [each["metadata"].get("finalizers") for each in kubectl.api.listed("watchedclusters")],
        lambda held: not any(held),
    )


def test_without_admission_policies_an_approval_of_a_loss_is_not_believed(
    kafka: RealKafka, kubectl: Kubectl, install: Install, defined: None, run: Run
) -> None:
    install(authority="Approve", admissionPolicies={"create": False})
    run()
    kubectl.apply(policy(approval="ManualApprove"), incidents.watched_cluster(kafka))
    incidents.accident(kafka, 1)
    name = only_recovery(kubectl, within=60)["metadata"]["name"]

    waiting = seen(kubectl, name, lambda each: reason(each) in ("AwaitingApproval", "AdmissionPolicyMissing"))
    kubectl.apply(approval(waiting))

    told = seen(kubectl, name, lambda each: reason(each) == "AdmissionPolicyMissing")
    assert "nobody checks who writes approvals" in condition(told, "Ready")["message"]
    assert kafka.describe("orders")[0].leader is None


def test_the_test_of_a_release_passes_once_its_operator_works(
    install: Install, helm: Helm, control_plane: ControlPlane, namespace: str, defined: None, run: Run
) -> None:
    """`helm test` runs this in a Pod; here it is a process with the account and the arguments of that Pod."""
    install()
    run()
    asks = yaml.safe_load(helm("get", "hooks", RELEASE))["spec"]["containers"][0]["args"]

    done = subprocess.run(
        [sys.executable, "-m", "kafka_recovery.kube", f"--operator-namespace={namespace}", *asks],
        env=os.environ | {"KUBECONFIG": str(control_plane.service_account(namespace, NAME))},
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "the Lease is renewed, admission policies are in force" in done.stdout
