"""One JVM of a cluster: a controller or a broker, and what can be done to its process."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from testbed.guard import Guard

TERMINATION = 60.0


class NodeDied(RuntimeError):
    """A node's process ended by itself; the message carries the end of its log."""


class State(Enum):
    STOPPED = "stopped"
    RUNNING = "running"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class Program:
    """What a node runs and where; `home` holds its properties, its logs and its data."""

    name: str
    home: Path
    command: tuple[str, ...]
    environment: dict[str, str]


class Node:
    """The process of one node; every method says in its error which node it was and in which state."""

    def __init__(self, program: Program, guard: Guard) -> None:
        self.program = program
        self._guard = guard
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen = False

    @property
    def pid(self) -> int | None:
        """The number of its process while that lives."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def state(self) -> State:
        if self.pid is None:
            return State.STOPPED
        return State.FROZEN if self._frozen else State.RUNNING

    def start(self) -> None:
        self._expect(State.STOPPED)
        self._bury()
        with (self.program.home / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                self.program.command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                cwd=self.program.home,
                env=self.program.environment,
                start_new_session=True,  # a Ctrl-C is ours to handle, not the broker's
            )
        self._frozen = False
        self._guard.watch(self._process.pid)

    def kill(self) -> None:
        """SIGKILL, also while frozen; gone when this returns."""
        self._expect(State.RUNNING, State.FROZEN)
        self._signal(signal.SIGKILL)
        self._bury()

    def terminate(self) -> None:
        """SIGTERM, a controlled shutdown; gone when this returns, TimeoutExpired after a minute."""
        self._expect(State.RUNNING)
        self._signal(signal.SIGTERM)
        self._bury()

    def wait(self) -> None:
        """Until it has ended by itself; TimeoutExpired after a minute."""
        self._bury()

    def end(self) -> None:
        """As `kill`, whatever state it is in."""
        if self.state is not State.STOPPED:
            self.kill()

    def freeze(self) -> None:
        """SIGSTOP: the process stands still when this returns, its connections stay open."""
        self._expect(State.RUNNING)
        self._signal(signal.SIGSTOP)
        self._wait_until_still()
        self._frozen = True

    def thaw(self) -> None:
        """SIGCONT."""
        self._expect(State.FROZEN)
        self._signal(signal.SIGCONT)
        self._frozen = False

    def revive(self) -> None:
        """It runs: thawed or started, if need be."""
        match self.state:
            case State.FROZEN:
                self.thaw()
            case State.STOPPED:
                self.start()

    def check(self) -> None:
        """NodeDied if its process ended although nobody ended it."""
        if self._process and (status := self._process.poll()) is not None:
            raise NodeDied(f"{self.program.name} ended by itself with status {status}; {self.last_words()}")

    def last_words(self) -> str:
        """The last lines of its console and its log."""
        lines: list[str] = []
        for file in (self.program.home / "console.log", self.program.home / "server.log"):
            if file.exists():
                lines += file.read_text(errors="replace").splitlines()[-15:]
        return "its logs end:\n" + "\n".join(lines)

    def _expect(self, *states: State) -> None:
        if self.state not in states:
            wanted = " or ".join(state.value for state in states)
            raise RuntimeError(f"{self.program.name} is {self.state.value}, not {wanted}")

    def _signal(self, number: signal.Signals) -> None:
        assert self._process
        self._process.send_signal(number)

    def _wait_until_still(self) -> None:
        """A JVM's threads stop one after the other. Those that still run would answer whoever is thawed next."""
        assert self._process
        # WEXITED: a process that dies meanwhile never stops. WNOWAIT: its status is left to Popen.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _bury(self) -> None:
        if self._process:
            self._process.wait(TERMINATION)
            self._guard.forget(self._process.pid)
            self._process = None
