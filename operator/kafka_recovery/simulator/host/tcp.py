"""TCP over the simulated network: streams of bytes between an engine's process and a simulated broker.

What is sent arrives in order, once, however packets fare: a lost one is sent again for half a minute, as a kernel does
even for a process that has died meanwhile. A broker whose process ends resets its connections, if its host is still up
to say so; a host that vanished says nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from kafka_recovery.simulator.host.mortality import Killed, Process
from kafka_recovery.simulator.host.weather import WAITS_FOR_THE_NEXT, Became, Weather
from kafka_recovery.simulator.model.broker import Broker
from kafka_recovery.simulator.model.network import Network, NodeName

SENT_AGAIN_FOR = 30.0
"""Seconds after which a packet that never arrives is given up."""

_FIRST_PAUSE, _SYN_PAUSE = 0.3, 1.0


class Listener(Protocol):
    """What a broker does with the frames of one connection."""

    def received(self, frame: bytes, reply: Callable[[bytes], None]) -> None:
        """One request; `reply` takes its answer, now or later. Raises ValueError for what ends the connection."""
        ...


@dataclass(slots=True)
class _Way:
    """One direction of a connection."""

    network: Network
    source: NodeName
    target: NodeName
    arrive: Callable[[bytes], object]
    _sent: int = 0
    _arrived: int = 0
    _early: dict[int, bytes] = field(default_factory=dict)

    def send(self, data: bytes) -> None:
        number, self._sent = self._sent, self._sent + 1
        self._transmit(number, data, self.network.scheduler.now + SENT_AGAIN_FOR, _FIRST_PAUSE)

    def _transmit(self, number: int, data: bytes, until: float, pause: float) -> None:
        lost = partial(self._lost, number, data, until, pause)
        self.network.packet(self.source, self.target, "bytes", partial(self._take, number, data), lost)

    def _lost(self, number: int, data: bytes, until: float, pause: float) -> None:
        if self.network.scheduler.now + pause < until:
            self.network.scheduler.after(pause, partial(self._transmit, number, data, until, 2 * pause))

    def _take(self, number: int, data: bytes) -> None:
        self._early[number] = data
        while self._arrived in self._early:
            self._arrived += 1
            self.arrive(self._early.pop(self._arrived - 1))


class Tap(Protocol):
    """Who hears the bytes of one connection at the client's end."""

    def sending(self, frame: bytes) -> object:
        """A request with its length is about to be sent."""
        ...

    def arrived(self, data: bytes) -> object:
        """Some bytes of answers have arrived."""
        ...


class Untapped:
    """Nobody does."""

    def sending(self, frame: bytes) -> None:
        """Not heard."""

    def arrived(self, data: bytes) -> None:
        """Not heard."""


class Link(asyncio.Transport):
    """The client's end of one connection: what asyncio writes to and hears from."""

    def __init__(
        self,
        network: Network,
        process: Process,
        broker: Broker,
        listener: Listener,
        weather: Weather,
        tap: Tap,
    ) -> None:
        """`listener`: who answers at the other end."""
        super().__init__()
        self._network, self._process, self._broker, self._listener = network, process, broker, listener
        self._weather, self._tap = weather, tap
        self._generation = broker.node.generation
        self._there = _Way(network, process.name, broker.id, self._at_broker)
        self._back = _Way(network, broker.id, process.name, self._at_client)
        self._loop = asyncio.get_running_loop()
        self._unread = bytearray()
        self._held: Became | None = None
        self._closed = False
        self._protocol: asyncio.Protocol | None = None
        broker.node.when_stopped.append(self._broker_stopped)

    def attach(self, protocol: asyncio.Protocol) -> None:
        """Who hears of what arrives."""
        self._protocol = protocol
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send one request's frame. Raises Killed if the process does not live to do it."""
        frame = bytes(data)
        self._process.step(f"send a request to broker {self._broker.id}")
        if self._closed:
            return
        self._tap.sending(frame)
        if self._process.dead:
            raise Killed("it dies with the request in its hands")
        self._there.send(frame)

    def is_closing(self) -> bool:
        """Whether this end is closed."""
        return self._closed

    def abort(self) -> None:
        """Close at once; what was sent is on its way."""
        self.close()

    def close(self) -> None:
        """Close; what was sent is on its way."""
        self._end(None)

    def _at_broker(self, data: bytes) -> None:
        node = self._broker.node
        if node.generation != self._generation or not node.running:
            self._broker_stopped(node.host_up)
        else:
            node.deliver(partial(self._read, data))

    def _read(self, data: bytes) -> None:
        if self._broker.refuses_work():
            return
        self._unread += data
        while len(self._unread) >= 4 and len(self._unread) >= 4 + (size := int.from_bytes(self._unread[:4], "big")):
            frame = bytes(self._unread[4 : 4 + size])
            del self._unread[: 4 + size]
            try:
                self._listener.received(frame, self._reply)
            except ValueError:
                self._broker_stopped(True)

    def _reply(self, frame: bytes) -> None:
        if self._broker.node.generation != self._generation:
            return
        whole, held = len(frame).to_bytes(4, "big") + frame, self._held
        if held is not None:
            self._pass_on(Became(((0.0, whole),)))
            self._let_go(held)
            return
        became = self._weather.becomes_of(whole)
        if became.after_next:
            self._held = became
            self._network.scheduler.after(WAITS_FOR_THE_NEXT, partial(self._let_go, became))
        else:
            self._pass_on(became)

    def _let_go(self, held: Became) -> None:
        if self._held is held:
            self._held = None
            self._pass_on(held)

    def _pass_on(self, became: Became) -> None:
        for delay, piece in became.pieces:
            self._network.scheduler.after(delay, partial(self._back.send, piece))
        if became.then_reset:
            self._network.scheduler.after(became.lasts, partial(self._broker_stopped, True))

    def _at_client(self, data: bytes) -> None:
        if self._closed or self._protocol is None:
            return
        try:
            self._process.step(f"an answer of broker {self._broker.id}")
        except Killed:
            return
        self._tap.arrived(data)
        self._protocol.data_received(data)

    def _broker_stopped(self, host_up: bool) -> None:
        if host_up and not self._closed:
            reset = partial(self._end, ConnectionResetError("Connection reset by peer"))
            self._network.packet(self._broker.id, self._process.name, "reset", reset, lambda: None)

    def _end(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._closed = True
        self._broker.node.when_stopped.remove(self._broker_stopped)
        if self._protocol is not None:
            self._loop.call_soon(self._protocol.connection_lost, error)


@dataclass(frozen=True, slots=True)
class Calling:
    """One attempt to connect: the first packet there, and what comes back."""

    network: Network
    client: NodeName
    broker: Broker
    done: asyncio.Future[bool]

    def begin(self, pause: float = _SYN_PAUSE) -> None:
        """Knock; again after a while if that is lost, until nobody waits any more."""
        if not self.done.done():
            self.network.packet(self.client, self.broker.id, "connect", self._knocked, partial(self._later, pause))

    def _later(self, pause: float) -> None:
        self.network.scheduler.after(pause, partial(self.begin, 2 * pause))

    def _knocked(self) -> None:
        """The host's kernel answers, even for a process that stands still."""
        taken = self.broker.node.running and self.broker.is_open
        answer = partial(self._answered, taken)
        self.network.packet(self.broker.id, self.client, "connected", answer, lambda: None)

    def _answered(self, taken: bool) -> None:
        if not self.done.done():
            self.done.set_result(taken)
