"""Programs as processes of their own, forked from one that has imported the command line already.

To import it takes each process a second of work; a fork takes none. What a test sends and sees is the same.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.reduction import DupFd
from types import TracebackType
from typing import Any, Self, TextIO

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["unit.cli.small_cluster", "kafka_recovery.cli.main", "pytest"])


class Forked:
    """A Python program under way; the part of `subprocess.Popen` that tests use.

    Its output is a pipe, and so is its standard error, unless a terminal is given: that is its input as well.
    """

    def __init__(self, program: str, *words: object, terminal: int | None = None) -> None:
        self.stdout, out = _pipe()
        self._said, err = _pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        ends = (nothing, out, err) if terminal is None else (terminal, out, terminal)
        given = [_End(end) for end in ends]
        self._process = _FORKS.Process(target=_run, args=(program, list(map(str, words)), dict(os.environ), given))
        self._process.start()
        for end in (nothing, out, err):
            os.close(end)

    @property
    def stderr(self) -> TextIO:
        return self._said

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """The rest of its output and of its standard error, once it has ended."""
        with ThreadPoolExecutor(1) as reader:
            shown = reader.submit(self.stdout.read)
            said = self._said.read()
        self.wait(timeout)
        return shown.result(), said

    def wait(self, timeout: float) -> None:
        """Until it has ended."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked program", timeout)

    def kill(self) -> None:
        """Whatever it does; harmless if it has ended."""
        self._process.kill()
        self._process.join()
        self.stdout.close()
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()


class _End:
    """A file descriptor that goes along to another process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _End._arrived, (DupFd(self.descriptor),)

    @staticmethod
    def _arrived(copy: Any) -> _End:
        return _End(copy.detach())


def _pipe() -> tuple[TextIO, int]:
    read, write = os.pipe()
    return os.fdopen(read, encoding="utf-8"), write


def _run(program: str, words: list[str], surroundings: Mapping[str, str], ends: list[_End]) -> None:
    for place, end in enumerate(ends):
        os.dup2(end.descriptor, place)
        os.close(end.descriptor)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.environ.clear()
    os.environ.update(surroundings)
    sys.argv = ["-c", *words]
    exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
