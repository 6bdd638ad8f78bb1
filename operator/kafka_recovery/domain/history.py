"""What happened to a partition since all its replicas were in sync: the ground a proof of losslessness stands on.

Facts only, as the metadata log and the brokers' hosts tell them. What they prove is concluded in `decision.intactness`
and `decision.loss`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, LeaderEpoch, MetadataOffset, TopicId
from kafka_recovery.domain.loss_class import LossClass

MOST_STEPS = 100
"""A history has no more steps, and tells of no more starts: it is a part of every plan that stands on it."""


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """The partition's state from one change of it, or of its min.insync.replicas, to the next.

    `since`: the offset of that change in the metadata log. `min_isr`: the effective value while the step held. `elr`
    None: the release or the feature level has none (KIP-966). `recovering`: its leader was elected uncleanly, and the
    ISR has not changed since (LeaderRecoveryState).
    """

    since: MetadataOffset
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...] | None
    min_isr: int
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """A registration of a broker's process. `incarnation`: the process's. `epoch`: also its offset in the metadata log,
    or that of the first record of its batch: from Kafka 4.0 on, partitions that it changes come first (seen on 4.4).

    `stopped_cleanly`: the process before it had flushed its logs, as the controller found. `directory` holds the
    replica's log, or each that held it in this history, on `volume`; `boot` is the host's boot id, on Kubernetes with
    the Pod on it: what the process had written stays while all are the same. None is not known.
    """

    broker: BrokerId
    epoch: BrokerEpoch
    stopped_cleanly: bool | None = None
    directory: str | None = None
    volume: str | None = None
    boot: str | None = None
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """Every step since the last moment at which ISR = assignment, oldest first, from an unbroken record.

    `as_of`: it is whole up to this offset of the metadata log, and was read no earlier than the logs were measured.
    `starts`: of the brokers that hold replicas, in the order of their epochs: whatever ran when the history began, and
    whatever came later. `transaction_log`: the loss class of `__transaction_state` where the topic takes part in
    transactions (EndTxn is acknowledged there), else None. Raises ValueError if it is too long.
    """

    topic_id: TopicId
    as_of: MetadataOffset
    steps: tuple[HistoryStep, ...]
    starts: tuple[BrokerStart, ...]
    transaction_log: LossClass | None = None

    def __post_init__(self) -> None:
        for word, told in (("steps", self.steps), ("starts", self.starts)):
            if len(told) > MOST_STEPS:
                raise ValueError(f"a history has at most {MOST_STEPS} {word} (got {len(told)})")
