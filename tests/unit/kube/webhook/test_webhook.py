"""The webhook on real sockets: whom an alert wakes, and what floods, replays and senders without manners come to."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from kafka_recovery.kube.machinery.credentials import BadCredentials, Callers, TlsFiles, TokenFile
from kafka_recovery.kube.machinery.listening import bound
from kafka_recovery.kube.machinery.metrics import Heard
from kafka_recovery.kube.webhook import receiver, server
from kafka_recovery.kube.webhook.receiver import AT_ONCE, LARGEST_BODY, REPEATED, TOLD_EVERY
from kafka_recovery.kube.webhook.server import MOST_CONNECTIONS, opened
from testbed.certificates import Authority, Identity
from unit.kube.webhook.callers import BEARER, TOKEN, World, ended, listening, until
from unit.kube.webhook.payloads import alert, payload


def warnings(caplog: pytest.LogCaptureFixture) -> int:
    return len([each for each in caplog.records if each.levelno >= logging.WARNING])


def posting(*fields: str) -> bytes:
    """The head of a request with the token."""
    return "\r\n".join(("POST /alerts HTTP/1.1", "Host: x", BEARER, *fields, "", "")).encode()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return path


@pytest.fixture
async def world(token: Path) -> AsyncIterator[World]:
    async with listening(token) as started:
        yield started


class TestWaking:
    async def test_an_alert_wakes_the_watcher_of_its_cluster(self, world: World) -> None:
        answer = await world.post()

        assert answer.status == 202
        assert answer.said == {"woken": ["kafka/prod"], "repeated": [], "refused": {}}
        assert world.woken == [("kafka", "prod")]
        assert world.counted(Heard.WOKEN) == 1

    async def test_the_same_group_wakes_it_once_in_a_while(self, world: World) -> None:
        await world.post()
        answer = await world.post()
        assert (answer.status, answer.said["repeated"]) == (202, ["kafka/prod"])
        assert len(world.woken) == 1

        world.now += REPEATED
        await world.post()
        assert len(world.woken) == 2

    async def test_a_cluster_that_joins_a_group_is_woken_at_once(self, world: World) -> None:
        await world.post(payload(alert(namespace="kafka", name="test")))
        answer = await world.post(payload(alert(namespace="kafka", name="test"), alert()))

        assert world.woken == [("kafka", "prod")]
        assert answer.status == 202

    async def test_what_is_over_wakes_nobody(self, world: World) -> None:
        answer = await world.post(payload(alert("resolved")))

        assert (answer.status, world.woken) == (202, [])
        assert world.counted(Heard.RESOLVED) == 1

    async def test_a_cluster_that_is_not_watched_is_refused_with_the_reason(self, world: World) -> None:
        answer = await world.post(payload(alert(namespace="kafka", name="other")))

        assert answer.status == 404
        assert "kafka/other" in answer.body
        assert "InvalidReference" in answer.body
        assert world.counted(Heard.NOT_WATCHED) == 1

    async def test_what_came_to_nothing_is_no_repetition(self, world: World) -> None:
        for _ in range(2):
            answer = await world.post(payload(alert(namespace="kafka", name="other")))

            assert answer.status == 404

    async def test_alerts_that_name_no_cluster_are_told_which_label_is_missing(self, world: World) -> None:
        answer = await world.post(payload(alert(alertname="A")))

        assert answer.status == 404
        assert "labels `namespace` and `name`" in answer.body


class TestStrangers:
    @pytest.mark.parametrize(
        "header", ["X: y", "Authorization: Bearer wrong-token-wrong-token", "Authorization: Bearer"]
    )
    async def test_who_does_not_know_the_token_is_not_even_read(self, world: World, header: str) -> None:
        answer = await world.send(
            f"POST /alerts HTTP/1.1\r\nHost: x\r\n{header}\r\nContent-Length: 1000\r\n\r\n".encode()
        )

        assert answer.status == 401
        assert "WWW-Authenticate: Bearer" in answer.headers
        assert not world.woken

    async def test_a_flood_of_wrong_tokens_does_not_use_up_what_the_right_one_may_do(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(AT_ONCE + 2):
            assert (await world.post(None, "Authorization: Bearer wrong-token-wrong-token")).status == 401

        assert (await world.post()).status == 202
        assert world.counted(Heard.UNAUTHENTICATED) == AT_ONCE + 2
        assert warnings(caplog) == 1

        world.now += TOLD_EVERY
        await world.post(None, "X: y")
        assert warnings(caplog) == 2

    @pytest.mark.parametrize(
        ("line", "status"), [("GET /alerts", 405), ("PUT /alerts", 405), ("POST /", 404), ("POST /alerts/../x", 404)]
    )
    async def test_only_posts_to_one_path_are_served(self, world: World, line: str, status: int) -> None:
        assert (await world.post(line=line)).status == status
        assert not world.woken

    @pytest.mark.parametrize("raw", [b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\x00" * 9000 + b"\r\n\r\n"])
    async def test_what_is_no_http_is_closed(self, world: World, raw: bytes) -> None:
        reader, writer = await world.connect()
        writer.write(raw)
        writer.write_eof()

        assert (await ended(reader, writer)).status in (0, 400)
        assert (await world.post()).status == 202


class TestBombs:
    async def test_a_body_that_says_it_has_a_gigabyte_is_refused_before_a_byte_of_it(self, world: World) -> None:
        answer = await world.send(posting(f"Content-Length: {2**30}"))

        assert answer.status == 413
        assert "max_alerts" in answer.body

    async def test_a_body_without_a_length_is_cut_off_where_it_is_too_long(self, world: World) -> None:
        reader, writer = await world.connect()
        writer.write(posting("Transfer-Encoding: chunked"))
        sent = 0
        with suppress(ConnectionError):
            while sent < 2**30:
                writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
                await writer.drain()
                sent += 65536
        answer = await ended(reader, writer)

        assert sent < 2**30
        assert world.counted(Heard.TOO_LARGE) == 1
        assert answer.status in (413, 0), "0: what we sent after the answer may have reset the connection"

    async def test_what_is_nested_too_deeply_is_refused(self, world: World) -> None:
        answer = await world.post(b"[" * LARGEST_BODY)

        assert (answer.status, answer.said) == (400, {"refused": "it is nested too deeply"})

    async def test_a_compressed_bomb_is_not_unpacked(self, world: World) -> None:
        answer = await world.post(zlib.compress(b" " * 2**26), BEARER, "Content-Encoding: deflate")

        assert answer.status == 415

    async def test_chunks_that_are_none_are_refused(self, world: World) -> None:
        answer = await world.send(posting("Transfer-Encoding: chunked") + b"zz\r\nhello\r\n")

        assert answer.status in (400, 0)
        assert not world.woken

    async def test_what_a_payload_holds_never_reaches_the_log(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Not even as a name: one that can be none is not repeated."""
        caplog.set_level(logging.DEBUG)
        evil = "prod\x1b[31m\nERROR the cluster is fine"
        await world.post(payload(alert(namespace="kafka", name=evil)))
        await world.post(b"\x1b[31mevil")

        assert "\x1b" not in caplog.text
        assert "the cluster is fine" not in caplog.text
        assert "evil" not in caplog.text


class TestFloods:
    async def test_too_many_notifications_are_put_off(self, world: World) -> None:
        for number in range(AT_ONCE):
            await world.post(payload(group=str(number)))
        answer = await world.post(payload(group="one more"))

        assert answer.status == 429
        assert "Retry-After: 1" in answer.headers
        world.now += 1
        assert (await world.post(payload(group="one more"))).status == 202

    async def test_more_connections_than_there_is_room_for_push_out_the_oldest(self, world: World) -> None:
        idle = []
        for _ in range(MOST_CONNECTIONS):
            idle.append(await world.connect())
        await until(lambda: len(asyncio.all_tasks()) > MOST_CONNECTIONS)

        assert (await world.post()).status == 202
        assert (await ended(*idle[0])).status == 0
        assert world.counted(Heard.CUT_OFF) == 1
        for _, writer in idle[1:]:
            writer.close()

    async def test_connections_are_taken_at_a_pace_that_leaves_room_for_the_operators_own_work(
        self, world: World
    ) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(server.AT_ONCE + 10):
            await world.post(None, "X: y")

        assert loop.time() - began >= 9 / server.A_SECOND


class TestSlowSenders:
    async def test_one_that_never_ends_its_headers_is_cut_off(self, token: Path) -> None:
        async with listening(token, life=0.2) as world:
            reader, writer = await world.connect()
            writer.write(b"POST /alerts HTTP/1.1\r\nX: ")

            assert (await ended(reader, writer)).status == 0
            assert world.counted(Heard.TOO_SLOW) == 1

    async def test_one_that_never_ends_its_body_is_told(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(receiver, "BODY_WITHIN", 0.1)
        answer = await world.send(posting("Content-Length: 100") + b"{")

        assert answer.status == 408

    async def test_one_that_hangs_up_in_the_middle_leaves_nothing_behind(self, world: World) -> None:
        _, writer = await world.connect()
        writer.write(posting("Content-Length: 100") + b"{")
        await writer.drain()
        writer.close()

        await until(lambda: world.counted(Heard.INVALID))
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name() == "webhook connection"])

    async def test_the_end_of_the_operator_waits_for_nobody(self, token: Path) -> None:
        async with listening(token) as world:
            reader, writer = await world.connect()
            writer.write(b"POST")
            await until(lambda: [task for task in asyncio.all_tasks() if task.get_name() == "webhook connection"])

        assert (await ended(reader, writer)).status == 0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return Authority.new(tmp_path_factory.mktemp("theirs")).identity("alertmanager")


def trusting(authority: Authority, client: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    if client:
        context.load_cert_chain(client.certificate, client.key)
    return context


def files(authority: Authority) -> TlsFiles:
    own = authority.identity("operator")
    return TlsFiles(own.certificate, own.key, authority.certificate)


class TestCertificates:
    async def test_a_client_of_our_authority_is_let_in_without_a_token(self, authority: Authority) -> None:
        async with listening(None, files(authority)) as world:
            tls = trusting(authority, authority.identity("alertmanager"))
            assert (await world.post(None, "X: y", tls=tls)).status == 202

    async def test_with_a_token_as_well_both_are_asked_for(self, authority: Authority, token: Path) -> None:
        async with listening(token, files(authority)) as world:
            tls = trusting(authority, authority.identity("alertmanager"))
            assert (await world.post(None, "X: y", tls=tls)).status == 401
            assert (await world.post(tls=tls)).status == 202

    async def test_nobody_else_gets_past_the_handshake(
        self, authority: Authority, stranger: Identity, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with listening(None, files(authority)) as world:
            for client in (None, stranger):
                with suppress(ssl.SSLError, ConnectionError):
                    assert (await world.post(tls=trusting(authority, client))).status == 0
            await until(lambda: world.counted(Heard.UNAUTHENTICATED) == 2)
            assert not world.woken
            assert warnings(caplog) == 1

    async def test_who_speaks_no_tls_is_cut_off(self, authority: Authority) -> None:
        async with listening(None, files(authority)) as world:
            assert (await world.post()).status == 0
            assert not world.woken


class TestOpening:
    def test_a_port_that_is_taken_is_an_error(self, token: Path) -> None:
        with bound(0) as taken:
            taken.listen()
            with pytest.raises(OSError, match="in use"):
                opened(taken.getsockname()[1], Callers(TokenFile(token)))

    def test_until_it_runs_nobody_is_kept_waiting(self, token: Path) -> None:
        """A process that stands by for the Lease has the port, and refuses: Alertmanager tries another one."""
        with opened(0, Callers(TokenFile(token))).listener as listener, pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", listener.getsockname()[1]), timeout=5)

    def test_a_bad_file_is_told_before_the_port_is_taken(self, tmp_path: Path) -> None:
        with pytest.raises(BadCredentials, match="can't be read"):
            opened(0, Callers(TokenFile(tmp_path / "nothing")))
