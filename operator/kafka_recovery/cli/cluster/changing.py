"""The commands that change the cluster: always over the engine, with the journal's lock held and signals minded."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kafka_recovery.cli.cluster import plan_files
from kafka_recovery.cli.cluster.approvals import ApprovedBefore, Asking, NobodyToAsk, approvals_here, word_for
from kafka_recovery.cli.cluster.journal_place import Holder, JournalPlace, require_journal, user
from kafka_recovery.cli.cluster.looking import reach, refuse_to_attest
from kafka_recovery.cli.cluster.progress import Watching, watching
from kafka_recovery.cli.cluster.wiring import Connection, OpenCluster, Target, open_kafka
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.inputs import (
    Attesting,
    Wanted,
    check_hosts,
    for_a_terminal,
    journal_directory,
    read_partition_file,
    read_policy,
)
from kafka_recovery.cli.terminal.new_files import read_text
from kafka_recovery.cli.terminal.render import Output, write_result
from kafka_recovery.cli.terminal.running import Refusal, stopped
from kafka_recovery.cli.terminal.signals import Interrupts
from kafka_recovery.cli.terminal.tables import is_any_absent, report_table, undone_table
from kafka_recovery.cli.terminal.text import complain, say
from kafka_recovery.cli.terminal.words import needs_approval
from kafka_recovery.decision.card import last_resort, why_stopped
from kafka_recovery.domain.counts import AWAITING_APPROVAL
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import ClusterFault
from kafka_recovery.formats.documents import InvalidDocument, as_data, digest
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.recovery.ports import Run
from kafka_recovery.recovery.supervision import Supervision, Unsupervised


@dataclass(frozen=True, slots=True)
class Room:
    """Everything a recovery works with: the open cluster, its journal with the lock held, and where that lies."""

    connection: Connection
    journal: FileJournal
    place: JournalPlace


@dataclass(frozen=True, slots=True)
class Site:
    """Where a recovery takes place, and who may end it. `journal` as given; None: the default directory."""

    open_cluster: OpenCluster | None
    target: Target
    journal: Path | None
    output: Output
    interrupts: Interrupts

    @asynccontextmanager
    async def entered(self, command: str, policy: Policy, *, anew: bool) -> AsyncIterator[Room]:
        """The cluster, open, and its journal, locked. `anew`: a journal is made if there is none.

        The lock is held until all is done, also while a person is asked: what earlier runs left was put back before
        the plan was made, and has to stay so until it is executed.
        """
        directory = journal_directory(self.journal)
        if not anew:
            require_journal(directory)
        async with (self.open_cluster or open_kafka)(self.target) as connection:
            id = await connection.cluster_id(policy)
            journal = local_journal(directory, id)
            if not anew:
                require_journal(directory / id, f" of cluster {id}")
            place = JournalPlace(directory / id, Holder.here(command))
            with place.locked(journal):
                yield Room(connection, journal, place)

    def command(self, words: str) -> str:
        """A command line for the same cluster and journal, to be pasted into a shell."""
        journal = f" --journal {shlex.quote(str(self.journal))}" if self.journal else ""
        return f"kafka-recovery {words} {reach(self.target)}{journal}"


_NOTHING = Attesting()


async def recover(site: Site, policy_file: Path | None, wanted: Wanted, attesting: Attesting = _NOTHING) -> ExitCode:
    """Plan, ask, elect, verify, until each partition has its outcome."""
    policy = read_policy(policy_file)
    attestations = attesting.read(user())
    async with site.entered("recover", policy, anew=True) as room:
        if attestations:  # before anything is put back that an earlier run left behind
            rules = policy.widest_evidence_rules
            check_hosts(await room.connection.cluster.gather(wanted.scope, rules), attestations)
        room.place.remove_stale_plans()
        return await carry_out(
            site,
            room,
            Unsupervised(policy, attestations),
            lambda shown: approvals_here(shown, room.place.awaits),
            lambda engine: engine.recover(wanted.scope, wanted.designated),
        )


@dataclass(frozen=True, slots=True)
class Word:
    """Which plan a person has read, by its digest, and whether they say yes to it. To name a plan is no yes."""

    plan: str | None
    yes: bool

    def check(self) -> None:
        """Raise InvalidDocument for what names no plan."""
        if self.plan is None and self.yes:
            raise InvalidDocument("--yes says yes to a plan that was read: name it with --plan DIGEST")
        if self.plan is not None and not re.fullmatch(r"[0-9a-f]{64}", self.plan):
            raise InvalidDocument(
                f"--plan {self.plan!r}: not a plan's digest (64 hexadecimal digits, as plan shows it)"
            )


async def execute(
    site: Site, file: Path | None, word: Word, policy_file: Path | None, attesting: Attesting = _NOTHING
) -> ExitCode:
    """Execute a plan file, a plan of the journal, or a file of designated leaders."""
    word.check()
    if file is None:
        refuse_to_attest(attesting, f"--plan {word.plan}")
        return await _execute_from_journal(site, word, policy_file)
    text = read_text(file, plan_files.LARGEST_FILE)
    if plan_files.is_plan(text):
        refuse_to_attest(attesting, str(file))
        return await _execute_plan(site, plan_files.read_plan(text, str(file)), file, word, policy_file)
    if other := plan_files.other_kind(text):
        raise InvalidDocument(f"{file}: is {other}; execute takes a plan or a file of designated leaders")
    wanted = read_partition_file(file)
    if not wanted.designated:
        raise InvalidDocument(f"{file}: names partitions but no leaders; use recover --path-to-json-file {file}")
    if word.plan:
        plan = site.command(f"plan --path-to-json-file {shlex.quote(str(file))}{attesting} --out plan.json")
        raise InvalidDocument(f"--plan names a plan, and {file} is none; make one of it first: {plan}")
    return await recover(site, policy_file, wanted, attesting)


async def resume(site: Site, policy_file: Path | None) -> ExitCode:
    """Go on with every unfinished run of the journal; without a policy file, under the newest run's policy."""
    policy = read_policy(policy_file)
    async with site.entered("resume", policy, anew=False) as room:
        left = await room.journal.unfinished()
        runs = [entry for entry in left if isinstance(entry, Run)]
        if not left:
            where = journal_directory(site.journal)
            say(f"The journal {where} holds no unfinished run. A run that did not begin is not resumed, but run again.")
        if runs and policy_file is None:
            policy = runs[-1].plan.policy
        return await carry_out(
            site, room, policy, lambda _: ApprovedBefore(room.journal), lambda engine: engine.resume()
        )


async def undo(site: Site, records: Path | None = None) -> ExitCode:
    """Put back every assignment order that is still ours. `records`: an operator's journal, printed by kubectl."""
    policy = Policy()
    async with site.entered("undo", policy, anew=records is not None) as room:
        if records:
            taken = await _taken_over(records, room)
            say(f"{taken} unfinished run{'' if taken == 1 else 's'} of the operator taken over into {room.place.root}")
        engine = Engine(room.connection.cluster, room.connection.election, room.journal, NobodyToAsk(), policy)
        site.interrupts.gently(engine.stop)
        try:
            report = await engine.undo()
        except Exception:
            known = engine.so_far()
            write_result(site.output, report_document(known), undone_table(known))
            raise
    write_result(site.output, report_document(report), undone_table(report))
    _tell_damaged(report)
    doubts = (done.reason for done in report.outcomes if done.reason and done.outcome is Outcome.IN_DOUBT)
    for why in dict.fromkeys(why for why in doubts if why not in report.damaged):
        say(str(why))
    if all(outcome.is_settled for outcome in report.outcomes):
        return ExitCode.JOURNAL if report.damaged else ExitCode.DONE
    return stopped(site.interrupts) if site.interrupts.received else ExitCode.NOT_RECOVERED


async def _taken_over(file: Path, room: Room) -> int:
    try:
        from kafka_recovery.cli.cluster.operator_records import take_over
    except ImportError as missing:
        raise Refusal(
            ExitCode.BAD_INPUT, f"--records needs pip install '.[operator]' in its checkout ({missing})"
        ) from None
    return await take_over(file, room.journal, room.place.root.name)


async def carry_out(
    site: Site,
    room: Room,
    policy: Policy | Supervision,
    asking_by: Callable[[Watching], Asking],
    act: Callable[[Engine], Awaitable[Report]],
) -> ExitCode:
    """Let the engine do `act`, show what became of it, and say what is left to do."""
    with watching() as shown:
        asking = asking_by(shown)
        engine = Engine(room.connection.cluster, room.connection.election, room.journal, asking, policy, observer=shown)

        def stop() -> None:
            engine.stop()
            asking.withdraw()

        site.interrupts.gently(stop)
        try:
            report = await act(engine)
        except Exception as error:
            known = engine.so_far()
            if known.outcomes:
                write_result(site.output, report_document(known), report_table(known))
            if known.plans or (isinstance(error, ClusterFault) and await room.journal.unfinished()):
                say(f"What was begun is in the journal. To go on: {site.command('resume')}")
            raise
    unapproved = [_kept(site, room, digest) for digest in _unapproved(report, asking.missing)]
    plans = tuple(_carried_out(room, report))
    write_result(site.output, report_document(report, unapproved), report_table(report, plans))
    return conclude(site, report, unapproved, site.output is Output.TABLE and is_any_absent(plans, report))


_MAY_HAVE_ELECTED = frozenset({Outcome.RECOVERED, Outcome.RECOVERED_UNDER_MIN_ISR, Outcome.FAILED, Outcome.IN_DOUBT})
"""What did not verify may have a leader all the same."""
_COPY_FIRST = (
    "Before a broker is started that was away: copy its directories of the partitions that another broker leads now. "
    "On joining, it deletes every record that their leaders lack."
)


def _carried_out(room: Room, report: Report) -> Iterator[Plan]:
    """Plans by which somebody may have been elected; one that the journal can't show any more is left out."""
    perhaps = {done.id for done in report.outcomes if done.outcome in _MAY_HAVE_ELECTED}
    for each in report.plans:
        with suppress(InvalidDocument, OSError):
            plan = room.journal.plan(each)
            if perhaps & plan.elections.keys():
                yield plan


@dataclass(frozen=True, slots=True)
class Unapproved:
    """A plan that waits for a person: its digest, the file it lies in, and the command that approves it.

    `stop`: why nobody may approve it yet, and what to do first. `last_resort`: when to approve it all the same; None:
    never.
    """

    digest: str
    file: Path | None
    command: str
    stop: tuple[str, ...] = ()
    last_resort: str | None = ""

    @classmethod
    def of(cls, plan: Plan, digest: str, file: Path | None, command: str) -> Unapproved:
        """With what speaks against it."""
        return cls(digest, file, command, why_stopped(plan), last_resort(plan))


def _kept(site: Site, room: Room, digest: str) -> Unapproved:
    """A plan of the journal. What nobody was asked about may be elected by now, and stops nobody any more."""
    file, command = room.journal.plan_file(digest), site.command(f"execute --plan {digest} --yes")
    with suppress(InvalidDocument, OSError):
        plan = room.journal.plan(digest)
        unasked = {id for id, each in plan.elections.items() if not each.needs_approval}
        decisions = tuple(each for each in plan.decisions if each.id not in unasked)
        seen = tuple(each for each in plan.evidence.partitions if each.id not in unasked)
        asked = replace(plan, decisions=decisions, evidence=replace(plan.evidence, partitions=seen))
        return Unapproved.of(asked, digest, file, command)
    return Unapproved(digest, file, command)


def report_document(report: Report, unapproved: Sequence[Unapproved] = ()) -> dict[str, object]:
    """The report with its kind, and the plans that wait for approval, as plain data."""
    return {"kind": plan_files.REPORT, **as_data(report), "unapproved": [as_data(plan) for plan in unapproved]}


def conclude(site: Site, report: Report, unapproved: Sequence[Unapproved], named: bool = False) -> ExitCode:
    """The exit code, and the next command where one is needed. `named`: it was said which brokers to copy first."""
    if not named and any(outcome.outcome in _MAY_HAVE_ELECTED for outcome in report.outcomes):
        say(_COPY_FIRST)
    restored = all(outcome.order_restored for outcome in report.outcomes)
    _tell_damaged(report)
    if report.recovered and restored:
        return ExitCode.JOURNAL if report.damaged else ExitCode.DONE
    if site.interrupts.received:
        begun = f"To go on: {site.command('resume')}" if report.plans else "Nothing was begun; run the command again."
        say(f"Stopped by {site.interrupts.received.name}. {begun}")
        return stopped(site.interrupts)
    if not restored:
        unknown = "or nobody knows whether they are"
        complain(f"some assignment orders are not restored yet, {unknown}. To try again: {site.command('undo')}")
    for plan in unapproved:
        complain(f"plan {plan.digest} was not approved; what needs approval was not changed")
        for sentence in plan.stop:
            say(sentence)
        if plan.last_resort is not None:
            say(f"{plan.last_resort or 'To approve exactly this plan'}: {plan.command}")
    return ExitCode.APPROVAL if unapproved else ExitCode.NOT_RECOVERED


def _tell_damaged(report: Report) -> None:
    for why in report.damaged:
        complain(str(why))


def _unapproved(report: Report, asked: Sequence[str]) -> Sequence[str]:
    """Digests of the plans that were not approved; a resumed run is not asked about, its elections are only refused."""
    lacking = any(outcome.reason and outcome.reason.code == AWAITING_APPROVAL for outcome in report.outcomes)
    return asked or (report.plans if lacking else ())


async def _execute_plan(site: Site, plan: Plan, file: Path, word: Word, policy_file: Path | None) -> ExitCode:
    found = digest(plan)
    _same_policy(plan, policy_file)
    command = site.command(f"execute {shlex.quote(str(file))} --plan {found} --yes")
    asked = Unapproved.of(plan, found, file, command)
    if word.plan not in (None, found):
        _tell_unapproved(site, asked)
        raise Refusal(ExitCode.APPROVAL, f"{file} has the digest {found}; --plan names {word.plan}, another plan")
    _refuse_unapproved(site, plan, word, str(file), asked)
    expected = site.target.expected_cluster_id
    if expected not in (None, plan.cluster_id):
        raise InvalidDocument(f"{file}: the plan is for cluster {plan.cluster_id}, --expect-cluster-id says {expected}")
    site = replace(site, target=replace(site.target, expected_cluster_id=plan.cluster_id))
    async with site.entered("execute", plan.policy, anew=True) as room:
        return await carry_out(
            site, room, plan.policy, lambda _: word_for(found, word.yes), lambda engine: engine.execute(plan)
        )


def _refuse_unapproved(site: Site, plan: Plan, word: Word, what: str, asked: Unapproved) -> None:
    """Raise Refusal where a yes is needed and not given. It is asked for before any broker is."""
    if needs_approval(plan) and not word.yes:
        _tell_unapproved(site, asked)
        if asked.last_resort is None:
            raise Refusal(ExitCode.APPROVAL, f"{what} needs approval. {' '.join(asked.stop)}")
        first = f"{' '.join(asked.stop)} {asked.last_resort}" if asked.stop else "Once you have read it"
        raise Refusal(ExitCode.APPROVAL, f"{what} needs approval. {first}: {asked.command}")


def _tell_unapproved(site: Site, plan: Unapproved) -> None:
    """For programs only: a person reads the sentence that follows."""
    if site.output is not Output.TABLE:
        write_result(site.output, report_document(Report(()), [plan]), "")


async def _execute_from_journal(site: Site, word: Word, policy_file: Path | None) -> ExitCode:
    if (named := word.plan) is None:
        raise InvalidDocument(
            "no plan is named; give its FILE (kafka-recovery plan --out FILE writes one), or --plan DIGEST of one that "
            "the journal holds (kafka-recovery plans lists them)"
        )
    read_policy(policy_file)  # what is wrong with it is said before any broker is asked
    async with site.entered("execute", Policy(), anew=False) as room:
        plan = room.journal.plan(named)
        _same_policy(plan, policy_file)
        command = site.command(f"execute --plan {named} --yes")
        asked = Unapproved.of(plan, named, room.journal.plan_file(named), command)
        _refuse_unapproved(site, plan, word, f"plan {named}", asked)
        return await carry_out(
            site, room, plan.policy, lambda _: word_for(named, word.yes), lambda engine: engine.execute(plan)
        )


def _same_policy(plan: Plan, policy_file: Path | None) -> None:
    """A plan holds its own policy; another one on the command line would be a wish that nobody honours."""
    if policy_file and read_policy(policy_file) != for_a_terminal(plan.policy):
        raise InvalidDocument(f"--policy {policy_file} is not the policy the plan was made under; make a new plan")
