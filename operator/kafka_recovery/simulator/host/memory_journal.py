"""The journal on a disk that only exists in the model: what was written survives the engine that wrote it.

It keeps to the rules of `recovery/journal_files`: one directory a plan, one small file a fact, whole or not at all,
never rewritten, and one lock for all of a disk. Plans and outcomes lie there as bytes, so a run that is taken over has
been through writing and reading as on a real disk.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import as_data, canonical, digest_of_canonical, read
from kafka_recovery.recovery.ports import JournalLocked, JournalUnwritable, PlanFinished, Run
from kafka_recovery.simulator.host.mortality import Process

SYNC = 0.004
"""Seconds until a written file is durable."""


@dataclass(slots=True)
class Disk:
    """One machine's journal: files by plan digest and name, oldest first. It outlives engines.

    `full`: nothing more can be written. `holder`: the process whose lock it is. `listeners` hear of every file that has
    become durable.
    """

    name: str
    runs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    full: bool = False
    holder: Process | None = None
    listeners: list[Callable[[Disk, str, str], object]] = field(default_factory=list)

    def write(self, digest: str, name: str, raw: bytes) -> None:
        """Make a file durable; one that is there already is left as it is. Raises JournalUnwritable if it is full."""
        files = self.runs.get(digest, {})
        if name in files:
            return
        if self.full:
            raise JournalUnwritable(f"the journal can't be written at {self.name}/{digest[:16]}/{name}: no space left")
        self.runs.setdefault(digest, files)[name] = raw
        for listener in self.listeners:
            listener(self, digest, name)


class MemoryJournal:
    """Port `Journal` on a simulated disk. Use as a context manager: it holds the disk's lock."""

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk = disk
        self._process = process

    def __enter__(self) -> Self:
        if self._disk.holder is not None and not self._disk.holder.dead:
            raise JournalLocked(f"another run ({self._disk.holder.name}) is recovering with the journal of its machine")
        self._disk.holder = self._process
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._disk.holder is self._process:
            self._disk.holder = None

    async def record(self, plan: Plan) -> str:
        """Keep the plan; returns its digest. Raises PlanFinished for one that has ended."""
        raw = canonical(plan)
        digest = digest_of_canonical(raw)
        if "finished.json" in self._disk.runs.get(digest, {}):
            raise PlanFinished(f"plan {digest[:12]} has been executed to its end; make a new plan for what is left")
        await self._keep(digest, "plan.json", raw)
        return digest

    async def approved(self, digest: str, by: str | None) -> None:
        """Keep that the run begins, and who approved it; the first approval stands."""
        if by is not None:
            await self._keep(digest, "approval.json", json.dumps({"by": by}).encode())
        await self._keep(digest, "begun.json", b"{}")

    async def wave_started(self, digest: str, wave: int, partitions: Sequence[TopicPartition]) -> None:
        """Keep that the wave's requests may be sent from now on."""
        await self._keep(digest, f"wave-{wave:04}-started.json", json.dumps([str(id) for id in partitions]).encode())

    async def wave_ended(self, digest: str, wave: int, outcomes: Sequence[PartitionOutcome]) -> None:
        """Keep what became of the wave."""
        raw = json.dumps(as_data(tuple(outcomes))).encode() if outcomes else b"[]"
        await self._keep(digest, f"wave-{wave:04}-ended.json", raw)

    async def finished(self, digest: str) -> None:
        """Keep that nothing is left to do or undo."""
        await self._keep(digest, "finished.json", b"{}")

    async def unfinished(self) -> Sequence[Run]:
        """Begun runs without an end, oldest first."""
        self._process.step("read the journal")
        return [
            _run(digest, files)
            for digest, files in self._disk.runs.items()
            if "begun.json" in files and "finished.json" not in files
        ]

    def approver(self, digest: str) -> str | None:
        """Who approved a plan, as it was written down here; None: nobody."""
        approval = self._disk.runs.get(digest, {}).get("approval.json")
        by: str | None = json.loads(approval)["by"] if approval else None
        return by

    async def _keep(self, digest: str, name: str, raw: bytes) -> None:
        """Two chances to die: before anything is durable, and when all of it is."""
        self._process.step(f"write {name}")
        await asyncio.sleep(SYNC)
        self._process.step(f"sync {name}")
        self._disk.write(digest, name, raw)
        self._process.step(f"wrote {name}")


def _run(digest: str, files: dict[str, bytes]) -> Run:
    started = {_number(name): raw for name, raw in files.items() if name.endswith("-started.json")}
    ended = {_number(name): raw for name, raw in files.items() if name.endswith("-ended.json")}
    outcomes = [read(tuple[PartitionOutcome, ...], raw, "wave") for _, raw in sorted(ended.items())]
    return Run(
        digest=digest,
        plan=read(Plan, files["plan.json"], "plan.json"),
        waves=max(started, default=0),
        in_flight=tuple(sorted(started.keys() - ended.keys())),
        begun=frozenset(TopicPartition.parse(text) for raw in started.values() for text in json.loads(raw)),
        outcomes=tuple(outcome for wave in outcomes for outcome in wave),
    )


def _number(name: str) -> int:
    """Of a wave, from its file's name."""
    return int(name.split("-")[1])
