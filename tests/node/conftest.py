"""One real node for all tests of a session; a namespace and a Kafka outside of Kubernetes for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from node.pods import OperatorPod
from testbed import images
from testbed.cluster import RealKafka
from testbed.debian import ProgramsMissing
from testbed.go_module import ProgramsUnavailable
from testbed.helm.distribution import fetch as fetch_helm
from testbed.helm.helm import Helm
from testbed.images import FLEET_JOB, OPERATOR, ImageUnavailable
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.distribution import fetch as fetch_control_plane
from testbed.kubernetes.kubectl import Kubectl
from testbed.real_node import distribution, machine
from testbed.real_node.machine import OUTSIDE, Machine, MachineUnavailable
from testbed.real_node.node import RealNode
from testbed.spark_operator import distribution as spark_operator

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "kafka-recovery-operator"
RELEASE = "kafka-recovery"
UNAVAILABLE = (
    ImageUnavailable,
    MachineUnavailable,
    ProgramsUnavailable,
    ProgramsMissing,
)

Install = Callable[..., OperatorPod]
"""Installs the operator's chart in the test's namespace with some values."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """A first build takes longer than any test may, and a person should see that it goes on.

    Spark and the fleet job's image take longest: they are built for who asks for them.
    """
    ours = [item for item in session.items if Path(__file__).parent in item.path.parents]
    if not ours or session.config.getoption("collectonly"):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            machine.check()
            fetch_control_plane()
            distribution.fetch()
            fetch_helm("helm")
            if any("spark" in getattr(item, "fixturenames", ()) for item in ours):
                spark_operator.fetch()
            for image in (OPERATOR, FLEET_JOB) if any(_asks_for_the_job(item) for item in ours) else (OPERATOR,):
                images.archive(image)
        except UNAVAILABLE as trouble:
            pytest.exit(str(trouble), returncode=pytest.ExitCode.INTERNAL_ERROR)


def _asks_for_the_job(item: pytest.Item) -> bool:
    """Whether a test runs the fleet job's image, in a Pod of Spark's or to look at it."""
    given = getattr(getattr(item, "callspec", None), "params", {})
    return "spark" in getattr(item, "fixturenames", ()) or FLEET_JOB in given.values()


@pytest.fixture(scope="session")
def own_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with Machine(tmp_path_factory.mktemp("machine")) as started:
        yield started


@pytest.fixture(scope="session")
def control_plane(own_machine: Machine) -> Iterator[ControlPlane]:
    """One that Pods reach, with our definitions."""
    with ControlPlane(for_pods=True) as started:
        started.apply_definitions(ROOT / "crds")
        yield started


@pytest.fixture(scope="session")
def real_node(own_machine: Machine, control_plane: ControlPlane) -> Iterator[RealNode]:
    """With the operator's image; what else a test needs it adds."""
    with RealNode(own_machine, control_plane, (images.pause(), images.archive(OPERATOR))) as started:
        yield started


@pytest.fixture
def namespace(real_node: RealNode, control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """The test's own, named after it; nobody waits for its end."""
    name = control_plane.create_namespace(re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40])
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str) -> Kubectl:
    """The administrator's, at home in the test's namespace."""
    return control_plane.kubectl(control_plane.administrator(namespace))


@pytest.fixture
def kafka(own_machine: Machine) -> Iterator[RealKafka]:
    """The newest Kafka, outside of Kubernetes, where Pods reach it."""
    with RealKafka(host=OUTSIDE) as cluster:
        yield cluster


@pytest.fixture
def install(kubectl: Kubectl, control_plane: ControlPlane, namespace: str) -> Iterator[Install]:
    """As docs say, but for the image, which no registry has; with full authority."""
    image = {"repository": OPERATOR.repository, "tag": images.version(), "pullPolicy": "Never"}
    given: dict[str, Any] = {"image": image, "authority": "Automatic", "leaseDuration": 6}
    with Helm.without_cluster() as program:
        helm = program.of(namespace, control_plane.administrator(namespace))

        def install_now(**values: Any) -> OperatorPod:
            helm("upgrade", "--install", "--wait", RELEASE, str(CHART), values=given | values)
            return OperatorPod(kubectl)

        yield install_now
        print(kubectl.attempt("get", "events", "--sort-by=.metadata.creationTimestamp").stdout[-6000:])
        print(kubectl.attempt("logs", "--tail=60", "deployment/kafka-recovery-operator").stdout[-8000:])
        if RELEASE in helm("list", "--short").split():
            helm("uninstall", RELEASE)
