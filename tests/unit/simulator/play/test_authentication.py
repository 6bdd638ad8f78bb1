"""Whom a played cluster lets in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import AuthenticationFailed, ClusterError
from kafka_recovery.cluster.metadata import describe_cluster, quorum_high_watermark
from kafka_recovery.cluster.properties import security_of
from kafka_recovery.cluster.security import Security
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.model.grants import Operation
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from unit.simulator.play.playing import Played, eventually, played

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
SECONDS = timedelta(seconds=10)


@pytest.fixture
def cluster() -> Iterator[Played]:
    """Only alice may come."""
    with played(SimulatedKafka(1), {"alice": "wonder,=land"}) as found:
        yield found


def settings(mechanism: str, password: str) -> dict[str, str]:
    """librdkafka's, for alice."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_knows_the_password_is_let_in(cluster: Played, mechanism: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **settings(mechanism, "wonder,=land")})

    assert len(admin.list_topics(timeout=10).brokers) == 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_does_not_is_not(cluster: Played, mechanism: str) -> None:
    said: list[int] = []
    config: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, **settings(mechanism, "looking-glass")}
    admin = AdminClient(config | {"error_cb": lambda error: said.append(error.code())})

    def refused() -> bool:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.1)
        admin.poll(0)
        return KafkaError._AUTHENTICATION in said

    eventually(refused)


def security(mechanism: str, password: str) -> Security:
    """As a --command-config file says it."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'org.apache.kafka.common.security.{module} required username="alice" password="{password}";'
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": login}
    return security_of(settings, "the test")


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_the_engines_own_client_says_who_it_is(cluster: Played, mechanism: str) -> None:
    at = Address(*cluster.server.address(next(iter(cluster.kafka.brokers))))
    async with Brokers(security(mechanism, "wonder,=land")) as brokers:
        assert len((await describe_cluster(brokers, at, SECONDS)).brokers) == 3
    async with Brokers(security(mechanism, "looking-glass")) as brokers:
        with pytest.raises(AuthenticationFailed):
            await describe_cluster(brokers, at, SECONDS)


async def test_a_right_is_taken_from_a_user_and_not_from_a_connection(cluster: Played) -> None:
    at = Address(*cluster.server.address(next(iter(cluster.kafka.brokers))))
    async with Brokers(security("PLAIN", "wonder,=land")) as brokers:
        assert isinstance(await quorum_high_watermark(brokers, at, SECONDS), int)

        cluster.do(lambda: cluster.kafka.grants.deny("alice", Operation.DESCRIBE_CLUSTER))

        denied = await quorum_high_watermark(brokers, at, SECONDS)
    assert isinstance(denied, Reason)
    assert denied.code == "ClusterAuthorizationFailed"


async def test_who_says_nothing_is_not_let_in(cluster: Played) -> None:
    at = Address(*cluster.server.address(next(iter(cluster.kafka.brokers))))
    async with Brokers(security_of({}, "the test")) as brokers:
        with pytest.raises(ClusterError):
            await describe_cluster(brokers, at, timedelta(seconds=1))
