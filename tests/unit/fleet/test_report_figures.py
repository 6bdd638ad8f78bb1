"""The figures of a report: sums of everything, and the worst of what there is much of."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from kafka_recovery.fleet import report_figures
from kafka_recovery.fleet.report_figures import (
    LED,
    LISTED,
    MAP_BROKERS,
    MAPS,
    BrokerLeads,
    Counts,
    Fate,
    Ranking,
    Readiness,
)
from kafka_recovery.fleet.report_results import Answer
from unit.fleet.runs import Row, batches, count, counts, leader, losses, ranked, topic


def readiness(**tables: list[Row]) -> Readiness:
    return report_figures.readiness(rows_of(tables))


def ranking(**tables: list[Row]) -> Ranking:
    return report_figures.ranking(rows_of(tables))


def rows_of(tables: dict[str, list[Row]]) -> report_figures.Rows:
    def rows(answer: Answer) -> Iterable[pa.RecordBatch]:
        return batches(tables.get(answer.name, []), answer.columns)

    return rows


def test_a_pair_costs_what_each_of_the_two_costs_and_what_hangs_on_both() -> None:
    alone = {1: counts(lossless=1), 2: counts(), 3: counts(none=4)}

    (found,) = readiness(losses=losses("prod", alone, {(1, 2): counts(unknown=2)})).maps.rows

    assert found.brokers.rows == (1, 2, 3)
    assert found.costs[3, 3] == Counts(4, none=4)
    assert found.costs[1, 2] == Counts(3, lossless=1, unknown=2)
    assert found.costs[1, 3] == Counts(5, lossless=1, none=4)
    assert len(found.costs) == 6


def test_of_many_brokers_the_map_has_those_whose_loss_hurts_most() -> None:
    alone = {id: counts(lossless=9) for id in range(1, MAP_BROKERS + 6)}
    alone[20] = counts(none=1)
    alone[29], together = counts(), {(28, 29): counts(bounded=1)}

    (found,) = readiness(losses=losses("prod", alone, together)).maps.rows

    assert found.brokers.more == 5
    assert {20, 28} <= set(found.brokers.rows)
    assert 29 not in found.brokers.rows
    assert found.brokers.rows == tuple(sorted(found.brokers.rows))
    assert {id for pair in found.costs for id in pair} == set(found.brokers.rows)
    assert len(found.costs) == MAP_BROKERS * (MAP_BROKERS + 1) // 2


def test_clusters_come_with_the_worst_first_and_safe_ones_have_no_map() -> None:
    rows = [
        *losses("safe", {1: counts(), 2: counts()}),
        *losses("saved", {1: counts(lossless=50), 2: counts()}),
        *losses("lost", {1: counts(none=1), 2: counts(bounded=3)}),
        *losses("pairs", {1: counts(), 2: counts()}, {(1, 2): counts(none=7)}),
    ]

    found = readiness(losses=rows, offline=[topic("gone", counts(none=3), cluster="pairs")])

    assert [each.cluster for each in found.clusters.rows] == ["lost", "saved", "pairs", "safe"]
    assert [each.cluster for each in found.maps.rows] == ["lost", "saved", "pairs"]
    lost, _, pairs, _ = found.clusters.rows
    assert (lost.brokers, lost.alone, lost.together) == (2, Counts(4, bounded=3, none=1), 0)
    assert (pairs.alone, pairs.together, pairs.now) == (Counts(), 7, Counts(3, none=3))


def test_a_large_fleet_keeps_what_is_worst_and_says_how_much_more_there_is() -> None:
    rows = [row for n in range(100) for row in losses(f"c{n:02}", {1: counts(none=n + 1), 2: counts()})]
    topics = [topic(f"t{n:03}", counts(unknown=n + 1)) for n in range(200)]

    found = readiness(losses=rows, topics=topics)

    assert (len(found.maps.rows), found.maps.more) == (MAPS, 100 - MAPS)
    assert (found.maps.rows[0].cluster, found.clusters.more) == ("c99", 100 - LISTED)
    total, worst = found.by_kind["Broker"]
    assert total == Counts(20100, unknown=20100)
    assert (worst.rows[0].topic, len(worst.rows), worst.more) == ("t199", LISTED, 200 - LISTED)


def test_topics_are_told_apart_by_what_they_hang_on() -> None:
    found = readiness(
        topics=[topic("orders", counts(bounded=2)), topic("pay", counts(none=1), "Rack")],
        offline=[topic("down", counts(unknown=5))],
    )

    assert [each.topic for each in found.by_kind["Broker"][1].rows] == ["orders"]
    assert found.by_kind["Pair"] == (Counts(), report_figures.Capped(()))
    assert found.by_kind["Rack"][0] == Counts(1, none=1)
    assert (found.now, found.offline.rows[0].topic) == (Counts(5, unknown=5), "down")


def test_what_would_be_done_is_counted_by_topic_and_rule_without_what_has_a_leader() -> None:
    found = ranking(
        counts=[
            count("orders", "Nothing", 90),
            count("calm", "Nothing", 7, rule="calm"),
            count("orders", "Elect", 4, "Unknown"),
            count("orders", "Elect", 2, "Bounded"),
            count("pay", "Elect", 1, "Lossless", rule="payments"),
            count("pay", "Wait", 3, rule="payments"),
            count("pay", "Refuse", 5, rule="payments"),
        ]
    )

    assert found.fate == Fate(lossless=1, bounded=2, unknown=4, waits=3, refused=5)
    assert (found.fate.elected, found.fate.offline) == (7, 15)
    assert found.topics.rows == (
        ("prod", "pay", Fate(lossless=1, waits=3, refused=5)),
        ("prod", "orders", Fate(bounded=2, unknown=4)),
    )
    assert [name for name, _ in found.rules.rows] == ["all", "payments"]


def test_reasons_are_those_of_refused_partitions_and_rejections_those_of_copies() -> None:
    found = ranking(
        ranking=[
            ranked("Nothing"),
            ranked("Wait", "CleanReturn"),
            ranked("Refuse", "LiveReplicaUnmeasured", "Fenced", "Fenced"),
            ranked("Refuse", "NoCandidate", "Fenced"),
            ranked("Refuse", "LiveReplicaUnmeasured"),
            ranked("Elect", None, "ReplicaOnOldEpoch", at_least=0),
            ranked("Elect", None, at_least=2**63 - 1),
            ranked("Elect", None, at_least=1),
        ]
    )

    assert found.reasons == (("LiveReplicaUnmeasured", 2), ("NoCandidate", 1))
    assert found.rejections == (("Fenced", 3), ("ReplicaOnOldEpoch", 1))
    assert (found.at_least, found.at_least_in) == (2**63, 2)


def test_leaders_are_shown_of_clusters_in_which_somebody_is_elected() -> None:
    rows = [leader(id, 5, n, cluster=f"c{n}") for n in range(LED + 3) for id in (2, 1)]

    found = ranking(leaders=rows).leaders

    assert [each.cluster for each in found.rows][:2] == [f"c{LED + 2}", f"c{LED + 1}"]
    assert (len(found.rows), found.more) == (LED, 2)
    assert found.rows[0].brokers.rows[0] == BrokerLeads(1, "a", 5, LED + 2, 2 * (LED + 2))


def test_a_run_that_found_nothing_has_zeros() -> None:
    empty = readiness()

    assert (empty.now, empty.clusters.rows, empty.maps.rows) == (Counts(), (), ())
    assert ranking().fate == Fate()
