"""Reading metadata: page by page, only what is wanted, and nothing that can't be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeTopicPartitionsResponse

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import InvalidAnswer
from kafka_recovery.cluster.scan import scan
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from unit.cluster.play import PATIENCE, Play, offline
from unit.cluster.stage import Heard


@asynccontextmanager
async def asking(play: Play) -> AsyncIterator[tuple[Brokers, Address]]:
    async with play.staged(1), Brokers(PLAINTEXT) as brokers:
        yield brokers, play.address(1)


def many(**partitions: int) -> Play:
    """A cluster with so many partitions of each topic."""
    play = Play()
    for topic, count in partitions.items():
        for index in range(count):
            play.add(offline(TopicPartition(topic, index)))
    return play


class TestPages:
    @pytest.mark.parametrize("page", [1, 3, 7, 2000])
    async def test_everything_is_found_whatever_the_size_of_a_page(self, page: int) -> None:
        play = many(orders=5, payments=2, stock=4)
        play.page = page
        async with asking(play) as (brokers, at):
            found = await metadata.describe_partitions(brokers, at, None, PATIENCE)

        assert dict(found.states) == play.states

    async def test_of_one_topic_only_the_wanted_stretch_is_read(self) -> None:
        play = many(orders=1000)
        async with asking(play) as (brokers, at):
            wanted = [TopicPartition("orders", 500), TopicPartition("orders", 503)]
            found = await metadata.describe_partitions(brokers, at, wanted, PATIENCE)

        assert [id.partition for id in found.states] == [500, 501, 502, 503]
        assert len(play.asked("DescribeTopicPartitions")) == 1

    async def test_a_stretch_longer_than_a_page_is_read_to_its_end_and_no_further(self) -> None:
        play = many(orders=20)
        play.page = 3
        async with asking(play) as (brokers, at):
            wanted = [TopicPartition("orders", 2), TopicPartition("orders", 9)]
            found = await metadata.describe_partitions(brokers, at, wanted, PATIENCE)

        assert {*range(2, 10)} <= {id.partition for id in found.states} <= {*range(2, 11)}
        assert len(play.asked("DescribeTopicPartitions")) == 3

    async def test_nothing_wanted_is_nothing_asked(self) -> None:
        async with asking(many(orders=1)) as (brokers, at):
            assert not (await metadata.describe_partitions(brokers, at, [], PATIENCE)).states

    async def test_a_topic_that_is_not_there_is_unseen_and_the_others_are_seen(self) -> None:
        async with asking(many(orders=1)) as (brokers, at):
            wanted = [TopicPartition("orders", 0), TopicPartition("ordres", 0)]
            found = await metadata.describe_partitions(brokers, at, wanted, PATIENCE)

        assert list(found.states) == [TopicPartition("orders", 0)]
        assert found.unseen["ordres"].code == "UnknownTopicOrPartition"

    async def test_pages_that_do_not_advance_are_not_turned_forever(self) -> None:
        play = many(orders=3)
        cursor = DescribeTopicPartitionsResponse.Cursor(topic_name="orders", partition_index=1)
        pages = iter([cursor, cursor, None])

        def stuck(heard: Heard) -> Any:
            return DescribeTopicPartitionsResponse(topics=[], next_cursor=next(pages))

        async with asking(play) as (brokers, at):
            play.members[1].roles["DescribeTopicPartitions"] = stuck
            with pytest.raises(InvalidAnswer, match="does not advance beyond orders"):
                await metadata.describe_partitions(brokers, at, None, PATIENCE)

    async def test_a_topic_that_was_not_asked_about_is_no_answer(self) -> None:
        play = many(orders=1, payments=1)

        def other(heard: Heard) -> Any:
            heard.message.topics, heard.message.cursor = [], None
            heard.message.response_partition_limit = 2000
            return play.describe_partitions(heard)

        async with asking(play) as (brokers, at):
            play.members[1].roles["DescribeTopicPartitions"] = other
            with pytest.raises(InvalidAnswer, match="'payments', which was not asked"):
                await metadata.describe_partitions(brokers, at, [TopicPartition("orders", 0)], PATIENCE)

    @pytest.mark.parametrize("page", [2, 2000])
    async def test_a_partition_out_of_its_turn_is_no_answer(self, page: int) -> None:
        """What is garbled on its way would be a partition that is not there, and the one in its place would be gone."""
        play = many(orders=3)
        play.page = page

        def garbled(heard: Heard) -> Any:
            answer = play.describe_partitions(heard)
            for part in (part for topic in answer.topics for part in topic.partitions):
                part.partition_index += 7 if part.partition_index == 2 else 0
            return answer

        async with asking(play) as (brokers, at):
            play.members[1].roles["DescribeTopicPartitions"] = garbled
            with pytest.raises(InvalidAnswer, match="orders-9 where orders-2 has its turn"):
                await metadata.describe_partitions(brokers, at, None, PATIENCE)
            with pytest.raises(InvalidAnswer, match="orders-9 where orders-2 has its turn"):
                await scan(brokers, at, PATIENCE)


@pytest.mark.parametrize("replicas", [(), (1, 1), (-1, 2)])
async def test_replicas_that_can_not_be_are_no_answer(replicas: tuple[int, ...]) -> None:
    play = Play()
    state = offline()
    play.states[state.id] = replace(state, replicas=tuple(map(BrokerId, replicas)))
    async with asking(play) as (brokers, at):
        with pytest.raises(InvalidAnswer, match="which can't be"):
            await metadata.describe_partitions(brokers, at, None, PATIENCE)


async def test_a_leader_epoch_that_no_other_could_follow_is_no_answer() -> None:
    """The largest number there is: what garbled bytes come to, and two of them alike."""
    play = Play()
    state = offline()
    play.states[state.id] = replace(state, leader_epoch=LeaderEpoch(2**31 - 1))
    async with asking(play) as (brokers, at):
        with pytest.raises(InvalidAnswer, match="the leader epoch 2147483647, which no other could follow"):
            await metadata.describe_partitions(brokers, at, None, PATIENCE)


@pytest.mark.parametrize("lists_fenced", [True, False])
async def test_fenced_brokers_are_asked_for_where_the_release_lists_them(lists_fenced: bool) -> None:
    play = Play(fenced={2}, lists_fenced=lists_fenced)
    async with play.staged(1, 2), Brokers(PLAINTEXT) as brokers:
        found = await metadata.describe_cluster(brokers, play.address(1), PATIENCE)

    assert found.lists_fenced is lists_fenced
    assert {id: entry.fenced for id, entry in found.brokers.items()} == (
        {1: False, 2: True} if lists_fenced else {1: False}
    )


async def test_a_quorum_that_may_not_be_described_is_a_reason_not_a_number() -> None:
    async with asking(Play(watermark=None)) as (brokers, at):
        found = await metadata.quorum_high_watermark(brokers, at, PATIENCE)

    assert not isinstance(found, int)
    assert "DESCRIBE on the cluster" in found.message
