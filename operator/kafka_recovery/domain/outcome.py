"""What became of each partition, and of a recovery."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.reason import Reason


class Outcome(StrEnum):
    """The end of one partition's recovery; `Recovered*` only after the new leader itself answered in a new epoch."""

    RECOVERED = "Recovered"
    RECOVERED_UNDER_MIN_ISR = "RecoveredUnderMinIsr"
    """It leads, but acks=all fails until the ISR is back at min.insync.replicas."""
    RECOVERED_CLEANLY = "RecoveredCleanly"
    """An ISR or ELR member came back first, or it was online already; nothing unclean was done here."""
    REFUSED = "Refused"
    """Nothing was changed, see the reason."""
    FAILED = "Failed"
    """Something was tried and did not verify, see the reason."""
    IN_DOUBT = "InDoubt"
    """Not known: a request was not answered and may still take effect, or the partition was not to be seen any more."""

    @property
    def is_recovered(self) -> bool:
        """Whether the partition has a leader that answers."""
        return self in (Outcome.RECOVERED, Outcome.RECOVERED_UNDER_MIN_ISR, Outcome.RECOVERED_CLEANLY)

    @property
    def is_unverified(self) -> bool:
        """Whether an election was held, or may have been, and has not the leader that it was held for."""
        return self in (Outcome.FAILED, Outcome.IN_DOUBT)


class End(StrEnum):
    """How the recovery of one incident ended, over all its partitions."""

    RECOVERED = "Recovered"
    REFUSED_BY_APPROVER = "RefusedByApprover"
    NOTHING_TO_RECOVER = "NothingToRecover"
    FAILED = "Failed"
    ABORTED = "Aborted"


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """One partition's end.

    `order_restored`: whether nothing of an election is left in the assignment order. False while the order is still the
    election's; None where nobody knows: it could not be seen, or a request that may still take effect would alter it.
    """

    id: TopicPartition
    outcome: Outcome
    reason: Reason | None = None
    leader: BrokerId | None = None
    leader_epoch: LeaderEpoch | None = None
    log_end: Offset | None = None
    order_restored: bool | None = True
    warnings: tuple[str, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it is left to wait for or to undo."""
        return self.order_restored is True and self.outcome is not Outcome.IN_DOUBT


@dataclass(frozen=True, slots=True)
class Report:
    """Outcomes of a run, one for each partition of its scope, sorted by id; `plans` are the digests it executed.

    `damaged`: of each begun run in the journal that can't be read, what is wrong, and what a person has to do.
    """

    outcomes: tuple[PartitionOutcome, ...]
    plans: tuple[str, ...] = ()
    damaged: tuple[Reason, ...] = ()

    def __getitem__(self, partition: TopicPartition) -> PartitionOutcome:
        return next(o for o in self.outcomes if o.id == partition)

    @property
    def recovered(self) -> bool:
        """Whether every partition is back."""
        return all(o.outcome.is_recovered for o in self.outcomes)
