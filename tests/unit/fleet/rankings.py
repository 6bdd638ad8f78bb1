"""Results of task rank as the job writes them, as far as a recovery reads them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_recovery.domain.ids import TopicId
from kafka_recovery.fleet.manifest import NAME, Manifest, Output, Snapshot, Summary, checksum, written

RUN = "nightly-29923320-1-0f4f8e2c"
POLICY_DIGEST = "ab" * 32
TOPIC_ID = TopicId("lk3uXe8CSIqRTHM1qPHJFw")
SCHEMA = pa.schema(
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


class Ranked(NamedTuple):
    """A row. Who may lead stands in `equals`; whoever is first there is no better."""

    topic: str
    partition: int
    equals: Sequence[int | None]
    leader_epoch: int = 5
    cluster_id: str = "one"
    verdict: str = "Elect"
    topic_id: str = TOPIC_ID


def parquet(rows: Sequence[Ranked], schema: pa.Schema = SCHEMA) -> bytes:
    """The rows as a file."""
    content = io.BytesIO()
    columns: list[dict[str, Any]] = [{name: getattr(row, name) for name in schema.names} for row in rows]
    pq.write_table(pa.Table.from_pylist(columns, schema=schema), content)
    return content.getvalue()


def manifest(*files: tuple[str, bytes], **fields: Any) -> Manifest:
    """What tells of these files, and of a cluster."""
    whole = Manifest(
        task="rank",
        run=RUN,
        policy_digest=POLICY_DIGEST,
        evidence=(Snapshot("one", "cluster_id=one/x.parquet", "cd" * 32),),
        outputs=tuple(Output(path, 1, hashlib.sha256(raw).hexdigest()) for path, raw in files),
        summary=Summary(1, 1, 1, 0, 0, 0),
    )
    return replace(whole, **fields)


def run_in(folder: Path, *files: Sequence[Ranked], **fields: Any) -> tuple[Path, str]:
    """A whole run below a folder, its rows in so many files; returns the run's own folder and its checksum."""
    place = folder / RUN
    named = [(f"ranking/part-{number}.parquet", parquet(rows)) for number, rows in enumerate(files)]
    (place / "ranking").mkdir(parents=True)
    for path, raw in named:
        (place / path).write_bytes(raw)
    content = written(manifest(*named, **fields))
    (place / NAME).write_bytes(content)
    return place, checksum(content)
