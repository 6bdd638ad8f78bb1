"""Who of several equal candidates leads: the busiest new leader decides how long a recovery takes.

A new leader needs two fsyncs a partition, one after the other, so the floor is what the busiest broker has to take on.
Partitions are counted by the set of their equal candidates, the counts are levelled, and the partitions dealt out. Only
equal logs compete here: safety is never traded for balance.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from kafka_recovery.domain.ids import BrokerId

TieSet = tuple[BrokerId, ...]
"""Brokers with equal logs of a partition, ascending."""

Quotas = dict[TieSet, dict[BrokerId, int]]
"""How many partitions of each tie set each broker is to lead."""


@dataclass(slots=True)
class Loads:
    """Partitions to lead, by broker and by rack; counted up tier by tier. A broker without a rack is its own."""

    racks: Mapping[BrokerId, str | None]
    by_broker: MutableMapping[BrokerId, int]
    by_rack: MutableMapping[str, int]

    def rack(self, broker: BrokerId) -> str:
        """The broker's rack."""
        return self.racks.get(broker) or f"broker {broker}"

    def add(self, broker: BrokerId, partitions: int) -> None:
        """Let the broker lead so many more, or fewer."""
        self.by_broker[broker] += partitions
        self.by_rack[self.rack(broker)] += partitions

    def rank(self, broker: BrokerId) -> tuple[int, int, BrokerId]:
        """Lower takes the next partition."""
        return self.by_broker[broker], self.by_rack[self.rack(broker)], broker


def no_load(racks: Mapping[BrokerId, str | None]) -> Loads:
    """Nobody leads anything yet."""
    return Loads(racks, defaultdict(int), defaultdict(int))


def level(counts: Mapping[TieSet, int], loads: Loads) -> Quotas:
    """Split each tie set's count over its brokers: the busiest one as little busy as can be, then the busiest rack.

    Fills each set in turn like water, then moves partitions along chains of sets as long as that levels anything (the
    cost-reducing paths of semi-matching), which ends at the optimum. Adds what it gives to `loads`.
    """
    quotas: Quotas = {}
    for ties in sorted(counts, key=lambda ties: (len(ties), ties)):
        quotas[ties] = _fill(ties, counts[ties], loads)
    sets_of: dict[BrokerId, list[TieSet]] = defaultdict(list)
    for ties in quotas:
        for broker in ties:
            sets_of[broker].append(ties)
    while sum(_relieve(broker, quotas, sets_of, loads) for broker in _busiest_first(sets_of, loads)):
        pass
    return quotas


def _busiest_first(sets_of: Mapping[BrokerId, object], loads: Loads) -> list[BrokerId]:
    return sorted(sets_of, key=loads.rank, reverse=True)


def _fill(ties: TieSet, count: int, loads: Loads) -> dict[BrokerId, int]:
    """Raise the least busy brokers of the set to a common level."""
    lowest = sorted(ties, key=loads.rank)
    total, filled = 0, 0
    while filled < len(lowest) and (not filled or loads.by_broker[lowest[filled]] * filled - total < count):
        total += loads.by_broker[lowest[filled]]
        filled += 1
    top, extra = divmod(total + count, filled)
    quota = dict.fromkeys(ties, 0)
    for place, broker in enumerate(lowest[:filled]):
        quota[broker] = top + (place < extra) - loads.by_broker[broker]
        loads.add(broker, quota[broker])
    return quota


def _relieve(broker: BrokerId, quotas: Quotas, sets_of: Mapping[BrokerId, Sequence[TieSet]], loads: Loads) -> bool:
    """Pass partitions from a busy broker along a chain of tie sets to a less busy one, as long as there is a chain."""
    relieved = False
    while chain := _chain(broker, quotas, sets_of, loads):
        giver, taker = chain[0][0], chain[-1][2]
        surplus = (loads.by_broker[giver] - loads.by_broker[taker]) // 2
        moved = max(1, min(surplus, *(quotas[ties][source] for source, ties, _ in chain)))
        for source, ties, target in chain:
            quotas[ties][source] -= moved
            quotas[ties][target] += moved
        loads.add(giver, -moved)
        loads.add(taker, moved)
        relieved = True
    return relieved


Link = tuple[BrokerId, TieSet, BrokerId]
"""The first broker can leave partitions of this tie set to the last one."""


def _chain(giver: BrokerId, quotas: Quotas, sets_of: Mapping[BrokerId, Sequence[TieSet]], loads: Loads) -> list[Link]:
    """The shortest chain to a broker that is better off with one more than `giver` is, or nothing."""
    takers = {broker for broker in sets_of if _levels(giver, broker, loads)}
    came: dict[BrokerId, Link | None] = {giver: None}
    queue = deque([giver] if takers else [])
    while queue:
        source = queue.popleft()
        for ties in sets_of[source]:
            if not quotas[ties][source]:
                continue
            for target in ties:
                if target in came:
                    continue
                came[target] = (source, ties, target)
                if target in takers:
                    return _walk_back(target, came)
                queue.append(target)
    return []


def _levels(giver: BrokerId, taker: BrokerId, loads: Loads) -> bool:
    """Whether moving one partition evens out brokers or, leaving them as even as they are, racks."""
    gap = loads.by_broker[giver] - loads.by_broker[taker]
    return gap > 1 or (gap == 1 and loads.by_rack[loads.rack(giver)] - loads.by_rack[loads.rack(taker)] > 1)


def _walk_back(end: BrokerId, came: Mapping[BrokerId, Link | None]) -> list[Link]:
    links = []
    while link := came[end]:
        links.append(link)
        end = link[0]
    return links[::-1]


def deal(quota: Mapping[BrokerId, int]) -> list[BrokerId]:
    """Brokers in an order in which each appears as often as its quota says, evenly: any prefix is spread too."""
    brokers = [broker for broker in sorted(quota) for _ in range(quota[broker])]
    places = [(2 * turn + 1) / quota[broker] for broker in sorted(quota) for turn in range(quota[broker])]
    return [brokers[i] for i in sorted(range(len(brokers)), key=places.__getitem__)]
