"""What tests take for given about processes that are forked: they are as good as any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.fork_server import Forked, ForkServer
from testbed.waiting import wait_until

OURS = "apiserver.test_fork_server"


def echo() -> int:
    """A program."""
    print(*sys.argv[1:], os.environ.get("SAID"), flush=True)
    print("oh", file=sys.stderr)
    return 3


def sleep() -> None:
    """Another one."""
    print(os.getpid(), flush=True)
    signal.pause()


def fail() -> None:
    """A third one."""
    raise RuntimeError("as it was meant to")


@pytest.fixture(scope="module")
def programs() -> Iterator[ForkServer]:
    server = ForkServer(OURS)
    yield server
    server.close()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def started(programs: ForkServer, program: str, out: Path, *arguments: str, **environment: str) -> Forked:
    with out.open("ab") as output:
        return programs.start(f"{OURS}:{program}", arguments, output, {**os.environ, **environment})


def test_it_has_its_own_arguments_environment_output_and_exit_code(programs: ForkServer, out: Path) -> None:
    process = started(programs, "echo", out, "one", "two", SAID="three")

    assert process.wait(10) == 3
    assert process.poll() == 3
    assert out.read_text() == "one two three\noh\n"


def test_it_says_elsewhere_what_is_an_error(programs: ForkServer, tmp_path: Path, out: Path) -> None:
    with out.open("wb") as output, (tmp_path / "errors").open("wb") as errors:
        programs.start(f"{OURS}:echo", [], output, dict(os.environ), errors).wait(10)

    assert (out.read_text(), (tmp_path / "errors").read_text()) == ("None\n", "oh\n")


def test_one_that_fails_tells_why(programs: ForkServer, out: Path) -> None:
    assert started(programs, "fail", out).wait(10) == 1
    assert "as it was meant to" in out.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_and_is_its_exit_code(programs: ForkServer, out: Path, number: signal.Signals) -> None:
    process = started(programs, "sleep", out)
    wait_until("it sleeps", out.read_text, lambda said: said == f"{process.pid}\n")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)

    process.send_signal(number)

    assert process.wait(10) == -number
    process.kill()  # of one that is gone: nothing


def test_many_at_a_time_are_told_apart(programs: ForkServer, tmp_path: Path) -> None:
    several = [started(programs, "sleep", tmp_path / str(number)) for number in range(5)]
    several[2].terminate()

    assert several[2].wait(10) == -signal.SIGTERM
    assert [each.poll() for each in several if each is not several[2]] == [None] * 4
    for each in several:
        each.kill()
        each.wait(10)


def test_what_runs_dies_with_the_server_s_owner(out: Path) -> None:
    server = ForkServer(OURS)
    process = started(server, "sleep", out)

    server.close()

    wait_until("it is gone", lambda: Path(f"/proc/{process.pid}").exists(), lambda there: not there)
    assert process.wait(1) == -signal.SIGKILL
