"""Recovering offline partitions: gather, decide, write down, approve, re-check, elect, verify, restore."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import count

from kafka_recovery.decision.planner import Designated, Ranking, decide
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.formats.documents import digest as digest_of
from kafka_recovery.recovery.ballots import check
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.conclusions import Conclusions
from kafka_recovery.recovery.consent import Consent
from kafka_recovery.recovery.ledger import Ledger
from kafka_recovery.recovery.pipeline import Pipeline
from kafka_recovery.recovery.ports import (
    Approvals,
    Clock,
    Cluster,
    Election,
    Histories,
    Journal,
    NoHistories,
    Observer,
    PlanForAnotherCluster,
    Run,
    Silent,
)
from kafka_recovery.recovery.supervision import Mandate, Supervision, Unsupervised
from kafka_recovery.recovery.wave import Timing, Wave


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

    `policy`: one for good, or whoever knows what its owners want now; that is read again before every wave.
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
        histories: Histories | None = None,
    ) -> None:
        self._cluster = cluster
        self._election = election
        self._journal = journal
        self._consent = Consent(approvals)
        self._supervision = Unsupervised(policy) if isinstance(policy, Policy) else policy
        self._clock = clock or SystemClock()
        self._observer = observer or Silent()
        self._timing = timing or Timing()
        self._effort = effort or Effort()
        self._histories = histories or NoHistories()
        self._conclusions = Conclusions(cluster, self._clock, self._timing)
        self._began = self._clock.monotonic()
        self._stopped = False

    def stop(self) -> None:
        """End after the wave that is under way; what was not begun is left to a resume. Safe from a signal handler."""
        self._stopped = True

    async def plan(self, scope: Scope, designated: Designated | None = None) -> Plan:
        """Look and decide, and change nothing. `designated`: leaders a person chose, held to the same guards."""
        evidence = await self._gather(scope)
        histories = await self._histories.known(evidence.partitions)
        policy = (await self._mandate()).policy
        return decide(evidence, policy, designated=designated or {}, histories=histories)

    async def recover(
        self, scope: Scope, designated: Designated | None = None, ranked: Ranking | None = None
    ) -> Report:
        """The whole way, until each partition of the scope has an outcome. `ranked`: as in `decide`.

        Partitions that the cluster changed meanwhile go back to deciding: a new plan, a new approval. Assignment orders
        that an earlier run left behind are put back first: a plan would take them for the original ones.
        """
        ledger = self._begin()
        ledger.held = await self._end_earlier_runs(ledger)
        evidence = await self._gather(scope)
        while True:
            plan = await self._decide(evidence, designated or {}, ranked or {}, ledger)
            try:
                again = await self._carry_out(plan, ledger)
            except ClusterFault as fault:
                ledger.give_up(plan, fault.reason)
                return ledger.report()
            again = self._worth_trying(plan, again, ledger)
            if again:
                await self._clock.sleep(self._effort.pause)
            halted = (await self._mandate()).halted
            if halted:
                for id, reason in again.items():
                    ledger.refuse(id, Reason(halted.code, f"{halted.message}; last seen: {reason}"))
            if halted or not again:
                return ledger.report()
            try:
                evidence = await self._gather(Scope(tuple(sorted(again))))
            except ClusterFault as fault:
                for id in again:  # nothing of theirs is under way: orders that were set for them are restored
                    ledger.refuse(id, fault.reason)
                return ledger.report()

    async def execute(self, plan: Plan) -> Report:
        """Carry out exactly this plan once it is approved; what changed since is refused, not re-planned.

        A run of the same plan that was cut short is gone on with. Raises InvalidDocument for a plan that does not hold
        together, PlanFinished for one that has been executed to its end.
        """
        ledger = self._begin()
        check(plan)
        await self._same_cluster(plan)
        digest = digest_of(plan)
        ledger.held = await self._end_earlier_runs(ledger, but=digest)
        begun = next((run for run in await self._journal.unfinished() if run.digest == digest), None)
        if begun:
            by = await self._consent.ask(plan, digest, plan.elections.values(), await self._mandate())
            await self._journal.approved(digest, by)
            await self._take_over(begun, ledger, go_on=True)
            return ledger.report()
        try:
            again = await self._carry_out(plan, ledger)
            await self._conclusions.changed(plan, again, ledger)
        except ClusterFault as fault:
            ledger.give_up(plan, fault.reason)
        return ledger.report()

    async def resume(self) -> Report:
        """Go on with every unfinished run: what leads is verified, what does not is elected if its approval stands.

        Nobody is asked, and what the journal says of approvals counts for nothing.
        """
        ledger = self._begin()
        for run in await self._journal.unfinished():
            await self._take_over(run, ledger, go_on=True)
        return ledger.report()

    async def undo(self) -> Report:
        """Restore every assignment order that is still one of ours. Leaders stay: an election has no undo."""
        ledger = self._begin()
        for run in await self._journal.unfinished():
            await self._take_over(run, ledger, go_on=False)
        return ledger.report()

    def _begin(self) -> Ledger:
        self._began = self._clock.monotonic()
        return Ledger(self._observer)

    async def _gather(self, scope: Scope) -> Evidence:
        policy = (await self._mandate()).policy
        return await self._cluster.gather(scope, policy.widest_evidence_rules)

    async def _decide(self, evidence: Evidence, designated: Designated, ranked: Ranking, ledger: Ledger) -> Plan:
        """Decide; partitions whose clean member is back wait for it, each as long as the policy's patience allows."""
        histories = await self._histories.known(evidence.partitions)
        policy = (await self._mandate()).policy
        began = self._clock.monotonic()
        deciding = partial(decide, evidence, policy, designated=designated, ranked=ranked, histories=histories)
        plan = deciding()
        waiting = [decision.id for decision in plan.decisions if decision.verdict is Verdict.WAIT]
        waited = ledger.clean_members.shortest(waiting, self._clock.monotonic())
        if waited:
            plan = deciding(waited=waited)
        self._observer.decided(plan, self._clock.monotonic() - began)
        return plan

    def _worth_trying(
        self, plan: Plan, again: Mapping[TopicPartition, Reason], ledger: Ledger
    ) -> dict[TopicPartition, Reason]:
        """Those to be decided again; what has been tried often enough or waited for long enough is refused."""
        now = self._clock.monotonic()
        verdicts = {decision.id: decision.verdict for decision in plan.decisions}
        worth = {}
        for id, reason in again.items():
            if verdicts[id] is Verdict.NOTHING:  # 5 ms each until a broker with many new partitions answers for all
                enough = ledger.silent_leaders.waited(id, now) > self._timing.patience(len(again))
            elif verdicts[id] is Verdict.ELECT:
                ledger.tries[id] += 1
                enough = ledger.tries[id] > self._effort.attempts
            else:
                enough = False  # to wait has its own end: the policy's patience
            if enough:
                ledger.refuse(id, reason)
            else:
                worth[id] = reason
        if worth and all(verdicts[id] is not Verdict.ELECT for id in worth):
            self._observer.waiting(next(iter(worth.values())), self._effort.pause)
        return worth

    async def _end_earlier_runs(self, ledger: Ledger, but: str | None = None) -> Mapping[TopicPartition, Reason]:
        """Put back what cut-short runs left behind and close them; returns the partitions for which that failed."""
        earlier = Ledger(Silent())
        for run in await self._journal.unfinished():
            if run.digest != but:
                ledger.inherit(run)
                await self._take_over(run, earlier, go_on=False)
        message = (
            "an earlier run altered its assignment order, which could not be put back: a plan would keep it for good"
        )
        reason = Reason("OrderStillAltered", message)
        return {outcome.id: reason for outcome in earlier.report().outcomes if not outcome.order_restored}

    async def _carry_out(self, plan: Plan, ledger: Ledger) -> dict[TopicPartition, Reason]:
        """Give every partition of the plan its outcome; returns those that have to be decided again, and why."""
        again: dict[TopicPartition, Reason] = {}
        ledger.remember(plan.evidence)
        for missing in plan.evidence.missing:
            ledger.gone(missing.id, missing.reason)
        for decision in plan.decisions:
            reason = decision.reason or Reason(str(decision.verdict), "no reason was given")
            if decision.verdict is Verdict.REFUSE:
                ledger.refuse(decision.id, reason)
            elif decision.verdict is Verdict.WAIT:
                again[decision.id] = reason
        elected = plan.elections
        for id in ledger.held.keys() & elected.keys():
            ledger.refuse(id, ledger.held[id])
            del elected[id]
        if elected:
            digest = await self._journal.record(plan)
            self._observer.planned(plan, digest)
            approved = await self._approved(plan, digest, elected, ledger)
            if approved:
                ledger.plans.append(digest)
                again |= await self._run_waves(self._wave(plan, digest), approved, ledger, count(1))
                await self._close(digest, elected, ledger)
        return again | await self._conclusions.online(plan, ledger)

    async def _approved(
        self, plan: Plan, digest: str, elected: dict[TopicPartition, Decision], ledger: Ledger
    ) -> dict[TopicPartition, Decision]:
        """The elections that may be held; the others are concluded as refused."""
        now = await self._mandate()
        if now.halted:
            for id in elected:
                ledger.refuse(id, now.halted)
            return {}
        by = await self._consent.ask(plan, digest, elected.values(), now)
        approved = self._consent.within(elected, digest, by, now, ledger)
        if approved:
            await self._journal.approved(digest, by)
        return approved

    def _wave(self, plan: Plan, digest: str) -> Wave:
        return Wave(
            plan,
            digest,
            self._cluster,
            self._election,
            self._journal,
            self._clock,
            self._observer,
            self._timing,
            {partition.id: partition for partition in plan.evidence.partitions},
            self._histories,
        )

    async def _run_waves(
        self, wave: Wave, elected: Mapping[TopicPartition, Decision], ledger: Ledger, numbers: Iterator[int]
    ) -> dict[TopicPartition, Reason]:
        """Elect wave after wave; returns the partitions that the cluster changed meanwhile."""
        waves = [members for ids in wave.plan.waves if (members := [elected[id] for id in ids if id in elected])]
        return await Pipeline(wave, ledger, numbers, self._mandate, self._consent).run(waves)

    async def _close(self, digest: str, elected: Iterable[TopicPartition], ledger: Ledger) -> None:
        """End the run if nothing of it is left to do or to undo."""
        if ledger.settled(elected):
            await self._journal.finished(digest)

    async def _take_over(self, run: Run, ledger: Ledger, *, go_on: bool) -> None:
        """Bring a run that was cut short to its end: orders first, then what leads, then, to `go_on`, the rest."""
        check(run.plan)
        await self._same_cluster(run.plan)
        try:
            await self._bring_to_its_end(run, ledger, go_on=go_on)
        except ClusterFault as fault:
            ledger.give_up(run.plan, fault.reason)

    async def _bring_to_its_end(self, run: Run, ledger: Ledger, *, go_on: bool) -> None:
        wave, elected = self._wave(run.plan, run.digest), run.plan.elections
        if run.in_flight:
            await wave.quarantine(self._timing.quarantine)
            for number in run.in_flight:
                await self._journal.wave_ended(run.digest, number, ())
        ledger.remember(run.plan.evidence)
        ledger.begun |= run.begun
        numbers = count(run.waves + 1)
        ours = tuple(decision for id, decision in elected.items() if id in run.begun)  # else somebody had the same idea
        unrestored = await wave.put_back(next(numbers), ours)
        ledger.plans.append(run.digest)
        patience = self._timing.patience(len(elected)) if go_on else timedelta(0)
        left = await self._conclusions.led(run.plan, elected, ledger, patience, unrestored)
        for id in unrestored & left.keys():
            reason = Reason("OrderStillAltered", "its assignment order could not be put back; try again")
            ledger.conclude(PartitionOutcome(id, Outcome.REFUSED, reason, order_restored=False))
            del left[id]
        if go_on:
            again = await self._run_waves(wave, left, ledger, numbers)
            await self._conclusions.changed(run.plan, again, ledger)
        else:
            undone = Reason("Undone", "its recovery was ended; the assignment order is the original one")
            for id in left:
                ledger.refuse(id, undone)
        await self._close(run.digest, elected, ledger)

    async def _same_cluster(self, plan: Plan) -> None:
        found = (await self._gather(Scope(()))).cluster.cluster_id
        if found != plan.cluster_id:
            raise PlanForAnotherCluster(plan.cluster_id, found)

    async def _mandate(self) -> Mandate:
        """What is allowed now; that this call was told to stop, or is out of time, halts it as its owners would."""
        now = await self._supervision.mandate()
        return replace(now, halt=self._over() or now.halt)

    def _over(self) -> Reason | None:
        if self._stopped:
            return Reason("Stopped", "the run was told to stop before this partition's wave; run again to go on")
        within = self._effort.within
        if within is not None and self._clock.monotonic() - self._began > within:
            return Reason("OutOfTime", f"the {within.total_seconds():g} s allowed were over before its wave; run again")
        return None
