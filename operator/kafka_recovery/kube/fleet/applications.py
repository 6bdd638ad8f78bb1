"""Jobs for Spark over the Kubernetes API, in the dialect of the Spark operator that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafka_recovery.kube.fleet.dialect import PLURAL, Dialect
from kafka_recovery.kube.fleet.pods import driver_of, short
from kafka_recovery.kube.fleet.ports import Job, NotOurs, Owner, Phase, PreviousObjectsTerminating, Seen
from kafka_recovery.kube.fleet.templates import APPLICATION_LABEL
from kafka_recovery.kube.machinery.api import AlreadyExists, Api, Conflict, NotFound, Object
from kafka_recovery.kube.machinery.applied import FIELD_MANAGER

_MADE = 1
"""The generation of an object that nobody has changed since it was made."""


@dataclass(frozen=True, slots=True)
class Applications:
    """Jobs as SparkApplications. Each call may raise ApiError and what is below it."""

    api: Api
    dialect: Dialect

    async def submit(self, job: Job) -> None:
        """Create the object; one of that name that has the same owner is the one.

        Raises NotOurs, PreviousObjectsTerminating.
        """
        try:
            await self.api.create(self._path(job, None), self.dialect.written(job))
        except AlreadyExists:
            there = await self.api.get(self._path(job))
            if not _is_owned(there, job):
                refuse_if_going(there, job.owner)
                raise NotOurs(f"a SparkApplication {job.name} is there, and not of this {job.owner.kind}") from None

    async def observe(self, job: Job) -> Seen:
        """Look at the object, at its Pods, and at warnings about a driver that does not start.

        GONE also for a name that is taken by somebody else's.
        """
        try:
            application = await self.api.get(self._path(job))
        except NotFound:
            return Seen(Phase.GONE)
        if not _is_owned(application, job):
            return Seen(Phase.GONE)
        selector = {"labelSelector": f"{APPLICATION_LABEL}={job.name}"}
        pods = await self.api.list_all(f"/api/v1/namespaces/{job.namespace}/pods", params=selector)
        seen = self.dialect.seen(application, pods, ())
        if seen.phase is Phase.WAITING and seen.reason is None:
            seen = self.dialect.seen(application, pods, await self._warnings(job, pods))
        deleted = application["metadata"].get("deletionTimestamp") is not None
        return replace(seen, changed=_changed(application), deleted=deleted)

    async def cancel(self, job: Job) -> None:
        """By `suspend` where the API has it, else by deletion. Returns before it has ended; one may be gone already."""
        if self.dialect.cancelling is None:
            await self.remove(job)
            return
        try:
            application = await self.api.get(self._path(job))
            if _is_owned(application, job):
                await self.api.patch(self._path(job), self.dialect.cancelling)
        except NotFound:
            return

    async def remove(self, job: Job) -> None:
        """Delete the object, and with it its Pods, if it is ours."""
        try:
            application = await self.api.get(self._path(job))
        except NotFound:
            return
        if _is_owned(application, job):
            try:
                await self.api.delete(self._path(job), uid=application["metadata"]["uid"])
            except Conflict:  # another one under this name by now
                return

    async def _warnings(self, job: Job, pods: Sequence[Object]) -> list[str]:
        """What events say of the driver's Pod, the oldest first: only they tell of a volume that can't be mounted."""
        driver = driver_of(pods)
        if driver is None:
            return []
        params = {"fieldSelector": f"involvedObject.uid={driver['metadata']['uid']},type=Warning"}
        events = await self.api.list_all(f"/api/v1/namespaces/{job.namespace}/events", params=params)
        events.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
        return [short(f"{event.get('reason')}: {event.get('message')}") for event in events]

    def _path(self, job: Job, name: str | None = "") -> str:
        collection = f"/apis/{self.dialect.api}/namespaces/{job.namespace}/{PLURAL}"
        return collection if name is None else f"{collection}/{job.name}"


def refuse_if_going(there: Object, owner: Owner) -> None:
    """Raises PreviousObjectsTerminating for what is being deleted, or was an earlier owner's of this name."""
    meta = there["metadata"]
    earlier = any(
        (each.get("apiVersion"), each.get("kind"), each.get("name")) == (owner.api_version, owner.kind, owner.name)
        for each in meta.get("ownerReferences") or ()
    )
    if earlier or meta.get("deletionTimestamp"):
        whose = f"an earlier {owner.kind}" if earlier else "somebody else"
        raise PreviousObjectsTerminating(f"{there['kind']} {meta['name']} of {whose} is not gone yet")


def _is_owned(application: Object, job: Job) -> bool:
    owners = application["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == job.owner.uid for owner in owners)


def _changed(application: Object) -> str | None:
    """Who changed the spec since we made it; status and metadata count for nothing. A deletion is a generation too."""
    meta = application["metadata"]
    if meta.get("generation", _MADE) == _MADE or meta.get("deletionTimestamp"):
        return None
    managers = {
        str(entry.get("manager"))
        for entry in meta.get("managedFields") or ()
        if "f:spec" in (entry.get("fieldsV1") or {}) and entry.get("manager") != FIELD_MANAGER
    }
    return short(", ".join(sorted(managers)) or "somebody")
