"""Threads for calls that may hang for ever, as into a disk or a storage that is gone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class OwnThreads(Executor):
    """A new thread for each call. Those of the loop, or of a ThreadPoolExecutor, hold up the end of the process."""

    def __init__(self, name: str) -> None:
        self._name = name

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        """Raises RuntimeError if no thread can be started."""
        found: Future[T] = Future()
        found.set_running_or_notify_cancel()  # so nobody can take it back, and the thread may always answer

        def run() -> None:
            try:
                answer = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
                found.set_exception(error)
            else:
                found.set_result(answer)

        Thread(target=run, name=self._name, daemon=True).start()
        return found
