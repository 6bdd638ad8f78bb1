"""The cheap look, and the one at every partition: what they cost, and what slow and silent brokers do to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeTopicPartitionsResponse,
)

from kafka_recovery.cluster import listing as listing_module
from kafka_recovery.cluster import pulse as pulse_module
from kafka_recovery.cluster.errors import ClusterIdMismatch, ClusterUnavailable, InvalidAnswer
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.pulse import Pulse
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from unit.cluster.codes import code_of
from unit.cluster.play import EPOCH, PATIENCE, SOON, Play, Stale, offline
from unit.cluster.stage import Heard, StagedBroker

AT_ONCE = listing_module.AT_ONCE.total_seconds()


@asynccontextmanager
async def on_stage(play: Play, *brokers: int) -> AsyncIterator[KafkaCluster]:
    async with play.staged(*brokers), play.cluster() as cluster:
        yield cluster


def reachable(pulse: Pulse) -> dict[int, bool | None]:
    return {int(id): told.reachable for id, told in pulse.brokers.items()}


def is_whole(pulse: Pulse) -> bool:
    """Whether every broker answered within this pulse, which on a busy machine one may fail to do."""
    return set(reachable(pulse).values()) == {True}


async def whole_pulse(cluster: KafkaCluster) -> Pulse:
    while not is_whole(pulse := await cluster.pulse(PATIENCE)):
        pass
    return pulse


def silence(heard: Heard) -> None:
    """Nothing."""


class TestPulse:
    async def test_it_tells_who_there_is_who_is_fenced_who_answers_and_what_each_has_applied(self) -> None:
        async with on_stage(Play(fenced={3}, applied={1: 100, 2: 98, 3: 40}), 1, 2, 3) as cluster:
            pulse = await cluster.pulse(PATIENCE)

        assert reachable(pulse) == {1: True, 2: True, 3: True}
        assert {id: told.applied for id, told in pulse.brokers.items()} == {1: 100, 2: 98, 3: 40}
        assert [id for id, told in pulse.brokers.items() if told.entry.fenced] == [3]
        assert (pulse.cluster_id, pulse.lists_fenced, pulse.disagreement) == ("a-play", True, None)

    async def test_it_asks_two_brokers_who_there_is_and_nobody_about_topics(self) -> None:
        play = Play()
        play.add(offline())
        async with on_stage(play, 1, 2, 3) as cluster:
            for _ in range(3):
                await cluster.pulse(PATIENCE)
            for member in play.members.values():
                member.heard.clear()
            await cluster.pulse(PATIENCE)

        assert len(play.asked("DescribeCluster")) == 2
        assert len(play.asked("ApiVersions")) == 3
        assert {heard.name for member in play.members.values() for heard in member.heard} == {
            "DescribeCluster",
            "ApiVersions",
        }

    async def test_a_silent_broker_delays_one_pulse_a_little_and_no_other(self) -> None:
        play = Play()
        async with on_stage(play, 1, 2, 3) as cluster:
            await cluster.pulse(PATIENCE)
            play.members[3].roles["ApiVersions"] = silence
            seen, took = [], []
            for _ in range(5):
                pulse = await cluster.pulse(PATIENCE)
                seen.append(reachable(pulse)[3])
                took.append(pulse.took.total_seconds())

        assert seen == [None] * 5, "it may still answer"
        assert took[0] < PATIENCE.total_seconds() / 5
        assert max(took[1:]) < AT_ONCE

    async def test_after_its_deadline_a_silent_broker_does_not_answer(self) -> None:
        play = Play()
        async with on_stage(play, 1, 2) as cluster:
            await cluster.pulse(SOON)
            play.members[2].roles["ApiVersions"] = silence
            told = None
            until = loop_time() + 5
            while (told is None or told.reachable is None) and loop_time() < until:
                await asyncio.sleep(AT_ONCE)
                told = (await cluster.pulse(SOON)).brokers[BrokerId(2)]

        assert told
        assert (told.reachable, told.refused) == (False, False)
        assert code_of(told.fault) == "BrokerTimeout"
        assert told.applied == 100, "what it said last"

    @pytest.mark.kernel
    async def test_a_pause_of_this_process_is_no_silence_of_the_brokers(self) -> None:
        play = Play()
        async with on_stage(play, 1, 2) as cluster:
            await cluster.pulse(SOON)
            answer = listing(play)
            paused: list[str] = []

            def everything_stands_still(heard: Heard) -> DescribeClusterResponse | None:
                if len(paused) == 2:
                    return copy(answer)
                time.sleep(SOON.total_seconds())
                paused.append(heard.name)
                return None

            for member in play.members.values():
                member.roles["DescribeCluster"] = everything_stands_still
            pulse = await cluster.pulse(SOON)

        assert len(paused) == 2
        assert reachable(pulse) == {1: True, 2: True}

    async def test_a_broker_that_refuses_connections_is_told_from_a_silent_one(self) -> None:
        play = Play()
        async with on_stage(play, 1, 2) as cluster:
            await cluster.pulse(PATIENCE)
            answer = listing(play)
            play.members[1].roles["DescribeCluster"] = lambda heard: copy(answer)
            await play.members[2].__aexit__(None, None, None)
            await cluster.pulse(PATIENCE)
            told = (await cluster.pulse(PATIENCE)).brokers[BrokerId(2)]

        assert (told.reachable, told.refused) == (False, True)

    async def test_whoever_hangs_when_asked_who_there_is_is_passed_over(self) -> None:
        play = Play()
        async with on_stage(play, 1, 2, 3) as cluster:
            await cluster.pulse(PATIENCE)
            for broker in (1, 2):
                play.members[broker].roles["DescribeCluster"] = silence
            pulse = await cluster.pulse(PATIENCE)
            assert pulse.view_from == play.address(3)

        assert pulse.took < PATIENCE / 5

    async def test_the_newest_metadata_say_who_is_alive(self) -> None:
        """A broker that is cut off from the controller lists what was."""
        play = Play(applied={1: 50, 2: 100, 3: 100}, stale={1: Stale((1,), (2, 3))})
        async with on_stage(play, 1, 2, 3) as cluster:
            pulses = [await whole_pulse(cluster) for _ in range(5)]
            assert {pulse.view_from for pulse in pulses} <= {play.address(2), play.address(3)}

        assert not any(told.entry.fenced for pulse in pulses for told in pulse.brokers.values())
        assert [pulse.disagreement for pulse in pulses] == [None] * 5, "it knows less: that is no disagreement"

    async def test_even_the_first_pulse_is_not_taken_from_a_broker_that_is_cut_off(self) -> None:
        play = Play(applied={1: 50, 2: 100, 3: 100}, stale={1: Stale((1,), (2, 3))})
        first: Pulse | None = None
        async with play.staged(1, 2, 3):
            while first is None or not is_whole(first):
                async with KafkaCluster([play.address(1)], PLAINTEXT) as cluster:
                    first = await cluster.pulse(PATIENCE)

        assert not any(told.entry.fenced for told in first.brokers.values())

    async def test_brokers_that_know_as_much_and_see_others_alive_disagree_until_they_agree_again(self) -> None:
        play = Play()
        async with on_stage(play, 1, 2, 3) as cluster:
            await cluster.pulse(PATIENCE)
            play.stale[3] = Stale((1, 3), (2,))
            pulses = [await cluster.pulse(PATIENCE) for _ in range(5)]
            del play.stale[3]
            at_last = await cluster.pulse(PATIENCE)

        disagreements = [pulse.disagreement.code for pulse in pulses if pulse.disagreement]
        assert len(disagreements) >= 4, "the witness is asked again before another one is"
        assert set(disagreements) == {"BrokersDisagree"}
        assert at_last.disagreement is None

    async def test_kafka_3_9_leaves_fenced_brokers_out(self) -> None:
        play = Play(lists_fenced=False)
        async with on_stage(play, 1, 2, 3) as cluster:
            before = await cluster.pulse(PATIENCE)
            play.fenced.add(3)
            after = await cluster.pulse(PATIENCE)

        assert (set(before.brokers), set(after.brokers)) == ({1, 2, 3}, {1, 2})
        assert not after.lists_fenced

    async def test_a_broker_that_is_new_is_asked_in_the_pulse_that_finds_it(self) -> None:
        play = Play()
        async with play.staged(1), play.cluster() as cluster:
            await cluster.pulse(PATIENCE)
            async with play.staged(2):
                pulse = await cluster.pulse(PATIENCE)

        assert reachable(pulse) == {1: True, 2: True}

    async def test_of_many_brokers_some_are_asked_each_time_in_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pulse_module, "_ASKED_AT_ONCE", 2)
        async with on_stage(Play(), 1, 2, 3, 4, 5) as cluster:
            asked = [reachable(await cluster.pulse(PATIENCE)) for _ in range(3)]

        assert [sum(found is True for found in pulse.values()) for pulse in asked] == [2, 2, 2]
        assert {id for pulse in asked for id, found in pulse.items() if found} == {1, 2, 3, 4, 5}

    async def test_a_cluster_that_moved_is_found_where_it_was_first_looked_for(self) -> None:
        play = Play()
        async with play.staged(1, 2), KafkaCluster([play.address(1)], PLAINTEXT) as cluster:
            truth, play.members[1].roles["DescribeCluster"] = (
                play.members[1].roles["DescribeCluster"],
                lambda heard: listing(play, port=1),
            )
            await cluster.pulse(PATIENCE)
            play.members[1].roles["DescribeCluster"] = truth
            pulse = await cluster.pulse(PATIENCE)

        assert reachable(pulse) == {1: True, 2: True}

    async def test_another_cluster_is_refused(self) -> None:
        play = Play()
        async with play.staged(1), KafkaCluster([play.address(1)], PLAINTEXT, "another") as cluster:
            with pytest.raises(ClusterIdMismatch):
                await cluster.pulse(PATIENCE)

    async def test_a_cluster_that_becomes_another_one_is_refused(self) -> None:
        play = Play()
        async with on_stage(play, 1) as cluster:
            await cluster.pulse(PATIENCE)
            play.members[1].roles["DescribeCluster"] = lambda heard: listing(play, cluster_id="another")
            with pytest.raises(ClusterIdMismatch):
                await cluster.pulse(PATIENCE)

    async def test_if_nobody_answers_it_ends_in_time_and_says_why(self) -> None:
        async with StagedBroker({"ApiVersions": silence}) as hole, KafkaCluster([hole.address], PLAINTEXT) as cluster:
            began = loop_time()
            with pytest.raises(ClusterUnavailable, match="DescribeCluster"):
                await cluster.pulse(SOON)

        assert loop_time() - began < SOON.total_seconds() + AT_ONCE

    async def test_after_an_outage_the_next_pulse_finds_everybody_again(self) -> None:
        play = Play()
        async with on_stage(play, 1, 2) as cluster:
            await cluster.pulse(PATIENCE)
            roles = {id: dict(member.roles) for id, member in play.members.items()}
            for member in play.members.values():
                member.roles["DescribeCluster"] = member.roles["ApiVersions"] = silence
            with pytest.raises(ClusterUnavailable):
                await cluster.pulse(SOON)
            for id, member in play.members.items():
                member.roles = roles[id]
            while None in (found := reachable(await cluster.pulse(PATIENCE))).values():
                pass  # on a busy machine an answer may come after its pulse

        assert found == {1: True, 2: True}

    async def test_the_controller_is_asked_only_on_demand(self) -> None:
        play = Play(watermark=123)
        async with on_stage(play, 1, 2) as cluster:
            assert (await cluster.pulse(PATIENCE)).committed is None
            assert (await cluster.pulse(PATIENCE, ask_controller=True)).committed == 123

    async def test_what_a_pulse_saw_helps_a_gather_to_find_a_broker_that_is_listed_no_more(self) -> None:
        play = Play(lists_fenced=False)
        async with on_stage(play, 1, 2) as cluster:
            await cluster.pulse(PATIENCE)

            assert set(cluster._members.listing.known) == {1, 2}


class TestScan:
    async def test_it_keeps_offline_partitions_of_all_pages_and_nothing_of_the_others(self) -> None:
        play = Play(page=2)
        for index in range(7):
            id = TopicPartition("orders", index) if index < 5 else TopicPartition("pay", index - 5)
            state = offline(id, elr=(BrokerId(2),))
            play.add(state if index % 2 else replace(state, leader=BrokerId(2)))
        async with on_stage(play, 1, 2, 3) as cluster:
            found = await cluster.scan(PATIENCE)

        assert [str(each.id) for each in found.offline] == ["orders-1", "orders-3", "pay-0"]
        assert (found.offline[0].leader_epoch, found.offline[0].assignment) == (EPOCH, (1, 2, 3))
        assert (found.offline[0].isr, found.offline[0].elr) == ((1,), (2,))
        assert (found.topics, found.partitions) == (("orders", "pay"), 7)
        assert len(play.asked("DescribeTopicPartitions")) == 4

    async def test_it_goes_through_the_broker_whose_metadata_the_last_pulse_read(self) -> None:
        play = Play(applied={1: 10, 2: 100, 3: 10})
        async with on_stage(play, 1, 2, 3) as cluster:
            await cluster.pulse(PATIENCE)
            pulse = await cluster.pulse(PATIENCE)
            await cluster.scan(PATIENCE)
            assert pulse.view_from == play.address(2)

        assert play.members[2].names()[-1] == "DescribeTopicPartitions"

    async def test_if_that_broker_fails_another_one_is_gone_through(self) -> None:
        play = Play()
        play.add(offline())
        async with on_stage(play, 1, 2, 3) as cluster:
            first = (await cluster.pulse(PATIENCE)).view_from
            broker = next(member for member in play.members.values() if member.address == first)
            broker.roles["DescribeTopicPartitions"] = lambda heard: heard.cut()
            found = await cluster.scan(timedelta(seconds=2))

        assert [each.id for each in found.offline] == [TopicPartition("orders", 0)]

    async def test_pages_that_do_not_advance_are_refused(self) -> None:
        kind = DescribeTopicPartitionsResponse

        def again(heard: Heard) -> Any:
            return kind(topics=[], next_cursor=kind.Cursor(topic_name="orders", partition_index=3))

        play = Play()
        async with on_stage(play, 1) as cluster:
            play.members[1].roles["DescribeTopicPartitions"] = again
            with pytest.raises(InvalidAnswer, match="does not advance"):
                await cluster.scan(PATIENCE)

    async def test_topics_that_kafka_elects_in_by_itself_are_told_and_unread_ones_counted(self) -> None:
        play = Play()
        async with on_stage(play, 1) as cluster:
            play.members[1].roles["DescribeConfigs"] = configs(orders="true", pay="false", secret=None)
            found = await cluster.unclean_topics(("orders", "pay", "secret"), PATIENCE)

        assert (found.topics, found.unread) == (("orders",), 1)


def listing(play: Play, cluster_id: str = "a-play", port: int | None = None) -> Any:
    """DescribeCluster of another cluster, or of one whose brokers live elsewhere."""
    entry = DescribeClusterResponse.DescribeClusterBroker
    places = {id: play.address(id) for id in play.members}
    brokers = [entry(broker_id=id, host=at.host, port=port or at.port, rack=None) for id, at in places.items()]
    return DescribeClusterResponse(cluster_id=cluster_id, controller_id=1, brokers=brokers, authorized_operations=set())


def configs(**unclean: str | None) -> Any:
    """DescribeConfigs' role; None: that topic's are not shown."""
    kind = DescribeConfigsResponse.DescribeConfigsResult

    def role(heard: Heard) -> Any:
        results = []
        for resource in heard.message.resources:
            value = unclean[resource.resource_name]
            config = kind.DescribeConfigsResourceResult(
                name="unclean.leader.election.enable",
                value=value,
                read_only=False,
                config_source=1,
                is_sensitive=False,
                synonyms=[],
                config_type=1,
                documentation=None,
            )
            results.append(
                kind(
                    error_code=0 if value else 29,
                    error_message=None,
                    resource_type=2,
                    resource_name=resource.resource_name,
                    configs=[config] if value else [],
                )
            )
        return DescribeConfigsResponse(results=results)

    return role
