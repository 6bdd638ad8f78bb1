"""What a journal holds, whoever kept it: files below a folder, or RecoveryRecords as kubectl prints them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.plain_yaml import PlainLoader

PLAN = "plan.json"
_LARGEST = 128 << 20
"""Bytes of one record's content, after decompression: as many as the operator writes at most."""


@dataclass(frozen=True, slots=True)
class Document:
    """A plan, or a fact about it. `where`: for messages; `journal` and `run`: whose it is, and of which plan.

    `written`: when it was, by whoever kept it; a fact of a file says so itself, too.
    """

    where: str
    journal: str
    run: str
    name: str
    written: datetime
    raw: bytes


def documents(journal: Path) -> Iterator[Document]:
    """All of a folder that `--journal` named, or of a List in a file. Raises InvalidDocument for what is neither."""
    return _records(journal) if journal.is_file() else _files(journal)


def _files(folder: Path) -> Iterator[Document]:
    for plan in sorted(folder.rglob(PLAN)):
        for path in sorted(plan.parent.glob("*.json")):
            written = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
            try:
                raw = path.read_bytes()
            except OSError as error:
                raise InvalidDocument(f"{path}: can't be read: {error}") from None
            yield Document(str(path), str(plan.parent.parent), plan.parent.name, path.name, written, raw)


def _records(file: Path) -> Iterator[Document]:
    listed = _listed(file)
    specs = {item["metadata"]["name"]: item["spec"] for item in listed}
    for name, spec in specs.items():
        where = f"{file}: RecoveryRecord {name}"
        if spec["fact"] != "part":
            try:
                chunks = [base64.b64decode(each["content"]) for each in (spec, *map(specs.__getitem__, _parts(spec)))]
                raw = zlib.decompressobj(wbits=31).decompress(b"".join(chunks), _LARGEST)
                written = datetime.fromisoformat(spec["writtenAt"])
                yield Document(where, spec["recovery"]["uid"], spec["plan"], f"{spec['fact']}.json", written, raw)
            except (KeyError, TypeError, ValueError, zlib.error) as wrong:
                raise InvalidDocument(f"{where}: it is not whole: {wrong!r}") from None


def _parts(spec: Mapping[str, Any]) -> list[str]:
    return list(spec.get("parts") or ())


def _listed(file: Path) -> list[Any]:
    """The items of a List of RecoveryRecords, in JSON or YAML."""
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    try:
        told = json.loads(text) if text.startswith("{") else yaml.load(text, PlainLoader)
    except (ValueError, RecursionError, yaml.YAMLError) as wrong:
        raise InvalidDocument(f"{file}: is no JSON and no YAML: {wrong}") from None
    items = told.get("items") if isinstance(told, dict) else None
    if not isinstance(items, list) or not all(map(_is_record, items)):
        raise InvalidDocument(f"{file}: is no List of RecoveryRecords; kubectl get recoveryrecords -o json prints one")
    return items


def _is_record(item: Any) -> bool:
    named = isinstance(item, dict) and isinstance(item.get("metadata"), dict) and "name" in item["metadata"]
    return bool(named and isinstance(item.get("spec"), dict) and "fact" in item["spec"])
