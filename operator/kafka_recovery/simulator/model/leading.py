"""The leader's side of one partition: who follows how far, the ISR, the high watermark, acknowledgements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.host import Copy, Host
from kafka_recovery.simulator.model.log import Batch
from kafka_recovery.simulator.model.messages import (
    NO_BROKER_EPOCH,
    IsrAnswer,
    IsrChangeRequest,
    IsrProposal,
    Produced,
)
from kafka_recovery.simulator.model.metadata import PartitionState
from kafka_recovery.simulator.model.settings import IsrRpc

_REVERT = frozenset({Error.INELIGIBLE_REPLICA, Error.OPERATION_NOT_ATTEMPTED, Error.INVALID_REQUEST})
"""Back to the last committed ISR at once; after other errors the metadata that is on its way decides."""


@dataclass(slots=True)
class Progress:
    """How far a follower is, as its fetches show. `end` -1: it has not fetched in this epoch.

    `caught_up`: when it last held all that the leader had. `broker_epoch`: as its fetch said (KIP-903).
    `watermark`: the high watermark that it knows of.
    """

    end: int = -1
    caught_up: float = -1e9
    fetched_at: float = -1e9
    leader_end_then: int = 0
    broker_epoch: int = NO_BROKER_EPOCH
    watermark: int = -1


@dataclass(slots=True)
class Waiting:
    """An acks=all append that is acknowledged once the high watermark reaches `end`."""

    end: int
    first: int
    reply: Callable[[Produced], None]


@dataclass(slots=True)
class Leading:
    """`proposal`: an ISR that was asked for and not decided yet; until then the larger of both holds (KIP-497)."""

    broker: Host
    partition: Copy
    epoch: int
    epoch_start: int
    moved: Callable[[Copy], None]
    heard_at: Callable[[BrokerId], float]
    followers: dict[BrokerId, Progress] = field(default_factory=dict)
    proposal: tuple[BrokerId, ...] | None = None
    waiting: list[Waiting] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        self._know_followers(self.partition.state)

    @property
    def state(self) -> PartitionState:
        """The committed state."""
        return self.partition.state

    @property
    def min_isr(self) -> int:
        """What holds here: never more than there are replicas."""
        topic = self.broker.topic_state(self.partition.id.topic)
        return min(topic.min_isr if topic else 1, len(self.partition.state.replicas))

    def updated(self, state: PartitionState) -> None:
        """Newer metadata of the same leader epoch."""
        if state.partition_epoch <= self.partition.state.partition_epoch:
            return
        self.partition.state = state
        self.proposal = None
        self._know_followers(state)
        self.advance()

    def fetched(self, follower: BrokerId, offset: int, broker_epoch: int, watermark: int) -> bool:
        """A follower holds everything before `offset`; False if an earlier incarnation of it asked."""
        progress = self.followers.get(follower)
        if progress is None or (broker_epoch != NO_BROKER_EPOCH and broker_epoch < progress.broker_epoch):
            return False
        now, end = self.broker.now, self.partition.log.end
        if offset >= end:
            progress.caught_up = now
        elif offset >= progress.leader_end_then:
            progress.caught_up = max(progress.caught_up, progress.fetched_at)
        moved = progress.end != offset or progress.watermark != watermark
        progress.watermark = watermark
        progress.end, progress.fetched_at, progress.leader_end_then = offset, now, end
        progress.broker_epoch = broker_epoch
        if self.proposal is None and follower not in self.partition.state.isr:
            self._consider(follower, progress)
        if moved:
            self.advance()
        return True

    def append(self, batch: Batch, acks: str, reply: Callable[[Produced], None]) -> None:
        """Write the producer's records, or find that they were written already (idempotence)."""
        log = self.partition.log
        if acks == "all" and len(self.partition.state.isr) < self.min_isr:
            reply(Produced(Error.NOT_ENOUGH_REPLICAS))
            return
        last = log.last_of(batch.producer)
        if last is not None and batch.sequence <= last.sequence:
            known = next((b for b in log.batches if (b.producer, b.sequence) == (batch.producer, batch.sequence)), last)
            first, end = known.first, known.end
        elif not self.broker.has_room():
            return
        else:
            self._note_who_is_level()
            first, end = log.end, log.end + batch.records
            log.append(batch._replace(first=first, epoch=self.epoch))
            self.broker.written(log)
            self.moved(self.partition)
        if acks != "all":
            reply(Produced(Error.NONE, first, self.epoch))
        else:
            self.waiting.append(Waiting(end, first, reply))
        self.advance()

    def advance(self) -> None:
        """Raise the high watermark to what all in-sync replicas hold, and acknowledge.

        Replicas that are about to join count too. KIP-966: below min.insync.replicas it stands still.
        """
        state, log = self.state, self.partition.log
        if not self.broker.switches.high_watermark_needs_min_isr or len(state.isr) >= self.min_isr:
            mark = log.end
            for follower, progress in self.followers.items():
                if progress.end < mark and (self._in_maximal_isr(follower) or self._joins_soon(follower, progress)):
                    mark = progress.end
            if mark > log.high_watermark:
                self.broker.set_watermark(log, mark)
                self.moved(self.partition)
        if self.waiting and self.waiting[0].end <= self._acknowledgeable():
            self._acknowledge()

    def shrink(self) -> None:
        """Propose an ISR without those that have not caught up for too long."""
        if self.proposal is not None or self.closed or len(self.partition.state.isr) < 2:
            return
        lost = [
            b for b in self.partition.state.isr if b != self.broker.id and not self._caught_up(self.followers.get(b))
        ]
        if lost:
            self._propose(tuple(broker for broker in self.partition.state.isr if broker not in lost))

    def close(self) -> None:
        """Another leader, or none: nothing more is acknowledged here."""
        self.closed = True
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one.reply(Produced(Error.NOT_LEADER_OR_FOLLOWER))

    def _know_followers(self, state: PartitionState) -> None:
        now = self.broker.now
        for broker in state.replicas:
            if broker != self.broker.id and broker not in self.followers:
                self.followers[broker] = Progress(caught_up=now if broker in state.isr else -1e9)
        for broker in [b for b in self.followers if b not in state.replicas]:
            del self.followers[broker]

    def _note_who_is_level(self) -> None:
        """Followers that have everything until now: they were caught up when they last fetched."""
        for follower, progress in self.followers.items():
            if progress.end == self.partition.log.end:
                progress.fetched_at = progress.caught_up = max(progress.caught_up, self.heard_at(follower))

    def _acknowledge(self) -> None:
        mark = self._acknowledgeable()
        done = [one for one in self.waiting if one.end <= mark]
        self.waiting = [one for one in self.waiting if one.end > mark]
        enough = len(set(self.partition.state.isr) | set(self.proposal or ())) >= self.min_isr
        error = Error.NONE if enough else Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        for one in done:
            one.reply(Produced(error, one.first, self.epoch))

    def _acknowledgeable(self) -> int:
        """Up to where acks=all is answered: what is committed, or what all in-sync replicas know to be."""
        mark = self.partition.log.high_watermark
        if not self.broker.switches.acks_wait_for_replicas_watermark:
            return mark
        return min([mark, *(known.watermark for id, known in self.followers.items() if self._in_maximal_isr(id))])

    def _in_maximal_isr(self, broker: BrokerId) -> bool:
        return broker in self.partition.state.isr or (self.proposal is not None and broker in self.proposal)

    def _joins_soon(self, follower: BrokerId, progress: Progress) -> bool:
        return self._caught_up(progress) and self._eligible(follower, progress)

    def _caught_up(self, progress: Progress | None) -> bool:
        if progress is None:
            return False
        lag_max = self.broker.settings.lag_max
        return progress.end == self.partition.log.end or self.broker.now - progress.caught_up <= lag_max

    def _consider(self, follower: BrokerId, progress: Progress) -> None:
        caught_up = progress.end >= max(self.partition.log.high_watermark, self.epoch_start)
        if caught_up and self._eligible(follower, progress):
            members = {*self.partition.state.isr, follower}
            self._propose(tuple(broker for broker in self.partition.state.replicas if broker in members))

    def _eligible(self, follower: BrokerId, progress: Progress) -> bool:
        """KIP-841: unfenced and not stopping. KIP-903: the incarnation that fetched is the one in the metadata."""
        known, switches = self.broker.broker_state(follower), self.broker.switches
        if known is None:
            return False
        if switches.leader_proposes_eligible and (known.fenced or known.stopping):
            return False
        unchecked = not switches.leader_matches_broker_epochs or progress.broker_epoch == NO_BROKER_EPOCH
        return unchecked or progress.broker_epoch == known.epoch

    def _propose(self, isr: tuple[BrokerId, ...]) -> None:
        self.proposal = isr
        state, broker = self.state, self.broker
        request = IsrProposal(
            broker.id, broker.epoch, self.partition.id, state.topic_id, self.epoch, state.partition_epoch,
            {member: self._epoch_of(member) for member in isr},
        )  # fmt: skip
        changes = broker.controllers.isr_changes
        answered: Callable[[Any], None] = partial(self._decided, isr)
        if broker.settings.isr_rpc is IsrRpc.ISR_CHANGE:
            alone = IsrChangeRequest(broker.id, broker.epoch, ((self.partition.id.topic, (request,)),))
            broker.forward("IsrChange", partial(changes.change, alone), lambda told: answered(told.alone), None)
        else:
            broker.forward("AlterPartition", partial(changes.propose, request), answered, None)

    def _epoch_of(self, member: BrokerId) -> int:
        if member == self.broker.id:
            return self.broker.epoch
        progress = self.followers.get(member)
        return progress.broker_epoch if progress else NO_BROKER_EPOCH

    def _decided(self, isr: tuple[BrokerId, ...], answer: IsrAnswer) -> None:
        if self.closed or self.proposal is not isr:
            return
        if answer.error is Error.NONE and answer.state is not None:
            self.updated(answer.state)
            self.proposal = None
        elif answer.error in _REVERT:
            self.proposal = None
            self.advance()
