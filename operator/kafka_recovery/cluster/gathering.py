"""Everything that a decision needs, from every broker that can be asked: metadata, logs, reassignments, configs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.advancing import STANDSTILL, advances, committed
from kafka_recovery.cluster.as_evidence import broker_of, partition_of, with_history
from kafka_recovery.cluster.asking import BRIEF
from kafka_recovery.cluster.broker_reader import BrokerReader
from kafka_recovery.cluster.brokers import Brokers
from kafka_recovery.cluster.drivers import Kip1275, designates_leaders
from kafka_recovery.cluster.errors import AnotherBroker, BrokerRestarted, BrokerTimeout, ClusterError, TooLate
from kafka_recovery.cluster.local_starts import Asked, Copies, local_starts, with_local_starts
from kafka_recovery.cluster.log_directories import log_directories, with_room
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.membership import Membership, View
from kafka_recovery.cluster.metadata import BrokerEntry, Partitions, PartitionState, TopicConfigs
from kafka_recovery.cluster.metadata_log.image import ELR_FEATURE, Image
from kafka_recovery.cluster.metadata_log.reader import MetadataLog
from kafka_recovery.cluster.replica_log_info import ReplicaLogInfo, offers_log_info
from kafka_recovery.cluster.replica_logs import LOG_DIR_OFFLINE, ReplicaSurvey
from kafka_recovery.cluster.replica_readers import ListOffsets, ReplicaReader
from kafka_recovery.cluster.together import together
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import (
    BETWEEN_RELEASES,
    Broker,
    ClusterState,
    Evidence,
    MissingPartition,
    PartitionEvidence,
    Reassignment,
    Replica,
    ReplicaLog,
)
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, MetadataOffset, Offset, TopicPartition
from kafka_recovery.domain.log_directories import BrokerDirectories
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import Reason

_LAST_LOOK = 2
"""Deadlines that a last look may take: one that grows older than that is none."""


class _RouteFailed(Exception):
    """The broker that a look goes through did not tell of the partitions."""

    def __init__(self, fault: ClusterError) -> None:
        super().__init__(fault)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Gathering:
    """One look at everything. `known`: earlier evidence; `now`: the wall clock that evidence is dated by.

    `epochs`: the brokers' own ones, as they are told while their logs are measured. `impostors`: brokers at whose
    address another one answers. `silent`: those that told nothing of any log, however often they were asked.
    `directories`: what those say of their disks that told of a log, asked once; not in a last look.
    """

    brokers: Brokers
    members: Membership
    kip_1275: Kip1275
    now: Callable[[], datetime]
    scope: Scope
    rules: EvidenceRules
    known: Mapping[TopicPartition, PartitionEvidence]
    metadata_log: MetadataLog | Reason | None = None
    epochs: dict[BrokerId, BrokerEpoch] = field(default_factory=dict)
    impostors: dict[BrokerId, Reason] = field(default_factory=dict)
    silent: dict[BrokerId, Reason] = field(default_factory=dict)
    directories: dict[BrokerId, BrokerDirectories] = field(default_factory=dict)

    async def evidence(self) -> Evidence:
        """All that is seen. Raises TooLate if that takes longer than a look may."""
        within = self._longest
        try:
            async with asyncio.timeout(within.total_seconds()):
                return await self._through_two(loop_time() + within.total_seconds())
        except TimeoutError:
            raise TooLate(within) from None

    async def _through_two(self, until: float) -> Evidence:
        """Through another broker, if the first one says who there is, and then nothing of the partitions."""
        with suppress(_RouteFailed):
            return await self._evidence(until)
        try:
            return await self._evidence(until)
        except _RouteFailed as failed:
            raise failed.fault from None

    @property
    def _longest(self) -> timedelta:
        """What a look may take in all, however many brokers are slow, and in however many answers each.

        One deadline to find out who is there, and which are silent; the attempts to measure; twice if the metadata
        changed meanwhile. A last look is one at what was seen before, in which brokers are asked but once.
        """
        if self._is_last:
            return _LAST_LOOK * self.rules.deadline
        return 2 * (1 + self.rules.attempts) * max(self.rules.deadline, STANDSTILL)

    @property
    def _is_last(self) -> bool:
        return self.rules.makes_last_look(self.known)

    async def _evidence(self, until: float, *, again: bool = False) -> Evidence:
        began, deadline = loop_time(), self.rules.deadline
        view = await self.members.look(deadline, in_a_hurry=self.rules.attempts == 1)
        designates = designates_leaders(self.kip_1275.driver, view.at.address, view.said)
        partitions, watermark = await together(self._partitions(view), committed(self.brokers, view, deadline))
        if isinstance(watermark, int) and self.members.refutes(view.at, view.as_of, watermark):
            return await self._evidence(until, again=again)
        states, missing = _in_scope(self.scope, partitions)
        ids = [state.id for state in states]
        measured = [state for state in states if state.leader is None or self.scope.with_led]
        replicas, ongoing, configs, advancing = await together(
            self._replicas(view, measured),
            self._reassignments(view, ids),
            self._configs(view, {id.topic for id in ids}),
            advances(self.members, view, watermark, deadline),
        )
        replicas = await self._with_local_starts(view, measured, replicas, configs)
        if isinstance(watermark, int) and _was_behind(view, watermark) and advancing.get(view.at.id):
            caught_up = await self._partitions(view)
            view = replace(view, as_of=MetadataOffset(watermark - 1))
            if caught_up.states != partitions.states and not again:
                return await self._evidence(until, again=True)
        log = await self._log(view, measured, (until - loop_time()) / 2)
        elr = view.said.finalized_features.get(ELR_FEATURE, 0) > 0
        evidence = [
            partition_of(state, replicas.get(state.id, {}), ongoing, configs.get(state.id.topic, TopicConfigs()), elr)
            for state in states
        ]
        if isinstance(log, Image):
            looked_at, now = {state.id for state in measured}, self.now()
            evidence = [with_history(each, log, now) if each.id in looked_at else each for each in evidence]
        committed_by_then = MetadataOffset(watermark - 1) if isinstance(watermark, int) else None
        cluster = self._state(view, advancing, elr, timedelta(seconds=loop_time() - began))
        untold = log if isinstance(log, Reason) else None
        cluster = replace(cluster, designated_elections=designates, committed=committed_by_then, history_problem=untold)
        return Evidence(cluster, tuple(evidence), tuple(missing))

    async def _partitions(self, view: View) -> Partitions:
        at, wanted = view.at.address, self.scope.partitions
        try:
            return await metadata.describe_partitions(self.brokers, at, wanted, self.rules.deadline)
        except ClusterError as fault:
            self.members.forget_route(at)
            raise _RouteFailed(fault) from fault

    async def _replicas(
        self, view: View, states: Sequence[PartitionState]
    ) -> Mapping[TopicPartition, Mapping[BrokerId, Replica]]:
        """Every replica of these partitions, each asked of its own broker, all brokers at once."""
        by_broker: dict[BrokerId, list[PartitionState]] = {}
        for state in states:
            for broker in state.replicas:
                by_broker.setdefault(broker, []).append(state)
        surveys = await together(*(self._held(view, broker, held) for broker, held in by_broker.items()))
        self._note_same_epochs()
        found: dict[TopicPartition, dict[BrokerId, Replica]] = {state.id: {} for state in states}
        for (broker, held), survey in zip(by_broker.items(), surveys, strict=True):
            why, listed = self.impostors.get(broker), view.cluster.brokers.get(broker)
            another = Replica(broker, None, why) if why else None
            alive = listed is not None and not listed.fenced
            for state in held:
                replica = another or survey[state.id]
                found[state.id][broker] = _as_known(state, replica) if alive else replica
        return found

    def _note_same_epochs(self) -> None:
        """The controller gives each broker epoch to one broker: who tells the same one is measured twice."""
        by_epoch: dict[BrokerEpoch, list[BrokerId]] = {}
        for broker, epoch in sorted(self.epochs.items()):
            by_epoch.setdefault(epoch, []).append(broker)
        for epoch, brokers in by_epoch.items():
            for broker in brokers if len(brokers) > 1 else ():
                at = self.members.listing.known[broker].address
                self.impostors.setdefault(broker, AnotherBroker.same_epoch(at, broker, brokers, epoch).reason)

    def _entry(self, view: View, broker: BrokerId) -> BrokerEntry | None:
        """Where it is, or was when it was listed last; None: nobody knows."""
        return view.cluster.brokers.get(broker) or self.members.listing.known.get(broker)

    async def _held(
        self, view: View, broker: BrokerId, states: Sequence[PartitionState]
    ) -> Mapping[TopicPartition, Replica]:
        """Its copies, and then its log directories: a volume that hangs holds up that answer, and no log's.

        That takes what is left of the deadline that the copies had, and a second at most.
        """
        until = loop_time() + self.rules.deadline.total_seconds()
        found = await self._survey(view, broker, states)
        entry = self._entry(view, broker)
        answers = any(each.log or (each.problem and each.problem.code == LOG_DIR_OFFLINE) for each in found.values())
        if entry and answers and not self._is_last and broker not in self.directories | self.impostors:
            until = min(until, loop_time() + BRIEF.total_seconds())
            reader = BrokerReader(self.brokers, broker, entry.address, until)
            self.directories[broker] = await log_directories(reader, [state.id for state in states])
        return with_room(found, self.directories.get(broker), _logs(broker, states, self.known))

    async def _with_local_starts(
        self, view: View, measured: Sequence[PartitionState], copies: Copies, configs: Mapping[str, TopicConfigs]
    ) -> Copies:
        """A last look asks nobody: what it learned anew would make the plan void, and nothing but a tie hangs on it."""
        tiered = [state for state in measured if configs.get(state.id.topic, TopicConfigs()).tiered]
        if not tiered:
            return copies
        ask = None if self._is_last else partial(self._local_starts, view)
        return await with_local_starts(tiered, copies, self.known, ask)

    async def _local_starts(self, view: View, broker: BrokerId, asked: Asked) -> Mapping[TopicPartition, Offset]:
        """Asked when it is known which topics are tiered, for a second at most: nothing but a tie hangs on it."""
        entry = self._entry(view, broker)
        if entry is None or broker in self.impostors:
            return {}
        within = min(self.rules.deadline, BRIEF)
        return await local_starts(BrokerReader.lasting(within, self.brokers, broker, entry.address), asked)

    async def _survey(
        self, view: View, broker: BrokerId, held: Sequence[PartitionState]
    ) -> Mapping[TopicPartition, Replica]:
        rules, known = self.rules, _logs(broker, held, self.known)
        entry = self._entry(view, broker)
        if entry is None:
            nowhere = Reason("NotRegistered", f"broker {broker} is not registered, and its address is not known")
            return dict.fromkeys((state.id for state in held), Replica(broker, None, nowhere))
        listed = view.cluster.brokers.get(broker)
        fenced = listed is None or listed.fenced
        ends = self._reader(view.versions.get(broker))
        survey = ReplicaSurvey(self.brokers, broker, entry.address, rules.deadline, self.now, ends)
        problem = self.silent.get(broker) or view.faults.get(broker)
        found: dict[TopicPartition, Replica] = {}
        wanted = held
        for _ in range(0 if broker in self.silent else _attempts_left(problem, fenced, rules)):
            try:
                found |= await survey.measure(wanted, may_lead=fenced, known=known)
            except ClusterError as error:
                problem = error.reason
                if isinstance(error, AnotherBroker):
                    self.impostors[broker] = problem
                if isinstance(error, (AnotherBroker, BrokerRestarted)):
                    found = {}
                if not isinstance(error, BrokerTimeout):
                    break
            wanted = [state for state in held if state.id not in found or state.id in survey.unfinished]
            if not wanted:
                break
        if ends.epoch is not None:
            self.epochs[broker] = ends.epoch
        silent = problem or Reason("BrokerTimeout", f"broker {broker} did not answer")
        if not found and silent.code == BrokerTimeout.code:
            self.silent[broker] = silent
        untold = Replica(broker, None, silent)
        return {state.id: found.get(state.id, untold) for state in held}

    def _reader(self, versions: ApiVersions | None) -> ReplicaReader:
        """GetReplicaLogInfo, if it is configured, and offered by this broker; else what every release has."""
        key = self.kip_1275.replica_log_info_key
        offered = key is not None and versions is not None and offers_log_info(versions, key)
        return ReplicaLogInfo(key) if key is not None and offered else ListOffsets()

    async def _log(self, view: View, measured: Sequence[PartitionState], seconds: float) -> Image | Reason | None:
        """The metadata log, read after the logs of these partitions were; None: nobody named controllers.

        It takes so many seconds at most, and ends no look: what is not read by then is read for the next one.
        """
        if not isinstance(self.metadata_log, MetadataLog) or not measured:
            return self.metadata_log if isinstance(self.metadata_log, Reason) else None
        within = min(timedelta(seconds=seconds), self.rules.deadline)
        return await self.metadata_log.caught_up(view.cluster.cluster_id, within)

    async def _reassignments(
        self, view: View, ids: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Reassignment] | Reason:
        if not ids:
            return {}
        try:
            return await metadata.reassignments(self.brokers, view.at.address, ids, self.rules.deadline)
        except ClusterError as fault:
            return fault.reason

    async def _configs(self, view: View, topics: set[str]) -> Mapping[str, TopicConfigs]:
        if not topics:
            return {}
        try:
            return await metadata.topic_configs(self.brokers, view.at.address, topics, self.rules.deadline)
        except ClusterError as fault:
            return dict.fromkeys(topics, TopicConfigs(problem=fault.reason))

    def _state(self, view: View, advances: Mapping[BrokerId, bool], elr: bool, took: timedelta) -> ClusterState:
        """Who is not listed is not registered, so none of the cluster; before Kafka 4.0 it may be fenced only."""
        brokers = [
            self._broker(entry, view, advances.get(entry.id))
            for entry in sorted(view.cluster.brokers.values(), key=lambda e: e.id)
        ]
        if not view.cluster.lists_fenced:
            away = [entry for entry in self.members.listing.known.values() if entry.id not in view.cluster.brokers]
            brokers += [replace(self._broker(entry, view, None), registered=None, fenced=True) for entry in away]
        mine = view.said
        return ClusterState(
            cluster_id=view.cluster.cluster_id,
            release=_releases([mine, *self._told(view)]),
            features=tuple(sorted(mine.finalized_features.items())),
            elr_enabled=elr,
            view_from=view.at.id,
            brokers=tuple(sorted(brokers, key=lambda broker: broker.id)),
            observed_at=self.now(),
            took=took,
            as_of=view.as_of,
            log_directories=tuple(told for id, told in sorted(self.directories.items()) if id not in self.impostors),
        )

    def _told(self, view: View) -> Iterator[ApiVersions]:
        return (said for broker, said in view.versions.items() if broker not in self.impostors)

    def _broker(self, entry: BrokerEntry, view: View, advances: bool | None) -> Broker:
        """What was said at its address is this broker's, unless another one was found to answer there."""
        if (why := self.impostors.get(entry.id)) is None:
            return replace(
                broker_of(entry, view.versions.get(entry.id), advances, view.faults.get(entry.id)),
                epoch=self.epochs.get(entry.id),
            )
        return broker_of(entry, None, None, why)


def _was_behind(view: View, watermark: int) -> bool:
    """Whether the partitions were described by a broker that had not applied all that was committed by then."""
    return view.as_of is None or view.as_of < watermark - 1


def _attempts_left(fault: Reason | None, fenced: bool, rules: EvidenceRules) -> int:
    """How often a broker's replicas may still be asked for, `fault` being why it did not tell its versions."""
    if fault is None:
        return 1 if fenced else rules.attempts
    return rules.attempts - 1 if fault.code == BrokerTimeout.code and not fenced else 0


def _as_known(state: PartitionState, replica: Replica) -> Replica:
    """A live broker's replica as measured, and as the controller knows it: brokers tell it of directories that failed.

    Such a replica is offline for that alone (KIP-858); even if its log still answers, the controller passes it over.
    """
    if replica.log is None or replica.broker not in state.offline:
        return replica
    message = f"broker {replica.broker} is alive, but by the controller the log directory of {state.id} is offline"
    return replace(replica, problem=Reason(LOG_DIR_OFFLINE, f"{message} there; it can't be elected"))


def _logs(
    broker: BrokerId, held: Sequence[PartitionState], known: Mapping[TopicPartition, PartitionEvidence]
) -> Mapping[TopicPartition, ReplicaLog]:
    """What one broker's copies were measured as before, of the same topics."""
    replicas = {
        state.id: earlier.replica(broker)
        for state in held
        if (earlier := known.get(state.id)) and earlier.topic_id == state.topic_id
    }
    return {id: replica.log for id, replica in replicas.items() if replica and replica.log}


def _in_scope(scope: Scope, partitions: Partitions) -> tuple[list[PartitionState], list[MissingPartition]]:
    if scope.partitions is None:
        return [state for _, state in sorted(partitions.states.items()) if state.leader is None], []
    states, missing = [], []
    for id in sorted(set(scope.partitions)):
        state = partitions.states.get(id)
        if state is not None:
            states.append(state)
            continue
        missing.append(MissingPartition(id, partitions.absent(id).reason))
    return states, missing


def _releases(told: Iterable[ApiVersions]) -> str | None:
    """Each release once, oldest first; None where no broker told which it runs."""
    found = sorted({(each.metadata_version, each.release) for each in told if each.metadata_version is not None})
    return BETWEEN_RELEASES.join(dict.fromkeys(release for _, release in found if release)) or None
