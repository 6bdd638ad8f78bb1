"""What one call of the engine knows so far: outcomes, and of what has none yet, how long and how often it was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from kafka_recovery.domain.election import Lead, Leadership
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, Offset, TopicId, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ports import Observer, Run
from kafka_recovery.recovery.verification import elected_by_others, lead_in, online_already, verified


class Waiting:
    """Since when each partition is waited for. It is counted from the first time: coming and going wins no time."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, timedelta] = {}

    def waited(self, partition: TopicPartition, now: timedelta) -> timedelta:
        """How long this one has been waited for; one that was never asked for waits from now on."""
        return now - self._since.setdefault(partition, now)

    def shortest(self, partitions: Iterable[TopicPartition], now: timedelta) -> timedelta:
        """How long the last of these to come has been waited for."""
        return min([self.waited(partition, now) for partition in partitions], default=timedelta(0))


class Ledger:
    """Outcomes so far, and what is known of the partitions that have none yet."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._outcomes: dict[TopicPartition, PartitionOutcome] = {}
        self._longest: dict[tuple[TopicPartition, TopicId], Offset] = {}
        self._clean: dict[tuple[TopicPartition, TopicId], frozenset[BrokerId]] = {}
        self._elected: dict[TopicPartition, list[tuple[Decision, PartitionEvidence]]] = {}
        self._inherited: dict[TopicPartition, list[tuple[Decision, PartitionEvidence]]] = {}
        self.plans: list[str] = []
        self.tries: Counter[TopicPartition] = Counter()
        self.postponed: set[TopicPartition] = set()
        """Recorded but not begun: the run was told to stop, or nobody approved yet. Left to a resume or execute."""
        self.begun: set[TopicPartition] = set()
        """Their order may be altered and their election held, by this call or by the run that it goes on with."""
        self.held: Mapping[TopicPartition, Reason] = {}
        """An earlier run's order stands there still and could not be put back: true whatever becomes of them now."""
        self.clean_members = Waiting()
        self.silent_leaders = Waiting()

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._outcomes

    def conclude(self, outcome: PartitionOutcome) -> None:
        """Keep a partition's outcome. Whoever became a clean member by an election of this call is no clean way out."""
        lead = lead_in(outcome)
        if outcome.outcome is Outcome.RECOVERED_CLEANLY and lead:
            ours = self._by_our_election(outcome.id, lead)
            outcome = replace(ours, order_restored=outcome.order_restored) if ours else outcome
        if outcome.id in self.held:
            outcome = replace(outcome, order_restored=False)
        known = self._outcomes.get(outcome.id)
        self._outcomes[outcome.id] = outcome
        if known != outcome:
            self._observer.concluded(outcome)

    def refuse(self, partition: TopicPartition, reason: Reason) -> None:
        """Keep that nothing is done about a partition; if it was elected before, that this failed."""
        outcome = Outcome.FAILED if partition in self._elected else Outcome.REFUSED
        self.conclude(PartitionOutcome(partition, outcome, reason))

    def gone(self, partition: TopicPartition, reason: Reason) -> None:
        """Keep that there is no such partition, or none any more."""
        self.conclude(PartitionOutcome(partition, Outcome.REFUSED, reason))

    def elected(self, decision: Decision, evidence: PartitionEvidence) -> None:
        """Keep that an election was held, or may have been: whoever leads from now on is no clean way out."""
        self._elected.setdefault(decision.id, []).append((decision, evidence))
        self.begun.add(decision.id)

    def inherit(self, run: Run) -> None:
        """Keep what a run that was cut short may have elected: nobody else will ever tell of it."""
        evidence = {partition.id: partition for partition in run.plan.evidence.partitions}
        for id, decision in run.plan.elections.items():
            if id in run.begun:
                self._inherited.setdefault(id, []).append((decision, evidence[id]))

    def remember(self, evidence: Evidence) -> None:
        """Keep each offline partition's longest log and clean members, to judge a leader that comes by itself."""
        for partition in evidence.partitions:
            key = partition.id, partition.topic_id
            if partition.leader is None:
                self._clean.setdefault(key, partition.clean_members)
            ends = [replica.log.end for replica in partition.replicas if replica.log]
            self._longest[key] = max([self._longest.get(key, Offset(0)), *ends])

    def online(self, decision: Decision, lead: Lead, look: Leadership | None) -> PartitionOutcome:
        """The outcome of a partition that was found with a leader that answers."""
        if ours := self._by_our_election(decision.id, lead) or self._by_an_earlier_run(decision.id, lead, look):
            return ours
        key = decision.id, decision.topic_id
        if lead.leader not in self._clean.get(key, {lead.leader}):
            return elected_by_others(decision.id, lead)
        return online_already(decision.id, lead, self._longest.get(key))

    def _by_our_election(self, id: TopicPartition, lead: Lead) -> PartitionOutcome | None:
        """The outcome of a leader that would not lead without an election of this call; None if it would."""
        elections = self._elected.get(id)
        if not elections:
            return None
        _, first = elections[0]
        if lead.leader in first.clean_members or lead.leader_epoch <= first.leader_epoch:  # an older one: another topic
            return None
        decision, evidence = next((e for e in reversed(elections) if e[0].leader == lead.leader), elections[-1])
        return verified(decision, replace(evidence, isr=first.isr, elr=first.elr), lead, None)

    def _by_an_earlier_run(self, id: TopicPartition, lead: Lead, look: Leadership | None) -> PartitionOutcome | None:
        """The outcome of a leader of the very epoch that an earlier run's election began, unless it came cleanly."""
        for decision, evidence in reversed(self._inherited.get(id, [])):
            if lead.leader_epoch == decision.leader_epoch + 1 and lead.leader not in evidence.clean_members:
                return verified(decision, evidence, lead, look)
        return None

    def settled(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether nothing of these is left to do or to undo."""
        outcomes = [self._outcomes[id] for id in partitions if id in self._outcomes]
        doubtful = any(o.outcome is Outcome.UNKNOWN or not o.order_restored for o in outcomes)
        return not doubtful and self.postponed.isdisjoint(partitions)

    def first_failed(self) -> PartitionOutcome | None:
        """An election that did not verify, if there is any."""
        outcomes = (self._outcomes[id] for id in sorted(self.begun) if id in self._outcomes)
        return next((o for o in outcomes if o.outcome in (Outcome.FAILED, Outcome.UNKNOWN)), None)

    def give_up(self, plan: Plan, why: Reason) -> None:
        """Conclude what has no outcome yet, because the cluster can't be asked any more."""
        for decision in plan.decisions:
            if decision.id in self._outcomes:
                continue
            if decision.id in self.begun:
                self.conclude(PartitionOutcome(decision.id, Outcome.UNKNOWN, why, order_restored=False))
            else:
                self.refuse(decision.id, why)

    def report(self) -> Report:
        """Everything concluded so far."""
        return Report(tuple(sorted(self._outcomes.values(), key=lambda outcome: outcome.id)), tuple(self.plans))
