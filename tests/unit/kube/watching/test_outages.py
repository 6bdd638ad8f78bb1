"""What a finished recovery left offline, in its status and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.kube.watching.outages import LARGEST, Outage, left_offline, outages_left, with_begins
from unit.decision.incident import NOON, evidence, log, partition


def outage(topic: str, partition: int, epoch: int, id: str = "abc") -> Outage:
    return Outage(TopicPartition(topic, partition), TopicId(id), LeaderEpoch(epoch))


OUTAGES = st.builds(outage, st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 3), st.sampled_from(["x", "y"]))


@given(st.frozensets(OUTAGES))
def test_what_was_left_comes_back_as_it_was(left: frozenset[Outage]) -> None:
    assert outages_left({"leftOffline": left_offline(left)}) == left


def test_partitions_of_a_topic_with_one_leader_epoch_stand_together() -> None:
    assert left_offline([outage("t", 2, 5), outage("t", 0, 5), outage("t", 1, 6)]) == [
        {"topic": "t", "topicId": "abc", "leaderEpoch": 5, "partitions": [0, 2]},
        {"topic": "t", "topicId": "abc", "leaderEpoch": 6, "partitions": [1]},
    ]


def test_more_than_a_status_holds_is_cut_between_topics() -> None:
    left = left_offline(outage(f"{topic:04}" + "t" * 240, 0, 0) for topic in range(2000))

    assert 0.9 * LARGEST < len(repr(left).replace(" ", "")) < LARGEST
    assert [group["topic"][:4] for group in left] == [f"{topic:04}" for topic in range(len(left))]


@pytest.mark.parametrize(
    "said",
    [
        None,
        "all of them",
        ["t-0"],
        [{"topic": "t"}],
        [{"topic": "t", "topicId": "abc", "leaderEpoch": "5", "partitions": [0]}],
        [{"topic": "t", "topicId": "abc", "leaderEpoch": 5, "partitions": "0"}],
        [{"topic": "t", "topicId": "abc", "leaderEpoch": 5, "partitions": ["0", None]}],
    ],
)
def test_a_status_that_somebody_else_wrote_holds_nothing_back_and_ends_nothing(said: Any) -> None:
    assert outages_left({"leftOffline": said}) == frozenset()


OFFLINE = partition({1: None, 2: log(27)})
BEFORE = NOON - timedelta(minutes=13)


class TestSinceWhen:
    def told(self, seen: PartitionEvidence, since: timedelta = NOON - BEFORE) -> object:
        """Since when it has no leader, by who saw that at first so long before the evidence."""
        (found,) = with_begins(evidence(seen), {Outage.of(OFFLINE): NOON - since}).partitions
        return found.offline_since

    def test_a_partition_has_had_no_leader_since_that_was_seen_first(self) -> None:
        assert self.told(OFFLINE) == BEFORE

    def test_what_the_metadata_log_tells_is_not_replaced(self) -> None:
        earlier = BEFORE - timedelta(minutes=2)
        assert self.told(replace(OFFLINE, offline_since=earlier)) == earlier

    def test_another_outage_and_a_partition_that_is_led_have_nothing_of_it(self) -> None:
        assert self.told(replace(OFFLINE, leader_epoch=LeaderEpoch(OFFLINE.leader_epoch + 1))) is None
        assert self.told(replace(OFFLINE, leader=BrokerId(2))) is None

    def test_a_time_after_the_look_is_another_clocks(self) -> None:
        assert self.told(OFFLINE, timedelta(0)) == NOON
        assert self.told(OFFLINE, timedelta(seconds=-1)) is None
