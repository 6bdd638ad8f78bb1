"""What reading a metadata log costs: 200,000 partitions that were created, and whose brokers died once."""

from __future__ import annotations

import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.results import Result, below
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from kafka_recovery.cluster.metadata_log import batches
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.simulator.wire.exchange import Values
from kafka_recovery.simulator.wire.record_schemas import record

PARTITIONS, OF_A_TOPIC, BROKERS, DEAD = 200_000, 100, 100, 5
ASKED = 5_000
"""Partitions of an incident, whose histories are told."""
_EPOCH_AT, _CRC_AT, _SUMMED = 12, 17, 21


def run() -> Iterator[Result]:
    """In a process of its own, as the first reading of an operator is."""
    label = f"metadata log of {PARTITIONS} partitions"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        yield Result(f"{label}: size", round(_write(log) / 2**20, 1), "MiB")
        told = subprocess.run(
            [sys.executable, "-m", "bench.metadata_log", str(log)], check=True, capture_output=True, text=True
        )
        seen = json.loads(told.stdout)
    yield Result(f"{label}: read and folded", seen["read"], "CPU s")
    yield below(f"{label}: memory at the peak", seen["peak_mib"], "MiB", 400)
    yield Result(f"{label}: histories of {ASKED} partitions", seen["told"], "CPU s")


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


def _batch(first: int, values: Sequence[bytes]) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**30)
    for place, value in enumerate(values):
        builder.append(place, 1_000_000, None, value, [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, first)
    struct.pack_into(">i", data, _EPOCH_AT, 1)
    struct.pack_into(">I", data, _CRC_AT, calc_crc32c(memoryview(data)[_SUMMED:]))
    return bytes(data)


def _measured(log: Path) -> dict[str, Any]:
    began, data, image = time.process_time(), log.read_bytes(), Image()
    for batch in batches.read(data):
        image.apply(batch)
    read = time.process_time()
    asked = [(UUID(int=1 + number // OF_A_TOPIC), number % OF_A_TOPIC) for number in range(ASKED)]
    known = sum(image.history(*key) is not None for key in asked)
    assert known == ASKED, image.doubt
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "read": round(read - began, 1),
        "told": round(time.process_time() - read, 2),
        "peak_mib": round(peak),
    }


if __name__ == "__main__":
    print(json.dumps(_measured(Path(sys.argv[1]))))
