"""The processes of one control plane, and what they need around them: ports, certificates, folders, a guard."""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import ExitStack
from pathlib import Path
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from testbed.guard import Guard
from testbed.kubernetes import parts
from testbed.kubernetes.distribution import Programs
from testbed.kubernetes.kubeconfig import Endpoint
from testbed.kubernetes.parts import Addresses, Identities
from testbed.node import Node, Program
from testbed.ports import Ports
from testbed.waiting import wait_until

LONGEST_ANSWER = 5.0
FRUGAL = {"GOGC": "200"}
"""Rubbish is collected half as often: a tenth of the CPU, for some memory."""


class Processes:
    """etcd, API server and controllers; `close` ends what runs and removes a temporary folder.

    `start` and what is called `..._ready` return when the part in question does its work; WaitedInVain or NodeDied say
    which one does not.
    """

    def __init__(self, programs: Programs, folder: Path | None, for_pods: bool) -> None:
        self.programs = programs
        with ExitStack() as stack:
            self.folder = (folder or Path(tempfile.mkdtemp(prefix="testbed-kubernetes-"))).absolute()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._guard = Guard(None if folder else self.folder)
            stack.callback(self._guard.close)
            free = Addresses.free(stack.enter_context(Ports()))
            self._addresses = free.for_pods() if for_pods else free
            self.identities = Identities.new(self.folder / "certificates", self._addresses.host)
            self.endpoint = Endpoint(
                self._addresses.apiserver_url, self.identities.authority.certificate, self.identities.folder
            )
            self._plan(stack)
            self._stack = stack.pop_all()

    @property
    def etcd_url(self) -> str:
        return self._addresses.etcd_url

    def start(self) -> None:
        self.etcd.start()
        self._ready("etcd answers", f"{self._addresses.etcd_url}/readyz")
        self.apiserver.start()
        self.apiserver_ready()
        self.controllers.start()
        self._ready("the controllers answer", f"{self._addresses.controllers_url}/healthz")

    def apiserver_ready(self) -> None:
        self._ready("the API server is ready", f"{self._addresses.apiserver_url}/readyz")

    def check(self) -> None:
        """NodeDied if a process ended that nobody ended."""
        for node in (self.etcd, self.apiserver, self.controllers):
            node.check()

    def close(self) -> None:
        self._stack.close()

    def _plan(self, stack: ExitStack) -> None:
        addresses, identities = self._addresses, self.identities
        kubeconfig = self.endpoint.by_certificate(identities.controllers)
        self.etcd = self._node("etcd", parts.etcd(addresses, self.folder / "etcd" / "data"))
        self.apiserver = self._node("kube-apiserver", parts.apiserver(addresses, identities))
        self.controllers = self._node("kube-controller-manager", parts.controllers(addresses, identities, kubeconfig))
        for node in (self.etcd, self.apiserver, self.controllers):
            stack.callback(node.end)

    def _node(self, part: str, arguments: tuple[str, ...]) -> Node:
        home = self.folder / part
        home.mkdir()
        # Nothing of ours: etcd takes any flag from the environment as well.
        environment = {"HOME": str(home), "PATH": os.defpath, **FRUGAL}
        return Node(Program(part, home, (str(self.programs[part]), *arguments), environment), self._guard)

    def _ready(self, what: str, url: str) -> None:
        wait_until(what, lambda: self._status(url), lambda status: status == 200, alive=self.check)

    def _status(self, url: str) -> int:
        trust = ssl.create_default_context(cafile=self.identities.authority.certificate)
        administrator = self.identities.administrator
        trust.load_cert_chain(administrator.certificate, administrator.key)
        # A proxy that is meant for the internet has no business here.
        with build_opener(ProxyHandler({}), HTTPSHandler(context=trust)).open(url, timeout=LONGEST_ANSWER) as answer:
            status: int = answer.status
            return status
