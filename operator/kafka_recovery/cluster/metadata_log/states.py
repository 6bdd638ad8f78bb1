"""What the fold of the metadata log holds of a partition, and where its replicas lie (KIP-858)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kafka_recovery.cluster.metadata_log.processes import Processes, Registration
from kafka_recovery.domain.history import HistoryStep
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset

UNASSIGNED, LOST, MIGRATING = UUID(int=0), UUID(int=1), UUID(int=2)
"""What a record says in place of a directory (KIP-858)."""

NOBODY = -1
"""What a record says in place of a leader."""

Key = tuple[UUID, int]
"""A partition: its topic's id, and its index."""


@dataclass(slots=True)
class PartitionState:
    """A partition as the log has it now. `steps` begin at the last one with all replicas in sync, if `whole`.

    `clean`: epochs of registrations that the controller found to follow a clean shutdown, of replicas in the ELR.
    `moved`: where replicas lay since all were in sync, by broker, and do not lie now. `moving`: brokers whose running
    process has moved its log, whenever that was.
    `doubted`: members of the ISR whose logs may differ from the leader's, until each has left the ISR.
    `forked`: logs of it may differ within one leader epoch. Kafka compares epochs alone (KIP-101), and mends none.
    `leaderless_at`: when it lost its leader, by the controller's clock (milliseconds); None: it has one, or unknown.
    """

    topic: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    recovering: bool
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    directories: tuple[UUID | None, ...]
    steps: list[HistoryStep] = field(default_factory=list)
    whole: bool = False
    clean: frozenset[int] = frozenset()
    moved: frozenset[tuple[int, UUID]] = frozenset()
    moving: frozenset[int] = frozenset()
    doubted: frozenset[int] = frozenset()
    forked: bool = False
    leaderless_at: int | None = None

    def begin(self) -> None:
        """Its history begins anew: what stopped or was moved before does not matter any more."""
        self.steps.clear()
        self.whole, self.clean, self.moved = True, frozenset(), frozenset()

    def go_on(self, known: PartitionState, processes: Processes) -> None:
        """It is one that was known, and is written anew as a whole."""
        self.steps, self.whole, self.clean = known.steps, known.whole, known.clean
        self.moved, self.moving = known.moved, known.moving
        self.doubted, self.forked = known.doubted, known.forked
        note_moves(self, known.places, processes)

    def doubt(self, anew: frozenset[int], unseen: frozenset[int]) -> None:
        """These are other processes since this batch. Kafka 3.9 leaves a broker in the ISR, and lets it lead on, where
        its session has ended and it was not fenced (KAFKA-18106): it may lack what the others hold. A leader that does
        writes other records at the same offsets in the same epoch, and whoever asks it late keeps what it had there.

        A broker tells of a move before it is over: it goes on with the log in the old place until the copy of it in the
        new one has all of it. Its next process takes that copy, however far it is (KIP-858), so the log may be in no
        place with all that it held. `unseen`: those of whose process before it is not known what it moved.
        """
        may_move = self.moving.union(unseen.intersection(self.replicas)) if unseen else self.moving
        if behind := may_move.intersection(anew):
            self.moved |= {(id, UNASSIGNED) for id in behind}
            self.moving -= behind
        if self.leader in anew:
            self.whole, self.forked = False, self.forked or len(self.replicas) > 1
        elif not anew.isdisjoint(self.isr):
            self.doubted |= anew.intersection(self.isr)

    def heed(self, *, doubted: Collection[int], moving: Collection[int], forked: bool, here: bool) -> None:
        """An earlier reading knew this of it, and a snapshot does not tell it. No history that began meanwhile counts:
        it was not in sync. Not `here`, but at an earlier place: one in doubt may have been elected since (`led_by`).
        """
        members = frozenset(self.isr)
        self.doubted |= members.intersection(doubted) if here or not doubted else members - {self.leader}
        self.moving |= frozenset(moving)
        self.forked = self.forked or forked
        self.whole = self.whole and not (self.doubted or self.forked)

    def step(self, offset: int, *, with_elr: bool) -> HistoryStep:
        """As it stands since this offset; which minimum counts is not known yet."""
        return HistoryStep(
            MetadataOffset(offset),
            None if self.leader == NOBODY else BrokerId(self.leader),
            LeaderEpoch(self.leader_epoch),
            _ids(self.replicas),
            _ids(self.isr),
            _ids(self.elr) if with_elr else None,
            0,
            self.recovering,
        )

    @property
    def places(self) -> Mapping[int, UUID]:
        """The directory of each replica, by broker, as far as it was told. The codec reads an id of zeros as None."""
        told = zip(self.replicas, self.directories, strict=False)
        return {id: directory or UNASSIGNED for id, directory in told}

    def led_by(self, leader: int, at: int | None) -> None:
        """A new leader epoch, which need not have another leader. `at`: the controller's clock, if it can be believed.

        Without a leader an ISR change may raise the epoch as well: that begins no new outage. All have to be as one in
        doubt is, if that is elected.
        """
        if leader in self.doubted:
            self.doubted = frozenset(self.isr) - {leader}
        if leader != NOBODY:
            self.leaderless_at = None
        elif self.leader != NOBODY:
            self.leaderless_at = at
        self.leader, self.leader_epoch = leader, self.leader_epoch + 1

    @property
    def in_sync(self) -> bool:
        """Whether all replicas are in the ISR, none in doubt, and its leader was not elected uncleanly since.

        Of one that forked a member of the ISR may lack what was acknowledged while it was in it.
        """
        if self.doubted or self.forked or self.recovering:
            return False
        return len(self.isr) == len(self.replicas) and set(self.isr) == set(self.replicas)


def note_moves(partition: PartitionState, before: Mapping[int, UUID], processes: Processes) -> None:
    """What lay elsewhere `before` is remembered to have lain there: nobody tells whether the log came with it.

    Where the broker's process has both directories, it is that process which moves the log.
    """
    now = partition.places
    if moved := {(id, place) for id, place in before.items() if now.get(id, place) != place}:
        partition.moved |= moved
        partition.moving |= {id for id, place in moved if {place, now[id]} <= processes.directories_of(id)}


def is_placed(partition: PartitionState, id: int) -> bool:
    """Whether it is known in which directory the broker has the replica, or had."""
    return partition.places.get(id, UNASSIGNED) not in (UNASSIGNED, MIGRATING)


def directory_of(partition: PartitionState, id: int, has: Registration) -> str | None:
    """Where the broker's process has the replica's log; None: it was never assigned, or the broker tells of none.

    A log that was moved has been in several: a process that has none of one of them may have begun it anew elsewhere.
    If one of these is not known, no other process is known to have the same.
    """
    lies = partition.places.get(id, UNASSIGNED)
    lay = sorted(each for broker, each in partition.moved if broker == id)
    told = [_of(each, has) for each in (lies, *lay)]
    if None in told:
        return f"nobody knows which, as of {has.epoch}" if lay else None
    return " and ".join(map(str, told))


def _of(lies: UUID, has: Registration) -> str | None:
    """A process that lacks the assigned directory has the log in one of its others, or nowhere. What has failed is not
    what any other process has.
    """
    if lies == LOST or lies in has.failed:
        return f"{lies}, which had failed, as of {has.epoch}"
    if lies in (UNASSIGNED, MIGRATING) or not has.directories:
        return None
    return str(lies) if lies in has.directories else f"one of {', '.join(sorted(map(str, has.directories)))}"


def _ids(brokers: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))
