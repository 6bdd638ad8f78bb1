"""Facts in RecoveryRecords: small documents of one PartitionRecovery, immutable, whole or not at all, never rewritten.

A fact is one RecoveryRecord, its head, under a name that everybody can work out: `<recovery>-<plan>-<fact>`. What is
too large for one lies in further parts, whose names hold the beginning of their content's hash and which are created
before the head: a writer that died half-way leaves parts that nobody reads, and another content can't meet them.

What a record says stands in its spec, which the API server lets nobody change. Its labels are there to be asked for.

    prod-1f0c9a2b7d-9f86d081884c7d65-plan                     head: SHA-256 of the whole, names of the parts
    prod-1f0c9a2b7d-9f86d081884c7d65-plan-001-5e884898        part
    prod-1f0c9a2b7d-9f86d081884c7d65-wave-0001-started
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.broken_records import damaged, unwritable
from kafka_recovery.kube.journal.contents import chunk_of, largest, most_parts, pack, unpack
from kafka_recovery.kube.journal.packed import as_content
from kafka_recovery.kube.machinery.api import AlreadyExists, ApiError, Conflict, NotFound, Object
from kafka_recovery.kube.resources.kinds import API_VERSION, FINALIZER, GROUP, RECORDS, RECOVERIES
from kafka_recovery.kube.resources.labels import (
    CLUSTER_LABEL,
    PLAN_LABEL,
    RECOVERY_LABEL,
    RECOVERY_UID_LABEL,
    label_value,
)
from kafka_recovery.recovery.ports import JournalUnwritable

FACT_LABEL = f"{GROUP}/fact"
"""Its value is the fact's name, or `part`."""
OWNED_LABEL = f"{GROUP}/owned"
"""Set together with the owner reference, because a selector can't ask for that."""

PART = "part"
PLAN_LENGTH = 16
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
"""Of an object in Kubernetes: it becomes part of a path."""
PLAN = re.compile(rf"[0-9a-f]{{{PLAN_LENGTH}}}")


class RecordsApi(Protocol):
    """What of the API is needed here, and for the status of recoveries; see `kube.api.Api`."""

    async def get(self, path: str) -> Object:
        """An object."""
        ...

    async def list_all(self, path: str, *, params: Mapping[str, str] | None = None) -> list[Object]:
        """All objects of a collection."""
        ...

    async def create(self, path: str, body: Mapping[str, Any]) -> Object:
        """Create an object."""
        ...

    async def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        """Merge a change."""
        ...

    async def apply_status(self, path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        """Make this the object's status; Conflict if the object changed since it was seen."""
        ...

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        """Delete an object; gone already is fine."""
        ...


class RecoveryRef(NamedTuple):
    """A PartitionRecovery: a name can be used again, a uid can't."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact's head as it was read: `plan` is the first 16 digits of its plan's digest, `written` sorts by age."""

    plan: str
    name: str
    record: str
    recovery: RecoveryRef
    owned: bool
    written: tuple[str, str]
    head: Object

    @classmethod
    def of(cls, head: Object) -> Fact:
        """Raises InvalidDocument for a RecoveryRecord that lacks what every fact has."""
        meta, spec = head["metadata"], head.get("spec") or {}
        try:
            recovery = RecoveryRef(spec["recovery"]["name"], spec["recovery"]["uid"])
            if not NAME.fullmatch(recovery.name) or not PLAN.fullmatch(spec["plan"]):
                raise InvalidDocument(damaged(meta["name"], "no recovery and no plan is called what it says"))
            plan, name, labels = spec["plan"], spec["fact"], meta.get("labels") or {}
            if not labels.items() >= _labels(spec["clusterId"], recovery, plan, name).items():
                raise InvalidDocument(damaged(meta["name"], "its labels are not those of what it tells"))
            if name != PART and meta["name"] != _record(recovery, plan, name):
                raise InvalidDocument(damaged(meta["name"], "it is a copy: its name is not that of what it tells"))
            written = meta["creationTimestamp"], spec["writtenAt"]
            return cls(plan, name, meta["name"], recovery, OWNED_LABEL in labels, written, head)
        except KeyError as missing:
            raise InvalidDocument(damaged(meta["name"], f"it lacks {missing}")) from None


class Facts:
    """The facts of one PartitionRecovery. Writing raises JournalUnwritable, reading ApiError; both InvalidDocument."""

    def __init__(self, api: RecordsApi, namespace: str, recovery: RecoveryRef, cluster_id: str) -> None:
        self._api = api
        self._namespace = namespace
        self._recovery = recovery
        self._cluster_id = cluster_id

    async def keep(self, digest: str, name: str, raw: bytes) -> bytes | None:
        """Keep a fact about a plan. None: it is kept now; bytes: what was kept under its name earlier, which stands."""
        (first, *others), sha256 = await asyncio.to_thread(pack, raw, name, digest)
        head = self.record(digest, name)
        try:
            parts = [await self._keep_part(digest, name, number, chunk) for number, chunk in enumerate(others, 1)]
            whole = {"sha256": sha256} | ({"parts": parts} if parts else {})
            await self._api.create(self._path(), self._record(head, digest, name, first, whole, held=_is_held(name)))
        except AlreadyExists:
            return await self._earlier(digest, name)
        except ApiError as error:
            raise unwritable(f"RecoveryRecord {self._namespace}/{head}", error) from error

    async def find(self, digest: str, name: str) -> Fact | None:
        """A fact by its name; None: it is not there. Raises InvalidDocument for that of another recovery."""
        record = self.record(digest, name)
        try:
            fact = Fact.of(await self._api.get(self._path(record)))
        except NotFound:
            return None
        if fact.recovery.uid != self._recovery.uid:
            raise InvalidDocument(
                f"RecoveryRecord {record} was written for an earlier PartitionRecovery {fact.recovery.name} (uid "
                f"{fact.recovery.uid}): look at its partitions' assignment orders, then delete it"
            )
        return fact

    async def own(self, digest: str, name: str) -> Fact | None:
        """A fact of this very recovery; that of an earlier one with its name is none."""
        found = await self._facts(f"{PLAN_LABEL}={digest[:PLAN_LENGTH]},{FACT_LABEL}={name}")
        return found[0] if found else None

    async def notes(self) -> list[Fact]:
        """All facts but the plans themselves, oldest first."""
        return await self._facts(f"{FACT_LABEL},{FACT_LABEL} notin (plan,{PART})")

    async def plans(self) -> list[Fact]:
        """The plans, oldest first."""
        return await self._facts(f"{FACT_LABEL}=plan")

    async def versions(self) -> frozenset[tuple[str, str]]:
        """Each RecoveryRecord of this journal and its version, parts included: other ones tell that some changed."""
        heads = (each["metadata"] for each in await self._listed(FACT_LABEL))
        return frozenset((meta["name"], meta["resourceVersion"]) for meta in heads)

    async def oldest(self) -> datetime | None:
        """When the first RecoveryRecord of this journal was made, parts included, by the server's clock; None: none."""
        made = [each["metadata"]["creationTimestamp"] for each in await self._listed(FACT_LABEL)]
        return datetime.fromisoformat(min(made)) if made else None

    async def content(self, fact: Fact) -> bytes:
        """The document. Raises InvalidDocument saying which RecoveryRecord is missing or was changed."""
        spec = fact.head["spec"]
        chunks = [chunk_of(fact.head)]
        parts = spec.get("parts") or []
        if len(parts) > most_parts(fact.name):
            raise InvalidDocument(damaged(fact.record, f"it names {len(parts)} parts, more than any {fact.name}"))
        for part in parts:
            if not re.fullmatch(rf"{re.escape(fact.record)}-[0-9]{{3,}}-[0-9a-f]{{8}}", part):
                raise InvalidDocument(damaged(fact.record, f"it names a part that is none: {part[:80]!r}"))
            try:
                chunks.append(chunk_of(await self._api.get(self._path(part))))
            except NotFound:
                raise InvalidDocument(damaged(part, f"it is missing, and {fact.record} is not whole")) from None
        return await asyncio.to_thread(unpack, chunks, largest(fact.name), fact.record, spec.get("sha256"))

    async def hold(self, digest: str) -> None:
        """Let no deletion take a plan away before its run has ended; what is kept of the run is held from the first.

        Raises InvalidDocument if any of it is gone.
        """
        found = await self._listed(f"{FACT_LABEL} in (plan,{PART}),{PLAN_LABEL}={digest[:PLAN_LENGTH]}")
        held = [
            await self._patch(meta, {"finalizers": [*_of_others(meta), FINALIZER]})
            for meta in (each["metadata"] for each in found)
        ]
        if not all(held) or not any(each["spec"]["fact"] == "plan" for each in found):
            raise InvalidDocument(damaged(self.record(digest, "plan"), "it is missing, or a part of it is"))

    async def release(self, digest: str) -> None:
        """Let whoever may delete them delete the facts about a plan, whose run has ended."""
        for each in await self._listed(f"{FACT_LABEL},{PLAN_LABEL}={digest[:PLAN_LENGTH]}"):
            await self._release(each["metadata"])

    async def release_plans(self, but: Collection[str]) -> None:
        """The same of every plan of this recovery but some: a run that was never begun may have left one held."""
        for each in await self._listed(f"{FACT_LABEL} in (plan,{PART})"):
            if each["metadata"]["labels"].get(PLAN_LABEL) not in but:
                await self._release(each["metadata"])

    async def hand_over(self, digest: str, *, held: bool = False) -> None:
        """Let all facts about a plan go with their PartitionRecovery. What says that it is finished comes last.

        `held`: nothing goes before it is released. That all are handed over is a durable word, too, and nothing new.
        """
        objects = await self._listed(f"{FACT_LABEL},{PLAN_LABEL}={digest[:PLAN_LENGTH]},!{OWNED_LABEL}")
        owner = {
            "apiVersion": API_VERSION,
            "kind": RECOVERIES.kind,
            "name": self._recovery.name,
            "uid": self._recovery.uid,
        }
        for meta in sorted((each["metadata"] for each in objects), key=_finished_last):
            free = {} if held else {"finalizers": _of_others(meta)}
            await self._patch(meta, {"labels": {OWNED_LABEL: "true"}, "ownerReferences": [owner], **free})

    async def remove(self, digest: str) -> None:
        """Delete all facts about a plan, in an order in which no half of it is ever taken for whole.

        That it began goes first, then the plan; that it has ended goes last.
        """
        objects = await self._listed(f"{FACT_LABEL},{PLAN_LABEL}={digest[:PLAN_LENGTH]}")
        order = {"begun": 0, PART: 2, "finished": 3}
        for meta in sorted(
            (each["metadata"] for each in objects), key=lambda meta: order.get(meta["labels"][FACT_LABEL], 1)
        ):
            await self._release(meta)
            try:
                await self._api.delete(self._path(meta["name"]), uid=meta["uid"])
            except Conflict:
                continue  # another one of that name: it is not ours to delete
            except ApiError as error:
                raise unwritable(f"RecoveryRecord {self._namespace}/{meta['name']}", error) from error

    def record(self, digest: str, name: str) -> str:
        """The name of the RecoveryRecord that is a fact's head."""
        return _record(self._recovery, digest[:PLAN_LENGTH], name)

    async def _earlier(self, digest: str, name: str) -> bytes:
        record = f"RecoveryRecord {self._namespace}/{self.record(digest, name)}"
        try:
            fact = await self.find(digest, name)
            if fact is None:
                raise JournalUnwritable(f"{record} was deleted while it was being written")
            return await self.content(fact)
        except ApiError as error:
            raise unwritable(record, error) from error

    async def _release(self, meta: Object) -> None:
        if FINALIZER in meta.get("finalizers", ()):
            await self._patch(meta, {"finalizers": _of_others(meta)})

    async def _patch(self, meta: Object, change: Object) -> bool:
        """False: it is gone, with its owner perhaps, or another one has its name."""
        try:
            await self._api.patch(self._path(meta["name"]), {"metadata": {"uid": meta["uid"], **change}})
            return True
        except (NotFound, Conflict):
            return False
        except ApiError as error:
            raise unwritable(f"RecoveryRecord {self._namespace}/{meta['name']}", error) from error

    async def _keep_part(self, digest: str, fact: str, number: int, chunk: bytes) -> str:
        name = f"{self.record(digest, fact)}-{number:03}-{hashlib.sha256(chunk).hexdigest()[:8]}"
        try:
            await self._api.create(self._path(), self._record(name, digest, PART, chunk, held=_is_held(fact)))
        except AlreadyExists:
            if chunk_of(await self._api.get(self._path(name))) != chunk:
                raise InvalidDocument(damaged(name, "its content is not the one in its name")) from None
        return name

    def _record(
        self,
        name: str,
        digest: str,
        fact: str,
        content: bytes,
        whole: Mapping[str, object] | None = None,
        *,
        held: bool,
    ) -> Object:
        plan = digest[:PLAN_LENGTH]
        spec = {
            "clusterId": self._cluster_id,
            "recovery": self._recovery._asdict(),
            "plan": plan,
            "fact": fact,
            "writtenAt": datetime.now(UTC).isoformat(timespec="microseconds"),
            "content": as_content(content),
            **(whole or {}),
        }
        return {
            "apiVersion": API_VERSION,
            "kind": RECORDS.kind,
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": _labels(self._cluster_id, self._recovery, plan, fact),
                "finalizers": [FINALIZER] if held else [],
            },
            "spec": spec,
        }

    async def _facts(self, selector: str) -> list[Fact]:
        return sorted(map(Fact.of, await self._listed(selector)), key=lambda fact: (fact.written, fact.name))

    async def _listed(self, selector: str) -> list[Object]:
        params = {"labelSelector": f"{RECOVERY_UID_LABEL}={self._recovery.uid},{selector}"}
        return await self._api.list_all(self._path(), params=params)

    def _path(self, name: str | None = None) -> str:
        return RECORDS.path(self._namespace, name)


def _record(recovery: RecoveryRef, plan: str, fact: str) -> str:
    return f"{recovery.name}-{plan}-{fact}"


def _labels(cluster_id: str, recovery: RecoveryRef, plan: str, fact: str) -> dict[str, str]:
    """By which a record can be asked for."""
    return {
        CLUSTER_LABEL: label_value(cluster_id),
        RECOVERY_LABEL: label_value(recovery.name),
        RECOVERY_UID_LABEL: recovery.uid,
        PLAN_LABEL: plan,
        FACT_LABEL: fact,
    }


def _is_held(name: str) -> bool:
    """Whether a fact of this name tells of a run, and must not be deleted before all that tells of it may be."""
    return name != "plan"


def _of_others(meta: Object) -> list[str]:
    return [each for each in meta.get("finalizers", ()) if each != FINALIZER]


def _finished_last(meta: Object) -> tuple[bool, str]:
    return meta["labels"][FACT_LABEL] == "finished", meta["name"]
