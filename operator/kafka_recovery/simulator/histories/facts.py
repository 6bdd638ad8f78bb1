"""What is told of a history: what engines saw, wrote, asked and said, and what that did to the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset, TopicId, TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome, Report
from kafka_recovery.domain.policy import Policy
from kafka_recovery.simulator.model.log import Batch, RecordId

ENGINE = "engine"
"""Every engine's process has a name that begins so."""

LAST = f"{ENGINE}-last"
"""The process that recovers what is left when all is quiet."""

CREATION = "creation"
"""Who set the first assignment of a topic."""


def is_engine(by: str) -> bool:
    """Whether somebody of that name is an engine's process."""
    return by.startswith(ENGINE)


class Copy(NamedTuple):
    """A replica's true log at one moment. `local_start`: where it begins on the broker's own disk."""

    start: int
    end: int
    batches: tuple[Batch, ...]
    local_start: int = 0


@dataclass(frozen=True, slots=True)
class Witnessed:
    """Somebody has seen how far a leader's high watermark is. `epoch`: under which it led."""

    at: float
    topic_id: TopicId
    epoch: int
    end: int


@dataclass(frozen=True, slots=True)
class Misreported:
    """From now on a broker is wrong by so many records when it is asked where a log ends."""

    at: float
    broker: int
    records: int


@dataclass(frozen=True, slots=True)
class Filled:
    """From now on a broker's volume is full, or has room again."""

    at: float
    broker: BrokerId
    full: bool


@dataclass(frozen=True, slots=True)
class Looked:
    """An engine has gathered evidence. `copies`: what the replicas that it measured really hold at that moment."""

    at: float
    process: str
    evidence: Evidence
    copies: Mapping[tuple[TopicPartition, BrokerId], Copy] = field(default_factory=dict)

    def partition(self, id: TopicPartition) -> PartitionEvidence | None:
        """What it saw of one partition."""
        return next((partition for partition in self.evidence.partitions if partition.id == id), None)


@dataclass(frozen=True, slots=True)
class Shown:
    """An engine has read who leads a partition by the metadata. `epoch`: the partition's, also without a leader.

    `as_of`: how new the metadata are at least, if anybody said.
    """

    at: float
    process: str
    id: TopicPartition
    topic_id: TopicId
    leader: BrokerId | None
    epoch: LeaderEpoch
    assignment: tuple[BrokerId, ...] = ()
    as_of: MetadataOffset | None = None


@dataclass(frozen=True, slots=True)
class Unshown:
    """An engine has looked at a partition, and was shown nothing of it."""

    at: float
    process: str
    id: TopicPartition


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of a machine's journal has become durable.

    `wave`: the partitions whose requests it allows; `outcomes`: what it says of those of a wave that has ended.
    """

    at: float
    process: str
    machine: str
    digest: str
    name: str
    wave: frozenset[TopicPartition] = frozenset()
    outcomes: tuple[PartitionOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Granted:
    """Somebody was asked for approval and said yes (`by`) or no (None)."""

    at: float
    process: str
    digest: str
    by: str | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A broker has answered an engine as a partition's leader."""

    at: float
    process: str
    id: TopicPartition
    leader: BrokerId


@dataclass(frozen=True, slots=True)
class Asked:
    """An engine is about to send a change: "designate", "elect" or "restore"; or waits for a yes: "approve"."""

    at: float
    process: str
    machine: str
    what: str
    requests: tuple[ElectionRequest, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """An engine takes a step, for whoever lies in wait for it: a word of `scenario.Upon`, and who is to lead by it.

    `partition`: of the first one that it is about.
    """

    what: str
    machine: int
    partition: TopicPartition | None = None
    designated: BrokerId | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """An engine has its answers to a change it asked for.

    `doubtful`: what was written and, by the wire, not answered: it may still take effect, or may not. `claimed`: what
    the driver calls unanswered. `open_to_both`: what the wire shows too little of to say. `accepted`: by the driver.
    """

    at: float
    process: str
    machine: str
    what: str
    asked_at: float
    partitions: frozenset[TopicPartition]
    doubtful: frozenset[TopicPartition]
    claimed: frozenset[TopicPartition] = frozenset()
    open_to_both: frozenset[TopicPartition] = frozenset()
    accepted: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Wished:
    """What an engine's owners want from this moment on. `suspended`: no further wave may begin."""

    at: float
    policy: Policy
    authority: str = "Automatic"
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """The controller made somebody leader. `lost`: acknowledged records its log lacks that no leader lacked before.

    `held`: the records of its log at that moment.
    """

    at: float
    id: TopicPartition
    topic_id: TopicId
    leader: BrokerId
    epoch: LeaderEpoch
    by: str
    lost: tuple[RecordId, ...]
    held: frozenset[RecordId]


@dataclass(frozen=True, slots=True)
class Ordered:
    """The controller has another assignment of a partition. `reassigned`: with other replicas, so `before` is empty.

    The first one of a topic is `by` CREATION.
    """

    at: float
    id: TopicPartition
    topic_id: TopicId
    before: tuple[BrokerId, ...]
    after: tuple[BrokerId, ...]
    by: str
    reassigned: bool = False


@dataclass(frozen=True, slots=True)
class Configured:
    """A topic has a min.insync.replicas from this moment on."""

    at: float
    topic: str
    min_isr: int


@dataclass(frozen=True, slots=True)
class Led:
    """A broker took over as leader."""

    at: float
    id: TopicPartition
    broker: str
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class Concluded:
    """An engine gave a partition its outcome. `topic_id`, `assignment`: the controller's at that moment.

    `in_reach`: the brokers that its process could have asked then.
    """

    at: float
    process: str
    machine: str
    outcome: PartitionOutcome
    topic_id: TopicId | None
    assignment: tuple[BrokerId, ...]
    in_reach: frozenset[BrokerId] = frozenset()


@dataclass(frozen=True, slots=True)
class Waited:
    """An engine waits until a request of it that nobody answered can't take effect any more."""

    at: float
    process: str
    until: float


@dataclass(frozen=True, slots=True)
class Delayed:
    """An engine waits, for whatever reason."""

    at: float
    process: str
    why: str


@dataclass(frozen=True, slots=True)
class Paused:
    """An engine's process was stopped and let go on (SIGSTOP, SIGCONT): it noticed nothing but the time."""

    at: float
    process: str
    until: float


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of an engine is over. `scope` None: all offline; `leaderless`: what had no leader when it began.

    `report` None: it was killed, or ended with `error`, or with a `sentence` for a person instead. `timed_from`: when
    the time it may take began to count.
    """

    began: float
    timed_from: float
    ended: float
    process: str
    command: str
    scope: tuple[TopicPartition, ...] | None
    report: Report | None
    error: BaseException | None = None
    sentence: Exception | None = None
    hangs: bool = False
    leaderless: tuple[TopicPartition, ...] = ()
