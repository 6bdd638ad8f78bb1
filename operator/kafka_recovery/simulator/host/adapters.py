"""Port `Cluster` on the simulated Kafka: what `cluster/kafka_cluster` and `cluster/replica_logs` see on a real one.

The same words for the same silences, the same None for the same unknowns; only the messages are shorter. Every answer
has travelled over the simulated network, so it may be late, lost, or from a broker that is behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kafka_recovery.domain.election import Lead, Leadership, Scope
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
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.host.views import View, Views
from kafka_recovery.simulator.host.wire import Fault, SimulatedWire, reason_of
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    ANY_EPOCH,
    At,
    BrokerListed,
    DescribeConfigs,
    DescribePartitions,
    EpochVectors,
    ListOffsets,
    ListReassignments,
    OffsetFound,
    PartitionDescribed,
    TopicConfig,
    VectorFound,
)

_METADATA_LAG = 1.0
_OTHER_EPOCH = (Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH)

States = Mapping[TopicPartition, PartitionDescribed]


@dataclass(slots=True)
class _Probe:
    """What is known so far about one replica while it is being measured."""

    id: TopicPartition
    state: PartitionDescribed
    end: Offset | None = None
    knows_current_epoch: bool = False
    vector: VectorFound | None = None
    problem: Reason | None = None
    unreadable: Reason | None = None
    leads: bool = False


class SimulatedCluster:
    """One engine's look at the simulated Kafka. `looked` hears of every evidence that was gathered."""

    def __init__(
        self,
        wire: SimulatedWire,
        now: Callable[[], datetime],
        looked: Callable[[Evidence], object] = lambda evidence: None,
    ) -> None:
        self.wire = wire
        self.views = Views(wire, tuple(wire.kafka.brokers))
        self._now = now
        self._looked = looked

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        """Look at everything; see the port. Raises Unavailable if no broker answers."""
        began = _time()
        view = await self.views.look(rules.deadline)
        described, watermark = await asyncio.gather(
            self.describe(view.at.id, scope.partitions, rules.deadline), self.views.quorum(view, rules.deadline)
        )
        states, missing = _in_scope(scope, described)
        replicas, ongoing, configs, advances = await asyncio.gather(
            self._replicas(view, states, rules),
            self._reassignments(view, tuple(states), rules.deadline),
            self._configs(view, tuple(sorted({id.topic for id in states})), rules.deadline),
            self.views.advances(view, watermark, rules.deadline),
        )
        elr = dict(view.versions[view.at.id].features).get("eligible.leader.replicas.version", 0) > 0
        partitions = [
            _partition(id, state, replicas.get(id, {}), ongoing, configs.get(id.topic), elr)
            for id, state in states.items()
        ]
        cluster = self._state(view, advances, elr, timedelta(seconds=_time() - began))
        evidence = Evidence(cluster, tuple(partitions), tuple(missing))
        self._looked(evidence)
        return evidence

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta
    ) -> Mapping[TopicPartition, Leadership]:
        """Who leads by the metadata, and whether that broker answers as leader in that epoch."""
        if not partitions:
            return {}
        try:
            found = await self.describe(await self.views.route(deadline), tuple(partitions), deadline)
        except Fault:
            self.views.forget_route()
            found = await self.describe(await self.views.route(deadline), tuple(partitions), deadline)
        led = {id: state.leader for id, state in found.items() if state.leader is not None}
        leads = await self.answering(led, deadline)
        return {id: _leadership(id, state, leads.get(id)) for id, state in found.items()}

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """Those of `candidates` that answer as leader at this moment."""
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        for id, broker in candidates.items():
            by_broker.setdefault(broker, []).append(id)

        async def ask(broker: BrokerId, ids: list[TopicPartition]) -> dict[TopicPartition, Lead]:
            if broker not in self.views.known:
                return {}
            try:
                leading = await self._leading(broker, ids, deadline)
            except Fault:
                return {}
            return {id: Lead(broker, found.leader_epoch, found.offset) for id, found in leading.items()}

        answers = await asyncio.gather(*(ask(broker, ids) for broker, ids in by_broker.items()))
        return {id: lead for part in answers for id, lead in part.items()}

    async def describe(
        self, at: BrokerId, partitions: tuple[TopicPartition, ...] | None, deadline: timedelta
    ) -> States:
        """Partitions by one broker's metadata, sorted; None: those without a leader."""
        request = DescribePartitions(partitions, offline_only=partitions is None)
        found = (await self.wire.ask(at, request, deadline)).partitions
        return {id: found[id] for id in sorted(found)}

    async def _replicas(
        self, view: View, states: States, rules: EvidenceRules
    ) -> Mapping[TopicPartition, Mapping[BrokerId, Replica]]:
        """Every replica of every offline partition, each asked of its own broker, all brokers at once."""
        by_broker: dict[BrokerId, dict[TopicPartition, PartitionDescribed]] = {}
        for id, state in states.items():
            if state.leader is None:
                for broker in state.replicas:
                    by_broker.setdefault(broker, {})[id] = state
        surveys = await asyncio.gather(*(self._survey(view, broker, held, rules) for broker, held in by_broker.items()))
        found: dict[TopicPartition, dict[BrokerId, Replica]] = {id: {} for id in states}
        for broker, survey in zip(by_broker, surveys, strict=True):
            for id, replica in survey.items():
                found[id][broker] = replica
        return found

    async def _survey(
        self, view: View, broker: BrokerId, held: States, rules: EvidenceRules
    ) -> Mapping[TopicPartition, Replica]:
        if broker not in view.listed and broker not in self.views.known:
            problem = Reason("BrokerUnknown", f"broker {broker} is not registered, and its address is not known")
            return {id: Replica(broker, None, problem) for id in held}
        listed = view.listed.get(broker)
        fenced = listed is None or listed.fenced
        fault = view.faults.get(broker)
        for _ in range(1 if fenced else rules.attempts):
            if fault is not None and fenced:
                break
            try:
                return await self._measure(broker, held, rules.deadline, may_lead=fenced)
            except Fault as error:
                fault = error.reason
        problem = fault or Reason("NoAnswer", f"broker {broker} did not answer")
        return {id: Replica(broker, None, problem) for id in held}

    async def _measure(
        self, broker: BrokerId, held: States, deadline: timedelta, *, may_lead: bool
    ) -> Mapping[TopicPartition, Replica]:
        began = _time()
        probes = {id: _Probe(id, state) for id, state in held.items()}
        await self._log_ends(broker, probes, deadline)
        doubtful = [id for id, probe in probes.items() if may_lead or not probe.knows_current_epoch]
        if doubtful:
            for id in await self._leading(broker, doubtful, deadline):
                probes[id].leads = True
        await self._vectors(broker, {id: p for id, p in probes.items() if p.end is not None}, deadline)
        now, took = self._now(), timedelta(seconds=_time() - began)
        return {id: _replica(broker, probe, now, took) for id, probe in probes.items()}

    async def _log_ends(self, broker: BrokerId, probes: Mapping[TopicPartition, _Probe], deadline: timedelta) -> None:
        """Log end under the current leader epoch; where the broker does not know that epoch, without it."""
        pending, give_up_at = dict(probes), _time() + _METADATA_LAG
        while pending:
            epochs = {id: probe.state.leader_epoch for id, probe in pending.items()}
            answers = await self._offsets(broker, epochs, deadline, debugging=True)
            for id, found in answers.items():
                _note_end(broker, pending[id], found)
            late = {id: p for id, p in pending.items() if id in answers and answers[id].error is _OTHER_EPOCH[1]}
            if not late or _time() > give_up_at:
                break
            pending = late
            await asyncio.sleep(0.1)
        others = [id for id, probe in probes.items() if probe.problem and probe.problem.code == "OtherLeaderEpoch"]
        if others:
            for id, found in (
                await self._offsets(broker, dict.fromkeys(others, ANY_EPOCH), deadline, debugging=True)
            ).items():
                if found.error is Error.NONE:
                    probes[id].end = found.offset

    async def _vectors(self, broker: BrokerId, probes: Mapping[TopicPartition, _Probe], deadline: timedelta) -> None:
        if not probes:
            return
        asked = {
            id: (p.state.topic_id, p.state.leader_epoch if p.knows_current_epoch else ANY_EPOCH)
            for id, p in probes.items()
        }
        answer = await self.wire.ask(broker, EpochVectors(asked), deadline)
        for id, probe in probes.items():
            found = answer.partitions.get(id)
            if found is not None and found.error is Error.NONE:
                probe.vector = found
            else:
                code = found.error if found is not None else Error.UNKNOWN_TOPIC_OR_PARTITION
                probe.unreadable = reason_of(code, f"Fetch of {id} at broker {broker}")
                probe.knows_current_epoch = False

    async def _leading(
        self, broker: BrokerId, ids: Sequence[TopicPartition], deadline: timedelta
    ) -> dict[TopicPartition, OffsetFound]:
        """Those that the broker answers for as leader, to a consumer that names no epoch, with their log ends.

        OFFSET_NOT_AVAILABLE is a leader's answer too (KAFKA-15583).
        """
        answers = await self._offsets(broker, dict.fromkeys(ids, ANY_EPOCH), deadline)
        led = {id: found for id, found in answers.items() if found.error in (Error.NONE, Error.OFFSET_NOT_AVAILABLE)}
        epochs = {id: found.leader_epoch if found.error is Error.NONE else ANY_EPOCH for id, found in led.items()}
        ends = await self._offsets(broker, epochs, deadline, debugging=True) if epochs else {}
        return {id: found for id, found in ends.items() if found.error is Error.NONE}

    async def _offsets(
        self,
        broker: BrokerId,
        epochs: Mapping[TopicPartition, LeaderEpoch],
        deadline: timedelta,
        *,
        debugging: bool = False,
    ) -> Mapping[TopicPartition, OffsetFound]:
        return (await self.wire.ask(broker, ListOffsets(epochs, At.LATEST, debugging), deadline)).partitions

    async def _reassignments(
        self, view: View, ids: tuple[TopicPartition, ...], deadline: timedelta
    ) -> Mapping[TopicPartition, Reassignment] | Reason:
        if not ids:
            return {}
        try:
            answer = await self.wire.ask(view.at.id, ListReassignments(ids), deadline)
        except Fault as fault:
            return fault.reason
        if answer.error is not Error.NONE:
            return reason_of(answer.error, "ListPartitionReassignments")
        return answer.partitions

    async def _configs(self, view: View, topics: tuple[str, ...], deadline: timedelta) -> Mapping[str, TopicConfig]:
        try:
            return (await self.wire.ask(view.at.id, DescribeConfigs(topics), deadline)).topics if topics else {}
        except Fault:
            return {}

    def _state(self, view: View, advances: Mapping[BrokerId, bool], elr: bool, took: timedelta) -> ClusterState:
        listed = view.listed
        brokers = [_broker(entry, view, advances.get(entry.id)) for entry in listed.values()]
        gone = False if view.cluster.lists_fenced else None
        for entry in self.views.known.values():
            if entry.id not in listed:
                brokers.append(replace(_broker(entry, view, None), registered=gone, fenced=True))
        mine = view.versions[view.at.id]
        return ClusterState(
            cluster_id=view.cluster.cluster_id,
            release=mine.release,
            features=tuple(sorted(mine.features)),
            elr_enabled=elr,
            view_from=view.at.id,
            brokers=tuple(sorted(brokers, key=lambda broker: broker.id)),
            observed_at=self._now(),
            took=took,
        )


def _time() -> float:
    return asyncio.get_running_loop().time()


def _in_scope(
    scope: Scope, described: States
) -> tuple[dict[TopicPartition, PartitionDescribed], list[MissingPartition]]:
    if scope.partitions is None:
        return {id: state for id, state in described.items() if state.leader is None}, []
    wanted = sorted(set(scope.partitions))
    absent = [
        MissingPartition(id, Reason("UnknownPartition", f"topic {id.topic} has no partition {id.partition}"))
        for id in wanted
        if id not in described
    ]
    return {id: described[id] for id in wanted if id in described}, absent


def _note_end(broker: BrokerId, probe: _Probe, found: OffsetFound) -> None:
    what = f"ListOffsets of {probe.id} at broker {broker}"
    if found.error is Error.NONE:
        probe.end, probe.knows_current_epoch, probe.problem = found.offset, True, None
    elif found.error in _OTHER_EPOCH:
        asked = f"leader epoch {probe.state.leader_epoch} of {probe.id}"
        probe.problem = Reason("OtherLeaderEpoch", f"broker {broker} does not answer under {asked}")
    elif found.error is Error.KAFKA_STORAGE_ERROR:
        probe.problem = Reason("LogDirOffline", f"{what}: Kafka answered {found.error.name} ({found.error.value})")
    else:
        probe.problem = reason_of(found.error, what)


def _replica(broker: BrokerId, probe: _Probe, now: datetime, took: timedelta) -> Replica:
    vector = probe.vector
    if probe.end is None:
        missing = Reason("NoAnswer", f"broker {broker} did not answer about {probe.id}")
        return Replica(broker, None, probe.problem or missing, probe.leads)
    log = ReplicaLog(
        start=vector.start if vector else Offset(0),
        end=probe.end,
        epochs=vector.epochs if vector else None,
        high_watermark=vector.high_watermark if vector else None,
        answered_under=probe.state.leader_epoch if probe.knows_current_epoch else None,
        observed_at=now,
        took=took,
    )
    return Replica(broker, log, probe.problem or probe.unreadable, probe.leads)


def _broker(entry: BrokerListed, view: View, advances: bool | None) -> Broker:
    said = view.versions.get(entry.id)
    return Broker(
        id=entry.id,
        host=f"b{entry.id}",
        port=9092,
        rack=entry.rack,
        registered=True,
        fenced=entry.fenced,
        stopping=None,
        reachable=said is not None,
        metadata_offset=said.metadata_offset if said else None,
        metadata_advances=advances,
        problem=view.faults.get(entry.id),
    )


def _partition(
    id: TopicPartition,
    state: PartitionDescribed,
    measured: Mapping[BrokerId, Replica],
    ongoing: Mapping[TopicPartition, Reassignment] | Reason,
    config: TopicConfig | None,
    elr: bool,
) -> PartitionEvidence:
    not_asked = Reason("NotAsked", "the partition has a leader")
    return PartitionEvidence(
        id=id,
        topic_id=state.topic_id,
        internal=id.topic.startswith("__"),
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        elr=state.elr if elr else None,
        last_known_elr=state.last_known_elr if elr else None,
        replicas=tuple(measured.get(broker) or Replica(broker, None, not_asked) for broker in state.replicas),
        reassignment=None if isinstance(ongoing, Reason) else ongoing.get(id),
        reassignment_known=not isinstance(ongoing, Reason),
        min_isr=config.min_isr if config else None,
        unclean_election_enabled=config.unclean_election_enabled if config else None,
        tiered=False if config else None,
    )


def _leadership(id: TopicPartition, state: PartitionDescribed, lead: Lead | None) -> Leadership:
    answers = lead is not None and lead.leader_epoch == state.leader_epoch
    problem = None
    if state.leader is not None and not answers:
        message = f"broker {state.leader} does not answer as leader of {id} in epoch {state.leader_epoch}"
        problem = Reason("LeaderSilent", message)
    return Leadership(
        id,
        state.topic_id,
        state.leader,
        state.leader_epoch,
        state.replicas,
        state.isr,
        lead.log_end if lead is not None and answers else None,
        problem,
    )
