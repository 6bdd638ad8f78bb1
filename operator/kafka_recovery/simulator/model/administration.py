"""What people ask the controller for: topics, elections, reassignments."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_recovery.domain.evidence import Reassignment
from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.simulator.model.controller_state import ControllerState
from kafka_recovery.simulator.model.elections import Election, Wish
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.metadata import PartitionState, TopicState
from kafka_recovery.simulator.model.requests import SERVED, AlterReassignments, Decided, ElectionType, ElectLeaders
from kafka_recovery.simulator.model.timeline import What


@dataclass(slots=True)
class Administration:
    """Every change says `by` whom it was asked for."""

    state: ControllerState
    topics_made: int = field(default=0)
    producers_numbered: int = field(default=0)

    def create_topic(
        self, name: str, assignments: Sequence[Sequence[BrokerId]], min_isr: int, unclean: bool, source: str
    ) -> TopicId:
        """A topic, led at once: in each partition the acceptable replicas are in sync and the first of them leads."""
        if name in self.state.topics:
            raise ValueError(f"topic {name} exists")
        topic_id = self.new_topic(name, len(assignments), min_isr, unclean, source)
        for index, replicas in enumerate(assignments):
            id = TopicPartition(name, index)
            isr = tuple(broker for broker in replicas if self.state.acceptable(broker, id))
            if not isr:
                raise ValueError(f"{id} has no replica on a live broker")
            self.state.write_partition(id, PartitionState(topic_id, tuple(replicas), isr, isr[0]))
        self.state.timeline.tell(self.state.actor(), What.TOPIC, created=name, id=topic_id)
        return topic_id

    def new_topic(self, name: str, partitions: int, min_isr: int, unclean: bool, source: str) -> TopicId:
        """A topic's entry, without its partitions; topic ids are UUIDs in Kafka's base64 form, never used again."""
        self.topics_made += 1
        topic_id = TopicId(base64.urlsafe_b64encode(self.topics_made.to_bytes(8) + bytes(8)).decode().rstrip("="))
        self.state.write_topic(name, TopicState(topic_id, partitions, min_isr, unclean, source))
        return topic_id

    def delete_topic(self, name: str) -> None:
        """The topic and all its logs go."""
        topic = self.state.topics.get(name)
        if topic is None:
            return
        for index in range(topic.partitions):
            self.state.write_partition(TopicPartition(name, index), None)
        self.state.write_topic(name, None)
        self.state.timeline.tell(self.state.actor(), What.TOPIC, deleted=name, id=topic.id)

    def configure(
        self, name: str, *, min_isr: int | None = None, unclean: bool | None = None, tiered: bool | None = None
    ) -> None:
        """Change a topic's configs.

        Another min.insync.replicas clears ELR and last-known ELR (KIP-966); to set the topic's own to what it is does
        nothing. Unclean elections that become possible wait for the periodic check
        (unclean.leader.election.interval.ms).
        """
        topic = self.state.topics.get(name)
        if topic is None:
            return
        if (min_isr, "topic") == (topic.min_isr, topic.min_isr_source):
            min_isr = None
        changed = topic if unclean is None else topic._replace(unclean=unclean)
        if tiered is not None:
            changed = changed._replace(tiered=tiered)
        if min_isr is not None:
            changed = changed._replace(min_isr=min_isr, min_isr_source="topic")
        self.state.write_topic(name, changed)
        self.state.timeline.tell(self.state.actor(), What.TOPIC, configured=name, config=tuple(changed[2:4]))
        if min_isr is not None:
            for index in range(topic.partitions):
                self.state.forget_eligible(TopicPartition(name, index), f"min.insync.replicas={min_isr}")

    def elect(self, request: ElectLeaders) -> Decided:
        """ElectLeaders. KIP-1275: of a designated election only the first 1000 partitions are served."""
        if request.type is ElectionType.DESIGNATED:
            return self._elect_designated(request)
        asked = request.partitions
        if asked is None:
            preferred = request.type is ElectionType.PREFERRED
            asked = tuple(self.state.partitions if preferred else self.state.leaderless)
        results = {id: self._elect(id, request.type, request.by) for id in asked}
        if request.partitions is None:
            results = {id: error for id, error in results.items() if error is not Error.ELECTION_NOT_NEEDED}
        return Decided(Error.NONE, results)

    def _elect_designated(self, request: ElectLeaders) -> Decided:
        ids, leaders = request.partitions, request.designated
        if ids is None or leaders is None or len(ids) != len(leaders):
            return Decided(Error.INVALID_REQUEST, {})
        served = zip(ids[:SERVED], leaders[:SERVED], strict=True)
        return Decided(Error.NONE, {id: self._designate(id, leader, request.by) for id, leader in served})

    def _elect(self, id: TopicPartition, type: ElectionType, by: str) -> Error:
        present = self.state.partitions.get(id)
        if present is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if type is ElectionType.UNCLEAN and present.leader is not None:
            return Error.ELECTION_NOT_NEEDED
        if type is ElectionType.PREFERRED and present.leader == present.replicas[0]:
            return Error.ELECTION_NOT_NEEDED
        election = Election.UNCLEAN if type is ElectionType.UNCLEAN else Election.PREFERRED
        self.state.change(id, Wish(election=election), by)
        after = self.state.partitions[id]
        if type is ElectionType.PREFERRED:
            return Error.NONE if after.leader == after.replicas[0] else Error.PREFERRED_LEADER_NOT_AVAILABLE
        return Error.NONE if after.leader is not None else Error.ELIGIBLE_LEADERS_NOT_AVAILABLE

    def _designate(self, id: TopicPartition, designated: BrokerId, by: str) -> Error:
        """KIP-1275: only an offline partition, only a member that is unfenced and whose replica is online.

        The text names no codes; these are the ones that Kafka uses for the same in other requests.
        """
        present = self.state.partitions.get(id)
        if present is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if present.leader is not None and self.state.switches.designation_offline_only:
            return Error.ELECTION_NOT_NEEDED
        if designated not in present.replicas:
            return Error.INVALID_REPLICA_ASSIGNMENT
        if not self.state.acceptable(designated, id) and self.state.switches.designation_eligible_only:
            return Error.ELIGIBLE_LEADERS_NOT_AVAILABLE
        self.state.change(id, Wish(designated=designated), by)
        return Error.NONE

    def reassign(self, request: AlterReassignments) -> Decided:
        """AlterPartitionReassignments. The same replicas in another order are done at once, leader or no leader."""
        return Decided(
            Error.NONE,
            {
                id: self._reassign(id, target, request.allow_replication_factor_change, request.by)
                for id, target in request.targets.items()
            },
        )

    def _reassign(
        self, id: TopicPartition, target: tuple[BrokerId, ...] | None, other_count_allowed: bool, by: str
    ) -> Error:
        present = self.state.partitions.get(id)
        if present is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if target is None:
            return self._cancel(id, present, by)
        if not target or len(set(target)) != len(target) or any(broker not in self.state.brokers for broker in target):
            return Error.INVALID_REPLICA_ASSIGNMENT
        if not other_count_allowed and len(target) != len(_original(present)):
            return Error.INVALID_REPLICATION_FACTOR
        adding = tuple(sorted(set(target) - set(present.replicas)))
        removing = tuple(sorted(set(present.replicas) - set(target)))
        # As Kafka does it: compared with all present replicas, those being added too, and what is empty is not set.
        wish = Wish(replicas=(*target, *removing), adding=adding or None, removing=removing or None)
        self.state.change(id, wish, by)
        return Error.NONE

    def _cancel(self, id: TopicPartition, present: PartitionState, by: str) -> Error:
        if not (present.adding or present.removing):
            return Error.NO_REASSIGNMENT_IN_PROGRESS
        original = _original(present)
        isr = tuple(broker for broker in present.isr if broker in original)
        if not isr:
            if not self.state.topics[id.topic].unclean:
                return Error.INVALID_REPLICA_ASSIGNMENT
            isr = original[:1]
        wish = Wish(isr=isr, replicas=original, adding=(), removing=(), election=self.state.election(id))
        self.state.change(id, wish, by)
        return Error.NONE

    def reassignments(self, partitions: Sequence[TopicPartition] | None) -> Mapping[TopicPartition, Reassignment]:
        """Those that go on now."""
        wanted = self.state.partitions if partitions is None else partitions
        found = ((id, self.state.partitions.get(id)) for id in wanted)
        return {
            id: Reassignment(state.adding, state.removing)
            for id, state in found
            if state is not None and (state.adding or state.removing)
        }

    def move_to_preferred(self) -> None:
        """The leader rebalance of auto.leader.rebalance.enable, without its threshold of 10 %."""
        for id, state in tuple(self.state.partitions.items()):
            preferred = state.replicas[0]
            if (
                state.leader not in (None, preferred)
                and preferred in state.isr
                and self.state.acceptable(preferred, id)
            ):
                self.state.change(id, Wish(election=Election.PREFERRED), "preferred leader rebalance")


def _original(present: PartitionState) -> tuple[BrokerId, ...]:
    """The replicas as they are after a reassignment is cancelled."""
    return tuple(broker for broker in present.replicas if broker not in present.adding)
