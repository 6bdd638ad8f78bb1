"""When what nobody is asked about is elected, while others of its plan wait for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kafka_recovery.domain.counts import AWAITING_APPROVAL
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.kube.recoveries.pauses import LONGEST_PAUSE, SHORTEST_PAUSE

Unasked = Mapping[TopicPartition, PartitionOutcome | None]
"""Elections without a leader yet that want nobody's yes, and what came of each when it was tried."""


class Tries:
    """What was tried, and was halted, met a fault or was refused, is tried again after a pause.

    The pause doubles while nothing comes of it: a person reads the plan meanwhile, and each try writes to the journal.
    """

    def __init__(self) -> None:
        self._left: frozenset[TopicPartition] = frozenset()
        self._pause = SHORTEST_PAUSE
        self._next = 0.0

    def is_due(self, unasked: Unasked) -> bool:
        """Whether they are to be elected now."""
        if any(map(_is_untried, unasked.values())):
            return True
        return bool(unasked) and asyncio.get_running_loop().time() >= self._next

    def begun(self, unasked: Unasked) -> None:
        """They are elected now, as far as they can be."""
        fewer = unasked.keys() != self._left
        self._pause = SHORTEST_PAUSE if fewer else min(2 * self._pause, LONGEST_PAUSE)
        self._left = frozenset(unasked)
        self._next = asyncio.get_running_loop().time() + self._pause.total_seconds()


def is_any_tried(unasked: Unasked) -> bool:
    """Whether the cluster is to be looked at first: what came of a try may be over, or hold for good."""
    return not all(map(_is_untried, unasked.values()))


def _is_untried(outcome: PartitionOutcome | None) -> bool:
    """Whether nothing came of it but that a yes was wanted, and lacking."""
    return outcome is None or (outcome.reason is not None and outcome.reason.code == AWAITING_APPROVAL)
