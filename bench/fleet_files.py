"""Evidence files of made-up clusters: a snapshot's columns by chance, but the same each time, made at Arrow's speed.

Every kind of copy is in it: equal ones, equal ones told otherwise, shorter ones, ones that went astray, silent ones.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_recovery.domain.evidence import Broker, ClusterState
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.fleet.export import Snapshot
from kafka_recovery.fleet.parquet_files import ROWS_A_GROUP
from kafka_recovery.fleet.rows import Surroundings
from kafka_recovery.fleet.schema import (
    BROKER_STATE,
    CLUSTER,
    EPOCHS,
    LOG,
    MIN_ISR,
    REASON,
    REASSIGNMENT,
    REPLICA,
    SCHEMA,
    SURROUNDINGS_KEY,
    TIME,
    VERSION,
    VERSION_KEY,
    WITNESSED_ENDS,
)
from kafka_recovery.formats.documents import canonical

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
COPIES = 3
RACKS = 3
PARTITIONS_A_TOPIC = 200
PREFIXES = np.array(["pay-", "orders-", "__internal-", "logs-"])
SHORTEST, LONGEST = 1_000, 1 << 40
"""Log ends."""

Array = Any
"""numpy's, of whatever kind."""


@dataclass(frozen=True, slots=True)
class Made:
    """A cluster to be made up. Of its `brokers` the first `dead` are fenced and silent, so are their copies.

    `at_risk`: where nobody is dead, the share of partitions whose ISR is one broker, or two.
    """

    name: str
    partitions: int
    brokers: int
    dead: int = 0
    at_risk: float = 1.0


def fleet(folder: Path, partitions: int, a_cluster: int = 50_000) -> None:
    """An archive of clusters of 30 brokers, each of which lost three: a tenth of the partitions still has a leader."""
    for first in range(0, partitions, a_cluster):
        write(folder, Made(f"cluster-{first // a_cluster:03}", min(a_cluster, partitions - first), 30, dead=3))


def write(folder: Path, made: Made) -> None:
    """The cluster's snapshot, where an archive has it."""
    state = _state(made)
    said = {VERSION_KEY: str(VERSION).encode(), SURROUNDINGS_KEY: canonical(Surroundings(state, ()))}
    content = io.BytesIO()
    schema = SCHEMA.with_metadata(said)
    with pq.ParquetWriter(content, schema, compression="zstd", write_page_checksum=True) as writer:
        for group in _groups(made, state):
            writer.write_batch(group.replace_schema_metadata(said))
    digest = hashlib.sha256(content.getvalue()).hexdigest()[:16]
    path = folder / Snapshot(made.name, NOON, digest).path
    path.parent.mkdir(parents=True)
    path.write_bytes(content.getvalue())


def _state(made: Made) -> ClusterState:
    brokers = tuple(
        Broker(
            id=BrokerId(n), host=f"broker-{n}", port=9092, rack=f"rack-{n % RACKS}", registered=True,
            fenced=n < made.dead, stopping=n == made.dead or None, reachable=n >= made.dead, metadata_offset=1000,
            metadata_advances=n != made.dead + 1 if n >= made.dead else None,
        )
        for n in range(made.brokers)
    )  # fmt: skip
    view = BrokerId(made.brokers - 1)
    return ClusterState(made.name, "4.1", (), False, view, brokers, NOON, timedelta(seconds=1))


def _groups(made: Made, state: ClusterState) -> Iterator[pa.RecordBatch]:
    chance = np.random.default_rng([made.partitions, *made.name.encode()])
    for first in range(0, made.partitions, ROWS_A_GROUP):
        yield _Group(made, state, chance, first, min(ROWS_A_GROUP, made.partitions - first)).batch()


class _Group:
    """So many partitions. Arrays of copies hold all of one partition's side by side."""

    def __init__(self, made: Made, state: ClusterState, chance: np.random.Generator, first: int, size: int) -> None:
        self._made, self._state, self._chance, self._size = made, state, chance, size
        self._number = np.arange(first, first + size)
        self._assigned = self._placed()
        self._leader_epoch = chance.integers(20, 200, size).astype(np.int32)
        self._isr_size = self._shrunk()

    def batch(self) -> pa.RecordBatch:
        topic, size = self._number // PARTITIONS_A_TOPIC, self._size
        names = np.char.add(PREFIXES[topic % len(PREFIXES)], np.char.zfill(topic.astype(str), 6))
        is_led = self._is_led()
        columns = {
            "topic": pa.array(names),
            "partition": pa.array((self._number % PARTITIONS_A_TOPIC).astype(np.int32)),
            "topic_id": pa.array(np.char.add("id-of-", names)),
            "internal": pa.array(np.char.startswith(names, "__")),
            "leader": pa.array(self._assigned[:, 0], mask=~is_led),
            "leader_epoch": pa.array(self._leader_epoch),
            "isr": _lists(self._isr_size, pa.array(self._assigned[np.arange(COPIES) < self._isr_size[:, None]])),
            "reassignment": self._reassignments(),
            "reassignment_known": pa.array(self._chance.random(size) < 0.995),
            "min_isr": pa.repeat(pa.scalar({"value": 2, "source": "TOPIC_CONFIG"}, MIN_ISR), size),
            "witnessed_ends": self._witnessed(),
            "replicas": _lists(np.full(size, COPIES), self._replicas()),
            "cluster": self._cluster(),
        }
        kinds = {field.name: field.type for field in SCHEMA}
        unknown = {name: pa.nulls(size, kind) for name, kind in kinds.items() if name not in columns}
        told = {name: column.cast(kinds[name]) for name, column in columns.items()}
        return pa.RecordBatch.from_arrays([(told | unknown)[name] for name in kinds], schema=SCHEMA)

    def _placed(self) -> Array:
        """The first one in the ISR; where brokers are dead, one of them for most partitions."""
        made, chance, size = self._made, self._chance, self._size
        alive = made.brokers - made.dead
        start, step = chance.integers(0, alive, size), 1 + RACKS * chance.integers(0, alive // COPIES // RACKS, size)
        assigned = made.dead + (start[:, None] + step[:, None] * np.arange(COPIES)) % alive
        if made.dead:
            is_lost = chance.random(size) < 0.9
            assigned[is_lost, 0] = chance.integers(0, made.dead, is_lost.sum())
        return assigned.astype(np.int32)

    def _shrunk(self) -> Array:
        chance, size = self._chance, self._size
        if self._made.dead:
            return np.ones(size, np.int32)
        is_at_risk = chance.random(size) < self._made.at_risk
        return np.where(is_at_risk, chance.integers(1, COPIES, size), COPIES).astype(np.int32)

    def _is_led(self) -> Array:
        led: Array = self._assigned[:, 0] >= self._made.dead
        return led

    def _reassignments(self) -> pa.Array:
        is_moved = self._chance.random(self._size) < 0.01
        adding = _lists(is_moved.astype(np.int32), pa.array(np.zeros(is_moved.sum(), np.int32)))
        removing = _lists(np.zeros(self._size, np.int32), pa.array([], pa.int32()))
        return _struct(REASSIGNMENT, adding, removing, mask=~is_moved)

    def _witnessed(self) -> pa.Array:
        is_seen = (self._chance.random(self._size) < 0.1).astype(np.int32)
        ends = self._chance.integers(SHORTEST, LONGEST, is_seen.sum())
        source = pa.array(np.full(len(ends), "group billing"))
        return _lists(is_seen, _struct(WITNESSED_ENDS.value_type, source, pa.array(ends)))

    def _cluster(self) -> pa.Array:
        state, dead = self._state, self._made.dead
        values = [state.cluster_id, state.release, state.elr_enabled, state.view_from, True, True,
                  len(state.brokers), dead, state.observed_at, 1_000_000,
                  state.designated_elections, state.as_of]  # fmt: skip
        columns = [
            pa.repeat(pa.scalar(value, kind.type), self._size) for value, kind in zip(values, CLUSTER, strict=True)
        ]
        return _struct(CLUSTER, *columns)

    def _replicas(self) -> pa.Array:
        """In assignment order, which is another one than that of the ISR."""
        turn = self._chance.integers(0, COPIES, self._size)
        place = (np.arange(COPIES) + turn[:, None]) % COPIES
        broker = np.take_along_axis(self._assigned, place, 1).ravel()
        is_dead = broker < self._made.dead
        is_late = ~is_dead & (self._chance.random(len(broker)) < 0.01)
        failed = pa.array(np.full(len(broker), "TimedOut")), pa.array(np.full(len(broker), "no answer within 5s"))
        return _struct(
            REPLICA,
            pa.array(broker),
            self._states().take(pa.array(broker)),
            self._logs(is_dead | is_late, place),
            _struct(REASON, *failed, mask=~is_late),
            pa.array(self._chance.random(len(broker)) < 0.001),
        )

    def _states(self) -> pa.Array:
        rows = [{name: getattr(broker, name) for name in BROKER_STATE.names} for broker in self._state.brokers]
        return pa.array(rows, BROKER_STATE)

    def _logs(self, is_silent: Array, place: Array) -> pa.Array:
        """Copies by kind: equal, told of an epoch without records, shorter, or without the last epoch and longer."""
        chance, size, many = self._chance, self._size, self._size * COPIES
        each = np.repeat(np.arange(size), COPIES)
        follows = (place != 0).ravel()
        kind = np.where(follows, chance.choice(4, many, p=(0.5, 0.1, 0.3, 0.1)), 0)
        known, begin = chance.integers(1, 5, size), chance.integers(SHORTEST, LONGEST // 2, size)
        length = chance.integers(10_000, 1_000_000, size)
        end = (begin + length)[each] - np.where(kind == 2, chance.integers(1, 900, many), 0) + 40 * (kind == 3)
        entries = known[each] + (kind == 1) - ((kind == 3) & (known[each] > 1))
        nth = np.arange(entries.sum()) - np.repeat(np.cumsum(entries) - entries, entries)
        of = np.repeat(np.arange(many), entries)
        is_empty = (kind[of] == 1) & (nth == entries[of] - 1)
        starts = np.where(is_empty, end[of], begin[each][of] + length[each][of] // 8 * nth)
        vector = _struct(EPOCHS.value_type, pa.array((3 * nth).astype(np.int32)), pa.array(starts))
        last = (3 * (entries - 1 - (kind == 1))).astype(np.int32)
        epoch = self._leader_epoch[each]
        is_old, is_stale = chance.random(many) < 0.002, chance.random(many) < 0.01
        columns = [
            pa.array(begin[each]),
            pa.array(end),
            pa.array(last),
            _lists(entries, vector),
            pa.nulls(many, pa.int64()),
            pa.array((epoch - is_stale).astype(np.int32), mask=chance.random(many) < 0.005),
            pa.array(np.datetime64(NOON.replace(tzinfo=None), "us") - np.where(is_old, 61_000_000, 0)).cast(TIME),
            pa.array(np.full(many, 3000)),
        ]
        return _struct(LOG, *columns, mask=is_silent)


def _lists(sizes: Array, values: pa.Array) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values)


def _struct(kind: pa.StructType, *columns: pa.Array, mask: Array | None = None) -> pa.Array:
    typed = [column.cast(field.type) for column, field in zip(columns, kind, strict=True)]
    return pa.StructArray.from_arrays(typed, fields=list(kind), mask=None if mask is None else pa.array(mask))
