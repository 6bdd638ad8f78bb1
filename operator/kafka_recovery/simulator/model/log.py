"""One replica's log: records in batches, its leader-epoch vector, and what of both survives a crash."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafka_recovery.domain.evidence import EpochEntry, EpochVector
from kafka_recovery.domain.ids import LeaderEpoch, Offset, TopicId


class RecordId(NamedTuple):
    """A record as its producer numbered it: the same on every replica that holds it, at whatever offset."""

    producer: str
    sequence: int


class Batch(NamedTuple):
    """`records` records from offset `first` on, written in `epoch`; their ids count up from `sequence`.

    `stamp`: the leader's wall clock at the append, in seconds. `data`: the batch as a real client sent it.
    """

    first: int
    records: int
    epoch: int
    producer: str
    sequence: int
    stamp: float
    data: bytes | None = None

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.first + self.records

    def after(self, offset: int) -> Batch:
        """Its records from this offset on."""
        gone = offset - self.first
        return self._replace(first=offset, records=self.records - gone, sequence=self.sequence + gone, data=None)


class LoadedLog(NamedTuple):
    """A log given as a whole: one batch for each epoch. Replicas that share an epoch's start share its records."""

    epochs: EpochVector
    end: Offset
    start: Offset = Offset(0)


class Log:
    """Offsets are plain ints in here. `high_watermark` is what this replica believes, at most `end`.

    `flushed`: up to here the disk has it. `vector_limit`: entries kept of the vector (KAFKA-1211: it must not grow for
    ever); `forgotten`: the newest epoch that gave way to that limit, -1 for none.
    """

    __slots__ = (
        "_checkpoint",
        "_checkpointed_in",
        "batches",
        "end",
        "epochs",
        "flushed",
        "forgotten",
        "high_watermark",
        "on_disk_from",
        "start",
        "topic_id",
        "vector_limit",
    )

    def __init__(self, topic_id: TopicId, vector_limit: int | None = None) -> None:
        self.topic_id = topic_id
        self.batches: list[Batch] = []
        self.epochs: list[EpochEntry] = []
        self.start = 0
        self.on_disk_from = 0
        self.end = 0
        self.flushed = 0
        self.high_watermark = 0
        self.vector_limit = vector_limit
        self.forgotten = -1
        self._checkpoint = 0
        self._checkpointed_in = 0

    @classmethod
    def loaded(cls, topic_id: TopicId, log: LoadedLog, vector_limit: int | None = None) -> Log:
        """A log with history; all of it is on disk."""
        made = cls(topic_id, vector_limit)
        ends = [*[entry.start for entry in log.epochs[1:]], log.end]
        for age, (epoch, first), end in zip(range(len(ends), 0, -1), log.epochs, ends, strict=True):
            if first < end:
                made.batches.append(Batch(first, end - first, epoch, f"loaded-{epoch}", first, float(-age)))
        made.epochs = list(log.epochs)
        made.start, made.end, made.flushed = log.start, log.end, log.end
        return made

    @property
    def latest_epoch(self) -> int:
        """The vector's last epoch, which may hold no record; -1 for none."""
        return self.epochs[-1].epoch if self.epochs else -1

    @property
    def local_start(self) -> int:
        """Where it begins on the broker's own disk; what is before that is read from the remote tier (KIP-405)."""
        return max(self.start, self.on_disk_from)

    @property
    def vector(self) -> EpochVector:
        """The leader-epoch vector, oldest first."""
        return tuple(self.epochs)

    def assign(self, epoch: int, start: int) -> None:
        """A generation begins at `start`. One without records that began there too gives way (LeaderEpochFileCache)."""
        entries = self.epochs
        if entries and entries[-1].epoch == epoch:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start >= start):
            entries.pop()
        entries.append(EpochEntry(LeaderEpoch(epoch), Offset(start)))
        if self.vector_limit is not None and len(entries) > self.vector_limit:
            self.forgotten = entries[-self.vector_limit - 1].epoch
            del entries[: -self.vector_limit]

    def append(self, batch: Batch) -> None:
        """Add records at the end; `batch.first` is the end."""
        if batch.epoch != self.latest_epoch:
            self.assign(batch.epoch, batch.first)
        self.batches.append(batch)
        self.end = batch.first + batch.records

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch up to `epoch`, and where it ends; (-1, -1) if `epoch` is above the latest.

        Below the first known epoch the question is echoed with the vector's beginning (KIP-101, KIP-320). That is right
        where nothing older is left; where `forgets` says so it is a guess.
        """
        entries = self.epochs
        if not entries:
            return (epoch, self.end) if epoch == self.forgotten >= 0 else (-1, -1)
        if epoch > entries[-1].epoch:
            return -1, -1
        if epoch == entries[-1].epoch:
            return epoch, self.end
        index = bisect_right(entries, epoch, key=_epoch_of)
        if index == 0:
            return epoch if epoch < self.forgotten or self.forgotten < 0 else self.forgotten, entries[0].start
        return entries[index - 1].epoch, entries[index].start

    def forgets(self, epoch: int) -> bool:
        """Whether the log holds generations that could answer for this epoch, and no longer knows where they end."""
        return epoch < self.forgotten

    def read(self, offset: int, records: int) -> tuple[Batch, ...]:
        """Whole batches from `offset` on, about `records` of them; the first may begin before it."""
        batches = self.batches
        if not batches or offset >= self.end:
            return ()
        if batches[-1].first <= offset:
            return (batches[-1],)
        index = max(0, bisect_right(batches, offset, key=_first_of) - 1)
        found, taken = [], 0
        while index < len(batches) and taken < records:
            found.append(batches[index])
            taken += batches[index].records
            index += 1
        return tuple(found)

    def truncate(self, to: int) -> int:
        """Cut the log to end at `to`; returns how many records went. Empty generations at the cut go too."""
        self._cut_epochs(to)
        if to >= self.end:
            return 0
        dropped = self.end - max(to, self.start)
        batches = self.batches
        while batches and batches[-1].first >= to:
            batches.pop()
        if batches and batches[-1].end > to:
            batches[-1] = batches[-1]._replace(records=to - batches[-1].first, data=None)
        self.end = to
        self.start, self.on_disk_from = min(self.start, to), min(self.on_disk_from, to)
        self.flushed = min(self.flushed, to)
        self.high_watermark = min(self.high_watermark, to)
        if self.forgotten >= 0 and not self.epochs:
            self.forgotten = batches[-1].epoch if batches else -1
        return dropped

    def begin_at(self, start: int) -> None:
        """Throw everything away and begin at `start`: what a follower does whose leader no longer has the rest."""
        self.batches, self.epochs, self.forgotten = [], [], -1
        self.start = self.on_disk_from = self.end = self.flushed = self.high_watermark = start

    def retain_locally_from(self, start: int) -> None:
        """Local retention of a tiered topic: nothing before `start` is on this disk; the log begins as before."""
        self.on_disk_from = max(self.on_disk_from, min(start, self.high_watermark))

    def retain_from(self, start: int) -> None:
        """Retention or DeleteRecords: nothing before `start` any more; the entry that covers it moves there."""
        if start <= self.start:
            return
        self.start = start
        covered = [entry for entry in self.epochs if entry.start <= start]
        rest = [entry for entry in self.epochs if entry.start > start]
        self.epochs = [EpochEntry(covered[-1].epoch, Offset(start)), *rest] if covered else rest
        self.batches = [batch for batch in self.batches if batch.end > start]

    def advance(self, high_watermark: int, period: int) -> None:
        """Raise or set the high watermark; `period` counts checkpoint intervals, so that a crash knows the last one."""
        if period != self._checkpointed_in:
            self._checkpoint, self._checkpointed_in = self.high_watermark, period
        self.high_watermark = high_watermark

    def flush(self) -> None:
        """Everything is on disk now."""
        self.flushed = self.end

    def closed(self) -> None:
        """A clean stop flushes and checkpoints."""
        self.flush()
        self._checkpoint = self.high_watermark
        self._cut_epochs(self.end)

    def killed(self, period: int) -> None:
        """The process died, the page cache lives on. The high watermark falls back to its checkpoint."""
        if period == self._checkpointed_in:
            self.high_watermark = min(self._checkpoint, self.end)
        self._cut_epochs(self.end)

    def _cut_epochs(self, to: int) -> None:
        """Forget generations without a record before `to`: when a log is cut, and when it is loaded (`LogLoader`)."""
        self.epochs = [entry for entry in self.epochs if entry.start < to]

    def lost_power(self) -> int:
        """The host died, and its processes before: what was not flushed is gone; returns how many records."""
        return self.truncate(self.flushed) if self.flushed < self.end else 0

    def last_of(self, producer: str) -> Batch | None:
        """The producer's last batch in this log."""
        for batch in reversed(self.batches):
            if batch.producer == producer:
                return batch
        return None

    def newest(self) -> Batch | None:
        """The batch with the newest timestamp, the first of equals (ListOffsets MAX_TIMESTAMP)."""
        return max(self.batches, key=_stamp_of, default=None)


def record_ids(batches: Iterable[Batch], start: int = 0) -> Sequence[RecordId]:
    """The ids of all records in these batches from offset `start` on, in order."""
    return [
        RecordId(batch.producer, batch.sequence + offset - batch.first)
        for batch in batches
        for offset in range(max(batch.first, start), batch.end)
    ]


def _epoch_of(entry: EpochEntry) -> int:
    return entry.epoch


def _first_of(batch: Batch) -> int:
    return batch.first


def _stamp_of(batch: Batch) -> float:
    return batch.stamp
