"""Simulated brokers and controllers on TCP: a port each, virtual time led by the real clock, faults as seen there."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.network import Node
from kafka_recovery.simulator.wire.session import BadFrame, Session

HOST = "127.0.0.1"

LARGEST_REQUEST = 16 * 1024 * 1024
"""Bytes. Kafka's own limit (socket.request.max.bytes) is larger, and a simulated broker has less to hold."""

_MOST_WAITING = 64
"""Requests of one connection that wait; the next one is not read before."""

_SLICE = 0.25
"""Virtual seconds of a step in which nobody is served."""

_MOMENT = 0.1
"""Virtual seconds that a request may take where time stands still: to the controller and back needs some hundredths."""

_LONGEST_STEP = 0.05
"""Seconds of real time in which nothing happens at most."""


class PortTaken(OSError):
    """A broker could not listen."""


@dataclass(eq=False, slots=True)
class _Connection:
    """`generation`: the process that took it; it ends with that. `under_way`: requests that have not reached it yet."""

    writer: asyncio.StreamWriter
    session: Session
    client: str
    generation: int
    under_way: int = 0
    room: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _Door:
    """The port of one broker or controller. `server` is None while connections are refused.

    `listens`: whether its process, if it runs, has opened the port.
    """

    id: BrokerId
    node: Node
    listens: Callable[[], bool]
    port: int
    server: asyncio.Server | None = None
    connections: set[_Connection] = field(default_factory=set)


class PlayServer:
    """Use as an `async with` block; `serve` lets time pass. `first_port` 0: whatever ports are free.

    `passwords`: by user, if clients have to say who they are. `complain` takes one line for each error of the model
    itself, which ends at most the connection that it came over.

    `stepped`: virtual time stands still until `step`. A request is answered all the same: it takes the moment that its
    way needs, and one that waits for something to happen goes on waiting.
    """

    def __init__(
        self,
        kafka: SimulatedKafka,
        first_port: int = 0,
        passwords: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        complain: Callable[[str], object] | None = None,
        *,
        stepped: bool = False,
    ) -> None:
        self.kafka, self._passwords, self._complain = kafka, passwords, complain or _on_stderr
        self._first_port, self._clock, self._stepped = first_port, clock, stepped
        self._began, self._virtual = clock(), kafka.scheduler.now
        self._doors: dict[BrokerId, _Door] = {}
        self._clients = itertools.count(1)
        self._moved = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Listen. Raises PortTaken."""
        self._began, self._virtual = self._clock(), self.kafka.scheduler.now
        try:
            for place, (id, node, listens) in enumerate(self._processes()):
                door = self._doors[id] = _Door(id, node, listens, self._first_port and self._first_port + place)
                await self._open(door)
                assert door.server is not None
                door.port = door.server.sockets[0].getsockname()[1]
            await self._follow_brokers()
        except BaseException:
            await self._close_all()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close_all()

    def _processes(self) -> Iterator[tuple[BrokerId, Node, Callable[[], bool]]]:
        for broker in self.kafka.brokers.values():
            yield broker.id, broker.node, partial(getattr, broker, "is_open")
        for name in self.kafka.controllers.names:
            node = self.kafka.network.nodes[name]
            yield self.kafka.controllers.id_of(name), node, partial(getattr, node, "running")

    @property
    def bootstrap(self) -> str:
        """Every broker's address, dead or alive."""
        return self._addresses(self.kafka.brokers)

    @property
    def controllers(self) -> str:
        """Every controller's address, dead or alive."""
        return self._addresses(map(self.kafka.controllers.id_of, self.kafka.controllers.names))

    def _addresses(self, ids: Iterable[BrokerId]) -> str:
        return ",".join(f"{HOST}:{self._doors[id].port}" for id in ids)

    def address(self, id: BrokerId) -> tuple[str, int]:
        """Where a broker or a controller says that it listens."""
        return HOST, self._doors[id].port

    async def serve(self) -> None:
        """Let virtual time follow the real one, or `step`, until cancelled."""
        while True:
            self._catch_up()
            await self._follow_brokers()
            due = self.kafka.scheduler.next_time()
            wait = _LONGEST_STEP if due is None else min(_LONGEST_STEP, max(0.0, due - self._now()))
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._moved.wait()

    async def step(self, seconds: float) -> float:
        """Let so much virtual time pass, as fast as it can; the virtual second that it is then."""
        until = self._virtual + seconds
        while self._virtual < until:
            self._virtual = min(until, self._virtual + _SLICE)
            self._catch_up()
            await self._follow_brokers()
            await asyncio.sleep(0)
        return self._virtual

    def _now(self) -> float:
        return self._virtual if self._stepped else self._virtual + self._clock() - self._began

    def _catch_up(self) -> None:
        until, began = self._now(), self._clock()
        self._contained(partial(self.kafka.run_until, until))
        if self._clock() - began > _LONGEST_STEP and not self._stepped:
            # On a machine that is too slow for the model its time goes slower, or there were ever more to catch up.
            self._virtual, self._began = until, self._clock()

    def _answer(self, connection: _Connection) -> None:
        """Where time stands still: let pass what the requests of a connection need, but for those that wait."""
        kafka, until = self.kafka, self._virtual + _MOMENT

        def goes_on() -> bool:
            return bool(connection.under_way or connection.session.waiting)

        self._contained(lambda: kafka.run_while(goes_on, at_most=until - kafka.scheduler.now))
        self._virtual = kafka.scheduler.now

    def _contained(self, pass_time: Callable[[], object]) -> None:
        """An event that fails is gone; those after it happen."""
        while True:
            try:
                pass_time()
            except Exception as error:  # noqa: BLE001 - a defect of the model must not end what others do on it
                self._complain(f"the simulated cluster goes on after {_told(error)}")
            else:
                return

    def _failed(self, who: str, writer: asyncio.StreamWriter, error: Exception) -> None:
        self._complain(f"the connection {who} ends, because of a defect of the simulation: {_told(error)}")
        writer.transport.abort()

    async def _follow_brokers(self) -> None:
        """Ports refuse where no process listens; connections break when a process ends. A host that is gone is silent:
        its port still takes connections, because nobody but the kernel is there to do otherwise."""
        for door in self._doors.values():
            node = door.node
            listens = door.listens() or node.paused or not node.host_up
            if listens and door.server is None:
                await self._open(door)
            elif not listens and door.server is not None:
                door.server.close()
                door.server = None
            for connection in tuple(door.connections):
                if node.host_up and (connection.generation != node.generation or not node.running):
                    connection.writer.transport.abort()

    async def _open(self, door: _Door) -> None:
        try:
            door.server = await asyncio.start_server(partial(self._connected, door), HOST, door.port)
        except OSError as error:
            raise PortTaken(f"port {door.port} on {HOST} is taken: {error.strerror}") from error

    async def _connected(self, door: _Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = f"client-{next(self._clients)}"
        self.kafka.network.node(client)
        failed = partial(self._failed, f"{client} of {door.node.title}", writer)
        session = Session(
            self.kafka, door.id, client, self.address, strict=False, passwords=self._passwords, failed=failed
        )
        connection = _Connection(writer, session, client, door.node.generation)
        door.connections.add(connection)
        try:
            await self._read(door, connection, reader)
        except (OSError, asyncio.IncompleteReadError, BadFrame):
            pass
        finally:
            door.connections.discard(connection)
            self.kafka.network.nodes.pop(client, None)
            writer.transport.abort()

    async def _read(self, door: _Door, connection: _Connection, reader: asyncio.StreamReader) -> None:
        while True:
            size = int.from_bytes(await reader.readexactly(4), signed=True)
            if not 0 < size <= LARGEST_REQUEST:
                raise BadFrame(f"a request of {size} bytes")
            frame = await reader.readexactly(size)
            self._catch_up()
            self._deliver(door, connection, frame)
            self._moved.set()
            while connection.session.waiting >= _MOST_WAITING:
                connection.room.clear()
                await connection.room.wait()

    def _deliver(self, door: _Door, connection: _Connection, frame: bytes) -> None:
        """Through what is between the client and the other end, to the process that took the connection."""
        network, node = self.kafka.network, door.node
        if network.cuts(connection.client, node.name):
            return

        def arrived() -> None:
            connection.under_way -= 1
            if connection.generation == node.generation:
                try:
                    connection.session.received(frame, partial(self._reply, door, connection))
                except BadFrame:
                    connection.writer.transport.abort()

        lag = network.lag(connection.client, node.name)
        connection.under_way += 1
        self.kafka.scheduler.after(lag, partial(node.deliver, arrived))
        if self._stepped:
            self._answer(connection)
        else:
            self._catch_up()

    def _reply(self, door: _Door, connection: _Connection, frame: bytes) -> None:
        connection.room.set()
        if self.kafka.network.cuts(door.node.name, connection.client) or connection.writer.transport.is_closing():
            return
        connection.writer.write(len(frame).to_bytes(4) + frame)

    async def _close_all(self) -> None:
        for door in self._doors.values():
            if door.server is not None:
                door.server.close()
                door.server = None
            for connection in tuple(door.connections):
                connection.writer.transport.abort()
        # Each connection's own task sees the end of its stream and goes.
        while any(door.connections for door in self._doors.values()):
            await asyncio.sleep(0)


def _on_stderr(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a terminal that is gone ends nothing
        print(line, file=sys.stderr, flush=True)


def _told(error: Exception) -> str:
    """In one line: what it is, upon which request, and where in the code."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    said = " ".join(str(error).split())
    return (
        f"{type(error).__name__}{notes}, in {place.name} (line {place.lineno} of {Path(place.filename).name}): {said}"
    )
