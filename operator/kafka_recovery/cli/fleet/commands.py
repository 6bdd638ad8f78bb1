"""`kafka-recovery fleet`: questions to the evidence of many clusters, answered by Spark, and the answers as a page."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from kafka_recovery.cli.fleet.stores import unusable
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.options import OutputForm, Quiet
from kafka_recovery.cli.terminal.programs import program
from kafka_recovery.cli.terminal.render import Output, cell, lines, table, write_result
from kafka_recovery.cli.terminal.running import run
from kafka_recovery.cli.terminal.text import narrate
from kafka_recovery.formats.documents import InvalidDocument

if TYPE_CHECKING:
    from kafka_recovery.fleet.manifest import Manifest
    from kafka_recovery_spark.job import Asked

app = program(
    "fleet",
    "Ask evidence files of many clusters. All but report need Spark and Java. Changes nothing in Kafka.",
    completes=False,
)

_LOOK_AGAIN = 0.5
"""Seconds between two looks whether Spark has started, while we want it to end."""

_NUMBERS = ("lossless", "bounded", "unknown", "none")

Evidence = Annotated[
    str, typer.Option("--evidence", metavar="URL", help="Folder of the snapshots; the latest of each cluster is read.")
]
PolicyFile = Annotated[Path, typer.Option("--policy", metavar="FILE", help="A RecoveryPolicy, or its spec, in YAML.")]
To = Annotated[str, typer.Option("--to", metavar="URL", help="A directory, or a URL, for the results of many runs.")]
RunName = Annotated[str, typer.Option("--run", metavar="NAME", help="The folder there for this run; a new one.")]
Clusters = Annotated[
    list[str] | None, typer.Option("--cluster", metavar="ID", help="Only this cluster; may be repeated.")
]
NotBefore = Annotated[
    str | None,
    typer.Option("--not-before", metavar="INSTANT", help="Refuse older evidence, such as 2026-11-21T00:00:00Z."),
]
Master = Annotated[str, typer.Option("--master", metavar="URL", help="The master that Spark runs on.")]


@app.command()
def rank(
    evidence: Evidence,
    policy: PolicyFile,
    to: To,
    run_name: RunName,
    cluster: Clusters = None,
    not_before: NotBefore = None,
    master: Master = "local[*]",
    output: OutputForm = Output.TABLE,
    quiet: Quiet = False,
) -> None:
    """Rank each partition's replicas.

    Whom to elect, all others in order, who may not lead and why, what may be lost.
    """
    _ask("rank", (evidence, policy, to, run_name, tuple(cluster or ())), not_before, master, output)


@app.command()
def readiness(
    evidence: Evidence,
    policy: PolicyFile,
    to: To,
    run_name: RunName,
    cluster: Clusters = None,
    not_before: NotBefore = None,
    master: Master = "local[*]",
    output: OutputForm = Output.TABLE,
    quiet: Quiet = False,
) -> None:
    """Say what failures would cost now.

    What would go offline, and what could be had back, if a broker, a rack or a pair of brokers failed.
    """
    _ask("readiness", (evidence, policy, to, run_name, tuple(cluster or ())), not_before, master, output)


@app.command()
def report(
    results: Annotated[
        list[str],
        typer.Option(
            "--results", metavar="URL", help="The folder of a run of rank or of readiness; twice for one of each."
        ),
    ],
    output: Annotated[Path, typer.Option("--out", metavar="FILE", help="A new file for the page, in HTML.")],
) -> None:
    """Write results as one HTML page.

    The page needs no network and no other files, and making it needs no Spark.
    """

    from kafka_recovery.cli.fleet.report import write_report

    async def reported() -> ExitCode:
        found = await asyncio.to_thread(write_report, results, output)
        told = [*(f"Careful: {warning}" for warning in found.warnings), *found.sentences]
        write_result(Output.TABLE, None, lines(*told), str(output))
        return ExitCode.DONE

    run(lambda _: reported())


Place = tuple[str, Path, str, str, tuple[str, ...]]
"""What every question names, in the order of `Asked`."""


def _ask(task: str, place: Place, not_before: str | None, master: str, output: Output) -> NoReturn:
    from kafka_recovery.fleet.manifest import NAME, written

    async def asked() -> ExitCode:
        manifest = await _answer(_question(task, place, not_before, master))
        _, _, to, run_name, _ = place
        name = f"{to.rstrip('/')}/{run_name}/{NAME}"
        write_result(output, {"manifest": name, **json.loads(written(manifest))}, _shown(manifest, name))
        return ExitCode.DONE

    run(lambda _: asked())


def _question(task: str, place: Place, not_before: str | None, master: str) -> Asked:
    """Raises InvalidDocument, also where what answers it is not installed."""
    try:
        from kafka_recovery_spark.job import Asked, Task, instant
    except ModuleNotFoundError as error:
        raise InvalidDocument(f"fleet {task}: {error}") from None
    try:
        earliest = None if not_before is None else instant(not_before)
    except InvalidDocument as error:
        raise InvalidDocument(f"--not-before: {error}") from None
    return Asked(Task(task), *place, earliest, master)


async def _answer(question: Asked) -> Manifest:
    """In a thread, so that a signal is heard meanwhile; then what Spark does for us is given up."""
    from kafka_recovery.fleet.storage import StorageUnavailable
    from kafka_recovery_spark.job import answer
    from kafka_recovery_spark.session import JavaMissing

    narrate(f"asking {question.evidence} (Spark takes some seconds to start)")
    try:
        return await _or_given_up(asyncio.ensure_future(asyncio.to_thread(answer, question)))
    except JavaMissing as error:
        raise InvalidDocument(str(error)) from None
    except StorageUnavailable as error:
        raise unusable(error) from None


async def _or_given_up(work: asyncio.Future[Manifest]) -> Manifest:
    """The work's result; if we are to stop, it is made to end first. Spark can be stopped only once it has started."""
    from kafka_recovery_spark.session import give_up

    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            give_up()
            await asyncio.wait([work], timeout=_LOOK_AGAIN)
        work.exception()  # that it was stopped is no news
        raise


def _shown(manifest: Manifest, name: str) -> Any:
    from rich.console import Group

    numbers = asdict(manifest.summary)
    headings = tuple(map(str.capitalize, _NUMBERS))
    row = [numbers["clusters"], numbers["partitions"], *(numbers[name] for name in _NUMBERS)]
    parts = [table("Clusters", "Partitions", *headings, rows=[row])]
    if manifest.summary.worst:
        losses = [
            [each.cluster_id, each.failing, each.offline, *(getattr(each, name) for name in _NUMBERS)]
            for each in manifest.summary.worst
        ]
        parts += [
            cell("\nThe losses that would hurt most:"),
            table("Cluster", "Failing", "Offline", *headings, rows=losses),
        ]
    return Group(*parts, cell(f"\n{name}"))
