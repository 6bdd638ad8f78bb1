"""What a run of task rank chose, read back from its results: each file is what the manifest says."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_recovery.decision.spread import TieSet, deal, level, no_load
from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.fleet.manifest import FILE, LARGEST_FILE, NAME, Manifest
from kafka_recovery.fleet.storage import Storage
from kafka_recovery.formats.documents import InvalidDocument

RANKING = "ranking/"
"""The folder of the answer in a run's own folder."""

_COLUMNS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("verdict", pa.string()),
        ("equals", pa.list_(pa.int32())),
    ]
)


Choices = Mapping[str, Mapping[TopicPartition, Ranked]]
"""The leaders chosen, by cluster id."""


def choices(place: Storage, manifest: Manifest) -> Choices:
    """The leaders chosen in each cluster, spread among equals. `place`: the run's own folder.

    Raises InvalidDocument for files that are damaged or not those of the manifest, StorageUnavailable, TooLarge.
    """
    found: dict[str, _Cluster] = defaultdict(_Cluster)
    for output in manifest.outputs:
        if not output.path.startswith(RANKING):
            continue
        if not FILE.fullmatch(output.path):
            raise InvalidDocument(f"{place.name(NAME)}: outputs: {output.path[:80]!a} is no file of a ranking")
        raw, name = place.read(output.path, at_most=LARGEST_FILE), place.name(output.path)
        if hashlib.sha256(raw).hexdigest() != output.sha256:
            raise InvalidDocument(f"{name}: is not the file that the manifest tells of: its SHA-256 is another one")
        for row in _elected(raw, name):
            found[row["cluster_id"]].add(row, name)
    return {id: cluster.spread() for id, cluster in found.items()}


@dataclass(slots=True)
class _Cluster:
    outages: dict[TopicPartition, tuple[LeaderEpoch, TopicId]] = field(default_factory=dict)
    equals: dict[TopicPartition, TieSet] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any], name: str) -> None:
        id = TopicPartition(row["topic"], row["partition"])
        if id in self.outages:
            raise InvalidDocument(f"{name}: {id} is ranked twice")
        self.outages[id] = LeaderEpoch(row["leader_epoch"]), TopicId(row["topic_id"])
        self.equals[id] = tuple(BrokerId(broker) for broker in sorted(row["equals"]))

    def spread(self) -> Mapping[TopicPartition, Ranked]:
        """As a plan spreads new leaders, without its knowledge of racks."""
        quotas = level(Counter(self.equals.values()), no_load({}))
        turns = {ties: iter(deal(quota)) for ties, quota in quotas.items()}
        return {id: Ranked(next(turns[self.equals[id]]), *self.outages[id]) for id in sorted(self.equals)}


def _elected(raw: bytes, name: str) -> Iterator[Mapping[str, Any]]:
    """The rows in which somebody is chosen; never more than a batch of the others in memory."""
    is_elected = pc.field("verdict") == str(Verdict.ELECT)
    try:
        file = pq.ParquetFile(pa.BufferReader(raw))
        for wanted in _COLUMNS:
            place = file.schema_arrow.get_field_index(wanted.name)
            if place < 0 or file.schema_arrow.field(place).type != wanted.type:
                raise InvalidDocument(f"{name}: must have a column {wanted.name} of type {wanted.type}")
        for batch in file.iter_batches(columns=_COLUMNS.names):
            for row in pa.table(batch).filter(is_elected).to_pylist() if batch.num_rows else ():
                if None in row.values() or not row["equals"] or None in row["equals"]:
                    raise InvalidDocument(f"{name}: {row['topic']}-{row['partition']} is elected, and nobody leads")
                yield row
    except InvalidDocument:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidDocument(f"{name}: is no Parquet file, or a damaged one: {type(error).__name__}") from None
