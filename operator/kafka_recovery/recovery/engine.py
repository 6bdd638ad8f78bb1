"""Recovering offline partitions: gather, decide, write down, approve, re-check, elect, verify, restore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType

from kafka_recovery.decision.attesting import attested
from kafka_recovery.decision.planner import Designated, Ranking, decide
from kafka_recovery.decision.recheck import stands_still
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report
from kafka_recovery.domain.plan import Plan, Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.documents import digest as digest_of
from kafka_recovery.recovery.approval_gate import ApprovalGate
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.engine_ports import EnginePorts
from kafka_recovery.recovery.execution import Execution, Stages
from kafka_recovery.recovery.looking_again import look_again
from kafka_recovery.recovery.partition_run import order_is_ours
from kafka_recovery.recovery.ports import (
    Apart,
    Approvals,
    Clock,
    Cluster,
    DamagedRun,
    Election,
    Journal,
    Observer,
    Run,
    Silent,
    ViewStandsStill,
    at_once,
)
from kafka_recovery.recovery.requests import check_plan
from kafka_recovery.recovery.session import LeftBehind, Session
from kafka_recovery.recovery.signs_of_life import SignsOfLife
from kafka_recovery.recovery.supervision import Permission, Supervision, Unsupervised
from kafka_recovery.recovery.timing import Timing

NOWHERE: Mapping[TopicPartition, Reason] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often one call of the engine tries. `within` None: until every partition has its outcome.

    `attempts`: how often one partition may go back to deciding because the cluster changed under it.
    """

    within: timedelta | None = None
    attempts: int = 3
    pause: timedelta = timedelta(milliseconds=500)


class Engine:
    """One cluster's recovery. The same engine serves the command line, the operator and the simulator.

    `policy`: one for good, or whoever knows what its owners want now; that is read again before every wave. `apart`:
    how a decision is worked out, which takes a second for very many partitions. `signs`: what earlier looks found of
    attestations, where a run has several engines.
    """

    def __init__(
        self,
        cluster: Cluster,
        election: Election,
        journal: Journal,
        approvals: Approvals,
        policy: Policy | Supervision,
        *,
        clock: Clock | None = None,
        observer: Observer | None = None,
        timing: Timing | None = None,
        effort: Effort | None = None,
        stages: Stages | None = None,
        apart: Apart | None = None,
        signs: SignsOfLife | None = None,
    ) -> None:
        self._supervision = Unsupervised(policy) if isinstance(policy, Policy) else policy
        self._effort = effort or Effort()
        self._stages = stages or Stages()
        self._apart = apart or at_once
        self._ports = EnginePorts(
            cluster,
            election,
            journal,
            ApprovalGate(approvals),
            clock or SystemClock(),
            observer or Silent(),
            timing or Timing(),
            self._permission,
            signs or SignsOfLife(),
        )
        self._began = self._ports.clock.monotonic()
        self._stopped = False
        self._session = Session(self._ports.observer)

    def stop(self) -> None:
        """End after the wave that is under way; what was not begun is left to a resume. Safe from a signal handler."""
        self._stopped = True

    async def plan(self, scope: Scope, designated: Designated | None = None) -> Plan:
        """Look and decide, and change nothing. `designated`: leaders a person chose, held to the same guards."""
        evidence = await self._gather(scope)
        now = await self._permission()
        evidence = self._held_against(evidence, now)
        return await self._apart(partial(decide, evidence, now.policy, designated=designated or {}))

    async def recover(
        self,
        scope: Scope,
        designated: Designated | None = None,
        ranked: Ranking | None = None,
    ) -> Report:
        """The whole way, until each partition of the scope has an outcome. `ranked`: as in `decide`.

        Partitions that the cluster changed meanwhile go back to deciding: a new plan, a new approval. Assignment orders
        that an earlier run left behind are put back first: a plan would take them for the original ones. Each look is
        held against what people attest at that moment.
        """
        execution, session = self._begin()
        session.left_behind = await self._end_earlier_runs(execution, await self._unfinished())
        evidence = await self._gather(scope)
        while True:
            plan = await self._decide(evidence, designated or {}, ranked or {}, session)
            try:
                with session.told(plan):
                    again = await execution.carry_out(plan)
            except ClusterFault:
                return session.report()
            again = self._worth_trying(plan, again, session)
            if again:
                await self._ports.clock.sleep(self._effort.pause)
            halted = (await self._permission()).halted
            if halted:
                for id, reason in again.items():
                    session.refuse(id, Reason(halted.code, f"{halted.message}; last seen: {reason}"))
            if halted or not again:
                return session.report()
            try:
                evidence = await self._gather(Scope(tuple(sorted(again))), evidence)
            except ClusterFault as fault:
                for id in again:  # nothing of theirs is under way: orders that were set for them are restored
                    session.refuse(id, fault.reason)
                return session.report()

    async def execute(self, plan: Plan) -> Report:
        """Carry out exactly this plan once it is approved; what changed since is refused, not re-planned.

        A run of the same plan that was cut short is gone on with. Raises InvalidDocument for a plan that does not hold
        together, PlanFinished for one that has been executed to its end.
        """
        execution, session = self._begin()
        check_plan(plan)
        around = await execution.check_cluster(plan)
        entries = await self._unfinished()
        digest = digest_of(plan) if entries else ""  # of a large plan it takes a while, and recording it tells it, too
        session.left_behind = await self._end_earlier_runs(execution, entries, but=digest)
        damaged = (entry for entry in entries if isinstance(entry, DamagedRun) and digest.startswith(entry.name))
        if own := next(damaged, None):
            for id in plan.elections:
                session.conclude(PartitionOutcome(id, Outcome.IN_DOUBT, own.why, order_restored=None))
            return session.report()
        begun = next((run for run in entries if isinstance(run, Run) and run.digest == digest), None)
        if begun:
            await execution.take_over(begun, go_on=True, asks=True)
            return session.report()
        with suppress(ClusterFault), session.told(plan):
            again = await execution.carry_out(plan, around)
            await execution.conclude_changed(plan, again)
        return session.report()

    async def resume(self, kept_off: Mapping[TopicPartition, Reason] = NOWHERE) -> Report:
        """Go on with every unfinished run: what leads is verified, what does not is elected if its approval stands.

        Nobody is asked, and what the journal says of approvals counts for nothing. `kept_off`: partitions in which
        nobody is elected, and why; orders that were altered there are put back all the same.
        """
        return await self._take_over_all(kept_off, go_on=True)

    async def undo(self) -> Report:
        """Restore every assignment order that is still one of ours. Leaders stay: an election has no undo."""
        return await self._take_over_all(NOWHERE, go_on=False)

    async def _take_over_all(self, kept_off: Mapping[TopicPartition, Reason], *, go_on: bool) -> Report:
        """What was left by runs that can't be read is told, and nobody is elected there."""
        execution, session = self._begin()
        session.kept_off = kept_off
        entries = await self._unfinished()
        session.left_behind = LeftBehind.by(entries)
        for id, reason in session.left_behind.at.items():
            session.conclude(PartitionOutcome(id, Outcome.IN_DOUBT, reason, order_restored=None))
        for run in entries:
            if isinstance(run, Run):
                await execution.take_over(run, go_on=go_on)
        return session.report()

    async def left_altered(self, plan: Plan) -> Sequence[TopicPartition]:
        """The partitions that stand in the order in which this plan elects, or can't be seen; whoever wrote it."""
        runs = Session(Silent()).begin(plan, plan.elections.values())
        looks = await self._ports.cluster.leaders(tuple(runs), self._ports.timing.rpc, plan.evidence.cluster.as_of)
        return [id for id, run in runs.items() if order_is_ours(looks[id], run) is not False]

    def so_far(self) -> Report:
        """What the call under way has concluded, or the last one did: whatever it raised, that much is known."""
        return self._session.report()

    def _begin(self) -> tuple[Execution, Session]:
        self._began = self._ports.clock.monotonic()
        self._session = Session(self._ports.observer)
        return Execution(self._ports, self._stages, self._session), self._session

    async def _gather(self, scope: Scope, before: Evidence | None = None) -> Evidence:
        """Look at everything, again where it may have changed since the look `before`.

        Raises ViewStandsStill where no partition is seen to be offline, by metadata too old.
        """
        policy = (await self._permission()).policy
        evidence = await look_again(self._ports.cluster, scope, policy.widest_evidence_rules, before)
        nothing = scope.partitions is None and not evidence.partitions
        if nothing and (old := stands_still(evidence, policy)):
            raise ViewStandsStill(old)
        return evidence

    async def _decide(self, evidence: Evidence, designated: Designated, ranked: Ranking, session: Session) -> Plan:
        """Decide; partitions whose clean member is back wait for it, each as long as the policy's patience allows."""
        now = await self._permission()
        evidence = self._held_against(evidence, now)
        began = self._ports.clock.monotonic()
        kept_off = session.left_behind.reasons(partition.id for partition in evidence.partitions)
        deciding = partial(decide, evidence, now.policy, designated=designated, ranked=ranked, kept_off=kept_off)
        plan = await self._apart(deciding)
        waiting = [decision.id for decision in plan.decisions if decision.verdict is Verdict.WAIT]
        waited = {id: session.clean_members.waited(id, self._ports.clock.monotonic()) for id in waiting}
        if any(waited.values()):
            plan = await self._apart(partial(deciding, waited=waited))
        if now.halt and not now.policy.rules:
            plan = _without_rules(plan, now.halt)
        self._ports.observer.decided(plan, self._ports.clock.monotonic() - began)
        return plan

    def _held_against(self, evidence: Evidence, now: Permission) -> Evidence:
        """The look with what people attest."""
        evidence = attested(evidence, now.attestations or ())
        self._ports.signs.saw(evidence.cluster.attestations)
        return evidence

    def _worth_trying(
        self, plan: Plan, again: Mapping[TopicPartition, Reason], session: Session
    ) -> dict[TopicPartition, Reason]:
        """Those to be decided again; what has been tried often enough or waited for long enough is refused."""
        now = self._ports.clock.monotonic()
        verdicts = {decision.id: decision.verdict for decision in plan.decisions}
        worth = {}
        for id, reason in again.items():
            if verdicts[id] is Verdict.NOTHING:  # 5 ms each until a broker with many new partitions answers for all
                enough = session.silent_leaders.waited(id, now) > self._ports.timing.patience(len(again))
            elif verdicts[id] is Verdict.ELECT:
                session.tries[id] += 1
                enough = session.tries[id] > self._effort.attempts
            else:
                enough = False  # to wait has its own end: the policy's patience
            if enough:
                session.refuse(id, reason)
            else:
                worth[id] = reason
        if worth and all(verdicts[id] is not Verdict.ELECT for id in worth):
            self._ports.observer.waiting(next(iter(worth.values())), self._effort.pause)
        return worth

    async def _unfinished(self) -> Sequence[Run | DamagedRun]:
        """What the journal tells of; a plan that does not hold together is damage as well."""
        return [_checked(entry) for entry in await self._ports.journal.unfinished()]

    async def _end_earlier_runs(
        self, execution: Execution, entries: Sequence[Run | DamagedRun], but: str | None = None
    ) -> LeftBehind:
        """Put back what cut-short runs left behind and close them; returns what was not put back.

        Where no order was altered, an election may still be held by a broker that is silent.
        """
        earlier, inherited = replace(execution, session=Session(Silent())), []
        for run in entries:
            if isinstance(run, Run) and run.digest != but:
                inherited.append(execution.session.take_over(run))
                await earlier.take_over(run, go_on=False)
        message = (
            "an earlier run altered its assignment order, or may have, and nobody saw it put back: a plan would keep it"
            " for good"
        )
        reason = Reason("OrderNotRestored", message)
        outcomes = earlier.session.report().outcomes
        own = {outcome.id for outcome in outcomes if outcome.order_restored}
        for taken_over in inherited:
            for id in own & taken_over.keys():
                taken_over[id].note_put_back()
        left = [outcome for outcome in outcomes if not outcome.is_settled]
        still = {o.id: (o.order_restored and o.reason) or reason for o in left}
        damaged = LeftBehind.by(entries)
        unaltered, standing = (
            frozenset(o.id for o in left if o.order_restored is known) - damaged.at.keys() for known in (True, False)
        )
        return replace(damaged, at=still | dict(damaged.at), unaltered=unaltered, standing=standing)

    async def _permission(self) -> Permission:
        """What is allowed now; that this call was told to stop, or is out of time, halts it as its owners would."""
        now = await self._supervision.permission()
        said = None if now.attestations is None else self._ports.signs.applied(now.attestations)
        return replace(now, halt=self._over() or now.halt, leaving=self._stopped, attestations=said)

    def _over(self) -> Reason | None:
        if self._stopped:
            return Reason("Interrupted", "the run was told to stop before this partition's wave; run again to go on")
        within = self._effort.within
        if within is not None and self._ports.clock.monotonic() - self._began > within:
            return Reason(
                "Interrupted", f"the {within.total_seconds():g} s allowed were over before its wave; run again"
            )
        return None


def _checked(entry: Run | DamagedRun) -> Run | DamagedRun:
    if isinstance(entry, Run):
        try:
            check_plan(entry.plan)
        except InvalidDocument as wrong:
            message = (
                f"plan {entry.digest[:12]}, which has begun, does not hold together: {wrong}. Nothing of it is "
                "touched; compare the assignment orders of its partitions in Kafka with the ones that you want"
            )
            return DamagedRun(
                entry.digest, Reason("JournalDamaged", message), entry.begun | entry.plan.elections.keys()
            )
    return entry


def _without_rules(plan: Plan, halt: Reason) -> Plan:
    """A halted run that has no rules at all has not got its policy: that no rule selects a topic says nothing."""
    refused = (replace(each, reason=halt) if each.verdict is Verdict.REFUSE else each for each in plan.decisions)
    return replace(plan, decisions=tuple(refused))
