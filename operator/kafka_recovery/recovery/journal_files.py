"""The journal on a local disk: one directory a cluster, one directory a plan, one small file a fact.

Files are written whole, synced, then renamed into place, and their directory is synced: after a crash each is there
with all its content or not at all. Nothing is ever rewritten.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, as_data, canonical, digest, digest_of_canonical, read
from kafka_recovery.recovery.ports import JournalLocked, JournalUnwritable, PlanFinished, Run

_DIRECTORY_NAME_LENGTH = 16
_UNBEGUN = frozenset({"plan.json", ".plan.json.partial"})


@dataclass(frozen=True, slots=True)
class _Approval:
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class _WaveStart:
    wave: int
    partitions: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class _WaveEnd:
    wave: int
    outcomes: tuple[PartitionOutcome, ...]
    at: datetime


class FileJournal:
    """Port `Journal` under `<directory>/<cluster id>/`. Use as a context manager: it holds the cluster's lock."""

    def __init__(self, directory: Path, cluster_id: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", cluster_id):
            raise InvalidDocument(f"cluster id {cluster_id!r} can't name a journal; Kafka's ids are base64 letters")
        self._root = directory / cluster_id
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            _make_durable_directory(self._root)
            self._lock = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._lock, 0)
            os.write(self._lock, f"{os.getpid()}\n".encode())
            os.fsync(self._lock)
        except BlockingIOError:
            holder = (self._root / "lock").read_text().strip() or "unknown"
            self._unlock()
            raise JournalLocked(
                f"another run (process {holder}) is recovering this cluster with the journal {self._root}; "
                "wait for it to end, or stop it: it can be resumed"
            ) from None
        except OSError as error:
            self._unlock()
            raise _unwritable(self._root, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unlock()

    async def record(self, plan: Plan) -> str:
        """Keep the plan; returns its digest. Raises PlanFinished for one that has ended.

        Raises JournalUnwritable, as every method that keeps something.
        """
        return await asyncio.to_thread(self._record, plan)

    async def approved(self, digest: str, by: str | None) -> None:
        """Keep that the run begins, and who approved it; the first approval stands."""
        if by is not None:
            await self._keep(digest, "approval.json", {"by": by})
        await self._keep(digest, "begun.json", {})

    async def wave_started(self, digest: str, wave: int, partitions: Sequence[TopicPartition]) -> None:
        """Keep that the wave's requests may be sent from now on."""
        await self._keep(
            digest, f"wave-{wave:04}-started.json", {"wave": wave, "partitions": [str(p) for p in partitions]}
        )

    async def wave_ended(self, digest: str, wave: int, outcomes: Sequence[PartitionOutcome]) -> None:
        """Keep what became of the wave."""
        await self._keep(
            digest, f"wave-{wave:04}-ended.json", as_data(_WaveEnd(wave, tuple(outcomes), datetime.now(UTC)))
        )

    async def finished(self, digest: str) -> None:
        """Keep that nothing is left to do or undo."""
        await self._keep(digest, "finished.json", {})

    async def unfinished(self) -> Sequence[Run]:
        """Begun runs without an end, oldest first. Raises InvalidDocument for a plan that was tampered with."""
        return await asyncio.to_thread(self._unfinished)

    async def approver(self, digest: str) -> str | None:
        """Who approved a plan, as the person who kept this journal wrote it down; None: nobody. Raises InvalidDocument.

        It stands for a consent only to that person, who runs the command and whose file it is.
        """
        return await asyncio.to_thread(self._approver, digest)

    def plan(self, digest_prefix: str) -> Plan:
        """The recorded plan whose digest begins so; raises InvalidDocument if none or several do."""
        if not re.fullmatch(r"[0-9a-f]{4,64}", digest_prefix):
            raise InvalidDocument(f"{digest_prefix!r} is not a plan digest (4 to 64 hexadecimal digits)")
        found = [
            run for run in self._runs() if digest_prefix.startswith(run.name) or run.name.startswith(digest_prefix)
        ]
        plans = [plan for name, plan in map(self._read_plan, found) if name.startswith(digest_prefix)]
        if len(plans) != 1:
            raise InvalidDocument(
                f"the journal {self._root} has {len(plans)} plans whose digest begins {digest_prefix}"
            )
        return plans[0]

    def plan_file(self, digest: str) -> Path | None:
        """Where the plan lies, if it was recorded."""
        path = self._run(digest) / "plan.json"
        return path if path.is_file() else None

    def remove_unbegun(self, before: datetime) -> int:
        """Remove plans recorded before then whose run never began; returns how many.

        A plan of which anything else is known stays. What can't be removed today hurts nobody.
        """
        removed = 0
        for run in self._runs():
            with suppress(OSError):
                kept = {path.name for path in run.iterdir()}
                if kept <= _UNBEGUN and (run / "plan.json").stat().st_mtime < before.timestamp():
                    for name in sorted(kept, reverse=True):  # the plan first: without it the rest is no run
                        (run / name).unlink()
                    run.rmdir()
                    removed += 1
        return removed

    def _record(self, plan: Plan) -> str:
        raw = canonical(plan)
        name = digest_of_canonical(raw)
        run = self._run(name)
        if (run / "finished.json").exists():
            raise PlanFinished(f"plan {name[:12]} has been executed to its end; make a new plan for what is left")
        try:
            _make_durable_directory(run)
            _write_once(run / "plan.json", raw)
        except OSError as error:
            raise _unwritable(run, error) from error
        if (run / "plan.json").read_bytes() != raw:
            self._read_plan(run)  # one that was there already must still be this plan: says how it is not
        return name

    async def _keep(self, digest: str, name: str, fact: dict[str, Any]) -> None:
        path = self._run(digest) / name
        raw = json.dumps({"at": datetime.now(UTC).isoformat()} | fact, indent=1).encode()
        try:
            await asyncio.to_thread(_write_once, path, raw)
        except OSError as error:
            raise _unwritable(path, error) from error

    def _unfinished(self) -> list[Run]:
        begun = (run for run in self._runs() if (run / "begun.json").exists())
        return [self._read_run(run) for run in begun if not (run / "finished.json").exists()]

    def _runs(self) -> list[Path]:
        """Directories of recorded plans, oldest first."""
        plans = [path for path in self._root.glob("*/plan.json") if path.is_file()]
        return [path.parent for path in sorted(plans, key=lambda path: (path.stat().st_mtime_ns, path))]

    def _read_plan(self, run: Path) -> tuple[str, Plan]:
        path = run / "plan.json"
        plan = read(Plan, path.read_bytes(), str(path))
        found = digest(plan)
        if not found.startswith(run.name):
            raise InvalidDocument(
                f"{path}: its digest is {found}, but it was recorded as {run.name}…: it was changed. Restore the file, "
                f"or look at the partitions' assignment orders yourself and then move {run} away"
            )
        return found, plan

    def _read_run(self, run: Path) -> Run:
        name, plan = self._read_plan(run)
        starts = [read(_WaveStart, path.read_bytes(), str(path)) for path in sorted(run.glob("wave-*-started.json"))]
        ends = [read(_WaveEnd, path.read_bytes(), str(path)) for path in sorted(run.glob("wave-*-ended.json"))]
        started = {start.wave: [TopicPartition.parse(text) for text in start.partitions] for start in starts}
        return Run.of_waves(name, plan, started, {end.wave: end.outcomes for end in ends})

    def _approver(self, digest: str) -> str | None:
        approval = self._run(digest) / "approval.json"
        return read(_Approval, approval.read_bytes(), str(approval)).by if approval.exists() else None

    def _run(self, digest: str) -> Path:
        return self._root / digest[:_DIRECTORY_NAME_LENGTH]

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _write_once(path: Path, raw: bytes) -> None:
    """Returns when the file would survive a crash; one that is there already is left as it is."""
    if not path.exists():
        partial = path.with_name(f".{path.name}.partial")
        with partial.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    _sync_directory(path.parent)  # of one that is there too: whoever renamed it may have died before this


def _make_durable_directory(path: Path) -> None:
    """Make the directory and its parents so that they survive a crash as well."""
    new = [part for part in (path, *path.parents) if not part.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for part in new:
        _sync_directory(part.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> JournalUnwritable:
    hints = {
        errno.ENOSPC: "free some space",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "no permission",
    }
    hint = hints.get(error.errno or 0, "see to the directory that --journal names")
    return JournalUnwritable(f"the journal can't be written at {path}: {os.strerror(error.errno or 0)} ({hint})")
