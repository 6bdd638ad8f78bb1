"""Measuring replicas: log end, log start and leader-epoch vector, asked of each replica's own broker.

A partition without a leader still has followers that answer: a `ReplicaReader` is told the log end, Fetch the vector,
and what both tell is merged. Measured on Kafka 3.9 to 4.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from kafka_recovery.cluster.broker_reader import ANY_EPOCH, DEBUGGING_CONSUMER, EARLIEST, MAX_TIMESTAMP, BrokerReader
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.epoch_vectors import EpochVectors, Probe
from kafka_recovery.cluster.errors import BrokerTimeout, reason_for
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import PartitionState
from kafka_recovery.cluster.replica_readers import (
    FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH,
    ListOffsets,
    LogEnd,
    ReplicaReader,
)
from kafka_recovery.cluster.together import together
from kafka_recovery.domain.evidence import Replica, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.quickly import made_quickly
from kafka_recovery.domain.reason import Reason

PARTITIONS_A_REQUEST = 2500
LOG_DIR_OFFLINE = "LogDirOffline"
LOG_ENDS_CONTRADICT = "LogEndsContradict"

_NONE, _KAFKA_STORAGE_ERROR = 0, 56
_OTHER_EPOCH = frozenset({FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH})
_METADATA_LAG = timedelta(seconds=1)
"""How long a live broker may take to learn the current leader epoch before it counts as not knowing it."""

T = TypeVar("T")

_log = made_quickly(ReplicaLog)
_replica = made_quickly(Replica)


@dataclass(frozen=True, slots=True)
class ReplicaSurvey:
    """One broker's copies of many partitions, measured in a few batched requests within `deadline`, all in all.

    `now`: the wall clock that what is measured is dated by. `ends`: who tells where logs end.

    It remembers how far it came: measuring the unfinished ones again goes on from there.
    """

    brokers: Brokers
    broker: BrokerId
    at: Address
    deadline: timedelta
    now: Callable[[], datetime]
    ends: ReplicaReader = field(default_factory=ListOffsets)
    unfinished: set[TopicPartition] = field(default_factory=set, init=False, repr=False, compare=False)
    """About which not everything was answered at the deadline; asking again may help."""
    _begun: dict[TopicPartition, Probe] = field(default_factory=dict, init=False, repr=False, compare=False)

    async def measure(
        self,
        states: Iterable[PartitionState],
        *,
        may_lead: bool,
        known: Mapping[TopicPartition, ReplicaLog] | None = None,
    ) -> Mapping[TopicPartition, Replica]:
        """A Replica for every partition; `may_lead` asks of each whether the broker thinks that it leads.

        `known`: the copies as they were measured before; vectors of those that can't have changed are not read again.
        What was measured at the deadline is kept, the rest is `unfinished`. Raises BrokerTimeout if that is nothing,
        other ClusterErrors if the broker can't be asked.
        """
        began = loop_time()
        reader = self._reader()
        probes = [Probe(state, above=state.leader_epoch + 1) for state in states]
        try:
            await together(*(self._measure(reader, chunk, may_lead, known or {}) for chunk in _chunks(probes)))
        except BrokerTimeout as silence:
            if all(probe.end is None for probe in probes):
                raise BrokerTimeout(self.at, self.deadline, silence.request) from silence
            self._note_unfinished(probes)
        else:
            self.unfinished.difference_update(probe.id for probe in probes)
        now, took = self.now(), timedelta(seconds=loop_time() - began)
        return {probe.id: merged(self.broker, probe, self.ends.asks, now, took) for probe in probes}

    async def leading(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[LeaderEpoch, Offset]]:
        """Leader epoch and log end of those partitions that the broker answers for as leader.

        Raises ClusterError if the broker can't be asked.
        """
        reader = self._reader()
        parts = await together(*(reader.leading(chunk) for chunk in _chunks(list(partitions))))
        return {id: lead for part in parts for id, lead in part.items()}

    def _reader(self) -> BrokerReader:
        return BrokerReader.lasting(self.deadline, self.brokers, self.broker, self.at)

    async def _measure(
        self, reader: BrokerReader, probes: Sequence[Probe], may_lead: bool, known: Mapping[TopicPartition, ReplicaLog]
    ) -> None:
        new = [probe for probe in probes if probe.id not in known]
        await together(self._log_ends(reader, probes), self._hints(reader, new))
        changed = [probe for probe in probes if probe.id in known and not probe.is_still(known[probe.id])]
        await self._hints(reader, changed)
        for probe in probes:
            if probe.id in self._begun:
                probe.go_on_from(self._begun.pop(probe.id))
        doubtful = {probe.id: probe for probe in probes if may_lead or not probe.knows_current_epoch}
        for id in await reader.led(doubtful):
            doubtful[id].leads = True
        measured = [probe for probe in probes if probe.end is not None and probe.same is None]
        vectors = EpochVectors(reader)
        await vectors.read(measured)
        # A log that nobody leads, of a replica that knows that, is at rest: who told two ends is asked once more.
        await self._log_ends(reader, [probe for probe in measured if probe.contradicts])
        await self._log_starts(reader, [probe for probe in measured if probe.start is None])
        await vectors.read_at_end([probe for probe in measured if probe.records_without_epochs])

    def _note_unfinished(self, probes: Sequence[Probe]) -> None:
        self.unfinished.difference_update(probe.id for probe in probes)
        within = f"within {self.deadline.total_seconds():g}s"
        for probe in probes:
            what = "where the log ends" if probe.end is None else "all leader epochs"
            if probe.records_without_epochs or not (probe.walked and probe.start is not None):
                late = Reason(BrokerTimeout.code, f"broker {self.broker} did not tell {what} of {probe.id} {within}")
                probe.unreadable = probe.unreadable or late
                self._begun[probe.id] = probe
                if (probe.problem or probe.unreadable) is late:
                    self.unfinished.add(probe.id)

    async def _log_ends(self, reader: BrokerReader, probes: Sequence[Probe]) -> None:
        """Log end under the current leader epoch; where the broker does not know that epoch, without it."""
        pending = list(probes)
        give_up_at = loop_time() + _METADATA_LAG.total_seconds()
        while pending:
            told = await self.ends.log_ends(reader, [probe.state for probe in pending])
            for probe in pending:
                self._note_end(probe, told.get(probe.id))
            pending = [p for p in pending if p.id in told and told[p.id].error_code == UNKNOWN_LEADER_EPOCH]
            if not pending or loop_time() > give_up_at:
                break
            await asyncio.sleep(0.1)
        others = {probe.id: probe for probe in probes if probe.problem and probe.problem.code == "ReplicaOnOldEpoch"}
        anyway = await self.ends.log_ends(reader, [probe.state for probe in others.values()], any_epoch=True)
        for id, answer in anyway.items():
            if answer.error_code == _NONE:
                others[id].end = answer.offset

    def _note_end(self, probe: Probe, answer: LogEnd | None) -> None:
        if answer is None:
            return
        if answer.error_code == _NONE:
            probe.end, probe.knows_current_epoch, probe.problem = answer.offset, True, None
        elif answer.error_code in _OTHER_EPOCH:
            asked = f"leader epoch {probe.state.leader_epoch} of {probe.id}"
            probe.problem = Reason("ReplicaOnOldEpoch", f"broker {self.broker} does not answer under {asked}")
        else:
            offline = answer.error_code == _KAFKA_STORAGE_ERROR
            what = f"{self.ends.asks} of {probe.id} at broker {self.broker}"
            problem = reason_for(answer.error_code, what, needs=self.ends.needs(probe.id.topic))
            probe.problem = Reason(LOG_DIR_OFFLINE, problem.message) if offline else problem

    async def _hints(self, reader: BrokerReader, probes: Sequence[Probe]) -> None:
        """The newest record by timestamp tells its epoch: where timestamps rise, the latest. A hint, never a proof."""
        by_id = {probe.id: probe for probe in probes}
        asked = dict.fromkeys(by_id, ANY_EPOCH)
        for id, answer in (await reader.list_offsets(asked, MAX_TIMESTAMP, DEBUGGING_CONSUMER)).items():
            if answer.error_code == _NONE:
                by_id[id].known = min(answer.leader_epoch, by_id[id].above - 1)

    async def _log_starts(self, reader: BrokerReader, probes: Sequence[Probe]) -> None:
        """The log start of replicas whose vector could not tell it: an empty one, or one that may not be read."""
        by_id = {probe.id: probe for probe in probes}
        asked = dict.fromkeys(by_id, ANY_EPOCH)
        for id, answer in (await reader.list_offsets(asked, EARLIEST, DEBUGGING_CONSUMER)).items():
            if answer.error_code == _NONE:
                by_id[id].start = answer.offset


def merged(broker: BrokerId, probe: Probe, ends_by: str, now: datetime, took: timedelta) -> Replica:
    """What the readers told, field by field; who told two things of one field is not believed, and both are named."""
    if probe.contradicts:
        said = f"the log of {probe.id} ends at {probe.end} (by {ends_by}) and at {probe.end_by_fetch} (by Fetch)"
        return Replica(broker, None, Reason(LOG_ENDS_CONTRADICT, f"broker {broker} says that {said}"), probe.leads)
    if probe.end is not None and probe.start is not None and probe.start > probe.end:
        said = f"the log of {probe.id} begins at {probe.start} and ends at {probe.end}"
        return Replica(broker, None, Reason(LOG_ENDS_CONTRADICT, f"broker {broker} says that {said}"), probe.leads)
    if probe.ends_before and probe.stands_still:
        said = f"the log of {probe.id} ends at {probe.end} (by {ends_by}) and before that (by Fetch)"
        return Replica(broker, None, Reason(LOG_ENDS_CONTRADICT, f"broker {broker} says that {said}"), probe.leads)
    if probe.end is None or probe.start is None:
        missing = Reason("BrokerTimeout", f"broker {broker} did not answer about {probe.id}")
        return Replica(broker, None, probe.problem or probe.unreadable or missing, probe.leads)
    log = _log(
        start=Offset(probe.start),
        end=Offset(probe.end),
        epochs=probe.vector,
        high_watermark=None if probe.high_watermark is None else Offset(probe.high_watermark),
        answered_under=probe.state.leader_epoch if probe.knows_current_epoch else None,
        observed_at=now,
        took=took,
    )
    return _replica(broker, log, probe.problem or probe.unreadable, probe.leads)


def _chunks(everything: Sequence[T]) -> Iterable[Sequence[T]]:
    return (everything[i : i + PARTITIONS_A_REQUEST] for i in range(0, len(everything), PARTITIONS_A_REQUEST))
