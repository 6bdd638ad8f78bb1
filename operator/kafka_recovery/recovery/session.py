"""What one call of the engine knows: each partition's runs, and what was concluded of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_recovery.domain.election import Leadership, Sighting
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.reason import Reason, reason_of
from kafka_recovery.recovery.outcomes import (
    elected_by_name,
    elected_by_others,
    lead_in,
    lead_of,
    online_already,
    outcome_of,
    verified,
)
from kafka_recovery.recovery.partition_run import PartitionRun, State, is_as_planned
from kafka_recovery.recovery.ports import DamagedRun, Observer, Run

FIRST = LeaderEpoch(0)
"""The epoch of the leader that a topic is made with: nobody elected that one."""


class Waiting:
    """Since when each partition is waited for. It is counted from the first time: coming and going wins no time."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, timedelta] = {}

    def waited(self, partition: TopicPartition, now: timedelta) -> timedelta:
        """How long this one has been waited for; one that was never asked for waits from now on."""
        return now - self._since.setdefault(partition, now)


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Where earlier runs altered an order that was not put back, or may have: nobody is elected there.

    `anywhere`: why it may be any partition. `damaged`: what is wrong with runs that can't be read. `unaltered`: of the
    partitions, those whose order is their own, and where a request may still elect. `standing`: those that were seen in
    an election's order; of the others nobody knows.
    """

    at: Mapping[TopicPartition, Reason]
    anywhere: Reason | None = None
    damaged: tuple[Reason, ...] = ()
    unaltered: frozenset[TopicPartition] = frozenset()
    standing: frozenset[TopicPartition] = frozenset()

    @classmethod
    def by(cls, runs: Iterable[Run | DamagedRun]) -> LeftBehind:
        """What those of these runs may have left that can't be read."""
        damaged = [run for run in runs if isinstance(run, DamagedRun)]
        at = {id: run.why for run in damaged for id in run.partitions or ()}
        anywhere = next((run.why for run in damaged if run.partitions is None), None)
        return cls(at, anywhere, tuple(run.why for run in damaged))

    def reasons(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Reason]:
        """Those of these in which nobody is elected, and why."""
        return {id: reason for id in partitions if (reason := self.at.get(id) or self.anywhere)}


class Session:
    """One call of the engine: outcomes so far, and of the partitions that have none yet, what was tried.

    `plans`: digests of what it executes. `tries`: how often each partition went back to deciding. `postponed`: recorded
    and not begun, because the run was told to stop or nobody approved yet; left to a resume or execute.
    `open`: what each plan elected that is not finished. `left_behind`: by earlier runs, whatever becomes of those
    partitions now. `kept_off`: partitions that are not this call's to elect, and why. `failed`: an election that did
    not verify, which stops all further ones.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._outcomes: dict[TopicPartition, PartitionOutcome] = {}
        self._longest: dict[tuple[TopicPartition, TopicId], Offset] = {}
        self._clean: dict[tuple[TopicPartition, TopicId], frozenset[BrokerId]] = {}
        self._leaderless_in: dict[tuple[TopicPartition, TopicId], LeaderEpoch] = {}
        self._runs: dict[TopicPartition, list[PartitionRun]] = {}
        self.plans: list[str] = []
        self.tries: Counter[TopicPartition] = Counter()
        self.postponed: set[TopicPartition] = set()
        self.open: dict[str, tuple[TopicPartition, ...]] = {}
        self.left_behind = LeftBehind({})
        self.kept_off: Mapping[TopicPartition, Reason] = {}
        self.failed: Reason | None = None
        self.clean_members = Waiting()
        self.silent_leaders = Waiting()

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._outcomes

    # Runs

    def begin(self, plan: Plan, decisions: Iterable[Decision]) -> dict[TopicPartition, PartitionRun]:
        """Runs of these decisions of a plan; each knows the earlier ones of its partition that may have elected."""
        evidence = {partition.id: partition for partition in plan.evidence.partitions}
        as_of = plan.evidence.cluster.as_of
        runs = {d.id: PartitionRun(d, evidence[d.id], as_of, self._earlier(d)) for d in decisions}
        for id, run in runs.items():
            self._runs.setdefault(id, []).append(run)
        return runs

    def take_over(self, run: Run) -> dict[TopicPartition, PartitionRun]:
        """The runs that a process which died had begun: nobody else will ever tell what they may have elected.

        Of those that it had refused by then no election was held, unless a wave with them was still under way.
        """
        self.remember(run.plan.evidence)
        begun = [decision for id, decision in run.plan.elections.items() if id in run.begun]
        runs = self.begin(run.plan, begun)
        last = {outcome.id: outcome for outcome in run.outcomes}
        for id, each in runs.items():
            said = last.get(id)
            each.take_over(held=bool(run.in_flight) or said is None or said.outcome is not Outcome.REFUSED)
            lead = lead_in(said) if said and said.outcome.is_recovered else None
            each.verified = lead if lead and is_as_planned(lead, each.decision) else None
        return runs

    def _earlier(self, decision: Decision) -> tuple[PartitionRun, ...]:
        known = self._runs.get(decision.id, ())
        return tuple(run for run in known if run.held and run.decision.topic_id == decision.topic_id)

    def _asked_of_another_topic(self, decision: Decision) -> bool:
        """Whether an election was asked for in a topic of this name that is gone, and was not seen to be held there."""
        runs = self._runs.get(decision.id, ())
        return any(run.held and not run.verified and run.decision.topic_id != decision.topic_id for run in runs)

    # Conclusions

    def conclude(self, outcome: PartitionOutcome) -> None:
        """Keep a partition's outcome; the last one counts."""
        if outcome.order_restored and outcome.id in self.left_behind.at.keys() - self.left_behind.unaltered:
            outcome = replace(outcome, order_restored=False if outcome.id in self.left_behind.standing else None)
        known = self._outcomes.get(outcome.id)
        self._outcomes[outcome.id] = outcome
        if known != outcome:
            self._observer.concluded(outcome)

    def end(self, run: PartitionRun) -> PartitionOutcome | None:
        """Conclude a run that is over; None: its partition is to be decided again."""
        outcome = outcome_of(run)
        if outcome is not None:
            self.conclude(outcome)
        return outcome

    def refuse(self, partition: TopicPartition, reason: Reason) -> None:
        """Keep that nothing more is done about a partition; if an election of it was held, that this failed."""
        outcome = Outcome.FAILED if self.has_elected(partition) else Outcome.REFUSED
        self.conclude(PartitionOutcome(partition, outcome, reason))

    def has_elected(self, partition: TopicPartition) -> bool:
        """Whether this call held an election of it, or may have."""
        return any(run.held and not run.cut_short for run in self._runs.get(partition, ()))

    def keep_off(self, elected: Mapping[TopicPartition, Decision]) -> dict[TopicPartition, Decision]:
        """Refuse those that are not this call's, or where an earlier run may have left its order; the others."""
        others = {id: self.kept_off[id] for id in elected if id in self.kept_off}
        reasons = others | self.left_behind.reasons(elected)
        for id, reason in reasons.items():
            self.refuse(id, reason)
        return {id: decision for id, decision in elected.items() if id not in reasons}

    def warn(self, partition: TopicPartition, reason: Reason) -> None:
        """Add a warning to what was concluded of a partition."""
        known = self._outcomes[partition]
        self.conclude(replace(known, warnings=(*known.warnings, reason.message)))

    def recovered(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of these that have a leader that answers."""
        known = self._outcomes
        return [id for id in partitions if id in known and known[id].outcome.is_recovered]

    def remember(self, evidence: Evidence) -> None:
        """Keep each offline partition's epoch, longest log and clean members, for a leader that comes by itself.

        What min.insync.replicas is by now counts for runs as well that were begun under another one.
        """
        for partition in evidence.partitions:
            for run in self._runs.get(partition.id, ()):
                run.min_isr = partition.min_isr or run.min_isr
            key = partition.id, partition.topic_id
            if partition.leader is None:
                self._clean.setdefault(key, partition.clean_members)
                self._leaderless_in[key] = max(self._leaderless_in.get(key, LeaderEpoch(-1)), partition.leader_epoch)
            ends = [replica.log.end for replica in partition.replicas if replica.log]
            self._longest[key] = max([self._longest.get(key, Offset(0)), *ends])

    def online(self, decision: Decision, look: Sighting) -> PartitionOutcome | None:
        """The outcome of a partition that this plan elects nobody for, and that a look shows with a leader.

        None: it answers in no epoch that is newer than any in which this call saw the partition without one.
        """
        key, lead = (decision.id, decision.topic_id), lead_of(look)
        if lead is None or lead.leader_epoch <= self._leaderless_in.get(key, LeaderEpoch(-1)):
            return None
        earlier = self._earlier(decision)
        if earlier:
            return verified(replace(earlier[-1], look=look if isinstance(look, Leadership) else None), lead)
        if lead.leader_epoch > FIRST and self._asked_of_another_topic(decision):
            return elected_by_name(decision.id, lead)
        if lead.leader not in self._clean.get(key, {lead.leader}):
            return elected_by_others(decision.id, lead)
        return online_already(decision.id, lead, self._longest.get(key))

    def settled(self, partitions: Collection[TopicPartition], again: Collection[TopicPartition] = ()) -> bool:
        """Whether nothing of these is left to do or to undo. `again`: what has no outcome yet, and its own order."""
        outcomes = [self._outcomes.get(id) for id in partitions if id not in again]
        ended = all(outcome is not None and outcome.is_settled for outcome in outcomes)
        return ended and self.postponed.isdisjoint(partitions)

    def is_open(self, partition: TopicPartition) -> bool:
        """Whether it was concluded that something of it is left to wait for or to undo."""
        outcome = self._outcomes.get(partition)
        return outcome is not None and not outcome.is_settled

    @property
    def is_quiet(self) -> bool:
        """Whether no election can be under way: of what was begun nothing is in doubt, and no order is altered."""
        if self.left_behind.at or self.left_behind.anywhere or any(map(self.is_open, self._runs)):
            return False
        begun = (run for runs in self._runs.values() for run in runs if run.begun)
        return all(run.state in (State.RESTORED, State.UNTOUCHED) for run in begun)

    def failure(self, partition: TopicPartition) -> Reason | None:
        """Why a partition's election did not verify, if it was concluded so."""
        outcome = self._outcomes.get(partition)
        return outcome.reason if outcome and outcome.outcome.is_unverified else None

    @contextmanager
    def told(self, plan: Plan) -> Iterator[None]:
        """Whatever ends the work on a plan, each of its partitions has an outcome."""
        try:
            yield
        except Exception as error:
            self.give_up(plan, reason_of(error))
            raise

    def give_up(self, plan: Plan, why: Reason) -> None:
        """Conclude what has no outcome yet, because nothing more can be done about it in this call."""
        for decision in plan.decisions:
            if decision.id in self._outcomes:
                continue
            runs = self._runs.get(decision.id, ())
            own = [run for run in runs if not run.cut_short or run.decision is decision]  # older orders are put back
            unfinished = any(run.begun and run.state not in (State.RESTORED, State.UNTOUCHED) for run in own)
            if unfinished or any(run.cut_short for run in runs):
                orders = {run.restored for run in own}
                restored = False if False in orders else None if None in orders else True
                self.conclude(PartitionOutcome(decision.id, Outcome.IN_DOUBT, why, order_restored=restored))
            else:
                self.refuse(decision.id, why)

    def report(self) -> Report:
        """Everything concluded so far."""
        outcomes = tuple(sorted(self._outcomes.values(), key=lambda outcome: outcome.id))
        return Report(outcomes, tuple(self.plans), self.left_behind.damaged)
