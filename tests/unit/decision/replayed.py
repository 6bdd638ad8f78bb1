"""Kafka's own ELR against the one that is replayed from a history: a second opinion, wherever Kafka has one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from kafka_recovery.decision.intactness import began_uncleanly
from kafka_recovery.domain.elr import replay_elr
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.history import HistoryStep
from kafka_recovery.domain.ids import BrokerId


def comparable(partitions: Iterable[PartitionEvidence]) -> list[PartitionEvidence]:
    """Those of one moment and one min.insync.replicas, since all were in sync and without an unclean election.

    An unclean election clears Kafka's ELR. With ELR off there is nothing to compare.
    """
    return [each for each in partitions if _is_comparable(each)]


def _is_comparable(partition: PartitionEvidence) -> bool:
    history = partition.history
    if partition.elr is None or partition.min_isr is None or history is None or not history.steps:
        return False
    first, last = history.steps[0], history.steps[-1]
    now = (last.leader_epoch, frozenset(last.isr)) == (partition.leader_epoch, frozenset(partition.isr))
    whole = frozenset(first.isr) == frozenset(first.replicas)
    minima = {step.min_isr for step in history.steps}
    return now and whole and minima == {partition.min_isr.value} and not began_uncleanly(history)


def _dropped(steps: Sequence[HistoryStep]) -> frozenset[BrokerId]:
    """Whom Kafka's ELR lost though leader and ISR stayed as they were."""
    return frozenset(
        broker
        for before, after in pairwise(steps)
        if (before.leader_epoch, frozenset(before.isr)) == (after.leader_epoch, frozenset(after.isr))
        for broker in set(before.elr or ()) - set(after.elr or ())
    )


def contradiction(partition: PartitionEvidence) -> str | None:
    """How the two differ beyond this: Kafka drops a member that starts anew after an unclean stop; a proof asks for it.

    And it drops all where min.insync.replicas was raised for a while, which no leader need have applied: the lower
    value counts all along. Only for one that is `comparable`.
    """
    history = partition.history
    assert history is not None
    theirs = frozenset(partition.isr).union(partition.elr or ())
    ours = replay_elr(history.steps)
    anew = {start.broker for start in history.starts if start.epoch > history.steps[0].since}
    if theirs <= ours <= theirs | anew | _dropped(history.steps):
        return None
    steps = [(step.leader, step.isr, step.elr, step.min_isr) for step in history.steps]
    return (
        f"{partition.id}: Kafka has {sorted(theirs)}, replayed are {sorted(ours)}; started anew {sorted(anew)}: {steps}"
    )
