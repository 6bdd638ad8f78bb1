"""Proving who we are to real brokers, and being refused: TLS, SCRAM, client certificates, OAuth tokens, ACLs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterRequest, ElectLeadersRequest

from brokers.conftest import GUARDED, SESSION
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.connection import Connection
from kafka_recovery.cluster.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClusterError,
    TlsFailed,
    reason_for,
)
from kafka_recovery.cluster.properties import read_security
from kafka_recovery.cluster.security import (
    PLAINTEXT,
    Mechanism,
    Password,
    Protocol,
    Sasl,
    Security,
    Store,
    StoreKind,
    Tls,
    TokenSource,
)
from testbed.certificates import Authority
from testbed.cluster import RealKafka
from testbed.security import Credentials, unsecured_token
from testbed.security import Mechanism as Listener
from testbed.warm import WarmKafka
from unit.cluster.stage import call

pytestmark = pytest.mark.brokers
GROUP = "guarded"

PATIENCE = timedelta(seconds=20)
DESCRIBE = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=1)
SECRET = 'geh=ei,m \\ "nis"'
ODD_NAME = "an=n,e"


@pytest.fixture(scope="module")
def guarded(warm: WarmKafka) -> Iterator[RealKafka]:
    """All the listeners, and their users."""
    with warm.lent(**GUARDED) as kafka:
        kafka.add_scram_user("ann", SECRET)
        kafka.add_scram_user(ODD_NAME, SECRET)
        kafka.create_topic("orders", [[1]])
        yield kafka


def at(kafka: RealKafka, listener: Listener | None) -> Address:
    return Address.parse(kafka.address(1, listener))


def security_for(kafka: RealKafka, who: Credentials) -> Security:
    """As Kafka's own tools would be told it, read as we read it."""
    return read_security(kafka.client_properties(who))


def trust_of(kafka: RealKafka) -> Tls:
    tls = security_for(kafka, Credentials(Listener.SCRAM, "ann", SECRET)).tls
    assert tls
    return tls


async def cluster_id(address: Address, security: Security) -> Any:
    async with Brokers(security) as brokers:
        return (await brokers.ask(address, DESCRIBE, (0, 2), PATIENCE)).cluster_id


@asynccontextmanager
async def connected(address: Address, security: Security) -> AsyncIterator[Connection]:
    connection = await Connection.open(address, security, "a-test")
    try:
        yield connection
    finally:
        await connection.close()


async def asking_on_and_on(connection: Connection) -> None:
    while True:
        await call(connection, DESCRIBE, 0, PATIENCE)


@pytest.mark.parametrize(
    "who",
    [
        Credentials(Listener.SCRAM, "ann", SECRET),
        Credentials(Listener.SCRAM, ODD_NAME, SECRET),
        Credentials(Listener.MTLS, "ann"),
        Credentials(Listener.OAUTH, "ann"),
    ],
    ids=lambda who: f"{who.mechanism.value}-{who.name}",
)
async def test_a_properties_file_of_kafkas_own_tools_lets_us_in(guarded: RealKafka, who: Credentials) -> None:
    assert await cluster_id(at(guarded, who.mechanism), security_for(guarded, who)) == guarded.cluster_id


class TestRefusedByTheBroker:
    async def test_a_wrong_password(self, guarded: RealKafka) -> None:
        wrong = security_for(guarded, Credentials(Listener.SCRAM, "ann", "hunter2"))
        with pytest.raises(AuthenticationFailed, match="SCRAM-SHA-512 refused user ann: wrong user or") as refusal:
            await cluster_id(at(guarded, Listener.SCRAM), wrong)

        assert "hunter2" not in f"{refusal.value!r} {refusal.value.__cause__!r}"

    async def test_an_unknown_user(self, guarded: RealKafka) -> None:
        stranger = security_for(guarded, Credentials(Listener.SCRAM, "nobody", SECRET))
        with pytest.raises(AuthenticationFailed, match="SCRAM-SHA-512 refused user nobody"):
            await cluster_id(at(guarded, Listener.SCRAM), stranger)

    async def test_a_mechanism_that_is_not_enabled(self, guarded: RealKafka) -> None:
        plain = Security(Protocol.SASL_SSL, trust_of(guarded), Sasl(Mechanism.PLAIN, Password("ann", SECRET)))
        with pytest.raises(
            AuthenticationFailed, match="PLAIN is not enabled on this listener; it offers SCRAM-SHA-512"
        ):
            await cluster_id(at(guarded, Listener.SCRAM), plain)

    async def test_an_expired_token(self, guarded: RealKafka) -> None:
        expired = Credentials(Listener.OAUTH, "ann", token=unsecured_token("ann", lifetime=-60))
        with pytest.raises(AuthenticationFailed, match=r"OAUTHBEARER refused the token from file:.*may be expired"):
            await cluster_id(at(guarded, Listener.OAUTH), security_for(guarded, expired))

    async def test_no_client_certificate(self, guarded: RealKafka) -> None:
        with pytest.raises(ClusterError, match="client certificate"):
            async with connected(at(guarded, Listener.MTLS), Security(Protocol.SSL, trust_of(guarded))) as connection:
                await call(connection, DESCRIBE, 0, PATIENCE)

    async def test_a_client_certificate_of_a_stranger(self, guarded: RealKafka, tmp_path: Path) -> None:
        stranger = Store(StoreKind.PEM, Authority.new(tmp_path).identity("ann").keystore)
        tls = Tls(trust_of(guarded).trust, stranger)
        with pytest.raises((TlsFailed, BrokerUnreachable)):
            async with connected(at(guarded, Listener.MTLS), Security(Protocol.SSL, tls)) as connection:
                await call(connection, DESCRIBE, 0, PATIENCE)


class TestTheWrongDoor:
    async def test_sasl_on_a_listener_without(self, guarded: RealKafka) -> None:
        scram = Sasl(Mechanism.SCRAM_SHA_512, Password("ann", SECRET))
        with pytest.raises(AuthenticationFailed, match=r"takes no SASL; set security.protocol to PLAINTEXT or SSL"):
            await cluster_id(at(guarded, None), Security(Protocol.SASL_PLAINTEXT, sasl=scram))

    @pytest.mark.parametrize("listener", [Listener.SCRAM, Listener.MTLS])
    async def test_plaintext_on_a_tls_listener(self, guarded: RealKafka, listener: Listener) -> None:
        with pytest.raises(ClusterError, match=r"speaks TLS|security.protocol PLAINTEXT may not fit the listener"):
            async with connected(at(guarded, listener), PLAINTEXT) as connection:
                await call(connection, DESCRIBE, 0, PATIENCE)

    async def test_tls_on_a_plaintext_listener(self, guarded: RealKafka) -> None:
        with pytest.raises(BrokerUnreachable, match="the port may not speak TLS"):
            await Connection.open(at(guarded, None), Security(Protocol.SSL, trust_of(guarded)), "a-test")

    async def test_no_sasl_on_a_listener_that_wants_it(self, guarded: RealKafka) -> None:
        tls = Security(Protocol.SSL, trust_of(guarded))
        with pytest.raises(BrokerUnreachable, match=r"security.protocol SSL .*may not fit the listener"):
            async with connected(at(guarded, Listener.SCRAM), tls) as connection:
                await call(connection, DESCRIBE, 0, PATIENCE)

    async def test_a_broker_that_we_do_not_trust_is_not_told_the_password(
        self, guarded: RealKafka, tmp_path: Path
    ) -> None:
        other_ca = Store(StoreKind.PEM, Authority.new(tmp_path).certificate)
        scram = Sasl(Mechanism.SCRAM_SHA_512, Password("ann", SECRET))
        with pytest.raises(TlsFailed, match="certificate is not trusted"):
            await cluster_id(at(guarded, Listener.SCRAM), Security(Protocol.SASL_SSL, Tls(other_ca), scram))


class TestSessionsThatEnd:
    """KIP-368: the broker closes what it does not know any more."""

    async def test_a_connection_outlives_its_session_by_renewing_it(self, guarded: RealKafka) -> None:
        security = security_for(guarded, Credentials(Listener.OAUTH, "ann"))
        loop = asyncio.get_running_loop()
        async with connected(at(guarded, Listener.OAUTH), security) as connection:
            end = loop.time() + 3 * SESSION
            while loop.time() < end:
                answers = await asyncio.gather(*(call(connection, DESCRIBE, 0, PATIENCE) for _ in range(5)))
                assert {answer.cluster_id for answer in answers} == {guarded.cluster_id}

    async def test_a_session_that_is_not_renewed_is_closed(self, guarded: RealKafka) -> None:
        """What the test above would see without renewing."""
        security = security_for(guarded, Credentials(Listener.OAUTH, "ann"))
        async with connected(at(guarded, Listener.OAUTH), security) as connection:
            connection._authenticate_at = None
            with pytest.raises(BrokerUnreachable):
                await asyncio.wait_for(asking_on_and_on(connection), 3 * SESSION)

    async def test_each_renewal_reads_the_token_anew(self, guarded: RealKafka) -> None:
        security = security_for(guarded, Credentials(Listener.OAUTH, "ann"))
        assert security.sasl
        assert isinstance(security.sasl.credentials, TokenSource)
        file = Path(security.sasl.credentials.url.removeprefix("file://"))
        async with connected(at(guarded, Listener.OAUTH), security) as connection:
            file.write_text(unsecured_token("ann", lifetime=-60))
            with pytest.raises(AuthenticationFailed, match="may be expired"):
                await asyncio.wait_for(asking_on_and_on(connection), 3 * SESSION)

            assert not connection.is_open


async def test_a_missing_permission_is_named_without_the_brokers_dump(guarded: RealKafka) -> None:
    kind = ElectLeadersRequest.TopicPartitions
    request = ElectLeadersRequest(election_type=1, topic_partitions=[kind(topic="orders", partitions=[0])])
    async with Brokers(security_for(guarded, Credentials(Listener.SCRAM, "ann", SECRET))) as brokers:
        answer = await brokers.ask(at(guarded, Listener.SCRAM), request, (1, 2), PATIENCE)

    assert answer.error_code == 31
    [detail] = {result.error_message for topic in answer.replica_election_results for result in topic.partition_result}
    said = reason_for(31, "ElectLeaders of orders-0", needs="ALTER on the cluster", detail=detail)
    assert said.message == "ElectLeaders of orders-0: not authorized (31); the principal lacks ALTER on the cluster"
