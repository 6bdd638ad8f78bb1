"""Recovering offline partitions: gather, decide, write down, approve, re-check, elect, verify, restore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, Offset, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.ports import (
    Approvals,
    Clock,
    Cluster,
    Election,
    Journal,
    Leadership,
    Observer,
    PlanForAnotherCluster,
    Run,
    Scope,
)
from kafka_recovery.recovery.wave import Timing, Wave, ballot_of, wait_out_quarantine

RPC_DEADLINE = timedelta(seconds=10)


class Silent:
    """An observer that watches nothing."""

    def planned(self, plan: Plan, digest: str) -> None:
        """Nothing."""

    def wave_started(self, wave: int, waves: int, partitions: int) -> None:
        """Nothing."""

    def concluded(self, outcome: PartitionOutcome) -> None:
        """Nothing."""

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often one call of the engine tries. `within` None: until every partition has its outcome.

    `attempts`: how often one partition may go back to deciding because the cluster changed under it.
    """

    within: timedelta | None = None
    attempts: int = 3
    pause: timedelta = timedelta(milliseconds=500)


class _Ledger:
    """Outcomes so far, and what is known of the partitions that have none yet."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._outcomes: dict[TopicPartition, PartitionOutcome] = {}
        self.plans: list[str] = []
        self.tries: Counter[TopicPartition] = Counter()
        self.longest: dict[TopicPartition, Offset] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._outcomes

    def conclude(self, outcome: PartitionOutcome) -> None:
        known = self._outcomes.get(outcome.id)
        self._outcomes[outcome.id] = outcome
        if known != outcome:
            self._observer.concluded(outcome)

    def remember_logs(self, evidence: Evidence) -> None:
        for partition in evidence.partitions:
            ends = [replica.log.end for replica in partition.replicas if replica.log]
            self.longest[partition.id] = max(ends, default=Offset(0))

    def report(self) -> Report:
        return Report(tuple(sorted(self._outcomes.values(), key=lambda outcome: outcome.id)), tuple(self.plans))


class Engine:
    """One cluster's recovery. The same engine serves the command line, the operator and the simulator."""

    def __init__(
        self,
        cluster: Cluster,
        election: Election,
        journal: Journal,
        approvals: Approvals,
        policy: Policy,
        *,
        clock: Clock | None = None,
        observer: Observer | None = None,
        timing: Timing | None = None,
        effort: Effort | None = None,
    ) -> None:
        self._cluster = cluster
        self._election = election
        self._journal = journal
        self._approvals = approvals
        self._policy = policy
        self._clock = clock or SystemClock()
        self._observer = observer or Silent()
        self._timing = timing or Timing()
        self._effort = effort or Effort()
        self._began = self._clock.monotonic()
        self._stopped = False

    def stop(self) -> None:
        """End after the wave that is under way; what was not begun is reported as refused. Safe from a signal handler."""
        self._stopped = True

    async def plan(self, scope: Scope, designated: Mapping[TopicPartition, BrokerId] | None = None) -> Plan:
        """Look and decide, and change nothing. `designated`: leaders a person chose, held to the same guards."""
        evidence = await self._cluster.gather(scope, self._policy.widest_evidence_rules)
        return decide(evidence, self._policy, designated=designated or {})

    async def recover(self, scope: Scope, designated: Mapping[TopicPartition, BrokerId] | None = None) -> Report:
        """The whole way, until each partition of the scope has an outcome.

        Partitions that the cluster changed meanwhile go back to deciding: a new plan, a new approval. Raises what the
        ports raise (cluster unavailable, journal unwritable) before anything was changed.
        """
        ledger = _Ledger(self._observer)
        self._began = self._clock.monotonic()
        while True:
            evidence = await self._cluster.gather(scope, self._policy.widest_evidence_rules)
            waited = self._clock.monotonic() - self._began
            plan = decide(evidence, self._policy, waited=waited, designated=designated or {})
            again = await self._carry_out(plan, ledger)
            if not again:
                return ledger.report()
            ledger.remember_logs(evidence)
            if self._give_up(again, ledger):
                return ledger.report()
            scope = Scope(tuple(sorted(again)))
            await self._clock.sleep(self._effort.pause)

    async def execute(self, plan: Plan) -> Report:
        """Carry out exactly this plan once it is approved; what changed since is refused, not re-planned."""
        ledger = _Ledger(self._observer)
        self._began = self._clock.monotonic()
        for partition, reason in (await self._carry_out(plan, ledger)).items():
            ledger.conclude(PartitionOutcome(partition, Outcome.REFUSED, reason))
        return ledger.report()

    async def resume(self) -> Report:
        """Go on with every unfinished run of the journal: what leads is verified, what does not is elected as approved."""
        ledger = _Ledger(self._observer)
        for run in await self._journal.unfinished():
            await self._settle_flight(run)
            ledger.plans.append(run.digest)
            elections = _elections(run.plan)
            await self._conclude_online(run.plan, elections, ledger, waiting_is_fine=True)
            left = {id: decision for id, decision in elections.items() if id not in ledger}
            again = await self._run_waves(run.plan, run.digest, left, ledger, first_wave=run.waves + 1)
            for partition, reason in again.items():
                ledger.conclude(PartitionOutcome(partition, Outcome.REFUSED, reason))
            await self._finish(run.plan, run.digest, ledger)
        return ledger.report()

    async def undo(self) -> Report:
        """Restore every assignment order that is still one of ours; leaders stay as they are (an election has no undo)."""
        ledger = _Ledger(self._observer)
        for run in await self._journal.unfinished():
            await self._settle_flight(run)
            ledger.plans.append(run.digest)
            for id in _elections(run.plan):
                reason = Reason("Undone", "its recovery was undone; the assignment order is the original one")
                ledger.conclude(PartitionOutcome(id, Outcome.REFUSED, reason, order_restored=True))
            await self._finish(run.plan, run.digest, ledger)
        return ledger.report()

    async def _carry_out(self, plan: Plan, ledger: _Ledger) -> dict[TopicPartition, Reason]:
        """Give every partition of the plan its outcome; returns those that have to be decided again, and why."""
        for missing in plan.evidence.missing:
            ledger.conclude(PartitionOutcome(missing.id, Outcome.REFUSED, missing.reason))
        again: dict[TopicPartition, Reason] = {}
        online = {}
        for decision in plan.decisions:
            if decision.verdict is Verdict.REFUSE:
                ledger.conclude(PartitionOutcome(decision.id, Outcome.REFUSED, decision.reason))
            elif decision.verdict is Verdict.WAIT and decision.reason:
                again[decision.id] = decision.reason
            elif decision.verdict is Verdict.NOTHING:
                online[decision.id] = decision
        again |= await self._conclude_online(plan, online, ledger)
        elections = _elections(plan)
        if elections:
            digest = await self._journal.record(plan)
            self._observer.planned(plan, digest)
            approved = await self._approved(plan, digest, elections, ledger)
            if approved:
                ledger.plans.append(digest)
                again |= await self._run_waves(plan, digest, approved, ledger, first_wave=1)
                await self._finish(plan, digest, ledger)
        if again and all(plan_waits(plan, id) for id in again):
            self._observer.waiting(next(iter(again.values())), self._effort.pause)
        return again

    async def _approved(
        self, plan: Plan, digest: str, elections: dict[TopicPartition, Decision], ledger: _Ledger
    ) -> dict[TopicPartition, Decision]:
        """The elections that may be held; the others are concluded as refused."""
        by: str | None = "policy"
        manual = {id for id, decision in elections.items() if decision.needs_approval}
        if manual:
            by = await self._approvals.granted(plan, digest)
        if by is None:
            for id in sorted(manual):
                reason = Reason("ApprovalMissing", f"plan {digest[:12]} was not approved; nothing was changed")
                ledger.conclude(PartitionOutcome(id, Outcome.REFUSED, reason))
            elections = {id: decision for id, decision in elections.items() if id not in manual}
        if elections:
            await self._journal.approved(digest, by or "policy")
        return elections

    async def _run_waves(
        self, plan: Plan, digest: str, elections: dict[TopicPartition, Decision], ledger: _Ledger, first_wave: int
    ) -> dict[TopicPartition, Reason]:
        """Elect wave after wave; returns the partitions that the cluster changed meanwhile."""
        again: dict[TopicPartition, Reason] = {}
        waves = [members for wave in plan.waves if (members := [elections[id] for id in wave if id in elections])]
        halted: Reason | None = None
        for number, members in enumerate(waves, first_wave):
            halted = halted or self._halt()
            if halted:
                for decision in members:
                    ledger.conclude(PartitionOutcome(decision.id, Outcome.REFUSED, halted))
                continue
            self._observer.wave_started(number, first_wave + len(waves) - 1, len(members))
            wave = Wave(self._cluster, self._election, self._journal, self._clock, self._policy, self._timing)
            result = await wave.run(plan, digest, number, members, self._observer)
            again |= result.changed
            for outcome in result.outcomes:
                ledger.conclude(outcome)
            failed = next((o for o in result.outcomes if o.outcome in (Outcome.FAILED, Outcome.UNKNOWN)), None)
            if failed:
                halted = Reason("EarlierWaveFailed", f"{failed.id} of wave {number} did not verify ({failed.reason})")
        return again

    async def _conclude_online(
        self,
        plan: Plan,
        decisions: Mapping[TopicPartition, Decision],
        ledger: _Ledger,
        *,
        waiting_is_fine: bool = False,
    ) -> dict[TopicPartition, Reason]:
        """Conclude partitions whose leader answers; returns those that have a leader who does not."""
        if not decisions:
            return {}
        again = {}
        looks = await self._cluster.leaders(tuple(decisions), RPC_DEADLINE)
        for id, decision in decisions.items():
            look = looks.get(id)
            if look is not None and look.leader is not None and look.log_end is not None:
                elected = decision.verdict is Verdict.ELECT and look.leader_epoch > decision.leader_epoch
                ledger.conclude(self._online(decision, look, ledger.longest.get(id), elected=elected))
            elif not waiting_is_fine:
                message = "it has a leader by the metadata, but the leader does not answer"
                again[id] = (look.problem if look else None) or Reason("LeaderSilent", message)
        return again

    def _online(
        self, decision: Decision, look: Leadership, longest: Offset | None, *, elected: bool
    ) -> PartitionOutcome:
        warnings: tuple[str, ...] = ()
        if longest is not None and look.log_end is not None and look.log_end < longest:
            warnings = (
                f"broker {look.leader} came back with log end {look.log_end}, but a replica was measured with {longest}: "
                f"{longest - look.log_end} records will be truncated there",
            )
        if elected and look.leader == decision.leader:
            return PartitionOutcome(
                decision.id, Outcome.RECOVERED, None, look.leader, look.leader_epoch, look.log_end, warnings=warnings
            )
        reason = Reason("AlreadyOnline", f"broker {look.leader} leads it and answers; nothing unclean was done")
        return PartitionOutcome(
            decision.id, Outcome.RECOVERED_CLEANLY, reason, look.leader, look.leader_epoch, look.log_end, warnings=warnings
        )

    async def _finish(self, plan: Plan, digest: str, ledger: _Ledger) -> None:
        """Restore every order that is still ours, and close the run if none is left and nothing is unknown."""
        elections = _elections(plan)
        looks = await self._cluster.leaders(tuple(elections), RPC_DEADLINE)
        altered = {
            id: decision
            for id, decision in elections.items()
            if id in looks
            and looks[id].topic_id == decision.topic_id
            and looks[id].assignment == decision.order != decision.assignment
        }
        if altered:
            ballots = tuple(ballot_of(decision) for decision in altered.values())
            await self._election.restore(ballots)
            looks = await self._cluster.leaders(tuple(altered), RPC_DEADLINE)
        open_orders = {id for id, decision in altered.items() if id in looks and looks[id].assignment == decision.order}
        outcomes = {outcome.id: outcome for outcome in ledger.report().outcomes if outcome.id in elections}
        for id in open_orders & outcomes.keys():
            ledger.conclude(replace(outcomes[id], order_restored=False))
        unknown = any(outcome.outcome is Outcome.UNKNOWN for outcome in outcomes.values())
        unseen = elections.keys() - looks.keys() if altered else set()
        if not open_orders and not unknown and not unseen:
            await self._journal.finished(digest)

    async def _settle_flight(self, run: Run) -> None:
        """Wait until no request of a wave that was cut short can take effect any more."""
        fresh = await self._cluster.gather(Scope(()), self._policy.widest_evidence_rules)
        if fresh.cluster.cluster_id != run.plan.cluster_id:
            raise PlanForAnotherCluster(
                f"plan {run.digest[:12]} was made for cluster {run.plan.cluster_id}, this is {fresh.cluster.cluster_id}"
            )
        if run.in_flight:
            await wait_out_quarantine(self._clock, self._timing.quarantine, self._observer)
            for wave in run.in_flight:
                await self._journal.wave_ended(run.digest, wave, ())

    def _halt(self) -> Reason | None:
        if self._stopped:
            return Reason("Stopped", "the run was told to stop before this partition's wave; run again to go on")
        within = self._effort.within
        if within is not None and self._clock.monotonic() - self._began > within:
            return Reason("OutOfTime", f"the {within.total_seconds():g} s allowed were over before its wave; run again")
        return None

    def _give_up(self, again: dict[TopicPartition, Reason], ledger: _Ledger) -> bool:
        """Conclude what can't be tried any more; True if nothing is left."""
        halted = self._halt()
        for id, reason in list(again.items()):
            ledger.tries[id] += 0 if reason.code == CLEAN_MEMBER_RETURNING else 1
            if halted or ledger.tries[id] > self._effort.attempts:
                ledger.conclude(PartitionOutcome(id, Outcome.REFUSED, halted if halted else reason))
                del again[id]
        return not again


CLEAN_MEMBER_RETURNING = "CleanMemberReturning"


def plan_waits(plan: Plan, id: TopicPartition) -> bool:
    """Whether the plan's verdict on this partition is to wait."""
    return any(decision.id == id and decision.verdict is Verdict.WAIT for decision in plan.decisions)


def _elections(plan: Plan) -> dict[TopicPartition, Decision]:
    return {decision.id: decision for decision in plan.decisions if decision.verdict is Verdict.ELECT}
