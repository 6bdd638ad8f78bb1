"""What an election is asked with and answered with, and who leads afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset, Offset, TopicId, TopicPartition
from kafka_recovery.domain.reason import Reason


@dataclass(frozen=True, slots=True)
class Scope:
    """Which partitions: these, or None for every offline partition that the principal may see.

    `with_led`: replicas of those that have a leader are measured as well; a decision about the others needs none.
    """

    partitions: tuple[TopicPartition, ...] | None
    with_led: bool = False


ALL_OFFLINE = Scope(None)


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads one partition now, by the controller's metadata and by the leader's own answer.

    `log_end` is set only if `leader` itself answered, as leader, under `leader_epoch`; else `problem` says why not.
    `as_of`: the metadata are at least this new; None: the broker they were read from did not say.
    """

    id: TopicPartition
    topic_id: TopicId
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    assignment: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    log_end: Offset | None = None
    problem: Reason | None = None
    as_of: MetadataOffset | None = None


@dataclass(frozen=True, slots=True)
class Unseen:
    """A partition that may exist, and was not to be seen: a missing ACL, an error, an answer without it."""

    id: TopicPartition
    reason: Reason


@dataclass(frozen=True, slots=True)
class Gone:
    """A partition that does not exist, by metadata that are no older than was asked for."""

    id: TopicPartition
    reason: Reason


Sighting = Leadership | Unseen | Gone
"""What a look at one partition showed: unseen is neither gone nor unchanged."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A broker's own answer as a partition's leader."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    log_end: Offset


class Ranked(NamedTuple):
    """A leader that a fleet's ranking chose, for the outage that this leader epoch tells and for no other.

    A topic that was made anew under the same name has another id, and its epochs begin anew.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class ElectionRequest:
    """One election: `designated` is to lead, `order` puts it first, `assignment` stands before and after."""

    id: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    designated: BrokerId
    order: tuple[BrokerId, ...]
    assignment: tuple[BrokerId, ...]


class Answer(StrEnum):
    """What the controller said to one request or restore."""

    ACCEPTED = "Accepted"
    NOT_NEEDED = "NotNeeded"
    """The partition has a leader already."""
    CHANGED = "Changed"
    """Not done, because the cluster is not as it was: worth deciding again."""
    REFUSED = "Refused"
    """Not done, and asking again would not help."""
    UNANSWERED = "Unanswered"
    """Sent and not answered: it may take effect for 60 s (a broker forwards to the controller that long)."""


class Relay(NamedTuple):
    """The broker that a request to the controller was sent through, and where. `broker` None: its id is not known."""

    broker: BrokerId | None
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ElectionAnswer:
    """The controller's answer and, unless accepted, why.

    `relay`: through whom the request went that was not accepted; None: none was sent, or nobody can tell.
    """

    answer: Answer
    reason: Reason | None = None
    relay: Relay | None = None
