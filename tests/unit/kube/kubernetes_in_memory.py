"""A small Kubernetes API in memory: names, uids, versions, labels, finalizers, owners, and writes that go wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from pydantic_core import from_json, to_json

from kafka_recovery.kube.machinery.api import AlreadyExists, ApiError, Conflict, Kept, NotFound, Object
from kafka_recovery.kube.resources.kinds import RECORDS, RECOVERIES

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

_TERM = re.compile(r"(?P<absent>!)?(?P<key>[\w./-]+)( (?P<how>in|notin) \((?P<set>[^)]*)\)|=(?P<value>[^,]*))?(,|$)")


def over_the_wire(body: Mapping[str, Any]) -> Object:
    """The same object as its receiver has it: nothing of the sender's, and nothing but JSON."""
    received: Object = from_json(to_json(body))
    return received


class KubernetesInMemory:
    """Port `RecordsApi`. Every write is counted from 0; `faults` says which goes wrong, and whether it was done first.

    Like the real one it deletes at once what nobody holds by a finalizer, and with it what it owns.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.now = NOON
        self.writes: list[str] = []
        self.faults: dict[int, tuple[bool, BaseException]] = {}
        self.refused: ApiError | None = None
        self.died: BaseException | None = None
        """The process that wrote has ended: nothing more of it arrives until another one has started."""
        self.at_death: Callable[[], object] = lambda: None
        self._numbers = count(1)

    async def get(self, path: str) -> Object:
        if path not in self.objects:
            raise NotFound(404, "NotFound", f'"{path}" not found', path)
        return over_the_wire(self.objects[path])

    async def list_all(self, path: str, *, params: Mapping[str, str] | None = None) -> list[Object]:
        selector = (params or {}).get("labelSelector", "")
        found = [each for at, each in self.objects.items() if at.rpartition("/")[0] == path]
        return [over_the_wire(each) for each in found if _selected(each["metadata"].get("labels", {}), selector)]

    async def list_kept(
        self, path: str, kept: Callable[[Object], Kept], *, params: Mapping[str, str] | None = None
    ) -> list[Kept]:
        return [kept(each) for each in await self.list_all(path, params=params)]

    async def create(self, path: str, body: Mapping[str, Any]) -> Object:
        at = f"{path}/{body['metadata']['name']}"
        fault = self._write(f"create {at}")
        if at in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f'"{at}" already exists', at)
        made = over_the_wire(body)
        made["metadata"] |= {"uid": f"uid-{next(self._numbers)}", "creationTimestamp": f"{self.now:%Y-%m-%dT%H:%M:%SZ}"}
        self._keep(at, made)
        if fault:
            raise fault
        return over_the_wire(made)

    async def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        fault = self._write(f"patch {path}")
        seen = await self.get(path)
        meta: Object = dict(change["metadata"])
        for guard in ("uid", "resourceVersion"):
            if meta.pop(guard, seen["metadata"][guard]) != seen["metadata"][guard]:
                raise Conflict(409, "Conflict", f'"{path}" has been modified', path)
        assert change.keys() == {"metadata"}, "a RecoveryRecord lets only its metadata be changed"
        seen["metadata"]["labels"] = seen["metadata"].get("labels", {}) | meta.pop("labels", {})
        seen["metadata"] |= meta
        self._keep(path, seen)
        if fault:
            raise fault
        return over_the_wire(seen)

    async def apply_status(self, path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        fault = self._write(f"status {path}")
        now = await self.get(path)
        if now["metadata"]["resourceVersion"] != seen["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", f'"{path}" has been modified', path)
        self._keep(path, now | {"status": over_the_wire(status)})
        if fault:
            raise fault
        return await self.get(path)

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        fault = self._write(f"delete {path}")
        if path in self.objects:
            meta = self.objects[path]["metadata"]
            if uid not in (None, meta["uid"]):
                raise Conflict(409, "Conflict", f'"{path}" has another uid', path)
            meta["deletionTimestamp"] = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
            self._keep(path, self.objects[path])
        if fault:
            raise fault

    def tear_out(self, path: str) -> None:
        """What a person does who takes an object's finalizers off by hand and deletes it."""
        del self.objects[path]
        self._collect()

    def records(self) -> dict[str, Object]:
        """All RecoveryRecords by name."""
        return {each["metadata"]["name"]: each for at, each in self.objects.items() if f"/{RECORDS.plural}/" in at}

    def finalizers(self, namespace: str, name: str) -> list[str]:
        """Of a recovery."""
        found: list[str] = self.objects[RECOVERIES.path(namespace, name)]["metadata"].get("finalizers", [])
        return found

    def put_recovery(self, namespace: str, name: str, uid: str, **meta: Any) -> None:
        """A PartitionRecovery that somebody created."""
        self._keep(RECOVERIES.path(namespace, name), {"metadata": {"name": name, "uid": uid, **meta}})

    def pass_time(self, duration: timedelta) -> None:
        """For the timestamps of what is created from now on."""
        self.now += duration

    def _write(self, what: str) -> BaseException | None:
        """Raises what goes wrong before the write; returns what does after it."""
        if self.died:
            raise self.died
        self.writes.append(what)
        if self.refused:
            raise self.refused
        done, fault = self.faults.get(len(self.writes) - 1, (False, None))
        if fault and not isinstance(fault, Exception):
            self.died = fault
            self.at_death()
        if fault and not done:
            raise fault
        return fault

    def _keep(self, path: str, made: Object) -> None:
        meta = made["metadata"]
        meta["resourceVersion"] = str(next(self._numbers))
        self.objects[path] = made
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            del self.objects[path]
        self._collect()

    def _collect(self) -> None:
        living = {each["metadata"]["uid"] for each in self.objects.values()}
        for path, each in list(self.objects.items()):
            owners = {owner["uid"] for owner in each["metadata"].get("ownerReferences", [])}
            if owners and not owners & living:
                del self.objects[path]


def _selected(labels: Mapping[str, str], selector: str) -> bool:
    return all(_matches(labels, term) for term in _TERM.finditer(selector))


def _matches(labels: Mapping[str, str], term: re.Match[str]) -> bool:
    has = labels.get(term["key"])
    if term["how"]:
        inside = has in term["set"].split(",")
        return inside if term["how"] == "in" else not inside
    if term["value"] is not None:
        return has == term["value"]
    return (has is None) == bool(term["absent"])
