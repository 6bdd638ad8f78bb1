"""Below which places the fleet operator reads results: it does so with its own rights, so its own options say.

Whoever writes a FleetRanking names a place; how its store is reached (an endpoint, a region) stands behind the question
mark of the operator's option, never in the resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import SplitResult, parse_qsl, urlsplit

from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument

SCHEMES = ("file", "s3", "gs", "abfs", "abfss", "hdfs")
"""Of places in a FleetRanking: what Spark and the operator can both read."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """URLs of folders. Empty: nothing is read."""

    folders: tuple[SplitResult, ...] = ()

    @classmethod
    def of(cls, urls: Iterable[str]) -> Self:
        """Raises InvalidDocument for what names no folder."""
        return cls(tuple(map(_folder, urls)))

    def addressed(self, url: str) -> str | Reason:
        """The URL with what its folder's option says of its store; or why the operator does not look there."""
        place = urlsplit(url)
        wanted = _parts(place)
        if place.query or place.fragment or "%" in url or not {".", ".."}.isdisjoint(wanted):
            return Reason("InvalidSpec", f"{_shown(place)}: a place has neither options nor steps such as ..")
        for folder in self.folders:
            within = _parts(folder)
            if (folder.scheme, folder.netloc) == (place.scheme, place.netloc) and wanted[: len(within)] == within:
                return place._replace(query=folder.query).geturl()
        return Reason(
            "InvalidSpec",
            f"{_shown(place)} lies below none of the folders in which the fleet operator reads results: name one with "
            "its option --fleet-results (in the chart fleet.resultsPrefixes)",
        )

    def known(self, url: str) -> str:
        """The same, and the URL as it is where the operator does not look: a driver has rights of its own."""
        addressed = self.addressed(url)
        return url if isinstance(addressed, Reason) else addressed


NONE = Prefixes()


def _folder(url: str) -> SplitResult:
    try:
        place = urlsplit(url)
    except ValueError:
        raise InvalidDocument("this is no URL that can be read") from None
    steps = _parts(place)
    named = bool(steps) if place.scheme == "file" else bool(place.netloc)
    if place.scheme not in SCHEMES or not named or (place.scheme == "file" and place.netloc):
        raise InvalidDocument(f"{_shown(place)}: names no folder, such as s3://bucket/results; right are {SCHEMES}")
    user, at, _ = place.netloc.rpartition("@")
    if place.fragment or "%" in place.path or ".." in steps or (at and (":" in user or "abfs" not in place.scheme)):
        raise InvalidDocument(f"{_shown(place)}: a plain folder without credentials is wanted")
    if place.query and not parse_qsl(place.query):
        raise InvalidDocument(f"{_shown(place)}: behind the question mark stands no option=value")
    return place


def _parts(place: SplitResult) -> Sequence[str]:
    """Two slashes are not one to an object store."""
    path = place.path.removeprefix("/").rstrip("/")
    return path.split("/") if path else []


def _shown(place: SplitResult) -> str:
    """Without what may be a secret."""
    return f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path}"
