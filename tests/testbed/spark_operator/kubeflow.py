"""The controller of Kubeflow's Spark operator, really: it runs `spark-submit`, which makes the driver's Pod."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pyspark
import yaml

from testbed.guard import Guard
from testbed.node import Node, Program
from testbed.ports import HOST, Ports
from testbed.spark_operator.distribution import fetch
from testbed.waiting import wait_until

RIGHTS = Path(__file__).with_name("rights.yaml")
ACCOUNT = "spark-operator"
FAST_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # a submission lives for seconds


class KubeflowOperator:
    """For one namespace, for the length of a `with` block. Spark's client takes no EC key: `kubeconfig` needs a token.

    Logs to `console.log` in `folder`. Needs a Java that Spark runs on, JAVA_HOME's or else the system's.
    """

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path) -> None:
        self._namespace = namespace
        self._folder = folder
        self._kubeconfig = kubeconfig

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            guard = Guard(None)
            stack.callback(guard.close)
            probe = f"{HOST}:{stack.enter_context(Ports()).take()}"
            arguments = (
                str(fetch().program),
                f"--kubeconfig={self._kubeconfig}",
                f"--namespaces={self._namespace}",
                f"--health-probe-bind-address={probe}",
                "--zap-encoder=console",
            )
            program = Program("Kubeflow's Spark operator", self._folder, arguments, self._environment())
            self._node = Node(program, guard)
            stack.callback(self._node.end)
            self._node.start()
            wait_until("it is ready", lambda: _answers(f"http://{probe}/readyz"), bool, alive=self._node.check)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _environment(self) -> dict[str, str]:
        """What spark-submit takes for its cluster's API server stands in two variables, as in a Pod."""
        config = yaml.safe_load(self._kubeconfig.read_text())
        host, _, port = config["clusters"][0]["cluster"]["server"].removeprefix("https://").partition(":")
        java = {"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._folder),
            "KUBECONFIG": str(self._kubeconfig),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_SUBMIT_OPTS": FAST_JAVA,
            **java,
        }


def _answers(url: str) -> bool:
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
