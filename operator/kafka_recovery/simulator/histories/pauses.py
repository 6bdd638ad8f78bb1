"""Processes that are stopped and let go on, on one event loop: what a stopped one was about to do waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from kafka_recovery.simulator.host.loop import Happenings, VirtualLoop

T = TypeVar("T")

_RUNNING: ContextVar[str | None] = ContextVar("running", default=None)
"""The process to which the code that runs now belongs; whatever a process starts belongs to it."""


@dataclass(slots=True)
class _Due:
    """A call that a stopped process has not made yet."""

    call: Callable[[], object]
    context: Context
    handle: list[asyncio.Handle] = field(default_factory=list)


class StoppableLoop(VirtualLoop):
    """A virtual loop on which each process may be stopped (SIGSTOP) while everybody else goes on."""

    def __init__(self, model: Happenings) -> None:
        super().__init__(model)
        self.stopped: dict[str, list[_Due]] = {}

    def belonging_to(self, process: str, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a coroutine as that process."""
        context = copy_context()
        context.run(_RUNNING.set, process)
        return self.create_task(main, context=context)

    def stop_for(self, process: str, seconds: float) -> None:
        """Let it do nothing for so long."""
        self.stopped.setdefault(process, [])
        self.call_later(seconds, partial(self.go_on, process), context=Context())

    def go_on(self, process: str) -> None:
        """What it would have done meanwhile it does now, in that order, unless it has changed its mind."""
        for due in self.stopped.pop(process, ()):
            self.call_soon(self._late, due, context=due.context)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As ever; what belongs to a stopped process waits."""
        if not self.stopped:
            return super().call_soon(callback, *args, context=context)
        handle: list[asyncio.Handle] = []
        made = super().call_soon(self._unless_stopped, handle, partial(callback, *args), context=context)
        handle.append(made)
        return made

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As ever; what belongs to a stopped process waits."""
        handle: list[asyncio.Handle] = []
        made = super().call_at(when, self._unless_stopped, handle, partial(callback, *args), context=context)
        handle.append(made)
        return made

    def _unless_stopped(self, handle: list[asyncio.Handle], call: Callable[[], object]) -> None:
        process = _RUNNING.get()
        if process is not None and process in self.stopped:
            self.stopped[process].append(_Due(call, copy_context(), handle))
        else:
            call()

    def _late(self, due: _Due) -> None:
        if not any(handle.cancelled() for handle in due.handle):
            self._unless_stopped(due.handle, due.call)
