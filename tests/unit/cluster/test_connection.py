"""One connection: what is late, broken, garbled or foreign, and who is told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from kafka_recovery.cluster import connection as connection_module
from kafka_recovery.cluster.connection import LARGEST_ANSWER, Connection
from kafka_recovery.cluster.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClusterError,
    InvalidAnswer,
    TlsFailed,
)
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
)
from kafka_recovery.cluster.sockets import Address
from testbed.certificates import Authority
from unit.cluster.name_server import NameServer
from unit.cluster.stage import Heard, Role, StagedBroker, call

pytestmark = pytest.mark.kernel

PATIENCE = timedelta(seconds=10)
SOON = timedelta(milliseconds=100)
METADATA = MetadataRequest(topics=[])
SECRET = "gehei=m,nis"


def many_topics(count: int) -> Callable[[Heard], Any]:
    """An answer that is long to read."""

    def answer(heard: Heard) -> Any:
        part = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition
        parts = [
            part(error_code=0, partition_index=index, leader_id=1, leader_epoch=1, replica_nodes=[1, 2, 3],
                 isr_nodes=[1, 2, 3], offline_replicas=[])
            for index in range(1000)
        ]  # fmt: skip
        topics = [
            MetadataResponse.MetadataResponseTopic(
                error_code=0, name=f"topic-{number:04}", is_internal=False, partitions=parts
            )
            for number in range(count)
        ]
        return MetadataResponse(cluster_id="abc", brokers=[], topics=topics, controller_id=1)

    return answer


@asynccontextmanager
async def connected(address: Address, security: Security = PLAINTEXT) -> AsyncIterator[Connection]:
    connection = await Connection.open(address, security, "a-test")
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> NameServer:
    server = NameServer()
    monkeypatch.setattr("socket.getaddrinfo", server.getaddrinfo)
    return server


def metadata(heard: Heard) -> Any:
    return MetadataResponse(cluster_id="abc", brokers=[], topics=[], controller_id=1)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class TestDeadlines:
    async def test_a_late_answer_is_dropped_and_the_connection_stays_good(self) -> None:
        late = asyncio.Event()

        async def role(heard: Heard) -> Any:
            if heard.correlation_id == 1:
                await late.wait()
            return MetadataResponse(cluster_id=f"answer-{heard.correlation_id}", brokers=[], topics=[], controller_id=1)

        async with StagedBroker({"Metadata": role}) as broker, connected(broker.address) as connection:
            with pytest.raises(TimeoutError):
                await call(connection, METADATA, 9, SOON)
            assert (connection.unanswered, connection.awaited) == (1, 0)

            late.set()
            answer = await call(connection, METADATA, 9, PATIENCE)

            assert answer.cluster_id == "answer-2"
            assert connection.is_open
            assert connection.unanswered == 0

    async def test_requests_overlap_and_each_has_its_own_deadline(self) -> None:
        """A broker answers in order: the hurried one behind a slow one gives up, the patient one gets its answer."""
        go = asyncio.Event()

        async def slow(heard: Heard) -> Any:
            await go.wait()
            return ListOffsetsResponse(topics=[], throttle_time_ms=7)

        roles: dict[str, Role] = {"ListOffsets": slow, "Metadata": metadata}
        async with StagedBroker(roles) as broker, connected(broker.address) as connection:
            patient = asyncio.create_task(call(connection, ListOffsetsRequest(replica_id=-2, topics=[]), 6, PATIENCE))
            await broker.hears("ListOffsets")
            with pytest.raises(TimeoutError):
                await call(connection, METADATA, 9, SOON)
            go.set()

            assert (await patient).throttle_time_ms == 7
            assert (await call(connection, METADATA, 9, PATIENCE)).cluster_id == "abc"

    async def test_a_request_may_be_asked_in_two_versions_at_once(self) -> None:
        """The caller's message is not touched: the codec would write version and correlation id into it."""
        async with StagedBroker({"Metadata": metadata}) as broker, connected(broker.address) as connection:
            await asyncio.gather(*(call(connection, METADATA, version, PATIENCE) for version in (1, 5, 12)))

            assert sorted(heard.version for heard in broker.heard) == [1, 5, 12]
            assert METADATA.API_VERSION is None


def too_long(heard: Heard) -> bytes:
    return struct.pack(">i", LARGEST_ANSWER + 1)


def negative(heard: Heard) -> bytes:
    return struct.pack(">i", -5)


def web_page(heard: Heard) -> bytes:
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


def not_asked(heard: Heard) -> bytes:
    return framed(struct.pack(">i", 4711) + b"\0" * 20)


def garbage(heard: Heard) -> bytes:
    return framed(struct.pack(">i", heard.correlation_id) + b"\xff" * 50)


def cut_short(heard: Heard) -> bytes:
    """The frame is complete, the answer in it is not: it ends in a string, which the codec would take as it is."""
    whole = heard.frame(metadata(heard))[4:]
    return framed(whole[:-20])


def too_much(heard: Heard) -> bytes:
    return framed(heard.frame(metadata(heard))[4:] + b"more")


class TestLargeAnswers:
    async def test_an_answer_about_20_000_partitions_is_read_beside_the_loop(self) -> None:
        async with StagedBroker({"Metadata": many_topics(20)}) as broker, connected(broker.address) as connection:
            read_in: list[str] = []
            decode = connection_module._decode
            with pytest.MonkeyPatch.context() as patch:

                def noted(*given: Any) -> Any:
                    read_in.append(threading.current_thread().name)
                    return decode(*given)

                patch.setattr(connection_module, "_decode", noted)
                answer = await call(connection, METADATA, 9, PATIENCE)

        assert sum(len(topic.partitions) for topic in answer.topics) == 20_000
        assert threading.main_thread().name not in read_in

    async def test_whoever_waits_for_one_hears_that_the_connection_was_closed_meanwhile(self) -> None:
        reading, go_on = threading.Event(), threading.Event()

        def slow(*_: Any) -> None:
            reading.set()
            assert go_on.wait(10)

        async with StagedBroker({"Metadata": many_topics(20)}) as broker, connected(broker.address) as connection:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(connection_module, "_decode", slow)
                waiting = connection.send(METADATA, 9)
                await asyncio.to_thread(reading.wait, 10)
                await connection.close()
                go_on.set()

                with pytest.raises(BrokerUnreachable, match="closed by this side"):
                    await waiting


class TestNonsense:
    @pytest.mark.parametrize(
        ("nonsense", "said"),
        [
            (too_long, r"an answer of 67108865 bytes was announced"),
            (negative, r"an answer of -5 bytes"),
            (web_page, r"b'HTTP'.*is this a port of a Kafka broker\?"),
            (not_asked, r"an answer to request 4711, which was not asked"),
            (garbage, r"MetadataResponse v9 can't be read"),
            (cut_short, r"MetadataResponse v9 can't be read"),
            (too_much, r"MetadataResponse v9 can't be read"),
        ],
    )
    async def test_what_is_no_answer_ends_the_connection_and_everybody_is_told(
        self, nonsense: Callable[[Heard], bytes], said: str
    ) -> None:
        async with StagedBroker({"Metadata": nonsense}) as broker, connected(broker.address) as connection:
            other = connection.send(ListOffsetsRequest(replica_id=-2, topics=[]), 6)
            await broker.hears("ListOffsets")
            with pytest.raises(InvalidAnswer, match=said):
                await call(connection, METADATA, 9, PATIENCE)

            with pytest.raises(InvalidAnswer, match=said):
                await other
            assert not connection.is_open
            with pytest.raises(InvalidAnswer, match=said):
                await call(connection, METADATA, 9, PATIENCE)

    async def test_a_string_may_not_reach_past_the_end_of_its_frame(self) -> None:
        """kafka-python alone would hand out the shortened string."""

        def shortened(heard: Heard) -> bytes:
            return framed(heard.frame(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))[4:-2])

        async with StagedBroker({"SaslHandshake": shortened}) as broker:
            with pytest.raises(InvalidAnswer, match=r"SaslHandshakeResponse v1 can't be read"):
                await Connection.open(broker.address, PLAIN, "a-test")

    async def test_a_reset_in_the_middle_of_an_answer_reaches_everybody_who_waits(self) -> None:
        def half(heard: Heard) -> None:
            heard.say(heard.frame(metadata(heard))[:10])
            heard.writer.close()

        async with StagedBroker({"Metadata": half}) as broker, connected(broker.address) as connection:
            waiting = [connection.send(METADATA, 9) for _ in range(3)]
            ends = await asyncio.gather(*waiting, return_exceptions=True)

        assert [type(end) for end in ends] == [BrokerUnreachable] * 3

    async def test_closing_reaches_everybody_who_waits(self) -> None:
        async with StagedBroker() as broker, connected(broker.address) as connection:
            waiting = connection.send(METADATA, 9)
            await connection.close()
            with pytest.raises(BrokerUnreachable, match="closed by this side"):
                await waiting


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.new(tmp_path)


def serving(authority: Authority, demand: bool = False) -> ssl.SSLContext:
    identity = authority.identity("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    if demand:
        context.load_verify_locations(authority.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting(authority: Authority, identity: Store | None = None, check_hostname: bool = True) -> Security:
    trust = Store(StoreKind.PEM, authority.certificate)
    return Security(Protocol.SSL, Tls(trust, identity, check_hostname))


@contextmanager
def demanding(authority: Authority) -> Iterator[Address]:
    """A port that demands a client certificate and says why it hangs up; asyncio's own server drops that alert."""

    def refuse() -> None:
        client, _ = listener.accept()
        context = serving(authority, demand=True)
        with context.wrap_socket(client, server_side=True, do_handshake_on_connect=False) as tls:
            with pytest.raises(ssl.SSLError):
                tls.do_handshake()
            tls.shutdown(socket.SHUT_WR)
            while tls.recv(1000):
                pass  # hanging up on unread data would reset the connection and might overtake the alert

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        refusal = pool.submit(refuse)
        yield Address(*listener.getsockname())
        refusal.result()


def by_another_name(address: Address) -> Address:
    """Loopback under a name that the certificate does not carry."""
    return Address("127.0.0.2", address.port)


class TestTls:
    async def test_who_is_trusted_is_talked_to(self, authority: Authority) -> None:
        async with (
            StagedBroker({"Metadata": metadata}, tls=serving(authority)) as broker,
            connected(broker.address, trusting(authority)) as connection,
        ):
            assert (await call(connection, METADATA, 9, PATIENCE)).cluster_id == "abc"

    async def test_an_unknown_authority_is_not_trusted(self, authority: Authority, tmp_path: Path) -> None:
        (tmp_path / "others").mkdir()
        stranger = Authority.new(tmp_path / "others")
        async with StagedBroker(tls=serving(authority)) as broker:
            with pytest.raises(TlsFailed, match=r"certificate is not trusted: .*check the CA \(ssl.truststore"):
                await Connection.open(broker.address, trusting(stranger), "a-test")

    async def test_a_certificate_for_another_host_is_not_trusted_unless_names_are_not_checked(
        self, authority: Authority
    ) -> None:
        async with StagedBroker({"Metadata": metadata}, tls=serving(authority), host="0.0.0.0") as broker:
            elsewhere = by_another_name(broker.address)
            with pytest.raises(TlsFailed, match=r"is not for this host: .*ssl.endpoint.identification.algorithm"):
                await Connection.open(elsewhere, trusting(authority), "a-test")

            async with connected(elsewhere, trusting(authority, check_hostname=False)) as connection:
                assert (await call(connection, METADATA, 9, PATIENCE)).cluster_id == "abc"

    async def test_a_certificate_has_to_be_for_the_name_wherever_that_leads(
        self, authority: Authority, names: NameServer
    ) -> None:
        """It is for localhost and 127.0.0.1. Who answers for a name server must not choose what is checked."""
        async with StagedBroker({"Metadata": metadata}, tls=serving(authority), host="0.0.0.0") as broker:
            names.leads["kafka.stage"] = ["127.0.0.1"]
            with pytest.raises(TlsFailed, match=r"is not for this host: .*kafka\.stage"):
                await Connection.open(Address("kafka.stage", broker.address.port), trusting(authority), "a-test")

            names.leads["localhost"] = ["127.0.0.2"]
            async with connected(Address("localhost", broker.address.port), trusting(authority)) as connection:
                assert (await call(connection, METADATA, 9, PATIENCE)).cluster_id == "abc"

    async def test_a_client_certificate_that_is_demanded_and_missing_is_said_so(self, authority: Authority) -> None:
        with (
            demanding(authority) as address,
            pytest.raises(TlsFailed, match="wants a client certificate"),
        ):
            async with connected(address, trusting(authority)) as connection:
                await call(connection, METADATA, 9, PATIENCE)

    async def test_a_client_certificate_is_shown(self, authority: Authority) -> None:
        ann = Store(StoreKind.PEM, authority.identity("ann").keystore)
        seen: list[Any] = []

        def role(heard: Heard) -> Any:
            seen.append(heard.writer.get_extra_info("peercert")["subject"])
            return metadata(heard)

        async with (
            StagedBroker({"Metadata": role}, tls=serving(authority, demand=True)) as broker,
            connected(broker.address, trusting(authority, ann)) as connection,
        ):
            await call(connection, METADATA, 9, PATIENCE)

        assert seen == [((("commonName", "ann"),),)]

    async def test_a_client_certificate_of_a_stranger_is_refused_by_the_broker(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        (tmp_path / "others").mkdir()
        ann = Store(StoreKind.PEM, Authority.new(tmp_path / "others").identity("ann").keystore)
        with (
            demanding(authority) as address,
            pytest.raises(TlsFailed, match="refuses the client certificate"),
        ):
            async with connected(address, trusting(authority, ann)) as connection:
                await call(connection, METADATA, 9, PATIENCE)

    async def test_a_tls_port_asked_in_plaintext_says_so(self, authority: Authority) -> None:
        async with StagedBroker(tls=serving(authority)) as broker, connected(broker.address) as connection:
            with pytest.raises(ClusterError, match=r"speaks TLS|security.protocol PLAINTEXT may not fit"):
                await call(connection, METADATA, 9, PATIENCE)

    async def test_an_alert_instead_of_an_answer_is_known_as_tls(self) -> None:
        alert = b"\x15\x03\x03\x00\x02\x02\x0a"
        async with StagedBroker({"Metadata": lambda heard: alert}) as broker, connected(broker.address) as connection:
            with pytest.raises(TlsFailed, match=r"the port speaks TLS and was asked in plaintext"):
                await call(connection, METADATA, 9, PATIENCE)

    async def test_a_plaintext_port_asked_for_tls_says_so(self, authority: Authority) -> None:
        async with port_that_says(b"") as address:
            with pytest.raises(BrokerUnreachable, match="the port may not speak TLS"):
                await Connection.open(address, trusting(authority), "a-test")

    async def test_a_port_that_answers_tls_with_something_else_says_so(self, authority: Authority) -> None:
        async with port_that_says(b"220 mail.example ESMTP\r\n") as address:
            with pytest.raises(TlsFailed, match=r"does not speak TLS; set security.protocol to PLAINTEXT"):
                await Connection.open(address, trusting(authority), "a-test")


@asynccontextmanager
async def port_that_says(words: bytes) -> AsyncIterator[Address]:
    """A port that waits for somebody to speak, says its words and hangs up."""
    over = asyncio.Event()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        writer.write(words)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        over.set()

    async with await asyncio.start_server(play, "127.0.0.1", 0) as server:
        yield Address(*server.sockets[0].getsockname())
        await over.wait()


class TestNoConnection:
    async def test_a_name_that_does_not_resolve_is_named(self) -> None:
        with pytest.raises(BrokerUnreachable, match=r"the name no-such-broker.invalid can't be resolved"):
            await Connection.open(Address("no-such-broker.invalid", 9092), PLAINTEXT, "a-test")

    async def test_a_name_with_several_addresses_leads_to_the_first_that_takes_a_connection(
        self, names: NameServer
    ) -> None:
        names.leads["kafka.stage"] = ["::1", "127.0.0.2", "127.0.0.1"]
        async with (
            StagedBroker({"Metadata": metadata}) as broker,
            connected(Address("kafka.stage", broker.address.port)) as connection,
        ):
            assert (await call(connection, METADATA, 9, PATIENCE)).cluster_id == "abc"

    async def test_if_none_takes_one_each_of_them_is_told(self, names: NameServer) -> None:
        names.leads["kafka.stage"] = ["127.0.0.2", "127.0.0.3"]
        async with StagedBroker() as broker:
            each = r"no connection: .*Connect call failed \('127\.0\.0\.2', .*Connect call failed \('127\.0\.0\.3', "
            with pytest.raises(BrokerUnreachable, match=each):
                await Connection.open(Address("kafka.stage", broker.address.port), PLAINTEXT, "a-test")

            names.leads["kafka.stage"] = ["127.0.0.2"]
            with pytest.raises(BrokerUnreachable, match="connection refused"):
                await Connection.open(Address("kafka.stage", broker.address.port), PLAINTEXT, "a-test")

    @pytest.mark.parametrize("text", ["kafka", "kafka:", ":9092", "kafka:0", "kafka:65536", "kafka:９"])
    def test_what_is_no_address_is_named_with_what_would_be(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"is not an address; write it as host:port"):
            Address.parse(text)

    @pytest.mark.parametrize("text", ["kafka-0.kafka:9092", "[::1]:9092", "10.0.0.1:1"])
    def test_an_address_reads_as_it_is_written(self, text: str) -> None:
        assert str(Address.parse(text)) == text


PLAIN = Security(Protocol.SASL_PLAINTEXT, sasl=Sasl(Mechanism.PLAIN, Password("ann", SECRET)))


def offers(*mechanisms: str) -> Role:
    def role(heard: Heard) -> Any:
        known = heard.message.mechanism in mechanisms
        return SaslHandshakeResponse(error_code=0 if known else 33, mechanisms=list(mechanisms))

    return role


def believes(lifetime: int = 0) -> Role:
    def role(heard: Heard) -> Any:
        good = bytes(heard.message.auth_bytes) == f"ann\0ann\0{SECRET}".encode()
        quote = None if good else f"no match for {heard.message.auth_bytes!r}"
        return SaslAuthenticateResponse(
            error_code=0 if good else 58, error_message=quote, auth_bytes=b"", session_lifetime_ms=lifetime
        )

    return role


class TestSasl:
    async def test_who_is_believed_may_ask(self) -> None:
        roles = {"SaslHandshake": offers("PLAIN"), "SaslAuthenticate": believes(), "Metadata": metadata}
        async with StagedBroker(roles) as broker, connected(broker.address, PLAIN) as connection:
            await call(connection, METADATA, 9, PATIENCE)

            assert broker.names() == ["SaslHandshake", "SaslAuthenticate", "Metadata"]

    async def test_nothing_of_it_is_done_in_threads_that_other_clusters_need(self, authority: Authority) -> None:
        """The name, the certificates and the password: the loop's own threads are gone."""
        gone = ThreadPoolExecutor()
        gone.shutdown()
        asyncio.get_running_loop().set_default_executor(gone)
        secure = Security(Protocol.SASL_SSL, trusting(authority).tls, PLAIN.sasl)
        roles = {"SaslHandshake": offers("PLAIN"), "SaslAuthenticate": believes(), "Metadata": metadata}
        async with (
            StagedBroker(roles, tls=serving(authority)) as broker,
            connected(Address("localhost", broker.address.port), secure) as connection,
        ):
            await call(connection, METADATA, 9, PATIENCE)

    async def test_a_wrong_password_is_said_without_saying_the_password(self) -> None:
        wrong = Security(Protocol.SASL_PLAINTEXT, sasl=Sasl(Mechanism.PLAIN, Password("ann", "hunter2")))
        async with StagedBroker({"SaslHandshake": offers("PLAIN"), "SaslAuthenticate": believes()}) as broker:
            with pytest.raises(AuthenticationFailed, match="PLAIN refused user ann: wrong user or password") as refusal:
                await Connection.open(broker.address, wrong, "a-test")

        assert "hunter2" not in f"{refusal.value!r} {refusal.value.reason}"

    async def test_every_request_and_answer_is_logged_and_nothing_of_what_is_in_them(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "kafka_recovery.cluster")
        secure = Security(Protocol.SASL_PLAINTEXT, sasl=Sasl(Mechanism.PLAIN, Password("ann", "hunter2")))
        roles = {"SaslHandshake": offers("PLAIN"), "SaslAuthenticate": believes()}
        async with StagedBroker(roles) as broker:
            address = broker.address
            with pytest.raises(AuthenticationFailed):
                await Connection.open(address, secure, "a-test")

        told = [line.removeprefix(f"{address}: ") for line in caplog.messages]
        assert told[:3] == ["connecting, in plaintext", "request 1: SaslHandshakeRequest v1", told[2]]
        assert told[2].startswith("answer to request 1, ")
        assert "not logged in: AuthenticationFailed" in told
        assert "hunter2" not in caplog.text

    async def test_a_mechanism_that_is_not_enabled_is_said_with_those_that_are(self) -> None:
        async with StagedBroker({"SaslHandshake": offers("SCRAM-SHA-512", "OAUTHBEARER")}) as broker:
            offered = "PLAIN is not enabled on this listener; it offers SCRAM-SHA-512, OAUTHBEARER"
            with pytest.raises(AuthenticationFailed, match=offered):
                await Connection.open(broker.address, PLAIN, "a-test")

    async def test_a_listener_without_sasl_is_said_to_be_one(self) -> None:
        def illegal(heard: Heard) -> Any:
            return SaslHandshakeResponse(error_code=34, mechanisms=[])

        async with StagedBroker({"SaslHandshake": illegal}) as broker:
            with pytest.raises(AuthenticationFailed, match=r"takes no SASL; set security.protocol to PLAINTEXT or SSL"):
                await Connection.open(broker.address, PLAIN, "a-test")

    async def test_a_broker_that_does_not_know_the_password_either_is_not_believed(self) -> None:
        """SCRAM proves both sides; a broker that cannot is an impostor, or garbles what it sends."""

        def impostor(heard: Heard) -> Any:
            said = bytes(heard.message.auth_bytes).decode()
            if said.startswith("n,,"):
                nonce = said.split("r=")[1]
                return SaslAuthenticateResponse(error_code=0, auth_bytes=f"r={nonce}x,s=c2FsdA==,i=4096".encode())
            return SaslAuthenticateResponse(error_code=0, auth_bytes=b"v=bm90IGl0")

        scram = Security(Protocol.SASL_PLAINTEXT, sasl=Sasl(Mechanism.SCRAM_SHA_512, Password("an=n,", SECRET)))
        async with StagedBroker({"SaslHandshake": offers("SCRAM-SHA-512"), "SaslAuthenticate": impostor}) as broker:
            with pytest.raises(AuthenticationFailed, match="did not prove that it knows the SCRAM-SHA-512") as refusal:
                await Connection.open(broker.address, scram, "a-test")

            assert SECRET not in repr(refusal.value)
            first = next(heard for heard in broker.heard if heard.name == "SaslAuthenticate")
            assert b"n=an=3Dn=2C," in bytes(first.message.auth_bytes)


class TestReauthentication:
    """KIP-368: a broker that limits sessions closes those that outlive their time."""

    @pytest.fixture(autouse=True)
    def any_session_may_be_renewed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection_module, "SHORTEST_SESSION", timedelta(0))

    async def test_a_session_that_lasts_is_not_renewed(self) -> None:
        roles = {"SaslHandshake": offers("PLAIN"), "SaslAuthenticate": believes(60_000), "Metadata": metadata}
        async with StagedBroker(roles) as broker, connected(broker.address, PLAIN) as connection:
            for _ in range(3):
                await call(connection, METADATA, 9, PATIENCE)

            assert broker.names().count("SaslAuthenticate") == 1

    async def test_a_session_about_to_end_is_renewed_before_the_next_request(self) -> None:
        lifetimes = iter([1, 60_000])

        def role(heard: Heard) -> Any:
            return believes(next(lifetimes))(heard)

        roles = {"SaslHandshake": offers("PLAIN"), "SaslAuthenticate": role, "Metadata": metadata}
        async with StagedBroker(roles) as broker, connected(broker.address, PLAIN) as connection:
            await outlived(connection)
            await asyncio.gather(*(call(connection, METADATA, 9, PATIENCE) for _ in range(5)))

            renewed = ["SaslHandshake", "SaslAuthenticate"]
            assert broker.names() == renewed + renewed + ["Metadata"] * 5

    async def test_a_session_that_is_not_renewed_ends_for_everybody(self) -> None:
        def only_once(heard: Heard) -> Any:
            first = heard.correlation_id == 2
            return believes(1)(heard) if first else SaslAuthenticateResponse(error_code=58, auth_bytes=b"")

        roles = {"SaslHandshake": offers("PLAIN"), "SaslAuthenticate": only_once, "Metadata": metadata}
        async with StagedBroker(roles) as broker, connected(broker.address, PLAIN) as connection:
            await outlived(connection)
            asked = (call(connection, METADATA, 9, PATIENCE) for _ in range(3))
            ends = await asyncio.gather(*asked, return_exceptions=True)

            assert sorted(type(end).__name__ for end in ends) == [
                "AuthenticationFailed",
                "BrokerUnreachable",
                "BrokerUnreachable",
            ]
            assert "Metadata" not in broker.names()
            assert not connection.is_open

    async def test_half_a_renewal_leaves_nothing_that_may_be_used(self) -> None:
        """The deadline passes in the middle: whatever is written next would be read as a part of the exchange."""

        def silent_twice(heard: Heard) -> Any:
            return believes(1)(heard) if heard.correlation_id == 2 else None

        roles = {"SaslHandshake": offers("PLAIN"), "SaslAuthenticate": silent_twice, "Metadata": metadata}
        async with StagedBroker(roles) as broker, connected(broker.address, PLAIN) as connection:
            await outlived(connection)
            with pytest.raises(TimeoutError):
                await call(connection, METADATA, 9, SOON)

            assert not connection.is_open


async def outlived(connection: Connection) -> None:
    """Wait until the session of a millisecond is over; the loop's clock is what counts."""
    while not connection._session_is_ending():
        await asyncio.sleep(0)


def told_of_itself(requests: int) -> bytes:
    """A broker's answer to ApiVersions, of so many requests, with its header."""
    keys = [ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=1) for key in range(requests)]
    body = ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0).encode(version=3)
    return struct.pack(">i", 1) + bytes(body)


def test_what_many_brokers_say_alike_of_themselves_is_read_once() -> None:
    first, second = (connection_module._decode(ApiVersionsResponse[3], 3, told_of_itself(60)) for _ in range(2))

    assert first is second
    assert len(first.api_keys) == 60
    assert len(connection_module._decode(ApiVersionsResponse[3], 3, told_of_itself(61)).api_keys) == 61


def test_what_a_broker_says_of_itself_at_length_is_not_kept() -> None:
    first, second = (connection_module._decode(ApiVersionsResponse[3], 3, told_of_itself(2000)) for _ in range(2))

    assert first is not second
