"""One real control plane for all tests of a session; a namespace for each."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from kubernetes.client import CoreV1Api

from apiserver.fleet import Fleet
from apiserver.forked import fleet_launched, launched
from apiserver.incidents import Start, policy
from apiserver.outages import Outages
from kafka_recovery.kube.resources.admission import APPROVALS_POLICY, IN_FORCE_AFTER
from testbed.cluster import RealKafka
from testbed.go_module import ProgramsUnavailable
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.distribution import fetch
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import Api, ApiRefused
from testbed.operator_process import Launch, OperatorProcess
from testbed.spark_operator import apache
from testbed.spark_operator import distribution as spark_operator
from testbed.waiting import wait_until
from testbed.warm import WarmKafka

DEFINITIONS = Path(__file__).parents[2] / "crds"
MANIFESTS = Path(__file__).parents[2] / "manifests"


def pytest_collection_finish(session: pytest.Session) -> None:
    """A first build takes longer than any test may, and a person should see that it goes on."""
    wanted = any(item.get_closest_marker("apiserver") for item in session.items)
    if not wanted or session.config.getoption("collectonly"):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            fetch()
            if any("kubeflow_operator" in getattr(item, "fixturenames", ()) for item in session.items):
                spark_operator.fetch()
        except ProgramsUnavailable as trouble:
            pytest.exit(str(trouble), returncode=pytest.ExitCode.INTERNAL_ERROR)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`--dist loadgroup`: a module's tests run in one process, one after the other, unless it says with which others.

    Each process has a control plane of its own (4 s of CPU): who harms it harms nobody else. A Kafka of another kind is
    another start (7 s), and then one more: those who want it come last, one after the other.
    """
    items.sort(key=lambda item: "kafka_without_elr" in getattr(item, "fixturenames", ()))
    for item in items:
        if Path(__file__).parent in item.path.parents and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A Kubernetes API that knows our definitions and admission policies, and no nodes."""
    with ControlPlane() as started:
        apply_all_of_ours(started)
        yield started


def apply_all_of_ours(control_plane: ControlPlane) -> None:
    """Definitions and admission policies; returns when whatever is written from now on counts."""
    control_plane.apply_definitions(DEFINITIONS)
    control_plane.kubectl()("apply", "--server-side", f"--filename={MANIFESTS / 'admission'}")
    in_force = time.monotonic() + IN_FORCE_AFTER.total_seconds() + 1
    wait_until("the policies are in force for long enough", lambda: time.monotonic() > in_force, bool)


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> str:
    """The test's own, named after it. It stays as it was left: to delete one costs Kubernetes six times as much as to
    make one."""
    return control_plane.create_namespace(re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()))


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str) -> Kubectl:
    """The administrator's, at home in the test's namespace."""
    return control_plane.kubectl(control_plane.administrator(namespace))


@pytest.fixture
def account(control_plane: ControlPlane, namespace: str, kubectl: Kubectl) -> Iterator[Path]:
    """The operator's own service account in the test's namespace, with the Roles that we ship and no other right."""
    home, reader = "kafka-recovery", "kafka-recovery-admission-reader"
    role = re.sub(rf"(?<=namespace: ){home}\b", namespace, (MANIFESTS / "rbac" / "operator.yaml").read_text())
    readers = (MANIFESTS / "rbac" / "admission-reader.yaml").read_text()
    name = f"{reader}-{namespace}"
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": reader},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": f"{home}-operator"}],
    }
    kubectl.apply(*yaml.safe_load_all(role), *yaml.safe_load_all(readers), binding)
    who = control_plane.service_account(namespace, f"{home}-operator")
    wait_until("its rights hold", lambda: _has_its_rights(Api.by(who)), bool)
    yield who
    kubectl.api.delete("clusterrolebinding", name)


def _has_its_rights(operator: Api) -> bool:
    """The API server learns of its own Roles a moment after they were written."""
    try:
        operator.listed("recoveryrecords")
        operator.has("validatingadmissionpolicies", APPROVALS_POLICY)
    except ApiRefused as no:
        return no.code == HTTPStatus.NOT_FOUND  # it may ask, and there are no definitions
    return True


@pytest.fixture
def kafka_without_elr(warm: WarmKafka) -> Iterator[RealKafka]:
    """As most clusters are: Kafka calls every election unclean once the ISR is dead, and knows of no intact broker."""
    with warm.lent(elr=False) as cluster:
        yield cluster


@pytest.fixture
def made(kafka: RealKafka) -> Outages:
    """What happens to the Kafka."""
    return Outages(kafka)


@pytest.fixture
def start(account: Path, namespace: str, tmp_path: Path) -> Iterator[Start]:
    """Starts operators of the namespace with full authority, each with its own log; they end with the test."""
    with ExitStack() as stack:

        def start_one(*options: str, lease: int = 6, launch: Launch | None = None) -> OperatorProcess:
            folder = tmp_path / f"operator-{uuid4().hex[:6]}"
            folder.mkdir()
            given = ("--authority=Automatic", f"--lease-duration={lease}", *options)
            operator = OperatorProcess(account, namespace, folder, *given, launch=launch or launched())
            return stack.enter_context(shown(operator))

        yield start_one


@pytest.fixture
def operator(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[OperatorProcess]:
    """One operator for the test's namespace, as administrator, with full authority and without a Lease."""
    options = "--authority=Automatic", "--no-lease"
    who = control_plane.administrator(namespace)
    with shown(OperatorProcess(who, namespace, tmp_path, *options, launch=launched())) as process:
        yield process


@contextmanager
def shown(operator: OperatorProcess) -> Iterator[OperatorProcess]:
    """It runs, and whoever reads a failed test sees what it said."""
    try:
        with operator:
            yield operator
    finally:
        print(operator.log.read_text()[-8000:])


@pytest.fixture
def fleet(control_plane: ControlPlane, namespace: str, kubectl: Kubectl, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet operator with an account of its own, which has the rights that we ship, and no other."""
    rights = (MANIFESTS / "rbac" / "optional" / "fleet.yaml").read_text()
    given = re.sub(r"\bnamespace: kafka-recovery\b", f"namespace: {namespace}", rights)
    kubectl.apply(*yaml.safe_load_all(given), policy())
    who = control_plane.service_account(namespace, "kafka-recovery-operator-fleet")
    for folder in ("evidence", "results", "fleet-operator"):
        (tmp_path / folder).mkdir()
    options = "--lease-duration=6", f"--fleet-results=file://{tmp_path}/results"
    with shown(
        OperatorProcess(who, namespace, tmp_path / "fleet-operator", *options, launch=fleet_launched)
    ) as process:
        yield Fleet(kubectl, namespace, tmp_path, CoreV1Api(control_plane.client()), process)


def discovered(kubectl: Kubectl, kind: str) -> bool:
    """Whether the API server tells clients of a kind: a controller that starts earlier ends again."""
    group = kind.partition(".")[2]
    return kind in kubectl("api-resources", f"--api-group={group}", "--cached=false", "--output=name").split()


@pytest.fixture(scope="module")
def apache_definition(control_plane: ControlPlane) -> Iterator[None]:
    """With the fields that our adapter uses, and no other."""
    kubectl, definition = control_plane.kubectl(), f"{apache.PLURAL}.{apache.GROUP}"
    kubectl("apply", "--server-side", "-f", str(apache.DEFINITION))
    wait_until("it is served", lambda: discovered(kubectl, definition), bool)
    yield
    kubectl("delete", "crd", definition)
