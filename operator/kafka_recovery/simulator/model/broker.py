"""A broker process: its life from start to stop, its copy of the metadata, its logs and the roles it gives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.simulator.model.controller import Controllers
from kafka_recovery.simulator.model.fetch_sessions import FetchSessions
from kafka_recovery.simulator.model.following import Carry, Fetcher
from kafka_recovery.simulator.model.forwarding import Forwarding
from kafka_recovery.simulator.model.heartbeats import Heartbeats
from kafka_recovery.simulator.model.hosted import Hosted
from kafka_recovery.simulator.model.leading import Leading
from kafka_recovery.simulator.model.log import Log
from kafka_recovery.simulator.model.messages import NO_BROKER_EPOCH, BrokerStatus
from kafka_recovery.simulator.model.metadata import BrokerState, PartitionState, TopicState
from kafka_recovery.simulator.model.network import Network, Node
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.storage import Storage
from kafka_recovery.simulator.model.switches import Switches
from kafka_recovery.simulator.model.timeline import Timeline, What

_LONG = 0.5
"""Seconds: whoever knows less than the controllers have written for longer than that is remembered for it."""


class Broker:
    """`applied`: the metadata offset up to which it has applied everything, which is on its disk.

    `misreports`: by how many records it is wrong when it tells a debugging client where a log ends.
    `is_open`: its port is; `dead_directories`: replicas that lie in a failed log directory, until the next start.
    """

    def __init__(
        self,
        id: BrokerId,
        node: Node,
        network: Network,
        controllers: Controllers,
        settings: Settings,
        switches: Switches,
        timeline: Timeline,
        carry: Callable[[BrokerId, BrokerId], Carry],
        *,
        rack: str | None,
        legacy: bool,
        endpoint: str,
    ) -> None:
        self.id, self.node, self.network, self.controllers = id, node, network, controllers
        self.settings, self.switches, self.timeline = settings, switches, timeline
        self.rack, self.legacy, self.endpoint = rack, legacy, endpoint
        self.storage = Storage(settings, node, timeline)
        self.heartbeats = Heartbeats(self)
        self._carry = carry
        self._forwarding = Forwarding(node, network, controllers)
        self.applied = 0
        self.epoch = NO_BROKER_EPOCH
        self.starts = 0
        self.is_open = False
        self.misreports = 0
        self.metadata_lag = 0.0
        self._opened_at = 0.0
        self._lags: list[tuple[float, float]] = []
        self.dead_directories: frozenset[TopicPartition] = frozenset()
        self._forget_process()
        controllers.observe(id, self.metadata)

    def _forget_process(self) -> None:
        self.copies: dict[TopicPartition, Hosted] = {}
        self.fetchers: dict[BrokerId, Fetcher] = {}
        self.sessions = FetchSessions(self)
        self._busy_until = 0.0
        self._recovered = False

    @property
    def now(self) -> float:
        """Virtual time."""
        return self.node.scheduler.now

    @property
    def disk(self) -> int:
        """Which of its disks it has."""
        return self.storage.disks

    @property
    def incarnation(self) -> str:
        """Tells this process from the broker's earlier ones."""
        return f"{self.id}/{self.starts}"

    def join_at_once(self) -> None:
        """Be a member from the beginning of the history, without a protocol."""
        self.epoch = self.controllers.membership.admit(self.id, self.incarnation, self.rack)
        self._recovered = self.is_open = True
        self.heartbeats.begin(BrokerStatus.ACTIVE)
        self.node.after(self.settings.lag_max / 2, self._shrink_isrs)

    def start(self, recovery: float) -> None:
        """A new process: recover the logs, catch up with the metadata, register, serve."""
        self.node.start()
        self.starts += 1
        self._forget_process()
        self.dead_directories = frozenset()
        wait = self.settings.startup + recovery + self.storage.recovery_time(self.controllers.log.held.get(self.id, {}))
        self.node.after(wait, self._recovered_logs)

    def stopped(self, *, clean: bool) -> None:
        """The process is gone; what the disk and the page cache hold stays with the storage."""
        self._note_lag()
        self.is_open = False
        for copy in self.copies.values():
            if copy.leading is not None:
                copy.leading.closed = True
        self.storage.stopped(clean_epoch=self.epoch if clean else None)
        self._forget_process()

    def has_room(self) -> bool:
        """Whether its volume takes a write. If not, its only log directory goes offline, and Kafka ends the process."""
        if self.storage.full:
            self.node.after(0.0, self._halt)
        return not self.storage.full

    def _halt(self) -> None:
        self.timeline.tell(self.node.title, What.FAULT, stopped="for want of room on its volume")
        self.stopped(clean=False)
        self.node.stop()

    def stop_cleanly(self) -> None:
        """The end of a controlled shutdown."""
        self.timeline.tell(self.node.title, What.FAULT, stopped="cleanly")
        self.stopped(clean=True)
        self.node.stop()

    def metadata(self, end: int) -> None:
        """The metadata log reaches to `end`: apply what is new, once there is time for it."""
        if self.metadata_lag > 0:
            self.node.after(self.metadata_lag, partial(self._apply_up_to, end))
        else:
            self._apply_up_to(end)

    def _apply_up_to(self, end: int) -> None:
        if end <= self.applied or not self._recovered:
            return
        self._note_lag()
        applied, self.applied = self.applied, end
        if not self.is_open:
            self._open_if_ready()
            return
        for id in self.controllers.log.news(self.id, applied, end):
            self._apply(id)

    def behind(self) -> Iterator[tuple[float, float]]:
        """From when until when it knew less, while its port was open, than the controllers had written."""
        yield from self._lags
        since = self._behind_since()
        if since is not None:
            yield since, math.inf

    def _behind_since(self) -> float | None:
        log = self.controllers.log
        if not self.is_open or self.applied >= log.end:
            return None
        return max(self._opened_at, log.time(self.applied))

    def _note_lag(self) -> None:
        since = self._behind_since()
        if since is not None and self.now - since > _LONG:
            self._lags.append((since, self.now))

    def take_up(self, id: TopicPartition) -> None:
        """Act on the metadata of a partition that was loaded."""
        if self.is_open:
            self._apply(id)

    def hosted(self, id: TopicPartition) -> Hosted | None:
        """The copy, if the metadata gives this broker one; loaded logs get their copy when first asked for."""
        copy = self.copies.get(id)
        if copy is None and self.is_open and id not in self.dead_directories and id in self.storage.loaded:
            self._apply(id)
            copy = self.copies.get(id)
        return copy

    def offline(self, id: TopicPartition) -> bool:
        """Whether the copy lies in a dead log directory."""
        return id in self.dead_directories

    def broker_state(self, broker: BrokerId) -> BrokerState | None:
        """A broker's registration by this broker's metadata."""
        return self.controllers.log.brokers.at(broker, self.applied)

    def topic_state(self, name: str) -> TopicState | None:
        """A topic by this broker's metadata."""
        return self.controllers.log.topics.at(name, self.applied)

    def partition_state(self, id: TopicPartition) -> PartitionState | None:
        """A partition by this broker's metadata."""
        return self.controllers.log.partitions.at(id, self.applied)

    def written(self, log: Log) -> None:
        """New records in the page cache."""
        self.storage.written(log)

    def set_watermark(self, log: Log, high_watermark: int) -> None:
        """Move a log's high watermark."""
        if high_watermark != log.high_watermark:
            log.advance(high_watermark, self.storage.period)

    def forward(
        self, kind: str, question: Callable[[], Any], answered: Callable[[Any], None], timeout: float | None
    ) -> None:
        """Ask the active controller."""
        self._forwarding.forward(kind, question, answered, timeout)

    def lose_directory(self, partitions: frozenset[TopicPartition]) -> None:
        """A log directory fails: its replicas are served no more, and the controller is told with a heartbeat."""
        held = frozenset(id for id in partitions if self.hosted(id) is not None)
        self.dead_directories |= held
        for id in sorted(held):
            copy = self.copies.pop(id)
            self._leave_roles(copy)
        self.heartbeats.send()

    def _recovered_logs(self) -> None:
        self._recovered = True
        self.heartbeats.register(self.storage.clean_epoch)

    def registered(self, epoch: int) -> None:
        """The controller has admitted this incarnation; it is unfenced once it has applied its own registration."""
        self.epoch = epoch
        self.heartbeats.begin(BrokerStatus.ACTIVE)
        self._open_if_ready()

    def _open_if_ready(self) -> None:
        if self.is_open or self.epoch < 0 or self.applied <= self.epoch or not self.heartbeats.registered:
            return
        self.is_open, self._opened_at = True, self.now
        self.timeline.tell(self.node.title, What.STARTED, incarnation=self.incarnation, broker_epoch=self.epoch)
        for id in self.controllers.log.partitions_of(self.id):
            self._apply(id)
        self.heartbeats.send()
        self.node.after(self.settings.lag_max / 2, self._shrink_isrs)

    def _apply(self, id: TopicPartition) -> None:
        """Give the partition the role that the metadata says."""
        state = self.partition_state(id)
        copy = self.copies.get(id)
        if state is None or self.id not in state.replicas:
            if copy is not None:
                self._leave_roles(copy)
                del self.copies[id]
            self.storage.delete(id)
            return
        if id in self.dead_directories:
            return
        if copy is None or copy.log.topic_id != state.topic_id:
            if copy is not None:
                self._leave_roles(copy)
            copy = self.copies[id] = Hosted(
                id, self.storage.log(id, state.topic_id), state._replace(leader_epoch=LeaderEpoch(-1))
            )
        self._take_role(copy, state)

    def _take_role(self, copy: Hosted, state: PartitionState) -> None:
        leading = copy.leading
        if state.leader == self.id:
            if leading is not None and leading.epoch == state.leader_epoch:
                leading.updated(state)
            else:
                self._busy_until = max(self._busy_until, self.now) + self.settings.leading
                self.node.after(self._busy_until - self.now, partial(self._lead, copy, state.leader_epoch))
            return
        newer = state.leader_epoch != copy.state.leader_epoch
        if newer:
            self._leave_roles(copy)
        copy.state = state
        if newer and state.leader is not None:
            self._follow(copy, state.leader)

    def _lead(self, copy: Hosted, epoch: int) -> None:
        """Become leader, unless newer metadata has come meanwhile."""
        state = self.partition_state(copy.id)
        if self.copies.get(copy.id) is not copy or state is None or state.leader_epoch != epoch:
            return
        if not self.has_room():  # it writes down its leader epoch first
            return
        self._leave_roles(copy)
        copy.state = state
        copy.log.assign(epoch, copy.log.end)
        copy.leading = Leading(self, copy, epoch, copy.log.end, self.sessions.moved, self.sessions.heard_at)
        self.timeline.tell(self.node.title, What.LEADS, copy.id, leader_epoch=epoch, log_end=copy.log.end)
        copy.leading.advance()

    def _follow(self, copy: Hosted, leader: BrokerId) -> None:
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            fetcher = self.fetchers[leader] = Fetcher(self, leader, self._carry(self.id, leader))
        if not self.switches.truncate_by_epochs:
            fetcher.truncate(copy, copy.log.high_watermark)
        fetcher.follow(copy)

    def _leave_roles(self, copy: Hosted) -> None:
        if copy.leading is not None:
            leading, copy.leading = copy.leading, None
            leading.close()
        if copy.state.leader is not None and copy.state.leader in self.fetchers:
            self.fetchers[copy.state.leader].leave(copy.id)

    def _shrink_isrs(self) -> None:
        for copy in self.copies.values():
            if copy.leading is not None:
                copy.leading.shrink()
        self.node.after(self.settings.lag_max / 2, self._shrink_isrs)

    def refuses_work(self) -> bool:
        """KIP-343: a broker that fenced itself takes no new requests."""
        return self.heartbeats.fenced_itself
