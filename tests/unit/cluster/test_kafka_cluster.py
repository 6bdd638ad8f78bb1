"""One look at everything: what becomes of brokers that are fenced, silent, slow or unknown, and of their replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsResponse

from kafka_recovery.cluster import advancing, metadata
from kafka_recovery.cluster.errors import BrokerTimeout, InvalidAnswer, StaleMetadata, TooLate
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.domain.election import ALL_OFFLINE, Gone, Leadership, Scope, Unseen
from kafka_recovery.domain.evidence import Evidence, Replica
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from unit.cluster.codes import code_of
from unit.cluster.play import EPOCH, ORDERS, PATIENCE, SOON, Log, Play, offline
from unit.cluster.stage import Heard, after, versions

RULES = EvidenceRules(deadline=PATIENCE, attempts=3)
HURRIED = EvidenceRules(deadline=SOON, attempts=3)


def disaster(**play: Any) -> Play:
    """orders-0 lost its leader 1; brokers 2 and 3 hold it."""
    found = Play(**play)
    found.add(offline(), b1=Log(30), b2=Log(27), b3=Log(15))
    return found


async def gathered(play: Play, rules: EvidenceRules = RULES) -> Evidence:
    async with play.cluster() as cluster:
        return await cluster.gather(ALL_OFFLINE, rules)


def replica(evidence: Evidence, broker: int) -> Replica:
    found = evidence.partitions[0].replica(BrokerId(broker))
    assert found
    return found


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that did not move in 300 ms stands still."""
    monkeypatch.setattr(advancing, "STANDSTILL", timedelta(milliseconds=300))


def problem(evidence: Evidence, broker: int) -> str | None:
    found = replica(evidence, broker).problem
    return found.code if found else None


class TestGathering:
    async def test_every_replica_is_asked_of_its_own_broker(self) -> None:
        play = disaster()
        async with play.staged(1, 2, 3):
            evidence = await gathered(play)

        logs = [each.log for each in evidence.partitions[0].replicas]
        assert [log.end for log in logs if log] == [30, 27, 15]
        assert evidence.partitions[0].leader_epoch == EPOCH

    async def test_partitions_that_have_a_leader_are_not_gathered_unless_asked_for(self) -> None:
        play = disaster()
        led = replace(offline(TopicPartition("orders", 1)), leader=BrokerId(2))
        play.add(led)
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            everything = await cluster.gather(ALL_OFFLINE, RULES)
            wanted = await cluster.gather(Scope((led.id, TopicPartition("orders", 9))), RULES)

        assert [partition.id for partition in everything.partitions] == [ORDERS]
        assert problem(wanted, 2) == "AlreadyOnline"
        assert [missing.reason.code for missing in wanted.missing] == ["PartitionGone"]

    async def test_replicas_of_a_partition_that_is_led_are_measured_if_that_is_wanted(self) -> None:
        play = disaster()
        led = replace(offline(TopicPartition("orders", 0)), leader=BrokerId(2))
        play.add(led)
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            wanted = await cluster.gather(Scope((led.id,), with_led=True), RULES)

        assert [log.end for replica in wanted.partitions[0].replicas if (log := replica.log)] == [30, 27, 15]

    async def test_a_broker_whose_address_nobody_knows_is_said_to_be_unknown(self) -> None:
        """Kafka 3.9 does not list fenced brokers: an old leader may be alive and can't be asked."""
        play = disaster(lists_fenced=False, fenced={1})
        async with play.staged(2, 3):
            evidence = await gathered(play)

        assert problem(evidence, 1) == "NotRegistered"
        assert evidence.cluster.broker(BrokerId(1)) is None
        assert replica(evidence, 2).problem is None

    async def test_a_broker_that_was_listed_before_is_asked_where_it_was(self) -> None:
        play = disaster(lists_fenced=False)
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            await cluster.gather(ALL_OFFLINE, RULES)
            play.fenced.add(1)
            play.logs[1, ORDERS] = Log(30, led_in=4, high_watermark=0)
            evidence = await cluster.gather(ALL_OFFLINE, RULES)

        gone = evidence.cluster.broker(BrokerId(1))
        assert gone
        assert (gone.registered, gone.fenced) == (None, True)
        assert replica(evidence, 1).leads

    @pytest.mark.parametrize(
        ("metadata_version", "release"),
        [
            *((7, "3.8 or earlier"), (20, "3.8 or earlier"), (21, "3.9"), (22, "4.0"), (25, "4.0"), (26, "4.1")),
            *((27, "4.1"), (28, "4.2"), (29, "4.2"), (30, "4.3"), (31, "4.4"), (33, "4.4"), (34, "newer than 4.4")),
        ],
    )
    async def test_a_release_is_known_by_the_highest_metadata_version_that_brokers_support(
        self, metadata_version: int, release: str
    ) -> None:
        """Request versions tell less: ListOffsets ends at 10 in Kafka 4.0 and in 4.1."""
        play = disaster(metadata_versions=dict.fromkeys((1, 2, 3), metadata_version))
        async with play.staged(1, 2, 3):
            evidence = await gathered(play)

        assert evidence.cluster.release == release
        assert evidence.cluster.releases == (release,)

    async def test_while_brokers_run_several_releases_all_of_them_are_told(self) -> None:
        play = disaster(metadata_versions={1: 34, 2: 25, 3: 21})
        async with play.staged(1, 2, 3):
            evidence = await gathered(play)

        assert evidence.cluster.releases == ("3.9", "4.0", "newer than 4.4")
        assert not evidence.cluster.lists_fenced

    async def test_a_broker_that_tells_no_metadata_version_tells_no_release(self) -> None:
        play = disaster()
        async with play.staged(1, 2, 3):
            for member in play.members.values():
                member.roles["ApiVersions"] = versions()
            evidence = await gathered(play)

        assert (evidence.cluster.release, evidence.cluster.releases) == (None, ())

    async def test_a_failed_log_directory_is_known_from_the_controller_too(self) -> None:
        """KIP-858: the controller would pass the replica over, even while the broker still answers about it."""
        play = disaster(fenced={1})
        play.states[ORDERS] = offline(offline=frozenset(map(BrokerId, (1, 2))))
        async with play.staged(1, 2, 3):
            evidence = await gathered(play)

        assert [problem(evidence, broker) for broker in (1, 2, 3)] == [None, "LogDirOffline", None]
        assert replica(evidence, 2).log

    async def test_members_of_an_elr_that_the_cluster_does_not_keep_are_none(self) -> None:
        """Whether the controller elects them is said by the level of its feature (KIP-966), not by their being told."""
        play = disaster()
        play.states[ORDERS] = offline(elr=(BrokerId(2),), last_known_elr=(BrokerId(3),))
        async with play.staged(1, 2, 3):
            (partition,) = (await gathered(play)).partitions

        assert (partition.elr, partition.last_known_elr) == (None, None)
        assert partition.clean_members == {1}


class TestTooMany:
    async def test_pages_that_show_more_than_any_cluster_has_are_not_gone_on_with(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(metadata, "MOST_PARTITIONS", 2)
        play = disaster(page=1)
        for index in (1, 2, 3):
            play.add(offline(TopicPartition("orders", index)))
        async with play.staged(1), play.cluster() as cluster:
            with pytest.raises(InvalidAnswer, match="more than 2 partitions"):
                await cluster.gather(ALL_OFFLINE, RULES)
            with pytest.raises(InvalidAnswer, match="more than 2 partitions"):
                await cluster.scan(PATIENCE)


class TestConfigs:
    @pytest.mark.parametrize(
        ("error", "says"), [(29, "lacks DESCRIBE_CONFIGS on topic orders"), (None, "closed the connection")]
    )
    async def test_why_they_could_not_be_read_is_evidence(self, error: int | None, says: str) -> None:
        play = disaster()
        async with play.staged(1, 2, 3):
            for id, member in play.members.items():
                member.roles["DescribeConfigs"] = partial(_refuses_topics, play, id, error)
            partition = (await gathered(play)).partitions[0]

        assert partition.min_isr is None
        assert says in str(partition.configs_problem)


def _refuses_topics(play: Play, broker: int, error: int | None, heard: Heard) -> Any:
    asked = heard.message.resources[0]
    if asked.resource_type != 2:
        return play.describe_configs(broker, heard)
    if error is None:
        return heard.cut()
    make = DescribeConfigsResponse.DescribeConfigsResult
    refused = make(error_code=error, resource_type=2, resource_name=asked.resource_name, configs=[])
    return DescribeConfigsResponse(results=[refused])


@pytest.mark.usefixtures("in_a_hurry")
class TestLateness:
    async def test_brokers_that_are_late_are_seen_to_be_and_so_is_the_controller(self) -> None:
        play = disaster(applied={1: 90, 2: 90, 3: 90}, watermark=101)
        async with play.staged(1, 2, 3):
            cluster = (await gathered(play)).cluster

        assert cluster.committed == 100
        assert [broker.metadata_advances for broker in cluster.brokers] == [False] * 3

    async def test_without_the_right_to_ask_it_is_not_known_what_the_controller_has_committed(self) -> None:
        play = disaster(watermark=None)
        async with play.staged(1, 2, 3):
            assert (await gathered(play)).cluster.committed is None


class TestSilence:
    @pytest.mark.parametrize("question", ["ListOffsets", "ApiVersions"])
    async def test_a_silent_broker_costs_so_many_attempts_and_no_more(self, question: str) -> None:
        """One that does not even tell its versions has used an attempt up."""
        play = disaster()
        async with play.staged(1, 2, 3):
            play.members[3].roles[question] = lambda heard: None
            began = loop_time()
            evidence = await gathered(play, HURRIED)
            took = loop_time() - began

        assert problem(evidence, 3) == "BrokerTimeout"
        assert took < HURRIED.attempts * SOON.total_seconds() + 0.5
        assert replica(evidence, 2).log

    async def test_a_broker_that_cuts_every_connection_is_not_surveyed_time_and_again(self) -> None:
        play = disaster()
        async with play.staged(1, 2, 3):
            play.members[3].roles["ListOffsets"] = lambda heard: heard.cut()
            evidence = await gathered(play)
            connections = play.members[3].connections

        assert problem(evidence, 3) == "BrokerUnreachable"
        assert connections <= 8

    async def test_a_survey_that_was_not_finished_is_tried_again(self) -> None:
        play = disaster()

        def silent_at_first(heard: Heard) -> Any:
            return play.fetch(3, heard) if len(play.members[3].names()) > 8 else None

        async with play.staged(1, 2, 3):
            play.members[3].roles["Fetch"] = silent_at_first
            evidence = await gathered(play, HURRIED)

        found = replica(evidence, 3)
        assert found.problem is None
        assert found.log
        assert found.log.epochs

    async def test_a_long_vector_is_read_on_where_the_last_attempt_ended(self) -> None:
        """Six steps, and the broker falls silent after every third."""
        play = disaster()
        play.logs[3, ORDERS] = Log(60, [(epoch, 10 * epoch) for epoch in range(6)])
        steps = count(1)

        def tired(heard: Heard) -> Any:
            return play.fetch(3, heard) if next(steps) % 4 else None

        async with play.staged(1, 2, 3):
            play.members[3].roles["Fetch"] = tired
            evidence = await gathered(play, HURRIED)

        found = replica(evidence, 3)
        assert found.problem is None
        assert found.log
        assert [tuple(entry) for entry in found.log.epochs or ()] == [(epoch, 10 * epoch) for epoch in range(6)]

    async def test_but_from_the_beginning_if_the_log_has_changed(self) -> None:
        play = disaster()
        log = play.logs[3, ORDERS] = Log(60, [(0, 0), (2, 10), (4, 20)])
        steps = count(1)

        def truncated(heard: Heard) -> Any:
            if next(steps) != 3:
                return play.fetch(3, heard)
            log.end, log.epochs = 15, [(0, 0), (2, 10)]
            return None

        async with play.staged(1, 2, 3):
            play.members[3].roles["Fetch"] = truncated
            evidence = await gathered(play, HURRIED)

        found = replica(evidence, 3).log
        assert found
        assert (found.end, [tuple(entry) for entry in found.epochs or ()]) == (15, [(0, 0), (2, 10)])

    async def test_what_can_not_be_finished_is_kept_as_far_as_it_went(self) -> None:
        play = disaster()
        play.logs[3, ORDERS] = Log(15, [(0, 0), (3, 5)])

        def first_only(heard: Heard) -> Any:
            asked = heard.message.topics[0].partitions[0].last_fetched_epoch
            return play.fetch(3, heard) if asked >= 3 else None

        async with play.staged(1, 2, 3):
            play.members[3].roles["Fetch"] = first_only
            evidence = await gathered(play, HURRIED)

        found = replica(evidence, 3)
        assert found.log
        assert (found.log.end, found.log.epochs, problem(evidence, 3)) == (15, None, BrokerTimeout.code)


def catch_up(play: Play) -> None:
    """Its brokers hear of what somebody reassigned."""
    play.applied |= dict.fromkeys(play.applied, 99)
    play.states[ORDERS] = offline(replicas=(3, 2, 1))


class TestMembers:
    async def test_brokers_that_are_registered_no_more_are_none_of_the_cluster(self) -> None:
        """Six were replaced by six others over the months: they are not down."""
        play = disaster()
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            await cluster.gather(ALL_OFFLINE, RULES)
            async with play.staged(4):
                gone = play.members.pop(2)
                evidence = await cluster.gather(ALL_OFFLINE, RULES)
                play.members[2] = gone

        assert [broker.id for broker in evidence.cluster.brokers] == [1, 3, 4]
        assert replica(evidence, 2).log, "its address is known still, and a replica names it"

    async def test_partitions_are_described_by_metadata_as_new_as_the_gathers_beginning(self) -> None:
        """Somebody reassigned it a second ago, and the broker that is looked through has not heard of it yet."""
        play = disaster(applied={1: 90, 2: 90, 3: 90}, watermark=100)
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            asyncio.get_running_loop().call_later(0.3, catch_up, play)
            evidence = await cluster.gather(ALL_OFFLINE, RULES)

        assert evidence.partitions[0].assignment == (3, 2, 1)
        assert evidence.cluster.as_of == 99

    async def test_a_broker_that_was_silent_is_not_waited_for_again_because_the_metadata_changed(self) -> None:
        play = disaster(applied={1: 90, 2: 90, 3: 90}, watermark=100)
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            play.members[3].roles["ListOffsets"] = lambda heard: None
            asyncio.get_running_loop().call_later(0.3, catch_up, play)
            began = loop_time()
            evidence = await cluster.gather(ALL_OFFLINE, HURRIED)
            took = loop_time() - began

        assert (evidence.partitions[0].assignment, problem(evidence, 3)) == ((3, 2, 1), "BrokerTimeout")
        assert took < HURRIED.attempts * SOON.total_seconds() + 0.5

    async def test_a_last_look_that_takes_too_long_is_none_and_a_first_one_is(self) -> None:
        """Whoever looks first may be the first to find out which brokers are silent."""
        async with slow_pages(4) as cluster:
            rules = replace(HURRIED, attempts=1)
            seen = (await cluster.gather(ALL_OFFLINE, rules)).partitions
            with pytest.raises(TooLate):
                await cluster.gather(ALL_OFFLINE, rules, {each.id: each for each in seen})

    async def test_many_slow_answers_make_no_look_without_an_end(self) -> None:
        async with slow_pages(40) as cluster:
            began = loop_time()
            with pytest.raises(TooLate, match=r"9\.6s were over"):
                await cluster.gather(ALL_OFFLINE, HURRIED)
            took = loop_time() - began

        assert took < 2 * (HURRIED.attempts + 1) * advancing.STANDSTILL.total_seconds() + 0.1

    async def test_brokers_that_are_silent_each_in_another_way_do_not_add_up(self) -> None:
        """One deadline for those that say nothing of themselves, then the attempts for all that say nothing of logs."""
        play = disaster()
        play.add(offline(replicas=(1, 2, 3, 4)), b2=Log(27), b3=Log(15), b4=Log(15))
        async with play.staged(1, 2, 3, 4):
            for broker, question in ((2, "Fetch"), (3, "ListOffsets"), (4, "ApiVersions")):
                play.members[broker].roles[question] = lambda heard: None
            began = loop_time()
            await gathered(play, HURRIED)
            took = loop_time() - began

        assert took < (HURRIED.attempts + 1) * SOON.total_seconds() + 0.1


class TestRoute:
    """The broker that a look goes through answers, but not about partitions."""

    async def test_the_look_goes_on_through_another_broker(self) -> None:
        play = disaster()
        async with play.staged(1, 2, 3):
            play.members[1].roles["DescribeTopicPartitions"] = lambda heard: None
            began = loop_time()
            evidence = await gathered(play, HURRIED)
            took = loop_time() - began

        assert (evidence.cluster.view_from, problem(evidence, 1)) == (2, None)
        assert took < 2 * SOON.total_seconds()

    async def test_so_does_a_last_look_in_its_time_if_that_broker_stands_still_from_then_on(self) -> None:
        play = disaster()
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            seen = await cluster.gather(ALL_OFFLINE, RULES)
            freezes(play, 1)
            rules = EvidenceRules(deadline=timedelta(seconds=5), attempts=1)
            evidence = await cluster.gather(ALL_OFFLINE, rules, {each.id: each for each in seen.partitions})

        assert (seen.cluster.view_from, evidence.cluster.view_from) == (1, 2)
        assert (problem(evidence, 1), problem(evidence, 2)) == ("BrokerTimeout", None)

    async def test_and_so_if_it_is_asked_again_because_it_was_behind(self) -> None:
        play = disaster(applied={1: 90, 2: 90, 3: 90}, watermark=100)
        async with play.staged(1, 2, 3):

            def once(heard: Heard) -> Any:
                play.members[1].roles["DescribeTopicPartitions"] = lambda heard: None
                play.applied |= dict.fromkeys(play.applied, 99)
                return play.describe_partitions(heard)

            play.members[1].roles["DescribeTopicPartitions"] = once
            evidence = await gathered(play)

        assert evidence.cluster.view_from == 2

    async def test_nobody_comes_back_to_it_for_a_while(self) -> None:
        """Not even through a pulse, which asks for nothing that it does not answer."""
        play = disaster()
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            play.members[1].roles["DescribeTopicPartitions"] = lambda heard: None
            await cluster.gather(ALL_OFFLINE, HURRIED)
            for _ in range(4):
                await cluster.pulse(PATIENCE)
                assert await cluster.route(PATIENCE) == play.address(2)
                await asyncio.sleep(2.1)
            await cluster.gather(ALL_OFFLINE, HURRIED)
            silent = play.members[1].names().count("DescribeTopicPartitions")
            await asyncio.sleep(10)
            assert await cluster.route(PATIENCE) == play.address(1)

        assert silent == 1

    async def test_if_another_one_does_not_answer_either_it_is_said_to_be_silent(self) -> None:
        play = disaster()
        async with play.staged(1, 2):
            for member in play.members.values():
                member.roles["DescribeTopicPartitions"] = lambda heard: None
            with pytest.raises(BrokerTimeout, match="DescribeTopicPartitions"):
                await gathered(play, HURRIED)

    async def test_the_only_one_there_is_is_asked_again(self) -> None:
        play = disaster()
        async with play.staged(1):

            def once(heard: Heard) -> None:
                play.members[1].roles["DescribeTopicPartitions"] = play.describe_partitions

            play.members[1].roles["DescribeTopicPartitions"] = once
            assert (await gathered(play, HURRIED)).cluster.view_from == 1


def freezes(play: Play, broker: int) -> None:
    """It stands still, once it is asked about partitions: it takes what it is sent, and answers nothing any more."""

    def freeze(heard: Heard) -> None:
        roles = play.members[broker].roles
        roles |= dict.fromkeys(roles, lambda heard: None)

    play.members[broker].roles["DescribeTopicPartitions"] = freeze


@asynccontextmanager
async def slow_pages(pages: int) -> AsyncIterator[KafkaCluster]:
    """Of a cluster with so many partitions, each on a page of its own that comes just in time."""
    play = disaster(page=1)
    for index in range(1, pages):
        play.add(offline(TopicPartition("orders", index)))

    async with play.staged(1, 2, 3), play.cluster() as cluster:
        for member in play.members.values():
            member.roles["DescribeTopicPartitions"] = after(0.8 * SOON.total_seconds(), play.describe_partitions)
        yield cluster


async def led(cluster: KafkaCluster, deadline: timedelta, *as_of: MetadataOffset) -> Leadership:
    """A look at the leader of orders-0."""
    look = (await cluster.leaders([ORDERS], deadline, *as_of))[ORDERS]
    assert isinstance(look, Leadership)
    return look


class TestLeaders:
    async def test_a_leader_below_min_isr_answers_with_its_log_end(self) -> None:
        play = Play()
        play.add(
            offline(leader=BrokerId(2), leader_epoch=LeaderEpoch(6)),
            b2=Log(27, [(4, 0), (6, 27)], high_watermark=0, led_in=6),
        )
        async with play.staged(1, 2), play.cluster() as cluster:
            look = await led(cluster, PATIENCE)

        assert (look.leader, look.log_end, look.problem) == (2, 27, None)

    async def test_a_leader_in_another_epoch_than_the_metadata_say_is_silent(self) -> None:
        play = Play()
        play.add(offline(leader=BrokerId(2), leader_epoch=LeaderEpoch(7)), b2=Log(27, led_in=6, high_watermark=27))
        async with play.staged(1, 2), play.cluster() as cluster:
            look = await led(cluster, PATIENCE)

        assert look.log_end is None
        assert code_of(look.problem) == "LeaderUnresponsive"

    async def test_each_one_asked_about_has_an_entry_and_what_is_unseen_is_not_gone(self) -> None:
        hidden, gone, beyond = (TopicPartition(topic, n) for topic, n in (("hidden", 0), ("gone", 0), ("orders", 7)))
        play = Play(hidden={"hidden": 29})
        play.add(offline())
        play.add(offline(hidden))
        async with play.staged(1), play.cluster() as cluster:
            looks = await cluster.leaders([ORDERS, hidden, gone, beyond], PATIENCE)

        assert [type(looks[id]) for id in (ORDERS, hidden, gone, beyond)] == [Leadership, Unseen, Gone, Gone]

    async def test_a_view_older_than_the_newest_that_was_ever_seen_concludes_nothing(self) -> None:
        """Whoever knew more is cut off; the broker that is left is a zombie that still believes to lead."""
        play = Play(applied={1: 100, 2: 90})
        play.add(offline())
        async with play.staged(1, 2), play.cluster() as cluster:
            await cluster.leaders([ORDERS], PATIENCE)
            play.members[1].roles["ApiVersions"] = lambda heard: heard.cut()
            cluster.forget_route(play.address(1))
            with pytest.raises(StaleMetadata, match="at offset 100 before"):
                await cluster.leaders([ORDERS], SOON)
            with pytest.raises(StaleMetadata, match="at offset 100 before"):
                await cluster.gather(ALL_OFFLINE, EvidenceRules(deadline=SOON))

            play.applied[2] = 100
            look = await led(cluster, PATIENCE)

        assert look.as_of == 100

    async def test_a_view_older_than_was_asked_for_is_waited_for_and_then_an_error(self) -> None:
        """A plan was made from newer metadata, by another process perhaps."""
        play = Play(applied={1: 90})
        play.add(offline())
        async with play.staged(1), play.cluster() as cluster:
            with pytest.raises(StaleMetadata, match="at offset 95 before"):
                await cluster.leaders([ORDERS], SOON, MetadataOffset(95))

            asyncio.get_running_loop().call_later(0.1, play.applied.update, {1: 95})
            look = await led(cluster, PATIENCE, MetadataOffset(95))

        assert look.as_of == 95

    async def test_a_network_that_is_gone_for_a_moment_is_waited_for(self) -> None:
        play = Play()
        play.add(offline())
        async with play.staged(1, 2), play.cluster() as cluster:
            await cluster.leaders([ORDERS], PATIENCE)
            roles = {id: dict(member.roles) for id, member in play.members.items()}
            for member in play.members.values():
                member.roles = dict.fromkeys(member.roles, lambda heard: heard.cut())
            cluster.forget_route(play.address(1))

            def back() -> None:
                for id, member in play.members.items():
                    member.roles = roles[id]

            asyncio.get_running_loop().call_later(1, back)
            assert isinstance((await cluster.leaders([ORDERS], PATIENCE))[ORDERS], Leadership)

    async def test_why_a_leader_could_not_be_asked_is_told(self) -> None:
        play = Play()
        play.add(offline(leader=BrokerId(2), leader_epoch=LeaderEpoch(6)), b2=Log(27, led_in=6))
        async with play.staged(1, 2), play.cluster() as cluster:
            play.members[2].roles["ListOffsets"] = lambda heard: None
            look = await led(cluster, SOON)

        assert "did not answer ListOffsets" in str(look.problem)

    async def test_that_nothing_is_offline_is_no_news_from_old_metadata(self) -> None:
        play = Play(applied={1: 100, 2: 90})
        async with play.staged(1, 2), play.cluster() as cluster:
            await cluster.scan(PATIENCE)
            play.members[1].roles["ApiVersions"] = lambda heard: heard.cut()
            play.members[1].roles["DescribeTopicPartitions"] = lambda heard: heard.cut()
            with pytest.raises(StaleMetadata):
                await cluster.scan(SOON)

    async def test_metadata_are_read_through_another_broker_if_the_first_one_fails(self) -> None:
        play = disaster()
        async with play.staged(1, 2), play.cluster() as cluster:
            play.members[1].roles["DescribeTopicPartitions"] = lambda heard: None
            look = await led(cluster, timedelta(seconds=1))

        assert look.leader is None

    async def test_who_failed_is_passed_over_and_not_who_was_chosen_meanwhile(self) -> None:
        play = disaster(watermark=103)
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            play.members[1].roles["DescribeTopicPartitions"] = lambda heard: None
            reading = asyncio.create_task(cluster.leaders([ORDERS], timedelta(seconds=1)))
            await play.members[1].hears("DescribeTopicPartitions")
            play.applied |= {2: 102}
            assert (await cluster.pulse(PATIENCE)).view_from == play.address(2)

            assert isinstance((await reading)[ORDERS], Leadership)
            assert await cluster.route(PATIENCE) == play.address(2)
