"""Port `Results` over file systems: what runs have written. Only here is a fleet's storage touched."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet import manifest
from kafka_recovery.fleet.manifest import Expected
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.fleet.apart import Apart
from kafka_recovery.kube.fleet.fields import Task
from kafka_recovery.kube.fleet.leaders import TooManyLeaders, packed
from kafka_recovery.kube.fleet.prefixes import NONE, Prefixes
from kafka_recovery.kube.fleet.steps import Failure, Found, NoResult, Result

if TYPE_CHECKING:
    from kafka_recovery.fleet.storage import Storage

PATIENCE = timedelta(seconds=30)
"""For one look at a storage."""

LONG_PATIENCE = timedelta(minutes=2)
"""For all that a run wrote."""

INVALID, UNREADABLE = "ResultInvalid", "StorageUnavailable"

RANK = Task.RANK.lower()
"""What a manifest calls the task that chooses leaders."""

_UNANSWERED = "the storage did not answer in time"

NO_PYARROW = Reason(
    "StorageUnavailable",
    "the fleet operator reads results with pyarrow, which its image lacks: use one with the extra fleet",
)


class Results(Protocol):
    """Where runs write to."""

    async def trouble(self, url: str) -> Reason | None:
        """Why no result could be read there, before anything is run; None: the place can be looked into."""

    async def read(self, url: str, expected: Expected) -> Result:
        """The manifest in a run's folder, if it is whole and the answer to what was asked, and the leaders it chose."""


class StoredResults:
    """In threads of each storage's own: one that hangs holds up nothing else.

    `prefixes`: below which places it looks at all; elsewhere nothing is asked of anybody.
    """

    def __init__(self, prefixes: Prefixes = NONE) -> None:
        self._prefixes = prefixes
        self._apart = Apart()

    async def trouble(self, url: str) -> Reason | None:
        """See the port."""
        if find_spec("pyarrow") is None:
            return NO_PYARROW
        place = self._prefixes.addressed(url)
        if isinstance(place, Reason):
            return place
        try:
            return await self._apart.call(place, lambda: _trouble(place), PATIENCE)
        except TimeoutError:
            return Reason("StorageUnavailable", _UNANSWERED)

    async def read(self, url: str, expected: Expected) -> Result:
        """See the port."""
        place = self._prefixes.addressed(url)
        if isinstance(place, Reason):
            return NoResult(Reason(UNREADABLE, place.message), may_pass=True)
        try:
            return await self._apart.call(place, lambda: _result(place, expected), LONG_PATIENCE)
        except TimeoutError:
            return NoResult(Reason(UNREADABLE, _UNANSWERED), may_pass=True)


def _trouble(url: str) -> Reason | None:
    # Imported where it is used: who asks nothing of a fleet need not have pyarrow, nor wait for it.
    from kafka_recovery.fleet.storage import Storage, StorageUnavailable

    try:
        Storage.at(url).listed("")
    except StorageUnavailable as unavailable:
        return Reason("StorageUnavailable", f"the fleet operator itself can't look into {unavailable}")
    except InvalidDocument as invalid:
        return Reason("InvalidSpec", str(invalid))
    return None


def _result(url: str, expected: Expected) -> Result:
    from kafka_recovery.fleet.storage import Storage, StorageUnavailable, TooLarge

    try:
        place = Storage.at(url)
        name = place.name(manifest.NAME)
        if not any(each.path.endswith(f"/{manifest.NAME}") and not each.is_folder for each in place.listed("")):
            return NoResult(
                Reason(Failure.NO_RESULT, f"{name} is not there: its driver ended with 0 and had not finished")
            )
        raw = place.read(manifest.NAME, at_most=manifest.LARGEST)
    except (InvalidDocument, TooLarge) as invalid:
        return NoResult(Reason(INVALID, str(invalid)))
    except StorageUnavailable as unavailable:
        return NoResult(Reason(UNREADABLE, str(unavailable)), may_pass=True)
    found = understood(raw, name, expected)
    return _with_leaders(place, found) if isinstance(found, Found) and expected.task == RANK else found


def _with_leaders(place: Storage, found: Found) -> Result:
    """The same, with the leaders that were chosen. Files are read only where there is anybody to be chosen for."""
    from kafka_recovery.fleet.choices import choices
    from kafka_recovery.fleet.storage import StorageUnavailable, TooLarge

    numbers = found.manifest.summary
    try:
        chosen = choices(place, found.manifest) if numbers.lossless + numbers.bounded + numbers.unknown else {}
        asked = (each.cluster_id for each in found.manifest.evidence)
        return replace(found, leaders=packed({id: chosen.get(id, {}) for id in asked}))
    except InvalidDocument as invalid:
        return NoResult(Reason(INVALID, str(invalid)))
    except (TooLarge, TooManyLeaders) as large:
        return replace(found, no_leaders=f"no recovery can name it: {large}")
    except StorageUnavailable as unavailable:
        return NoResult(Reason(UNREADABLE, str(unavailable)), may_pass=True)


def understood(raw: bytes, name: str, expected: Expected) -> Result:
    """What the bytes of a manifest are worth."""
    try:
        found = manifest.read_manifest(raw, name)
    except InvalidDocument as invalid:
        return NoResult(Reason(INVALID, str(invalid)))
    if why := manifest.foreign(found, expected):
        return NoResult(Reason(INVALID, f"{name}: is not the answer to this run: {why}"))
    return Found(found, manifest.checksum(raw))
