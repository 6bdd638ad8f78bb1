"""The levelled load against the exact optimum, by another method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.decision.spread import Loads, TieSet, deal, level, no_load
from kafka_recovery.domain.ids import BrokerId

brokers = st.integers(1, 7).map(BrokerId)
tie_sets = st.frozensets(brokers, min_size=1, max_size=4).map(lambda ties: tuple(sorted(ties)))
counts = st.dictionaries(tie_sets, st.integers(1, 40), max_size=9)
prior = st.dictionaries(brokers, st.integers(0, 40))
racks = st.dictionaries(brokers, st.sampled_from(("a", "b", "c")))


def optimum(counts: Mapping[TieSet, int], load: Mapping[BrokerId, int]) -> int:
    """The least possible highest load of brokers in tie sets, by Hall's theorem over all sets of brokers.

    A highest load is feasible if no set of brokers is the only choice of more partitions than it has room for.
    """
    concerned = sorted(set(chain.from_iterable(counts)))
    subsets = [frozenset(s) for n in range(1, len(concerned) + 1) for s in combinations(concerned, n)]

    def feasible(highest: int) -> bool:
        return all(
            sum(count for ties, count in counts.items() if set(ties) <= subset)
            <= sum(max(0, highest - load.get(broker, 0)) for broker in subset)
            for subset in subsets
        )

    low, high = 0, sum(counts.values()) + max(load.values(), default=0)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if feasible(middle) else (middle + 1, high)
    return max([low, *(load.get(broker, 0) for broker in concerned)])


def loaded(racks: Mapping[BrokerId, str | None], load: Mapping[BrokerId, int]) -> Loads:
    loads = no_load(racks)
    for broker, partitions in load.items():
        loads.add(broker, partitions)
    return loads


@given(counts, prior, racks)
def test_the_busiest_broker_is_as_little_busy_as_can_be(
    counts: dict[TieSet, int], load: dict[BrokerId, int], racks: dict[BrokerId, str | None]
) -> None:
    loads = loaded(racks, load)
    quotas = level(counts, loads)

    assert {ties: sum(quota.values()) for ties, quota in quotas.items()} == counts
    assert all(set(quota) <= set(ties) and min(quota.values()) >= 0 for ties, quota in quotas.items())
    given_out = Counter(load)
    for quota in quotas.values():
        given_out.update(quota)
    assert all(loads.by_broker[broker] == given_out[broker] for broker in given_out)
    concerned = set(chain.from_iterable(counts))
    assert max((given_out[broker] for broker in concerned), default=0) == optimum(counts, load)


@given(counts, prior)
def test_the_split_does_not_depend_on_the_order_of_its_input(
    counts: dict[TieSet, int], load: dict[BrokerId, int]
) -> None:
    turned = dict(reversed(list(counts.items())))
    assert level(counts, loaded({}, load)) == level(turned, loaded({}, dict(reversed(list(load.items())))))


@given(st.dictionaries(brokers, st.integers(0, 30), min_size=1, max_size=4))
def test_any_prefix_of_what_is_dealt_is_spread(quota: dict[BrokerId, int]) -> None:
    dealt = deal(quota)
    assert Counter(dealt) == {broker: count for broker, count in quota.items() if count}
    for length in range(len(dealt) + 1):
        so_far = Counter(dealt[:length])
        for broker, count in quota.items():
            assert abs(so_far[broker] - length * count / max(1, len(dealt))) < 2
