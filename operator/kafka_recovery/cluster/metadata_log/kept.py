"""What a reading of the metadata log kept for a later one, for Kafka cuts its log off behind a snapshot (KIP-630).

A snapshot tells how every partition stands and nothing of how that came about. So what is worth keeping is the history
of each partition that is out of sync: one that is in sync begins its history anew, in a snapshot as well. And of any
partition what keeps it from being in sync, or a copy from being intact, and stands in no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kafka_recovery.cluster.metadata_log.minimum import DEFAULT, Minima
from kafka_recovery.cluster.metadata_log.processes import Processes, Registration
from kafka_recovery.cluster.metadata_log.states import NOBODY, Key, PartitionState
from kafka_recovery.domain.history import MOST_STEPS, HistoryStep


@dataclass(frozen=True, slots=True)
class KeptPartition:
    """A partition that is out of sync, and its steps since it was in sync. Raises ValueError for none or too many.

    `clean`, `moved` and `leaderless_at`: as in a PartitionState.
    """

    topic_id: UUID
    index: int
    steps: tuple[HistoryStep, ...]
    clean: tuple[int, ...]
    moved: tuple[tuple[int, UUID], ...] = ()
    leaderless_at: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.steps) <= MOST_STEPS:
            raise ValueError(f"a kept history has 1 to {MOST_STEPS} steps (got {len(self.steps)})")


@dataclass(frozen=True, slots=True)
class KeptCaution:
    """What speaks against a proof and is told by no snapshot of the partition, in sync or not: as in PartitionState."""

    topic_id: UUID
    index: int
    doubted: tuple[int, ...] = ()
    moving: tuple[int, ...] = ()
    forked: bool = False


@dataclass(frozen=True, slots=True)
class KeptRegistration:
    """A registration of a broker's process, as in `Registration`."""

    broker: int
    epoch: int
    incarnation: UUID
    directories: tuple[UUID, ...]
    failed: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptTopic:
    """Every value of its own that a topic's min.insync.replicas had since it was made, with the offset from which on.

    `made_at`: the offset at which it was; 0: it was there before anything was read.
    """

    name: str
    made_at: int
    minima: tuple[tuple[int, int], ...]


FORMAT = 4
"""Of what is kept. It grows when a defect of the fold is mended: what was kept with it is not recalled."""


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """All histories that a snapshot would lack, as of one place in the log.

    `upto`: the first offset that is not in it; `epoch`: of the quorum, and `time`: the controller's clock
    (milliseconds), both at the record before. A quorum restored from a backup may come to the same offset in an epoch
    of the same number, and never at the same time. Registrations are those of the brokers that held replicas in these
    histories, oldest first, from the process on that ran when the oldest of these histories began. `seen`: brokers
    with several directories of whose running process it is known which copies it moved. Raises ValueError for another
    format.
    """

    upto: int
    epoch: int
    time: int
    partitions: tuple[KeptPartition, ...]
    topics: tuple[KeptTopic, ...]
    registrations: tuple[KeptRegistration, ...]
    cautions: tuple[KeptCaution, ...] = ()
    seen: tuple[int, ...] = ()
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"this release keeps histories in format {FORMAT} (got {self.format})")


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold knows, which is kept, and added to. `made`: at which offset each topic was made, if known."""

    partitions: Mapping[Key, PartitionState]
    processes: Processes
    minima: Minima
    made: dict[str, int]


def kept_of(upto: int, epoch: int, time: int, out_of_sync: Iterable[Key], fold: Folded) -> KeptHistory:
    """What is to be kept of a fold that has come to `upto`."""
    known = ((key, fold.partitions[key]) for key in out_of_sync)
    whole = {key: each for key, each in known if each.whole and not each.doubted}
    partitions = tuple(
        KeptPartition(*key, tuple(each.steps), tuple(sorted(each.clean)), tuple(sorted(each.moved)), each.leaderless_at)
        for key, each in whole.items()
    )
    cautions = tuple(
        KeptCaution(*key, tuple(sorted(each.doubted)), tuple(sorted(each.moving)), each.forked)
        for key, each in fold.partitions.items()
        if each.doubted or each.moving or each.forked
    )
    oldest: dict[int, int] = {}
    for each in whole.values():
        for id in _who_held(each.steps):  # a former leader's processes tell whether transactions are in doubt
            oldest[id] = min(oldest.get(id, upto), each.steps[0].since)
    registrations = [
        KeptRegistration(id, each.epoch, each.incarnation, tuple(sorted(each.directories)), tuple(sorted(each.failed)))
        for id, since in sorted(oldest.items())
        for each in fold.processes.since(id, since)
    ]
    topics = [
        KeptTopic(name, fold.made.get(name, 0), tuple(fold.minima.of(name)))
        for name in sorted({each.topic for each in whole.values()})
    ]
    seen = tuple(sorted(fold.processes.may_move - fold.processes.unseen))
    return KeptHistory(upto, epoch, time, partitions, tuple(topics), tuple(registrations), cautions, seen)


def heed(cautions: Iterable[KeptCaution], partitions: Mapping[Key, PartitionState], *, here: bool) -> None:
    """They hold wherever a fold has come to, and whatever it can't know of before: a topic's id never comes back.

    `here`: it has come to the very place of which they were kept.
    """
    for each in cautions:
        if (state := partitions.get((each.topic_id, each.index))) is not None:
            state.heed(doubted=each.doubted, moving=each.moving, forked=each.forked, here=here)


def recall(kept: KeptHistory, fold: Folded) -> int | None:
    """Give a fold that has come to `kept.upto` the histories that it lacks; None: they are of another log.

    Returns how many steps it has more than before.

    A fold from a snapshot has the same partitions in the same state, and their steps and the brokers' processes since
    the snapshot. If anything differs, nothing is taken. What was kept counts for more than a history that began with
    the snapshot: all that are in the ISR there may be in sync, or in doubt.
    """
    found_here: list[tuple[PartitionState, KeptPartition]] = []
    for each in kept.partitions:
        state = fold.partitions.get((each.topic_id, each.index))
        if state is None or not state.steps or not _agree(each.steps, state.steps):
            return None
        found_here.append((state, each))
    longer = {id: _with_earlier(of_one, fold.processes.known.get(id, [])) for id, of_one in _by_broker(kept).items()}
    found = {id: known for id, known in longer.items() if known is not None}
    if len(found) < len(longer) or not all(
        _last(each.minima) == _last(fold.minima.of(each.name)) for each in kept.topics
    ):
        return None
    fold.processes.known.update(found)
    fold.processes.unseen -= set(kept.seen)
    for topic in kept.topics:
        fold.made[topic.name] = topic.made_at
        fold.minima.put(topic.name, topic.minima)
    more = 0
    for state, each in found_here:
        more += len(each.steps) - len(state.steps)
        state.steps, state.whole = list(each.steps), True
        state.clean, state.moved = frozenset(each.clean), frozenset(each.moved)
        if state.leader == NOBODY and state.leaderless_at is None:
            state.leaderless_at = each.leaderless_at
    return more


def _agree(kept: Sequence[HistoryStep], read: Sequence[HistoryStep]) -> bool:
    """Whether both tell the same from where what was read begins."""
    began = read[0].since
    return _from(began, kept) == _from(began, read)


def _from(began: int, steps: Sequence[HistoryStep]) -> list[tuple[object, ...]]:
    """How it stood at that offset, and each step after it with its place."""
    before = [_told(step) for step in steps if step.since <= began]
    return [*before[-1:], *((step.since, *_told(step)) for step in steps if step.since > began)]


def _told(step: HistoryStep) -> tuple[object, ...]:
    """What a snapshot tells of a step as well: not since when, nor which minimum counted."""
    return step.leader, step.leader_epoch, step.replicas, step.isr, step.elr or (), step.recovering


def _by_broker(kept: KeptHistory) -> dict[int, list[Registration]]:
    """Of each broker that held a replica of these partitions, also of one that never registered."""
    of: dict[int, list[Registration]] = {id: [] for each in kept.partitions for id in _who_held(each.steps)}
    for each in kept.registrations:
        directories, failed = frozenset(each.directories), frozenset(each.failed)
        of.setdefault(each.broker, []).append(Registration(each.epoch, each.incarnation, directories, failed))
    return of


def _who_held(steps: Iterable[HistoryStep]) -> set[int]:
    return {id for step in steps for id in step.replicas}


def _last(minima: Sequence[tuple[int, int]]) -> int:
    """The value in force. A snapshot does not tell of one that was taken away."""
    return minima[-1][1] if minima else DEFAULT


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
