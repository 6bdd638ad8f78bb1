"""A machine within this one, for a node: its own processes, mounts and network, and a wire to us. Needs root."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.debian import ensure, path
from testbed.distribution import cache
from testbed.guard import Guard
from testbed.kubernetes.parts import OWN_SERVICE
from testbed.locks import locked
from testbed.node import Node, Program
from testbed.waiting import wait_until

WIRE = "recovery-node"
"""Our end, a network interface; 15 characters at most."""

OUTSIDE = OWN_SERVICE
"""We, as the machine and its Pods see us. It is the API server's address to Pods, so nothing has to translate it."""

INSIDE = "10.96.255.2"
"""The machine itself."""

PODS = "10.244.0.0/24"
"""The Pods on it."""

NEEDED = ("ip", "nsenter", "unshare")
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = "kafka-recovery-node"


class MachineUnavailable(RuntimeError):
    """This machine can't hold another one; says what it lacks."""


class Machine:
    """For the length of a `with` block; one at a time, a second one waits. Logs and data go to `folder`.

    While it is there, OUTSIDE is an address of ours. When its first process ends, however that comes, every process,
    mount and network interface of it is gone; its cgroups are removed by whoever closes it, or makes the next.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._nodes: list[Node] = []

    def __enter__(self) -> Self:
        check()
        with ExitStack() as stack:
            stack.enter_context(locked(cache() / "real-node.lock"))
            self._guard = Guard(None)
            stack.callback(self._guard.close)
            stack.callback(_remove_cgroups)
            stack.callback(self._bury)
            self._first = self._started(stack)
            self._plug_in()
            _remove_cgroups()
            for parent in _cgroup_parents():
                (parent / OWN_CGROUP).mkdir()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def node(self, name: str, command: tuple[str, ...], environment: dict[str, str] | None = None) -> Node:
        """A process in it that is still to be started; it ends with the machine."""
        home = self.folder / name
        home.mkdir(parents=True)
        surroundings = {"HOME": str(home), "PATH": path()} | (environment or {})
        self._nodes.append(Node(Program(name, home, (*self._entering(), *command), surroundings), self._guard))
        return self._nodes[-1]

    def run(self, *command: str, patience: float = 300) -> str:
        """What a command in it prints; MachineUnavailable if it ends badly."""
        done = subprocess.run([*self._entering(), *command], capture_output=True, text=True, timeout=patience)
        if done.returncode:
            raise MachineUnavailable(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def check(self) -> None:
        """NodeDied if it has ended by itself."""
        self._first.check()

    def _bury(self) -> None:
        """Killed one by one before the machine, each would leave a child that nobody waits for."""
        for node in self._nodes:
            node.wait()

    def _started(self, stack: ExitStack) -> Node:
        home = self.folder / "machine"
        logs = home / "log"
        logs.mkdir(parents=True)
        command = (
            *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *(sys.executable, "-I", "-S", str(Path(__file__).with_name("init.py")), str(logs)),
        )
        first = Node(Program("the machine", home, command, {"PATH": path()}), self._guard)
        stack.callback(first.end)
        first.start()
        console = home / "console.log"
        wait_until("the machine is up", console.read_text, lambda said: "ready" in said, alive=first.check)
        children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
        self._pid = children.read_text().split()[0]
        return first

    def _plug_in(self) -> None:
        """Two routes are all: nothing is translated, and this machine's firewall is not touched."""
        _ip("link", "add", WIRE, "type", "veth", "peer", "name", "eth0", "netns", self._pid)
        _ip("address", "add", f"{OUTSIDE}/32", "dev", WIRE)
        _ip("link", "set", WIRE, "up")
        _ip("route", "add", f"{INSIDE}/32", "dev", WIRE)
        self.run("ip", "address", "add", f"{INSIDE}/32", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.run("ip", "route", "add", f"{OUTSIDE}/32", "dev", "eth0")
        self.run("ip", "route", "add", "default", "via", OUTSIDE, "dev", "eth0")
        _ip("route", "add", PODS, "via", INSIDE, "dev", WIRE)

    def _entering(self) -> tuple[str, ...]:
        return ("nsenter", "--target", self._pid, "--mount", "--net", "--pid", "--")


def check() -> None:
    """MachineUnavailable if this machine, or who we are on it, will not do."""
    if sys.platform != "linux" or os.geteuid():
        raise MachineUnavailable("a real node needs Linux and root: run it as root, or leave it to whoever is")
    ensure(NEEDED)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, env={"PATH": path()})
    if done.returncode:
        raise MachineUnavailable(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _cgroup_parents() -> list[Path]:
    """Where a group for the node is made: the one hierarchy of version 2, or each of version 1."""
    if (CGROUPS / "cgroup.procs").exists():
        return [CGROUPS]
    return sorted({folder.resolve() for folder in CGROUPS.iterdir() if (folder / "cgroup.procs").exists()})


def _remove_cgroups() -> None:
    """Empty ones, for what ran in them is dead; the deepest first."""

    def emptied() -> list[Path]:
        tops = [parent / OWN_CGROUP for parent in _cgroup_parents() if (parent / OWN_CGROUP).is_dir()]
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                os.rmdir(folder)  # noqa: PTH106 - the kernel's files in it don't count
        return [top for top in tops if top.is_dir()]

    wait_until("the node's cgroups are empty", emptied, lambda left: not left)
