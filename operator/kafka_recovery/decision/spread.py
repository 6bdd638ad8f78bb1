"""Who of several equal candidates leads: the busiest new leader decides how long a recovery takes.

A new leader needs two fsyncs a partition, one after the other, so the floor is what the busiest broker has to take on.
Partitions are counted by the set of their equal candidates, the counts are levelled, and the partitions dealt out, to
whom the present order elects where that fits. Only equal logs compete here: safety is never traded for balance.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass
from itertools import permutations

from kafka_recovery.domain.ids import BrokerId

TieSet = tuple[BrokerId, ...]
"""Brokers with equal logs of a partition, ascending."""

Load = Mapping[BrokerId, int]

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
    """Split each tie set's count over its brokers: the busiest one as little busy as can be, then racks as even.

    Fills each set in turn like water, then moves partitions along chains of sets as long as that levels anything (the
    cost-reducing paths of semi-matching), which ends at the optimum. Adds what it gives to `loads`.
    """
    quotas: Quotas = {}
    for ties in sorted(counts, key=lambda ties: (len(ties), ties)):
        quotas[ties] = _fill(ties, counts[ties], loads)
    _level_brokers(quotas, loads)
    while sum(_level_racks(ties, quota, loads) for ties, quota in quotas.items()):
        pass
    return quotas


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


def _level_brokers(quotas: Quotas, loads: Loads) -> None:
    """Relieve the busiest broker as long as a chain of tie sets leads from it to one that is less busy by two."""
    sets_of: dict[BrokerId, list[TieSet]] = defaultdict(list)
    for ties in quotas:
        for broker in ties:
            sets_of[broker].append(ties)
    unsettled = set(sets_of)
    while unsettled:
        giver = max(unsettled, key=loads.rank)
        came = _reach(giver, quotas, sets_of, unsettled, loads.by_broker)
        taker = next(reversed(came))
        if loads.by_broker[giver] - loads.by_broker[taker] > 1:
            _move(giver, taker, came, quotas, loads)
        else:
            unsettled -= came.keys()  # nobody in reach is less busy, so none of these can relieve another either


Link = tuple[BrokerId, TieSet]
"""A broker that can leave partitions of this tie set to the next one."""


def _reach(
    giver: BrokerId, quotas: Quotas, sets_of: Mapping[BrokerId, Sequence[TieSet]], among: Set[BrokerId], load: Load
) -> dict[BrokerId, Link | None]:
    """How each broker is reached from `giver` by passing on partitions; the last one may be less busy by two."""
    came: dict[BrokerId, Link | None] = {giver: None}
    queue = deque([giver])
    while queue:
        source = queue.popleft()
        for ties in sets_of[source]:
            if not quotas[ties][source]:
                continue
            for target in ties:
                if target in came or target not in among:
                    continue
                came[target] = (source, ties)
                if load[giver] - load[target] > 1:
                    return came
                queue.append(target)
    return came


def _move(giver: BrokerId, taker: BrokerId, came: Mapping[BrokerId, Link | None], quotas: Quotas, loads: Loads) -> None:
    """Pass on as many partitions along the chain as levels its two ends."""
    chain: list[tuple[BrokerId, TieSet, BrokerId]] = []
    target = taker
    while link := came[target]:
        chain.append((*link, target))
        target = link[0]
    surplus = (loads.by_broker[giver] - loads.by_broker[taker]) // 2
    moved = min(surplus, *(quotas[ties][source] for source, ties, _ in chain))
    for source, ties, target in chain:
        quotas[ties][source] -= moved
        quotas[ties][target] += moved
    loads.add(giver, -moved)
    loads.add(taker, moved)


def _level_racks(ties: TieSet, quota: dict[BrokerId, int], loads: Loads) -> bool:
    """Let two brokers of a tie set swap their loads, which differ by one, if that evens out their racks."""
    for giver, taker in permutations(ties, 2):
        swaps = quota[giver] and loads.by_broker[giver] - loads.by_broker[taker] == 1
        if swaps and loads.by_rack[loads.rack(giver)] - loads.by_rack[loads.rack(taker)] > 1:
            quota[giver] -= 1
            quota[taker] += 1
            loads.add(giver, -1)
            loads.add(taker, 1)
            return True
    return False


def deal(quota: Mapping[BrokerId, int]) -> list[BrokerId]:
    """Brokers in an order in which each appears as often as its quota says, evenly: any prefix is spread too."""
    brokers = [broker for broker in sorted(quota) for _ in range(quota[broker])]
    places = [(2 * turn + 1) / quota[broker] for broker in sorted(quota) for turn in range(quota[broker])]
    return [brokers[i] for i in sorted(range(len(brokers)), key=places.__getitem__)]


def share(anyway: Iterable[BrokerId | None], quota: Mapping[BrokerId, int]) -> list[BrokerId]:
    """The leader of each partition of a tie set, as its quota says: as many as can be get who is elected `anyway`.

    An order that need not be altered saves two requests.
    """
    rest = dict(quota)
    leaders: list[BrokerId | None] = []
    for first in anyway:
        if first is not None and rest.get(first, 0) > 0:
            rest[first] -= 1
            leaders.append(first)
        else:
            leaders.append(None)
    turns = iter(deal({broker: left for broker, left in rest.items() if left}))
    return [next(turns) if leader is None else leader for leader in leaders]
