"""What the engine needs from the world. Adapters: `cluster/` for Kafka, `journal_files` for disks; a simulator later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import Reason


@dataclass(frozen=True, slots=True)
class Scope:
    """Which partitions: these, or None for every offline partition that the principal may see."""

    partitions: tuple[TopicPartition, ...] | None


ALL_OFFLINE = Scope(None)


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads one partition now, by the controller's metadata and by the leader's own answer.

    `log_end` is set only if `leader` itself answered, as leader, under `leader_epoch`; else `problem` says why not.
    """

    id: TopicPartition
    topic_id: TopicId
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    assignment: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    log_end: Offset | None = None
    problem: Reason | None = None


@dataclass(frozen=True, slots=True)
class Lead:
    """A broker's own answer as a partition's leader."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    log_end: Offset


class Cluster(Protocol):
    """Looking at a Kafka cluster. Nothing here changes it; every answer has a deadline."""

    async def gather(self, scope: Scope, rules: EvidenceRules) -> Evidence:
        """Everything a decision needs about the partitions of `scope`.

        Raises ClusterUnavailable if no broker answers, ClusterMismatch if the cluster's id is not the expected one. A
        silent broker, an unknown topic or a missing ACL is a part of the evidence, not an error.
        """
        ...

    async def leaders(self, partitions: Sequence[TopicPartition], deadline: timedelta) -> Mapping[TopicPartition, Leadership]:
        """Who leads each partition now; partitions that no longer exist or can't be seen are absent."""
        ...

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """Those of `candidates` that answer as their partition's leader at this moment; cheap enough to poll."""
        ...


@dataclass(frozen=True, slots=True)
class Ballot:
    """One election to hold: `designated` is to lead; `order` puts it first; `assignment` is what stands before and after."""

    id: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    designated: BrokerId
    order: tuple[BrokerId, ...]
    assignment: tuple[BrokerId, ...]


class Answer(StrEnum):
    """What the controller said to one ballot or restore."""

    ACCEPTED = "Accepted"
    NOT_NEEDED = "NotNeeded"
    """The partition has a leader already."""
    CHANGED = "Changed"
    """Not done, because the cluster is not as it was: worth deciding again."""
    REFUSED = "Refused"
    """Not done, and asking again would not help."""
    UNANSWERED = "Unanswered"
    """Sent and not answered: it may take effect for 60 s (a broker forwards to the controller that long)."""


@dataclass(frozen=True, slots=True)
class ElectionAnswer:
    """The controller's answer and, unless accepted, why."""

    answer: Answer
    reason: Reason | None = None


class Election(Protocol):
    """Making one designated replica the leader of an offline partition, and leaving nothing else behind.

    Drivers: `assignment-order` (any KRaft release) alters the assignment order while electing, so it must be restored;
    `designated` (KIP-1275) has nothing to restore.
    """

    async def elect(self, ballots: Sequence[Ballot]) -> Mapping[TopicPartition, ElectionAnswer]:
        """Hold these elections in one go; an answer for every ballot, always."""
        ...

    async def restore(self, ballots: Sequence[Ballot]) -> Mapping[TopicPartition, ElectionAnswer]:
        """Put back the original order where the present one is the ballot's; an order that is neither is left alone."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """An approved plan that the journal does not know to be finished.

    `waves`: how many were started. `in_flight`: those of them whose end was never recorded, so their requests may still
    be under way.
    """

    digest: str
    plan: Plan
    approved_by: str
    waves: int
    in_flight: tuple[int, ...]
    outcomes: tuple[PartitionOutcome, ...]


class PlanFinished(Exception):
    """The plan has been executed to its end; what is left needs a new plan."""


class PlanForAnotherCluster(Exception):
    """The plan was made for a cluster with another id."""


class Journal(Protocol):
    """Durable memory of one cluster's recoveries. Every method returns only when the record would survive a crash."""

    async def record(self, plan: Plan) -> str:
        """Keep the plan; returns its digest. Recording the same plan twice is harmless."""
        ...

    async def approved(self, digest: str, by: str) -> None:
        """Keep who approved the plan: the run begins. Raises PlanFinished for one that has ended already."""
        ...

    async def wave_started(self, digest: str, wave: int, partitions: Sequence[TopicPartition]) -> None:
        """Keep that requests for this wave may be sent from now on."""
        ...

    async def wave_ended(self, digest: str, wave: int, outcomes: Sequence[PartitionOutcome]) -> None:
        """Keep what became of a wave."""
        ...

    async def finished(self, digest: str) -> None:
        """Keep that nothing of this plan is left to do or to undo."""
        ...

    async def unfinished(self) -> Sequence[Run]:
        """Runs that were approved and not finished, oldest first."""
        ...


class Approvals(Protocol):
    """Asking whoever may say yes."""

    async def granted(self, plan: Plan, digest: str) -> str | None:
        """Who approved exactly this digest (for the journal), or None for no."""
        ...


class Clock(Protocol):
    """Time, in two kinds: durations from `monotonic`, records from `now`. A wall clock that jumps only changes records."""

    def now(self) -> datetime:
        """UTC instant."""
        ...

    def monotonic(self) -> timedelta:
        """Time since some fixed point."""
        ...

    async def sleep(self, duration: timedelta) -> None:
        """Wait."""
        ...


class Observer(Protocol):
    """Somebody who watches progress: a progress bar, a log, metrics. It must not raise."""

    def planned(self, plan: Plan, digest: str) -> None:
        """A plan was made and is durable."""

    def wave_started(self, wave: int, waves: int, partitions: int) -> None:
        """A wave is about to be re-checked and elected."""

    def concluded(self, outcome: PartitionOutcome) -> None:
        """One partition has an outcome."""

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """The engine waits: for a clean member to return, or out of quarantine."""
