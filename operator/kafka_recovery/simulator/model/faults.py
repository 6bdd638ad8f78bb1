"""Everything that goes wrong, and what other people do to the cluster meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.broker import Broker
from kafka_recovery.simulator.model.controller import Controllers
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.log import record_ids
from kafka_recovery.simulator.model.network import Hold, Kind, Network, NodeName
from kafka_recovery.simulator.model.requests import AlterReassignments, ElectionType, ElectLeaders
from kafka_recovery.simulator.model.scheduler import Scheduler
from kafka_recovery.simulator.model.timeline import Timeline, What
from kafka_recovery.simulator.model.truth import Truth


class Faults:
    """Faults take effect at once. One that makes no sense now does nothing: a shortened schedule stays valid."""

    scheduler: Scheduler
    network: Network
    controllers: Controllers
    timeline: Timeline
    brokers: Mapping[BrokerId, Broker]
    truth: Truth

    def alive(self, broker: int) -> bool:
        """Whether the process runs, paused or not, its port open or not."""
        return self._broker(broker).node.running

    def paused(self, broker: int) -> bool:
        """Whether the process is stopped by SIGSTOP."""
        return self._broker(broker).node.paused

    def kill(self, broker: int) -> None:
        """SIGKILL: the page cache stays, connections break, and new ones are refused."""
        if self.alive(broker):
            self._fault(f"broker {broker}", killed=True)
            self._stop(self._broker(broker), host_up=True)

    def host_crash(self, broker: int) -> None:
        """The host loses power: what was not flushed is gone, and nobody answers."""
        found = self._broker(broker)
        if found.node.host_up:
            self._stop(found, host_up=False)
            self._fault(found.node.title, host_crashed=True, records_lost=found.storage.lose_power())

    def replace_disk(self, broker: int) -> None:
        """A new, empty disk: the broker will answer log end 0 without an error. A live host goes down first."""
        found = self._broker(broker)
        self.host_crash(broker)
        found.applied = 0
        self._fault(found.node.title, disk_replaced=True, records_lost=found.storage.replace_disk())

    def start(self, broker: int, recovery: float = 0.0) -> None:
        """A new process; `recovery` seconds more than usual until its port is open."""
        if not self.alive(broker):
            self._fault(f"broker {broker}", starts=True, recovery=recovery)
            self._broker(broker).start(recovery)

    def shut_down(self, broker: int) -> None:
        """SIGTERM: a controlled shutdown, which needs a controller."""
        found = self._broker(broker)
        if found.node.running and not found.is_open:
            self.kill(broker)
        elif found.node.running:
            self._fault(found.node.title, shuts_down=True)
            found.heartbeats.stop()

    def pause(self, broker: int) -> None:
        """SIGSTOP."""
        node = self._broker(broker).node
        if node.running and not node.paused:
            self._fault(node.title, paused=True)
            node.pause()

    def thaw(self, broker: int) -> None:
        """SIGCONT."""
        node = self._broker(broker).node
        if node.paused:
            self._fault(node.title, thawed=True)
            node.thaw()

    def flush(self, broker: int) -> None:
        """The page cache goes to disk now."""
        self._broker(broker).storage.flush()

    def log_dir_offline(self, broker: int, partitions: Sequence[TopicPartition]) -> None:
        """The log directory that holds these replicas fails; a restart finds it healthy again."""
        found = self._broker(broker)
        if found.node.running:
            self._fault(found.node.title, log_directory_offline=tuple(map(str, partitions)))
            found.lose_directory(frozenset(partitions))

    def fill_volume(self, broker: int, *, full: bool = True) -> None:
        """Something fills the volume of a broker, or makes room on it again."""
        found = self._broker(broker)
        if found.storage.full != full:
            self._fault(found.node.title, volume_full=full)
            found.storage.full = full

    def isolate(self, broker: int, *, from_controllers: bool = True, from_brokers: bool = False) -> None:
        """Cut the broker off from those, both ways."""
        kinds = {Kind.CONTROLLER: from_controllers, Kind.BROKER: from_brokers}
        self._fault("network", isolated=f"broker {broker}", from_=[kind.value for kind, cut in kinds.items() if cut])
        for kind, cut in kinds.items():
            if cut:
                self.network.isolate(BrokerId(broker), kind)

    def heal(self, node: NodeName) -> None:
        """End every cut that has to do with the node."""
        self._fault("network", healed=node)
        self.network.heal(node)

    def cut(self, source: NodeName, target: NodeName) -> None:
        """Nothing passes this way any more; the other way is open."""
        self._fault("network", cut=(source, target))
        self.network.cut(source, target)

    def mend(self, source: NodeName, target: NodeName) -> None:
        """This way is open again."""
        self._fault("network", mended=(source, target))
        self.network.mend(source, target)

    def slow(self, node: NodeName, seconds: float) -> None:
        """Every message from and to the node takes so much longer; 0 ends it."""
        self._fault("network", slow=node, seconds=seconds)
        self.network.slow(node, seconds)

    def lose(self, probability: float) -> None:
        """Every message is lost with this probability, whoever sends it; 0 ends it."""
        self._fault("network", loses=probability)
        self.network.lose(probability)

    def reorder(self, probability: float) -> None:
        """Every message is overtaken by later ones with this probability; 0 ends it."""
        self._fault("network", reorders=probability)
        self.network.reorder(probability)

    def hold(self, source: NodeName, target: NodeName, kind: str) -> Hold:
        """Keep back one kind of message on one way: one connection that stalls. See `Network.send` for the kinds."""
        return self.network.hold(source, target, kind)

    def jump_clock(self, node: NodeName, by: float) -> None:
        """The node's wall clock is set; virtual time, like every monotonic clock, goes on evenly."""
        self._fault(str(node), clock_jumps_by=by)
        self.network.node(node).skew += by

    def kill_controller(self, name: str | None = None) -> None:
        """SIGKILL of a controller, the active one if none is named."""
        target = name or self.controllers.active
        if target is not None:
            self.controllers.kill(target)

    def start_controller(self, name: str | None = None) -> None:
        """Start a dead controller; all of them if none is named."""
        for one in (name,) if name else self.controllers.names:
            self.controllers.start(one)

    def pause_controller(self, name: str | None = None) -> None:
        """SIGSTOP of a controller, the active one if none is named."""
        target = name or self.controllers.active
        if target is not None:
            self.controllers.pause(target)

    def thaw_controller(self, name: str | None = None) -> None:
        """SIGCONT of a paused controller; of all of them if none is named."""
        for one in (name,) if name else self.controllers.names:
            self.controllers.thaw(one)

    def fail_over_controller(self) -> None:
        """Another controller becomes active."""
        self.controllers.fail_over()

    def rebalance(self) -> None:
        """The controller moves leaderships to preferred replicas that are in sync, as it does every few minutes."""
        self._fault("controller", rebalances=True)
        self.controllers.rebalance()

    def reassign(self, partition: TopicPartition, replicas: Sequence[int], by: str = "another admin") -> Error:
        """Somebody sets other replicas, or another order, at the controller itself."""
        target = tuple(map(BrokerId, replicas))
        request = AlterReassignments({partition: target}, by, allow_replication_factor_change=True)
        return self.controllers.administration.reassign(request).partitions[partition]

    def cancel_reassignment(self, partition: TopicPartition, by: str = "another admin") -> Error:
        """Somebody cancels what is going on."""
        request = AlterReassignments({partition: None}, by)
        return self.controllers.administration.reassign(request).partitions[partition]

    def elect(self, partition: TopicPartition, type: ElectionType, by: str = "another admin") -> Error:
        """Somebody holds an election at the controller itself."""
        request = ElectLeaders(type, (partition,), by)
        return self.controllers.administration.elect(request).partitions[partition]

    def set_unclean(self, topic: str, enabled: bool) -> None:
        """Set unclean.leader.election.enable."""
        self.controllers.administration.configure(topic, unclean=enabled)

    def set_tiered(self, topic: str) -> None:
        """Set remote.storage.enable (KIP-405)."""
        self.controllers.administration.configure(topic, tiered=True)

    def delete_locally(self, broker: int, partition: TopicPartition, before: int) -> None:
        """One broker's local retention: what is before this offset is in the remote tier, and no longer on its disk."""
        copy = self._broker(broker).copies.get(partition)
        if copy is not None:
            copy.log.retain_locally_from(before)

    def set_min_isr(self, topic: str, min_isr: int) -> None:
        """Set min.insync.replicas."""
        self.controllers.administration.configure(topic, min_isr=min_isr)

    def delete_records(self, partition: TopicPartition, before: int) -> None:
        """The leader deletes what is before this offset, at most up to its high watermark; followers take that over."""
        for broker in self.brokers.values():
            copy = broker.copies.get(partition)
            if copy is not None and copy.leading is not None and broker.node.running:
                held = record_ids(copy.log.batches, copy.log.start)
                copy.log.retain_from(min(before, copy.log.high_watermark))
                kept = frozenset(record_ids(copy.log.batches, copy.log.start))
                self.truth.deleted(partition, (record for record in held if record not in kept))

    def _broker(self, broker: int) -> Broker:
        return self.brokers[BrokerId(broker)]

    def _fault(self, actor: str, **details: Any) -> None:
        self.timeline.tell(actor, What.FAULT, **details)

    def _stop(self, found: Broker, *, host_up: bool) -> None:
        """End the process; followers whose fetch it had see the connection break, if the host can still say so."""
        was_running = found.node.running
        found.node.stop(host_up=host_up)
        if not was_running:
            return
        found.stopped(clean=False)
        if not host_up:
            return
        for other in self.brokers.values():
            fetcher = other.fetchers.get(found.id)
            if fetcher is not None and fetcher.following:
                reset = partial(fetcher.reset, fetcher.number)
                self.network.send(found.id, other.id, "reset", reset)
