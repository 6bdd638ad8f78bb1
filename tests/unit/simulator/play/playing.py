"""A played cluster in a thread of its own, so that blocking clients can be tried on it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.play.server import PlayServer
from kafka_recovery.simulator.play.stage import named_incident


@dataclass(frozen=True)
class Played:
    """A cluster that is being played; `do` calls something in its own thread, where alone it may be touched."""

    kafka: SimulatedKafka
    server: PlayServer
    loop: asyncio.AbstractEventLoop

    @property
    def bootstrap(self) -> str:
        """As clients want it."""
        return self.server.bootstrap

    @property
    def cluster_id(self) -> str:
        """As clients hear it."""
        return self.kafka.cluster_id

    def do(self, action: Callable[[], Any]) -> Any:
        """Call this between two moments of the cluster."""

        async def called() -> Any:
            return action()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(10)

    def step(self, seconds: float) -> float:
        """Let virtual time pass, where it stands still otherwise."""
        return asyncio.run_coroutine_threadsafe(self.server.step(seconds), self.loop).result(10)


@contextmanager
def played(
    kafka: SimulatedKafka, passwords: Mapping[str, str] | None = None, *, stepped: bool = False
) -> Iterator[Played]:
    """Serve on free ports until the block ends; what goes wrong while serving is raised at its end."""
    ready = threading.Event()
    found: list[Played] = []
    stop: list[asyncio.Task[None]] = []

    async def serve() -> None:
        async with PlayServer(kafka, passwords=passwords, stepped=stepped) as server:
            found.append(Played(kafka, server, asyncio.get_running_loop()))
            stop.append(asyncio.create_task(server.serve()))
            ready.set()
            await asyncio.wait(stop)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="played")
    thread.start()
    assert ready.wait(10)
    try:
        yield found[0]
    finally:
        found[0].loop.call_soon_threadsafe(stop[0].cancel)
        thread.join(10)
    if not stop[0].cancelled():
        stop[0].result()


@contextmanager
def played_incident(name: str, passwords: Mapping[str, str] | None = None) -> Iterator[Played]:
    """One of the incidents that `play` has, at the moment at which a person would meet it."""
    incident = named_incident(name)
    kafka = incident.staged()
    kafka.run_until(incident.begins_at)
    with played(kafka, passwords) as cluster:
        yield cluster


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for it, ten seconds at most."""
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.01)
