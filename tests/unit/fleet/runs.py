"""Runs over a fleet as the job would have left them behind, written without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_recovery.fleet.manifest import NAME, Loss, Manifest, Output, Snapshot, Summary, written
from kafka_recovery.fleet.report_results import ANSWERS

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row]]

DIGEST = "ab" * 32
EVIDENCE = "cluster_id=prod/day=2026-11-21/20261121T120000.000000Z-{digest}.parquet"


def evidence(cluster: str = "prod", digest: str = DIGEST) -> Snapshot:
    """Of noon."""
    return Snapshot(cluster, EVIDENCE.format(digest=digest[:16]), digest)


def write_run(
    folder: Path,
    task: str,
    tables: Tables | None = None,
    *,
    partitions: int = 100,
    worst: tuple[Loss, ...] = (),
    seen: Iterable[Snapshot] = (evidence(),),
    policy_digest: str = "cd" * 32,
) -> Path:
    """A run that ended well; answers that are not given are empty."""
    outputs = []
    for answer in ANSWERS[task]:
        content = parquet((tables or {}).get(answer.name, ()), answer.columns)
        path = f"{answer.name}/part-00000.parquet"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        outputs.append(Output(path, 0, hashlib.sha256(content).hexdigest()))
    seen = tuple(seen)
    summary = Summary(len(seen), partitions, 0, 0, 0, 0, worst)
    manifest = Manifest(task, folder.name, policy_digest, seen, tuple(outputs), summary)
    (folder / NAME).write_bytes(written(manifest))
    return folder


def parquet(rows: Sequence[Row], schema: pa.Schema) -> bytes:
    content = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), content)
    return bytes(content.getvalue().to_pybytes())


def batches(rows: Sequence[Row], schema: pa.Schema) -> list[pa.RecordBatch]:
    """In several, as they come from large files."""
    return pa.Table.from_pylist(list(rows), schema=schema).to_batches(max_chunksize=2)  # type: ignore[no-any-return]


def counts(lossless: int = 0, bounded: int = 0, unknown: int = 0, none: int = 0) -> Row:
    offline = lossless + bounded + unknown + none
    return {"offline": offline, "lossless": lossless, "bounded": bounded, "unknown": unknown, "none": none}


def losses(cluster: str, alone: Mapping[int, Row], together: Mapping[tuple[int, int], Row] | None = None) -> list[Row]:
    """As the job has them: a pair holds what each of the two costs alone, and what both together do."""
    rows = [_loss(cluster, "Broker", [broker], 0, cost) for broker, cost in alone.items()]
    for one, other in combinations(sorted(alone), 2):
        both = (together or {}).get((one, other), counts())
        cost = {name: alone[one][name] + alone[other][name] + both[name] for name in both}
        rows.append(_loss(cluster, "Pair", [one, other], both["offline"], cost))
    return rows


def _loss(cluster: str, kind: str, brokers: list[int], together: int, cost: Row) -> Row:
    return {"cluster_id": cluster, "kind": kind, "brokers": brokers, "together": together, **cost}


def topic(name: str, cost: Row, kind: str = "Broker", cluster: str = "prod") -> Row:
    worst = {"worst": "broker 1", "worst_offline": cost["offline"]}
    return {"cluster_id": cluster, "topic": name, "kind": kind, **cost, **worst}


def count(name: str, verdict: str, partitions: int, loss_class: str | None = None, rule: str = "all") -> Row:
    return {
        **{"cluster_id": "prod", "topic": name, "rule": rule},
        **{"verdict": verdict, "loss_class": loss_class, "partitions": partitions},
    }


def ranked(verdict: str, reason: str | None = None, *rejected: str, at_least: int | None = None) -> Row:
    rejections = [{"broker": place, "code": code} for place, code in enumerate(rejected)]
    return {"verdict": verdict, "reason": reason, "at_least": at_least, "rejections": rejections}


def leader(broker: int, leads: int, elected: int = 0, cluster: str = "prod") -> Row:
    return {
        **{"cluster_id": cluster, "broker": broker, "rack": "a", "leads": leads},
        **{"elected": elected, "preferred": 2 * elected},
    }
