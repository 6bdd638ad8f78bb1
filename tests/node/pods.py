"""The operator as a Pod: seen through Kubernetes, and as a process of this machine, which a Pod on it is."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until

SELECTOR = "app.kubernetes.io/name=kafka-recovery-operator"
PROGRAM = b"kafka-recovery-operator"


class OperatorPod:
    """The one there is when this is made."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        found = wait_until("there is one operator", self._running, lambda pods: len(pods) == 1)
        self.name, self._uid = found[0]

    def freeze(self) -> None:
        """SIGSTOP: its process stands still."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def delete_by_force(self) -> None:
        """As somebody does who has no patience: the object is gone at once, the process by SIGKILL soon after."""
        self._kubectl("delete", "pod", self.name, "--force", "--grace-period=0")

    def gone(self) -> None:
        """Wait until its process has ended."""
        wait_until(f"no process of {self.name} is left", self._processes, lambda left: not left)

    def _running(self) -> list[tuple[str, str]]:
        pods = self._kubectl.json("get", "pods", f"--selector={SELECTOR}")["items"]
        return [
            (pod["metadata"]["name"], pod["metadata"]["uid"])
            for pod in pods
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            os.kill(process, number)

    def _processes(self) -> list[int]:
        """By its cgroups, which the kubelet names after the Pod."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                if self._uid in (folder / "cgroup").read_text() and PROGRAM in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return found
