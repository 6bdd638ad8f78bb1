"""Processes that are forked do not outlive who started them; for the rest, all tests here rely on them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from testbed.fork_server import ForkServer
from testbed.waiting import wait_until

OURS = "apiserver.test_fork_server"


def sleep() -> None:
    """A program."""
    print(os.getpid(), flush=True)
    signal.pause()


def test_what_runs_dies_with_the_server_s_owner(tmp_path: Path) -> None:
    server = ForkServer(OURS)
    with (tmp_path / "out").open("ab") as output:
        process = server.start(f"{OURS}:sleep", (), output, dict(os.environ))

    server.close()

    wait_until("it is gone", lambda: Path(f"/proc/{process.pid}").exists(), lambda there: not there)
    assert process.wait(1) == -signal.SIGKILL
