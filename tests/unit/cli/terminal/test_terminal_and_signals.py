"""The command line as a process of its own: on a terminal, told to stop, told twice."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unit.processes import Forked

PROGRAM = """
from unit.cli.small_cluster import SmallCluster
from kafka_recovery.cli import main
from kafka_recovery.cli.terminal import running

cluster = SmallCluster(election_takes={election_takes})
for index in range({partitions}):
    cluster.offline(f"orders-{{index}}", {{2: 27, 3: 15}})
running.leave(lambda: main.app(obj=cluster.open))
"""
PATIENCE = 30.0


def program(election_takes: float = 0.0, partitions: int = 1) -> str:
    return PROGRAM.format(election_takes=election_takes, partitions=partitions)


RECOVER = ("recover", "--bootstrap-server", "kafka-1:9092", "--all-offline-partitions")


class Terminal:
    """A process whose stdin and stderr are a terminal."""

    def __init__(self, program: str, *words: object) -> None:
        self._master, slave = pty.openpty()
        self.process = Forked(program, *words, terminal=slave)
        os.close(slave)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until the terminal shows the text."""
        ends = time.monotonic() + PATIENCE
        while text not in self.seen:
            ready, _, _ = select.select([self._master], [], [], max(ends - time.monotonic(), 0))
            assert ready, f"never saw {text!r} in {self.seen!r}"
            self.seen += os.read(self._master, 65536).decode()

    def type(self, line: str) -> None:
        os.write(self._master, line.encode())

    def end(self) -> tuple[int | None, str]:
        """Exit code and stdout."""
        shown, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, shown

    def close(self) -> None:
        self.process.kill()
        os.close(self._master)


@contextmanager
def terminal(program: str, *words: object) -> Iterator[Terminal]:
    opened = Terminal(program, *words)
    try:
        yield opened
    finally:
        opened.close()


def said(process: Forked | subprocess.Popen[str], text: str) -> str:
    """Read stderr until a line holds the text."""
    assert process.stderr is not None
    lines = ""
    for line in process.stderr:
        lines += line
        if text in line:
            return lines
    raise AssertionError(f"never said {text!r}, but: {lines}")


def appears(directory: Path, pattern: str) -> None:
    """Wait for a file."""
    ends = time.monotonic() + PATIENCE
    while not list(directory.glob(pattern)):
        assert time.monotonic() < ends, f"{pattern} never appeared in {directory}"
        time.sleep(0.01)


def shown_digest(seen: str) -> str:
    return seen.split("Digest: ")[1].split()[0]


@pytest.mark.parametrize("length", [8, 12, 64])
def test_a_person_at_the_terminal_approves_by_typing_the_beginning_of_the_digest(length: int) -> None:
    with terminal(program(), *RECOVER) as person:
        person.wait_for("type the first 8 characters of the digest")
        person.type(shown_digest(person.seen)[:length] + "\n")
        code, shown = person.end()

    assert code == 0
    assert "orders-0   Recovered" in shown
    before_the_question = person.seen.split("To approve, type")[0].splitlines()[-1]
    assert before_the_question.startswith("Electing as planned may lose ")


@pytest.mark.parametrize("typed", ["yes\n", "\n", "\x04"])
def test_anything_else_refuses(typed: str) -> None:
    with terminal(program(), *RECOVER) as person:
        person.wait_for("type the first 8 characters of the digest")
        person.type(typed)
        code, shown = person.end()

    assert code == 4
    assert "AwaitingApproval" in shown


def test_ctrl_c_at_the_question_is_a_no() -> None:
    with terminal(program(), *RECOVER) as person:
        person.wait_for("anything else approves nothing: ")
        person.process.send_signal(signal.SIGINT)
        person.wait_for("Nothing was begun")
        code, shown = person.end()

    assert code == 130
    assert "Refused" in shown


def test_a_second_run_learns_that_the_first_one_waits_for_a_person(journal: Path) -> None:
    with terminal(program(), *RECOVER) as person:
        person.wait_for("anything else approves nothing: ")
        with Forked(program(), *RECOVER) as second:
            _, refused = second.communicate(PATIENCE)
            assert second.returncode == 5
        person.type(shown_digest(person.seen)[:8] + "\n")
        code, _ = person.end()

    plan, process = shown_digest(person.seen)[:12], person.process.pid
    assert f"waits for approval of plan {plan}: process {process} (recover by " in refused
    assert code == 0
    assert not list(journal.glob("*/holder.json"))


def test_a_terminal_sees_a_bar_and_stdout_stays_clean(automatic: Path) -> None:
    with terminal(program(0.2, 60), *RECOVER, "--policy", automatic) as person:
        person.wait_for("wave 2 of 3")
        code, shown = person.end()

    assert code == 0
    assert "\x1b" not in shown
    assert "60 of 60 partitions have a leader that answers." in shown


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_the_first_signal_ends_after_the_wave_under_way(automatic: Path, number: signal.Signals, code: int) -> None:
    with Forked(program(0.3, 3), *RECOVER, "--policy", automatic) as process:
        said(process, "wave 1 of 2")
        process.send_signal(number)
        shown, rest = process.communicate(timeout=PATIENCE)

    assert process.returncode == code
    assert "1 of 3 partitions have a leader that answers." in shown
    assert "a second signal ends at once" in rest
    assert "To go on: kafka-recovery" in rest


def test_a_second_signal_ends_at_once_and_leaves_the_run_in_the_journal(automatic: Path, journal: Path) -> None:
    with Forked(program(PATIENCE), *RECOVER, "--policy", automatic) as process:
        said(process, "wave 1 of 1")
        process.send_signal(signal.SIGTERM)
        said(process, "a second signal ends at once")
        appears(journal, "*/*/wave-0001-started.json")
        process.send_signal(signal.SIGTERM)
        shown, rest = process.communicate(timeout=PATIENCE)

    assert process.returncode == 143
    assert shown == ""
    assert "kafka-recovery resume" in rest
    assert not list(journal.glob("*/*/wave-0001-ended.json"))


def test_a_signal_before_anything_was_changed_ends_at_once() -> None:
    slow = program().replace(
        "running.leave",
        "import asyncio\nasync def slow(scope, rules): await asyncio.sleep(60)\ncluster.gather = slow\nrunning.leave",
    )
    with Forked(slow, "inspect", "--bootstrap-server", "kafka-1:9092") as process:
        said(process, "asking the brokers")
        process.send_signal(signal.SIGTERM)
        shown, rest = process.communicate(timeout=PATIENCE)

    assert process.returncode == 143
    assert shown == ""
    assert "SIGTERM: ended; nothing was changed" in rest


def test_nohup_is_respected(automatic: Path) -> None:
    words = ["nohup", sys.executable, "-c", program(0.3, 2), *RECOVER, "--policy", str(automatic)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said(process, "wave 1 of 2")
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
