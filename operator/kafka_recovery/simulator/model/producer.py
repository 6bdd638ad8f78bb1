"""A producer that sends to one partition, waits for each answer, and tries again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.log import Batch
from kafka_recovery.simulator.model.messages import Produced
from kafka_recovery.simulator.model.requests import DescribePartitions, PartitionsDescribed
from kafka_recovery.simulator.model.scheduler import Scheduler, Timer
from kafka_recovery.simulator.model.timeline import Timeline, What
from kafka_recovery.simulator.model.truth import Sent, Truth


class Cluster(Protocol):
    """What a producer needs of the cluster."""

    scheduler: Scheduler
    timeline: Timeline
    truth: Truth

    @property
    def broker_ids(self) -> tuple[BrokerId, ...]:
        """All brokers, dead or alive."""
        ...

    def request(self, client: str, broker: int, request: DescribePartitions, on_answer: Callable[[Any], None]) -> None:
        """Ask a broker."""
        ...

    def produce(
        self,
        client: str,
        broker: BrokerId,
        partition: TopicPartition,
        batch: Batch,
        acks: str,
        reply: Callable[[Produced], None],
        appended: Callable[[TopicId], None],
    ) -> None:
        """Send records to a broker."""
        ...


@dataclass(slots=True)
class Producer:
    """`acks` is "all" (idempotent) or "1". One request at a time, in order; the ids of records count up from 0.

    `every`: seconds between two sends by itself, None for none. `bootstrap`: the one broker it asks who leads.
    A send is given up after `delivery` seconds (delivery.timeout.ms); the pauses between its tries grow from `backoff`
    to `longest_backoff` (retry.backoff.ms, retry.backoff.max.ms; KIP-580).
    """

    cluster: Cluster
    name: str
    partition: TopicPartition
    acks: str
    every: float | None = None
    records: int = 1
    bootstrap: BrokerId | None = None
    timeout: float = 3.0
    backoff: float = 0.2
    longest_backoff: float = 1.0
    delivery: float = 30.0
    sent: int = 0
    _queue: list[Sent] = field(default_factory=list)
    _leader: BrokerId | None = None
    _attempt: int = 0
    _failures: int = 0
    _timeout: Timer | None = None
    _busy: bool = False
    _timer: Timer | None = None

    def begin(self) -> None:
        """Send by itself from now on."""
        if self.every is not None:
            self._timer = self.cluster.scheduler.after(self.every, self._tick)

    def stop(self) -> None:
        """Send nothing more by itself; what is queued still goes out."""
        if self._timer is not None:
            self._timer.cancel()

    def send(self, records: int = 1) -> Sent:
        """Send some records now, or after those that wait; returns what will tell whether they were acknowledged."""
        sent = Sent(self.partition, self.name, self.sent, records, self.acks, self.cluster.scheduler.now)
        self.sent += records
        self.cluster.truth.add(sent)
        self._queue.append(sent)
        self._next()
        return sent

    def _tick(self) -> None:
        if len(self._queue) < 10:
            self.send(self.records)
        self._timer = self.cluster.scheduler.after(self.every or 1.0, self._tick)

    def _next(self) -> None:
        if self._queue and not self._busy:
            self._busy = True
            self._try()

    def _try(self) -> None:
        sent, now = self._queue[0], self.cluster.scheduler.now
        if now - sent.sent_at > self.delivery:
            self._conclude(sent, Error.REQUEST_TIMED_OUT)
            return
        self._attempt += 1
        attempt = self._attempt
        self._no_timeout()
        self._timeout = self.cluster.scheduler.after(self.timeout, partial(self._failed, attempt))
        if self._leader is None:
            self._ask_who_leads(attempt)
            return
        batch = Batch(0, sent.count, 0, self.name, sent.sequence, 0.0)
        self.cluster.produce(
            self.name,
            self._leader,
            self.partition,
            batch,
            self.acks,
            partial(self._answered, attempt),
            partial(setattr, sent, "topic_id"),
        )

    def _ask_who_leads(self, attempt: int) -> None:
        brokers = self.cluster.broker_ids
        broker = self.bootstrap if self.bootstrap is not None else brokers[attempt % len(brokers)]
        self.cluster.request(self.name, broker, DescribePartitions((self.partition,)), partial(self._told, attempt))

    def _told(self, attempt: int, answer: object) -> None:
        if attempt != self._attempt:
            return
        found = answer.partitions.get(self.partition) if isinstance(answer, PartitionsDescribed) else None
        if found is None or found.leader is None:
            self._failed_soon(attempt)
        else:
            self._leader = found.leader
            self._try()

    def _answered(self, attempt: int, answer: Produced) -> None:
        if attempt != self._attempt:
            return
        if answer.error is Error.NONE:
            sent = self._queue[0]
            sent.acknowledged_at, sent.offset = self.cluster.scheduler.now, answer.offset
            sent.leader_epoch = answer.leader_epoch
            self._conclude(sent, Error.NONE)
        else:
            self._failed_soon(attempt)

    def _failed_soon(self, attempt: int) -> None:
        pause = min(self.backoff * 2**self._failures, self.longest_backoff)
        self._failures += 1
        self._no_timeout()
        self._timeout = self.cluster.scheduler.after(pause, partial(self._failed, attempt))

    def _no_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _failed(self, attempt: int) -> None:
        if attempt == self._attempt and self._busy:
            self._leader = None
            self._try()

    def _conclude(self, sent: Sent, error: Error) -> None:
        self._attempt += 1
        self._failures = 0
        self._no_timeout()
        self._queue.pop(0)
        self._busy = False
        what = What.ACKNOWLEDGED if error is Error.NONE else What.GAVE_UP
        if self.every is None or error is not Error.NONE:
            ids = tuple(range(sent.sequence, sent.sequence + sent.count))
            self.cluster.timeline.tell(
                self.name, what, self.partition, records=ids, offset=sent.offset, acks=self.acks, error=error
            )
        self._next()
