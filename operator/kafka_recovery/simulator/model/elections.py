"""How the controller gets from one state of a partition to the next: ISR, ELR, leader, reassignment. Pure.

The order of the steps is KRaft's PartitionChangeBuilder (4.x): finish a reassignment, find the ELR, elect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from kafka_recovery.domain.ids import BrokerId, LeaderEpoch
from kafka_recovery.simulator.model.metadata import PartitionState

Brokers = tuple[BrokerId, ...]


class Election(Enum):
    """Who may be chosen: PREFERRED asks for the first replica, ANY for a clean one, UNCLEAN for anyone who lives."""

    PREFERRED = "preferred"
    ANY = "any"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the cluster's configuration says: ELR on, min.insync.replicas."""

    elr: bool
    min_isr: int


@dataclass(frozen=True, slots=True)
class Wish:
    """A change asked for; None leaves a thing as it is.

    `lost_its_log`: a broker that stopped uncleanly: it is no eligible leader any more (KIP-966).
    `designated`: KIP-1275's named leader.
    """

    isr: Brokers | None = None
    replicas: Brokers | None = None
    adding: Brokers | None = None
    removing: Brokers | None = None
    election: Election = Election.ANY
    lost_its_log: BrokerId | None = None
    designated: BrokerId | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The next state; `unclean`: the leader was not known to hold everything acknowledged."""

    state: PartitionState
    unclean: bool = False


def change(before: PartitionState, wish: Wish, rules: Rules, acceptable: Callable[[BrokerId], bool]) -> Change | None:
    """The partition's next state, or None if nothing changes.

    `acceptable`: registered, unfenced, not stopping, the log directory online.
    """
    isr = before.isr if wish.isr is None else wish.isr
    replicas = before.replicas if wish.replicas is None else wish.replicas
    adding = before.adding if wish.adding is None else wish.adding
    removing = before.removing if wish.removing is None else wish.removing
    if (adding or removing) and (done := _reassigned(replicas, isr, adding, removing)):
        replicas, isr = done
        adding = removing = ()
    elr = _eligible(before, isr, replicas, rules, wish.lost_its_log)
    leader, unclean = _elect(before, replicas, isr, elr, wish, rules, acceptable)
    if unclean and leader is not None:
        isr, elr = (leader,), ()
    elif leader is not None and leader not in isr:
        isr, elr = (leader,), tuple(broker for broker in elr if broker != leader)
    elif not isr and not rules.elr:
        isr = before.isr
    led_anew = leader != before.leader or not set(before.replicas) <= set(replicas) or unclean
    state = before._replace(
        replicas=replicas,
        isr=isr,
        elr=elr,
        adding=adding,
        removing=removing,
        leader=leader,
        leader_epoch=LeaderEpoch(before.leader_epoch + led_anew),
        last_known_elr=_last_known(before, isr, leader, rules),
        recovering=_recovering(before, unclean, leader, isr),
    )
    if state == before:
        return None
    return Change(state._replace(partition_epoch=before.partition_epoch + 1), unclean)


def _reassigned(replicas: Brokers, isr: Brokers, adding: Brokers, removing: Brokers) -> tuple[Brokers, Brokers] | None:
    """Replicas and ISR at the end of a reassignment, once all that are added are in sync."""
    left = tuple(broker for broker in isr if broker not in removing)
    kept = tuple(broker for broker in replicas if broker not in removing)
    return (kept, left) if kept and left and set(adding) <= set(left) else None


def _eligible(
    before: PartitionState, isr: Brokers, replicas: Brokers, rules: Rules, lost_its_log: BrokerId | None
) -> Brokers:
    """KIP-966: who left the ISR when it fell below min.insync.replicas holds all that was committed since."""
    if not rules.elr or len(isr) >= min(rules.min_isr, len(replicas)):
        return ()
    candidates = dict.fromkeys((*before.elr, *before.isr))
    return tuple(b for b in candidates if b not in isr and b != lost_its_log and b in replicas)


def _elect(
    before: PartitionState,
    replicas: Brokers,
    isr: Brokers,
    elr: Brokers,
    wish: Wish,
    rules: Rules,
    acceptable: Callable[[BrokerId], bool],
) -> tuple[BrokerId | None, bool]:
    """The leader, and whether choosing it was unclean."""

    def clean(broker: BrokerId) -> bool:
        """An eligible replica outside the ISR has its turn only when that is empty."""
        return (broker in isr or (not isr and broker in elr)) and acceptable(broker)

    if wish.designated is not None:
        return wish.designated, not clean(wish.designated)
    if wish.election is Election.PREFERRED and clean(replicas[0]):
        return replicas[0], False
    if before.leader is not None and before.leader in replicas and clean(before.leader):
        return before.leader, False
    for broker in replicas:
        if clean(broker):
            return broker, False
    last_known = before.last_known_elr
    if rules.elr and not isr and not elr and len(last_known) == 1 and acceptable(last_known[0]):
        return last_known[0], True
    if wish.election is Election.UNCLEAN:
        for broker in replicas:
            if acceptable(broker):
                return broker, True
    return None, False


def _last_known(before: PartitionState, isr: Brokers, leader: BrokerId | None, rules: Rules) -> Brokers:
    """Whoever led when the ISR became empty; forgotten once somebody leads."""
    if not rules.elr or leader is not None:
        return ()
    if not isr and before.leader is not None:
        return (before.leader,)
    return before.last_known_elr


def _recovering(before: PartitionState, unclean: bool, leader: BrokerId | None, isr: Brokers) -> bool:
    if unclean:
        return True
    return before.recovering and (leader is None or isr == before.isr)


def without(brokers: Sequence[BrokerId], gone: BrokerId) -> Brokers:
    """The others, in order."""
    return tuple(broker for broker in brokers if broker != gone)
