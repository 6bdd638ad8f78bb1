"""What the fold of the metadata log holds of a partition and of a broker's processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kafka_recovery.domain.history import HistoryStep

UNASSIGNED, MIGRATING = UUID(int=0), UUID(int=2)
"""What a record says in place of a directory (KIP-858)."""

Key = tuple[UUID, int]
"""A partition: its topic's id, and its index."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A process of a broker, or the same one anew after the controller had lost it: then with the same incarnation."""

    epoch: int
    incarnation: UUID
    directories: frozenset[UUID]


@dataclass(slots=True)
class PartitionState:
    """A partition as the log has it now. `steps` begin at the last one with all replicas in sync, if `whole`.

    `clean`: epochs of registrations that the controller found to follow a clean shutdown, of replicas in the ELR.
    """

    topic: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    recovering: bool
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    directories: tuple[UUID, ...]
    steps: list[HistoryStep] = field(default_factory=list)
    whole: bool = False
    clean: frozenset[int] = frozenset()

    @property
    def in_sync(self) -> bool:
        """Whether all replicas are in the ISR, and its leader was not elected uncleanly since."""
        return not self.recovering and len(self.isr) == len(self.replicas) and set(self.isr) == set(self.replicas)


def registered_since(known: Sequence[Registration], since: int) -> Sequence[Registration]:
    """The registration of the process that ran at this offset, and every later one."""
    running = max((place for place, each in enumerate(known) if each.epoch <= since), default=0)
    return known[running:]


def process_began(registered: Sequence[Registration]) -> int | None:
    """The epoch of the first registration of the process that registered last."""
    began = None
    for each in reversed(registered):
        if began is not None and each.incarnation != registered[-1].incarnation:
            break
        began = each.epoch
    return began


def directory_of(lies: UUID, has: Registration) -> str | None:
    """Where the broker's process has the replica's log; None: it was not assigned, or the broker tells of none.

    A process that lacks the assigned directory has the log in one of its others, or nowhere.
    """
    if lies in (UNASSIGNED, MIGRATING) or not has.directories:
        return None
    return str(lies) if lies in has.directories else f"one of {', '.join(sorted(map(str, has.directories)))}"
