"""The commands that change the cluster: always over the engine, with the journal's lock held and signals minded."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kafka_recovery.cli import plan_files
from kafka_recovery.cli.approvals import ApprovedDigest, Asking, NobodyToAsk, approvals_here
from kafka_recovery.cli.exit_codes import ExitCode
from kafka_recovery.cli.inputs import Wanted, journal_directory, read_partition_file, read_policy
from kafka_recovery.cli.looking import reach
from kafka_recovery.cli.new_files import read_text
from kafka_recovery.cli.progress import Watching, watching
from kafka_recovery.cli.render import Output, write_result
from kafka_recovery.cli.running import Refusal, stopped
from kafka_recovery.cli.signals import Interrupts
from kafka_recovery.cli.tables import report_table, undone_table
from kafka_recovery.cli.text import complain, say
from kafka_recovery.cli.wiring import Connection, OpenCluster, Target, open_kafka
from kafka_recovery.cli.words import needs_approval
from kafka_recovery.cluster.errors import ClusterError
from kafka_recovery.domain.documents import InvalidDocument, as_data, digest
from kafka_recovery.domain.outcome import Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.journal_files import FileJournal, JournalUnwritable

_APPROVAL_MISSING = "ApprovalMissing"


@dataclass(frozen=True, slots=True)
class Site:
    """Where a recovery takes place, and who may end it. `journal` as given; None: the default directory."""

    open_cluster: OpenCluster | None
    target: Target
    journal: Path | None
    output: Output
    interrupts: Interrupts

    @asynccontextmanager
    async def entered(self, policy: Policy) -> AsyncIterator[tuple[Connection, FileJournal]]:
        """The cluster, open, and its journal, locked."""
        directory = journal_directory(self.journal)
        async with (self.open_cluster or open_kafka)(self.target) as connection:
            with FileJournal(directory, await connection.cluster_id(policy)) as journal:
                yield connection, journal

    def command(self, words: str) -> str:
        """A command line for the same cluster and journal, to be pasted into a shell."""
        journal = f" --journal {shlex.quote(str(self.journal))}" if self.journal else ""
        return f"kafka-recovery {words} {reach(self.target)}{journal}"


async def recover(site: Site, policy_file: Path | None, wanted: Wanted) -> ExitCode:
    """Plan, ask, elect, verify, until each partition has its outcome."""
    policy = read_policy(policy_file)
    async with site.entered(policy) as (connection, journal):
        return await carry_out(
            site,
            connection,
            journal,
            policy,
            approvals_here,
            lambda engine: engine.recover(wanted.scope, wanted.designated),
        )


async def execute(site: Site, file: Path | None, approve: str | None, policy_file: Path | None) -> ExitCode:
    """Execute a plan file, a plan of the journal, or a file of designated leaders."""
    if approve is not None and not re.fullmatch(r"[0-9a-f]{64}", approve):
        raise InvalidDocument(f"--approve {approve!r}: not a plan's digest (64 hexadecimal digits, as plan shows it)")
    if file is None:
        return await _execute_from_journal(site, approve, policy_file)
    text = read_text(file, plan_files.LARGEST_FILE)
    if plan_files.is_plan(text):
        return await _execute_plan(site, plan_files.read_plan(text, str(file)), file, approve, policy_file)
    wanted = read_partition_file(file)
    if not wanted.designated:
        raise InvalidDocument(f"{file}: names partitions but no leaders; use recover --path-to-json-file {file}")
    if approve:
        plan = site.command(f"plan --path-to-json-file {shlex.quote(str(file))} --out plan.json")
        raise InvalidDocument(f"--approve approves a plan, and {file} is none; make one of it first: {plan}")
    return await recover(site, policy_file, wanted)


async def resume(site: Site, policy_file: Path | None) -> ExitCode:
    """Go on with every unfinished run of the journal; without a policy file, under the newest run's policy."""
    policy = read_policy(policy_file)
    async with site.entered(policy) as (connection, journal):
        runs = await journal.unfinished()
        if not runs:
            where = journal_directory(site.journal)
            say(f"The journal {where} holds no unfinished run. A run that did not begin is not resumed, but run again.")
        if runs and policy_file is None:
            policy = runs[-1].plan.policy
        return await carry_out(
            site, connection, journal, policy, lambda _: NobodyToAsk(), lambda engine: engine.resume()
        )


async def undo(site: Site) -> ExitCode:
    """Put back every assignment order that is still ours."""
    policy = Policy()
    async with site.entered(policy) as (connection, journal):
        engine = Engine(connection.cluster, connection.election, journal, NobodyToAsk(), policy)
        site.interrupts.gently(engine.stop)
        report = await engine.undo()
    write_result(site.output, report_document(report), undone_table(report))
    if all(outcome.order_restored for outcome in report.outcomes):
        return ExitCode.DONE
    return stopped(site.interrupts) if site.interrupts.received else ExitCode.NOT_RECOVERED


async def carry_out(
    site: Site,
    connection: Connection,
    journal: FileJournal,
    policy: Policy,
    asking_by: Callable[[Watching], Asking],
    act: Callable[[Engine], Awaitable[Report]],
) -> ExitCode:
    """Let the engine do `act`, show what became of it, and say what is left to do."""
    with watching() as shown:
        asking = asking_by(shown)
        engine = Engine(connection.cluster, connection.election, journal, asking, policy, observer=shown)

        def stop() -> None:
            engine.stop()
            asking.withdraw()

        site.interrupts.gently(stop)
        try:
            report = await act(engine)
        except (ClusterError, JournalUnwritable):
            if await journal.unfinished():
                say(f"What was begun is in the journal. To go on: {site.command('resume')}")
            raise
    write_result(site.output, report_document(report), report_table(report))
    return conclude(site, report, asking.missing)


def report_document(report: Report) -> dict[str, object]:
    """The report with its kind, as plain data."""
    return {"kind": "RecoveryReport", **as_data(report)}


def conclude(site: Site, report: Report, missing_approval: str | None) -> ExitCode:
    """The exit code, and the next command where one is needed."""
    restored = all(outcome.order_restored for outcome in report.outcomes)
    if report.recovered and restored:
        return ExitCode.DONE
    if site.interrupts.received:
        begun = f"To go on: {site.command('resume')}" if report.plans else "Nothing was begun; run the command again."
        say(f"Stopped by {site.interrupts.received.name}. {begun}")
        return stopped(site.interrupts)
    if not restored:
        complain(f"some assignment orders are not restored yet. To try again: {site.command('undo')}")
    if missing_approval:
        complain(f"plan {missing_approval} was not approved; what needs approval was not changed")
        say(f"To approve exactly this plan: {site.command(f'execute --approve {missing_approval}')}")
        return ExitCode.APPROVAL
    if any(outcome.reason and outcome.reason.code == _APPROVAL_MISSING for outcome in report.outcomes):
        plans = "".join(f"\n  {site.command(f'execute --approve {digest}')}" for digest in report.plans)
        complain(f"what needs approval was not changed. To approve:{plans}")
        return ExitCode.APPROVAL
    return ExitCode.NOT_RECOVERED


async def _execute_plan(site: Site, plan: Plan, file: Path, approve: str | None, policy_file: Path | None) -> ExitCode:
    found = digest(plan)
    _same_policy(plan, policy_file)
    if approve not in (None, found):
        raise Refusal(ExitCode.APPROVAL, f"{file} has the digest {found}; approved was {approve}, another plan")
    if needs_approval(plan) and approve is None:
        command = site.command(f"execute {shlex.quote(str(file))} --approve {found}")
        raise Refusal(ExitCode.APPROVAL, f"{file} needs approval. Once you have read it: {command}")
    expected = site.target.expected_cluster_id
    if expected not in (None, plan.cluster_id):
        raise InvalidDocument(f"{file}: the plan is for cluster {plan.cluster_id}, --expect-cluster-id says {expected}")
    site = replace(site, target=replace(site.target, expected_cluster_id=plan.cluster_id))
    async with site.entered(plan.policy) as (connection, journal):
        return await carry_out(
            site, connection, journal, plan.policy, lambda _: ApprovedDigest(found), lambda engine: engine.execute(plan)
        )


async def _execute_from_journal(site: Site, approve: str | None, policy_file: Path | None) -> ExitCode:
    if approve is None:
        raise InvalidDocument("execute what? Give a plan FILE, or with --approve the digest of a plan in the journal")
    async with site.entered(Policy()) as (connection, journal):
        plan = journal.plan(approve)
        _same_policy(plan, policy_file)
        return await carry_out(
            site,
            connection,
            journal,
            plan.policy,
            lambda _: ApprovedDigest(approve),
            lambda engine: engine.execute(plan),
        )


def _same_policy(plan: Plan, policy_file: Path | None) -> None:
    """A plan holds its own policy; another one on the command line would be a wish that nobody honours."""
    if policy_file and read_policy(policy_file) != plan.policy:
        raise InvalidDocument(f"--policy {policy_file} is not the policy the plan was made under; make a new plan")
