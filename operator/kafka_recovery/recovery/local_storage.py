"""The journal's files on this machine's disk, for other processes and for the time after a crash."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
from collections.abc import Callable, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.own_threads import OwnThreads

T = TypeVar("T")


def local_journal(directory: Path, cluster_id: str) -> FileJournal:
    """A cluster's journal below a directory of this machine. Raises InvalidDocument for an id that is no name."""
    return FileJournal(LocalStorage(directory, cluster_id), SystemClock().now)


class LocalStorage:
    """Port `Storage` in `<directory>/<cluster id>/`. The lock is the kernel's, and ends with the process."""

    def __init__(self, directory: Path, cluster_id: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", cluster_id):
            raise InvalidDocument(f"cluster id {cluster_id!r} can't name a journal; Kafka's ids are base64 letters")
        self.root = directory / cluster_id
        self._lock: int | None = None

    def lock(self) -> str | None:
        """Make the place if there is none, and lock it; the id of the process that holds the lock, if another does."""
        try:
            _make_durable(self.root)
            self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._lock, 0)
            os.write(self._lock, f"{os.getpid()}\n".encode())
            os.fsync(self._lock)
        except BlockingIOError:
            self.unlock()
            return (self.root / "lock").read_text().strip() or "unknown"
        except OSError:
            self.unlock()
            raise
        return None

    def unlock(self) -> None:
        """Let go of the lock, if it is held."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def directories(self) -> Sequence[str]:
        """Names of the directories that this user may read; there is none where nothing was ever made."""
        if not self.root.is_dir():
            return ()
        return [path.name for path in self.root.iterdir() if path.is_dir() and os.access(path, os.R_OK | os.X_OK)]

    def names(self, directory: str) -> Set[str]:
        """Names of its files; none if there is no such directory."""
        try:
            return {path.name for path in (self.root / directory).iterdir()}
        except FileNotFoundError:
            return set()

    def read(self, directory: str, name: str) -> bytes:
        """All that is in a file."""
        return (self.root / directory / name).read_bytes()

    def changed(self, directory: str, name: str) -> datetime:
        """When a file was written."""
        return datetime.fromtimestamp((self.root / directory / name).stat().st_mtime, UTC)

    def make(self, directory: str) -> None:
        """Returns when the directory would survive a crash."""
        _make_durable(self.root / directory)

    def write(self, directory: str, name: str, raw: bytes) -> None:
        """Returns when the content would survive a crash."""
        with (self.root / directory / name).open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, directory: str, name: str, to: str) -> None:
        """Give a file its other name."""
        (self.root / directory / name).replace(self.root / directory / to)

    def sync(self, directory: str) -> None:
        """Returns when the names of its files would survive a crash."""
        _sync(self.root / directory)

    def remove(self, directory: str, names: Sequence[str]) -> None:
        """Remove these files, one after the other, and then the directory."""
        for name in names:
            (self.root / directory / name).unlink()
        (self.root / directory).rmdir()

    async def apart(self, what: str, work: Callable[[], T]) -> T:
        """Do some work in a thread of its own, for which nobody waits when the process ends: a disk may hang."""
        return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


_THREADS = OwnThreads("journal")


def _make_durable(path: Path) -> None:
    """Make the directory and its parents so that they survive a crash as well."""
    new = [part for part in (path, *path.parents) if not part.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for part in new:
        _sync(part.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
