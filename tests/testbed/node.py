"""One JVM of a cluster: a controller or a broker, and what can be done to its process."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from testbed.distribution import Distribution
from testbed.guard import Guard

LOGGING = """\
<Configuration status="ERROR" shutdownHook="disable">
  <Appenders>
    <File name="file" fileName="${sys:testbed.log}">
      <PatternLayout pattern="%d{ISO8601} %-5p %c{1}: %m%n"/>
    </File>
  </Appenders>
  <Loggers>
    <Root level="WARN"><AppenderRef ref="file"/></Root>
    <Logger name="kafka.server.KafkaRaftServer" level="INFO"/>
    <Logger name="kafka.server.ReplicaFetcherThread" level="INFO"/>
    <Logger name="org.apache.kafka.controller" level="INFO"/>
    <Logger name="org.apache.kafka.storage.internals.epoch" level="INFO"/>
    <Logger name="org.apache.kafka.storage.internals.log.UnifiedLog" level="INFO"/>
  </Loggers>
</Configuration>
"""
TERMINATION = 60.0


class NodeDied(RuntimeError):
    """A node's process ended by itself; the message carries the end of its log."""


class State(Enum):
    STOPPED = "stopped"
    RUNNING = "running"
    FROZEN = "frozen"


def java_command(distribution: Distribution, home: Path, heap: int, options: Sequence[str] = ()) -> list[str]:
    """The Java command line up to the main class; `heap` in MiB. Its CLASSPATH comes from `java_environment`."""
    logging = home / "log4j2.xml"
    logging.write_text(LOGGING)
    return [
        str(distribution.java),
        "-Xms64m",
        f"-Xmx{heap}m",
        "-XX:+ExitOnOutOfMemoryError",
        # A test's broker lives for seconds: the time goes into starting, not into peak speed.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "--sun-misc-unsafe-memory-access=allow",
        f"-Dlog4j2.configurationFile={logging}",
        f"-Dtestbed.log={home / 'server.log'}",
        *options,
    ]


def java_environment(distribution: Distribution) -> dict[str, str]:
    """Nothing of the caller's: a JAVA_TOOL_OPTIONS of this shell must not decide how a test's broker runs."""
    return {"CLASSPATH": distribution.classpath}


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

    def freeze(self) -> None:
        """SIGSTOP: the process stands still, its connections stay open."""
        self._expect(State.RUNNING)
        self._signal(signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        """SIGCONT."""
        self._expect(State.FROZEN)
        self._signal(signal.SIGCONT)
        self._frozen = False

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

    def _bury(self) -> None:
        if self._process:
            self._process.wait(TERMINATION)
            self._guard.forget(self._process.pid)
            self._process = None
