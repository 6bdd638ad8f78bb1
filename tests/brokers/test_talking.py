"""Talking to real brokers: what they apply, what becomes of questions to one that stands still, and of elections."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from kafka.protocol.admin import DescribeClusterRequest, ElectLeadersRequest

from brokers.conftest import ON_3_9, ON_NEWEST
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import AnotherBroker, BrokerTimeout, BrokerUnreachable, Unanswered
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.domain.ids import BrokerId
from testbed.cluster import RealKafka

pytestmark = pytest.mark.brokers

PATIENCE = timedelta(seconds=20)
DESCRIBE = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=1)


def at(kafka: RealKafka) -> Address:
    return Address.parse(kafka.address(1))


@pytest.mark.parametrize("kafka", [ON_NEWEST, ON_3_9], indirect=True)
async def test_a_broker_that_is_not_cut_off_applies_metadata(kafka: RealKafka) -> None:
    """The applied offset moves by itself, and stands still on a broker without a controller."""
    async with Brokers(PLAINTEXT) as brokers:
        address = at(kafka)
        first = await brokers.api_versions(address, PATIENCE)
        assert first.finalized_features["metadata.version"] > 0
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while (await brokers.api_versions(address, PATIENCE)).finalized_features_epoch == (
                first.finalized_features_epoch
            ):
                pass


@pytest.mark.parametrize("kafka", [ON_NEWEST, ON_3_9], indirect=True)
async def test_a_broker_proves_who_it_is_and_no_other_broker_does(kafka: RealKafka) -> None:
    """It describes its own configs, and refuses to describe another broker's."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    async with Brokers(PLAINTEXT) as brokers:
        await brokers.ask(at(kafka), request, (0, 2), PATIENCE, of=BrokerId(1))
        with pytest.raises(AnotherBroker, match="expected 1 or empty string, but received 2"):
            await brokers.ask(at(kafka), request, (0, 2), PATIENCE, of=BrokerId(2))


async def test_a_broker_that_stands_still_is_silent_and_holds_up_nobody(kafka: RealKafka) -> None:
    """A frozen process keeps its connections and accepts new ones: nothing is refused, nothing is answered."""
    moment = timedelta(seconds=1)
    one, two = (Address.parse(kafka.address(broker)) for broker in (1, 2))
    async with Brokers(PLAINTEXT) as brokers:
        await brokers.ask(two, DESCRIBE, (0, 2), PATIENCE)
        kafka.freeze(2)
        asked = (brokers.ask(address, DESCRIBE, (0, 2), moment) for address in (two, two, one, two))
        first, second, healthy, third = await asyncio.gather(*asked, return_exceptions=True)

        assert [type(answer) for answer in (first, second, third)] == [BrokerTimeout] * 3
        assert not isinstance(healthy, BaseException)
        kafka.thaw(2)
        assert (await brokers.ask(two, DESCRIBE, (0, 2), PATIENCE)).cluster_id == kafka.cluster_id

        kafka.kill(2)
        with pytest.raises(BrokerUnreachable, match=r"refused \(3 attempts in \d"):
            await brokers.ask(two, DESCRIBE, (0, 2), moment)


async def test_an_election_without_a_controller_leaves_its_outcome_unknown(kafka: RealKafka) -> None:
    """Kafka answers after 60 s whatever the request says: the deadline is ours, and reads go on meanwhile."""
    kafka.create_topic("orders", [[1]])
    kafka.kill_controller()
    kind = ElectLeadersRequest.TopicPartitions
    request = ElectLeadersRequest(election_type=1, topic_partitions=[kind(topic="orders", partitions=[0])])
    async with Brokers(PLAINTEXT) as brokers:
        with pytest.raises(Unanswered, match=r"was sent and may still take effect: .*within 2s"):
            await brokers.ask(at(kafka), request, (1, 2), timedelta(seconds=2))

        answer = await brokers.ask(at(kafka), DESCRIBE, (0, 2), timedelta(seconds=2))
        assert answer.cluster_id == kafka.cluster_id
