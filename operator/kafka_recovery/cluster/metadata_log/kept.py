"""What a reading of the metadata log kept for a later one, for Kafka cuts its log off behind a snapshot (KIP-630).

A snapshot tells how every partition stands and nothing of how that came about. So what is worth keeping is the history
of each partition that is out of sync: one that is in sync begins its history anew, in a snapshot as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kafka_recovery.cluster.metadata_log.minimum import Minima
from kafka_recovery.cluster.metadata_log.states import Key, PartitionState, Registration, registered_since
from kafka_recovery.domain.history import MOST_STEPS, HistoryStep


@dataclass(frozen=True, slots=True)
class KeptPartition:
    """A partition that is out of sync, and its steps since it was in sync. Raises ValueError for none or too many."""

    topic_id: UUID
    index: int
    steps: tuple[HistoryStep, ...]
    clean: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.steps) <= MOST_STEPS:
            raise ValueError(f"a kept history has 1 to {MOST_STEPS} steps (got {len(self.steps)})")


@dataclass(frozen=True, slots=True)
class KeptRegistration:
    """A registration of a broker's process. `epoch`: also its offset in the log."""

    broker: int
    epoch: int
    incarnation: UUID
    directories: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class KeptTopic:
    """Every value of its own that a topic's min.insync.replicas had since it was made, with the offset from which on.

    `made_at`: the offset at which it was; 0: it was there before anything was read.
    """

    name: str
    made_at: int
    minima: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """All histories that a snapshot would lack, as of one place in the log.

    `upto`: the first offset that is not in it; `epoch`: of the quorum, at the record before. Registrations are those of
    the brokers that hold replicas of these partitions, oldest first, from the process on that ran when the oldest of
    these histories began.
    """

    upto: int
    epoch: int
    partitions: tuple[KeptPartition, ...]
    topics: tuple[KeptTopic, ...]
    registrations: tuple[KeptRegistration, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold knows, which is kept, and added to. `made`: at which offset each topic was made, if known."""

    partitions: Mapping[Key, PartitionState]
    brokers: dict[int, list[Registration]]
    minima: Minima
    made: dict[str, int]


def kept_of(upto: int, epoch: int, out_of_sync: Iterable[Key], fold: Folded) -> KeptHistory:
    """What is to be kept of a fold that has come to `upto`."""
    whole = {key: each for key in out_of_sync if (each := fold.partitions[key]).whole}
    partitions = tuple(KeptPartition(*key, tuple(each.steps), tuple(sorted(each.clean))) for key, each in whole.items())
    oldest: dict[int, int] = {}
    for each in whole.values():
        for id in each.replicas:
            oldest[id] = min(oldest.get(id, upto), each.steps[0].since)
    registrations = [
        KeptRegistration(id, each.epoch, each.incarnation, tuple(sorted(each.directories)))
        for id, since in sorted(oldest.items())
        for each in registered_since(fold.brokers.get(id, ()), since)
    ]
    topics = [
        KeptTopic(name, fold.made.get(name, 0), tuple(fold.minima.of(name)))
        for name in sorted({each.topic for each in whole.values()})
    ]
    return KeptHistory(upto, epoch, partitions, tuple(topics), tuple(registrations))


def recall(kept: KeptHistory, fold: Folded) -> int | None:
    """Give a fold that has come to `kept.upto` the histories that it lacks; None: they are of another log.

    Returns how many steps it has more than before.

    A fold from a snapshot has the same partitions in the same state, and the brokers' processes since the snapshot. If
    anything differs, nothing is taken.
    """
    lacking: list[tuple[PartitionState, KeptPartition]] = []
    for each in kept.partitions:
        state = fold.partitions.get((each.topic_id, each.index))
        if state is None or not state.steps or _told(state.steps[-1]) != _told(each.steps[-1]):
            return None
        if not state.whole:
            lacking.append((state, each))
    longer = {id: _with_earlier(of_one, fold.brokers.get(id, [])) for id, of_one in _by_broker(kept).items()}
    found = {id: known for id, known in longer.items() if known is not None}
    if len(found) < len(longer) or not all(
        _last(each.minima) == _last(fold.minima.of(each.name)) for each in kept.topics
    ):
        return None
    fold.brokers.update(found)
    for topic in kept.topics:
        fold.made[topic.name] = topic.made_at
        fold.minima.put(topic.name, topic.minima)
    more = 0
    for state, each in lacking:
        more += len(each.steps) - len(state.steps)
        state.steps, state.whole, state.clean = list(each.steps), True, frozenset(each.clean)
    return more


def _told(step: HistoryStep) -> tuple[object, ...]:
    """What a snapshot tells of a step as well: not since when, nor which minimum counted."""
    return step.leader, step.leader_epoch, step.replicas, step.isr, step.elr or (), step.recovering


def _by_broker(kept: KeptHistory) -> dict[int, list[Registration]]:
    """Of each broker with a replica of these partitions, also of one that never registered."""
    of: dict[int, list[Registration]] = {id: [] for each in kept.partitions for id in each.steps[-1].replicas}
    for each in kept.registrations:
        of.setdefault(each.broker, []).append(Registration(each.epoch, each.incarnation, frozenset(each.directories)))
    return of


def _last(minima: Sequence[tuple[int, int]]) -> int | None:
    """The value in force; None: it was never set."""
    return minima[-1][1] if minima else None


def _with_earlier(kept: list[Registration], known: list[Registration]) -> list[Registration] | None:
    """What is known since the snapshot, with what was kept of before; None: they contradict each other.

    A snapshot may tell of other directories than the registration did, because one of them has failed since (KIP-858).
    """
    if not known:
        return kept
    earlier = [each for each in kept if each.epoch < known[0].epoch]
    both = kept[len(earlier) :]
    if not both or list(map(_process, both)) != list(map(_process, known[-len(both) :])):
        return None
    return [*earlier, *known[: -len(both)], *both]


def _process(registration: Registration) -> tuple[int, UUID]:
    return registration.epoch, registration.incarnation
