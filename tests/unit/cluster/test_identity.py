"""Who answers: one broker at the address of another is not taken for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from kafka_recovery.cluster.brokers import Brokers
from kafka_recovery.cluster.drivers import Kip1275
from kafka_recovery.cluster.errors import BrokerTimeout
from kafka_recovery.cluster.kip_1275 import GET_REPLICA_LOG_INFO
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.domain.election import ALL_OFFLINE, Leadership
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import EvidenceRules
from unit.cluster.play import ORDERS, PATIENCE, SOON, Log, Play, offline

RULES = EvidenceRules(deadline=PATIENCE, attempts=3)


def disaster(**play: Any) -> Play:
    """orders-0 lost its leader 1; broker 3 holds less than 2."""
    found = Play(**play)
    found.add(offline(), b1=Log(30), b2=Log(27), b3=Log(5))
    return found


def seen(evidence: Evidence) -> list[object]:
    """Of brokers 2 and 3, where the log ends or what the problem is."""
    replicas = evidence.partitions[0].replicas[1:]
    return [each.log.end if each.log else getattr(each.problem, "code", None) for each in replicas]


class TestOneBrokerBehindTwoAddresses:
    async def test_its_log_is_measured_once_and_not_as_that_of_another_broker(self) -> None:
        play = disaster()
        async with play.staged(1, 2, 3), play.second_way_to(2) as door, play.cluster() as cluster:
            play.elsewhere[3] = door
            evidence = await cluster.gather(ALL_OFFLINE, RULES)

        assert seen(evidence) == [27, "AnotherBroker"]
        third = evidence.cluster.broker(BrokerId(3))
        assert third
        assert (third.reachable, third.metadata_offset, third.metadata_advances) == (False, None, None)
        assert "expected 2 or empty string, but received 3" in str(third.problem)

    async def test_once_the_address_is_mended_the_broker_is_measured(self) -> None:
        play = disaster()
        async with play.staged(1, 2, 3), play.second_way_to(2) as door, play.cluster() as cluster:
            play.elsewhere[3] = door
            await cluster.gather(ALL_OFFLINE, RULES)
            del play.elsewhere[3]
            assert seen(await cluster.gather(ALL_OFFLINE, RULES)) == [27, 5]

    async def test_the_same_address_may_be_mended(self) -> None:
        """What stands behind a Service changes; the connection that led to the wrong broker is not used again."""
        play = disaster()
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            mine = dict(play.members[3].roles)
            play.members[3].roles |= play.members[2].roles
            assert seen(await cluster.gather(ALL_OFFLINE, RULES)) == [27, "AnotherBroker"]
            play.members[3].roles |= mine
            assert seen(await cluster.gather(ALL_OFFLINE, RULES)) == [27, 5]

    async def test_it_does_not_answer_for_the_leader_that_is_listed_there(self) -> None:
        play = disaster()
        play.states[ORDERS] = replace(play.states[ORDERS], leader=BrokerId(3))
        play.logs[2, ORDERS] = Log(27, led_in=5)
        async with play.staged(1, 2, 3), play.second_way_to(2) as door, play.cluster() as cluster:
            play.elsewhere[3] = door
            look = (await cluster.leaders([ORDERS], PATIENCE))[ORDERS]

        assert isinstance(look, Leadership)
        assert "another broker answers there" in str(look.problem)

    async def test_without_the_right_to_describe_brokers_it_can_not_be_told(self) -> None:
        play = disaster(describes_configs=False)
        async with play.staged(1, 2, 3), play.second_way_to(2) as door, play.cluster() as cluster:
            play.elsewhere[3] = door
            assert seen(await cluster.gather(ALL_OFFLINE, RULES)) == [27, 27]

    async def test_but_two_brokers_of_one_broker_epoch_are_one(self) -> None:
        play = disaster(describes_configs=False, log_info=dict.fromkeys((1, 2, 3), GET_REPLICA_LOG_INFO))
        kip_1275 = Kip1275(replica_log_info_key=GET_REPLICA_LOG_INFO)
        async with play.staged(1, 2, 3), play.second_way_to(2) as door, play.cluster(kip_1275) as cluster:
            play.elsewhere[3] = door
            evidence = await cluster.gather(ALL_OFFLINE, RULES)

        assert seen(evidence) == ["AnotherBroker", "AnotherBroker"]


class TestWhatItCosts:
    async def test_one_request_a_connection(self) -> None:
        play = disaster()
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            for _ in range(5):
                await cluster.gather(ALL_OFFLINE, RULES)
            proofs = [heard for heard in play.asked("DescribeConfigs") if heard.message.resources[0].resource_type == 4]
            connections = {(heard.message.resources[0].resource_name, heard.connection) for heard in proofs}

        assert len(proofs) == len(connections)

    async def test_no_round_trip(self) -> None:
        """The question is written right behind it."""
        play = disaster()
        async with play.staged(2), Brokers(PLAINTEXT) as brokers:
            play.members[2].roles["DescribeConfigs"] = lambda heard: None
            request = ListOffsetsRequest(replica_id=-2, isolation_level=0, topics=[])
            asking = asyncio.create_task(
                brokers.ask(play.address(2), request, (7, 11), PATIENCE, of=BrokerId(2)),
            )
            await play.members[2].hears("ListOffsets")
            asking.cancel()

    async def test_a_broker_that_does_not_say_who_it_is_is_silent_and_the_next_question_asks_again(self) -> None:
        play = disaster()
        request = ListOffsetsRequest(replica_id=-2, isolation_level=0, topics=[])
        async with play.staged(2), Brokers(PLAINTEXT) as brokers:
            answer, play.members[2].roles["DescribeConfigs"] = play.members[2].roles["DescribeConfigs"], _nothing
            with pytest.raises(BrokerTimeout):
                await brokers.ask(play.address(2), request, (7, 11), SOON, of=BrokerId(2))
            play.members[2].roles["DescribeConfigs"] = answer
            await brokers.ask(play.address(2), request, (7, 11), timedelta(seconds=5), of=BrokerId(2))


def _nothing(heard: object) -> None:
    """Silence."""
