"""What one call of the engine knows so far: outcomes, and of what has none yet, how long and how often it was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import Offset, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ports import Observer


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
        self._longest: dict[TopicPartition, Offset] = {}
        self.plans: list[str] = []
        self.tries: Counter[TopicPartition] = Counter()
        self.postponed: set[TopicPartition] = set()
        """Recorded but not begun: the run was told to stop, or nobody approved yet. Left to a resume or execute."""
        self.clean_members = Waiting()
        self.silent_leaders = Waiting()

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._outcomes

    def conclude(self, outcome: PartitionOutcome) -> None:
        """Keep a partition's outcome."""
        known = self._outcomes.get(outcome.id)
        self._outcomes[outcome.id] = outcome
        if known != outcome:
            self._observer.concluded(outcome)

    def refuse(self, partition: TopicPartition, reason: Reason) -> None:
        """Keep that nothing is done about a partition."""
        self.conclude(PartitionOutcome(partition, Outcome.REFUSED, reason))

    def remember_logs(self, evidence: Evidence) -> None:
        """Keep how long each partition's longest log was, to compare it with a leader that comes back by itself."""
        for partition in evidence.partitions:
            for replica in partition.replicas:
                if replica.log:
                    longest = self._longest.get(partition.id, Offset(0))
                    self._longest[partition.id] = max(longest, replica.log.end)

    def longest(self, partition: TopicPartition) -> Offset | None:
        """The longest log seen of a partition."""
        return self._longest.get(partition)

    def settled(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether nothing of these is left to do or to undo."""
        outcomes = [self._outcomes[id] for id in partitions if id in self._outcomes]
        doubtful = any(o.outcome is Outcome.UNKNOWN or not o.order_restored for o in outcomes)
        return not doubtful and self.postponed.isdisjoint(partitions)

    def first_failed(self, partitions: Iterable[TopicPartition]) -> PartitionOutcome | None:
        """One of these that did not verify, if there is any."""
        outcomes = (self._outcomes[id] for id in partitions if id in self._outcomes)
        return next((o for o in outcomes if o.outcome in (Outcome.FAILED, Outcome.UNKNOWN)), None)

    def report(self) -> Report:
        """Everything concluded so far."""
        return Report(tuple(sorted(self._outcomes.values(), key=lambda outcome: outcome.id)), tuple(self.plans))
