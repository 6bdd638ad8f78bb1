"""What both images hold, looked at in a Pod that does nothing else, and what they say of themselves."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from testbed import images
from testbed.images import FLEET_JOB, OPERATOR, Image
from testbed.kubernetes.kubectl import Kubectl
from testbed.real_node.node import RealNode

pytestmark = [pytest.mark.apiserver, pytest.mark.full, pytest.mark.timeout(600)]

BOTH = pytest.mark.parametrize("image", [OPERATOR, FLEET_JOB], ids=lambda image: image.target)
POD = "inside"
LISTING = """
from importlib.metadata import distributions
for each in distributions():
    print(each.metadata["Name"], each.version)
"""
WHO = "import os, pwd; print(os.getuid(), pwd.getpwuid(os.getuid()).pw_name)"

Run = Callable[..., str]


@pytest.fixture
def run(image: Image, real_node: RealNode, kubectl: Kubectl) -> Run:
    """What a command prints inside the image; nothing of a chart or a Spark operator is there to help it."""
    real_node.add_image(images.archive(image))
    container = {
        "name": POD,
        "image": image.reference,
        "imagePullPolicy": "Never",
        "command": ["sleep", "infinity"],
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec})
    kubectl("wait", "--for=condition=Ready", "--timeout=50s", f"pod/{POD}")
    return lambda *command: kubectl("exec", POD, "--", *command)


def config(image: Image) -> dict[str, Any]:
    """What a registry would show of it."""
    with tarfile.open(images.archive(image)) as archive:

        def read(name: str) -> Any:
            file = archive.extractfile(name)
            assert file
            return json.load(file)

        (manifest,) = read("manifest.json")
        found: dict[str, Any] = read(manifest["Config"])["config"]
        return found


@BOTH
def test_it_holds_what_its_bill_says_and_nothing_to_build_with(run: Run, image: Image) -> None:
    bill = json.loads(run("cat", "/opt/kafka-recovery/sbom.cdx.json"))
    tools = run("sh", "-c", "command -v pip pip3 gcc cc make javac curl || echo none of them")

    listed = {f"{each['name']} {each['version']}" for each in bill["components"]}
    assert listed == set(run("python3", "-c", LISTING).splitlines())
    assert tools.strip() == "none of them"


@BOTH
def test_its_user_has_a_name_that_libraries_find(run: Run, image: Image) -> None:
    assert run("python3", "-c", WHO).split() == ["65532", "kafka-recovery"]


@BOTH
def test_its_labels_say_what_it_is_and_what_it_was_made_of(image: Image) -> None:
    said = config(image)
    ours = {
        name: text for name, text in said["Labels"].items() if text and name.startswith("org.opencontainers.image.")
    }

    assert said["User"] == "65532:65532"
    assert ours.pop("org.opencontainers.image.description")
    assert ours == {
        "org.opencontainers.image.title": image.name,
        "org.opencontainers.image.version": images.version(),
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.base.name": images.BASE,
    }
