"""The journal in files: one directory a plan, one small file a fact, on whatever disk lies below.

Files are written whole, synced, then renamed into place, and their directory is synced: after a crash each is there
with all its content or not at all. Nothing is ever rewritten.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument, as_data, canonical, digest_of_canonical, read
from kafka_recovery.recovery.ports import DamagedRun, JournalLocked, JournalUnwritable, PlanFinished, Run

T = TypeVar("T")

DEADLINE = timedelta(seconds=30)
"""Orders stand altered while a disk is waited for; one that syncs for longer hangs."""

_DIRECTORY_NAME_LENGTH = 16
_DOUBT = re.compile(r"wave-[0-9]{4,}-doubt-[0-9]+\.json")
_NAMED = 3
"""Partitions that a message names."""
_UNBEGUN = frozenset({"plan.json", ".plan.json.partial"})
_FACT = re.compile(r"[a-z0-9-]+\.json")
_KNOWN = re.compile(
    r"(plan|approval|begun|finished|wave-[0-9]{4,}-(started|ended|doubt-[0-9]+)|stage-[a-z]+-(entered|left))\.json"
)


class Storage(Protocol):
    """One cluster's place on a disk: directories of files, and a lock. Raises OSError where the disk refuses."""

    @property
    def root(self) -> Path:
        """What messages call the place."""
        ...

    def lock(self) -> str | None:
        """Make the place if there is none, and lock it; if another process holds the lock: how that is called."""
        ...

    def unlock(self) -> None:
        """Let go of the lock, if it is held."""
        ...

    def directories(self) -> Sequence[str]:
        """Names of all directories, in no order."""
        ...

    def names(self, directory: str) -> Set[str]:
        """Names of its files; none if there is no such directory."""
        ...

    def read(self, directory: str, name: str) -> bytes:
        """All that is in a file."""
        ...

    def changed(self, directory: str, name: str) -> datetime:
        """When a file was written."""
        ...

    def make(self, directory: str) -> None:
        """Returns when the directory would survive a crash."""
        ...

    def write(self, directory: str, name: str, raw: bytes) -> None:
        """Returns when the content would survive a crash; whoever dies before leaves a part of it."""
        ...

    def rename(self, directory: str, name: str, to: str) -> None:
        """Give a file its other name: whoever looks sees the one or the other."""
        ...

    def sync(self, directory: str) -> None:
        """Returns when the names of its files would survive a crash."""
        ...

    def remove(self, directory: str, names: Sequence[str]) -> None:
        """Remove these files, one after the other, and then the directory."""
        ...

    async def apart(self, what: str, work: Callable[[], T]) -> T:
        """Do some work on this disk while others go on."""
        ...


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
class _Doubt:
    wave: int
    broker: BrokerId
    at: datetime


@dataclass(frozen=True, slots=True)
class _WaveEnd:
    wave: int
    outcomes: tuple[PartitionOutcome, ...]
    at: datetime


class FileJournal:
    """Port `Journal` on a storage. Use as a context manager: it holds the lock. `now`: the time of day, for records.

    A disk that does not answer within `deadline` keeps nothing more: what it may still write later is true, but a
    second try beside the first could tear it.
    """

    def __init__(self, storage: Storage, now: Callable[[], datetime], deadline: timedelta = DEADLINE) -> None:
        self._storage = storage
        self._now = now
        self._deadline = deadline
        self._hung: JournalUnwritable | None = None

    def __enter__(self) -> Self:
        try:
            holder = self._storage.lock()
        except OSError as error:
            raise _unwritable(self._storage.root, error) from error
        if holder is not None:
            raise JournalLocked(
                f"another run (process {holder}) is recovering this cluster with the journal {self._storage.root}; "
                "wait for it to end, or stop it: it can be resumed"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._storage.unlock()

    async def record(self, plan: Plan) -> str:
        """Keep the plan; returns its digest. Raises PlanFinished for one that has ended.

        Raises JournalUnwritable, as every method that keeps something.
        """
        return await self._apart("write plan.json", lambda: self._record(plan))

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

    async def in_doubt(self, digest: str, wave: int, relay: BrokerId) -> None:
        """Keep through which broker a request went that was not answered."""
        await self._keep(digest, f"wave-{wave:04}-doubt-{relay}.json", {"wave": wave, "broker": relay})

    async def wave_ended(self, digest: str, wave: int, outcomes: Sequence[PartitionOutcome]) -> None:
        """Keep what became of the wave."""
        await self._keep(digest, f"wave-{wave:04}-ended.json", as_data(_WaveEnd(wave, tuple(outcomes), self._now())))

    async def stage_entered(self, digest: str, stage: str) -> None:
        """Keep that a stage may have begun."""
        await self._keep(digest, f"stage-{stage}-entered.json", {})

    async def stage_left(self, digest: str, stage: str) -> None:
        """Keep that all of a stage is done."""
        await self._keep(digest, f"stage-{stage}-left.json", {})

    async def finished(self, digest: str) -> None:
        """Keep that nothing is left to do or undo."""
        await self._keep(digest, "finished.json", {})

    async def unfinished(self) -> Sequence[Run | DamagedRun]:
        """Begun runs without an end, oldest first."""
        return await self._apart("read the journal", self._unfinished)

    async def approver(self, digest: str) -> str | None:
        """Who approved a plan, as the person who kept this journal wrote it down; None: nobody. Raises InvalidDocument.

        It stands for a consent only to that person, who runs the command and whose file it is.
        """
        return await self._apart("read approval.json", lambda: self._approver(digest))

    def plan(self, digest_prefix: str) -> Plan:
        """The recorded plan whose digest begins so; raises InvalidDocument if none or several do."""
        if not re.fullmatch(r"[0-9a-f]{4,64}", digest_prefix):
            raise InvalidDocument(f"{digest_prefix!r} is not a plan digest (4 to 64 hexadecimal digits)")
        found = [run for run in self._runs() if digest_prefix.startswith(run) or run.startswith(digest_prefix)]
        plans = [plan for name, plan in map(self._read_plan, found) if name.startswith(digest_prefix)]
        if len(plans) != 1:
            raise InvalidDocument(
                f"the journal {self._storage.root} has {len(plans)} plans whose digest begins {digest_prefix}"
            )
        return plans[0]

    def kept(self) -> Mapping[str, Set[str]]:
        """The beginnings of all recorded plans' digests, the newest plan first, and the facts kept of each."""
        return {run: self._storage.names(run) for run in reversed(self._runs())}

    def plan_file(self, digest: str) -> Path | None:
        """Where the plan lies, if it was recorded."""
        run = _directory(digest)
        return self._path(run, "plan.json") if "plan.json" in self._storage.names(run) else None

    def remove_unbegun(self, before: datetime) -> int:
        """Remove plans recorded before then whose run never began; returns how many.

        A plan of which anything else is known stays. What can't be removed today hurts nobody.
        """
        removed = 0
        for run in self._runs():
            with suppress(OSError):
                kept = self._storage.names(run)
                if kept <= _UNBEGUN and self._storage.changed(run, "plan.json") < before:
                    self._storage.remove(run, sorted(kept, reverse=True))  # the plan first: the rest is no run
                    removed += 1
        return removed

    async def _apart(self, what: str, work: Callable[[], T]) -> T:
        """Do some work beside others. Raises JournalUnwritable if the disk does not answer, or did not before."""
        if self._hung:
            raise JournalUnwritable(str(self._hung))
        working = asyncio.ensure_future(self._storage.apart(what, work))
        try:
            for _ in range(2):  # a process that itself stood still leaves the disk the other half
                await asyncio.wait({working}, timeout=self._deadline.total_seconds() / 2)
            if working.done():
                return working.result()
        finally:
            working.cancel()
        self._hung = JournalUnwritable(
            f"the journal's disk at {self._storage.root} gave no answer within {self._deadline.total_seconds():g} "
            f"s ({what}): see to it, then resume"
        )
        raise self._hung

    def _record(self, plan: Plan) -> str:
        raw = canonical(plan)
        name = digest_of_canonical(raw)
        run = _directory(name)
        if "finished.json" in self._storage.names(run):
            raise PlanFinished(f"plan {name[:12]} has been executed to its end; make a new plan for what is left")
        try:
            self._storage.make(run)
            self._write_once(run, "plan.json", raw)
        except OSError as error:
            raise _unwritable(self._path(run), error) from error
        if self._storage.read(run, "plan.json") != raw:
            self._read_plan(run)  # says how it is not what was recorded
            raise InvalidDocument(f"{self._path(run, 'plan.json')}: holds another plan whose digest begins alike")
        return name

    async def _keep(self, digest: str, name: str, fact: dict[str, Any]) -> None:
        run = _directory(digest)
        raw = json.dumps({"at": self._now().isoformat()} | fact, indent=1).encode()
        try:
            await self._apart(f"write {name}", lambda: self._write_once(run, name, raw))
        except OSError as error:
            raise _unwritable(self._path(run, name), error) from error

    def _write_once(self, run: str, name: str, raw: bytes) -> None:
        """Returns when the file would survive a crash; one that is there already is left as it is."""
        if name not in self._storage.names(run):
            partial = f".{name}.partial"
            self._storage.write(run, partial, raw)
            self._storage.rename(run, partial, name)
        self._storage.sync(run)  # of one that is there too: whoever renamed it may have died before this

    def _unfinished(self) -> list[Run | DamagedRun]:
        kept = {run: self._storage.names(run) for run in self._storage.directories()}
        begun = {run: names for run, names in kept.items() if is_begun(names) and "finished.json" not in names}
        return [self._entry(run, begun[run]) for run in sorted(begun, key=lambda run: self._age(run, begun[run]))]

    def _entry(self, run: str, names: Set[str]) -> Run | DamagedRun:
        try:
            return self._read_run(run, names)
        except (ValueError, OSError) as damage:
            partitions = self._may_have_begun(run, names)
            return DamagedRun(run, _damaged(self._path(run), damage, partitions), partitions)

    def _may_have_begun(self, run: str, names: Set[str]) -> frozenset[TopicPartition] | None:
        """Of a damaged run: what its waves began, if all of them can be read; else all that its plan elects."""
        starts = sorted(name for name in names if name.endswith("-started.json"))
        waves = {int(name.split("-")[1]) for name in names if name.startswith("wave-") and _KNOWN.fullmatch(name)}
        with suppress(ValueError, OSError):
            read_ = [self._read(_WaveStart, run, name) for name in starts]
            if read_ and {start.wave for start in read_} == waves == set(range(1, max(waves) + 1)):
                return frozenset(TopicPartition.parse(text) for start in read_ for text in start.partitions)
        with suppress(ValueError, OSError):
            return frozenset(self._read_plan(run)[1].elections)
        return None

    def _runs(self) -> list[str]:
        """Directories of recorded plans, oldest first."""
        found = [run for run in self._storage.directories() if "plan.json" in self._storage.names(run)]
        return sorted(found, key=lambda run: self._age(run, {"plan.json"}))

    def _age(self, run: str, names: Set[str]) -> tuple[datetime, str]:
        return self._storage.changed(run, "plan.json" if "plan.json" in names else min(names)), run

    def _read_plan(self, run: str) -> tuple[str, Plan]:
        # Of the bytes that were kept: this release may know fields that the one before did not.
        raw = self._storage.read(run, "plan.json")
        found = digest_of_canonical(raw)
        if not found.startswith(run):
            raise InvalidDocument(
                f"{self._path(run, 'plan.json')}: its digest is {found}, but it was recorded as {run}…: it was changed"
            )
        return found, read(Plan, raw, str(self._path(run, "plan.json")))

    def _read_run(self, run: str, names: Set[str]) -> Run:
        for name in sorted(names):
            if _FACT.fullmatch(name) and not _KNOWN.fullmatch(name):
                raise InvalidDocument(f"{self._path(run, name)}: this release knows no such fact; a newer one may")
        for name in ("plan.json", "begun.json"):
            if name not in names:
                raise InvalidDocument(f"{self._path(run, name)}: is missing, though the run began")
        digest, plan = self._read_plan(run)
        waves = sorted(name for name in names if name.startswith("wave-"))
        starts = [self._read(_WaveStart, run, name) for name in waves if name.endswith("-started.json")]
        ends = [self._read(_WaveEnd, run, name) for name in waves if name.endswith("-ended.json")]
        doubts = [self._read(_Doubt, run, name) for name in waves if _DOUBT.fullmatch(name)]
        started = {start.wave: [TopicPartition.parse(text) for text in start.partitions] for start in starts}
        ended = {end.wave: end.outcomes for end in ends}
        for wave in sorted(ended.keys() - started.keys()):
            raise InvalidDocument(f"{self._path(run, f'wave-{wave:04}-started.json')}: is missing, though it ended")
        facts = (name.removesuffix(".json") for name in names)
        return Run.of_waves(digest, plan, started, ended, [(d.wave, d.broker) for d in doubts], facts)

    def _approver(self, digest: str) -> str | None:
        run = _directory(digest)
        return self._read(_Approval, run, "approval.json").by if "approval.json" in self._storage.names(run) else None

    def _read(self, kind: type[T], run: str, name: str) -> T:
        return read(kind, self._storage.read(run, name), str(self._path(run, name)))

    def _path(self, *parts: str) -> Path:
        return self._storage.root.joinpath(*parts)


def is_begun(names: Set[str]) -> bool:
    """Whether the files of a run tell that it was begun."""
    return any(name == "begun.json" or (name.startswith("wave-") and _KNOWN.fullmatch(name)) for name in names)


def _damaged(run: Path, damage: Exception, partitions: Set[TopicPartition] | None) -> Reason:
    if partitions is None:
        begun = "what is left does not tell which partitions it began, so no partition is recovered"
    else:
        some = ", ".join(map(str, sorted(partitions)[:_NAMED])) or "none"
        more = f" and {len(partitions) - _NAMED} more" if len(partitions) > _NAMED else ""
        begun = f"it may have altered the assignment orders of {some}{more}: they are left as they are"
    return Reason(
        "JournalDamaged",
        f"{damage}; {begun}. Restore the file, or run the newer release that wrote it; else compare those orders in "
        f"Kafka with the ones that you want, reassign what differs, and then move {run} away",
    )


def _directory(digest: str) -> str:
    return digest[:_DIRECTORY_NAME_LENGTH]


def _unwritable(path: Path, error: OSError) -> JournalUnwritable:
    hints = {
        errno.ENOSPC: "free some space",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "no permission",
    }
    hint = hints.get(error.errno or 0, "see to the directory that --journal names")
    return JournalUnwritable(f"the journal can't be written at {path}: {os.strerror(error.errno or 0)} ({hint})")
