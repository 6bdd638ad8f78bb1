"""Helm, and a control plane that knows nothing of ours but what the charts bring."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.go_module import ProgramsUnavailable
from testbed.helm.distribution import fetch as fetch_helm
from testbed.helm.helm import Helm
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.distribution import fetch
from testbed.kubernetes.kubectl import Kubectl

ROOT = Path(__file__).parents[2]
OPERATOR = ROOT / "charts" / "kafka-recovery-operator"
DEFINITIONS = ROOT / "charts" / "kafka-recovery-crds"
RELEASE = "kafka-recovery"
CHECKERS = ("helm-unittest", "kubeconform")

Install = Callable[..., str]
"""Installs or upgrades the operator's chart in the test's namespace with some values; returns its notes."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """A first build takes longer than any test may, and a person should see that it goes on."""
    ours = [item for item in session.items if Path(__file__).parent in item.path.parents]
    wanted = [item for item in ours if item.get_closest_marker("apiserver")]
    if not wanted or session.config.getoption("collectonly"):
        return
    checkers = CHECKERS if any(item.path.name == "test_checked.py" for item in wanted) else ()
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            fetch()
            fetch_helm("helm", *checkers)
        except ProgramsUnavailable as trouble:
            pytest.exit(str(trouble), returncode=pytest.ExitCode.INTERNAL_ERROR)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`--dist loadgroup`: what needs the API server shares one, the rest is done by whoever has time."""
    for item in items:
        if Path(__file__).parent in item.path.parents and "control_plane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("charts"))


@pytest.fixture(scope="session")
def charts() -> Iterator[Helm]:
    """Helm without a cluster."""
    with Helm.without_cluster() as helm:
        yield helm


@pytest.fixture(scope="package")
def control_plane() -> Iterator[ControlPlane]:
    """A Kubernetes API that knows nothing of ours at first, and no nodes."""
    with ControlPlane() as started:
        yield started


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """The test's own, named after it; nobody waits for its end."""
    name = control_plane.create_namespace(re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40])
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str) -> Kubectl:
    """The administrator's, at home in the test's namespace."""
    return control_plane.kubectl(control_plane.administrator(namespace))


@pytest.fixture
def helm(charts: Helm, control_plane: ControlPlane, namespace: str, kubectl: Kubectl) -> Iterator[Helm]:
    """The administrator's; what a test has installed is uninstalled at its end, for much of it is in no namespace."""
    yours = charts.of(namespace, control_plane.administrator(namespace))
    yield yours
    if kubectl.api.listed("secrets", f"owner=helm,name={RELEASE}"):  # as `helm list` looks for it
        yours("uninstall", RELEASE)


def define(control_plane: ControlPlane, helm: Helm, chart: Path = DEFINITIONS) -> None:
    """Install the chart of the definitions, over whatever is there."""
    crds = helm.of("kube-system", control_plane.administrator())
    crds("upgrade", "--install", "kafka-recovery-crds", str(chart), "--take-ownership", "--wait")


@pytest.fixture
def defined(control_plane: ControlPlane, helm: Helm) -> None:
    """The API server has the definitions, by their chart."""
    if not control_plane.kubectl().api.has("crd", "watchedclusters.kafka-recovery.dev"):
        define(control_plane, helm)


@pytest.fixture
def install(helm: Helm) -> Install:
    def installed(*options: str, chart: Path = OPERATOR, **values: Any) -> str:
        return helm("upgrade", "--install", RELEASE, str(chart), *options, values=values)

    return installed
