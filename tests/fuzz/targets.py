"""What is done with any bytes at all, and the only ways in which that may end."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka.protocol import admin, consumer, metadata
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from kafka_recovery.cluster import kip_1275
from kafka_recovery.cluster.codec import Unreadable, decode
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import WITH_KIP_1275
from kafka_recovery.simulator.wire.apis import Apis, apis_of, controller_apis_of
from kafka_recovery.simulator.wire.session import BadFrame, Session

FOUND = Path(__file__).parent / "found"
"""Bytes that once did harm, in a folder for each target."""

NEWEST = Settings(release="4.4")
BROKER, CONTROLLER = BrokerId(1), BrokerId(3000)

ANSWERS: tuple[Any, ...] = (
    metadata.ApiVersionsResponse,
    admin.DescribeClusterResponse,
    admin.DescribeTopicPartitionsResponse,
    admin.DescribeConfigsResponse,
    admin.DescribeQuorumResponse,
    admin.ListPartitionReassignmentsResponse,
    admin.AlterPartitionReassignmentsResponse,
    consumer.ListOffsetsResponse,
    consumer.FetchResponse,
    kip_1275.ElectLeadersResponse,
    kip_1275.GetReplicaLogInfoResponse,
    SaslHandshakeResponse,
    SaslAuthenticateResponse,
)
"""All that the client ever reads. Their places are in the bytes of found cases: new ones go to the end."""


def server(data: bytes) -> None:
    """Frames at a broker, or where the first byte is odd at a controller: answered, or the connection ends.

    Each frame has its length in two bytes before it.
    """
    kafka = SimulatedKafka(1, settings=NEWEST, switches=WITH_KIP_1275, keep_timeline=False)
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 1]])
    at, rest = (CONTROLLER if data[:1] and data[0] % 2 else BROKER), memoryview(data)[1:]
    session = Session(kafka, at, "nobody", lambda id: (f"node-{id}", 9092))
    with suppress(BadFrame):
        while len(rest) >= 2:
            size = int.from_bytes(rest[:2])
            session.received(bytes(rest[2 : 2 + size]), lambda answer: None)
            rest = rest[2 + size :]
        kafka.run_for(0.2)


def client(data: bytes) -> None:
    """An answer, whose kind and version are the first two bytes: read, or called unreadable."""
    if len(data) < 2:
        return
    message = ANSWERS[data[0] % len(ANSWERS)]
    with suppress(Unreadable):
        decode(message, data[1] % (message.max_version + 1), memoryview(data)[2:])


TARGETS: dict[str, Callable[[bytes], None]] = {"server": server, "client": client}


def beginnings(target: str) -> Iterator[bytes]:
    """Bytes to begin with, of each kind one, so that the search need not find out what messages look like."""
    if target == "client":
        for place, message in enumerate(ANSWERS):
            for version in range(message.max_version + 1):
                yield bytes((place, version, 0, 0, 0, 0)) + bytes(12)
        return
    for first, apis in ((0, apis_of(NEWEST, WITH_KIP_1275)), (1, controller_apis_of(NEWEST, WITH_KIP_1275))):
        yield from (bytes((first,)) + frame for frame in _requests(apis))


def _requests(apis: Apis) -> Iterator[bytes]:
    for key, api in apis.offered.items():
        for version in range(api.lowest, api.highest + 1):
            frame = struct.pack(">hhih", key, version, 1, -1) + bytes(20)
            yield len(frame).to_bytes(2) + frame
