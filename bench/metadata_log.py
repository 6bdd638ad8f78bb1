"""What reading a metadata log costs: 200,000 partitions that were created, and whose brokers died once."""

from __future__ import annotations

import asyncio
import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.results import Result, below
from kafka.protocol.consumer import FetchResponse
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from kafka_recovery.cluster.brokers import Brokers
from kafka_recovery.cluster.metadata_log import batches
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.cluster.metadata_log.reader import MetadataLog
from kafka_recovery.cluster.security import Security
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.simulator.wire.exchange import Values
from kafka_recovery.simulator.wire.record_schemas import record
from unit.cluster.stage import Heard, StagedBroker

PARTITIONS, OF_A_TOPIC, BROKERS, DEAD = 200_000, 100, 100, 5
ASKED = 5_000
"""Partitions of an incident, whose histories are told."""
POLLS, PAUSE = 120, 5
"""So often an idle log is read for the figure, and the seconds between two readings of the operator."""
NO_OPS = 2 * PAUSE
"""That a controller writes meanwhile, each in a batch of its own."""
_EPOCH_AT, _CRC_AT, _SUMMED = 12, 17, 21
_HEADER, _FOOTER = 3, 4


def run() -> Iterator[Result]:
    """In a process of its own, as the first reading of an operator is."""
    label = f"metadata log of {PARTITIONS} partitions"
    with tempfile.TemporaryDirectory() as folder:
        log, snapshot = Path(folder) / "log", Path(folder) / "snapshot"
        yield Result(f"{label}: size", round(_write(log) / 2**20, 1), "MiB")
        _write_snapshot(snapshot)
        read, followed, loaded = _apart("read", log), _apart("follow", log), _apart("load", snapshot)
    yield Result(f"{label}: read and folded", read["cpu"], "CPU s")
    yield below(f"{label}: memory at the peak", read["peak_mib"], "MiB", 400)
    yield Result(f"{label}: histories of {ASKED} partitions", read["told"], "CPU s")
    yield Result(f"{label}: time to the first answer", followed["first"], "s")
    yield below(f"{label}: following it while nothing happens", followed["idle"], "% of a core", 1)
    yield Result(f"{label}: a snapshot of it folded", loaded["cpu"], "CPU s")
    yield below(f"{label}: memory at the peak, folding the snapshot", loaded["peak_mib"], "MiB", 400)


def _apart(what: str, file: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.metadata_log", what, str(file)]
    told: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return told


def _write(log: Path) -> int:
    """All brokers register; topics are made, one a batch; then a broker dies, and each of its partitions changes."""
    end, size = 0, 0
    with log.open("wb") as file:
        for values in _batches():
            data = _batch(end, values)
            size += file.write(data)
            end += len(values)
    return size


def _batches() -> Iterator[Sequence[bytes]]:
    for broker in range(1, BROKERS + 1):
        yield [record("RegisterBroker", 3, Values(
            broker_id=broker, is_migrating_zk_broker=False, incarnation_id=UUID(int=broker), broker_epoch=broker,
            end_points=[], features=[], rack=None, fenced=True, in_controlled_shutdown=False, log_dirs=[_disk(broker)],
        ))]  # fmt: skip
    changed = []
    for topic in range(PARTITIONS // OF_A_TOPIC):
        values = [record("Topic", 0, Values(name=f"topic-{topic}", topic_id=UUID(int=topic + 1)))]
        for index in range(OF_A_TOPIC):
            replicas = [(7 * topic + index + 13 * place) % BROKERS + 1 for place in range(3)]
            values.append(_partition(topic, index, replicas))
            if DEAD in replicas:
                changed.append((topic, index, [broker for broker in replicas if broker != DEAD]))
        yield values
    for topic, index, isr in changed:
        ids = {"partition_id": index, "topic_id": UUID(int=topic + 1)}
        yield [record("PartitionChange", 2, Values(**ids, isr=isr, leader=isr[0]))]


def _partition(topic: int, index: int, replicas: list[int]) -> bytes:
    return record("Partition", 2, Values(
        partition_id=index, topic_id=UUID(int=topic + 1), replicas=replicas, isr=replicas, removing_replicas=[],
        adding_replicas=[], leader=replicas[0], leader_epoch=0, partition_epoch=0, leader_recovery_state=0,
        directories=list(map(_disk, replicas)), eligible_leader_replicas=None, last_known_elr=None,
    ))  # fmt: skip


def _disk(broker: int) -> UUID:
    return UUID(int=1_000_000 + broker)


def _write_snapshot(snapshot: Path) -> None:
    """The state before anybody died: a header, the batches up to then, a footer."""
    with snapshot.open("wb") as file:
        file.write(_batch(0, [b""], control=_HEADER))
        end = 1
        for values in islice(_batches(), BROKERS + PARTITIONS // OF_A_TOPIC):
            file.write(_batch(end, values))
            end += len(values)
        file.write(_batch(end, [b""], control=_FOOTER))


def _batch(first: int, values: Sequence[bytes], *, control: int | None = None) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**30)
    for place, value in enumerate(values):
        builder.append(place, 1_000_000, struct.pack(">hh", 0, control) if control else None, value, [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, first)
    struct.pack_into(">i", data, _EPOCH_AT, 1)
    struct.pack_into(">h", data, _SUMMED, 0x20 if control else 0)
    struct.pack_into(">I", data, _CRC_AT, calc_crc32c(memoryview(data)[_SUMMED:]))
    return bytes(data)


def _read(log: Path) -> dict[str, Any]:
    began, data, image = time.process_time(), log.read_bytes(), Image()
    for batch in batches.read(data):
        image.apply(batch)
    read = time.process_time()
    asked = [(UUID(int=1 + number // OF_A_TOPIC), number % OF_A_TOPIC) for number in range(ASKED)]
    known = sum(image.history(*key) is not None for key in asked)
    assert known == ASKED, image.doubt
    return {"cpu": round(read - began, 1), "told": round(time.process_time() - read, 2), "peak_mib": _peak_mib()}


def _load(snapshot: Path) -> dict[str, Any]:
    began, image = time.process_time(), Image()
    image.load(1_000_000, 1, batches.read_snapshot(snapshot.read_bytes()))
    assert image.doubt is None, image.doubt
    return {"cpu": round(time.process_time() - began, 1), "peak_mib": _peak_mib()}


def _peak_mib() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


class _Controller:
    """Serves a log over TCP, as much of it as is asked for at once. Its own work counts as its reader's."""

    def __init__(self, log: Path) -> None:
        self.data, self.end = bytearray(log.read_bytes()), 0
        self.begins: dict[int, int] = {}
        at = 0
        while at < len(self.data):
            at = self._note(at)

    def _note(self, at: int) -> int:
        """The batch that begins here is to be found by its first offset; returns where the next one begins."""
        first, size = struct.unpack_from(">qi", self.data, at)
        (last,) = struct.unpack_from(">i", self.data, at + 23)
        self.begins[first], self.end = at, first + last + 1
        return at + 12 + int(size)

    def write(self, value: bytes) -> None:
        at = len(self.data)
        self.data += _batch(self.end, [value])
        self._note(at)

    def fetch(self, heard: Heard) -> Any:
        part = heard.message.topics[0].partitions[0]
        begins = self.begins.get(part.fetch_offset, 0 if part.fetch_offset < self.end else len(self.data))
        topic = FetchResponse.FetchableTopicResponse
        records = bytes(self.data[begins : self._cut(begins + part.partition_max_bytes)])
        told = topic.PartitionData(
            partition_index=0, error_code=0, high_watermark=self.end, log_start_offset=0, records=records,
            aborted_transactions=[],
        )  # fmt: skip
        return FetchResponse(responses=[topic(topic_id=heard.message.topics[0].topic_id, partitions=[told])])

    def _cut(self, most: int) -> int:
        return len(self.data) if most >= len(self.data) else max(at for at in self.begins.values() if at <= most)


async def _follow(file: Path) -> dict[str, Any]:
    controller, threads = _Controller(file), Threads("bench")
    async with StagedBroker({"Fetch": controller.fetch}) as listener:
        log = MetadataLog(Brokers(Security(), threads=threads), [listener.address], threads)
        began = time.monotonic()
        await _answered(log)
        first = time.monotonic() - began
        used = time.process_time()
        for _ in range(POLLS):
            for _ in range(NO_OPS):
                controller.write(record("NoOp", 0, Values()))
            assert (await _answered(log)).upto == controller.end
        used = time.process_time() - used
        await log.aclose()
    return {"first": round(first, 1), "idle": round(100 * used / (POLLS * PAUSE), 3)}


async def _answered(log: MetadataLog) -> Image:
    image = await log.caught_up("bench", timedelta(minutes=5))
    assert isinstance(image, Image), image
    return image


if __name__ == "__main__":
    what, path = sys.argv[1], Path(sys.argv[2])
    print(json.dumps(asyncio.run(_follow(path)) if what == "follow" else {"read": _read, "load": _load}[what](path)))
