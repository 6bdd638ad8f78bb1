"""What the active controller knows and the one way it changes a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.simulator.model.elections import Change, Election, Rules, Wish, change, without
from kafka_recovery.simulator.model.metadata import BrokerState, MetadataLog, PartitionState, TopicState
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import Switches
from kafka_recovery.simulator.model.timeline import Timeline, What


class ControllerFailed(Exception):
    """The active controller met what it takes for impossible, and gives its leadership up."""


@dataclass(slots=True)
class ControllerState:
    """Replayed from the metadata log, so every controller has the same. `written` is called after each record.

    `leaderless` and `unacceptable` (replicas on dead log directories, by broker) are indexes; so is `taken_for_members`
    (partitions whose ELR was cleared while the broker was in it, with their topics' ids).
    """

    settings: Settings
    switches: Switches
    timeline: Timeline
    log: MetadataLog
    written: Callable[[], None]
    actor: Callable[[], str]
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)
    brokers: dict[BrokerId, BrokerState] = field(default_factory=dict)
    leaderless: dict[TopicPartition, None] = field(default_factory=dict)
    unacceptable: dict[BrokerId, frozenset[TopicPartition]] = field(default_factory=dict)
    taken_for_members: dict[BrokerId, dict[TopicPartition, TopicId]] = field(default_factory=dict)

    def acceptable(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Whether KRaft lets the broker lead: registered, unfenced, not stopping, log directory online."""
        state = self.brokers.get(broker)
        if state is None or state.fenced or state.stopping:
            return False
        return not self.unacceptable or partition not in self.unacceptable.get(broker, ())

    def rules(self, partition: TopicPartition) -> Rules:
        """The configuration that governs this partition."""
        return Rules(self.settings.elr, self.topics[partition.topic].min_isr)

    def change(self, id: TopicPartition, wish: Wish, by: str) -> Change | None:
        """Bring the partition to its next state, in the log and in the timeline; None if nothing changes."""
        before = self.partitions[id]
        changed = change(before, wish, self.rules(id), lambda broker: self.acceptable(broker, id))
        if changed is None:
            return None
        self.write_partition(id, changed.state)
        if self.timeline.heard:
            self._tell(id, before, changed, by)
        return changed

    def forget_eligible(self, id: TopicPartition, by: str) -> None:
        """Clear ELR and last-known ELR (ClearElrRecord); an offline partition may be left with nobody to wait for."""
        before = self.partitions[id]
        if before.elr or before.last_known_elr:
            after = before._replace(elr=(), last_known_elr=())
            self.write_partition(id, after)
            if not self.switches.cleared_members_are_forgotten:
                for broker in before.elr:
                    self.taken_for_members.setdefault(broker, {})[id] = before.topic_id
            if self.timeline.heard:
                self._tell(id, before, Change(after), by)

    def look_up_memberships(self, broker: BrokerId) -> None:
        """What the controller does about a broker that may have lost records. Raises ControllerFailed."""
        for id, topic_id in self.taken_for_members.get(broker, {}).items():
            topic = self.topics.get(id.topic)
            if topic is None or topic.id != topic_id:
                raise ControllerFailed(f"{id} existed in isrMembers, but not in the topics map")

    def write_partition(self, id: TopicPartition, state: PartitionState | None) -> None:
        """Log the state and keep the indexes; None deletes."""
        self.log.put_partition(id, state)
        self.keep(id, state)
        self.written()

    def keep(self, id: TopicPartition, state: PartitionState | None) -> None:
        """Remember without logging."""
        if self.taken_for_members:
            self._forget_former_members(id, state)
        if state is None:
            self.partitions.pop(id, None)
        else:
            self.partitions[id] = state
        if state is not None and state.leader is None:
            self.leaderless[id] = None
        else:
            self.leaderless.pop(id, None)

    def _forget_former_members(self, id: TopicPartition, state: PartitionState | None) -> None:
        """Who leaves an ELR in order is no member any more; with a topic goes all that its last members had in it.

        Read in ReplicationControlManager of 4.x.
        """
        before = self.partitions.get(id)
        for broker in before.elr if before else ():
            known = self.taken_for_members.get(broker, {})
            if state is None:
                for other in [other for other, topic_id in known.items() if before and topic_id == before.topic_id]:
                    del known[other]
            elif broker not in state.elr:
                known.pop(id, None)

    def write_broker(self, id: BrokerId, state: BrokerState) -> None:
        """Log a registration's state."""
        self.brokers[id] = state
        self.log.put_broker(id, state)
        self.written()

    def write_topic(self, name: str, state: TopicState | None) -> None:
        """Log a topic's state; None deletes."""
        if state is None:
            self.topics.pop(name, None)
        else:
            self.topics[name] = state
        self.log.put_topic(name, state)
        self.written()

    def leave_isr(self, broker: BrokerId, by: str, *, lost_its_log: bool = False) -> None:
        """Take the broker out of every ISR but the last one's, and give its leaderships away."""
        for id in self.log.partitions_of(broker):
            state = self.partitions.get(id)
            if state is None:
                continue
            concerned = broker in state.isr or (lost_its_log and broker in state.elr)
            if concerned or state.leader == broker:
                self.leave_isr_of(id, broker, by, lost_its_log=lost_its_log)

    def leave_isr_of(self, id: TopicPartition, broker: BrokerId, by: str, *, lost_its_log: bool = False) -> None:
        """Take the broker out of one ISR, with all that follows."""
        isr = without(self.partitions[id].isr, broker)
        lost = broker if lost_its_log else None
        self.change(id, Wish(isr=isr, election=self.election(id), lost_its_log=lost), by)

    def hand_over(self, broker: BrokerId, at_most: int, by: str) -> None:
        """Give so many of the broker's leaderships away."""
        for id in tuple(islice(self._led_by(broker), at_most)):
            self.leave_isr_of(id, broker, by)

    def try_leaderless(self, ids: Iterable[TopicPartition], by: str) -> None:
        """Elect wherever a clean leader, or with unclean.leader.election.enable any leader, has become possible."""
        for id in ids:
            if id in self.leaderless:
                self.change(id, Wish(election=self.election(id)), by)

    def election(self, id: TopicPartition) -> Election:
        """What the controller itself may do for this partition."""
        return Election.UNCLEAN if self.topics[id.topic].unclean else Election.ANY

    def leads(self, broker: BrokerId) -> bool:
        """Whether the broker leads any partition."""
        return any(True for _ in self._led_by(broker))

    def _led_by(self, broker: BrokerId) -> Iterator[TopicPartition]:
        for id in self.log.partitions_of(broker):
            state = self.partitions.get(id)
            if state is not None and state.leader == broker:
                yield id

    def _tell(self, id: TopicPartition, before: PartitionState, changed: Change, by: str) -> None:
        after, tell = changed.state, self.timeline.tell
        if (after.adding, after.removing) != (before.adding, before.removing):
            done = not (after.adding or after.removing)
            tell(
                self.actor(),
                What.REASSIGNMENT,
                id,
                replicas=after.replicas,
                adding=after.adding,
                removing=after.removing,
                by=by,
                done=done,
            )
        elif after.replicas != before.replicas:
            tell(self.actor(), What.ORDER, id, before=before.replicas, after=after.replicas, by=by)
        if after.leader != before.leader:
            tell(
                self.actor(),
                What.ELECTED,
                id,
                leader=after.leader,
                leader_epoch=after.leader_epoch,
                isr=after.isr,
                elr=after.elr,
                unclean=changed.unclean,
                by=by,
            )
        elif (after.isr, after.elr) != (before.isr, before.elr):
            tell(self.actor(), What.ISR, id, isr=after.isr, elr=after.elr, leader_epoch=after.leader_epoch, by=by)
