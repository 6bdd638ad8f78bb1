"""What the metadata log's records add up to: each partition's steps since it was in sync, each broker's processes.

Facts only; `decision` concludes. Sources: KRaft's replay rules (KIP-631), LeaderRecoveryState (KIP-704), directories
(KIP-858), ELR and the clean shutdown that keeps a broker in it (KIP-966).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any
from uuid import UUID

from kafka_recovery.cluster.codec import Unreadable
from kafka_recovery.cluster.metadata import topic_id_text
from kafka_recovery.cluster.metadata_log.batches import Batch
from kafka_recovery.cluster.metadata_log.kept import Folded, KeptHistory, heed, kept_of, recall
from kafka_recovery.cluster.metadata_log.minimum import NAME, LogTime, Minima
from kafka_recovery.cluster.metadata_log.processes import Processes
from kafka_recovery.cluster.metadata_log.records import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    OF_FENCING,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    read,
)
from kafka_recovery.cluster.metadata_log.states import NOBODY, Key, PartitionState, directory_of, is_placed, note_moves
from kafka_recovery.cluster.metadata_log.unfenced import Alive, Unfenced
from kafka_recovery.domain.elr import some_leader_was_no_member
from kafka_recovery.domain.history import MOST_STEPS, BrokerStart, HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, MetadataOffset
from kafka_recovery.domain.loss_class import LossClass

_LOG = logging.getLogger(__name__)

_SAME_LEADER = -2
_IN_THIS_BATCH = -1
_RECOVERING = 1
_TOPIC = 2
"""The resource type of a topic's configuration."""
_TRANSACTIONS = "__transaction_state"

ELR_FEATURE = "eligible.leader.replicas.version"
MOST_HELD = 1_000_000
"""Records of one metadata transaction that are held until it ends."""
MOST_STEPS_IN_ALL = 1_000_000
"""Steps of all partitions together: some 250 MiB. 200,000 partitions that lost two brokers one by one take 600,000."""


@dataclass(slots=True)
class Image:
    """The fold. `upto`: the first offset that is not in it. `doubt`: why what it says is not to be relied on.

    `at`: the controller's clock (milliseconds) at the record before; None: a snapshot ends there, which tells no time.
    `awaited`: what an earlier reading kept, as long as this one has not come so far. What does not fit is left out.
    """

    awaited: KeptHistory | None = None
    upto: int = 0
    epoch: int = 0
    at: int | None = None
    doubt: str | None = None
    time: LogTime = field(default_factory=LogTime)
    minima: Minima = field(default_factory=Minima)
    unfenced: Unfenced = field(default_factory=Unfenced)
    _names: dict[UUID, str] = field(default_factory=dict)
    _by_topic: dict[str, list[Key]] = field(default_factory=dict)
    _partitions: dict[Key, PartitionState] = field(default_factory=dict)
    _processes: Processes = field(default_factory=Processes)
    _with_elr: set[Key] = field(default_factory=set)
    _out_of_sync: set[Key] = field(default_factory=set)
    _changed: dict[Key, int] = field(default_factory=dict)
    _created: dict[str, int] = field(default_factory=dict)
    _maybe_clean: list[tuple[Key, int, int]] = field(default_factory=list)
    _held: list[tuple[int, bytes]] | None = None
    _elr: bool = False
    _steps: int = 0
    _doubted: tuple[int, bool] = (-1, False)
    """At which offset it was last asked whether transactions are in doubt, and what was found."""

    def apply(self, batch: Batch) -> None:
        """The next batch of the log. What can't be read, or does not fit what was read before, leaves a doubt for good.

        The records of a batch are one change to brokers: what held in its middle only was never seen by anybody.
        """
        self.time.advance(batch.first, batch.time)
        values = [(offset, value) for offset, value in batch.values if offset >= self.upto]
        self._all_at_once(values, batch.last, f"the metadata log can't be followed beyond offset {batch.first}")
        self.upto, self.epoch, self.at = batch.last + 1, batch.epoch, batch.time
        self._recall()

    def load(self, end: int, epoch: int, batches: Iterable[Batch]) -> None:
        """A snapshot, as one state at its end; it has no history. `batches` may raise Unreadable."""
        last = max(0, end - 1)
        trouble = f"the metadata snapshot at offset {end} can't be read"
        self._all_at_once(self._of_snapshot(last, batches), last, trouble, news=False)
        self._processes.unseen = self._processes.may_move
        self.upto, self.epoch, self.at = end, epoch, None
        self._recall()

    def _recall(self) -> None:
        """Take what was kept at its own place, beyond which it has a gap; what speaks against a proof, anywhere."""
        kept = self.awaited
        if kept is None or self.upto < kept.upto or self.doubt is not None:
            return
        self.awaited = None
        is_here = (self.upto, self.epoch, self.at) == (kept.upto, kept.epoch, kept.time)
        more = recall(kept, self._folded()) if is_here else None
        heed(kept.cautions, self._partitions, here=is_here)
        if more is None:
            _LOG.warning("the history that was kept up to offset %d is not of this metadata log", kept.upto)
        else:
            self._steps += more

    def kept(self) -> KeptHistory | None:
        """What a later reading would lack where the log is cut off; None: it is not known."""
        if self.doubt is not None or self.awaited is not None or self.at is None:
            return None
        return kept_of(self.upto, self.epoch, self.at, self._out_of_sync, self._folded())

    def _folded(self) -> Folded:
        return Folded(self._partitions, self._processes, self.minima, self._created)

    def _of_snapshot(self, last: int, batches: Iterable[Batch]) -> Iterator[tuple[int, bytes]]:
        for batch in batches:
            self.time.advance(last, batch.time)
            for _, value in batch.values:
                yield last, value

    def _all_at_once(self, values: Iterable[tuple[int, bytes]], last: int, trouble: str, *, news: bool = True) -> None:
        """Replay these, up to offset `last`, as one change. A topic that is no news was made nobody knows when."""
        if self.doubt is not None:
            return
        try:
            for offset, value in values:
                self._record(offset, value)
            if not news:
                self._created.clear()
            self._note_steps(last)
        except (Unreadable, KeyError, ValueError, TypeError) as error:
            unfit = str(error) if isinstance(error, Unreadable) else f"a record does not fit: {error!r}"
            self.doubt = f"{trouble}: {unfit}"

    def _record(self, offset: int, value: bytes) -> None:
        key, record = read(value)
        if key == BEGIN_TRANSACTION:
            if self._held is not None:
                raise Unreadable("a metadata transaction begins within another")
            self._held = []
        elif key == ABORT_TRANSACTION:
            self._held = None
        elif key == END_TRANSACTION:
            held, self._held = self._held or [], None
            for at, each in held:
                self._replay(at, read(each)[1])
        elif record is None:
            if key in OF_FENCING:
                self.unfenced.lose()
                self._processes.lose()
            return
        elif self._held is not None:
            self._held.append((offset, value))
            if len(self._held) > MOST_HELD:
                raise Unreadable(f"a metadata transaction of more than {MOST_HELD} records")
        else:
            self._replay(offset, record)

    def _replay(self, offset: int, record: Any) -> None:
        self.unfenced.replay(record)
        self._processes.replay(record)
        match record:
            case PartitionChangeRecord():
                self._change(offset, record)
            case PartitionRecord():
                self._create(offset, record)
            case TopicRecord():
                if record.name in self._by_topic:
                    raise Unreadable(f"topic {record.name} is made twice")
                self._names[record.topic_id] = record.name
                self._by_topic[record.name] = []
                self._created[record.name] = _IN_THIS_BATCH
            case RemoveTopicRecord():
                self._remove(record.topic_id)
            case ConfigRecord():
                self._configure(offset, record)
            case RegisterBrokerRecord():
                self._register(record)
            case FeatureLevelRecord(name=name) if name == ELR_FEATURE:
                self._elr = record.feature_level > 0
            case ClearElrRecord():
                for name in [record.topic_name] if record.topic_name else list(self._by_topic):
                    for key in self._by_topic.get(name, ()):
                        self._clear_elr(offset, key)

    def _create(self, offset: int, record: Any) -> None:
        key = record.topic_id, record.partition_id
        name = self._names[record.topic_id]
        known = self._partitions.get(key)
        made = PartitionState(
            name,
            tuple(record.replicas),
            tuple(record.isr),
            record.leader,
            record.leader_epoch,
            record.leader_recovery_state == _RECOVERING,
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
            tuple(record.directories or ()),
        )
        if known is None:
            self._by_topic[name].append(key)
        else:
            made.go_on(known, self._processes)
        self._partitions[key] = made
        self._touch(offset, key, made)

    def _change(self, offset: int, record: Any) -> None:
        key = record.topic_id, record.partition_id
        partition = self._partitions[key]
        lay = None if record.directories is None else partition.places
        for field_name, told in (
            ("isr", record.isr),
            ("replicas", record.replicas),
            ("directories", record.directories),
            ("elr", record.eligible_leader_replicas),
            ("last_known_elr", record.last_known_elr),
        ):
            if told is not None:
                setattr(partition, field_name, tuple(told))
        if lay is not None:
            note_moves(partition, lay, self._processes)
        if record.leader_recovery_state >= 0:
            partition.recovering = record.leader_recovery_state == _RECOVERING
        if record.leader != _SAME_LEADER:
            partition.led_by(record.leader, self.time.now)
        self._touch(offset, key, partition)

    def _touch(self, offset: int, key: Key, partition: PartitionState) -> None:
        """A step of this partition begins here; its min.insync.replicas is known once the batch is read."""
        partition.doubted &= frozenset(partition.isr)
        (self._with_elr.add if partition.elr else self._with_elr.discard)(key)
        (self._out_of_sync.discard if partition.in_sync else self._out_of_sync.add)(key)
        self._add_step(partition, offset)
        self._changed.setdefault(key, offset)

    def _clear_elr(self, offset: int, key: Key) -> None:
        partition = self._partitions[key]
        if partition.elr or partition.last_known_elr:
            partition.elr = partition.last_known_elr = ()
            self._touch(offset, key, partition)

    def _remove(self, topic_id: UUID) -> None:
        name = self._names.pop(topic_id)
        for key in self._by_topic.pop(name, ()):
            gone = self._partitions.pop(key, None)
            self._steps -= len(gone.steps) if gone else 0
            self._with_elr.discard(key)
            self._out_of_sync.discard(key)
            self._changed.pop(key, None)
        self._created.pop(name, None)
        self.minima.forget(name)

    def _configure(self, offset: int, record: Any) -> None:
        if record.name != NAME or record.resource_type != _TOPIC:
            return
        self.minima.set(record.resource_name, offset, record.value)
        for key in self._by_topic.get(record.resource_name, ()):
            self._touch(offset, key, self._partitions[key])

    def _register(self, record: Any) -> None:
        """A member of the ELR that registers may have shut down cleanly: what the batch says of the ELR tells it.

        A controller whose ELR was switched off leaves in it who had not.
        """
        for key in self._with_elr if self._elr else ():
            if record.broker_id in self._partitions[key].elr:
                self._maybe_clean.append((key, record.broker_id, record.broker_epoch))

    def _add_step(self, partition: PartitionState, offset: int) -> None:
        """What the first one says of the minimum is settled now, if it began in sync."""
        steps = partition.steps
        if partition.in_sync:
            self._steps -= len(steps)
            partition.begin()
        elif len(steps) == 1 and partition.whole:
            steps[0] = self._with_minimum(partition, steps[0], offset - 1)
        elif partition.forked:  # no history begins any more, so none of these will be told
            self._steps -= len(steps)
            steps.clear()
        steps.append(partition.step(offset, with_elr=self._elr))
        self._steps += 1
        if len(steps) > MOST_STEPS:
            del steps[0]
            self._steps -= 1
            partition.whole = False
        if self._steps > MOST_STEPS_IN_ALL:
            raise Unreadable(f"more than {MOST_STEPS_IN_ALL:,} ISR changes since the partitions were last in sync")

    def _note_steps(self, last: int) -> None:
        """What this batch changed has its minimum now. Who registered in it had shut down cleanly where it was in the
        ELR and still is in it, or is back in the ISR: the same batch takes another one out (KIP-966).
        """
        for key, id, epoch in self._maybe_clean:
            partition = self._partitions.get(key)
            if partition is None or id not in (*partition.elr, *partition.isr) or partition.recovering:
                continue
            if is_placed(partition, id) or self._processes.has_all(id):
                partition.clean |= {epoch}
        self._maybe_clean.clear()
        self._doubt_who_began_anew()
        for key, since in self._changed.items():
            partition = self._partitions[key]
            steps = partition.steps
            if self._created.get(partition.topic) == _IN_THIS_BATCH:
                self._created[partition.topic] = last
            for place in range(len(steps) - 1, -1, -1):
                if steps[place].since < since:
                    break
                steps[place] = self._with_minimum(partition, steps[place], last)
        self._changed.clear()

    def _doubt_who_began_anew(self) -> None:
        if anew := frozenset(self._processes.anew):
            unseen = anew & self._processes.unseen
            for partition in self._partitions.values():
                partition.doubt(anew, unseen)
            self._processes.unseen -= anew
            self._processes.anew.clear()

    def _with_minimum(self, partition: PartitionState, step: HistoryStep, upto: int) -> HistoryStep:
        """The step, with the lowest value that its leader may have gone by at offset `upto`."""
        since = max(self._created.get(partition.topic, 0), self._process_or_hour(step.leader))
        least = self.minima.lowest(partition.topic, since, upto)
        return replace(step, min_isr=min(least, len(step.replicas)))

    def _process_or_hour(self, leader: BrokerId | None) -> int:
        """From which offset on a leader may still go by a value: since its process began, or for an hour at most."""
        known = [offset for offset in (self._processes.began(leader), self.time.settled()) if offset is not None]
        return max(known, default=0)

    def alive(self) -> Alive | None:
        """Who is not fenced; None: what was read is not to be relied on."""
        return None if self.doubt else self.unfenced.told(MetadataOffset(self.upto - 1), self.epoch)

    def history(self, topic_id: UUID, index: int) -> PartitionHistory | None:
        """Every step of the partition since it was last in sync; None: it was not, in what was read, or is unknown."""
        partition = self._partitions.get((topic_id, index))
        if partition is None or not partition.whole or not partition.steps or self.doubt:
            return None
        since = partition.steps[0].since
        starts = [start for id in partition.replicas for start in self._starts(partition, id, since)]
        starts.sort(key=attrgetter("epoch"))
        cap = LossClass.UNKNOWN if partition.topic != _TRANSACTIONS and self._transactions_in_doubt() else None
        if len(starts) > MOST_STEPS:
            return None
        as_of, steps = MetadataOffset(self.upto - 1), tuple(partition.steps)
        return PartitionHistory(topic_id_text(topic_id), as_of, steps, tuple(starts), cap)

    def leaderless_at(self, topic_id: UUID, index: int) -> int | None:
        """When the partition lost its leader, see `PartitionState`."""
        partition = self._partitions.get((topic_id, index))
        return None if partition is None or self.doubt else partition.leaderless_at

    def _starts(self, partition: PartitionState, id: int, since: int) -> Iterator[BrokerStart]:
        """The process that ran when the history began, and every registration after it."""
        for each in self._processes.since(id, since):
            yield BrokerStart(
                BrokerId(id),
                BrokerEpoch(each.epoch),
                stopped_cleanly=True if each.epoch in partition.clean else None,
                directory=directory_of(partition, id, each),
                incarnation=str(each.incarnation),
            )

    def _transactions_in_doubt(self) -> bool:
        """Whether a partition that acknowledges transactions has no leader, or may have one that lacks some."""
        if self._doubted[0] != self.upto:
            partitions = [self._partitions[key] for key in self._by_topic.get(_TRANSACTIONS, ())]
            self._doubted = self.upto, any(map(self._may_lack_transactions, partitions))
        return self._doubted[1]

    def _may_lack_transactions(self, partition: PartitionState) -> bool:
        """A leader was no member since all were in sync, or came back as a new process, which may have lost some."""
        steps = partition.steps
        if partition.leader == NOBODY or not partition.whole or some_leader_was_no_member(steps):
            return True
        led = {step.leader for step in steps if step.leader is not None}
        processes = ({each.incarnation for each in self._processes.since(id, steps[0].since)} for id in led)
        return any(len(each) > 1 for each in processes)
