"""What a scenario's faults do to the simulated Kafka, and how everything gets well again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.histories.chronicle import Asked, Chronicle
from kafka_recovery.simulator.histories.scenario import Fault, Kind, Scenario
from kafka_recovery.simulator.host.disks import Disk
from kafka_recovery.simulator.host.loop import VirtualClock
from kafka_recovery.simulator.host.mortality import Process
from kafka_recovery.simulator.model.kafka import SimulatedKafka

SOMEBODY = "somebody"


@dataclass(slots=True)
class Machine:
    """A machine that runs engines: its clock, its journal, and the process that runs now."""

    name: str
    clock: VirtualClock
    disk: Disk
    process: Process | None = None


@dataclass(frozen=True, slots=True)
class Troubles:
    """Lets a scenario's faults happen."""

    story: Chronicle
    scenario: Scenario
    machine: Callable[[int], Machine]
    clients: list[str]
    done: set[int] = field(default_factory=set)
    slowed: set[BrokerId] = field(default_factory=set)
    unreliable: set[Kind] = field(default_factory=set)
    """What became of messages since the network was last mended."""

    @property
    def kafka(self) -> SimulatedKafka:
        """The cluster."""
        return self.story.kafka

    def schedule(self) -> None:
        """Let every fault happen when its time has come."""
        for fault in self.scenario.faults:
            if fault.upon is None:
                self.kafka.scheduler.at(fault.at, partial(self.happens, fault))
        self.story.when_asked.append(self._asked)

    def happens(self, fault: Fault, designated: BrokerId | None = None) -> None:
        """This fault, now. One that makes no sense at this moment is ignored: a shortened history stays a history."""
        if self.story.now >= self.scenario.quiet_at:
            return
        broker = designated if fault.designated else fault.broker
        if fault.leader_of is not None:
            state = self.kafka.truth.state(TopicPartition.parse(fault.leader_of))
            broker = None if state is None else state.leader
        if fault.kind in _ON_A_BROKER:
            if broker is not None:
                _ON_A_BROKER[fault.kind](self, BrokerId(broker), fault)
        else:
            _ON_ANYTHING[fault.kind](self, fault)

    def everything_is_well_again(self) -> None:
        """Nothing goes wrong any more, and every broker is back."""
        kafka = self.kafka
        self._mend_network()
        kafka.thaw_controller()
        for broker in kafka.brokers:
            kafka.thaw(broker)
            kafka.start(broker)
        for machine in map(self.machine, self.scenario.machines):
            machine.disk.full = False

    def _asked(self, asked: Asked) -> None:
        """An engine sends a change: what was to happen upon that does, once each."""
        for place, fault in enumerate(self.scenario.faults):
            if fault.upon == asked.what and fault.at <= asked.at and place not in self.done:
                self.done.add(place)
                designated = asked.ballots[0].designated
                self.kafka.scheduler.after(fault.later, partial(self.happens, fault, designated))

    def _later(self, fault: Fault, action: Callable[[], object]) -> None:
        if fault.lasting is not None:
            self.kafka.scheduler.after(fault.lasting, action)

    def _mend_network(self) -> None:
        for broker in self.kafka.brokers:
            self.kafka.heal(broker)
            if broker in self.slowed:
                self.kafka.slow(broker, 0)
        self.slowed.clear()
        if self.unreliable:
            self.kafka.lose(0)
            self.kafka.reorder(0)
            self.unreliable.clear()

    def _freeze(self, broker: BrokerId, fault: Fault) -> None:
        self.kafka.pause(broker)
        self._later(fault, lambda: self.kafka.thaw(broker))

    def _slow(self, broker: BrokerId, fault: Fault) -> None:
        self.slowed.add(broker)
        self.kafka.slow(broker, fault.delay)
        self._later(fault, lambda: self.kafka.slow(broker, 0))

    def _cut(self, broker: BrokerId, fault: Fault) -> None:
        other = fault.other
        if other is not None and other != broker:
            self.kafka.cut(broker, other)
            self._later(fault, lambda: self.kafka.mend(broker, other))

    def _isolate(self, broker: BrokerId, fault: Fault) -> None:
        self.kafka.isolate(broker)
        self._later(fault, lambda: self.kafka.heal(broker))

    def _hide(self, broker: BrokerId, fault: Fault) -> None:
        for client in self.clients:
            self.kafka.cut(client, broker)
            self._later(fault, lambda client=client: self.kafka.mend(client, broker))  # type: ignore[misc]

    def _lose(self, fault: Fault) -> None:
        self.unreliable.add(fault.kind)
        self.kafka.lose(fault.chance)
        self._later(fault, lambda: self.kafka.lose(0))

    def _reorder(self, fault: Fault) -> None:
        self.unreliable.add(fault.kind)
        self.kafka.reorder(fault.chance)
        self._later(fault, lambda: self.kafka.reorder(0))

    def _replace_disk(self, broker: BrokerId, fault: Fault) -> None:
        self.kafka.replace_disk(broker)
        self.kafka.start(broker)

    def _log_dir(self, broker: BrokerId, fault: Fault) -> None:
        self.kafka.log_dir_offline(broker, self.scenario.partitions)

    def _no_controller(self, fault: Fault) -> None:
        for name in self.kafka.controllers.names:
            self.kafka.pause_controller(name)
        self._later(fault, self.kafka.thaw_controller)

    def _reassign(self, fault: Fault) -> None:
        if fault.partition is not None:
            replicas = tuple(map(BrokerId, fault.replicas))
            self.kafka.reassign(TopicPartition.parse(fault.partition), replicas, by=SOMEBODY)

    def _recreate(self, fault: Fault) -> None:
        name = TopicPartition.parse(fault.partition or "").topic
        topic = next(topic for topic in self.scenario.topics if topic.name == name)
        acceptable = self.kafka.controllers.state.acceptable
        for index, replicas in enumerate(topic.assignments):
            if not any(acceptable(BrokerId(broker), TopicPartition(name, index)) for broker in replicas):
                return  # Kafka would refuse to create it
        self.kafka.delete_topic(name)
        self.kafka.create_topic(name, [list(replicas) for replicas in topic.assignments], min_isr=topic.min_isr)

    def _jump(self, fault: Fault) -> None:
        self.machine(fault.machine or 0).clock.jumped += timedelta(seconds=fault.delay)

    def _kill_engine(self, fault: Fault) -> None:
        process = self.machine(fault.machine or 0).process
        if process is not None:
            process.kill("by its host")

    def _disk_full(self, fault: Fault) -> None:
        disk = self.machine(fault.machine or 0).disk
        disk.full = True
        self._later(fault, lambda: setattr(disk, "full", False))


_ON_A_BROKER: dict[Kind, Callable[[Troubles, BrokerId, Fault], object]] = {
    Kind.KILL: lambda it, broker, fault: it.kafka.kill(broker),
    Kind.START: lambda it, broker, fault: it.kafka.start(broker),
    Kind.STOP: lambda it, broker, fault: it.kafka.shut_down(broker),
    Kind.CRASH: lambda it, broker, fault: it.kafka.host_crash(broker),
    Kind.REPLACE_DISK: Troubles._replace_disk,
    Kind.FREEZE: Troubles._freeze,
    Kind.THAW: lambda it, broker, fault: it.kafka.thaw(broker),
    Kind.SLOW: Troubles._slow,
    Kind.CUT: Troubles._cut,
    Kind.ISOLATE: Troubles._isolate,
    Kind.HIDE: Troubles._hide,
    Kind.LOG_DIR: Troubles._log_dir,
}
_ON_ANYTHING: dict[Kind, Callable[[Troubles, Fault], object]] = {
    Kind.LOSE: Troubles._lose,
    Kind.REORDER: Troubles._reorder,
    Kind.HEAL: lambda it, fault: it._mend_network(),
    Kind.FAILOVER: lambda it, fault: it.kafka.fail_over_controller(),
    Kind.NO_CONTROLLER: Troubles._no_controller,
    Kind.REBALANCE: lambda it, fault: it.kafka.rebalance(),
    Kind.REASSIGN: Troubles._reassign,
    Kind.RECREATE: Troubles._recreate,
    Kind.JUMP: Troubles._jump,
    Kind.KILL_ENGINE: Troubles._kill_engine,
    Kind.DISK_FULL: Troubles._disk_full,
}
