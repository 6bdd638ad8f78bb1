"""Messages that are well formed and mean nothing: each is answered, or ends the connection, and breaks no broker."""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import WITH_KIP_1275
from kafka_recovery.simulator.wire.apis import Api, apis_of, controller_apis_of
from kafka_recovery.simulator.wire.frames import body
from kafka_recovery.simulator.wire.session import BadFrame, Session
from unit.examples import examples
from unit.simulator.wire.asking import address

NEWEST = Settings(release="4.4")
ENDS = {
    BrokerId(1): apis_of(NEWEST, WITH_KIP_1275).offered,
    BrokerId(3000): controller_apis_of(NEWEST, WITH_KIP_1275).offered,
}
"""What a broker offers, and a controller."""
BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
TEXTS = st.sampled_from(["orders", "new", "", "..", "a b", "x" * 300, "\0", "min.insync.replicas", "-1", "PLAIN"])
IDS = st.sampled_from([UUID(int=1 << 64), UUID(int=7), None])
"""The topic's, another one, and none."""


def number(bits: int) -> st.SearchStrategy[int]:
    """Small ones, which mean something, and the ends."""
    return st.integers(-5, 5) | st.sampled_from([-(1 << bits), (1 << bits) - 1])


def value(field: Any, version: int) -> st.SearchStrategy[Any]:
    """Anything that this field can hold."""
    kind = some(field, version)
    return kind | st.none() if field.nullable_for_version_q(version) else kind


def some(field: Any, version: int) -> st.SearchStrategy[Any]:
    """Anything but null."""
    if field.is_struct_array():
        return st.lists(message(field.array_of, version), max_size=3)
    if field.is_struct():
        return message(field, version)
    if field.is_array():
        return st.lists(some(field.array_of, version), max_size=3)
    if field.type_str in BITS:
        return number(BITS[field.type_str])
    if field.type_str in ("bytes", "records"):
        return st.binary(max_size=80)
    return {"bool": st.booleans(), "string": TEXTS, "uuid": IDS}[field.type_str]


def message(layout: Any, version: int) -> st.SearchStrategy[Any]:
    """Anything that has these fields."""
    fields = {field.name: value(field, version) for field in layout._fields if field.for_version_q(version)}
    return st.builds(SimpleNamespace, **fields)


@cache
def content(request: Any, version: int) -> st.SearchStrategy[Any]:
    """Made once: to make the strategies of a message takes longer than to draw from them."""
    return message(request._struct, version)


@st.composite
def requests(draw: st.DrawFn, end: BrokerId) -> tuple[Api, int, bytes]:
    """A request that is offered, in an offered version."""
    api = draw(st.sampled_from(list(ENDS[end].values())))
    version = draw(st.integers(api.lowest, api.highest))
    return api, version, body(api.request, version, draw(content(api.request, version)))


@pytest.mark.parametrize("end", list(ENDS))
@settings(deadline=None, max_examples=examples(50))
@given(data=st.data())
def test_any_message_is_answered_or_ends_the_connection(end: BrokerId, data: st.DataObject) -> None:
    asked: list[tuple[Api, int, bytes]] = data.draw(st.lists(requests(end), min_size=1, max_size=4))
    kafka = SimulatedKafka(1, settings=NEWEST, switches=WITH_KIP_1275)
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 1]])
    answers: list[bytes] = []
    session = Session(kafka, end, "tester", address)
    with suppress(BadFrame):
        for place, (api, version, content) in enumerate(asked):
            tags = b"\0" if api.request.flexible_version_q(version) else b""
            head = struct.pack(">hhih", api.request.API_KEY, version, place, -1)
            session.received(head + tags + content, answers.append)

        kafka.run_for(1)

    places = [struct.unpack_from(">i", answer)[0] for answer in answers]
    assert places == sorted(set(places))
    assert len(kafka.brokers) == sum(broker.is_open for broker in kafka.brokers.values())
