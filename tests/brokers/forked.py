"""Our commands as most tests type them: forked from a process that has imported them, instead of 1.5 s of CPU each.

What is forked is a process of its own, with its own arguments, streams, signals and exit code. Tests that want the
program as it is installed take `installed` of conftest.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import IO

from brokers import halting
from kafka_recovery.cli import cluster, main
from kafka_recovery.cli.kip_1275 import unclean_recovery
from kafka_recovery.cluster import designated
from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.recovery import engine
from kafka_recovery.recovery.timing import Timing
from testbed.fork_server import Forked, ForkServer, all_of

PROGRAMS = ForkServer("brokers.forked", *all_of(cluster))
"""One server for all tests of a session."""
COMMANDS = {"kafka-recovery": main.main, "kafka-unclean-recovery": unclean_recovery.main}
_COMMAND, _TIMING = "TESTS_COMMAND", "TESTS_TIMING"

PATIENCE = 180.0
AS_SHIPPED: Mapping[str, float] = {}
ELECTION = "election"
"""Beside the names of Timing's fields: how long a request to the controller may take."""


@dataclass(frozen=True, slots=True)
class Running:
    """A command with pipes to it."""

    process: Forked
    stdin: IO[str]
    stdout: IO[str]
    stderr: IO[str]

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def communicate(self, timeout: float = PATIENCE) -> tuple[str, str]:
        """What else it prints and says until its end; subprocess.TimeoutExpired, and its death, if that is not soon."""
        with ThreadPoolExecutor(max_workers=2) as readers:
            told = [readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                self.process.wait(timeout)
            finally:
                self.process.kill()
            printed, said = (future.result() for future in told)
        return printed, said


def until_said(stderr: IO[str] | None, text: str) -> None:
    """Wait until a line of a command's stderr holds the text."""
    lines = ""
    for line in stderr or ():
        lines += line
        if text in line:
            return
    raise AssertionError(f"never said {text!r}, but: {lines}")


def run(
    name: str,
    *arguments: str,
    environment: Mapping[str, str],
    timeout: float = PATIENCE,
    timing: Mapping[str, float] = AS_SHIPPED,
) -> subprocess.CompletedProcess[str]:
    """The command to its end; `timing` in seconds, where it is not to wait as long as the program that is shipped."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        process = PROGRAMS.start(
            f"{__name__}:command", arguments, printed, _environment(name, environment, timing), errors=said
        )
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        for stream in (printed, said):
            stream.seek(0)
        return subprocess.CompletedProcess([name, *arguments], code, printed.read(), said.read())


@contextmanager
def running(
    name: str, *arguments: str, environment: Mapping[str, str], timing: Mapping[str, float] = AS_SHIPPED
) -> Iterator[Running]:
    """The same, to be watched, talked to and sent signals; it ends with the block."""
    given, stdin = os.pipe()
    stdout, output = os.pipe()
    stderr, errors = os.pipe()
    with open(stdin, "w") as to, open(stdout) as printed, open(stderr) as said:  # noqa: PTH123  # these have no path
        with open(given) as reads, open(output, "w") as prints, open(errors, "w") as says:  # noqa: PTH123
            process = PROGRAMS.start(
                f"{__name__}:command",
                arguments,
                prints,
                _environment(name, environment, timing),
                errors=says,
                given=reads,
            )
        try:
            yield Running(process, to, printed, said)
        finally:
            process.kill()


def surroundings() -> dict[str, str]:
    """The environment without the width of a terminal: what these commands print goes into files."""
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def _environment(name: str, others: Mapping[str, str], timing: Mapping[str, float]) -> dict[str, str]:
    return {**surroundings(), **others, _COMMAND: name, _TIMING: json.dumps(timing)}


def command() -> None:
    """Runs in the forked process: the command's own `main`."""
    sys.argv[0] = os.environ.pop(_COMMAND)
    timing = {name: timedelta(seconds=seconds) for name, seconds in json.loads(os.environ.pop(_TIMING)).items()}
    if deadline := timing.pop(ELECTION, None):
        vars(designated)["AssignmentOrderElection"] = partial(AssignmentOrderElection, deadline=deadline)
    vars(engine)["Timing"] = partial(Timing, **timing)
    halting.install()
    COMMANDS[sys.argv[0]]()
