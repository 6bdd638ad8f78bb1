"""How an engine's process reaches simulated brokers: names, connections, and what is heard of its requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from errno import ECONNREFUSED
from socket import EAI_NONAME, gaierror

from kafka_recovery.cluster.sockets import Address, Streams
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.host.mortality import Process
from kafka_recovery.simulator.host.tcp import Calling, Link
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.wire.session import Session

PORT = 9092


def address_of(broker: BrokerId) -> Address:
    """Where a simulated broker listens."""
    return Address(f"kafka-{broker}", PORT)


def names_of(kafka: SimulatedKafka) -> Mapping[Address, BrokerId]:
    """Who listens where."""
    return {address_of(id): id for id in kafka.broker_ids}


@dataclass(frozen=True, slots=True)
class SimulatedDial:
    """Port `Dial` of one process. `sending` hears of every request's frame, just before it is sent."""

    kafka: SimulatedKafka
    process: Process
    sending: Callable[[bytes], object] = lambda frame: None

    async def __call__(self, address: Address, tls: ssl.SSLContext | None) -> Streams:
        """A connection. Raises OSError: the name is unknown, or nobody listens there."""
        broker = names_of(self.kafka).get(address)
        if broker is None:
            raise gaierror(EAI_NONAME, "Name or service not known")
        self.process.step(f"connect to broker {broker}")
        loop, network, target = asyncio.get_running_loop(), self.kafka.network, self.kafka.brokers[broker]
        network.node(self.process.name)
        answered = loop.create_future()
        Calling(network, self.process.name, target, answered).begin()
        if not await answered:
            raise ConnectionRefusedError(ECONNREFUSED, "Connection refused")
        session = Session(self.kafka, broker, self.process.name, address_of)
        link = Link(network, self.process, target, session, self.sending)
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        link.attach(protocol)
        return reader, asyncio.StreamWriter(link, protocol, reader, loop)
