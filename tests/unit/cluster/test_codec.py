"""Messages from bytes that nobody vouches for: every size is compared with what is there."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import ElectLeadersRequest, ElectLeadersResponse
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest
from kafka.protocol.sasl import SaslHandshakeRequest

from kafka_recovery.cluster.codec import Unreadable, _Checked, decode, structure


def elect(version: int) -> bytes:
    """An election in one partition."""
    topic = ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[3])
    request = ElectLeadersRequest(election_type=1, topic_partitions=[topic], timeout_ms=1000)
    return bytes(request.encode(version=version))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_message_is_read_as_it_was_written(version: int) -> None:
    found = decode(ElectLeadersRequest, version, memoryview(elect(version)))

    assert [(topic.topic, topic.partitions) for topic in found.topic_partitions] == [("orders", [3])]
    assert found.timeout_ms == 1000


def test_tagged_fields_are_read() -> None:
    make = FetchRequest
    request = make(
        replica_state=make.ReplicaState(replica_id=-2, replica_epoch=-1), max_wait_ms=0, min_bytes=0, max_bytes=1,
        isolation_level=0, session_id=0, session_epoch=-1, topics=[], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip

    found = decode(FetchRequest, 15, memoryview(bytes(request.encode(version=15))))

    assert found.replica_state.replica_id == -2


@pytest.mark.parametrize(
    ("message", "version", "data"),
    [
        (ElectLeadersRequest, 0, struct.pack(">i", 2**31 - 1)),
        (ElectLeadersRequest, 0, struct.pack(">i", -2) + bytes(4)),
        (ElectLeadersRequest, 0, struct.pack(">ih", 1, 30_000) + b"orders" + bytes(8)),
        (ElectLeadersRequest, 0, struct.pack(">ih", 1, -1) + bytes(8)),
        (ElectLeadersRequest, 2, b"\1\xff\xff\xff\xff\x0f"),
        (ElectLeadersRequest, 2, b"\1" + b"\x80" * 100_000 + b"\1"),
        (ElectLeadersRequest, 2, elect(2) + b"\0"),
        (ElectLeadersRequest, 2, elect(2)[:-1]),
        (ElectLeadersRequest, 2, elect(2)[:-1] + b"\1\0\xff\xff\xff\xff\7"),
        (ElectLeadersRequest, 2, elect(2).replace(b"orders", b"\xff\xff\xff\xff\xff\xff")),
    ],
    ids=[
        "two thousand million items", "fewer items than none", "a string beyond the end", "a name that is null",
        "a compact array of everything", "a number of a hundred thousand bytes", "one byte too many",
        "one byte too few", "a tagged field beyond the end", "a name that is no text",
    ],
)  # fmt: skip
def test_what_is_not_there_is_not_read(message: Any, version: int, data: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(message, version, memoryview(data))


def test_a_number_has_five_bytes_at_most() -> None:
    """This one would be 1: an array without items."""
    data = b"\1" + b"\x81\x80\x80\x80\x80\x00" + bytes(5)

    with pytest.raises(Unreadable, match="five bytes"):
        decode(ElectLeadersRequest, 2, memoryview(data))


def replica_state(field: bytes) -> bytes:
    """A Fetch v15 with a tagged field of this content."""
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1, isolation_level=0, session_id=0, session_epoch=-1, topics=[],
        forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    whole = bytes(request.encode(version=15))
    assert whole[-1] == 0
    return whole[:-1] + bytes((1, 1, len(field))) + field


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (struct.pack(">iq", -2, -1) + b"\0\0", "14 bytes, of which 13"),
        (struct.pack(">iq", -2, -1) + b"\1", "tagged fields in a tagged field"),
        (struct.pack(">iq", -2, -1)[:-3], "FetchRequest v15: error"),
    ],
    ids=["more than there is to it", "tagged fields of its own", "less"],
)
def test_a_tagged_field_is_as_long_as_it_says(field: bytes, why: str) -> None:
    whole = struct.pack(">iq", -2, -1) + b"\0"
    assert decode(FetchRequest, 15, memoryview(replica_state(whole))).replica_state.replica_id == -2

    with pytest.raises(Unreadable, match=why):
        decode(FetchRequest, 15, memoryview(replica_state(field)))


def test_tagged_fields_without_end_are_not_read_to_their_end() -> None:
    """Sixty thousand, of two bytes each, that nobody knows: a small answer that would take seconds."""
    data = elect(2)[:-1] + b"\xe0\xd4\x03" + b"\x64\x00" * 60_000

    with pytest.raises(Unreadable, match="more tagged fields"):
        decode(ElectLeadersRequest, 2, memoryview(data))


@pytest.mark.parametrize(
    "line", ["for _i2 in range(0, _n4):", "_sh6 = _sh6 + 7", "_t1 = _BytesIO(data)", "pos += _ln1 * 2"]
)
def test_a_generated_decoder_of_another_shape_is_refused_and_not_run_unchecked(line: str) -> None:
    """The checks hang on the text that kafka-python generates; its next release may generate another."""
    with pytest.raises(NotImplementedError, match="not known here"):
        _Checked().emit("    ", line)


@pytest.mark.parametrize("line", ["_sh6 += 7", "_bio2 = _BytesIO(bytes(data[pos:]))"])
def test_a_number_or_tagged_fields_that_are_not_replaced_are_not_read_by_the_librarys_code(line: str) -> None:
    """Both lines are the library's own, amid others than it generates now."""
    context = _Checked()
    context.emit("    ", line)

    with pytest.raises(NotImplementedError, match="not known here"):
        context.source()


def test_tagged_fields_that_nobody_knows_are_kept_by_their_numbers() -> None:
    data = elect(2)[:-1] + b"\3" + b"\x64\1a" + b"\x65\x80\1" + b"b" * 128 + b"\xe5\1\1c"

    found = decode(ElectLeadersRequest, 2, memoryview(data))

    assert found.unknown_tags == {"_100": b"a", "_101": b"b" * 128, "_229": b"c"}


def test_an_array_of_integers_ends_within_the_message() -> None:
    topic = struct.pack(">h", 6) + b"orders" + struct.pack(">i3i", 4, 1, 2, 3)

    with pytest.raises(Unreadable):
        decode(ElectLeadersRequest, 0, memoryview(struct.pack(">i", 1) + topic + struct.pack(">h", 1)))


def test_what_follows_a_message_may_be_let_pass() -> None:
    data = memoryview(elect(2) + b"more")

    assert decode(ElectLeadersRequest, 2, data, all_of_it=False).timeout_ms == 1000


def test_a_string_ends_within_the_message_all_the_same() -> None:
    data = memoryview(struct.pack(">h", 100) + b"PLAIN")

    with pytest.raises(Unreadable, match="beyond the end"):
        decode(SaslHandshakeRequest, 1, data, all_of_it=False)


@given(
    message=st.sampled_from(
        [(FetchRequest, 18), (ListOffsetsRequest, 11), (FetchResponse, 18), (ElectLeadersResponse, 2)]
    ),
    data=st.binary(max_size=300),
)
def test_noise_is_unreadable_or_a_message(message: tuple[Any, int], data: bytes) -> None:
    with contextlib.suppress(Unreadable):
        decode(*message, memoryview(data))


@pytest.mark.parametrize("version", [7, 11])
def test_a_structure_made_of_its_fields_is_the_librarys_own_on_the_wire(version: int) -> None:
    topic = ListOffsetsRequest.ListOffsetsTopic
    question = structure(topic.ListOffsetsPartition, "partition_index", "timestamp")

    def written(partition: Any) -> bytes:
        request = ListOffsetsRequest(
            replica_id=-2, isolation_level=0, topics=[topic(name="orders", partitions=[partition])]
        )
        return bytes(request.encode(version=version))

    assert written(question(3, -1)) == written(topic.ListOffsetsPartition(partition_index=3, timestamp=-1))
