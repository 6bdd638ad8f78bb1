"""A disk that only exists in the model: what was written survives the process that wrote it, also half of a file."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from kafka_recovery.simulator.host.mortality import Process

T = TypeVar("T")

LATENCY = 0.004
"""Seconds until the disk gets to a piece of work."""


@dataclass(frozen=True, slots=True)
class File:
    """What a file holds, and when it was written by the machine's clock."""

    raw: bytes
    at: datetime


@dataclass(slots=True)
class Disk:
    """One machine's disk: files by directory and name. It outlives engines.

    `full`: nothing more can be written. `holder`: the process whose lock it is. `listeners` hear of every file that has
    got the name under which others find it.
    """

    name: str
    directories: dict[str, dict[str, File]] = field(default_factory=dict)
    full: bool = False
    holder: Process | None = None
    listeners: list[Callable[[Disk, str, str], object]] = field(default_factory=list)


class SimulatedStorage:
    """Port `Storage` for one process, which may die at each piece of work: before it, within it and after it."""

    def __init__(self, disk: Disk, process: Process, now: Callable[[], datetime]) -> None:
        self.root = Path(disk.name)
        self._disk = disk
        self._process = process
        self._now = now

    def lock(self) -> str | None:
        """Take the lock; the name of the process that holds it, if another does and lives."""
        holder = self._disk.holder
        if holder is not None and not holder.dead:
            return holder.name
        self._disk.holder = self._process
        return None

    def unlock(self) -> None:
        """Let go of the lock, if it is held."""
        if self._disk.holder is self._process:
            self._disk.holder = None

    def directories(self) -> Sequence[str]:
        """Names of all directories."""
        return list(self._disk.directories)

    def names(self, directory: str) -> Set[str]:
        """Names of its files; none if there is no such directory."""
        return set(self._disk.directories.get(directory, ()))

    def read(self, directory: str, name: str) -> bytes:
        """All that is in a file."""
        return self._file(directory, name).raw

    def changed(self, directory: str, name: str) -> datetime:
        """When a file was written."""
        return self._file(directory, name).at

    def make(self, directory: str) -> None:
        """Make a directory, if there is room."""
        if directory not in self._disk.directories:
            self._require_room()
            self._disk.directories[directory] = {}

    def write(self, directory: str, name: str, raw: bytes) -> None:
        """Write a file, if there is room; the process may die when half of it is written."""
        self._require_room()
        files = self._files(directory)
        files[name] = File(raw[: len(raw) // 2], self._now())
        self._process.step(f"sync {name}")
        files[name] = File(raw, self._now())

    def rename(self, directory: str, name: str, to: str) -> None:
        """Give a file its other name."""
        self._files(directory)[to] = self._file(directory, name)
        del self._files(directory)[name]
        for listener in self._disk.listeners:
            listener(self._disk, directory, to)

    def sync(self, directory: str) -> None:
        """The names are safe; the process may die before it hears of it."""
        self._process.step(f"synced {directory}")

    def remove(self, directory: str, names: Sequence[str]) -> None:
        """Remove these files, one after the other, and then the directory."""
        for name in names:
            del self._files(directory)[name]
        del self._disk.directories[directory]

    async def apart(self, what: str, work: Callable[[], T]) -> T:
        """Do some work when the disk gets to it; the process may die before."""
        self._process.step(what)
        await asyncio.sleep(LATENCY)
        return work()

    def _files(self, directory: str) -> dict[str, File]:
        if directory not in self._disk.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        return self._disk.directories[directory]

    def _file(self, directory: str, name: str) -> File:
        if name not in (files := self._files(directory)):
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return files[name]

    def _require_room(self) -> None:
        if self._disk.full:
            raise OSError(errno.ENOSPC, "no space left")
