"""How an engine's process reaches simulated brokers: names, connections, and what is heard of its requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from errno import ECONNREFUSED
from socket import EAI_NONAME, gaierror

from kafka_recovery.cluster.sockets import Address, Streams
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.host.mortality import Process
from kafka_recovery.simulator.host.tcp import Calling, Link, Tap, Untapped
from kafka_recovery.simulator.host.weather import Weather
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.wire.session import Session

PORT = 9092

NAMELESS, SHARED = "nameless", "shared"
"""What a client is told of a broker: an address that does not resolve, or another broker's."""


@dataclass(slots=True)
class Names:
    """Who listens where, and what brokers say of that. Right, until `advertised` has other addresses for some."""

    brokers: Sequence[BrokerId]
    advertised: dict[BrokerId, Address] = field(default_factory=dict)

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        """All of them, where they really listen."""
        return tuple(map(_real, self.brokers))

    def address_of(self, broker: BrokerId) -> Address:
        """What brokers tell clients."""
        return self.advertised.get(broker) or _real(broker)

    def broker_at(self, address: Address) -> BrokerId | None:
        """Who listens there; None: the name does not resolve."""
        return next((id for id in self.brokers if _real(id) == address), None)


def _real(broker: BrokerId) -> Address:
    return Address(f"kafka-{broker}", PORT)


@dataclass(frozen=True, slots=True)
class SimulatedDial:
    """Port `Dial` of one process. `tap`: makes who hears the bytes of a connection."""

    kafka: SimulatedKafka
    process: Process
    names: Names
    weather: Weather = field(default_factory=Weather)
    tap: Callable[[], Tap] = Untapped

    async def __call__(self, address: Address, tls: ssl.SSLContext | None) -> Streams:
        """A connection. Raises OSError: the name is unknown, or nobody listens there."""
        broker = self.names.broker_at(address)
        if broker is None:
            raise gaierror(EAI_NONAME, "Name or service not known")
        if not await self._knock(broker):
            raise ConnectionRefusedError(ECONNREFUSED, "Connection refused")
        loop, target = asyncio.get_running_loop(), self.kafka.brokers[broker]
        session = Session(self.kafka, broker, self.process.name, self._told, whims=self.weather)
        link = Link(self.kafka.network, self.process, target, session, self.weather, self.tap())
        self.process.when_dead(link.abort)
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        link.attach(protocol)
        return reader, asyncio.StreamWriter(link, protocol, reader, loop)

    async def is_deaf(self, address: Address, within: timedelta) -> bool:
        """Whether its host is off, or cut off, or all packets are lost for so long."""
        broker = self.names.broker_at(address)
        if broker is None:
            return False
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._knock(broker)
        except TimeoutError:
            return True
        return False

    def _knock(self, broker: BrokerId) -> asyncio.Future[bool]:
        """Ask for a connection; the future says whether somebody listens there."""
        self.process.step(f"connect to broker {broker}")
        network = self.kafka.network
        network.node(self.process.name)
        answered = asyncio.get_running_loop().create_future()
        Calling(network, self.process.name, self.kafka.brokers[broker], answered).begin()
        return answered

    def _told(self, broker: BrokerId) -> Address:
        address = self.names.address_of(broker)
        if broker in self.names.advertised:
            self.weather.note(NAMELESS if self.names.broker_at(address) is None else SHARED)
        return address
