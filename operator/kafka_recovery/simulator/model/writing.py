"""What a broker does with records that clients send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.model.broker import Broker
from kafka_recovery.simulator.model.client_requests import Appended, AppendRecords
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.log import Batch, Log
from kafka_recovery.simulator.model.messages import Produced


@dataclass(slots=True)
class Writing:
    """One Produce request: answered once all partitions are, or the time is over."""

    broker: Broker
    request: AppendRecords
    reply: Callable[[Appended], None]
    answers: dict[TopicPartition, Produced] = field(default_factory=dict)
    done: bool = False

    def begin(self) -> None:
        """Append what may be appended."""
        for id, batch in self.request.batches.items():
            self._append(id, batch)
        if not self.done and self.request.batches:
            self.broker.node.after(self.request.timeout, self._give_up)
        elif not self.request.batches:
            self._finish()

    def _append(self, id: TopicPartition, batch: Batch) -> None:
        copy = self.broker.hosted(id)
        if copy is None or copy.leading is None:
            known = self.broker.partition_state(id) is not None
            self._note(id, Produced(Error.NOT_LEADER_OR_FOLLOWER if known else Error.UNKNOWN_TOPIC_OR_PARTITION))
        elif _skips(copy.log, batch):
            self._note(id, Produced(Error.OUT_OF_ORDER_SEQUENCE_NUMBER))
        else:
            copy.leading.append(batch, self.request.acks, partial(self._note, id))

    def _note(self, id: TopicPartition, answer: Produced) -> None:
        self.answers.setdefault(id, answer)
        if not self.done and len(self.answers) == len(self.request.batches):
            self._finish()

    def _give_up(self) -> None:
        if not self.done:
            late = dict.fromkeys(self.request.batches, Produced(Error.REQUEST_TIMED_OUT))
            self.answers = late | self.answers
            self._finish()

    def _finish(self) -> None:
        self.done = True
        self.reply(Appended(self.answers))


def _skips(log: Log, batch: Batch) -> bool:
    """Whether records are missing between the producer's last batch and this one."""
    last = log.last_of(batch.producer)
    return last is not None and batch.sequence > last.sequence + last.records
