"""One real control plane for all tests of a session; a namespace for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.distribution import KubernetesUnavailable, fetch
from testbed.kubernetes.kubectl import Kubectl

DEFINITIONS = Path(__file__).parents[2] / "crds"
ADMISSION = Path(__file__).parents[2] / "manifests" / "admission"


def pytest_collection_finish(session: pytest.Session) -> None:
    """A first build takes longer than any test may, and a person should see that it goes on."""
    wanted = any(item.get_closest_marker("apiserver") for item in session.items)
    if not wanted or session.config.getoption("collectonly"):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            fetch()
        except KubernetesUnavailable as trouble:
            pytest.exit(str(trouble), returncode=pytest.ExitCode.INTERNAL_ERROR)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A Kubernetes API that knows our definitions and admission policies, and no nodes."""
    with ControlPlane() as started:
        started.apply_definitions(DEFINITIONS)
        started.kubectl()("apply", "--server-side", f"--filename={ADMISSION}")
        yield started


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """The test's own, named after it; nobody waits for its end."""
    name = control_plane.create_namespace(re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()))
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str) -> Kubectl:
    """The administrator's, at home in the test's namespace."""
    return control_plane.kubectl(control_plane.administrator(namespace))
