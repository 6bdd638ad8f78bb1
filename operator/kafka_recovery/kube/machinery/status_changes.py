"""Writing the status of an object that others write too: all of it for a queue, or one field of it at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kafka_recovery.kube.machinery.api import Conflict, NotFound, Object
from kafka_recovery.kube.machinery.work_queue import Requeue

ATTEMPTS: Final = 50
"""How often somebody else may have written an object between our reading and writing it: a controller that writes
without a pause wins most races on a busy machine, and ten in a row now and then."""
OTHERS = f"others write it all the time ({ATTEMPTS} tries)"


class Statuses(Protocol):
    """What of the API is needed here; see `kube.api.Api`."""

    async def get(self, path: str) -> Object:
        """An object."""
        ...

    async def apply_status(self, path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        """Make this the object's status; Conflict if it changed since it was seen."""
        ...


async def write_status(api: Statuses, path: str, seen: Object, status: Mapping[str, Any]) -> Object | None:
    """The object with this status, worked out from what was `seen`; None: it is gone.

    Raises Requeue if somebody wrote it since: what it should say is worked out anew.
    """
    try:
        return await api.apply_status(path, seen, status)
    except Conflict as lost:
        raise Requeue from lost
    except NotFound:
        return None


async def change_status(
    api: Statuses, path: str, uid: str, changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Object | None:
    """The object with its `changed` status, as the server keeps it; None: it is gone, or another one has its name.

    Raises ApiError, of which Conflict says that others write it all the time.
    """
    for attempt in range(ATTEMPTS):
        try:
            seen = await api.get(path)
            if seen["metadata"]["uid"] != uid:
                return None
            status = seen.get("status") or {}
            wanted = changed(status)
            return seen if wanted == status else await api.apply_status(path, seen, wanted)
        except NotFound:
            return None
        except Conflict:
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")
