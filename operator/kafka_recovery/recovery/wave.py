"""One wave: re-check, designate, elect, verify each new leader by its own answer, restore the assignment order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_recovery.decision.recheck import before, recheck
from kafka_recovery.domain.election import Answer, Ballot, ElectionAnswer, Gone, Lead, Leadership, Scope, Sighting
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ballots import ballot_of
from kafka_recovery.recovery.ports import Clock, Cluster, Election, Histories, Journal, Observer, PlanForAnotherCluster
from kafka_recovery.recovery.verification import Settled, afterwards, seen, shown, verified

FRESH = timedelta(seconds=2)
"""A re-check that began longer ago than this is done again before its wave is elected."""


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

    def pause(self, pending: int) -> timedelta:
        """Between two questions about so many partitions: asking must not keep brokers from leading them."""
        return min(max(self.poll, timedelta(microseconds=100) * pending), timedelta(milliseconds=250))

    def patience(self, partitions: int) -> timedelta:
        """How long so many leaders may take to answer."""
        return self.verify + self.verify_each * partitions


@dataclass(frozen=True, slots=True)
class Prepared:
    """A wave that can be elected. `go`: what the journal knows as begun; `changed`: what fell out of the wave before.

    `answers`: what the controller said to the designations. `checked_at`: when the last look began (monotonic), and
    `policy`: under which the decisions were held to what it saw.
    """

    number: int
    go: Mapping[TopicPartition, Decision]
    changed: Mapping[TopicPartition, Reason]
    answers: Mapping[TopicPartition, ElectionAnswer]
    checked_at: timedelta
    policy: Policy


@dataclass(frozen=True, slots=True)
class Asked:
    """The controller's answers to a wave's elections, and when they were there (monotonic)."""

    answers: Mapping[TopicPartition, ElectionAnswer]
    at: timedelta


@dataclass(frozen=True, slots=True)
class WaveResult:
    """Outcomes of a wave, and the partitions that the cluster changed under it: their order is the original one."""

    outcomes: tuple[PartitionOutcome, ...]
    changed: Mapping[TopicPartition, Reason]


@dataclass(frozen=True, slots=True)
class Wave:
    """The steps of one wave, and what the waves of a plan share."""

    plan: Plan
    digest: str
    cluster: Cluster
    election: Election
    journal: Journal
    clock: Clock
    observer: Observer
    timing: Timing
    evidence: Mapping[TopicPartition, PartitionEvidence]
    histories: Histories

    async def prepare(self, members: Sequence[Decision], numbers: Iterator[int], policy: Policy) -> Prepared:
        """Re-check, then designate what still holds; that requests may be under way is durable before the first."""
        checked_at = self.clock.monotonic()
        changed = await self.recheck(members, policy) if members else {}
        go = {decision.id: decision for decision in members if decision.id not in changed}
        if not go:
            return Prepared(0, go, changed, {}, checked_at, policy)
        number = next(numbers)
        await self.journal.wave_started(self.digest, number, tuple(go))
        answers = await self.election.designate([ballot_of(decision) for decision in go.values()])
        return Prepared(number, go, changed, answers, checked_at, policy)

    async def elect(self, wave: Prepared, policy: Policy, barred: Mapping[TopicPartition, Reason]) -> Asked:
        """Hold the elections of a prepared wave, after another look if the last one does not count any more.

        `policy`: the one of now. `barred`: what may not be elected any more; what is unanswered stays in doubt.
        """
        accepted = [id for id, answer in wave.answers.items() if answer.answer is Answer.ACCEPTED]
        refused = {id: ElectionAnswer(Answer.REFUSED, barred[id]) for id in accepted if id in barred}
        answers = {**wave.answers, **refused}
        ready = [wave.go[id] for id in accepted if id not in barred]
        fresh = self.clock.monotonic() - wave.checked_at <= FRESH and policy == wave.policy
        if ready and not fresh:
            stale = await self.recheck(ready, policy, designated=True)
            answers |= {id: ElectionAnswer(Answer.CHANGED, reason) for id, reason in stale.items()}
            ready = [decision for decision in ready if decision.id not in stale]
        if ready:
            answers |= await self.election.elect([ballot_of(decision) for decision in ready])
        return Asked(answers, self.clock.monotonic())

    async def end(
        self, number: int, go: Mapping[TopicPartition, Decision], settled: Mapping[TopicPartition, Settled]
    ) -> WaveResult:
        """Restore the orders and write the outcomes down. Whatever happened, orders are restored or said to be not."""
        looks, unrestored, in_doubt = await self.restore(tuple(go.values()))
        outcomes, changed = [], {}
        for id, end in settled.items():
            last = afterwards(go[id], end, looks.get(id)) if isinstance(end, Lead) else end
            outcome = _outcome(go[id], self.evidence[id], last, shown(looks).get(id), restored=id not in unrestored)
            if isinstance(outcome, Reason):
                changed[id] = outcome
            else:
                outcomes.append(outcome)
        if not in_doubt:
            await self.journal.wave_ended(self.digest, number, outcomes)
        return WaveResult(tuple(outcomes), changed)

    async def put_back(self, number: int, decisions: Sequence[Decision]) -> set[TopicPartition]:
        """Restore orders that an earlier wave left altered, as a wave of its own; returns those that still are."""
        if not decisions:
            return set()
        await self.journal.wave_started(self.digest, number, tuple(decision.id for decision in decisions))
        _, unrestored, in_doubt = await self.restore(decisions)
        if not in_doubt:
            await self.journal.wave_ended(self.digest, number, ())
        return unrestored

    async def restore(
        self, decisions: Sequence[Decision]
    ) -> tuple[Mapping[TopicPartition, Sighting], set[TopicPartition], bool]:
        """Put the original orders back; what could not be is tried once more.

        Returns the last look at the partitions, those still altered by us, and whether a request for one of these may
        still be under way: the wave has not ended then.
        """
        ballots = [ballot_of(decision) for decision in decisions]
        answers = await self.election.restore(ballots)
        looks, altered = await self._until_restored(ballots, answers)
        if altered:
            if any(answers[id].answer is Answer.UNANSWERED for id in altered):
                await self.quarantine(self.timing.quarantine)
            second = await self.election.restore([ballot for ballot in ballots if ballot.id in altered])
            answers = {**answers, **second}  # another one may be seen altered by now: a broker that learns late
            looks, altered = await self._until_restored(ballots, answers)
        return looks, altered, any(answers[id].answer is Answer.UNANSWERED for id in altered)

    async def quarantine(self, duration: timedelta) -> None:
        """Wait until a request that was sent and never answered can't take effect any more."""
        if duration > timedelta(0):
            why = Reason("Quarantine", "an unanswered request may still take effect; nothing is changed until it can't")
            self.observer.waiting(why, duration)
            await self.clock.sleep(duration)

    async def recheck(
        self, decisions: Sequence[Decision], policy: Policy, *, designated: bool = False
    ) -> dict[TopicPartition, Reason]:
        """The decisions that do not hold any more, and why. Brokers are asked once: a last look must not grow old.

        `policy`: the one of now; the plan's own holds as well. `designated`: their orders are ours already.
        """
        scope = Scope(tuple(decision.id for decision in decisions))
        rules = replace(policy.widest_evidence_rules, attempts=1)
        fresh = await self.cluster.gather(scope, rules, self.evidence)
        if fresh.cluster.cluster_id != self.plan.cluster_id:
            raise PlanForAnotherCluster(self.plan.cluster_id, fresh.cluster.cluster_id)
        planned = before(self.plan, designated=designated)
        known = await self.histories.known(fresh.partitions)
        changed: dict[TopicPartition, Reason] = {}
        for under in (policy,) if policy == self.plan.policy else (policy, self.plan.policy):
            reasons = {d.id: recheck(d, planned[d.id], fresh, under, known.get(d.id)) for d in decisions}
            changed = {id: reason for id, reason in reasons.items() if reason is not None} | changed
        return changed

    async def verify(
        self,
        go: Mapping[TopicPartition, Decision],
        asked: Asked,
        progress: Callable[[int, timedelta], None],
    ) -> dict[TopicPartition, Settled]:
        """Wait for what comes of each election; after quarantine, of those nobody answered for.

        `progress` is told, now and then, how many leaders answer and how long that took.
        """
        answers = asked.answers
        settled: dict[TopicPartition, Settled] = {}
        for id, answer in answers.items():
            reason = answer.reason or Reason("ElectionRefused", "the controller refused the election")
            if answer.answer is Answer.CHANGED:
                settled[id] = reason
            elif answer.answer is Answer.REFUSED:
                settled[id] = PartitionOutcome(id, Outcome.REFUSED, reason)
        in_doubt = {id: go[id] for id, answer in answers.items() if answer.answer is Answer.UNANSWERED}
        elected = {id: decision for id, decision in go.items() if id not in settled and id not in in_doubt}
        if settled:
            await self.clock.sleep(
                self.timing.look
            )  # an order set a moment ago may not be in the brokers' metadata yet
        settled |= await self._verify(elected, progress, elected=True)
        if in_doubt:
            await self.quarantine(self.timing.quarantine - (self.clock.monotonic() - asked.at))
            settled |= await self._verify(in_doubt, progress, elected=False)
        return settled

    async def _verify(
        self,
        decisions: Mapping[TopicPartition, Decision],
        progress: Callable[[int, timedelta], None],
        *,
        elected: bool,
    ) -> dict[TopicPartition, Settled]:
        """Wait until each partition's new leader answered, or it is clear that none will."""
        settled: dict[TopicPartition, Settled] = {}
        began = looked = self.clock.monotonic()
        while pending := {id: decision for id, decision in decisions.items() if id not in settled}:
            leaders = {id: decision.leader for id, decision in pending.items() if decision.leader is not None}
            leads = await self.cluster.answering(leaders, self.timing.rpc)
            settled |= {id: lead for id, lead in leads.items() if lead.leader_epoch > pending[id].leader_epoch}
            now = self.clock.monotonic()
            progress(len(settled), now - began)
            overdue = now - began >= self.timing.patience(len(decisions))
            quiet = [decision for id, decision in pending.items() if id not in settled]
            if quiet and (overdue or now - looked >= self.timing.look or (looked == began and not elected)):
                looks = await self._look(quiet)
                ends = {d.id: seen(d, looks.get(d.id), elected=elected, overdue=overdue) for d in quiet}
                settled |= {id: end for id, end in ends.items() if end is not None}
                looked = now
            if quiet:
                await self.clock.sleep(self.timing.pause(len(quiet)))
        return settled

    async def _until_restored(
        self, ballots: Sequence[Ballot], answers: Mapping[TopicPartition, ElectionAnswer]
    ) -> tuple[Mapping[TopicPartition, Sighting], set[TopicPartition]]:
        """Look until no order is ours any more. What the controller did not accept counts as altered, whatever is seen.

        An accepted restore is seen only when a broker has applied it: one that is busy with new leaders, after those.
        """
        began, pause = self.clock.monotonic(), self.timing.poll
        while True:
            looks = await self.cluster.leaders([ballot.id for ballot in ballots], self.timing.rpc)
            seen = _altered(ballots, looks)
            altered = seen | {id for id, answer in answers.items() if answer.answer is not Answer.ACCEPTED}
            if (
                not any(answers[id].answer is Answer.ACCEPTED for id in seen if id in answers)
                or self.clock.monotonic() - began > self.timing.rpc
            ):
                return looks, altered
            await self.clock.sleep(pause)
            pause = min(2 * pause, self.timing.look)

    async def _look(self, decisions: Sequence[Decision]) -> Mapping[TopicPartition, Sighting]:
        return await self.cluster.leaders([decision.id for decision in decisions], self.timing.rpc)


def _altered(ballots: Sequence[Ballot], looks: Mapping[TopicPartition, Sighting]) -> set[TopicPartition]:
    """Partitions that stand in the order of their ballot, or may: unseen is not restored.

    A deleted or recreated topic has no order of ours.
    """
    altering = [ballot for ballot in ballots if ballot.order != ballot.assignment]
    return {ballot.id for ballot in altering if _may_stand(ballot, looks.get(ballot.id))}


def _may_stand(ballot: Ballot, look: Sighting | None) -> bool:
    match look:
        case Leadership():
            return look.topic_id == ballot.topic_id and look.assignment == ballot.order
        case Gone():
            return False
    return True


def _outcome(
    decision: Decision, partition: PartitionEvidence, end: Settled, look: Leadership | None, *, restored: bool
) -> PartitionOutcome | Reason:
    """How it ended; a Reason: decide again. Not while the order is ours: a plan would take it for the original one."""
    if isinstance(end, Lead):
        return verified(decision, partition, end, look, restored=restored)
    if isinstance(end, PartitionOutcome):
        return PartitionOutcome(end.id, end.outcome, end.reason, end.leader, end.leader_epoch, None, restored)
    if restored:
        return end
    return PartitionOutcome(decision.id, Outcome.UNKNOWN, end, order_restored=False)
