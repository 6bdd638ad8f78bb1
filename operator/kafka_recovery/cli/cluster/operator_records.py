"""Runs of an operator that is not there any more, from the RecoveryRecords of its journal as kubectl printed them.

kubectl get recoveryrecords -l kafka-recovery.dev/recovery-uid=UID -o json > journal.json
kafka-recovery undo --records journal.json --bootstrap-server HOST:PORT
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_recovery.cli.terminal.new_files import read_text
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.facts import PART, Fact
from kafka_recovery.kube.journal.record_journal import LeftJournal
from kafka_recovery.kube.machinery.api import NotFound, Object
from kafka_recovery.kube.resources.kinds import RECORDS
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.ports import PlanFinished

LARGEST_FILE = 256 * 1024 * 1024
"""Bytes: a plan of 20,000 partitions takes 3 MB."""

_TERM = re.compile(
    r"(?P<absent>!)?(?P<key>[\w./-]+)(?: (?P<how>in|notin) \((?P<set>[^)]*)\)|=(?P<value>[^,]*))?(?:,|$)"
)


async def take_over(file: Path, journal: FileJournal, cluster_id: str) -> int:
    """Copy every unfinished run of `file` into `journal`; returns how many. Twice is harmless.

    Raises InvalidDocument for a file that is not such a list, for parts that are missing or changed, and for runs of
    another cluster.
    """
    items = _items(file)
    heads = [Fact.of(each) for each in items if _spec(each).get("fact") != PART]
    if not heads:
        raise InvalidDocument(f"{file}: holds no RecoveryRecord")
    taken = 0
    for recovery in dict.fromkeys(fact.recovery for fact in heads):
        read = LeftJournal(_Printed(items), "printed", recovery.name, recovery.uid, cluster_id)
        for run in await read.unfinished():
            if run.plan.cluster_id != cluster_id:
                raise InvalidDocument(
                    f"{file}: the run of {recovery.name} is of cluster {run.plan.cluster_id}, and this is {cluster_id}"
                )
            try:
                await journal.record(run.plan)
            except PlanFinished:
                continue
            await journal.approved(run.digest, None)  # to be undone: nobody here approved an election of it
            for wave in range(1, run.waves + 1):
                await journal.wave_started(run.digest, wave, sorted(run.begun))
                if wave not in run.in_flight:
                    await journal.wave_ended(run.digest, wave, run.outcomes)
            taken += 1
    return taken


def _items(file: Path) -> Sequence[Object]:
    try:
        document = json.loads(read_text(file, LARGEST_FILE))
    except (ValueError, RecursionError):
        document = None
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list) or not all(_is_record(each) for each in items):
        raise InvalidDocument(
            f"{file}: is no list of RecoveryRecords; make it with kubectl get recoveryrecords … -o json"
        )
    return items


def _is_record(item: Any) -> bool:
    named = isinstance(item, dict) and isinstance(item.get("metadata"), dict) and "name" in item["metadata"]
    return bool(named and item.get("kind") == RECORDS.kind)


def _spec(item: Object) -> Object:
    spec = item.get("spec")
    return spec if isinstance(spec, dict) else {}


@dataclass(frozen=True, slots=True)
class _Printed:
    """What was printed, to be asked as the API is; nothing can be written there."""

    items: Sequence[Object]

    async def get(self, path: str) -> Object:
        name = path.rpartition("/")[2]
        found = next((each for each in self.items if each["metadata"]["name"] == name), None)
        if found is None:
            raise NotFound(404, "NotFound", f"RecoveryRecord {name} is not among those printed", path)
        return found

    async def list_all(self, path: str, *, params: Mapping[str, str] | None = None) -> list[Object]:
        selector = (params or {}).get("labelSelector", "")
        return [each for each in self.items if _selected(each["metadata"].get("labels") or {}, selector)]

    async def create(self, path: str, body: Mapping[str, Any]) -> Object:
        raise NotImplementedError(path)

    async def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        raise NotImplementedError(path)

    async def apply_status(self, path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        raise NotImplementedError(path)

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        raise NotImplementedError(path)


def _selected(labels: Mapping[str, str], selector: str) -> bool:
    """Kubernetes' selectors by labels, as far as the journal uses them."""
    return all(_holds(labels, term) for term in _TERM.finditer(selector) if term["key"])


def _holds(labels: Mapping[str, str], term: re.Match[str]) -> bool:
    value = labels.get(term["key"])
    if term["absent"]:
        return value is None
    if term["how"]:
        among = value in [each.strip() for each in term["set"].split(",")]
        return among if term["how"] == "in" else not among
    return value is not None if term["value"] is None else value == term["value"]
