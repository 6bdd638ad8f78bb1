"""The plans that the journal on this machine keeps: how far each came, and one by the beginning of its digest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict
from rich.console import Group, RenderableType

from kafka_recovery.cli.cluster import plan_files
from kafka_recovery.cli.cluster.journal_place import require_journal
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.inputs import journal_directory
from kafka_recovery.cli.terminal.render import Output, lines, table, write_result
from kafka_recovery.cli.terminal.tables import plan_table
from kafka_recovery.cli.terminal.text import complain
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import CAMEL_CASE, InvalidDocument, as_data
from kafka_recovery.recovery.journal_files import is_begun
from kafka_recovery.recovery.local_storage import local_journal

_DIGEST = r"[0-9a-f]{6,64}"


class RunState(StrEnum):
    """How far the run of a plan came, by the journal."""

    FINISHED = "Finished"
    """Nothing of it is left to do or to undo, whoever was elected."""
    UNFINISHED = "Unfinished"
    """It was begun: resume goes on with it, undo puts its orders back."""
    NOT_BEGUN = "NotBegun"


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """One of them; `digest` may be its beginning only, until the plan is read."""

    cluster: str
    digest: str
    state: RunState
    directory: Path

    def read(self) -> Plan:
        """Raises InvalidDocument if it is not the plan that was recorded."""
        return local_journal(self.directory, self.cluster).plan(self.digest)


def kept(directory: Path) -> Iterator[KeptPlan]:
    """All plans, cluster by cluster, the newest first."""
    for place in sorted(each for each in directory.iterdir() if each.is_dir()):
        for run, names in local_journal(directory, place.name).kept().items():
            yield KeptPlan(place.name, run, _state(names), directory)


def by_digest(given: Path | None, prefix: str) -> tuple[KeptPlan, Plan]:
    """The plan whose digest begins so. Raises InvalidDocument for none, and for several, naming them."""
    if not re.fullmatch(_DIGEST, prefix):
        raise InvalidDocument(f"{prefix!r} is not the beginning of a plan's digest (6 to 64 hexadecimal digits)")
    directory = journal_directory(given)
    require_journal(directory)
    found = [each for each in kept(directory) if each.digest.startswith(prefix) or prefix.startswith(each.digest)]
    if len(found) > 1:
        named = "".join(f"\n  {each.digest} {each.state} (cluster {each.cluster})" for each in found)
        raise InvalidDocument(f"the digests of {len(found)} plans begin {prefix}:{named}")
    if not found:
        raise InvalidDocument(f"the journal {directory} has no plan whose digest begins {prefix}")
    plan = found[0].read()
    if not str(plan_files.plan_document(plan)["digest"]).startswith(prefix):
        raise InvalidDocument(f"the journal {directory} has no plan whose digest begins {prefix}")
    return found[0], plan


def is_digest(given: Path) -> bool:
    """Whether what stands where a file could be means a plan of the journal."""
    return re.fullmatch(_DIGEST, str(given)) is not None and not given.exists()


async def plans(given: Path | None, prefix: str | None, output: Output) -> ExitCode:
    """List the plans of the journal, or show one of them."""
    if prefix is not None:
        found, plan = by_digest(given, prefix)
        heading = lines(f"From the journal of cluster {found.cluster}: {found.state}.", "")
        shown = Group(heading, plan_table(plan, over=found.state is RunState.FINISHED))
        write_result(output, plan_files.plan_document(plan) | {"state": str(found.state)}, shown)
        return ExitCode.DONE
    directory = journal_directory(given)
    require_journal(directory)
    told = ToldPlans(tuple(_told(list(kept(directory)))))
    write_result(output, as_data(told), _listed(told.plans))
    return ExitCode.DONE


@dataclass(frozen=True, slots=True)
class ToldPlan:
    """A plan by its digest (`plan`). `made_at`, `elections` None: it can't be read."""

    __pydantic_config__: ClassVar[ConfigDict] = CAMEL_CASE

    cluster: str
    plan: str
    state: RunState
    made_at: str | None = None
    elections: int | None = None


@dataclass(frozen=True, slots=True)
class ToldPlans:
    """The plans of a journal, cluster by cluster, the newest first."""

    plans: tuple[ToldPlan, ...]


def _told(found: Sequence[KeptPlan]) -> Iterator[ToldPlan]:
    """One that can't be read is told of, and hides no other."""
    for each in found:
        told = ToldPlan(each.cluster, each.digest, each.state)
        try:
            plan = each.read()
        except (InvalidDocument, OSError) as damaged:
            complain(str(damaged))
            yield told
            continue
        made_at = f"{plan.evidence.cluster.observed_at:%Y-%m-%dT%H:%M:%SZ}"
        yield replace(told, made_at=made_at, elections=len(plan.elections))


def _listed(told: Sequence[ToldPlan]) -> RenderableType:
    if not told:
        return lines("The journal holds no plan.")
    rows = [(each.plan, each.state, each.made_at, each.elections, each.cluster) for each in told]
    return table("Plan", "State", "Made at", "Elections", "Cluster", rows=rows)


def _state(names: Set[str]) -> RunState:
    if "finished.json" in names:
        return RunState.FINISHED
    return RunState.UNFINISHED if is_begun(names) else RunState.NOT_BEGUN
