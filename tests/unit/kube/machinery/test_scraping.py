"""Who may read the metrics, over what, and that nobody who is silent keeps the others out. On real sockets."""

from __future__ import annotations

import logging
import shutil
import socket
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest
from prometheus_client.exposition import ThreadingWSGIServer

from kafka_recovery.kube.machinery import scraping
from kafka_recovery.kube.machinery.credentials import ANYBODY, Callers, TlsFiles, TokenFile
from kafka_recovery.kube.machinery.metrics import Metrics
from testbed.certificates import Authority
from testbed.ports import HOST, Ports
from testbed.waiting import wait_until

TOKEN = "a-token-of-twenty-four-c"
OTHER = "another-token-that-is-new"

Serve = Callable[[Callers], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves the metrics of a process; returns the port."""
    with Ports() as ports:

        def serve_them(callers: Callers) -> int:
            port = ports.take()
            Metrics().serve(port, callers)
            return port

        yield serve_them


@dataclass
class Place:
    """Where certificates lie as a Secret's volume has them, and who signed them."""

    folder: Path
    authority: Authority

    def renew(self, name: str) -> None:
        one = self.authority.identity(name)
        shutil.copy(one.certificate, self.folder / "tls.crt")
        shutil.copy(one.key, self.folder / "tls.key")

    def files(self, client_ca: Path | None = None) -> TlsFiles:
        return TlsFiles(self.folder / "tls.crt", self.folder / "tls.key", client_ca)

    def trusting(self, client: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if client:
            one = self.authority.identity(client)
            context.load_cert_chain(one.certificate, one.key)
        return context


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "secret").mkdir()
    found = Place(tmp_path / "secret", Authority.new(tmp_path))
    found.renew("operator")
    return found


def read(port: int, tls: ssl.SSLContext | None = None, token: str = "") -> tuple[int, str]:
    """What Prometheus gets."""
    scheme = "https" if tls else "http"
    asked = urllib.request.Request(f"{scheme}://{HOST}:{port}/metrics")
    if token:
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, timeout=5, context=tls) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_over_tls_they_are_read_by_who_trusts_the_certificate_and_by_nobody_in_the_clear(
    serve: Serve, place: Place
) -> None:
    port = serve(Callers(tls=place.files()))

    status, said = read(port, place.trusting())
    assert (status, "kafka_recovery_build_info{" in said) == (200, True)
    with pytest.raises((URLError, ConnectionError)):
        read(port)
    with pytest.raises(URLError, match="certificate verify failed"):
        read(port, ssl.create_default_context())


def test_a_certificate_that_was_renewed_is_shown_to_the_next_client(serve: Serve, place: Place) -> None:
    port = serve(Callers(tls=place.files()))

    def shown() -> bytes | None:
        with (
            socket.create_connection((HOST, port), timeout=5) as plain,
            place.trusting().wrap_socket(plain, server_hostname=HOST) as client,
        ):
            return client.getpeercert(binary_form=True)

    before = shown()
    assert shown() == before
    place.renew("renewed")
    after = shown()
    assert after != before

    (place.folder / "tls.crt").write_text("half written")
    assert shown() == after, "what can't be read in the middle of a rotation is read a moment later"


def test_with_a_client_ca_only_its_clients_read(serve: Serve, place: Place) -> None:
    port = serve(Callers(tls=place.files(place.authority.certificate)))

    assert read(port, place.trusting("prometheus"))[0] == 200
    with pytest.raises((URLError, ConnectionError, ssl.SSLError)):
        read(port, place.trusting())


def test_with_a_token_only_who_has_it_reads_also_while_it_is_replaced(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    port = serve(Callers(TokenFile(file)))

    for wrong in ("", OTHER):
        status, said = read(port, token=wrong)
        assert status == 401
        assert "kafka_recovery" not in said
    assert read(port, token=TOKEN)[0] == 200

    file.write_text(f"{TOKEN}\n{OTHER}")
    assert [read(port, token=each)[0] for each in (TOKEN, OTHER)] == [200, 200]
    file.write_text(OTHER)
    assert [read(port, token=each)[0] for each in (TOKEN, OTHER)] == [401, 200]


def test_of_too_many_silent_clients_the_latest_are_closed_and_in_time_all(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraping, "LIFE", 0.5)
    monkeypatch.setattr(scraping, "LONGEST", 3600.0)
    port = serve(ANYBODY)
    with ExitStack() as stack:
        for _ in range(scraping.AT_ONCE):
            stack.enter_context(socket.create_connection((HOST, port)))
        late = stack.enter_context(socket.create_connection((HOST, port), timeout=5))
        assert late.recv(1) == b"", "there is no thread for it"

        wait_until("there is room again", lambda: answered(port), bool)


@pytest.mark.parametrize("tls", [False, True])
def test_who_sends_a_little_again_and_again_is_closed_in_time(
    serve: Serve, place: Place, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    """Over TLS not even its handshake ends: a record that says that it is long, and comes byte by byte."""
    monkeypatch.setattr(scraping, "LONGEST", 0.5)
    port = serve(Callers(tls=place.files()) if tls else ANYBODY)
    with socket.create_connection((HOST, port), timeout=0.2) as slow:
        slow.sendall(b"\x16\x03\x01\x3f\x00\x01\x00\x3e\xfc\x03\x03" if tls else b"GET /metrics HTTP/1.1\r\nX: ")

        wait_until("it is closed", lambda: is_closed(slow), bool)


def is_closed(slow: socket.socket) -> bool:
    """After one more byte."""
    try:
        slow.sendall(b"a")
        return slow.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_no_more_is_read_than_a_request_has_before_a_token_is_asked_for(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    port = serve(Callers(TokenFile(file)))

    with socket.create_connection((HOST, port), timeout=5) as endless:
        endless.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * scraping.LARGEST)

        assert b" 401 " in endless.recv(100), "it waits for no more"


def test_threads_that_could_not_be_had_are_no_threads_that_are_busy(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = serve(ANYBODY)
    with monkeypatch.context() as out_of_threads:

        def refused(*_: object) -> None:
            raise RuntimeError("can't start new thread")

        out_of_threads.setattr(ThreadingWSGIServer, "process_request", refused)
        assert not any(answered(port) for _ in range(scraping.AT_ONCE))

    assert answered(port)


def answered(port: int) -> bool:
    try:
        return read(port)[0] == 200
    except OSError:
        return False


def test_who_comes_without_tls_is_told_of_once_a_minute(
    serve: Serve, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    port = serve(Callers(tls=place.files()))

    for _ in range(3):
        with pytest.raises((URLError, ConnectionError)):
            read(port)
    wait_until("it is told", lambda: caplog.records, bool)

    (told,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert told.startswith(f"a scrape from ::ffff:{HOST} comes to nothing: ")
    assert "HTTP" in told
