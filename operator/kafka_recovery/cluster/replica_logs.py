"""Measuring replicas: log end, log start and leader-epoch vector, asked of each replica's own broker.

A partition without a leader still has followers that answer: ListOffsets with replica id -2 gives the log end, Fetch
the vector. Measured on Kafka 3.9 to 4.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from kafka_recovery.cluster.broker_reader import (
    ANY_EPOCH,
    DEBUGGING_CONSUMER,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    BrokerReader,
)
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.epoch_vectors import EpochVectors, Probe
from kafka_recovery.cluster.errors import BrokerSilent, reason_for
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import PartitionState
from kafka_recovery.cluster.replica_log_info import LogInfo, ReplicaLogInfo
from kafka_recovery.cluster.together import together
from kafka_recovery.domain.evidence import Replica, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.quickly import made_quickly
from kafka_recovery.domain.reason import Reason

PARTITIONS_A_REQUEST = 2500
LOG_DIR_OFFLINE = "LogDirOffline"
LOG_ENDS_CONTRADICT = "LogEndsContradict"
UNFINISHED = "Unfinished"
"""The problem of a replica about which not everything was answered at the deadline; asking again may help."""

_NONE, _KAFKA_STORAGE_ERROR = 0, 56
_FENCED_LEADER_EPOCH, _UNKNOWN_LEADER_EPOCH = 74, 75
_OTHER_EPOCH = frozenset({_FENCED_LEADER_EPOCH, _UNKNOWN_LEADER_EPOCH})
_METADATA_LAG = timedelta(seconds=1)
"""How long a live broker may take to learn the current leader epoch before it counts as not knowing it."""

T = TypeVar("T")

_log = made_quickly(ReplicaLog)
_replica = made_quickly(Replica)


@dataclass(frozen=True, slots=True)
class ReplicaSurvey:
    """One broker's copies of many partitions, measured in a few batched requests within `deadline`, all in all.

    `now`: the wall clock that what is measured is dated by. `log_info`: where GetReplicaLogInfo tells where logs end.

    It remembers how far it came: measuring the unfinished ones again goes on from there.
    """

    brokers: Brokers
    broker: BrokerId
    at: Address
    deadline: timedelta
    now: Callable[[], datetime]
    log_info: ReplicaLogInfo | None = None
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
        What was measured at the deadline is kept, the rest has the problem UNFINISHED. Raises BrokerSilent if that is
        nothing, other ClusterErrors if the broker can't be asked.
        """
        began = loop_time()
        reader = self._reader()
        probes = [Probe(state, above=state.leader_epoch + 1) for state in states]
        try:
            await together(*(self._measure(reader, chunk, may_lead, known or {}) for chunk in _chunks(probes)))
        except BrokerSilent as silence:
            if all(probe.end is None for probe in probes):
                raise BrokerSilent(self.at, self.deadline, silence.request) from silence
            self._note_unfinished(probes)
        now, took = self.now(), timedelta(seconds=loop_time() - began)
        return {probe.id: self._replica(probe, now, took) for probe in probes}

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
        await EpochVectors(reader).read(measured)
        await self._settle(reader, [probe for probe in measured if probe.end_by_fetch not in (None, probe.end)])
        await self._log_starts(reader, [probe for probe in measured if probe.start is None])

    async def _settle(self, reader: BrokerReader, probes: Sequence[Probe]) -> None:
        """Ask once more where those logs end of which the broker has said two things; who still does is not believed.

        A log that nobody leads, of a replica that knows that, can't have grown or been cut in between.
        """
        await self._log_ends(reader, probes)
        for probe in probes:
            other = probe.end_by_fetch
            if other not in (None, probe.end):
                said = f"the log of {probe.id} ends at {probe.end} and, by its leader epochs, at {other}"
                probe.problem = Reason(LOG_ENDS_CONTRADICT, f"broker {self.broker} says that {said}")
                probe.end = None

    def _note_unfinished(self, probes: Sequence[Probe]) -> None:
        within = f"within {self.deadline.total_seconds():g}s"
        for probe in probes:
            what = "where the log ends" if probe.end is None else "all leader epochs"
            if not (probe.walked and probe.start is not None):
                late = Reason(UNFINISHED, f"broker {self.broker} did not tell {what} of {probe.id} {within}")
                probe.unreadable = probe.unreadable or late
                self._begun[probe.id] = probe

    def _replica(self, probe: Probe, now: datetime, took: timedelta) -> Replica:
        if probe.end is None or probe.start is None:
            missing = Reason("NoAnswer", f"broker {self.broker} did not answer about {probe.id}")
            return Replica(self.broker, None, probe.problem or probe.unreadable or missing, probe.leads)
        log = _log(
            start=Offset(probe.start),
            end=Offset(probe.end),
            epochs=probe.vector,
            high_watermark=None if probe.high_watermark is None else Offset(probe.high_watermark),
            answered_under=probe.state.leader_epoch if probe.knows_current_epoch else None,
            observed_at=now,
            took=took,
        )
        return _replica(self.broker, log, probe.problem or probe.unreadable, probe.leads)

    async def _log_ends(self, reader: BrokerReader, probes: Sequence[Probe]) -> None:
        """Log end under the current leader epoch; where the broker does not know that epoch, without it."""
        pending = {probe.id: probe for probe in probes}
        give_up_at = loop_time() + _METADATA_LAG.total_seconds()
        while pending:
            answers = await self._asked_for_ends(reader, pending)
            for id, probe in pending.items():
                self._note_end(probe, answers.get(id))
            late = {
                id: p for id, p in pending.items() if id in answers and answers[id].error_code == _UNKNOWN_LEADER_EPOCH
            }
            if not late or loop_time() > give_up_at:
                break
            pending = late
            await asyncio.sleep(0.1)
        others = {probe.id: probe for probe in probes if probe.problem and probe.problem.code == "OtherLeaderEpoch"}
        anyway = await self._asked_for_ends(reader, others, any_epoch=True)
        for id, answer in anyway.items():
            if answer.error_code == _NONE:
                others[id].end = answer.offset

    async def _asked_for_ends(
        self, reader: BrokerReader, probes: Mapping[TopicPartition, Probe], *, any_epoch: bool = False
    ) -> Mapping[TopicPartition, Any]:
        """Each log end, or the error, such as that the broker knows another leader epoch than the current one."""
        epochs = {id: ANY_EPOCH if any_epoch else probe.state.leader_epoch for id, probe in probes.items()}
        if self.log_info is None:
            return await reader.list_offsets(epochs, LATEST, DEBUGGING_CONSUMER)
        told = await self.log_info.ask(reader, [probe.state for probe in probes.values()])
        return {id: _held_to(epochs[id], info) for id, info in told.items()}

    def _note_end(self, probe: Probe, answer: Any) -> None:
        if answer is None:
            return
        if answer.error_code == _NONE:
            probe.end, probe.knows_current_epoch, probe.problem = answer.offset, True, None
        elif answer.error_code in _OTHER_EPOCH:
            asked = f"leader epoch {probe.state.leader_epoch} of {probe.id}"
            probe.problem = Reason("OtherLeaderEpoch", f"broker {self.broker} does not answer under {asked}")
        else:
            offline = answer.error_code == _KAFKA_STORAGE_ERROR
            needs = f"DESCRIBE on topic {probe.id.topic}"
            asked = "ListOffsets"
            if self.log_info is not None:
                asked, needs = "GetReplicaLogInfo", f"CLUSTER_ACTION on the cluster, or {needs}"
            what = f"{asked} of {probe.id} at broker {self.broker}"
            problem = reason_for(answer.error_code, what, needs=needs)
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


def _held_to(epoch: LeaderEpoch, info: LogInfo) -> LogInfo:
    """The answer as a broker gives it that was asked under this leader epoch."""
    if info.error_code != _NONE or epoch in (ANY_EPOCH, info.leader_epoch):
        return info
    return info._replace(error_code=_UNKNOWN_LEADER_EPOCH if info.leader_epoch < epoch else _FENCED_LEADER_EPOCH)


def _chunks(everything: Sequence[T]) -> Iterable[Sequence[T]]:
    return (everything[i : i + PARTITIONS_A_REQUEST] for i in range(0, len(everything), PARTITIONS_A_REQUEST))
