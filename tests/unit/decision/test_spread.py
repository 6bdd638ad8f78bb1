"""New leaders among equals: the busiest broker is as little busy as can be, urgent partitions first."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.spread import deal, level, no_load, share
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan, Verdict
from kafka_recovery.domain.policy import Limits, Policy, Rule, TopicSelector
from unit.decision.incident import broker, dead, evidence, log, partition, policy


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def leaders(plan: Plan) -> Counter[BrokerId | None]:
    return Counter(d.leader for d in plan.decisions if d.verdict is Verdict.ELECT)


def equal_copies(topic: str, count: int, *brokers: int) -> list[PartitionEvidence]:
    held = {1: None} | dict.fromkeys(brokers, log(9))
    return [partition(held, id=TopicPartition(topic, n)) for n in range(count)]


def altered(plan: Plan) -> int:
    return sum(decision.order != decision.assignment for decision in plan.decisions)


def test_of_equals_the_one_leads_that_is_elected_anyway_as_far_as_the_work_is_shared() -> None:
    """Two requests less for each order that is left as it stands."""
    turns = [(2, 3)] * 5 + [(3, 2)] * 5
    copies = [
        partition({1: None} | dict.fromkeys(turn, log(9)), id=TopicPartition("orders", n))
        for n, turn in enumerate(turns)
    ]
    plan = decide(evidence(*copies), policy())
    skewed = decide(evidence(*copies[:6]), policy())

    assert (leaders(plan), altered(plan)) == ({2: 5, 3: 5}, 0)
    assert (leaders(skewed), altered(skewed)) == ({2: 3, 3: 3}, 2)


BROKERS = st.lists(st.sampled_from(ids(1, 2, 3)), min_size=1, max_size=3, unique=True).map(sorted).map(tuple)
TIES = st.dictionaries(BROKERS, st.lists(st.sampled_from([*ids(1, 2, 3), None]), max_size=4), max_size=3)


@given(TIES)
def test_no_other_way_to_share_the_same_work_leaves_more_orders_as_they_stand(ties: dict[Any, list[Any]]) -> None:
    quotas = level({brokers: len(anyway) for brokers, anyway in ties.items()}, no_load({}))

    for brokers, anyway in ties.items():
        wanted = {id: n for id, n in quotas[brokers].items() if n}
        ways = [way for way in product(brokers, repeat=len(anyway)) if Counter(way) == wanted]
        kept = [sum(leader == first for leader, first in zip(way, anyway, strict=True)) for way in ways]
        found = tuple(share(anyway, quotas[brokers]))

        assert kept[ways.index(found)] == max(kept)


def test_a_chain_of_tie_sets_is_followed_where_filling_one_by_one_would_not_level() -> None:
    loads = no_load({})
    quotas = level({ids(1, 2): 4, ids(2, 3): 4, ids(3, 4): 4, ids(1): 6}, loads)

    assert max(loads.by_broker.values()) == 6
    assert sorted(loads.by_broker.values()) == [4, 4, 4, 6]
    assert quotas[ids(1, 2)] == {1: 0, 2: 4}


def test_racks_are_levelled_where_brokers_are() -> None:
    """Three partitions on four brokers, any of them: two racks with two brokers each get one or two, never three."""
    racks = {BrokerId(n): f"rack-{n // 3}" for n in (1, 2, 3, 4)}
    loads = no_load(racks)
    level({ids(1, 2, 3, 4): 2, ids(1, 3): 1, ids(2, 4): 1}, loads)

    assert loads.by_broker == {1: 1, 2: 1, 3: 1, 4: 1}
    level({ids(1, 2, 3, 4): 2}, loads)
    assert loads.by_rack == {"rack-0": 3, "rack-1": 3}


def test_the_order_that_elects_lists_the_leader_first_then_the_best() -> None:
    copies = {4: None, 1: None, 3: log(9), 2: log(9), 5: log(4)}
    brokers = (dead(1), broker(2), broker(3), dead(4), broker(5))
    first, second = decide(
        evidence(*[partition(copies, id=TopicPartition("orders", n)) for n in (0, 1)], brokers=brokers), policy()
    ).decisions

    assert {first.leader, second.leader} == {2, 3}
    for decision in (first, second):
        assert decision.ranking == (3, 2, 5)
        assert decision.order == (decision.leader, 5 - (decision.leader or 0), 5, 4, 1)
        assert decision.assignment == (4, 1, 3, 2, 5)


def test_dealing_spreads_every_stretch() -> None:
    dealt = deal({BrokerId(1): 6, BrokerId(2): 3, BrokerId(3): 1, BrokerId(4): 0})

    assert Counter(dealt) == {1: 6, 2: 3, 3: 1}
    assert Counter(dealt[:5]) == {1: 3, 2: 1, 3: 1} or Counter(dealt[:5]) == {1: 3, 2: 2}


def test_internal_topics_come_first_and_a_wave_never_mixes_urgencies() -> None:
    topics = ["orders", "__share_group_state", "__transaction_state", "__consumer_offsets", "pay"]
    seen = [
        partition({1: None, 2: log(9)}, id=TopicPartition(topic, n), internal=topic.startswith("__"))
        for topic in topics
        for n in range(2)
    ]
    plan = decide(evidence(*seen), Policy((Rule("pay", TopicSelector(("pay",)), tier=1), Rule("rest"))))

    assert [(wave[0].topic, len(wave)) for wave in plan.waves] == [
        ("__transaction_state", 1),
        ("__transaction_state", 1),
        ("__consumer_offsets", 2),
        ("__share_group_state", 2),
        ("pay", 2),
        ("orders", 2),
    ]
    assert {decision.tier for decision in plan.decisions if decision.id.topic.startswith("__")} == {0}


def test_only_a_full_wave_lets_the_next_one_grow() -> None:
    seen = [
        *[partition({1: None, 2: log(9)}, id=TopicPartition("__x", n), internal=True) for n in range(3)],
        *equal_copies("orders", 10, 2),
    ]
    plan = decide(evidence(*seen), policy(Limits(wave_sizes=(1, 4, 100))))
    assert [len(wave) for wave in plan.waves] == [1, 2, 4, 6]
