"""What a finished recovery left offline, in its status and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.domain.ids import LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.kube.watching.outages import LARGEST, Outage, left_offline, outages_left


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
