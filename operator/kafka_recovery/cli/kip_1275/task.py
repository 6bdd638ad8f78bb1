"""What `kafka-unclean-recovery` does: the KIP's rules as a policy, and the same engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from kafka_recovery.cli.cluster.approvals import NobodyToAsk
from kafka_recovery.cli.cluster.changing import Site
from kafka_recovery.cli.cluster.looking import all_seen, gather
from kafka_recovery.cli.cluster.progress import PlainLines
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.inputs import Wanted, read_partition_file
from kafka_recovery.cli.terminal.new_files import refuse_existing, write_new
from kafka_recovery.cli.terminal.render import Output, lines, write_result
from kafka_recovery.cli.terminal.running import stopped
from kafka_recovery.cli.terminal.tables import evidence_table
from kafka_recovery.cli.terminal.text import complain, say
from kafka_recovery.cli.terminal.words import order_left
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import ALL_OFFLINE, Scope
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan, Verdict
from kafka_recovery.domain.policy import (
    Approval,
    CandidateOrder,
    EvidenceRules,
    Limits,
    Policy,
    RequiredAnswers,
    Rule,
)
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.partition_files import write_designated
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.engine import Effort, Engine

_ONE_ATTEMPT = timedelta(seconds=3)
_MOST_ATTEMPTS = 10
_EARLIER_WAVE_FAILED = "EarlierWaveFailed"


@dataclass(frozen=True, slots=True)
class Task:
    """What the options ask for. `file` None: all offline partitions."""

    duration: timedelta
    show: bool
    manual_file: Path | None
    automated: bool
    file: Path | None

    def policy(self) -> Policy:
        """Epoch first, then the longest log, of whoever answers within the duration; nobody is asked."""
        attempts = min(max(self.duration // _ONE_ATTEMPT, 1), _MOST_ATTEMPTS)
        rule = Rule(
            "kafka-unclean-recovery",
            candidate_order=CandidateOrder.EPOCH_FIRST,
            approval=Approval.AUTO,
            evidence=EvidenceRules(
                deadline=self.duration / attempts,
                attempts=attempts,
                required_answers=RequiredAnswers.ANY,
                max_age=max(2 * self.duration, timedelta(minutes=1)),
            ),
            patience=self.duration / 3,
        )
        # 1000 partitions are the most that KIP-1275 puts into one request.
        return Policy((rule,), Limits(partitions=2**31, brokers_down_percent=100, wave_sizes=(50, 500, 1000)))

    def scope(self) -> Scope:
        """The partitions; raises InvalidDocument."""
        wanted = read_partition_file(self.file) if self.file else Wanted(ALL_OFFLINE)
        if wanted.designated:
            command = f"kafka-recovery execute {self.file}"
            raise InvalidDocument(
                f"{self.file}: designates leaders; this tool chooses them by their logs, see {command}"
            )
        return wanted.scope

    def check(self, all_offline: bool) -> None:
        """The options' rules, as the KIP states them; raises InvalidDocument."""
        if not (self.show or self.manual_file or self.automated):
            options = "--show-replica-info, --manual-recovery-output-file, --automated-recovery"
            raise InvalidDocument(f"nothing to do is named; give at least one of {options}")
        if self.manual_file and self.automated:
            raise InvalidDocument("--manual-recovery-output-file and --automated-recovery exclude each other; give one")
        if all_offline and self.file:
            raise InvalidDocument("--path-to-json-file and --all-offline-partitions exclude each other; give one")
        if not (all_offline or self.file):
            raise InvalidDocument("no partitions are named; give one of --path-to-json-file, --all-offline-partitions")
        if self.manual_file:
            refuse_existing(self.manual_file)


async def carry_out(site: Site, task: Task) -> ExitCode:
    """Show, write and elect, as far as the task says."""
    scope = task.scope()
    code = ExitCode.DONE
    if task.show or task.manual_file:
        evidence = await gather(site.open_cluster, site.target, task.policy(), scope)
        if task.show:
            write_result(site.output, None, evidence_table(evidence))
        if not (task.manual_file or task.automated):
            code = all_seen(evidence)
        if task.manual_file:
            code = _write_leaders(evidence, task, task.manual_file)
    return await _elect(site, task, scope) if task.automated else code


def _write_leaders(evidence: Evidence, task: Task, file: Path) -> ExitCode:
    """The designated leaders as a file, and a line on stderr for each partition that gets none."""
    plan = decide(evidence, task.policy())
    leaders = {decision.id: decision.leader for decision in plan.decisions if decision.leader is not None}
    if leaders:
        write_new(file, write_designated(leaders))
        write_result(Output.TABLE, None, lines(f"{len(leaders)} designated leaders are in {file}"))
    else:
        say(f"There is no leader to designate; {file} was not written.")
    return ExitCode.NOT_RECOVERED if _say_unled(plan, leaders) else ExitCode.DONE


def _say_unled(plan: Plan, leaders: Mapping[TopicPartition, BrokerId]) -> bool:
    """Say which partitions have and get no leader; whether there are any."""
    unled = [(missing.id, missing.reason) for missing in plan.evidence.missing]
    for decision in plan.decisions:
        if decision.verdict is Verdict.NOTHING:
            say(f"{decision.id}: already online")
        elif decision.id not in leaders and decision.reason:
            unled.append((decision.id, decision.reason))
    for id, reason in unled:
        say(f"{id}: {reason}")
    return bool(unled)


class _Waves(PlainLines):
    """Progress by waves; what became of each partition is said at the end."""

    def concluded(self, outcome: PartitionOutcome) -> None:
        """Nothing yet."""


async def _elect(site: Site, task: Task, scope: Scope) -> ExitCode:
    policy = task.policy()
    async with site.entered("kafka-unclean-recovery", policy, anew=True) as room:
        clock = SystemClock()
        ends_at = clock.monotonic() + 2 * task.duration
        outcomes: dict[TopicPartition, PartitionOutcome] = {}
        while True:
            within = ends_at - clock.monotonic()
            engine = Engine(
                room.connection.cluster,
                room.connection.election,
                room.journal,
                NobodyToAsk(),
                policy,
                observer=_Waves(),
                effort=Effort(within=within),
            )
            site.interrupts.gently(engine.stop)
            try:
                report = await engine.recover(scope)
            except Exception:
                if known := engine.so_far().outcomes:
                    _conclude(site, list(known))
                raise
            for why in report.damaged:
                complain(str(why))
            outcomes |= {outcome.id: outcome for outcome in report.outcomes}
            scope = _held_up(report.outcomes)
            if not scope.partitions or site.interrupts.received or within <= timedelta():
                break
    return _conclude(site, [outcomes[id] for id in sorted(outcomes)])


def _held_up(outcomes: tuple[PartitionOutcome, ...]) -> Scope:
    """Partitions left out only because others failed before: best effort goes on without those."""
    return Scope(tuple(o.id for o in outcomes if o.reason and o.reason.code == _EARLIER_WAVE_FAILED))


def _conclude(site: Site, outcomes: list[PartitionOutcome]) -> ExitCode:
    successes = [_success(done) for done in outcomes if done.outcome.is_recovered]
    if successes or not outcomes:
        write_result(site.output, None, lines(*(successes or ["no partition is offline"])))
    for done in outcomes:
        for warning in done.warnings:
            say(f"{done.id}: Warning: {warning}")
        if not (done.outcome.is_recovered and done.order_restored):
            order = order_left(done)
            say(f"{done.id}: {done.reason or done.outcome}{order and f' ({order}: run again)'}")
    if all(done.outcome.is_recovered and done.order_restored for done in outcomes):
        return ExitCode.DONE
    return stopped(site.interrupts) if site.interrupts.received else ExitCode.NOT_RECOVERED


def _success(done: PartitionOutcome) -> str:
    if done.outcome is Outcome.RECOVERED_CLEANLY:
        return f"{done.id}: already online, broker {done.leader} leads"
    under = (
        "; acks=all fails until more replicas are in sync" if done.outcome is Outcome.RECOVERED_UNDER_MIN_ISR else ""
    )
    return f"{done.id}: broker {done.leader} elected, log end {done.log_end}{under}"
