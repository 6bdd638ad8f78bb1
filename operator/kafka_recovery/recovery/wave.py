"""One wave: re-check, elect, verify each new leader by its own answer, restore the assignment order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from kafka_recovery.decision.planner import recheck
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ports import (
    Answer,
    Ballot,
    Clock,
    Cluster,
    Election,
    Journal,
    Lead,
    Leadership,
    Observer,
    PlanForAnotherCluster,
    Scope,
)


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of one wave.

    `quarantine`: how long an unanswered request may still take effect (a KRaft broker forwards to the controller for
    60 s). `verify`: how long new leaders may take to answer, plus `verify_each` a partition (a broker needs about 5 ms
    for each). `poll`: between two questions to new leaders; `look`: between two readings of the metadata.
    """

    quarantine: timedelta = timedelta(seconds=60)
    verify: timedelta = timedelta(seconds=30)
    verify_each: timedelta = timedelta(milliseconds=30)
    poll: timedelta = timedelta(milliseconds=20)
    look: timedelta = timedelta(seconds=1)
    rpc: timedelta = timedelta(seconds=10)


@dataclass(slots=True)
class WaveResult:
    """Outcomes of a wave, and the partitions that the cluster changed under it."""

    outcomes: list[PartitionOutcome] = field(default_factory=list)
    changed: dict[TopicPartition, Reason] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wave:
    """What one wave needs; `run` is the wave."""

    cluster: Cluster
    election: Election
    journal: Journal
    clock: Clock
    policy: Policy
    timing: Timing

    async def run(
        self, plan: Plan, digest: str, number: int, decisions: Sequence[Decision], observer: Observer
    ) -> WaveResult:
        """Carry the wave out. Whatever happens, orders are restored before it returns, or said to be not."""
        result = WaveResult()
        evidence = {partition.id: partition for partition in plan.evidence.partitions}
        go = await self._recheck(plan, evidence, decisions, result)
        if not go:
            return result
        ballots = {decision.id: ballot_of(decision) for decision in go}
        await self.journal.wave_started(digest, number, tuple(ballots))
        answers = await self.election.elect(tuple(ballots.values()))
        asked_at = self.clock.monotonic()
        verification = _Verification({d.id: d for d in go}, evidence, result)
        pending = set()
        for id in ballots:
            answer = answers[id]
            if answer.answer in (Answer.ACCEPTED, Answer.NOT_NEEDED):
                pending.add(id)
            elif answer.answer is not Answer.UNANSWERED:
                reason = answer.reason or Reason("ElectionRefused", "the controller refused the election")
                verification.refused(id, reason, worth_another_try=answer.answer is Answer.CHANGED)
        await self._verify(pending, verification)
        unanswered = {id for id in ballots if answers[id].answer is Answer.UNANSWERED}
        if unanswered:
            left = self.timing.quarantine - (self.clock.monotonic() - asked_at)
            await wait_out_quarantine(self.clock, left, observer)
            await self._verify(unanswered, verification, only_look=True)
        await self._restore(tuple(ballots.values()), verification)
        await self.journal.wave_ended(digest, number, result.outcomes)
        return result

    async def _recheck(
        self,
        plan: Plan,
        evidence: Mapping[TopicPartition, PartitionEvidence],
        decisions: Sequence[Decision],
        result: WaveResult,
    ) -> list[Decision]:
        """The decisions that still hold; the others are noted as changed."""
        scope = Scope(tuple(decision.id for decision in decisions))
        fresh: Evidence = await self.cluster.gather(scope, self.policy.widest_evidence_rules)
        if fresh.cluster.cluster_id != plan.cluster_id:
            raise PlanForAnotherCluster(
                f"the plan was made for cluster {plan.cluster_id}, this is {fresh.cluster.cluster_id}"
            )
        go = []
        for decision in decisions:
            reason = recheck(decision, evidence[decision.id], fresh, self.policy)
            if reason is None:
                go.append(decision)
            else:
                result.changed[decision.id] = reason
        return go

    async def _verify(
        self, pending: set[TopicPartition], verification: _Verification, *, only_look: bool = False
    ) -> None:
        """Wait until each pending partition's new leader answered, or it is clear that none will."""
        pending = set(pending)
        began = last_look = self.clock.monotonic()
        patience = self.timing.verify + self.timing.verify_each * len(pending)
        wait_before_look = timedelta(0) if only_look else self.timing.look
        while pending:
            candidates = {id: verification.decisions[id].leader for id in pending}
            leads = await self.cluster.answering({i: b for i, b in candidates.items() if b is not None}, self.timing.rpc)
            pending -= {id for id, lead in leads.items() if verification.leads(id, lead)}
            now = self.clock.monotonic()
            overdue = now - began > patience
            if pending and (overdue or only_look or now - last_look >= wait_before_look):
                looks = await self.cluster.leaders(tuple(sorted(pending)), self.timing.rpc)
                final = overdue or only_look
                pending -= {id for id in pending if verification.looked(id, looks.get(id), final=final)}
                last_look = now
            if pending:
                await self.clock.sleep(self.timing.poll)

    async def _restore(self, ballots: Sequence[Ballot], verification: _Verification) -> None:
        """Put the original orders back, see that they are, and complete the outcomes with what the look shows."""
        answers = await self.election.restore(ballots)
        began = self.clock.monotonic()
        while True:
            looks = await self.cluster.leaders([ballot.id for ballot in ballots], self.timing.rpc)
            altered = {b.id for b in ballots if b.id in looks and looks[b.id].assignment == b.order != b.assignment}
            answered = any(answers[id].answer is not Answer.UNANSWERED for id in altered)
            if not altered or not answered or self.clock.monotonic() - began > self.timing.rpc:
                break
            await self.clock.sleep(self.timing.poll)
        unseen = {ballot.id for ballot in ballots} - looks.keys()
        verification.complete(looks, altered | unseen)


@dataclass(slots=True)
class _Verification:
    """Turns what leaders and metadata say into outcomes."""

    decisions: Mapping[TopicPartition, Decision]
    evidence: Mapping[TopicPartition, PartitionEvidence]
    result: WaveResult
    answered: dict[TopicPartition, Lead] = field(default_factory=dict)
    failed: dict[TopicPartition, PartitionOutcome] = field(default_factory=dict)

    def refused(self, id: TopicPartition, reason: Reason, *, worth_another_try: bool) -> None:
        """The controller did not elect."""
        if worth_another_try:
            self.result.changed[id] = reason
        else:
            self.failed[id] = PartitionOutcome(id, Outcome.REFUSED, reason)

    def leads(self, id: TopicPartition, lead: Lead) -> bool:
        """Note that a broker answers as leader; False if that is still the old epoch."""
        if lead.leader_epoch <= self.decisions[id].leader_epoch:
            return False
        self.answered[id] = lead
        return True

    def looked(self, id: TopicPartition, look: Leadership | None, *, final: bool) -> bool:
        """Note what the metadata shows of a partition whose designated leader does not answer; True if that settles it."""
        decision = self.decisions[id]
        if look is None or look.topic_id != decision.topic_id:
            reason = Reason("TopicGone", f"topic {id.topic} was deleted or recreated while its leader was being elected")
            self.failed[id] = PartitionOutcome(id, Outcome.FAILED, reason)
            return True
        if look.leader is not None and look.log_end is not None and look.leader_epoch > decision.leader_epoch:
            return self.leads(id, Lead(look.leader, look.leader_epoch, look.log_end))
        if look.leader is None and look.leader_epoch > decision.leader_epoch:
            message = f"broker {decision.leader} was elected in epoch {look.leader_epoch - 1} and is gone again"
            self.result.changed[id] = Reason("LeaderDied", message)
            return True
        if not final:
            return False
        if look.leader is None:
            self.result.changed[id] = Reason("NotElected", "the election took no effect: the partition has no leader")
        else:
            message = f"broker {look.leader} leads by the metadata, but does not answer as leader"
            reason = look.problem or Reason("LeaderSilent", message)
            self.failed[id] = PartitionOutcome(id, Outcome.FAILED, reason, look.leader, look.leader_epoch)
        return True

    def complete(self, looks: Mapping[TopicPartition, Leadership], not_restored: set[TopicPartition]) -> None:
        """Write the outcomes, now that the last look is there."""
        for id, lead in self.answered.items():
            self.result.outcomes.append(self._recovered(id, lead, looks.get(id), id not in not_restored))
        for id, outcome in self.failed.items():
            restored = id not in not_restored
            self.result.outcomes.append(
                PartitionOutcome(id, outcome.outcome, outcome.reason, outcome.leader, outcome.leader_epoch, None, restored)
            )

    def _recovered(self, id: TopicPartition, lead: Lead, look: Leadership | None, restored: bool) -> PartitionOutcome:
        decision, partition = self.decisions[id], self.evidence[id]
        outcome, reason, warnings = Outcome.RECOVERED, None, []
        behind = decision.log_end is not None and lead.log_end < decision.log_end
        clean = lead.leader != decision.leader and lead.leader in partition.clean_members
        if clean:
            outcome = Outcome.RECOVERED_CLEANLY
            reason = Reason("CleanMemberCameBack", f"broker {lead.leader}, a member of the ISR or ELR, came back first")
            if behind:
                warnings.append(
                    f"broker {lead.leader} came back with log end {lead.log_end}, but broker {decision.leader} was measured "
                    f"with {decision.log_end}: what only the others hold will be truncated there"
                )
        elif behind:
            outcome = Outcome.FAILED
            message = f"broker {lead.leader} leads with log end {lead.log_end}; planned was {decision.log_end}"
            reason = Reason("LeaderBehindPlan", message)
        elif lead.leader != decision.leader:
            warnings.append(f"broker {lead.leader} was elected instead of {decision.leader}; its log is as long")
        minimum = partition.min_isr
        if outcome is Outcome.RECOVERED and minimum and look and len(look.isr) < minimum.value:
            outcome = Outcome.RECOVERED_UNDER_MIN_ISR
            message = f"ISR has {len(look.isr)} of min.insync.replicas {minimum.value}: acks=all fails until replicas catch up"
            reason = Reason("UnderMinIsr", message)
        return PartitionOutcome(
            id, outcome, reason, lead.leader, lead.leader_epoch, lead.log_end, restored, tuple(warnings)
        )


def ballot_of(decision: Decision) -> Ballot:
    """The election a decision asks for; raises ValueError for a decision without a leader."""
    if decision.leader is None:
        raise ValueError(f"{decision.id} has no designated leader (verdict {decision.verdict})")
    return Ballot(
        decision.id, decision.topic_id, decision.leader_epoch, decision.leader, decision.order, decision.assignment
    )


async def wait_out_quarantine(clock: Clock, duration: timedelta, observer: Observer) -> None:
    """Wait until a request that was sent and never answered can't take effect any more."""
    if duration > timedelta(0):
        why = Reason("Quarantine", "an unanswered request may still take effect; nothing is changed until it can't")
        observer.waiting(why, duration)
        await clock.sleep(duration)
