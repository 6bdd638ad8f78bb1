"""Carrying out one plan, from its record to its last outcome; and bringing one to its end that was cut short."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from kafka_recovery.decision.recheck import before, stands_still
from kafka_recovery.domain.election import Gone, Leadership, Relay, Scope, Sighting
from kafka_recovery.domain.evidence import ClusterState, Evidence, MissingPartition
from kafka_recovery.domain.ids import MetadataOffset, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.recovery.approval_gate import ApprovalGate
from kafka_recovery.recovery.doubt import Doubt
from kafka_recovery.recovery.looks import see_what_came
from kafka_recovery.recovery.outcomes import is_silent, lead_of, leader_of_before, leader_silent
from kafka_recovery.recovery.partition_run import Ending, OrderRead, PartitionRun, State, is_gone
from kafka_recovery.recovery.ports import (
    Clock,
    Cluster,
    Election,
    Journal,
    Observer,
    PlanForAnotherCluster,
    Run,
    Stage,
)
from kafka_recovery.recovery.rollout import Rollout, did_not_verify
from kafka_recovery.recovery.session import Session
from kafka_recovery.recovery.supervision import Permission, unapproved
from kafka_recovery.recovery.timing import Timing
from kafka_recovery.recovery.wave import WaveSteps


@dataclass(frozen=True, slots=True)
class Stages:
    """Steps of a run that others bring; None: there is none, and the journal tells of none."""

    save: Stage | None = None
    after: Stage | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """The ports of an engine, and what the owners of a run allow: all that a plan is carried out with."""

    cluster: Cluster
    election: Election
    journal: Journal
    gate: ApprovalGate
    clock: Clock
    observer: Observer
    timing: Timing
    permission: Callable[[], Awaitable[Permission]]
    stages: Stages

    async def carry_out(self, plan: Plan, session: Session) -> dict[TopicPartition, Reason]:
        """Give every partition of the plan its outcome; returns those that have to be decided again, and why.

        Whatever it raises, each partition has an outcome then.
        """
        with session.told(plan):
            return await self._carry_out(plan, session)

    async def _carry_out(self, plan: Plan, session: Session) -> dict[TopicPartition, Reason]:
        session.remember(plan.evidence)
        await self._conclude_missing(plan.evidence.missing, session)
        again: dict[TopicPartition, Reason] = {}
        for decision in plan.decisions:
            reason = decision.reason or Reason(str(decision.verdict), "no reason was given")
            if decision.verdict is Verdict.REFUSE:
                session.refuse(decision.id, reason)
            elif decision.verdict is Verdict.WAIT:
                again[decision.id] = reason
        kept_off = session.keep_off(plan.elections)
        elected = {id: decision for id, decision in plan.elections.items() if id not in kept_off}
        if elected:
            again |= await self._elect(plan, elected, session)
        return again | await self._conclude_online(plan, session)

    async def _elect(
        self, plan: Plan, elected: Mapping[TopicPartition, Decision], session: Session
    ) -> dict[TopicPartition, Reason]:
        """Record, have approved, and roll out."""
        digest = await self.journal.record(plan)
        self.observer.planned(plan, digest)
        approved = await self._approved(plan, digest, elected, session)
        if not approved:
            return {}
        session.plans.append(digest)
        again = await self._roll_out(self._steps(plan, digest), approved, session, count(1))
        session.open[digest] = tuple(elected)
        for each, partitions in tuple(session.open.items()):
            if session.settled(partitions, again):  # a later plan may have settled what an earlier one left open
                del session.open[each]
                await self.journal.finished(each)
        return again

    async def _approved(
        self, plan: Plan, digest: str, elected: Mapping[TopicPartition, Decision], session: Session
    ) -> dict[TopicPartition, Decision]:
        """The elections that may be held; the others are concluded as refused."""
        now = await self.permission()
        if now.halted:
            for id in elected:
                session.refuse(id, now.halted)
            return {}
        by = await self.gate.ask(plan, digest, elected.values(), now)
        reasons = {} if by else {id: unapproved(decision, now, digest) for id, decision in elected.items()}
        for id, reason in sorted(reasons.items(), key=lambda refused: refused[0]):
            if reason:
                session.postponed.add(id)
                session.refuse(id, reason)
        approved = {id: decision for id, decision in elected.items() if not reasons.get(id)}
        if approved:
            await self.journal.approved(digest, by)
        return approved

    def _steps(self, plan: Plan, digest: str) -> WaveSteps:
        return WaveSteps(
            plan,
            digest,
            self.cluster,
            self.election,
            self.journal,
            self.clock,
            self.observer,
            self.timing,
            {partition.id: partition for partition in plan.evidence.partitions},
            before(plan),
            Doubt(self.cluster, self.journal, self.clock, self.observer, self.timing, self.permission),
        )

    async def _roll_out(
        self,
        steps: WaveSteps,
        elected: Mapping[TopicPartition, Decision],
        session: Session,
        numbers: Iterator[int],
        begun: Iterable[TopicPartition] = (),
        left: Set[str] = frozenset(),
    ) -> dict[TopicPartition, Reason]:
        """Save, elect wave after wave in the plan's order, and see to what comes after.

        `left`: the stages that the run has behind it. Returns the partitions that are to be decided again.
        """
        lost = {} if "save" in left else await self._go_through("save", self.stages.save, steps, tuple(elected))
        for id, reason in lost.items():
            session.refuse(id, reason)
        in_order = [id for wave in steps.plan.waves for id in wave if id in elected and id not in lost]
        runs = session.begin(steps.plan, [elected[id] for id in in_order])
        rollout = Rollout(steps, session, numbers, self.permission, self.gate, begun=begun)
        again = await rollout.run(tuple(runs.values()))
        unfinished = await self._go_through("after", self.stages.after, steps, session.recovered(in_order))
        for id, reason in unfinished.items():
            session.warn(id, reason)
        return again

    async def _go_through(
        self, name: str, stage: Stage | None, steps: WaveSteps, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Reason]:
        if stage is None or not partitions:
            return {}
        await self.journal.stage_entered(steps.digest, name)
        failed = await stage.go_through(steps.plan, steps.digest, partitions)
        if not failed:
            await self.journal.stage_left(steps.digest, name)
        return failed

    # A run that was cut short

    async def take_over(self, run: Run, session: Session, *, go_on: bool) -> None:
        """Bring a run that was cut short to its end: orders first, then what leads, then, to `go_on`, the rest."""
        cluster = await self.check_cluster(run.plan)
        session.plans.append(run.digest)
        runs = session.take_over(run)
        with suppress(ClusterFault), session.told(run.plan):
            relays = _relays(run, cluster)
            steps = self._steps(run.plan, run.digest)
            over = not run.in_flight or await steps.doubt.end(run.digest, None, relays)
            now = await self.permission()
            if now.leaving and now.halt:
                session.give_up(run.plan, now.halt)
            elif not over:
                session.give_up(run.plan, _still_silent(relays))
            else:
                await self._bring_to_its_end(run, runs, steps, session, go_on=go_on)

    async def check_cluster(self, plan: Plan) -> ClusterState:
        """The cluster that answers; raises PlanForAnotherCluster if the plan was not made for it."""
        rules = (await self.permission()).policy.widest_evidence_rules
        found = (await self.cluster.gather(Scope(()), rules)).cluster
        if found.cluster_id != plan.cluster_id:
            raise PlanForAnotherCluster(plan.cluster_id, found.cluster_id)
        return found

    async def _bring_to_its_end(
        self, run: Run, runs: dict[TopicPartition, PartitionRun], steps: WaveSteps, session: Session, *, go_on: bool
    ) -> None:
        """`runs`: what it had begun; of the others somebody may have had the same idea: their orders are not ours."""
        elected = run.plan.elections
        for number in run.in_flight:
            await self.journal.wave_ended(run.digest, number, ())
        numbers = count(run.waves + 1)
        _, answers = await steps.put_back(next(numbers), tuple(runs.values()))
        runs |= session.begin(run.plan, [decision for id, decision in elected.items() if id not in runs])
        patience = self.timing.patience(len(elected)) if go_on else timedelta(0)
        looks = await self._await_leaders(elected, patience, steps.as_of)
        left = {}
        for id, decision in elected.items():
            if see_what_came(runs[id], looks[id]):
                runs[id].apply(OrderRead(looks[id], answers.get(id)))
            unknown = go_on and runs[id].ending is Ending.UNKNOWN and session.end(runs[id]) is None
            if not unknown and not _conclude_found(runs[id], looks[id], session):
                left[id] = decision
            elif runs[id].begun and (failure := session.failure(id)):
                session.failed = did_not_verify(id, failure)
        if go_on:
            kept_off = session.keep_off(left)
            left = {id: decision for id, decision in left.items() if id not in kept_off}
            again = await self._roll_out(steps, left, session, numbers, begun=run.begun, left=run.stages)
            await self.conclude_changed(run.plan, again, session)
        else:
            undone = Reason("Undone", "its recovery was ended; the assignment order is the original one")
            for id in left:
                session.conclude(PartitionOutcome(id, Outcome.REFUSED, undone))
        if session.settled(elected):
            await self.journal.finished(run.digest)

    # Whoever leads

    async def conclude_changed(self, plan: Plan, again: Mapping[TopicPartition, Reason], session: Session) -> None:
        """Conclude what would have to be decided again: a leader that is back is verified, the rest refused."""
        decisions = {decision.id: decision for decision in plan.decisions if decision.id in again}
        runs = session.begin(plan, decisions.values())
        online = any(decision.verdict is not Verdict.ELECT for decision in decisions.values())
        old, as_of = await self._age_of_view(plan) if online else (None, plan.evidence.cluster.as_of)
        looks = await self._await_leaders(decisions, self.timing.patience(len(decisions)), as_of)
        for id, decision in decisions.items():
            look = looks[id]
            see_what_came(runs[id], look)
            lead = lead_of(look)
            if lead and decision.verdict is not Verdict.ELECT and old:
                session.refuse(id, old)
            elif lead and decision.verdict is not Verdict.ELECT and session.leads_since(decision, lead):
                session.conclude(session.online(decision, lead, look))
            elif not _conclude_found(runs[id], look, session):
                session.refuse(id, again[id])

    async def _conclude_missing(self, missing: Sequence[MissingPartition], session: Session) -> None:
        """Conclude what could not be looked at: refused, or not known any more, if an election of it was held."""
        held = [each.id for each in missing if session.has_elected(each.id)]
        looks = await self.cluster.leaders(held, self.timing.rpc) if held else {}
        for each in missing:
            unknown = each.id in looks and not isinstance(looks[each.id], Gone)
            outcome = Outcome.IN_DOUBT if unknown else Outcome.REFUSED
            session.conclude(PartitionOutcome(each.id, outcome, each.reason))

    async def _conclude_online(self, plan: Plan, session: Session) -> dict[TopicPartition, Reason]:
        """Conclude the partitions that were found with a leader; returns those whose leader does not answer (yet)."""
        found = {decision.id: decision for decision in plan.decisions if decision.verdict is Verdict.NOTHING}
        if not found:
            return {}
        try:
            around = await self._around(plan)
        except ClusterFault as fault:
            return dict.fromkeys(found, fault.reason)
        if old := stands_still(around, plan.policy):
            for id in found:
                session.refuse(id, old)
            return {}
        looks = await self.cluster.leaders(tuple(found), self.timing.rpc, around.cluster.as_of)
        again = {}
        for id, decision in found.items():
            look = looks[id]
            lead = lead_of(look)
            if lead and session.leads_since(decision, lead):
                session.conclude(session.online(decision, lead, look))
            elif lead:
                again[id] = leader_of_before(lead)
            elif isinstance(look, Leadership) and is_silent(look):
                again[id] = leader_silent(look)
            else:
                again[id] = Reason("LeaderGone", "it had a leader a moment ago, and has none any more")
        return again

    async def _around(self, plan: Plan) -> Evidence:
        """What tells whether metadata advance now. After elections the evidence of their plan does not."""
        return await self._look_around(plan) if plan.elections else plan.evidence

    async def _look_around(self, plan: Plan) -> Evidence:
        return await self.cluster.gather(Scope(()), plan.policy.widest_evidence_rules)

    async def _age_of_view(self, plan: Plan) -> tuple[Reason | None, MetadataOffset | None]:
        """Why the leaders that are shown now may be of long ago, and how new a look has to be."""
        try:
            around = await self._look_around(plan)
        except ClusterFault as fault:
            return fault.reason, plan.evidence.cluster.as_of
        return stands_still(around, plan.policy), around.cluster.as_of

    async def _await_leaders(
        self, partitions: Iterable[TopicPartition], patience: timedelta, as_of: MetadataOffset | None
    ) -> dict[TopicPartition, Sighting]:
        """Look until each partition's leader answers, or has none, or had time enough to begin to lead."""
        looks: dict[TopicPartition, Sighting] = {}
        pending: Sequence[TopicPartition] = sorted(partitions)
        until = self.clock.monotonic() + patience
        while pending:
            found = await self.cluster.leaders(pending, self.timing.rpc, as_of)
            looks |= found
            pending = [id for id in pending if is_silent(found[id])]
            if self.clock.monotonic() >= until:
                break
            if pending:
                await self.clock.sleep(self.timing.look)
        return looks


def _relays(run: Run, cluster: ClusterState) -> list[Relay]:
    """Where the brokers are asked through which requests of a run went that was cut short.

    One that stands still gets fenced. Before Kafka 4.0 it is not listed then, so it is where the plan saw it; later,
    one that is not listed was unregistered by somebody, and holds nothing.
    """
    brokers = {broker.id: broker for broker in cluster.brokers}
    if not cluster.lists_fenced:
        brokers = {broker.id: broker for broker in run.plan.evidence.cluster.brokers} | brokers
    noted = [brokers[id] for id in sorted(run.relays & brokers.keys())]
    return [Relay(broker.id, broker.host, broker.port) for broker in noted if broker.host and broker.port]


def _still_silent(relays: Iterable[Relay]) -> Reason:
    brokers = ", ".join(f"{relay.broker} ({relay.host}:{relay.port})" for relay in relays)
    message = f"a request of an earlier run went through broker {brokers}, which gives no sign of life: it may hold it"
    return Reason(
        "RelaySilent",
        f"{message}. Start that broker, or stop it for good and unregister it; then try again. Before Kafka 4.0 "
        "nobody can see who is registered: there, the address of a broker that is stopped for good must refuse "
        "connections",
    )


def _conclude_found(run: PartitionRun, look: Sighting, session: Session) -> bool:
    """Conclude a run that was found with a leader, or with an order that could not be put back."""
    if run.state is State.ALTERED and run.lead is None and run.ending is Ending.AGAIN:
        reason = Reason("OrderNotRestored", "nobody saw its assignment order put back; try again")
        outcome = Outcome.REFUSED if run.unseen is None else Outcome.IN_DOUBT  # it may have been elected
        session.conclude(PartitionOutcome(run.id, outcome, run.unseen or reason, order_restored=False))
        return True
    if run.lead is not None or run.ending is Ending.FAILED:
        return session.end(run) is None
    if isinstance(look, Leadership) and is_silent(look) and not is_gone(look, run.decision):
        reason = leader_silent(look)
        session.conclude(PartitionOutcome(run.id, Outcome.FAILED, reason, look.leader, look.leader_epoch))
        return True
    return False
