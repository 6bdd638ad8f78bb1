"""A real kubelet with a real containerd, as the one node of a control plane."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.debian import ensure
from testbed.guard import Guard
from testbed.kubernetes.control_plane import ControlPlane
from testbed.node import Node, Program
from testbed.real_node import settings
from testbed.real_node.distribution import fetch
from testbed.real_node.machine import INSIDE, Machine, MachineUnavailable
from testbed.waiting import wait_until

NAME = "testbed-node"
NEEDED = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "/usr/lib/cni/bridge")


class RealNode:
    """Ready for Pods from a `with` on, until its machine ends; `images` are archives, one of them `images.pause`.

    The control plane has to be one `for_pods`. A Pod reaches this machine at `machine.OUTSIDE`, the API server and
    other Pods; there is no DNS, and no Service but `kubernetes` has traffic carried.
    """

    def __init__(self, machine: Machine, control_plane: ControlPlane, images: Sequence[Path]) -> None:
        self._machine = machine
        self._control_plane = control_plane
        self._images = images

    def __enter__(self) -> Self:
        ensure(NEEDED)
        with ExitStack() as stack:
            containerd = self._containerd()
            containerd.start()
            wait_until("containerd answers", self._answers, bool, alive=containerd.check)
            for image in self._images:
                self.add_image(image)
            kubelet = self._kubelet()
            kubelet.start()
            scheduler = self._scheduler(stack)
            stack.callback(scheduler.end)
            scheduler.start()
            self._parts = (containerd, kubelet, scheduler)
            wait_until("the node is ready", self._ready, lambda status: status == "True", 120, self.check)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add_image(self, archive: Path) -> None:
        """A Pod may name it from now on."""
        self._ctr("--namespace=k8s.io", "images", "import", str(archive))

    def check(self) -> None:
        """NodeDied if something ended by itself."""
        self._machine.check()
        for part in self._parts:
            part.check()

    def _containerd(self) -> Node:
        home = self._machine.folder / "containerd"
        node = self._machine.node("containerd", ("containerd", f"--config={home / 'config.toml'}"))
        network = home / "network"
        network.mkdir()
        (network / "testbed.conflist").write_text(json.dumps(settings.network(), indent=1))
        (home / "config.toml").write_text(settings.containerd(home, network))
        return node

    def _kubelet(self) -> Node:
        home = self._machine.folder / "kubelet"
        command = (
            str(fetch()["kubelet"]),
            f"--config={home / 'config.json'}",
            f"--kubeconfig={self._control_plane.user(f'system:node:{NAME}', 'system:nodes')}",
            f"--hostname-override={NAME}",
            f"--node-ip={INSIDE}",
            f"--root-dir={home / 'root'}",
            f"--cert-dir={home / 'certificates'}",
        )
        node = self._machine.node("kubelet", command)
        (home / "config.json").write_text(json.dumps(settings.kubelet(home, self._control_plane.authority), indent=1))
        (home / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        return node

    def _scheduler(self, stack: ExitStack) -> Node:
        """Not in the machine: it belongs to the control plane, which only does without it while there is no node."""
        home = self._machine.folder / "kube-scheduler"
        home.mkdir()
        guard = Guard(None)
        stack.callback(guard.close)
        command = (
            str(fetch()["kube-scheduler"]),
            f"--kubeconfig={self._control_plane.user('system:kube-scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
        )
        return Node(Program("kube-scheduler", home, command, {"HOME": str(home), "PATH": os.defpath}), guard)

    def _ready(self) -> str:
        path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        return self._control_plane.kubectl().attempt("get", "node", NAME, "-o", path).stdout

    def _answers(self) -> bool:
        try:
            return bool(self._ctr("version"))
        except MachineUnavailable:
            return False

    def _ctr(self, *arguments: str) -> str:
        return self._machine.run("ctr", f"--address={settings.socket()}", *arguments)
