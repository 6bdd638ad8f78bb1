"""A small model of one partition with producers at acks=all: ISR, min.insync.replicas, crashes that lose records.

It keeps what a proof stands on (the history since all replicas were in sync, and whose copy is intact) and what the
proof is about (which records were acknowledged). The controller's metadata has ELR off: the last ISR member stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_recovery.domain.history import HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import BrokerId
from property.replication import Copy, follow

Event = tuple[str, int, int]
EVENTS = (
    *("write",) * 4, *("fetch",) * 6, "shrink", *("expand",) * 3, "crash", "stop", "stop", "restart", "restart",
    "configure", "unclean",
)  # fmt: skip


@dataclass
class Acknowledging:
    """The partition. Broker ids are places in `copies`; `fetched` is where each follower last fetched from."""

    copies: list[Copy]
    min_isr: int
    epoch: int = 1
    leader: int | None = 0
    high_watermark: int = 0
    epoch_start: int = 0
    fetched: dict[int, int] = field(default_factory=dict)
    isr: set[int] = field(default_factory=set)
    alive: set[int] = field(default_factory=set)
    intact: set[int] = field(default_factory=set)
    acknowledged: dict[int, int] = field(default_factory=dict)
    steps: list[HistoryStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        everybody = set(range(len(self.copies)))
        self.isr, self.alive, self.intact = set(everybody), set(everybody), set(everybody)
        self.copies[0].note(self.epoch)
        self._step()

    def happens(self, event: Event) -> None:
        what, broker, much = event
        getattr(self, what)(broker % len(self.copies), much)
        self._acknowledge()

    def write(self, broker: int, much: int) -> None:
        if self.leader is not None:
            for _ in range(much):
                self.copies[self.leader].append(self.epoch)

    def fetch(self, broker: int, much: int) -> None:
        """A follower truncates and asks; from where it asks is all the leader knows of it (KIP-101)."""
        if self.leader is not None and broker in self.alive and broker != self.leader:
            follow(self.copies[broker], self.copies[self.leader], 0)
            self.fetched[broker] = self.copies[broker].end
            follow(self.copies[broker], self.copies[self.leader], much)

    def shrink(self, broker: int, much: int) -> None:
        """The leader finds a follower too slow."""
        if self.leader is not None and broker != self.leader and broker in self.isr:
            self.isr.discard(broker)
            self._step()

    def expand(self, broker: int, much: int) -> None:
        """A follower joins at the high watermark, and not before the leader's own epoch began (KAFKA-7128)."""
        if self.leader is None or broker not in self.alive or broker in self.isr:
            return
        if self.fetched.get(broker, -1) >= max(self.high_watermark, self.epoch_start):
            self.isr.add(broker)
            self.intact.add(broker)
            self._step()

    def crash(self, broker: int, much: int) -> None:
        """The host dies: what was not flushed is gone."""
        if broker in self.alive:
            self.intact.discard(broker)
            self.copies[broker].truncate(max(0, self.copies[broker].end - much))
            self.stop(broker, much)

    def stop(self, broker: int, much: int) -> None:
        """The controller fences the broker: out of the ISR, but for the last member (KIP-841, KIP-903)."""
        if broker not in self.alive:
            return
        self.alive.discard(broker)
        self.fetched.pop(broker, None)
        if len(self.isr) > 1:
            self.isr.discard(broker)
        if broker == self.leader:
            self._elect(min(self.isr & self.alive, default=None))
        self._step()

    def restart(self, broker: int, much: int) -> None:
        """The broker is back; the sole ISR member leads again, whatever it lost meanwhile."""
        if broker in self.alive:
            return
        self.alive.add(broker)
        if self.leader is None and broker in self.isr:
            lost = broker not in self.intact
            self._elect(broker)
            self.intact.add(broker)
            self._step(unclean=lost)

    def configure(self, broker: int, much: int) -> None:
        """Somebody sets another min.insync.replicas."""
        self.min_isr = 1 + much % len(self.copies)
        self._step()

    def unclean(self, broker: int, much: int) -> None:
        if self.leader is None and broker in self.alive and broker not in self.isr:
            self.isr = {broker}
            self._elect(broker)
            self.intact.add(broker)
            self._step(unclean=True)

    def lose_the_leader(self) -> None:
        """Until nobody of the ISR is left to lead."""
        while self.leader is not None:
            self.stop(self.leader, 0)

    @property
    def history(self) -> PartitionHistory:
        return PartitionHistory(tuple(self.steps), frozenset(map(BrokerId, self.intact)))

    def lost_by(self, chosen: int) -> set[int]:
        """Offsets of acknowledged records that the chosen log does not hold."""
        records = self.copies[chosen].records
        return {o for o, epoch in self.acknowledged.items() if o >= len(records) or records[o] != epoch}

    def _elect(self, leader: int | None) -> None:
        self.leader = leader
        self.epoch += 1
        if leader is not None:
            self.copies[leader].note(self.epoch)
            self.high_watermark, self.epoch_start, self.fetched = 0, self.copies[leader].end, {}

    def _acknowledge(self) -> None:
        """The high watermark is what the whole ISR holds; a record below is acknowledged if the ISR is large enough."""
        if self.leader is None:
            return
        leader = self.copies[self.leader]
        held = {**self.fetched, self.leader: leader.end}
        self.high_watermark = max(self.high_watermark, min(held.get(broker, 0) for broker in self.isr))
        if len(self.isr) >= min(self.min_isr, len(self.copies)):
            self.acknowledged = dict(enumerate(leader.records[: self.high_watermark])) | self.acknowledged

    def _step(self, unclean: bool = False) -> None:
        everybody = tuple(BrokerId(broker) for broker in range(len(self.copies)))
        isr = tuple(broker for broker in everybody if broker in self.isr)
        step = HistoryStep(everybody, isr, self.min_isr, unclean)
        if isr != everybody or unclean:
            self.steps.append(step)
            return
        self.steps = [step]  # all in sync: what was lost before is lost, and no part of this history
        leader = self.copies[self.leader if self.leader is not None else 0].records
        self.acknowledged = {o: e for o, e in self.acknowledged.items() if o < len(leader) and leader[o] == e}
