"""Who was in ISR or ELR (KIP-966), replayed from a history's steps, by the minimum that leaders may have gone by."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kafka_recovery.domain.history import HistoryStep
from kafka_recovery.domain.ids import BrokerId


def replay_elr(steps: Sequence[HistoryStep]) -> frozenset[BrokerId]:
    """ISR and ELR after these steps, as KIP-966 tracks them, also where the cluster has ELR off.

    While the ISR is below min.insync.replicas nothing is acknowledged, so who leaves it then still holds everything
    that was. Where one step changes both ISR and min.insync.replicas, the lower value counts: records may have been
    acknowledged in between.
    """
    elr: frozenset[BrokerId] = frozenset()
    for before, after in pairwise(steps):
        isr = frozenset(after.isr)
        enough = min(before.min_isr, after.min_isr, len(after.replicas))
        elr = frozenset() if len(isr) >= enough else (elr | frozenset(before.isr)) - isr
    return elr | frozenset(steps[-1].isr)


def elections(steps: Sequence[HistoryStep]) -> list[tuple[int, BrokerId]]:
    """Who was elected, by the place of the step that tells it."""
    return [
        (place, after.leader)
        for place, (before, after) in enumerate(pairwise(steps), 1)
        if after.leader is not None and after.leader_epoch != before.leader_epoch
    ]


def some_leader_was_no_member(steps: Sequence[HistoryStep]) -> bool:
    """Whether a leader may have lacked what was acknowledged without it.

    By the partition's recovery state; or because Kafka's own ELR had it and the replayed one has not: the controller
    counts a min.insync.replicas that the leader before may not have gone by.
    """
    return any(step.recovering for step in steps) or any(
        leader not in replay_elr(steps[:place]) for place, leader in elections(steps)
    )
