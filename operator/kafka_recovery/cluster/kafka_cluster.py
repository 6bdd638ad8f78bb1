"""Port `Cluster` on a real Kafka: one look at everything a decision needs, from every broker that can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self, TypeVar

from kafka.protocol.consumer import ListOffsetsRequest

from kafka_recovery.cluster import metadata, scan
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.drivers import Kip1275, designates_leaders
from kafka_recovery.cluster.errors import BrokerRefuses, BrokerRestarted, BrokerSilent, ClusterError
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import BrokerEntry, Partitions, PartitionState, TopicConfigs
from kafka_recovery.cluster.pulse import Pulse, Pulses
from kafka_recovery.cluster.replica_log_info import ReplicaLogInfo, offers_log_info
from kafka_recovery.cluster.replica_logs import LOG_DIR_OFFLINE, UNFINISHED, ReplicaSurvey
from kafka_recovery.cluster.scan import Scan, UncleanTopics
from kafka_recovery.cluster.security import Security
from kafka_recovery.cluster.sockets import Dial
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.cluster.view import Route, View, Views
from kafka_recovery.domain.election import Lead, Leadership, Relay, Scope, Sighting
from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    Evidence,
    MissingPartition,
    PartitionEvidence,
    Reassignment,
    Replica,
    ReplicaLog,
)
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, MetadataOffset, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import Reason

_ELR_FEATURE = "eligible.leader.replicas.version"

T = TypeVar("T")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class KafkaCluster:
    """One Kafka cluster over its own wire protocol. Use as an async context manager."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        security: Security,
        expected_cluster_id: str | None = None,
        *,
        dial: Dial | None = None,
        now: Callable[[], datetime] = _utc_now,
        kip_1275: Kip1275 | None = None,
    ) -> None:
        """`dial`: the way to the brokers, TCP if it is left out. `now`: the wall clock that evidence is dated by."""
        self.kip_1275 = kip_1275 or Kip1275()
        threads = Threads(expected_cluster_id or ", ".join(map(str, bootstrap)))
        self.brokers = Brokers(security, threads=threads, dial=dial)
        self._now = now
        self._views = Views(self.brokers, bootstrap, expected_cluster_id)
        self._pulses = Pulses(self.brokers, bootstrap, expected_cluster_id)
        self._pulse_from: Address | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pulses.aclose()
        await self.brokers.aclose()

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        """Look at everything; see the port.

        Raises UnsupportedRequest where driver `designated` is asked for and not offered.

        A silent broker costs its own answers and at most attempts x deadline: asking for its versions is the first
        attempt, each survey of its replicas another one. Connections that fail are not counted: `Brokers` opens them
        anew, and where it gives up, so does the survey.
        """
        began = loop_time()
        view = await self._views.look(rules.deadline)
        designates = designates_leaders(self.kip_1275.driver, view.at.address, view.versions[view.at.id])
        partitions, watermark = await asyncio.gather(
            metadata.describe_partitions(self.brokers, view.at.address, scope.partitions, rules.deadline),
            self._views.quorum(view, rules.deadline),
        )
        states, missing = _in_scope(scope, partitions)
        ids = [state.id for state in states]
        epochs: dict[BrokerId, BrokerEpoch] = {}
        replicas, ongoing, configs, advances = await asyncio.gather(
            self._replicas(view, [s for s in states if s.leader is None or scope.with_led], rules, known or {}, epochs),
            self._reassignments(view, ids, rules.deadline),
            self._configs(view, {id.topic for id in ids}, rules.deadline),
            self._views.advances(view, watermark, rules.deadline),
        )
        elr = view.versions[view.at.id].finalized_features.get(_ELR_FEATURE, 0) > 0
        evidence = [
            _partition(state, replicas.get(state.id, {}), ongoing, configs.get(state.id.topic, TopicConfigs()), elr)
            for state in states
        ]
        cluster = self._state(view, advances, epochs, elr, timedelta(seconds=loop_time() - began))
        return Evidence(replace(cluster, designated_elections=designates), tuple(evidence), tuple(missing))

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Mapping[TopicPartition, Sighting]:
        """Who leads by the metadata, and whether that broker answers as leader in that epoch; see the port."""
        if not partitions:
            return {}
        found = await self.read_partitions(partitions, deadline, not_before)
        states = {id: found.states[id] for id in partitions if id in found.states}
        led = {id: state.leader for id, state in states.items() if state.leader is not None}
        leads = await self.answering(led, deadline)
        seen = {id: _leadership(state, leads.get(id), found.as_of) for id, state in states.items()}
        return {id: seen.get(id) or found.absent(id) for id in partitions}

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """Those of `candidates` that answer as leader at this moment; see the port."""
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        for id, broker in candidates.items():
            by_broker.setdefault(broker, []).append(id)

        async def ask(broker: BrokerId, ids: list[TopicPartition]) -> dict[TopicPartition, Lead]:
            entry = self._views.known.get(broker)
            if entry is None:
                return {}
            survey = ReplicaSurvey(self.brokers, broker, entry.address, deadline, self._now)
            try:
                leading = await survey.leading(ids)
            except ClusterError:
                return {}
            return {id: Lead(broker, epoch, end) for id, (epoch, end) in leading.items()}

        answers = await asyncio.gather(*(ask(broker, ids) for broker, ids in by_broker.items()))
        return {id: lead for part in answers for id, lead in part.items()}

    async def relay_answers(self, relay: Relay, deadline: timedelta) -> bool:
        """Whether it answers, or its process is gone; see the port."""
        try:
            await self.brokers.api_versions(Address(relay.host, relay.port), deadline)
        except ClusterError as error:
            return isinstance(error, BrokerRefuses)
        return True

    def relay(self, at: Address) -> Relay:
        """The broker at this address, as something to be asked about later."""
        ids = [entry.id for entry in self._views.known.values() if entry.address == at]
        return Relay(ids[0] if len(ids) == 1 else None, at.host, at.port)

    async def unregistered(self, brokers: Iterable[BrokerId], deadline: timedelta) -> tuple[BrokerId, ...]:
        """Those of these brokers that are not registered; none, where this release or the cluster does not tell."""
        try:
            view = await self._views.look(deadline, in_a_hurry=True)
        except ClusterError:
            return ()
        listed = view.cluster.brokers
        return tuple(sorted(set(brokers) - listed.keys())) if view.cluster.lists_fenced else ()

    async def read_partitions(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Partitions:
        """These partitions by the newest metadata; if the broker that knows them fails, once more through another one.

        Raises ClusterError if that fails too, StaleMetadata as `leaders` does.
        """
        return await self._read(partitions, deadline, lambda: self._views.route(deadline, not_before))

    async def read_current(self, partitions: Sequence[TopicPartition], deadline: timedelta) -> Partitions:
        """These partitions by metadata no older than the controller's now; waits for a broker that is behind.

        Raises ClusterError if that fails twice. Without DESCRIBE on the cluster: by the newest metadata there is.
        """
        return await self._read(partitions, deadline, lambda: self._views.current(deadline))

    async def _read(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, through: Callable[[], Awaitable[Route]]
    ) -> Partitions:
        async def read() -> Partitions:
            at, as_of = await through()
            return replace(await metadata.describe_partitions(self.brokers, at, partitions, deadline), as_of=as_of)

        try:
            return await read()
        except ClusterError:
            self._views.forget_route()
            return await read()

    async def pulse(self, deadline: timedelta, *, ask_controller: bool = False) -> Pulse:
        """The cheap look, to be taken several times a second; see `Pulses.take`. One at a time."""
        pulse = await self._pulses.take(deadline, ask_controller=ask_controller)
        self._pulse_from = pulse.view_from
        self._views.known |= {id: beat.entry for id, beat in pulse.beats.items()}
        return pulse

    async def every_partition(self, deadline: timedelta) -> tuple[TopicPartition, ...]:
        """All partitions that the principal may see. Raises ClusterError. `deadline` is for each page."""
        at = await self.route(deadline)
        return tuple((await metadata.describe_partitions(self.brokers, at, None, deadline)).states)

    async def scan(self, deadline: timedelta) -> Scan:
        """Every offline partition there is, through the broker that the last pulse found to know the newest.

        Raises ClusterError if that fails and another one does as well. `deadline` is for each page of some thousand.
        """
        return await self._through_the_newest(lambda at: scan.scan(self.brokers, at, deadline), deadline)

    async def unclean_topics(self, topics: Sequence[str], deadline: timedelta) -> UncleanTopics:
        """Those of `topics` in which Kafka would elect uncleanly by itself. Raises as `scan` does."""
        return await self._through_the_newest(
            lambda at: scan.unclean_topics(self.brokers, at, topics, deadline), deadline
        )

    async def _through_the_newest(self, read: Callable[[Address], Awaitable[T]], deadline: timedelta) -> T:
        at = self._pulse_from or await self.route(deadline)
        try:
            return await read(at)
        except ClusterError:
            if await self.route(deadline) == at:
                self._views.forget_route()
            return await read(await self.route(deadline))

    async def route(self, deadline: timedelta) -> Address:
        """A broker to read metadata from and to reach the controller through."""
        return (await self._views.route(deadline)).address

    def forget_route(self) -> None:
        """That broker could not be reached: another one is to be found."""
        self._views.forget_route()

    async def _replicas(
        self,
        view: View,
        states: Sequence[PartitionState],
        rules: EvidenceRules,
        known: Mapping[TopicPartition, PartitionEvidence],
        epochs: dict[BrokerId, BrokerEpoch],
    ) -> Mapping[TopicPartition, Mapping[BrokerId, Replica]]:
        """Every replica of these partitions, each asked of its own broker, all brokers at once.

        `epochs`: the brokers' own ones are noted there.
        """
        by_broker: dict[BrokerId, list[PartitionState]] = {}
        for state in states:
            for broker in state.replicas:
                by_broker.setdefault(broker, []).append(state)
        surveys = await asyncio.gather(
            *(
                self._survey(view, broker, held, rules, _logs(broker, held, known), epochs)
                for broker, held in by_broker.items()
            )
        )
        found: dict[TopicPartition, dict[BrokerId, Replica]] = {state.id: {} for state in states}
        for (broker, held), survey in zip(by_broker.items(), surveys, strict=True):
            for state in held:
                found[state.id][broker] = _as_known(state, view, survey[state.id])
        return found

    async def _survey(
        self,
        view: View,
        broker: BrokerId,
        held: Sequence[PartitionState],
        rules: EvidenceRules,
        known: Mapping[TopicPartition, ReplicaLog],
        epochs: dict[BrokerId, BrokerEpoch],
    ) -> Mapping[TopicPartition, Replica]:
        entry = view.cluster.brokers.get(broker) or self._views.known.get(broker)
        if entry is None:
            nowhere = Reason("BrokerUnknown", f"broker {broker} is not registered, and its address is not known")
            return {state.id: Replica(broker, None, nowhere) for state in held}
        listed = view.cluster.brokers.get(broker)
        fenced = listed is None or listed.fenced
        log_info = self._log_info(view.versions.get(broker))
        survey = ReplicaSurvey(self.brokers, broker, entry.address, rules.deadline, self._now, log_info)
        problem = view.faults.get(broker)
        found: dict[TopicPartition, Replica] = {}
        wanted = held
        for _ in range(_attempts_left(problem, fenced, rules)):
            try:
                found |= await survey.measure(wanted, may_lead=fenced, known=known)
            except ClusterError as error:
                problem = error.reason
                if isinstance(error, BrokerRestarted):
                    found = {}
                if not isinstance(error, BrokerSilent):
                    break
            wanted = [state for state in held if state.id not in found or _unfinished(found[state.id])]
            if not wanted:
                break
        if log_info is not None and log_info.epoch is not None:
            epochs[broker] = log_info.epoch
        silent = problem or Reason("NoAnswer", f"broker {broker} did not answer")
        return {state.id: found.get(state.id) or Replica(broker, None, silent) for state in held}

    def _log_info(self, versions: ApiVersions | None) -> ReplicaLogInfo | None:
        """The way to ask for log ends by GetReplicaLogInfo, if it is configured, and offered by this broker."""
        key = self.kip_1275.replica_log_info_key
        offered = key is not None and versions is not None and offers_log_info(versions, key)
        return ReplicaLogInfo(key) if key is not None and offered else None

    async def _reassignments(
        self, view: View, ids: Sequence[TopicPartition], deadline: timedelta
    ) -> Mapping[TopicPartition, Reassignment] | Reason:
        if not ids:
            return {}
        try:
            return await metadata.reassignments(self.brokers, view.at.address, ids, deadline)
        except ClusterError as fault:
            return fault.reason

    async def _configs(self, view: View, topics: set[str], deadline: timedelta) -> Mapping[str, TopicConfigs]:
        if not topics:
            return {}
        try:
            return await metadata.topic_configs(self.brokers, view.at.address, topics, deadline)
        except ClusterError:
            return {}

    def _state(
        self,
        view: View,
        advances: Mapping[BrokerId, bool],
        epochs: Mapping[BrokerId, BrokerEpoch],
        elr: bool,
        took: timedelta,
    ) -> ClusterState:
        brokers = [
            replace(_broker(entry, view, advances.get(entry.id)), epoch=epochs.get(entry.id))
            for entry in sorted(view.cluster.brokers.values(), key=lambda e: e.id)
        ]
        for entry in self._views.known.values():
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
            observed_at=self._now(),
            took=took,
            as_of=view.as_of,
        )


def _attempts_left(fault: Reason | None, fenced: bool, rules: EvidenceRules) -> int:
    """How often a broker's replicas may still be asked for, `fault` being why it did not tell its versions."""
    if fault is None:
        return 1 if fenced else rules.attempts
    return rules.attempts - 1 if fault.code == BrokerSilent.code and not fenced else 0


def _unfinished(replica: Replica) -> bool:
    return replica.problem is not None and replica.problem.code == UNFINISHED


def _as_known(state: PartitionState, view: View, replica: Replica) -> Replica:
    """The replica as measured, and as the controller knows it: KIP-858 has brokers tell it which directories failed.

    A live broker's replica is offline for that alone; even if its log still answers, the controller passes it over.
    """
    listed = view.cluster.brokers.get(replica.broker)
    if replica.log is None or listed is None or listed.fenced or replica.broker not in state.offline:
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


def _broker(entry: BrokerEntry, view: View, advances: bool | None) -> Broker:
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


def _leadership(state: PartitionState, lead: Lead | None, as_of: MetadataOffset | None) -> Leadership:
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
        as_of,
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
        missing.append(MissingPartition(id, partitions.absent(id).reason))
    return states, missing


def _release(versions: ApiVersions) -> str:
    """The release as the newest ListOffsets implies it; a broker does not tell its version otherwise."""
    newest = versions.max_versions.get(ListOffsetsRequest.API_KEY, 0)
    return {9: "3.9", 10: "4.0"}.get(newest, "3.8 or earlier" if newest < 9 else "4.1 or later")
