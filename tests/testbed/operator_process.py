"""The operator as a process of its own, as in a Pod: started with a kubeconfig, killed, frozen, started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self
from urllib.request import urlopen

from testbed.ports import HOST, Ports
from testbed.waiting import wait_until

KUBELET_WAITS = 5
"""Seconds for an answer to a liveness probe, as our chart has it."""


class Process(Protocol):
    """What of `subprocess.Popen` is used here."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


Launch = Callable[[Sequence[str], IO[bytes], Mapping[str, str]], Process]
"""Starts an operator with options; where its output goes; its environment."""


def as_program(options: Sequence[str], log: IO[bytes], environment: Mapping[str, str]) -> Process:
    """A Python of its own, as everybody starts it."""
    command = [sys.executable, "-m", "kafka_recovery.kube", *options]
    return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


class OperatorProcess:
    """One operator for one namespace, for the length of a `with` block. All of its starts log to `log`."""

    def __init__(
        self, kubeconfig: Path, namespace: str, folder: Path, *options: str, launch: Launch = as_program
    ) -> None:
        self._launch = launch
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._options = options
        self.log = folder / f"operator-{namespace}.log"
        self._ports = Ports()
        self.metrics_port = self._ports.take()
        self._liveness = f"http://{HOST}:{self._ports.take()}/healthz"
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._ports.__exit__(kind, error, trace)

    def start(self) -> None:
        """Does not wait for anything."""
        options = [
            *(f"--operator-namespace={self._namespace}", f"--metrics-port={self.metrics_port}"),
            f"--liveness={self._liveness}",
            *self._options,
        ]
        with self.log.open("ab") as log:
            self._process = self._launch(options, log, os.environ | {"KUBECONFIG": str(self._kubeconfig)})

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._running.poll()

    def probed(self) -> Mapping[str, float]:
        """What it says of itself to its liveness probe; OSError if it gives no good answer in time."""
        with urlopen(self._liveness, timeout=KUBELET_WAITS) as answer:
            said: Mapping[str, float] = json.loads(answer.read() or "{}")
            return said

    def is_alive(self) -> bool:
        """What the kubelet takes it for: it asks, and waits for an answer."""
        try:
            self.probed()
        except OSError:
            return False
        return True

    def is_ready(self) -> bool:
        """Whether a rollout goes on: what the kubelet asks at the same port."""
        try:
            with urlopen(self._liveness.removesuffix("/healthz") + "/readyz", timeout=KUBELET_WAITS) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except OSError:
            return False

    def kill(self) -> None:
        """As a lost node or the kernel does it."""
        self._running.kill()
        self._running.wait()

    def stop(self, within: float = 30) -> int:
        """As the kubelet does it; returns the exit code."""
        self._running.terminate()
        return self._running.wait(within)

    def freeze(self) -> None:
        """SIGSTOP: it stands still, as in a paused VM."""
        self._running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._running.send_signal(signal.SIGCONT)

    def ends(self, within: float = 60) -> int:
        """Wait until it has ended by itself; returns the exit code."""
        return self._running.wait(within)

    def says(self, text: str, within: float = 60) -> None:
        """Wait until its log holds this."""
        what = f"the operator's log says {text!r}"
        wait_until(what, self.log.read_text, lambda log: text in log, within, passes=True)

    @property
    def _running(self) -> Process:
        assert self._process, "it was never started"
        return self._process
