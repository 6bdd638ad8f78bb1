"""Asking one replica about its own log, whether it leads or not, and reading its files: what tests compare with."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.record import MemoryRecords

from testbed.client_history import Record
from testbed.wire import Connection, accept

OFFSET_NOT_AVAILABLE = 78
LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -4, -5
CONSUMER, DEBUGGER = -1, -2
# Unlike the others it is served up to the log end, not only to that replica's high watermark.
FUTURE_LOCAL = -3
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A line of a leader-epoch-checkpoint file: the first offset written under a leader epoch."""

    epoch: int
    offset: int


def log_ends(address: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The log end offsets of this broker's replicas."""
    return _offsets(address, topic, partitions, LATEST, DEBUGGER)


def log_start(address: str, topic: str, partition: int, *, local: bool = False) -> int:
    """Where this broker's replica begins; `local`: what of it is on its own disk, not only in the remote tier."""
    return _offsets(address, topic, [partition], EARLIEST_LOCAL if local else EARLIEST, DEBUGGER)[partition]


def last_tiered(address: str, topic: str, partition: int) -> int:
    """The last offset that this broker's replica knows to be in the remote tier; -1: it knows of none."""
    return _offsets(address, topic, [partition], LATEST_TIERED, DEBUGGER)[partition]


def led(address: str, topic: str, partitions: Iterable[int]) -> frozenset[int]:
    """Those of the partitions for which this broker answers a client as their leader.

    OFFSET_NOT_AVAILABLE is a leader's answer too: its high watermark has not reached its epoch yet (KAFKA-15583).
    """
    answer = _list_offsets(address, topic, partitions, LATEST, CONSUMER)
    return frozenset(told.partition_index for told in answer if told.error_code in (0, OFFSET_NOT_AVAILABLE))


def read(address: str, topic: str, topic_id: uuid.UUID, partitions: Collection[int]) -> dict[int, list[str]]:
    """All values in this broker's replicas from log start to log end, beyond the high watermark too."""
    found = _read(address, topic, topic_id, partitions, DEBUGGER, FUTURE_LOCAL)
    return {index: [record.value for record in records] for index, records in found.items()}


def read_as_client(address: str, topic: str, topic_id: uuid.UUID, partition: int) -> list[Record]:
    """The records from log start to high watermark; Refused unless this broker leads the partition."""
    return _read(address, topic, topic_id, [partition], CONSUMER, CONSUMER)[partition]


def epoch_starts(checkpoint: Path) -> tuple[EpochStart, ...]:
    """What a leader-epoch-checkpoint file says, oldest epoch first. Its first two lines are a version and a count."""
    lines = checkpoint.read_text().splitlines()[2:]
    return tuple(EpochStart(*map(int, line.split())) for line in lines)


def _read(
    address: str, topic: str, topic_id: uuid.UUID, partitions: Collection[int], measurer: int, reader: int
) -> dict[int, list[Record]]:
    """`measurer` and `reader` are the replica ids under which to ask where a log ends, and for its records."""
    starts = _offsets(address, topic, partitions, EARLIEST, measurer)
    ends = _offsets(address, topic, partitions, LATEST, measurer)
    found: dict[int, list[Record]] = {index: [] for index in partitions}
    with Connection(address) as broker:
        for index in partitions:
            position = starts[index]
            while position < ends[index]:
                records = _fetch(broker, topic, topic_id, index, position, reader)
                if not records:
                    where = f"{topic}-{index} at {address}"
                    raise AssertionError(f"{where} ends at {ends[index]}, yet has no record at {position}")
                found[index] += [Record(at, value) for at, value in records if at >= position and value is not None]
                position = records[-1][0] + 1
    return found


def _offsets(address: str, topic: str, partitions: Iterable[int], timestamp: int, replica: int) -> dict[int, int]:
    answer = _list_offsets(address, topic, partitions, timestamp, replica)
    for told in answer:
        accept(f"ListOffsets of {topic}-{told.partition_index} at {address}", told.error_code)
    return {told.partition_index: told.offset for told in answer}


def _list_offsets(address: str, topic: str, partitions: Iterable[int], timestamp: int, replica: int) -> Any:
    kind = ListOffsetsRequest.ListOffsetsTopic
    wanted = [
        kind.ListOffsetsPartition(partition_index=index, current_leader_epoch=NO_EPOCH, timestamp=timestamp)
        for index in partitions
    ]
    request = ListOffsetsRequest(replica_id=replica, isolation_level=0, topics=[kind(name=topic, partitions=wanted)])
    with Connection(address) as broker:
        # Version 9 is in every release used here, and the last one without a timeout of its own.
        return broker.ask(request, 9).topics[0].partitions


def fetch_request(topic_id: uuid.UUID, partition: int, position: int, reader: int, last_epoch: int = NO_EPOCH) -> Any:
    """A Fetch without a session, answered at once; `reader`: the replica id, `last_epoch`: of the record before."""
    wanted = FetchRequest.FetchTopic.FetchPartition(
        partition=partition,
        current_leader_epoch=NO_EPOCH,
        fetch_offset=position,
        last_fetched_epoch=last_epoch,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=reader, replica_epoch=-1),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
    )


def _fetch(
    broker: Connection, topic: str, topic_id: uuid.UUID, partition: int, position: int, reader: int
) -> list[tuple[int, str | None]]:
    # 15 moved the replica id into ReplicaState; 17 is in every release used here.
    answer = broker.ask(fetch_request(topic_id, partition, position, reader), 17)
    accept("Fetch", answer.error_code)
    told = answer.responses[0].partitions[0]
    accept(f"Fetch of {topic}-{partition}", told.error_code)
    return _decode(told.records)


def _decode(raw: Any) -> list[tuple[int, str | None]]:
    found: list[tuple[int, str | None]] = []
    records = MemoryRecords(bytes(raw or b""))
    while records.has_next():
        batch = records.next_batch()
        if batch.is_control_batch:  # a transaction's marker: an offset, but no value
            found.append((batch.last_offset, None))
            continue
        found += [(record.offset, bytes(record.value or b"").decode(errors="replace")) for record in batch]
    return found
