"""What a scenario's faults do to the simulated Kafka, and how everything gets well again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Filled, Misreported, Step, Wished
from kafka_recovery.simulator.histories.scenario import Authority, Fault, Kind, Scenario
from kafka_recovery.simulator.host.dialing import PORT, Names
from kafka_recovery.simulator.host.disks import Disk
from kafka_recovery.simulator.host.loop import VirtualClock
from kafka_recovery.simulator.host.mortality import Process
from kafka_recovery.simulator.host.weather import Weather
from kafka_recovery.simulator.model.grants import OF_TOPICS
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.network import Hold, NodeName
from kafka_recovery.simulator.model.requests import ElectionType

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
    pause: Callable[[Process, float], object] = lambda process, seconds: None
    weather: Weather = field(default_factory=Weather)
    names: Names = field(default_factory=lambda: Names(()))
    steps: dict[int, int] = field(default_factory=dict)
    """By the place of a fault that lies in wait: how many of its steps it has seen."""
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
        self.story.when_step.append(self._step)

    def happens(self, fault: Fault, designated: BrokerId | None = None) -> None:
        """This fault, now. One that makes no sense at this moment is ignored: a shortened history stays a history."""
        if self.story.now >= self.scenario.quiet_at:
            return
        broker = designated if fault.designated else fault.broker
        if fault.kind is Kind.REASSIGN and fault.designated:
            self._prefer_in_order(fault, designated)
            return
        if fault.leader_of is not None:
            state = self.kafka.truth.state(TopicPartition.parse(fault.leader_of))
            broker = None if state is None else state.leader
        if fault.kind in _ON_A_BROKER:
            if broker is not None:
                _ON_A_BROKER[fault.kind](self, BrokerId(broker), fault)
        else:
            _ON_ANYTHING[fault.kind](self, fault)

    def everything_is_well_again(self) -> None:
        """Nothing goes wrong any more, every broker is back, and there is room."""
        kafka = self.kafka
        self._mend_network()
        kafka.grants.allow_everything()
        for broker in kafka.brokers.values():
            broker.misreports, broker.metadata_lag = 0, 0.0
            if broker.storage.full:
                self._fill(broker.id, full=False)
        kafka.thaw_controller()
        kafka.start_controller()
        self._wish(suspended=False, authority="Automatic")
        for id in kafka.brokers:
            if id in self.scenario.lost:
                kafka.host_crash(id)
                continue
            kafka.thaw(id)
            kafka.start(id)
        for machine in map(self.machine, self.scenario.machines):
            machine.disk.full = False

    def _step(self, step: Step) -> None:
        """An engine takes a step: what was to happen upon that does, once each."""
        for place, fault in enumerate(self.scenario.faults):
            if fault.upon != step.what or fault.at > self.story.now or fault.machine not in (None, step.machine):
                continue
            self.steps[place] = self.steps.get(place, 0) + 1
            if self.steps[place] == fault.turn:
                here = replace(fault, machine=step.machine)
                if fault.designated and fault.partition is not None and step.partition is not None:
                    here = replace(here, partition=str(step.partition))
                self.kafka.scheduler.after(fault.later, partial(self.happens, here, step.designated))

    def _later(self, fault: Fault, action: Callable[[], object]) -> None:
        if fault.lasting is not None:
            self.kafka.scheduler.after(fault.lasting, action)

    def _mend_network(self) -> None:
        self.weather.odds.clear()
        self.names.advertised.clear()
        for hold in tuple(self.kafka.network.holds):
            hold.release()
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

    def _lag(self, broker: BrokerId, fault: Fault) -> None:
        it = self.kafka.brokers[broker]
        it.metadata_lag = fault.delay
        self.kafka.note(it.node.title, f"applies metadata {fault.delay} s late")
        self._later(fault, lambda: setattr(it, "metadata_lag", 0.0))

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

    def _full_volume(self, broker: BrokerId, fault: Fault) -> None:
        self._fill(broker, full=True)
        self._later(fault, partial(self._fill, broker, full=False))

    def _fill(self, broker: BrokerId, *, full: bool) -> None:
        self.story.filled.append(Filled(self.story.now, broker, full))
        self.kafka.fill_volume(broker, full=full)

    def _cleaned_disk(self, broker: BrokerId, fault: Fault) -> None:
        id = _partition(fault)
        self.kafka.set_tiered(id.topic)
        self.kafka.delete_locally(broker, id, self.kafka.truth.log_end(broker, id) - fault.count)

    def _mute(self, broker: BrokerId, fault: Fault) -> None:
        for name in self.kafka.controllers.names:
            self._one_way(broker, name, fault)

    def _deaf(self, broker: BrokerId, fault: Fault) -> None:
        for name in self.kafka.controllers.names:
            self._one_way(name, broker, fault)

    def _one_way(self, source: NodeName, target: NodeName, fault: Fault) -> None:
        self.kafka.cut(source, target)
        self._later(fault, lambda: self.kafka.mend(source, target))

    def _kill_controller(self, fault: Fault) -> None:
        self.kafka.kill_controller()
        self._later(fault, self.kafka.start_controller)

    def _wish(self, **changed: Any) -> None:
        """The owners want something else from now on."""
        now = self.story.wished[-1] if self.story.wished else Wished(0.0, self.scenario.rules.policy)
        wish = replace(now, at=self.story.now, **changed)
        if replace(wish, at=now.at) != now:
            self.story.wished.append(wish)
            self.kafka.note("owners", f"want authority {wish.authority}{', suspended' if wish.suspended else ''}")

    def _suspend(self, fault: Fault) -> None:
        self._wish(suspended=True)
        self._later(fault, lambda: self._wish(suspended=False))

    def _authority(self, fault: Fault) -> None:
        self._wish(authority=str(fault.authority or Authority.AUTOMATIC))
        self._later(fault, lambda: self._wish(authority=str(Authority.AUTOMATIC)))

    def _rules(self, fault: Fault) -> None:
        if fault.rules is not None:
            self._wish(policy=fault.rules.policy)

    def _pause_engine(self, fault: Fault) -> None:
        process = self.machine(fault.machine or 0).process
        if process is not None:
            self.pause(process, fault.lasting or 1.0)

    def _min_isr(self, fault: Fault) -> None:
        self.kafka.set_min_isr(_partition(fault).topic, max(fault.count, 1))

    def _unclean(self, fault: Fault) -> None:
        topic = _partition(fault).topic
        self.kafka.set_unclean(topic, True)
        self._later(fault, lambda: self.kafka.set_unclean(topic, False))

    def _delete_records(self, fault: Fault) -> None:
        id = _partition(fault)
        state = self.kafka.truth.state(id)
        if state is not None and state.leader is not None:
            self.kafka.delete_records(id, self.kafka.truth.log_end(state.leader, id) - fault.count)

    def _elect(self, fault: Fault) -> None:
        if self.kafka.controllers.active is not None:
            self.kafka.elect(_partition(fault), ElectionType.UNCLEAN, by=SOMEBODY)

    def _prefer(self, fault: Fault) -> None:
        if self.kafka.controllers.active is not None:
            self.kafka.elect(_partition(fault), ElectionType.PREFERRED, by=SOMEBODY)

    def _cancel(self, fault: Fault) -> None:
        if self.kafka.controllers.active is not None:
            self.kafka.cancel_reassignment(_partition(fault), by=SOMEBODY)

    def _no_controller(self, fault: Fault) -> None:
        for name in self.kafka.controllers.names:
            self.kafka.pause_controller(name)
        self._later(fault, self.kafka.thaw_controller)

    def _reassign(self, fault: Fault) -> None:
        if fault.partition is not None:
            replicas = tuple(map(BrokerId, fault.replicas))
            self.kafka.reassign(TopicPartition.parse(fault.partition), replicas, by=SOMEBODY)

    def _prefer_in_order(self, fault: Fault, first: BrokerId | None) -> None:
        """Somebody has the same idea as an engine: the same leader first, the others as they stand."""
        state = self.kafka.truth.state(_partition(fault))
        if state is not None and first in state.replicas:
            order = (first, *[broker for broker in state.replicas if broker != first])
            self.kafka.reassign(_partition(fault), order, by=SOMEBODY)

    def _recreate(self, fault: Fault) -> None:
        name = TopicPartition.parse(fault.partition or "").topic
        topic = next(topic for topic in self.scenario.topics if topic.name == name)
        acceptable = self.kafka.controllers.state.acceptable
        for index, replicas in enumerate(topic.assignments):
            if not any(acceptable(BrokerId(broker), TopicPartition(name, index)) for broker in replicas):
                return  # Kafka would refuse to create it
        self.kafka.delete_topic(name)
        self.kafka.create_topic(name, [list(replicas) for replicas in topic.assignments], min_isr=topic.min_isr)

    def _wire(self, fault: Fault) -> None:
        if fault.wire is not None:
            self.weather.odds[fault.wire] = fault.chance
            self._later(fault, partial(self.weather.odds.pop, fault.wire, None))

    def _stall(self, broker: BrokerId, fault: Fault) -> None:
        for client in self.clients:
            self._later(fault, partial(self._let_through, self.kafka.hold(client, broker, "bytes")))

    def _let_through(self, hold: Hold) -> None:
        if hold.held:
            self.weather.note(Kind.STALL)
        hold.release()

    def _nameless(self, broker: BrokerId, fault: Fault) -> None:
        self._tell_address(broker, Address(f"gone-{broker}", PORT), fault)

    def _shared(self, broker: BrokerId, fault: Fault) -> None:
        if fault.other is not None and fault.other in self.kafka.brokers:
            self._tell_address(broker, self.names.address_of(BrokerId(fault.other)), fault)

    def _tell_address(self, broker: BrokerId, address: Address, fault: Fault) -> None:
        self.names.advertised[broker] = address
        self.kafka.note("brokers", f"tell clients that broker {broker} listens at {address}")
        self._later(fault, partial(self.names.advertised.pop, broker, None))

    def _rights(self, fault: Fault) -> None:
        if fault.right is None:
            return
        topic = _partition(fault).topic if fault.right in OF_TOPICS else None
        for client in self.clients:
            self.kafka.grants.deny(client, fault.right, topic)
            self._later(fault, partial(self.kafka.grants.allow, client, fault.right, topic))
        self.kafka.note("brokers", f"deny engines the right {fault.right}{f' on {topic}' if topic else ''}")

    def _misreport(self, broker: BrokerId, fault: Fault) -> None:
        it = self.kafka.brokers[broker]
        it.misreports = int(fault.delay)
        self.story.misreported.append(Misreported(self.story.now, broker, it.misreports))
        self.kafka.note(it.node.title, f"tells log ends that are wrong by {it.misreports} records")
        self._later(fault, lambda: setattr(it, "misreports", 0))

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
    Kind.LAG: Troubles._lag,
    Kind.CUT: Troubles._cut,
    Kind.ISOLATE: Troubles._isolate,
    Kind.HIDE: Troubles._hide,
    Kind.LOG_DIR: Troubles._log_dir,
    Kind.FULL_VOLUME: Troubles._full_volume,
    Kind.CLEANED_DISK: Troubles._cleaned_disk,
    Kind.MUTE: Troubles._mute,
    Kind.DEAF: Troubles._deaf,
    Kind.STALL: Troubles._stall,
    Kind.NAMELESS: Troubles._nameless,
    Kind.SHARED: Troubles._shared,
    Kind.MISREPORT: Troubles._misreport,
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
    Kind.PAUSE_ENGINE: Troubles._pause_engine,
    Kind.SUSPEND: Troubles._suspend,
    Kind.AUTHORITY: Troubles._authority,
    Kind.RULES: Troubles._rules,
    Kind.MIN_ISR: Troubles._min_isr,
    Kind.UNCLEAN: Troubles._unclean,
    Kind.DELETE_RECORDS: Troubles._delete_records,
    Kind.ELECT: Troubles._elect,
    Kind.PREFER: Troubles._prefer,
    Kind.CANCEL: Troubles._cancel,
    Kind.KILL_CONTROLLER: Troubles._kill_controller,
    Kind.WIRE: Troubles._wire,
    Kind.RIGHTS: Troubles._rights,
}


def _partition(fault: Fault) -> TopicPartition:
    return TopicPartition.parse(fault.partition or "")
