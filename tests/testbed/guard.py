"""Ends a cluster whose owner died without a word (SIGKILL, a crash): runs as a process of its own.

Reads `+PID` and `-PID` lines from its standard input. When that ends, the owner is gone: the nodes left over are killed
and, once they are dead, the cluster's folder is removed. PR_SET_PDEATHSIG would be shorter, but it fires when the
*thread* that started a node ends, and a test may well start a broker from a worker thread.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

DEATH = 30.0
"""Seconds a killed node has to be gone; after that its folder is removed all the same."""


class Guard:
    """The owner's end of the pipe; `folder` is removed with the nodes if the owner dies, None leaves it."""

    def __init__(self, folder: Path | None) -> None:
        command = [sys.executable, "-I", "-S", __file__, str(folder or "")]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what kills the owner's process group must not take the guard along
        )

    def watch(self, pid: int) -> None:
        self._tell(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        self._tell(f"-{pid}\n")

    def close(self) -> None:
        """Ends the guard; whatever it still watches dies with it."""
        with suppress(BrokenPipeError):
            self._process.communicate()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        # A guard that somebody killed is no reason to fail a test that would clean up by itself.
        with suppress(BrokenPipeError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


def stand_guard(folder: str) -> None:
    """Watches until standard input ends, then ends what is left."""
    watched: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        if line.startswith("+"):
            watched.add(pid)
        else:
            watched.discard(pid)
    # None of these is a stranger's: a dead child keeps its pid until its parent has seen it, and then we are told.
    for pid in watched:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    for pid in watched:
        _wait(pid)
    if folder:
        _remove(Path(folder))


def _wait(pid: int) -> None:
    # A killed JVM takes a while to give its memory back, and keeps its ports until then.
    if sys.platform == "linux":
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            select.select([process], [], [], DEATH)
            os.close(process)


def _remove(folder: Path) -> None:
    for _ in range(50):  # a process that is just dying may still create a file
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


if __name__ == "__main__":
    stand_guard(sys.argv[1])
