"""Port `Cluster` on a real Kafka: one look at everything a decision needs, from every broker that can be asked."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from kafka.protocol.consumer import ListOffsetsRequest

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.brokers import ATTEMPTS, Address, Brokers
from kafka_recovery.cluster.errors import ClusterError, ClusterMismatch, ClusterUnavailable
from kafka_recovery.cluster.metadata import BrokerEntry, ClusterEntry, Partitions, PartitionState, TopicConfigs
from kafka_recovery.cluster.replica_logs import ReplicaSurvey
from kafka_recovery.cluster.security import Security
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.election import Lead, Leadership, Scope
from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    Evidence,
    MissingPartition,
    PartitionEvidence,
    Reassignment,
    Replica,
)
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import Reason

_STANDSTILL = timedelta(milliseconds=1200)
"""A broker applies metadata twice a second, if only no-ops (metadata.max.idle.interval.ms). One that did not in this
time stands still."""

_BRIEF = timedelta(seconds=1)
"""How long a broker is asked again that was fenced and silent a moment ago; in a hurry, every broker."""

_AT_ONCE = timedelta(milliseconds=200)
"""A broker that takes longer is slow: another one that knows as much is gone through rather."""

_NO_OPS_A_SECOND = 2
"""What a controller writes when nothing happens (metadata.max.idle.interval.ms)."""

_ROUTE_AGE = timedelta(seconds=2)
"""How long the broker with the newest metadata is taken to be that still."""

_ELR_FEATURE = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True)
class _View:
    """The metadata of one gather: whose it is, the brokers, and what each broker said of itself."""

    at: BrokerEntry
    cluster: ClusterEntry
    versions: Mapping[BrokerId, ApiVersions]
    faults: Mapping[BrokerId, Reason]


class KafkaCluster:
    """One Kafka cluster over its own wire protocol. Use as an async context manager."""

    def __init__(
        self, bootstrap: Sequence[Address], security: Security, expected_cluster_id: str | None = None
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._expected = expected_cluster_id
        self.brokers = Brokers(security)
        self._known: dict[BrokerId, BrokerEntry] = {}
        self._silent: set[BrokerId] = set()
        self._route: Address | None = None
        self._route_found_at = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.brokers.aclose()

    async def gather(self, scope: Scope, rules: EvidenceRules) -> Evidence:
        """Look at everything; see the port. Silent brokers cost their own answers and at most attempts x deadline."""
        began = time.monotonic()
        view = await self._view(rules.deadline)
        partitions, watermark = await asyncio.gather(
            metadata.describe_partitions(self.brokers, view.at.address, scope.partitions, rules.deadline),
            self._quorum(view, rules.deadline),
        )
        states, missing = _in_scope(scope, partitions)
        ids = [state.id for state in states]
        replicas, ongoing, configs, advances = await asyncio.gather(
            self._replicas(view, states, rules),
            self._reassignments(view, ids, rules.deadline),
            self._configs(view, {id.topic for id in ids}, rules.deadline),
            self._advances(view, watermark, rules.deadline),
        )
        elr = view.versions[view.at.id].finalized_features.get(_ELR_FEATURE, 0) > 0
        evidence = [
            _partition(state, replicas.get(state.id, {}), ongoing, configs.get(state.id.topic, TopicConfigs()), elr)
            for state in states
        ]
        cluster = self._state(view, advances, elr, timedelta(seconds=time.monotonic() - began))
        return Evidence(cluster, tuple(evidence), tuple(missing))

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta
    ) -> Mapping[TopicPartition, Leadership]:
        """Who leads by the metadata, and whether that broker answers as leader in that epoch; see the port."""
        if not partitions:
            return {}
        try:
            found = await metadata.describe_partitions(self.brokers, await self.route(deadline), partitions, deadline)
        except ClusterError:
            self._route = None
            found = await metadata.describe_partitions(self.brokers, await self.route(deadline), partitions, deadline)
        states = [found.states[id] for id in partitions if id in found.states]
        led = {state.id: state.leader for state in states if state.leader is not None}
        leads = await self.answering(led, deadline)
        return {state.id: _leadership(state, leads.get(state.id)) for state in states}

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """Those of `candidates` that answer as leader at this moment; see the port."""
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        for id, broker in candidates.items():
            by_broker.setdefault(broker, []).append(id)

        async def ask(broker: BrokerId, ids: list[TopicPartition]) -> dict[TopicPartition, Lead]:
            entry = self._known.get(broker)
            if entry is None:
                return {}
            survey = ReplicaSurvey(self.brokers, broker, entry.address, deadline)
            try:
                leading = await survey.leading(ids)
            except ClusterError:
                return {}
            return {id: Lead(broker, epoch, end) for id, (epoch, end) in leading.items()}

        answers = await asyncio.gather(*(ask(broker, ids) for broker, ids in by_broker.items()))
        return {id: lead for part in answers for id, lead in part.items()}

    async def route(self, deadline: timedelta) -> Address:
        """A broker to read metadata from and to reach the controller through: alive, its metadata the newest."""
        if self._route is None or time.monotonic() - self._route_found_at > _ROUTE_AGE.total_seconds():
            await self._view(deadline, in_a_hurry=True)
        if self._route is None:
            raise ClusterUnavailable({})
        return self._route

    async def _view(self, deadline: timedelta, *, in_a_hurry: bool = False) -> _View:
        """Find the brokers, ask each for its versions and applied metadata offset, choose whose metadata to read.

        `in_a_hurry`: without those who do not answer at once. While an order is altered a silent broker would prolong
        that, and before it, age the last look at the candidates.
        """
        first = await self._first_answer(deadline)
        cluster = await metadata.describe_cluster(self.brokers, first, deadline)
        if self._expected not in (None, cluster.cluster_id):
            raise ClusterMismatch(first, str(self._expected), cluster.cluster_id)
        self._expected = cluster.cluster_id
        asked_at = time.monotonic()
        patience = min(deadline, _BRIEF) if in_a_hurry else deadline
        versions, answered_at, faults = await self._versions(cluster.brokers.values(), patience)
        self._silent = {id for id in faults if cluster.brokers[id].fenced}
        alive = [cluster.brokers[id] for id in versions if not cluster.brokers[id].fenced]
        if not alive and in_a_hurry:
            return await self._view(deadline)
        if not alive:
            fenced = {id: Reason("Fenced", f"broker {id} answers, but the controller has fenced it") for id in versions}
            raise ClusterUnavailable({cluster.brokers[id].address: why for id, why in (fenced | faults).items()})
        newest = {id: _applied(said) - _no_ops(answered_at[id] - asked_at) for id, said in versions.items()}
        at = max(alive, key=lambda entry: (newest[entry.id], -entry.id))
        if at.address != first:
            cluster = await metadata.describe_cluster(self.brokers, at.address, deadline)
        self._known |= cluster.brokers
        self._route, self._route_found_at = at.address, time.monotonic()
        return _View(at, cluster, versions, faults)

    async def _first_answer(self, deadline: timedelta) -> Address:
        """The first address that answers, among those known from before and the bootstrap servers."""
        addresses = dict.fromkeys([*(entry.address for entry in self._known.values()), *self._bootstrap])
        tasks = {asyncio.create_task(self.brokers.api_versions(address, deadline)): address for address in addresses}
        faults: dict[Address, ClusterError] = {}
        waiting = set(tasks)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = task.exception()
                    if error is None:
                        return tasks[task]
                    if not isinstance(error, ClusterError):
                        raise error
                    faults[tasks[task]] = error
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        if len(faults) == 1:
            raise next(iter(faults.values()))
        raise ClusterUnavailable({address: fault.reason for address, fault in faults.items()})

    async def _versions(
        self, entries: Iterable[BrokerEntry], deadline: timedelta
    ) -> tuple[dict[BrokerId, ApiVersions], dict[BrokerId, float], dict[BrokerId, Reason]]:
        """What each broker says of itself, and when it said so; or why it says nothing."""
        listed = list(entries)
        answered_at: dict[BrokerId, float] = {}

        async def ask(entry: BrokerEntry) -> ApiVersions:
            silent = entry.id in self._silent
            answer = await self.brokers.api_versions(
                entry.address,
                min(deadline, _BRIEF) if silent else deadline,
                attempts=1 if silent or entry.fenced else ATTEMPTS,
            )
            answered_at[entry.id] = time.monotonic()
            return answer

        answers = await asyncio.gather(*map(ask, listed), return_exceptions=True)
        versions, faults = {}, {}
        for entry, answer in zip(listed, answers, strict=True):
            if isinstance(answer, ClusterError):
                faults[entry.id] = answer.reason
            elif isinstance(answer, BaseException):
                raise answer
            else:
                versions[entry.id] = answer
        return versions, answered_at, faults

    async def _quorum(self, view: _View, deadline: timedelta) -> int | Reason:
        try:
            return await metadata.quorum_high_watermark(self.brokers, view.at.address, deadline)
        except ClusterError as fault:
            return fault.reason

    async def _advances(self, view: _View, watermark: int | Reason, deadline: timedelta) -> Mapping[BrokerId, bool]:
        """Whether each broker has applied all that the controller had committed when this gather began.

        Where the controller does not tell what it had committed, whether its applied offset moves at all. A broker that
        did not answer a second time is absent: silence is no standstill.
        """
        target = {
            id: watermark - 1 if isinstance(watermark, int) else _applied(before) + 1
            for id, before in view.versions.items()
        }
        advanced = {id for id, before in view.versions.items() if _applied(before) >= target[id]}
        behind: set[BrokerId] = set()
        until = time.monotonic() + _STANDSTILL.total_seconds()
        while (waiting := view.versions.keys() - advanced) and time.monotonic() < until:
            await asyncio.sleep(0.01)
            now, _, _ = await self._versions((view.cluster.brokers[id] for id in waiting), deadline)
            advanced |= {id for id, versions in now.items() if _applied(versions) >= target[id]}
            behind |= now.keys()
        return {id: id in advanced for id in advanced | behind}

    async def _replicas(
        self, view: _View, states: Sequence[PartitionState], rules: EvidenceRules
    ) -> Mapping[TopicPartition, Mapping[BrokerId, Replica]]:
        """Every replica of every offline partition, each asked of its own broker, all brokers at once."""
        by_broker: dict[BrokerId, list[PartitionState]] = {}
        for state in states:
            if state.leader is None:
                for broker in state.replicas:
                    by_broker.setdefault(broker, []).append(state)
        surveys = await asyncio.gather(*(self._survey(view, broker, held, rules) for broker, held in by_broker.items()))
        found: dict[TopicPartition, dict[BrokerId, Replica]] = {state.id: {} for state in states}
        for broker, survey in zip(by_broker, surveys, strict=True):
            for id, replica in survey.items():
                found[id][broker] = replica
        return found

    async def _survey(
        self, view: _View, broker: BrokerId, held: Sequence[PartitionState], rules: EvidenceRules
    ) -> Mapping[TopicPartition, Replica]:
        entry = view.cluster.brokers.get(broker) or self._known.get(broker)
        if entry is None:
            problem = Reason("BrokerUnknown", f"broker {broker} is not registered, and its address is not known")
            return {state.id: Replica(broker, None, problem) for state in held}
        listed = view.cluster.brokers.get(broker)
        fenced = listed is None or listed.fenced
        survey = ReplicaSurvey(self.brokers, broker, entry.address, rules.deadline)
        fault = view.faults.get(broker)
        for _ in range(1 if fenced else rules.attempts):
            if fault is not None and fenced:
                break
            try:
                return await survey.measure(held, may_lead=fenced)
            except ClusterError as error:
                fault = error.reason
        problem = fault or Reason("NoAnswer", f"broker {broker} did not answer")
        return {state.id: Replica(broker, None, problem) for state in held}

    async def _reassignments(
        self, view: _View, ids: Sequence[TopicPartition], deadline: timedelta
    ) -> Mapping[TopicPartition, Reassignment] | Reason:
        if not ids:
            return {}
        try:
            return await metadata.reassignments(self.brokers, view.at.address, ids, deadline)
        except ClusterError as fault:
            return fault.reason

    async def _configs(self, view: _View, topics: set[str], deadline: timedelta) -> Mapping[str, TopicConfigs]:
        if not topics:
            return {}
        try:
            return await metadata.topic_configs(self.brokers, view.at.address, topics, deadline)
        except ClusterError:
            return {}

    def _state(self, view: _View, advances: Mapping[BrokerId, bool], elr: bool, took: timedelta) -> ClusterState:
        brokers = [
            _broker(entry, view, advances.get(entry.id))
            for entry in sorted(view.cluster.brokers.values(), key=lambda e: e.id)
        ]
        for entry in self._known.values():
            if entry.id not in view.cluster.brokers:
                gone = _broker(entry, view, None)
                brokers.append(replace(gone, registered=False if view.cluster.lists_fenced else None, fenced=True))
        mine = view.versions[view.at.id]
        return ClusterState(
            cluster_id=view.cluster.cluster_id,
            release=_release(mine),
            features=tuple(sorted(mine.finalized_features.items())),
            elr_enabled=elr,
            view_from=view.at.id,
            brokers=tuple(sorted(brokers, key=lambda broker: broker.id)),
            observed_at=datetime.now(UTC),
            took=took,
        )


def _broker(entry: BrokerEntry, view: _View, advances: bool | None) -> Broker:
    versions = view.versions.get(entry.id)
    return Broker(
        id=entry.id,
        host=entry.address.host,
        port=entry.address.port,
        rack=entry.rack,
        registered=True,
        fenced=entry.fenced,
        stopping=None,
        reachable=versions is not None,
        metadata_offset=versions.finalized_features_epoch if versions else None,
        metadata_advances=advances,
        problem=view.faults.get(entry.id),
    )


def _partition(
    state: PartitionState,
    measured: Mapping[BrokerId, Replica],
    ongoing: Mapping[TopicPartition, Reassignment] | Reason,
    configs: TopicConfigs,
    elr: bool,
) -> PartitionEvidence:
    not_asked = Reason("NotAsked", "the partition has a leader")
    known = isinstance(ongoing, Mapping)
    return PartitionEvidence(
        id=state.id,
        topic_id=state.topic_id,
        internal=state.internal,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        elr=state.elr if elr else None,
        last_known_elr=state.last_known_elr if elr else None,
        replicas=tuple(measured.get(broker) or Replica(broker, None, not_asked) for broker in state.replicas),
        reassignment=ongoing.get(state.id) if isinstance(ongoing, Mapping) else None,
        reassignment_known=known,
        min_isr=configs.min_isr,
        unclean_election_enabled=configs.unclean_election_enabled,
        tiered=configs.tiered,
    )


def _leadership(state: PartitionState, lead: Lead | None) -> Leadership:
    answers = lead is not None and lead.leader_epoch == state.leader_epoch
    problem = None
    if state.leader is not None and not answers:
        message = f"broker {state.leader} does not answer as leader of {state.id} in epoch {state.leader_epoch}"
        problem = Reason("LeaderSilent", message)
    return Leadership(
        state.id,
        state.topic_id,
        state.leader,
        state.leader_epoch,
        state.replicas,
        state.isr,
        lead.log_end if lead is not None and answers else None,
        problem,
    )


def _in_scope(scope: Scope, partitions: Partitions) -> tuple[list[PartitionState], list[MissingPartition]]:
    if scope.partitions is None:
        return [state for _, state in sorted(partitions.states.items()) if state.leader is None], []
    states, missing = [], []
    for id in sorted(set(scope.partitions)):
        state = partitions.states.get(id)
        if state is not None:
            states.append(state)
            continue
        absent = Reason("UnknownPartition", f"topic {id.topic} has no partition {id.partition}")
        missing.append(MissingPartition(id, partitions.unseen.get(id.topic, absent)))
    return states, missing


def _applied(versions: ApiVersions) -> int:
    return -1 if versions.finalized_features_epoch is None else versions.finalized_features_epoch


def _no_ops(waited: float) -> int:
    """Metadata records that may have been written for their own sake while an answer was late.

    A slow broker answers last, so it seems to know the newest; it must not be the one to go through for that.
    """
    return 0 if waited < _AT_ONCE.total_seconds() else math.ceil(waited * _NO_OPS_A_SECOND) + 1


def _release(versions: ApiVersions) -> str:
    """The release as the newest ListOffsets implies it; a broker does not tell its version otherwise."""
    newest = versions.max_versions.get(ListOffsetsRequest.API_KEY, 0)
    return {9: "3.9", 10: "4.0"}.get(newest, "3.8 or earlier" if newest < 9 else "4.1 or later")
