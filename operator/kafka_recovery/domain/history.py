"""What happened to a partition since all its replicas were in sync: the ground a proof of losslessness stands on."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """The partition's state after one change. `min_isr` is the effective value while the step held.

    `unclean`: this step began with an unclean election; a restarted sole ISR member that was not intact counts as one.
    """

    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    min_isr: int
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """Every step since the last moment at which ISR = assignment, oldest first, from an unbroken record.

    `intact`: brokers whose copy is proven to hold all it held when last in the ISR (same incarnation, a clean shutdown,
    or the same boot id, volume and log directory). `transaction_log`: the loss class of `__transaction_state` where the
    topic takes part in transactions (EndTxn is acknowledged there), else None.
    """

    steps: tuple[HistoryStep, ...]
    intact: frozenset[BrokerId]
    transaction_log: LossClass | None = None
