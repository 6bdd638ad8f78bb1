"""The follower's side: fetching from one leader, truncating what the leader does not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.fetch_sessions import FetchAnswer
from kafka_recovery.simulator.model.host import Copy, Host
from kafka_recovery.simulator.model.log import Log
from kafka_recovery.simulator.model.messages import NO_BROKER_EPOCH, Fetch, Fetched, FetchPosition
from kafka_recovery.simulator.model.scheduler import Timer
from kafka_recovery.simulator.model.timeline import What

Carry = Callable[[Fetch, Callable[[FetchAnswer], None], Callable[[], None], Callable[[], bool]], None]
"""Takes a fetch to the leader; calls back here with the answer, or that the connection was refused, or to ask whether
an answer without news would bring the same fetch again."""


@dataclass(slots=True)
class Fetcher:
    """One broker's fetches from one leader, one request at a time for all partitions.

    `changed`: partitions whose position the leader does not know yet. `number` tells the present request from a former.
    `soon`: when the next one is sent; `timeout`: looks whether the present one is older than its `deadline`.
    """

    broker: Host
    leader: BrokerId
    carry: Carry
    following: dict[TopicPartition, Copy] = field(default_factory=dict)
    changed: dict[TopicPartition, None] = field(default_factory=dict)
    forgotten: dict[TopicPartition, None] = field(default_factory=dict)
    first: bool = True
    number: int = 0
    deadline: float = 0.0
    soon: Timer | None = None
    timeout: Timer | None = None

    def follow(self, partition: Copy) -> None:
        """Fetch this partition too, under its present leader epoch."""
        self.following[partition.id] = partition
        self.changed[partition.id] = None
        self.forgotten.pop(partition.id, None)
        if self.timeout is None and self.soon is None:
            self._fetch_soon(0.0)

    def leave(self, id: TopicPartition) -> None:
        """Fetch it no more."""
        if self.following.pop(id, None) is not None:
            self.changed.pop(id, None)
            self.forgotten[id] = None

    def _fetch_soon(self, delay: float) -> None:
        self.number += 1
        self._no_timeout()
        if self.soon is not None:
            self.soon.cancel()
        self.soon = self.broker.node.after(delay, self._fetch)

    def _no_timeout(self) -> None:
        if self.timeout is not None:
            self.timeout.cancel()
            self.timeout = None

    def _fetch(self) -> None:
        if self.soon is not None:
            self.soon.cancel()
            self.soon = None
        if not self.following:
            self.first = True
            self._no_timeout()
            return
        changed = self.following if self.first else self.changed
        request = Fetch(
            self.broker.id,
            self.broker.epoch if self.broker.settings.fetches_name_broker_epochs else NO_BROKER_EPOCH,
            self.first,
            {id: self._position(self.following[id]) for id in changed if id in self.following},
            () if self.first else tuple(self.forgotten),
        )
        self.first = False
        self.changed, self.forgotten = {}, {}
        self.number += 1
        self._wait_for_the_answer()
        number = self.number
        self.carry(request, partial(self._answered, number), partial(self.reset, number), partial(self._idles, number))

    def _wait_for_the_answer(self) -> None:
        self.deadline = self.broker.now + self.broker.settings.fetch_timeout
        if self.timeout is None:
            self.timeout = self.broker.node.after(self.broker.settings.fetch_timeout, self._look_at_the_time)

    def _look_at_the_time(self) -> None:
        """One timer for many requests: most are answered long before."""
        self.timeout = None
        left = self.deadline - self.broker.now
        if left > 0:
            self.timeout = self.broker.node.after(left, self._look_at_the_time)
        elif self.soon is None:
            self._begin_again()

    def _idles(self, number: int) -> bool:
        """Whether an answer without news would bring the same fetch again; if so, that is what has happened now."""
        if number != self.number or self.changed or self.forgotten:
            return False
        self._wait_for_the_answer()
        return True

    def _answered(self, number: int, answer: FetchAnswer) -> None:
        if number != self.number:
            return
        if answer is None:
            self._begin_again()
            return
        for id, fetched in answer.items():
            partition = self.following.get(id)
            if partition is not None and partition.state.leader_epoch == fetched.leader_epoch:
                self._take(partition, fetched)
        self._fetch()

    def reset(self, number: int) -> None:
        """The leader's host says that there is no such connection."""
        if number == self.number:
            self.first = True
            self._fetch_soon(self.broker.settings.fetch_backoff)

    def _begin_again(self) -> None:
        self.first = True
        self._fetch()

    def _take(self, partition: Copy, fetched: Fetched) -> None:
        log = partition.log
        if fetched.error is Error.OFFSET_OUT_OF_RANGE:
            self._return_to_range(partition, fetched)
        elif fetched.error is not Error.NONE:
            self.broker.node.after(self.broker.settings.fetch_backoff, partial(self._try_again, partition))
            return
        elif fetched.diverging is not None:
            to = self._common_end(log, *fetched.diverging)
            if to is None:
                self.broker.node.after(self.broker.settings.fetch_backoff, partial(self._try_again, partition))
                return
            self.truncate(partition, to)
        elif fetched.batches:
            if not self.broker.has_room():
                return
            for batch in fetched.batches:
                if batch.first >= log.end:
                    log.append(batch)
                elif batch.end > log.end:
                    log.append(batch.after(log.end))
            self.broker.written(log)
        known = log.high_watermark
        if fetched.high_watermark >= 0:
            self.broker.set_watermark(log, min(fetched.high_watermark, log.end))
            log.retain_from(min(fetched.start, log.high_watermark))
        learnt = self.broker.switches.acks_wait_for_replicas_watermark and log.high_watermark != known
        if fetched.batches or fetched.diverging is not None or fetched.error is not Error.NONE or learnt:
            self.changed[partition.id] = None

    def _try_again(self, partition: Copy) -> None:
        if self.following.get(partition.id) is partition:
            self.changed[partition.id] = None

    def _return_to_range(self, partition: Copy, fetched: Fetched) -> None:
        """Beyond the leader's end: truncate to it. Before its start: begin there with nothing."""
        if fetched.end < partition.log.end:
            self.truncate(partition, fetched.end)
        elif fetched.start > partition.log.end:
            partition.log.begin_at(fetched.start)

    def _position(self, partition: Copy) -> FetchPosition:
        log = partition.log
        last = log.latest_epoch
        if last < 0 and self.broker.switches.refuse_forgotten_epochs:
            last = log.forgotten
        return FetchPosition(log.topic_id, partition.state.leader_epoch, log.end, last, log.high_watermark)

    def _common_end(self, log: Log, epoch: int, end: int) -> int | None:
        """Where to cut, given the leader's largest epoch up to this log's last, and where it ends there (KIP-101).

        A log that never had that epoch goes back to its own last one before it, and asks again (KIP-279). None: this
        log no longer knows where that one ends.
        """
        switches = self.broker.switches
        if not switches.truncate_to_common_epochs:
            return min(end, log.end)
        if switches.refuse_forgotten_epochs and log.forgets(epoch):
            return None
        own_epoch, own_end = log.end_of(epoch)
        return min(own_end, log.end) if own_epoch != epoch else min(own_end, end, log.end)

    def truncate(self, partition: Copy, to: int) -> None:
        """Drop what is after `to`; it is gone for good."""
        dropped = partition.log.truncate(to)
        if dropped:
            self.broker.timeline.tell(
                self.broker.node.title, What.TRUNCATED, partition.id, to=to, records=dropped, leader=self.leader
            )
