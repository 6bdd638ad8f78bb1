"""Which outages become one incident, when, under which name; and why others are left alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.cluster.scan import OfflinePartition
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy, Rule, TopicSelector
from kafka_recovery.kube.watching.incidents import LARGEST_SCOPE, Docket, Names, Offline, docket
from kafka_recovery.kube.watching.outages import Outage
from kafka_recovery.kube.watching.room import INCIDENTS, NO_ROOM, NOTHING, Used
from unit.kube.watching.sights import offline, seconds

NAMES = Names("prod", "abc")


def rule(name: str = "all", patience: float = 30, *prefixes: str, replicas: int = 1) -> Rule:
    """`replicas`: its minReplicationFactor."""
    selector = TopicSelector(prefixes=prefixes)
    return Rule(name, selector, patience=seconds(patience), min_replication_factor=replicas)


def sorted_out(
    at: float,
    policy: Policy | None,
    *spells: tuple[OfflinePartition, float],
    open: Mapping[TopicPartition, str] | None = None,
    opened: Mapping[Outage, str] | None = None,
    names: Names = NAMES,
    used: Used = NOTHING,
) -> Docket:
    """The docket of partitions that are offline since so many seconds."""
    offline = [Offline(partition, seconds(since)) for partition, since in spells]
    return docket(offline, policy, open or {}, opened or {}, names, seconds(at), used=used)


def partitions(found: Docket) -> list[list[str]]:
    return [[str(each.id) for each in incident.partitions] for incident in found.incidents]


def left(found: Docket) -> dict[str, str]:
    return {str(id): reason.code for id, reason in found.left.items()}


class TestRoom:
    def test_what_has_no_room_is_not_opened_and_says_so(self) -> None:
        policy, full = Policy((rule(),)), Used(INCIDENTS.recoveries, 7)
        now, later = (sorted_out(99, policy, (offline(), 10), used=used) for used in (full, NOTHING))

        assert (partitions(now), left(now), now.next_at) == ([], {"orders-0": NO_ROOM}, None)
        assert (partitions(later), left(later)) == ([["orders-0"]], {})

    def test_a_smaller_one_is_opened_though_one_before_it_has_no_room(self) -> None:
        spells = [(offline("t" * 200, index), 10.0) for index in range(6000)]
        policy = Policy((rule(),))
        large, small = sorted_out(99, policy, *spells).incidents
        used = Used(1, INCIDENTS.partitions - len(small.partitions))

        assert len(large.partitions) > len(small.partitions)
        assert sorted_out(99, policy, *spells, used=used).incidents == (small,)


class TestWhen:
    def test_a_partition_is_waited_for_as_long_as_its_rule_says_and_then_opened(self) -> None:
        policy = Policy((rule(patience=0.5),))
        early, late = (sorted_out(at, policy, (offline(), 10)) for at in (10.4, 10.6))

        assert (partitions(early), left(early), early.next_at) == ([], {"orders-0": "Patience"}, seconds(10.55))
        assert (partitions(late), left(late), late.next_at) == ([["orders-0"]], {}, None)

    def test_what_fails_within_a_second_is_one_incident(self) -> None:
        """Brokers that die together are fenced one by one, as their sessions end."""
        spells = [(offline(partition=index), 10 + index / 50) for index in range(50)]
        policy = Policy((rule(patience=30),))

        opened = [found for at in range(400, 430) if (found := sorted_out(at / 10, policy, *spells)).incidents]

        assert len(opened[0].incidents) == 1
        assert len(opened[0].incidents[0].partitions) == 50
        assert opened[0].incidents[0].since == seconds(10)

    def test_waiting_for_company_is_never_longer_than_a_tenth_of_the_patience(self) -> None:
        policy = Policy((rule(patience=2),))

        assert partitions(sorted_out(12.1, policy, (offline(), 10))) == []
        assert partitions(sorted_out(12.2, policy, (offline(), 10))) == [["orders-0"]]

    def test_nobody_is_opened_before_his_own_patience_is_over(self) -> None:
        policy = Policy((rule("hasty", 1, "pay"), rule("calm", 60)))
        found = sorted_out(20, policy, (offline("pay"), 10), (offline("orders"), 10))

        assert (partitions(found), left(found)) == ([["pay-0"]], {"orders-0": "Patience"})
        assert found.next_at == seconds(71)


class TestLeftAlone:
    def test_a_topic_that_no_rule_selects_is_observed_only(self) -> None:
        found = sorted_out(99, Policy((rule("pay", 0, "pay"),)), (offline("orders"), 0))

        assert (partitions(found), left(found), found.next_at) == ([], {"orders-0": "NoRule"}, None)

    def test_too_few_replicas_just_wait(self) -> None:
        policy = Policy((rule(patience=0, replicas=2),))
        found = sorted_out(99, policy, (offline(replicas=1), 0), (offline("pay", replicas=2), 0))

        assert (partitions(found), left(found)) == ([["pay-0"]], {"orders-0": "ReplicationFactorTooLow"})

    def test_without_a_policy_nothing_is_opened(self) -> None:
        found = sorted_out(99, None, (offline(), 0))

        assert (partitions(found), left(found)) == ([], {"orders-0": "NoPolicy"})

    def test_a_partition_in_an_open_recovery_gets_no_second_one(self) -> None:
        policy, both = Policy((rule(patience=0),)), ((offline(), 0), (offline("pay"), 0))
        found = sorted_out(99, policy, *both, open={TopicPartition("pay", 0): "prod-1"})

        assert (partitions(found), left(found)) == ([["orders-0"]], {"pay-0": "InOtherRecovery"})
        assert "prod-1" in found.left[TopicPartition("pay", 0)].message

    def test_an_outage_that_had_its_recovery_gets_no_second_one(self) -> None:
        policy, opened = Policy((rule(patience=0),)), {Outage.of(offline()): "prod-1"}

        assert left(sorted_out(99, policy, (offline(), 0), opened=opened)) == {"orders-0": "LeftByEarlierRecovery"}
        assert partitions(sorted_out(99, policy, (offline(epoch=6), 0), opened=opened)) == [["orders-0"]]


class TestNames:
    def test_a_name_depends_on_the_outages_and_not_on_their_order(self) -> None:
        three = [offline(), offline(partition=1), offline("pay")]

        assert len({NAMES.of(order) for order in permutations(three)}) == 1

    def test_another_epoch_topic_partition_or_cluster_is_another_name(self) -> None:
        others = [offline(epoch=6), offline(topic_id="another"), offline(partition=1), offline()]
        names = [NAMES.of([offline()]), *(NAMES.of([other]) for other in others[:3])]
        names += [Names("prod", "other").of([offline()]), NAMES.of([offline(), offline(partition=1)])]

        assert len(set(names)) == len(names)

    def test_a_long_name_of_a_cluster_is_cut_to_what_a_label_holds(self) -> None:
        for cluster in ("p" * 253, "a." * 100, "-".join("abcdefghijklmnopqrstuvwxyz" * 3), "prod"):
            name = Names(cluster, "abc").of([offline()])

            assert len(name) <= 63
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name), name


class TestLarge:
    def test_more_are_split_into_objects_that_can_be_stored(self) -> None:
        policy = Policy((rule(patience=0),))
        spells = [(offline(f"some-topic-{i // 100:03d}", i % 100), 0.0) for i in range(20_001)]
        found = sorted_out(0, policy, *spells)

        sizes = [len(json.dumps(incident.scope, separators=(",", ":"))) for incident in found.incidents]
        assert max(sizes) <= LARGEST_SCOPE
        assert len(sizes) == 2
        assert sum(len(incident.partitions) for incident in found.incidents) == 20_001

    def test_if_only_the_first_part_could_be_opened_the_rest_keeps_its_name(self) -> None:
        policy = Policy((rule(patience=0),))
        spells = [(offline("t" * 249, index), 0.0) for index in range(6000)]
        whole = sorted_out(0, policy, *spells)
        first, *rest = whole.incidents
        opened = {Outage.of(partition): first.name for partition in first.partitions}

        assert sorted_out(1, policy, *spells, opened=opened).incidents == tuple(rest)


ids = st.builds(
    offline,
    st.sampled_from(("pay", "orders", "logs")),
    st.integers(0, 5),
    epoch=st.integers(0, 2),
    replicas=st.integers(1, 3),
)
spells = st.lists(st.tuples(ids, st.integers(0, 100)), unique_by=lambda spell: spell[0].id)
rules = st.builds(
    lambda prefixes, patience, replicas: rule("r", patience, *prefixes, replicas=replicas),
    st.sampled_from(((), ("pay",), ("orders",))),
    st.sampled_from((0, 1, 30)),
    st.integers(1, 3),
)
policies = st.lists(rules, max_size=3).map(
    lambda rules: Policy(tuple(replace(each, name=f"r{index}") for index, each in enumerate(rules)))
)


class TestAlways:
    @given(spells, policies, st.integers(0, 150), st.data())
    def test_every_partition_is_in_one_incident_or_left_alone_with_a_reason(
        self, spells: list[tuple[OfflinePartition, int]], policy: Policy, at: int, data: st.DataObject
    ) -> None:
        open = {partition.id: "r" for partition, _ in spells if data.draw(st.integers(0, 4)) == 0}
        found = sorted_out(at, policy, *spells, open=open)

        told = [each.id for incident in found.incidents for each in incident.partitions] + list(found.left)
        assert sorted(told) == sorted(partition.id for partition, _ in spells)
        assert not {each.id for incident in found.incidents for each in incident.partitions} & open.keys()

    @given(spells, policies)
    def test_nothing_that_is_due_is_ever_forgotten(
        self, spells: list[tuple[OfflinePartition, int]], policy: Policy
    ) -> None:
        """Looking when the docket says so opens everything that a rule wants, never early, at most a second late."""
        opened: dict[Outage, str] = {}
        opened_at: dict[TopicPartition, timedelta] = {}
        at: timedelta | None = seconds(0)
        while at is not None:
            now = [(partition, since) for partition, since in spells if seconds(since) <= at]
            found = sorted_out(at.total_seconds(), policy, *now, opened=opened)
            for incident in found.incidents:
                opened |= {Outage.of(partition): incident.name for partition in incident.partitions}
                opened_at |= {partition.id: at for partition in incident.partitions}
            coming = [seconds(since) for _, since in spells if seconds(since) > at]
            at = min([*coming, *([found.next_at] if found.next_at else [])], default=None)

        for partition, since in spells:
            rule = policy.rule_for(partition.id.topic)
            wanted = rule is not None and len(partition.assignment) >= rule.min_replication_factor
            assert (partition.id in opened_at) == wanted
            if rule is not None and wanted:
                late = opened_at[partition.id] - seconds(since) - rule.patience
                assert timedelta(0) <= late <= seconds(1)

    @given(spells, st.randoms(use_true_random=False))
    def test_names_depend_on_nothing_but_the_set(
        self, spells: list[tuple[OfflinePartition, int]], random: Random
    ) -> None:
        policy = Policy((rule(patience=0),))
        other_times = [(replace(partition, isr=()), 0) for partition, _ in spells]
        random.shuffle(other_times)

        one, other = sorted_out(200, policy, *spells), sorted_out(300, policy, *other_times)

        assert [each.name for each in one.incidents] == [each.name for each in other.incidents]
