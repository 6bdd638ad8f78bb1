"""What will be done and why: the write-ahead log of a recovery, and what a person approves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy
from kafka_recovery.domain.reason import Reason, Rejection

FORMAT: Final = 2


class Verdict(StrEnum):
    """What is to be done about one partition."""

    ELECT = "Elect"
    """A leader is elected, once the plan is approved where that is needed."""
    WAIT = "Wait"
    """A replica that Kafka elects by itself is back: it is waited for, as long as the rule's patience allows."""
    REFUSE = "Refuse"
    """Nobody may be elected now; its reason says why."""
    NOTHING = "Nothing"
    """It has a leader already."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Offsets the chosen log lacks of this broker's log: `records` of them, from `from_offset` on."""

    broker: BrokerId
    from_offset: Offset
    records: int


@dataclass(frozen=True, slots=True)
class Loss:
    """What the election costs, as far as it can be known.

    `at_least`: acknowledged or witnessed offsets surely lost. `at_most`: an upper bound on acknowledged loss, only for
    Lossless (0) and Bounded. `lacks`: what measured replicas hold and the chosen one does not (it will be truncated
    there). `unmeasured`: brokers whose copies nobody could look at: what one of them alone holds is lost.
    `missing`: evidence that would be needed for a better class. `proof`: why the class holds.
    """

    loss_class: LossClass
    at_least: int = 0
    at_most: int | None = None
    lacks: tuple[Lack, ...] = ()
    missing: tuple[str, ...] = ()
    proof: str = ""
    unmeasured: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerLoss:
    """What all elections of a plan together may take from one broker; of each partition its `Loss` says it.

    `records` of `partitions` are held there and are truncated. `unmeasured`: partitions of which nobody could look at
    its copy, so that what it alone holds of them is lost as well.
    """

    broker: BrokerId
    partitions: int
    records: int
    unmeasured: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one partition.

    `leader` is designated by `order`: the assignment with the designated leader first and the others best first, which
    stands in Kafka only while electing; `assignment` is the original, to be restored. Where the election itself names
    the leader (KIP-1275), both are the same. `ranking` holds the replicas that
    passed every guard, best first; `equals` those of them whose logs are equal to the best one's.
    """

    id: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    assignment: tuple[BrokerId, ...]
    verdict: Verdict
    rule: str
    tier: int
    candidate_order: CandidateOrder
    approval: Approval
    leader: BrokerId | None = None
    order: tuple[BrokerId, ...] = ()
    log_end: Offset | None = None
    ranking: tuple[BrokerId, ...] = ()
    equals: tuple[BrokerId, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    reason: Reason | None = None
    loss: Loss | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_worse_than_best(self) -> bool:
        """Whether a person named a leader that can't be interchanged with the best one."""
        return self.verdict is Verdict.ELECT and self.leader not in self.equals

    @property
    def needs_approval(self) -> bool:
        """Whether a person has to say yes before this election."""
        if self.verdict is not Verdict.ELECT or self.approval is Approval.AUTO:
            return False
        lossless = self.loss is not None and self.loss.loss_class is LossClass.LOSSLESS
        return not (self.approval is Approval.AUTO_LOSSLESS and lossless)


@dataclass(frozen=True, slots=True)
class Plan:
    """Decisions with the evidence and policy they stand on; `waves` hold the partitions to elect, in order.

    `may_lose`: what is approved with it, by broker; a broker that is not in it loses nothing.
    Its canonical JSON is the write-ahead log; the SHA-256 of that is what a person approves. `format`: of that JSON; a
    reader of another one refuses it.
    """

    format: Literal[2]
    evidence: Evidence
    policy: Policy
    decisions: tuple[Decision, ...]
    waves: tuple[tuple[TopicPartition, ...], ...]
    may_lose: tuple[BrokerLoss, ...]

    @property
    def elections(self) -> dict[TopicPartition, Decision]:
        """The decisions that change something: what is elected once it is approved."""
        return {decision.id: decision for decision in self.decisions if decision.verdict is Verdict.ELECT}

    @property
    def cluster_id(self) -> str:
        """The cluster this plan was made for, and may only be executed on."""
        return self.evidence.cluster.cluster_id
