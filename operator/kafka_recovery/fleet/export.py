"""An archive of evidence: every look at a cluster is a file of its own, by cluster and day, kept for a while.

`ROOT/cluster_id=ID/day=YYYY-MM-DD/INSTANT-DIGEST.parquet`: the first two levels are Hive's way to name partitions, so
that Spark reads only the clusters and days it is asked about. DIGEST is the beginning of the content's SHA-256.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self
from urllib.parse import quote, unquote

from kafka_recovery.domain.evidence import ClusterState, Evidence
from kafka_recovery.fleet.parquet_files import decoded, encoded
from kafka_recovery.fleet.storage import PARTIAL, Found, Storage
from kafka_recovery.formats.documents import InvalidDocument

_CLUSTER = "cluster_id="
_DIGITS = 16
_FILE = re.compile(rf"(?P<at>\d{{8}}T\d{{6}}\.\d{{6}}Z)-(?P<digest>[0-9a-f]{{{_DIGITS}}})\.parquet")
_DAY = re.compile(r"day=\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One file of the archive by what its name says: which cluster, when it was looked at, what it must hold."""

    cluster_id: str
    observed_at: datetime
    digest: str

    @classmethod
    def named(cls, cluster_id: str, file: str) -> Self | None:
        """What a file's name says; None if it is none of ours."""
        found = _FILE.fullmatch(file)
        if found is None:
            return None
        try:
            return cls(cluster_id, datetime.fromisoformat(found["at"]), found["digest"])
        except ValueError:  # digits, but no date
            return None

    @property
    def path(self) -> str:
        """Where it lies below the archive's root."""
        moment = self.observed_at.astimezone(UTC).isoformat(timespec="microseconds")[:26]
        instant = moment.replace("-", "").replace(":", "")
        return f"{_folder(self.cluster_id)}/day={moment[:10]}/{instant}Z-{self.digest}.parquet"


class Archive:
    """Evidence of many clusters in one place. Methods raise StorageUnavailable, and what else they say."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @classmethod
    def at(cls, url: str, *, patient: bool = False) -> Self:
        """The archive at a URL or local path; raises InvalidDocument if that is none. `patient`: see Storage."""
        return cls(Storage.at(url, patient=patient))

    def name(self, snapshot: Snapshot) -> str:
        """The file as messages name it."""
        return self._storage.name(snapshot.path)

    def write(self, evidence: Evidence) -> Snapshot:
        """Keep one look at a whole cluster: who reads it takes partitions that are not in it for absent.

        The file is there whole or not at all; the same evidence is the same file. Raises InvalidDocument for evidence
        that could not be read back.
        """
        cluster = evidence.cluster
        content = encoded(evidence, self._storage.name(_folder(cluster.cluster_id)))
        snapshot = Snapshot(cluster.cluster_id, cluster.observed_at, _digest(content))
        self._storage.write(snapshot.path, content)
        return snapshot

    def snapshots(self, cluster_id: str) -> tuple[Snapshot, ...]:
        """All that is kept of a cluster, oldest first."""
        return tuple(snapshot for day in reversed(self._days(cluster_id)) for snapshot in self._of(cluster_id, day))

    def latest(self, cluster_id: str) -> Snapshot | None:
        """The newest of a cluster, or None. Raises InvalidDocument where two of the same instant differ."""
        for day in self._days(cluster_id):
            found = self._of(cluster_id, day)
            if not found:
                continue
            newest = found[-1]
            twin = next((other for other in found[:-1] if other.observed_at == newest.observed_at), None)
            if twin:
                same = f"is of the same instant as {self.name(twin)} and differs; which one holds can't be known"
                raise InvalidDocument(f"{self.name(newest)}: {same}")
            return newest

    def clusters(self) -> tuple[str, ...]:
        """The ids of all clusters there is a folder of, sorted."""
        names = sorted(_last(entry.path) for entry in self._storage.listed("") if entry.is_folder)
        return tuple(unquote(name.removeprefix(_CLUSTER)) for name in names if name.startswith(_CLUSTER))

    def content(self, snapshot: Snapshot) -> bytes:
        """The file's bytes. Raises InvalidDocument if they are not those that its name says."""
        name = self.name(snapshot)
        content = self._storage.read(snapshot.path)
        if not content:
            raise InvalidDocument(f"{name}: is empty")
        digest = _digest(content)
        if digest != snapshot.digest:
            raise InvalidDocument(f"{name}: is damaged: its SHA-256 begins with {digest}, not as its name says")
        return content

    def check_place(self, snapshot: Snapshot, cluster: ClusterState) -> None:
        """Raises InvalidDocument for evidence of another look than the file's name says: it would pass for that one."""
        inside = cluster.cluster_id, cluster.observed_at
        if inside != (snapshot.cluster_id, snapshot.observed_at):
            was = f"{inside[0]!a} at {inside[1].isoformat()}"
            name = self.name(snapshot)
            raise InvalidDocument(f"{name}: cluster: is evidence of {was}, so it lies in the wrong place")

    def read(self, snapshot: Snapshot) -> Evidence:
        """The evidence as it went in. Raises InvalidDocument for a file that is damaged or not what its name says."""
        evidence = decoded(self.content(snapshot), self.name(snapshot))
        self.check_place(snapshot, evidence.cluster)
        return evidence

    def expire(self, cluster_id: str, before: datetime) -> tuple[Snapshot, ...]:
        """Remove what is older, oldest first, but for the newest: of a cluster that fell silent it is all there is.

        What writers that were killed left half-written goes as well, once it is as old.
        """
        earlier = self.snapshots(cluster_id)[:-1]
        expired = tuple(snapshot for snapshot in earlier if snapshot.observed_at < before)
        leftovers = [entry.path for entry in self._leftovers(cluster_id) if entry.changed and entry.changed < before]
        gone = [*(snapshot.path for snapshot in expired), *leftovers]
        for path in gone:
            self._storage.remove(path)
        for day in sorted({path.rpartition("/")[0] for path in gone}):
            self._storage.remove_if_empty(day)
        return expired

    def _days(self, cluster_id: str) -> list[str]:
        """Folders of days, newest first."""
        entries = self._storage.listed(_folder(cluster_id))
        return sorted((e.path for e in entries if e.is_folder and _DAY.fullmatch(_last(e.path))), reverse=True)

    def _of(self, cluster_id: str, day: str) -> list[Snapshot]:
        """One day's snapshots, oldest first."""
        found = []
        for entry in self._storage.listed(day):
            snapshot = Snapshot.named(cluster_id, _last(entry.path))
            if snapshot and snapshot.path == entry.path and not entry.is_folder:
                found.append(snapshot)
        return sorted(found, key=lambda snapshot: (snapshot.observed_at, snapshot.digest))

    def _leftovers(self, cluster_id: str) -> Iterator[Found]:
        for day in self._days(cluster_id):
            yield from (entry for entry in self._storage.listed(day) if _last(entry.path).endswith(PARTIAL))


def _folder(cluster_id: str) -> str:
    if not cluster_id:
        raise InvalidDocument("evidence of a cluster without an id can't be kept: it could not be told from another's")
    return f"{_CLUSTER}{quote(cluster_id, safe='')}"


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
