"""Port `Results` over file systems: what runs have written. Only here does the operator touch a fleet's storage."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet import manifest
from kafka_recovery.fleet.manifest import Expected
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.fleet.apart import Apart
from kafka_recovery.kube.fleet.prefixes import NONE, Prefixes
from kafka_recovery.kube.fleet.steps import Found, NoResult, Result

if TYPE_CHECKING:
    from kafka_recovery.fleet.choices import Choices

PATIENCE = timedelta(seconds=30)
"""For one look at a storage."""

MISSING, INVALID, UNREADABLE = "ResultMissing", "ResultInvalid", "ResultUnreadable"

LONG_PATIENCE = timedelta(minutes=2)
"""For all files of a ranking."""

_UNANSWERED = "the storage did not answer in time"

NO_PYARROW = Reason("MissingPackage", "results are read with pyarrow: pip install '.[operator,fleet]' in its checkout")


class Results(Protocol):
    """Where runs write to."""

    async def trouble(self, url: str) -> Reason | None:
        """Why no result could be read there, before anything is run; None: the place can be looked into."""

    async def read(self, url: str, expected: Expected) -> Result:
        """The manifest in a run's folder, if it is whole and the answer to what was asked."""


class StoredResults:
    """In threads of each storage's own: one that hangs holds up nothing else.

    `prefixes`: below which places it looks at all; elsewhere nothing is asked of anybody.
    """

    def __init__(self, prefixes: Prefixes = NONE) -> None:
        self._prefixes = prefixes
        self._apart = Apart()
        self._reading: dict[tuple[str, str], asyncio.Task[Choices | Reason]] = {}

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
            return await self._apart.call(place, lambda: _result(place, expected), PATIENCE)
        except TimeoutError:
            return NoResult(Reason(UNREADABLE, _UNANSWERED), may_pass=True)

    async def choices(self, url: str, expected: Expected, checksum: str) -> Choices | Reason:
        """What a run of task rank chose; or why that can't be used. Read once for all recoveries that ask at a time."""
        place = self._prefixes.addressed(url)
        if isinstance(place, Reason):
            return Reason(UNREADABLE, place.message)
        reading = self._reading.get((url, checksum))
        if reading is None or (reading.done() and _is_unread(reading)):
            self._reading.clear()  # one is kept: an incident has one ranking
            reading = asyncio.create_task(self._read_choices(place, expected, checksum), name="reading a ranking")
            self._reading[url, checksum] = reading
        return await asyncio.shield(reading)

    async def _read_choices(self, url: str, expected: Expected, checksum: str) -> Choices | Reason:
        try:
            return await self._apart.call(url, lambda: _choices(url, expected, checksum), LONG_PATIENCE)
        except TimeoutError:
            return Reason(UNREADABLE, _UNANSWERED)

    def close(self) -> None:
        """What hangs in a storage is not waited for."""
        for reading in self._reading.values():
            reading.cancel()


def _trouble(url: str) -> Reason | None:
    # Imported where it is used: who asks nothing of a fleet need not have pyarrow, nor wait for it.
    from kafka_recovery.fleet.storage import Storage, StorageUnavailable

    try:
        Storage.at(url).listed("")
    except StorageUnavailable as unavailable:
        return Reason("StorageUnavailable", f"the operator itself can't look into {unavailable}")
    except InvalidDocument as invalid:
        return Reason("InvalidStorage", str(invalid))
    return None


def _result(url: str, expected: Expected) -> Result:
    from kafka_recovery.fleet.storage import Storage, StorageUnavailable, TooLarge

    try:
        place = Storage.at(url)
        name = place.name(manifest.NAME)
        if not any(each.path.endswith(f"/{manifest.NAME}") and not each.is_folder for each in place.listed("")):
            return NoResult(Reason(MISSING, f"{name} is not there: its driver ended with 0 and had not finished"))
        raw = place.read(manifest.NAME, at_most=manifest.LARGEST)
    except (InvalidDocument, TooLarge) as invalid:
        return NoResult(Reason(INVALID, str(invalid)))
    except StorageUnavailable as unavailable:
        return NoResult(Reason(UNREADABLE, str(unavailable)), may_pass=True)
    return understood(raw, name, expected)


def _is_unread(reading: asyncio.Task[Choices | Reason]) -> bool:
    """Whether it ended without choices: what failed once, for whatever reason, is tried again."""
    return reading.cancelled() or reading.exception() is not None or isinstance(reading.result(), Reason)


def _choices(url: str, expected: Expected, checksum: str) -> Choices | Reason:
    if find_spec("pyarrow") is None:
        return NO_PYARROW
    from kafka_recovery.fleet.choices import choices
    from kafka_recovery.fleet.storage import Storage, StorageUnavailable, TooLarge

    found = _result(url, expected)
    if isinstance(found, NoResult):
        return found.reason
    if found.checksum != checksum:
        return Reason(INVALID, "its manifest is another one than when the run ended")
    try:
        chosen = choices(Storage.at(url), found.manifest)
    except (InvalidDocument, TooLarge) as invalid:
        return Reason(INVALID, str(invalid))
    except StorageUnavailable as unavailable:
        return Reason(UNREADABLE, str(unavailable))
    return {each.cluster_id: chosen.get(each.cluster_id, {}) for each in found.manifest.evidence}


def understood(raw: bytes, name: str, expected: Expected) -> Result:
    """What the bytes of a manifest are worth."""
    try:
        found = manifest.read_manifest(raw, name)
    except InvalidDocument as invalid:
        return NoResult(Reason(INVALID, str(invalid)))
    if why := manifest.foreign(found, expected):
        return NoResult(Reason(INVALID, f"{name}: is not the answer to this run: {why}"))
    return Found(found, manifest.checksum(raw))
