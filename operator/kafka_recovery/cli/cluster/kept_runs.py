"""The runs that the journal on this machine keeps: how far each came, and what goes on with it or undoes it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict
from rich.console import Group, RenderableType

from kafka_recovery.cli.cluster.journal_place import require_journal
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.inputs import journal_directory
from kafka_recovery.cli.terminal.reasons import what_to_do
from kafka_recovery.cli.terminal.render import Output, lines, table, write_result
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import CAMEL_CASE, InvalidDocument, as_data
from kafka_recovery.recovery.journal_files import FileJournal, is_begun
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.recovery.ports import DamagedRun, Run


class State(StrEnum):
    """How far a run came, by the journal."""

    FINISHED = "Finished"
    """Nothing of it is left to do or to undo, whoever was elected."""
    UNFINISHED = "Unfinished"
    """It was interrupted, or is under way; by what was kept no assignment order is altered."""
    ORDERS_ALTERED = "OrdersAltered"
    """The same, and assignment orders are the election's, or may be."""
    DAMAGED = "Damaged"
    """Its files can't be read as they were written: it is neither gone on with nor undone."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """`begun`: partitions of its waves; None: that is not told.

    `plan` None: it can't be read, and `why` says what is wrong, else that is empty.
    """

    cluster: str
    run: str
    state: State
    begun: int | None
    plan: Plan | None
    why: str = ""

    @property
    def is_open(self) -> bool:
        """Whether resume goes on with it, and undo restores its orders."""
        return self.state in (State.UNFINISHED, State.ORDERS_ALTERED)

    @property
    def made_at(self) -> str | None:
        """When its plan was made; None: its plan can't be read."""
        return f"{self.plan.evidence.cluster.observed_at:%Y-%m-%dT%H:%M:%SZ}" if self.plan else None


async def runs(given: Path | None, output: Output) -> ExitCode:
    """List them, cluster by cluster, the newest first."""
    directory = journal_directory(given)
    require_journal(directory)
    found: list[KeptRun] = []
    for place in sorted(each for each in directory.iterdir() if each.is_dir()):
        found += await _of_cluster(local_journal(directory, place.name), place.name)
    commands = {each.cluster: _commands(each, given) for each in reversed(found) if each.is_open}
    document = as_data(ToldRuns(tuple(_told_run(each, commands.get(each.cluster)) for each in found)))
    following = "\n".join(f"To go on: {go_on}\nTo restore orders only: {undo}" for go_on, undo in commands.values())
    write_result(output, document, _listed(found), following)
    return ExitCode.DONE


async def _of_cluster(journal: FileJournal, cluster: str) -> list[KeptRun]:
    """A run whose plan is gone is none of those that are kept, and stands last."""
    unfinished = {_name(each): each for each in await journal.unfinished()}
    begun = [run for run, names in journal.kept().items() if is_begun(names)]
    both = dict.fromkeys((*begun, *unfinished))
    return [_kept(journal, cluster, run, unfinished.get(run)) for run in both]


def _name(entry: Run | DamagedRun) -> str:
    return entry.name if isinstance(entry, DamagedRun) else entry.digest[:16]


def _kept(journal: FileJournal, cluster: str, run: str, entry: Run | DamagedRun | None) -> KeptRun:
    if isinstance(entry, DamagedRun):
        begun = None if entry.partitions is None else len(entry.partitions)
        return KeptRun(cluster, run, State.DAMAGED, begun, None, str(entry.why))
    if isinstance(entry, Run):
        orders = [d for id, d in entry.plan.elections.items() if id in entry.begun and d.order != d.assignment]
        altered = orders and (entry.in_flight or any(not done.order_restored for done in entry.outcomes))
        state = State.ORDERS_ALTERED if altered else State.UNFINISHED
        return KeptRun(cluster, run, state, len(entry.begun), entry.plan)
    try:
        return KeptRun(cluster, run, State.FINISHED, None, journal.plan(run))
    except (InvalidDocument, OSError) as damage:  # it has ended: nothing is left to be done with it
        return KeptRun(cluster, run, State.FINISHED, None, None, str(damage))


def _commands(run: KeptRun, journal: Path | None) -> tuple[str, str]:
    """What goes on with all open runs of its cluster, and what restores their orders only."""
    kept = f" --journal {shlex.quote(str(journal))}" if journal else ""
    cluster = run.plan.evidence.cluster if run.plan else None
    heard = [each for each in cluster.brokers if each.reachable and each.host] if cluster else []
    reached = ",".join(f"{each.host}:{each.port}" for each in heard[:3]) or "HOST:PORT"
    where = f"--bootstrap-server {shlex.quote(reached)} --expect-cluster-id {shlex.quote(run.cluster)}{kept}"
    return f"kafka-recovery resume {where}", f"kafka-recovery undo {where}"


@dataclass(frozen=True, slots=True)
class ToldRun:
    """A run that began. `begun`: partitions of its waves. `why`: what is wrong with what was kept of it.

    `resume`, `undo`: the command that goes on with it, and the one that restores its assignment orders only.
    """

    __pydantic_config__: ClassVar[ConfigDict] = CAMEL_CASE

    cluster: str
    run: str
    state: State
    made_at: str | None
    elections: int | None
    begun: int | None
    why: str | None
    resume: str | None
    undo: str | None


@dataclass(frozen=True, slots=True)
class ToldRuns:
    """The runs of a journal, cluster by cluster, the newest first."""

    runs: tuple[ToldRun, ...]


def _told_run(run: KeptRun, commands: tuple[str, str] | None) -> ToldRun:
    go_on, undo = commands if commands and run.is_open else (None, None)
    elections = len(run.plan.elections) if run.plan else None
    return ToldRun(
        run.cluster, run.run, run.state, run.made_at, elections, run.begun, run.why or None, resume=go_on, undo=undo
    )


def _listed(found: Sequence[KeptRun]) -> RenderableType:
    if not found:
        return lines("The journal holds no run that began; `kafka-recovery plans` lists what was only planned.")
    headings = ("Run", "State", "Planned at", "Elections", "Begun", "Cluster")
    return Group(table(*headings, rows=map(_row, found)), lines(*_told(found)))


def _row(run: KeptRun) -> tuple[object, ...]:
    elections = len(run.plan.elections) if run.plan else None
    begun = "-" if run.state is State.FINISHED else run.begun
    return run.run, run.state, run.made_at, elections, begun, run.cluster


def _told(found: Sequence[KeptRun]) -> Iterator[str]:
    wrong = [each for each in found if each.why]
    if wrong:
        yield ""
    yield from (f"{each.run}: {each.why}" for each in wrong)
    yield from what_to_do(("JournalDamaged", each.why) for each in wrong if each.state is State.DAMAGED)
