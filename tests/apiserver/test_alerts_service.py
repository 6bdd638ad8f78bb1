"""The Service for alerts leads to the operator that holds the Lease: two of them, under the rights that we ship."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.calling import calling
from apiserver.conftest import MANIFESTS
from apiserver.incidents import Start
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.webhook.endpoint import Endpoint
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.ports import Ports
from testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver

SERVICE = "kafka-recovery-operator-alerts"
ADDRESSES = {"first": "10.1.0.1", "second": "10.1.0.2"}

Run = Callable[[str], OperatorProcess]


@pytest.fixture
def allowed(account: Path, kubectl: Kubectl, namespace: str) -> Path:
    """The operator's account, with the right to lead the Service."""
    text = (MANIFESTS / "rbac" / "optional" / "alerts.yaml").read_text()
    kubectl.apply(*yaml.safe_load_all(re.sub(r"(?<=namespace: )kafka-recovery\b(?!-)", namespace, text)))
    return account


def pod(kubectl: Kubectl, name: str) -> str:
    """A Pod that no node runs. Returns its uid."""
    container = {"name": "operator", "image": "none"}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    return str(kubectl.api.get("pod", name)["metadata"]["uid"])


def led_to(kubectl: Kubectl) -> list[tuple[str, str]]:
    """Which Pods the Service leads to, and at which addresses."""
    slices = kubectl.api.listed("endpointslices.discovery.k8s.io")
    found = [each for one in slices for each in one["endpoints"]]
    return [(each["targetRef"]["name"], *each["addresses"]) for each in found]


@pytest.fixture
def run(
    allowed: Path, start: Start, kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], OperatorProcess]:
    """Starts the operator of a Pod."""
    token = tmp_path / "token"
    token.write_text("a-token-of-twenty-four-c")

    def run_one(name: str) -> OperatorProcess:
        own = {"POD_NAME": name, "POD_UID": pod(kubectl, name), "POD_IP": ADDRESSES[name]}
        for variable, value in own.items():
            monkeypatch.setenv(variable, value)
        with Ports() as ports:
            listening = f"--webhook-port={ports.take()}", f"--webhook-token-file={token}"
            return start(*listening, f"--webhook-service={SERVICE}")

    return run_one


def test_alerts_go_to_who_holds_the_lease_and_to_the_next_one_when_it_dies(run: Run, kubectl: Kubectl) -> None:
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE},
            "spec": {"ports": [{"name": "alerts", "port": 9095, "targetPort": "alerts"}]},
        }
    )
    first = run("first")
    wait_until("alerts go to the first", lambda: led_to(kubectl), [("first", "10.1.0.1")].__eq__)
    second = run("second")
    second.says("holds it", within=30)
    assert led_to(kubectl) == [("first", "10.1.0.1")], "who stands by hears nothing"

    first.kill()
    wait_until("alerts go to the second", lambda: led_to(kubectl), [("second", "10.1.0.2")].__eq__, 30)

    kubectl("delete", "pod", "first", "--now")
    assert led_to(kubectl) == [("second", "10.1.0.2")], "it went with the second by then"


async def test_the_right_to_lead_it_is_a_right_to_nothing_else(allowed: Path, namespace: str, kubectl: Kubectl) -> None:
    """RBAC narrows a creation to a name only where it is an apply."""
    own = {"POD_NAME": "first", "POD_UID": pod(kubectl, "first"), "POD_IP": "10.1.0.1"}
    ours, others = (Endpoint.of(name, namespace, own) for name in (SERVICE, "kafka-bootstrap"))

    async def refused(made: Any) -> int:
        with pytest.raises(ApiError) as no:
            await made
        return no.value.status

    async with calling(allowed) as api:
        await api.apply(ours.path, ours.slice(9095))
        assert led_to(kubectl) == [("first", "10.1.0.1")]

        collection = ours.path.rpartition("/")[0]
        for forbidden in (
            api.apply(others.path, others.slice(9095)),
            api.create(collection, others.slice(9095)),
            api.delete(ours.path),
            api.get(ours.path),
        ):
            assert await refused(forbidden) == 403
