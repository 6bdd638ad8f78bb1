"""A cluster's ISR histories in ClusterHistory objects, for the operator's next process: Kafka cuts its log off.

Each is immutable, and whole or not at all: the head, `<cluster>-<offset>-<hash>`, names its further pieces and is
written after them. A newer one takes the place of all older ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from kafka_recovery.cluster.metadata_log.kept import KeptHistory
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument, canonical, read
from kafka_recovery.kube.journal.facts import RecordsApi
from kafka_recovery.kube.journal.packed import (
    Damaged,
    as_content,
    is_crowded,
    most_pieces,
    of_content,
    packed,
    unpacked,
)
from kafka_recovery.kube.machinery.api import AlreadyExists, Object
from kafka_recovery.kube.resources.kinds import API_VERSION, CLUSTERS, HISTORIES, Meta
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, label_value

_LOG = logging.getLogger(__name__)

MOST = 32 << 20
"""Bytes of JSON: the histories of some 80,000 partitions that are out of sync."""

Trusted = Callable[[datetime], Awaitable[Reason | None]]
"""Why what was written then may be anybody's word, if so; see `Admission.of_histories`."""


class KeptHistories:
    """Port `HistoryStore` for one WatchedCluster. Whatever is asked of it raises ApiError."""

    def __init__(self, api: RecordsApi, cluster: Meta, cluster_id: str, trusted: Trusted) -> None:
        self._api = api
        self._cluster = cluster
        self._cluster_id = cluster_id
        self._trusted = trusted

    async def load(self) -> KeptHistory | None:
        """The newest that is whole and that nobody else can have written. What is not is told in the log."""
        objects = await self._ours()
        pieces = {each["metadata"]["name"]: each for each in objects}
        for head in sorted((each for each in objects if "sha256" in each["spec"]), key=_offset, reverse=True):
            name = f"ClusterHistory {self._cluster.namespace}/{head['metadata']['name']}"
            parts = head["spec"].get("parts") or []
            missing = [part for part in parts if part not in pieces]
            try:
                if missing or len(parts) > most_pieces(MOST):
                    raise Damaged(f"it names {len(parts)} further pieces, and {len(missing)} of them are missing")
                whole = [head, *(pieces[part] for part in parts)]
                oldest = min(datetime.fromisoformat(each["metadata"]["creationTimestamp"]) for each in whole)
                if (doubt := await self._trusted(oldest)) is not None:
                    raise Damaged(doubt.message)
                return await asyncio.to_thread(_read, whole, name)
            except (Damaged, InvalidDocument) as how:
                _LOG.warning("%s is not used: %s", name, how)
        return None

    async def save(self, kept: KeptHistory) -> str | None:
        """Keep it in place of any other. Returns why it can't be, if it is too large."""
        written: list[str] = []
        if kept.partitions or kept.cautions or kept.seen:
            raw = await asyncio.to_thread(canonical, kept)
            if len(raw) > MOST or is_crowded(raw, MOST):
                return (
                    f"the histories of {len(kept.partitions)} partitions that are out of sync, and what speaks against "
                    f"proofs in {len(kept.cautions)}, have {len(raw)} bytes, more than the {MOST} that are kept"
                )
            written = await self._write(kept, raw)
        for each in await self._ours():
            if each["metadata"]["name"] not in written:
                path = HISTORIES.path(self._cluster.namespace, each["metadata"]["name"])
                await self._api.delete(path, uid=each["metadata"]["uid"])
        return None

    async def _write(self, kept: KeptHistory, raw: bytes) -> list[str]:
        """Returns the names of what was written. A name that is taken has the same content: that is a part of it."""
        sha256 = hashlib.sha256(raw).hexdigest()
        head = f"{self._cluster.name}-{kept.upto}-{sha256[:8]}"
        first, *others = await asyncio.to_thread(packed, raw)
        names = [f"{head}-{number:03}" for number in range(1, len(others) + 1)]
        for name, piece in zip(names, others, strict=True):
            await self._create(name, kept, piece, {})
        await self._create(head, kept, first, {"sha256": sha256} | ({"parts": names} if names else {}))
        return [head, *names]

    async def _create(self, name: str, kept: KeptHistory, piece: bytes, whole: Mapping[str, object]) -> None:
        owner = {"apiVersion": API_VERSION, "kind": CLUSTERS.kind, "name": self._cluster.name, "uid": self._cluster.uid}
        spec = {
            "clusterId": self._cluster_id,
            "cluster": {"name": self._cluster.name, "uid": self._cluster.uid},
            "offset": kept.upto,
            "partitions": len(kept.partitions),
            "writtenAt": datetime.now(UTC).isoformat(timespec="microseconds"),
            "content": as_content(piece),
            **whole,
        }
        labels = {CLUSTER_LABEL: label_value(self._cluster_id)}
        meta = {"name": name, "namespace": self._cluster.namespace, "labels": labels, "ownerReferences": [owner]}
        body = {"apiVersion": API_VERSION, "kind": HISTORIES.kind, "metadata": meta, "spec": spec}
        with suppress(AlreadyExists):
            await self._api.create(HISTORIES.path(self._cluster.namespace), body)

    async def _ours(self) -> list[Object]:
        """Of this very WatchedCluster: one that is made anew under its name inherits nothing."""
        params = {"labelSelector": f"{CLUSTER_LABEL}={label_value(self._cluster_id)}"}
        found = await self._api.list_all(HISTORIES.path(self._cluster.namespace), params=params)
        ours = self._cluster.uid, self._cluster_id
        return [each for each in found if (each["spec"]["cluster"]["uid"], each["spec"]["clusterId"]) == ours]


def _offset(head: Object) -> tuple[int, str]:
    return head["spec"]["offset"], head["metadata"]["name"]


def _read(whole: Sequence[Object], name: str) -> KeptHistory:
    """Raises Damaged, InvalidDocument."""
    pieces = [of_content(each["spec"]["content"]) for each in whole]
    return read(KeptHistory, unpacked(pieces, MOST, whole[0]["spec"]["sha256"]), name)
