"""Partitions that look alike, told once: who was in sync, who led last, and what each replica holds. Facts only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafka_recovery.decision.costs import is_empty
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition

_NAMED = 4
"""So many partitions, or neighbours of one topic, are named in a sentence; the others are counted."""


@dataclass(frozen=True, slots=True)
class Copies:
    """What one broker holds of partitions that are alike. `ends` and `epochs`: the least and the greatest.

    `ends` None: nobody could read them. `epochs` None: they hold no leader epoch, or it is not known. `empty`: all of
    them were read and hold no record.
    """

    broker: BrokerId
    ends: tuple[Offset, Offset] | None
    epochs: tuple[LeaderEpoch, LeaderEpoch] | None
    empty: bool


@dataclass(frozen=True, slots=True)
class Alike:
    """Partitions that have the same replicas, ISR, ELR and last leader, of which the same could be read.

    `elr` None: the release or the feature level has none. `last_leader` None: it is not known.
    """

    ids: tuple[TopicPartition, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...] | None
    last_leader: BrokerId | None
    copies: tuple[Copies, ...]


def alike(partitions: Sequence[PartitionEvidence]) -> tuple[Alike, ...]:
    """Those of which there are most first."""
    groups: dict[object, list[PartitionEvidence]] = {}
    for each in partitions:
        read = tuple((copy.broker, copy.log is None, is_empty(copy.log)) for copy in each.replicas)
        groups.setdefault((frozenset(read), each.isr, each.elr, _last_leader(each)), []).append(each)
    found = sorted(groups.values(), key=lambda group: (-len(group), group[0].id))
    return tuple(map(_glance, found))


def _glance(group: Sequence[PartitionEvidence]) -> Alike:
    first = group[0]
    ids = tuple(sorted(each.id for each in group))
    copies = tuple(_copies(group, broker) for broker in sorted(first.assignment))
    return Alike(ids, first.isr, first.elr, _last_leader(first), copies)


def _copies(group: Sequence[PartitionEvidence], broker: BrokerId) -> Copies:
    logs = [log for each in group if (copy := each.replica(broker)) and (log := copy.log)]
    ends = [log.end for log in logs]
    epochs = [log.last_epoch for log in logs if log.last_epoch is not None and not is_empty(log)]
    return Copies(
        broker,
        (min(ends), max(ends)) if ends else None,
        (min(epochs), max(epochs)) if epochs and len(epochs) == len(logs) else None,
        bool(logs) and all(map(is_empty, logs)),
    )


def _last_leader(partition: PartitionEvidence) -> BrokerId | None:
    """As the metadata tell it: an ISR of one is the last leader, for the ISR holds the leader as long as there is one.

    With ELR on, LastKnownElr has it (KIP-966).
    """
    for known in (partition.isr, partition.last_known_elr or ()):
        if len(known) == 1:
            return known[0]
    steps = partition.history.steps if partition.history else ()
    return next((step.leader for step in reversed(steps) if step.leader is not None), None)


def named(ids: Sequence[TopicPartition]) -> str:
    """The first ones; neighbours of one topic by the first and the last of them."""
    told: list[str] = []
    count = 0
    for run in _runs(sorted(ids)):
        if len(told) == _NAMED:
            return f"{', '.join(told)} and {len(ids) - count:,} more"
        told.append(", ".join(map(str, run)) if len(run) < 3 else f"{run[0]} to {run[-1]}")
        count += len(run)
    return ", ".join(told)


def _runs(ordered: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """Partitions of one topic whose numbers follow each other."""
    first = 0
    for index, (topic, number) in enumerate(ordered):
        following = ordered[index + 1] if index + 1 < len(ordered) else None
        if following != (topic, number + 1):
            yield ordered[first : index + 1]
            first = index + 1
