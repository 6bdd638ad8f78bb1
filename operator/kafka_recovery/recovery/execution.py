"""Carrying out one plan, from its record to its last outcome; and bringing one to its end that was cut short."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
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
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.recovery.doubt import Doubt
from kafka_recovery.recovery.engine_ports import EnginePorts
from kafka_recovery.recovery.looks import see_what_came
from kafka_recovery.recovery.outcomes import is_silent, lead_of, leader_of_before, leader_silent
from kafka_recovery.recovery.partition_run import Ending, OrderRead, PartitionRun, State, is_gone
from kafka_recovery.recovery.ports import Hold, PlanForAnotherCluster, Run, Stage
from kafka_recovery.recovery.rollout import Rollout, did_not_verify
from kafka_recovery.recovery.session import Session
from kafka_recovery.recovery.supervision import Permission, unapproved
from kafka_recovery.recovery.wave import WaveSteps


@dataclass(frozen=True, slots=True)
class Stages:
    """Steps of a run that others bring; None: there is none, and the journal tells of none.

    `hold` is no step of the journal: whoever goes on with a run holds again.
    """

    save: Stage | None = None
    after: Stage | None = None
    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """Carries plans out in one call of an engine. Outcomes go to its session."""

    ports: EnginePorts
    stages: Stages
    session: Session

    async def carry_out(self, plan: Plan, around: Evidence | None = None) -> dict[TopicPartition, Reason]:
        """Give every partition of the plan its outcome; returns those that have to be decided again, and why.

        `around`: a look at the cluster that is newer than the plan's; None: the plan was made a moment ago.
        """
        self.session.remember(plan.evidence)
        await self._conclude_missing(plan.evidence.missing)
        again: dict[TopicPartition, Reason] = {}
        for decision in plan.decisions:
            reason = decision.reason or Reason(str(decision.verdict), "no reason was given")
            if decision.verdict is Verdict.REFUSE:
                self.session.refuse(decision.id, reason)
            elif decision.verdict is Verdict.WAIT:
                again[decision.id] = reason
        elected = self.session.keep_off(plan.elections)
        if elected:
            again |= await self._elect(plan, elected)
        return again | await self._conclude_online(plan, around or plan.evidence)

    async def _elect(self, plan: Plan, elected: Mapping[TopicPartition, Decision]) -> dict[TopicPartition, Reason]:
        """Record, have approved, and roll out."""
        digest = await self.ports.journal.record(plan)
        self.ports.observer.planned(plan, digest)
        approved = await self._approved(plan, digest, elected)
        if not approved:
            return {}
        self.session.plans.append(digest)
        again = await self._roll_out(WaveSteps(plan, digest, self.ports, before(plan), count(1)), approved)
        self.session.open[digest] = tuple(elected)
        for each, partitions in tuple(self.session.open.items()):
            if self.session.settled(partitions, again):  # a later plan may have settled what an earlier one left open
                del self.session.open[each]
                await self.ports.journal.finished(each)
        return again

    async def _approved(
        self, plan: Plan, digest: str, elected: Mapping[TopicPartition, Decision]
    ) -> dict[TopicPartition, Decision]:
        """The elections that may be held; the others are concluded as refused."""
        now = await self.ports.permission()
        if now.halted:
            for id in elected:
                self.session.refuse(id, now.halted)
            self.session.postponed |= elected.keys()
            return {}
        await self._let_go_to_ask(plan, digest, elected.values(), now)
        by = await self.ports.gate.ask(plan, digest, elected.values(), now)
        denied = {} if by else unapproved(elected.values(), now, digest)
        for id in sorted(denied):
            self.session.refuse(id, denied[id])
        self.session.postponed |= denied.keys()
        approved = {id: decision for id, decision in elected.items() if id not in denied}
        if approved:
            await self.ports.journal.approved(digest, by)
        return approved

    async def _let_go_to_ask(self, plan: Plan, digest: str, elected: Collection[Decision], now: Permission) -> None:
        """A person may take hours to answer: nobody is kept away meanwhile, unless an election may be under way."""
        hold = self.stages.hold
        if not (hold and hold.keeps_away and self.session.is_quiet):
            return
        if await self.ports.gate.denied(plan, digest, elected, now):
            await hold.let_go()

    async def _roll_out(
        self,
        steps: WaveSteps,
        elected: Mapping[TopicPartition, Decision],
        begun: Iterable[TopicPartition] = (),
        stages_left: Set[str] = frozenset(),
    ) -> dict[TopicPartition, Reason]:
        """Save, elect wave after wave in the plan's order, and see to what comes after.

        `stages_left`: those that the run has behind it. Returns the partitions that are to be decided again.
        """
        lost = {} if "save" in stages_left else await self._go_through("save", self.stages.save, steps, tuple(elected))
        for id, reason in lost.items():
            self.session.refuse(id, reason)
        in_order = [id for wave in steps.plan.waves for id in wave if id in elected and id not in lost]
        if self.stages.hold and in_order:
            await self.stages.hold.hold(steps.plan, in_order)
        runs = self.session.begin(steps.plan, [elected[id] for id in in_order])
        again = await Rollout(steps, self.session, begun).run(tuple(runs.values()))
        unfinished = await self._go_through("after", self.stages.after, steps, self.session.recovered(in_order))
        for id, reason in unfinished.items():
            self.session.warn(id, reason)
        return again

    async def _go_through(
        self, name: str, stage: Stage | None, steps: WaveSteps, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Reason]:
        if stage is None or not partitions:
            return {}
        await self.ports.journal.stage_entered(steps.digest, name)
        failed = await stage.go_through(steps.plan, steps.digest, partitions)
        if not failed:
            await self.ports.journal.stage_left(steps.digest, name)
        return failed

    # A run that was cut short

    async def take_over(self, run: Run, *, go_on: bool, asks: bool = False) -> None:
        """Bring a run that was cut short to its end: orders first, then what leads, then, to `go_on`, the rest.

        `asks`: the approvals of the rest are asked for, not only read. That may take hours, and no order is altered
        meanwhile.
        """
        cluster = (await self.check_cluster(run.plan)).cluster
        self.session.plans.append(run.digest)
        runs = self.session.take_over(run)
        with suppress(ClusterFault), self.session.told(run.plan):
            relays = _relays(run, cluster)
            over = not run.in_flight or await Doubt(self.ports).end(run.digest, None, relays)
            now = await self.ports.permission()
            if now.leaving and now.halt:
                self.session.give_up(run.plan, now.halt)
            elif not over:
                self.session.give_up(run.plan, _still_silent(relays))
            else:
                await self._bring_to_its_end(run, runs, go_on=go_on, asks=asks)

    async def check_cluster(self, plan: Plan) -> Evidence:
        """A look at the cluster that answers; raises PlanForAnotherCluster if the plan was not made for it."""
        found = await self._look_around((await self.ports.permission()).policy)
        if found.cluster.cluster_id != plan.cluster_id:
            raise PlanForAnotherCluster(plan.cluster_id, found.cluster.cluster_id)
        return found

    async def _bring_to_its_end(
        self, run: Run, runs: dict[TopicPartition, PartitionRun], *, go_on: bool, asks: bool
    ) -> None:
        """`runs`: what it had begun; of the others somebody may have had the same idea: their orders are not ours.

        Where another run left something that is not settled, nobody is elected by this one, and nothing is concluded.
        """
        elected = {id: each for id, each in run.plan.elections.items() if id in runs or not self.session.is_open(id)}
        for number in run.in_flight:
            await self.ports.journal.wave_ended(run.digest, number, ())
        steps = WaveSteps(run.plan, run.digest, self.ports, before(run.plan), count(run.waves + 1))
        answers = await steps.put_back(tuple(runs.values()))
        runs |= self.session.begin(run.plan, [decision for id, decision in elected.items() if id not in runs])
        patience = self.ports.timing.patience(len(elected)) if go_on else timedelta(0)
        looks = await self._await_leaders(elected, patience, steps.as_of)
        left = {}
        for id, decision in elected.items():
            see_what_came(runs[id], looks[id])
            if runs[id].cut_short:
                runs[id].apply(OrderRead(looks[id], answers.get(id)))
            counts = go_on or runs[id].state is State.ALTERED  # what is put back is undone, whoever leads by now
            unknown = counts and runs[id].ending is Ending.UNKNOWN and self.session.end(runs[id]) is not None
            if not unknown and not self._conclude_found(runs[id], looks[id]):
                left[id] = decision
            elif runs[id].begun and (failure := self.session.failure(id)):
                self.session.failed = did_not_verify(id, failure)
        if go_on:
            left = self.session.keep_off(left)
            if asks and left and not self.session.failed:  # which lets nothing more be elected, whoever says yes
                left = await self._approved(run.plan, run.digest, left)
            again = await self._roll_out(steps, left, begun=run.begun, stages_left=run.stages)
            await self.conclude_changed(run.plan, again)
        else:
            undone = Reason("Aborted", "its recovery was ended; the assignment order is the original one")
            for id in left:
                self.session.conclude(PartitionOutcome(id, Outcome.REFUSED, undone))
        if self.session.settled(run.plan.elections):
            await self.ports.journal.finished(run.digest)

    # Whoever leads

    async def conclude_changed(self, plan: Plan, again: Mapping[TopicPartition, Reason]) -> None:
        """Conclude what would have to be decided again: a leader that is back is verified, the rest refused."""
        decisions = {decision.id: decision for decision in plan.decisions if decision.id in again}
        runs = self.session.begin(plan, decisions.values())
        online = any(decision.verdict is not Verdict.ELECT for decision in decisions.values())
        old, as_of = await self._age_of_view(plan) if online else (None, plan.evidence.cluster.as_of)
        looks = await self._await_leaders(decisions, self.ports.timing.patience(len(decisions)), as_of)
        for id, decision in decisions.items():
            look = looks[id]
            see_what_came(runs[id], look)
            not_elected = decision.verdict is not Verdict.ELECT
            if old and not_elected and lead_of(look):
                self.session.refuse(id, old)
            elif not_elected and (outcome := self.session.online(decision, look)):
                self.session.conclude(outcome)
            elif not self._conclude_found(runs[id], look):
                self.session.refuse(id, again[id])

    def _conclude_found(self, run: PartitionRun, look: Sighting) -> bool:
        """Conclude a run that was found with a leader, or with an order that could not be put back."""
        if run.state is State.ALTERED and run.lead is None and run.ending is Ending.AGAIN:
            reason = Reason("OrderNotRestored", "nobody saw its assignment order put back; try again")
            outcome = Outcome.REFUSED if run.unseen is None else Outcome.IN_DOUBT  # it may have been elected
            self.session.conclude(PartitionOutcome(run.id, outcome, run.unseen or reason, order_restored=run.restored))
            return True
        if run.lead is not None or run.ending is Ending.FAILED:
            return self.session.end(run) is not None
        if isinstance(look, Leadership) and is_silent(look) and not is_gone(look, run.decision):
            reason = leader_silent(look)
            self.session.conclude(PartitionOutcome(run.id, Outcome.FAILED, reason, look.leader, look.leader_epoch))
            return True
        return False

    async def _conclude_missing(self, missing: Sequence[MissingPartition]) -> None:
        """Conclude what could not be looked at: refused, or not known any more, if an election of it was held."""
        held = [each.id for each in missing if self.session.has_elected(each.id)]
        looks = await self.ports.cluster.leaders(held, self.ports.timing.rpc) if held else {}
        for each in missing:
            unknown = each.id in looks and not isinstance(looks[each.id], Gone)
            outcome = Outcome.IN_DOUBT if unknown else Outcome.REFUSED
            self.session.conclude(PartitionOutcome(each.id, outcome, each.reason))

    async def _conclude_online(self, plan: Plan, around: Evidence) -> dict[TopicPartition, Reason]:
        """Conclude the partitions that were found with a leader; returns those whose leader does not answer (yet).

        `around`: the last look before the elections; after them it does not tell any more whether metadata advance.
        """
        found = {decision.id: decision for decision in plan.decisions if decision.verdict is Verdict.NOTHING}
        if not found:
            return {}
        try:
            around = await self._look_around(plan.policy) if plan.elections else around
        except ClusterFault as fault:
            return dict.fromkeys(found, fault.reason)
        if old := stands_still(around, plan.policy):
            for id in found:
                self.session.refuse(id, old)
            return {}
        looks = await self.ports.cluster.leaders(tuple(found), self.ports.timing.rpc, around.cluster.as_of)
        again = {}
        for id, decision in found.items():
            look = looks[id]
            if outcome := self.session.online(decision, look):
                self.session.conclude(outcome)
            elif lead := lead_of(look):
                again[id] = leader_of_before(lead)
            elif isinstance(look, Leadership) and is_silent(look):
                again[id] = leader_silent(look)
            else:
                again[id] = Reason("LeaderGone", "it had a leader a moment ago, and has none any more")
        return again

    async def _look_around(self, policy: Policy) -> Evidence:
        return await self.ports.cluster.gather(Scope(()), policy.widest_evidence_rules)

    async def _age_of_view(self, plan: Plan) -> tuple[Reason | None, MetadataOffset | None]:
        """Why the leaders that are shown now may be of long ago, and how new a look has to be."""
        try:
            around = await self._look_around(plan.policy)
        except ClusterFault as fault:
            return fault.reason, plan.evidence.cluster.as_of
        return stands_still(around, plan.policy), around.cluster.as_of

    async def _await_leaders(
        self, partitions: Iterable[TopicPartition], patience: timedelta, as_of: MetadataOffset | None
    ) -> dict[TopicPartition, Sighting]:
        """Look until each partition's leader answers, or has none, or had time enough to begin to lead.

        Who answered while others were waited for is looked at again: a leader may be gone by then.
        """
        looks: dict[TopicPartition, Sighting] = {}
        found: Mapping[TopicPartition, Sighting] = {}
        pending: Sequence[TopicPartition] = sorted(partitions)
        until = self.ports.clock.monotonic() + patience
        while pending:
            found = await self.ports.cluster.leaders(pending, self.ports.timing.rpc, as_of)
            looks |= found
            pending = [id for id in pending if is_silent(found[id])]
            if self.ports.clock.monotonic() >= until:
                break
            if pending:
                await self.ports.clock.sleep(self.ports.timing.look)
        if before := [id for id in looks if id not in found]:
            looks |= await self.ports.cluster.leaders(before, self.ports.timing.rpc, as_of)
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
        f"{message}. Start that broker with its own, intact disk; or keep it off, KEEP its volume, and unregister it; "
        "then try again. Before Kafka 4.0 nobody can see who is registered: there, the address of a broker that is "
        "kept off must refuse connections",
    )
