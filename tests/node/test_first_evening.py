"""docs/how-to/helm.md walked by a newcomer: its first evening as it is typed, on a real node and Kafka."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from apiserver.incidents import finished, reason, seen
from apiserver.outages import SURVIVOR, Outages
from node.conftest import ROOT
from testbed import images
from testbed.cluster import RealKafka
from testbed.helm.distribution import fetch
from testbed.helm.helm import Helm
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.real_node.node import RealNode
from testbed.waiting import wait_until
from unit.docs.commands import lines

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.full, pytest.mark.timeout(600)]

HOME = "kafka-recovery"
PAGE = (ROOT / "docs" / "how-to" / "helm.md").read_text()
EVENING = PAGE[PAGE.index("## Step by step") : PAGE.index("## Who may do what")]
IMAGE = f"--set image.pullPolicy=Never,image.tag={images.version()}"
"""No registry has it."""


def commands() -> list[str]:
    """All that is to be typed, in the order of the page."""
    blocks = re.findall(r"```bash\n(.*?)```", EVENING, re.DOTALL)
    typed = [line for block in blocks for line in lines(block) if not line.startswith("#")]
    return typed + re.findall(r"`((?:helm|kubectl) [^`]* [^`]*)`", EVENING[EVENING.index("**6.") :])


@dataclass
class Newcomer:
    """A shell in a folder with the charts and a copy of the examples. `typed`: the commands so far."""

    folder: Path
    kubeconfig: Path
    typed: list[str] = field(default_factory=list)

    def types(self, beginning: str, instead: Mapping[str, str] | None = None, given: str = "") -> str:
        """The one command of the page that begins so, with words in place of its placeholders; what it prints."""
        (line,) = [each for each in commands() if each.startswith(beginning)]
        self.typed.append(line)
        for placeholder, word in (instead or {}).items():
            line = line.replace(placeholder, word)
        programs = [Path(sys.executable).parent, fetch("helm")["helm"].parent, self.folder / "bin"]
        path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
        surroundings = {"PATH": path, "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=surroundings,
            input=given,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def administrator(control_plane: ControlPlane, real_node: RealNode) -> Kubectl:
    return control_plane.kubectl(control_plane.administrator(HOME))


@pytest.fixture
def newcomer(tmp_path: Path, administrator: Kubectl, kafka: RealKafka) -> Iterator[Newcomer]:
    """With rights to do everything; afterwards the namespace is gone."""
    (tmp_path / "charts").symlink_to(ROOT / "charts")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(administrator.program)
    (tmp_path / "ca.crt").write_text("not needed: this Kafka speaks plaintext\n")
    shutil.copytree(ROOT / "examples", tmp_path / "mine")
    cluster, policy = (tmp_path / "mine" / "base" / name for name in ("watched-cluster.yaml", "recovery-policy.yaml"))
    there = cluster.read_text().replace("<YOUR-CLUSTER-ID>", kafka.cluster_id)
    cluster.write_text(there.replace("kafka-bootstrap.kafka:9092", kafka.bootstrap.replace(",", '", "')))
    policy.write_text(policy.read_text().replace("patience: 2m", "patience: 1s"))
    administrator("delete", "--filename", str(ROOT / "crds"))  # it installs them itself
    yield Newcomer(tmp_path, administrator.kubeconfig)
    print(administrator.attempt("logs", "--tail=60", "deployment/kafka-recovery-operator").stdout[-8000:])
    with Helm.without_cluster() as program:
        helm = program.of(HOME, administrator.kubeconfig)
        for release in helm("list", "--short").split():
            helm("uninstall", release)
    administrator("delete", "namespace", HOME, "--wait=false")
    administrator(
        "apply", "--server-side", "--force-conflicts", "--filename", str(ROOT / "crds")
    )  # as others find them


def test_a_newcomer_s_first_evening(
    newcomer: Newcomer, administrator: Kubectl, kafka: RealKafka, control_plane: ControlPlane
) -> None:
    made = Outages(kafka)
    types = newcomer.types

    types("helm install kafka-recovery-crds")
    told = types("helm install kafka-recovery charts", {"REGISTRY": "localhost", "--set": f"{IMAGE} --set"})
    assert "AUTHORITY Observe" in told
    types("kubectl rollout status")
    assert "the Lease is renewed" in types("helm test kafka-recovery")
    types("kubectl create secret generic kafka-recovery-user", given="correct-horse")
    types("kubectl create secret generic kafka-ca")
    types("kubectl apply -k")
    wait_until(
        "it watches", lambda: types("kubectl get wkc,rpol"), lambda shown: bool(re.search("Observe +True", shown)), 60
    )

    made.lose(orders=1)
    name = wait_until("a recovery opens", lambda: opened(newcomer), bool, 90)
    seen(administrator, name, lambda each: reason(each) == "ObserveOnly")
    assert "orders-0" in types("kubectl kafka-recovery plan", {"NAME": name})
    assert "broker" in types("kubectl kafka-recovery explain", {"TOPIC-PARTITION": "orders-0"})
    assert made.leaders("orders") == [None]

    types("helm upgrade kafka-recovery charts")
    administrator("apply", "-k", str(newcomer.folder / "mine" / "overlays" / "approve"))
    types("kubectl create rolebinding ann-approves")
    ann = control_plane.kubectl(control_plane.user("ann", namespace=HOME))
    waiting = seen(administrator, name, lambda each: reason(each) == "AwaitingApproval", 120)
    digest = waiting["status"]["plan"]["digest"]
    assert digest in ann("kafka-recovery", "plan", name)
    ann("kafka-recovery", "approve", name, "--yes", "--plan", digest, "--reason", "a drill")
    assert finished(administrator, name, 120)["status"]["outcome"] == "Recovered"
    assert made.leaders("orders") == [SURVIVOR]

    assert "is suspended" in types("kubectl kafka-recovery suspend --operator")
    assert sorted(set(newcomer.typed)) == sorted(set(commands())), "every command of the page was typed"


def opened(newcomer: Newcomer) -> str:
    """The name of the recovery, once there is one."""
    shown = newcomer.types("kubectl get prec", {"--watch": "--no-headers"})
    return shown.split()[0] if shown.strip() else ""
