"""Stores and tokens: what is read, how it is refused, and that nothing of it leaks."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from kafka_recovery.cluster.errors import AuthenticationFailed, InvalidConfiguration
from kafka_recovery.cluster.security import (
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
from kafka_recovery.cluster.threads import Threads
from testbed.certificates import Authority, Identity

pytestmark = pytest.mark.kernel

SECRET = "hunter2"
JKS = b"\xfe\xed\xfe\xed\x00\x00\x00\x02"


@pytest.fixture
def threads() -> Threads:
    """New ones for each test: their places belong to the event loop that first has to wait for one."""
    return Threads("a-test")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.new(tmp_path)


@pytest.fixture
def ann(authority: Authority) -> Identity:
    return authority.identity("ann")


def shown_by(context: ssl.SSLContext, authority: Authority) -> str | None:
    """The common name a TLS server sees of a client with this context; the handshake runs in memory."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broker = authority.identity("broker")
    server.load_cert_chain(broker.certificate, broker.key)
    server.load_verify_locations(authority.certificate)
    server.verify_mode = ssl.CERT_OPTIONAL
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(one, other, server_hostname="localhost")
    theirs = server.wrap_bio(other, one, server_side=True)
    for side in (ours, theirs, ours, theirs):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    certificate: Any = theirs.getpeercert()
    return dict(part[0] for part in certificate["subject"])["commonName"] if certificate else None


def in_pkcs12(identity: Identity, authority: Authority, password: str, to: Path) -> Path:
    key = serialization.load_pem_private_key(identity.key.read_bytes(), None)
    own, root = (
        x509.load_pem_x509_certificate(path.read_bytes()) for path in (identity.certificate, authority.certificate)
    )
    encryption = serialization.BestAvailableEncryption(password.encode())
    to.write_bytes(pkcs12.serialize_key_and_certificates(b"ann", key, own, [root], encryption))  # type: ignore[arg-type]
    return to


def keytool(*arguments: str) -> None:
    tool = shutil.which("keytool")
    if tool is None:
        pytest.skip("keytool is not here; the same stores are built with the cryptography library above")
    subprocess.run([tool, *arguments, "-storepass", SECRET, "-noprompt"], check=True, capture_output=True)


class TestStores:
    def test_pem_files(self, authority: Authority, ann: Identity) -> None:
        tls = Tls(Store(StoreKind.PEM, authority.certificate), Store(StoreKind.PEM, ann.keystore))

        assert shown_by(tls.context(), authority) == "ann"

    @pytest.mark.parametrize("squeezed", [False, True])
    def test_pem_in_the_settings_even_on_one_line(self, authority: Authority, ann: Identity, squeezed: bool) -> None:
        def text(file: Path) -> str:
            return file.read_text().replace("\n", " ") if squeezed else file.read_text()

        trust = Store(StoreKind.PEM, pem=text(authority.certificate))
        identity = Store(StoreKind.PEM, pem=f"{text(ann.key)}\n{text(ann.certificate)}")

        assert shown_by(Tls(trust, identity).context(), authority) == "ann"

    def test_an_encrypted_key_is_opened_with_its_password(self, authority: Authority, ann: Identity) -> None:
        key = serialization.load_pem_private_key(ann.key.read_bytes(), None)
        locked = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(SECRET.encode()),
        ).decode()
        pem = locked + ann.certificate.read_text()
        trust = Store(StoreKind.PEM, authority.certificate)

        context = Tls(trust, Store(StoreKind.PEM, pem=pem, key_password=SECRET)).context()
        assert shown_by(context, authority) == "ann"
        with pytest.raises(InvalidConfiguration, match="is the key's password right") as refusal:
            Tls(trust, Store(StoreKind.PEM, pem=pem, key_password="hunter3")).context()
        assert "hunter" not in str(refusal.value)

    def test_pkcs12(self, authority: Authority, ann: Identity, tmp_path: Path) -> None:
        store = Store(StoreKind.PKCS12, in_pkcs12(ann, authority, SECRET, tmp_path / "ann.p12"), password=SECRET)

        assert shown_by(Tls(store, store).context(), authority) == "ann"

    def test_a_pkcs12_store_goes_as_jks_too_as_in_java(
        self, authority: Authority, ann: Identity, tmp_path: Path
    ) -> None:
        store = Store(StoreKind.JKS, in_pkcs12(ann, authority, SECRET, tmp_path / "ann.jks"), password=SECRET)

        assert shown_by(Tls(store, store).context(), authority) == "ann"

    def test_a_trust_store_of_keytool(self, authority: Authority, tmp_path: Path) -> None:
        file = tmp_path / "trust.p12"
        keytool("-importcert", "-file", str(authority.certificate), "-keystore", str(file), "-storetype", "PKCS12")

        assert shown_by(Tls(Store(StoreKind.PKCS12, file, password=SECRET)).context(), authority) is None

    def test_an_intermediate_certificate_may_be_trusted_by_itself(self, authority: Authority) -> None:
        """As in Java: what is in the trust store is an anchor, even the broker's own certificate."""
        broker = authority.identity("broker")
        context = Tls(Store(StoreKind.PEM, broker.certificate)).context()

        assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN

    def test_a_key_never_lies_open_on_the_disk(
        self, authority: Authority, ann: Identity, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written = []
        load = ssl.SSLContext.load_cert_chain

        def spy(self: ssl.SSLContext, file: str, **more: Any) -> None:
            written.append((Path(file), Path(file).read_text()))
            load(self, file, **more)

        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
        Tls(Store(StoreKind.PEM, authority.certificate), Store(StoreKind.PEM, ann.keystore)).context()

        [(file, content)] = written
        assert "BEGIN ENCRYPTED PRIVATE KEY" in content
        assert "BEGIN PRIVATE KEY" not in content
        assert not file.exists()

    @pytest.mark.parametrize(
        ("content", "kind", "said"),
        [
            (
                b"\xfe\xed\xfe\xed\x00\x00\x00\x02",
                StoreKind.JKS,
                r"only be read by Java.*keytool -importkeystore .*\.p12",
            ),
            (b"\xfe\xed\xfe\xed\x00\x00\x00\x02", StoreKind.PKCS12, r"only be read by Java"),
            (b"not a store", StoreKind.PKCS12, "no PKCS12 store, or its password is wrong"),
            (b"not a store", StoreKind.PEM, "holds no certificate"),
            (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", StoreKind.PEM, "block can't be read"),
        ],
    )
    def test_a_store_that_can_not_be_used_says_what_to_do(
        self, tmp_path: Path, content: bytes, kind: StoreKind, said: str
    ) -> None:
        file = tmp_path / "trust"
        file.write_bytes(content)
        with pytest.raises(InvalidConfiguration, match=rf"ssl\.truststore .*trust: .*{said}") as refusal:
            Tls(Store(kind, file, password=SECRET, setting="ssl.truststore")).context()

        assert SECRET not in str(refusal.value)

    def test_a_store_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidConfiguration, match=r"ssl\.truststore .*missing: No such file"):
            Tls(Store(StoreKind.PEM, tmp_path / "missing", setting="ssl.truststore")).context()

    def test_an_identity_without_a_key_is_none(self, authority: Authority, ann: Identity) -> None:
        trust = Store(StoreKind.PEM, authority.certificate)
        with pytest.raises(InvalidConfiguration, match="needs a private key and its certificate"):
            Tls(trust, Store(StoreKind.PEM, ann.certificate)).context()

    def test_a_key_of_somebody_else_is_refused(self, authority: Authority, ann: Identity) -> None:
        pem = authority.identity("bob").key.read_text() + ann.certificate.read_text()
        with pytest.raises(InvalidConfiguration, match=r"can't be used: KEY_VALUES_MISMATCH"):
            Tls(Store(StoreKind.PEM, authority.certificate), Store(StoreKind.PEM, pem=pem)).context()


class TestSecurity:
    @pytest.mark.parametrize("protocol", [Protocol.SSL, Protocol.SASL_SSL, Protocol.SASL_PLAINTEXT])
    def test_a_protocol_needs_its_settings(self, protocol: Protocol) -> None:
        with pytest.raises(InvalidConfiguration, match=f"{protocol} needs (TLS|SASL) settings"):
            Security(protocol)

    def test_settings_that_would_not_be_used_are_refused(self) -> None:
        """Who sets a password on a PLAINTEXT connection believes in a protection that is not there."""
        with pytest.raises(InvalidConfiguration, match="PLAINTEXT goes without TLS"):
            Security(Protocol.PLAINTEXT, Tls())
        with pytest.raises(InvalidConfiguration, match="PLAINTEXT goes without SASL"):
            Security(Protocol.PLAINTEXT, sasl=Sasl(Mechanism.PLAIN, Password("ann", SECRET)))


@dataclass
class TokenEndpoint:
    """What an identity provider is asked, and what it says: a status and a body."""

    answer: Callable[[str], tuple[int, Any]]
    heard: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def at(self, authority: Authority) -> AsyncIterator[str]:
        identity = authority.identity("endpoint")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        over: list[asyncio.Event] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            over.append(event := asyncio.Event())
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
            self.heard.append(head + (await reader.readexactly(length)).decode())
            status, body = self.answer(self.heard[-1])
            content = (body if isinstance(body, str) else json.dumps(body)).encode()
            writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(content)))
            writer.write(content)
            await writer.drain()
            await reader.read()
            writer.transport.abort()
            event.set()

        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
            yield f"https://localhost:{server.sockets[0].getsockname()[1]}/token"
            for event in over:
                await event.wait()


def source(url: str, authority: Authority) -> TokenSource:
    return TokenSource(url, "me", SECRET, "kafka", Tls(Store(StoreKind.PEM, authority.certificate)))


class TestTokens:
    async def test_a_file_is_read_anew_each_time(self, threads: Threads, tmp_path: Path) -> None:
        file = tmp_path / "token with blank"
        tokens = TokenSource(file.as_uri())
        file.write_text("first\n")
        assert await tokens.token(threads) == "first"
        file.write_text("second\n")
        assert await tokens.token(threads) == "second"

    @pytest.mark.parametrize("content", [b"", b"two words", b"line\x01auth=", b"\xff\xfe"])
    async def test_what_is_no_token_is_not_sent(self, threads: Threads, tmp_path: Path, content: bytes) -> None:
        """A control character would let the file's author speak in the exchange's own language."""
        file = tmp_path / "token"
        file.write_bytes(content)
        with pytest.raises(AuthenticationFailed, match=r"token: .*(not a bearer token|not text)"):
            await TokenSource(file.as_uri()).token(threads)

    async def test_a_file_that_is_not_there_is_named(self, threads: Threads, tmp_path: Path) -> None:
        with pytest.raises(AuthenticationFailed, match=r"missing: no token: No such file"):
            await TokenSource((tmp_path / "missing").as_uri()).token(threads)

    async def test_of_a_url_only_what_can_be_no_secret_is_printed(self, threads: Threads, tmp_path: Path) -> None:
        """A TokenSource may be made of something else than a properties file, which would refuse such a URL."""
        tokens = TokenSource(f"https://me:{SECRET}@localhost:1/token?key={SECRET}#{SECRET}", "me", SECRET)
        with pytest.raises(AuthenticationFailed, match=r"^https://localhost:1/token: no token") as refusal:
            await tokens.token(threads)

        assert SECRET not in f"{tokens} {tokens!r} {refusal.value!r} {refusal.value.__cause__!r}"

    async def test_a_grant_is_asked_for_as_kafka_does(self, threads: Threads, authority: Authority) -> None:
        endpoint = TokenEndpoint(lambda heard: (200, {"access_token": "abc.def.ghi", "expires_in": 60}))
        async with endpoint.at(authority) as url:
            assert await source(url, authority).token(threads) == "abc.def.ghi"

        [heard] = endpoint.heard
        basic = base64.b64encode(f"me:{SECRET}".encode()).decode()
        assert f"Basic {basic}" in heard
        assert heard.endswith("grant_type=client_credentials&scope=kafka")

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (
                (401, {"error": "invalid_client", "error_description": SECRET}),
                r"HTTP 401 invalid_client; check client id",
            ),
            ((400, {"error": f"<{SECRET}>"}), r"HTTP 400; check"),
            ((502, f"<html>{SECRET}"), r"HTTP 502; check"),
            ((200, {"token": SECRET}), r"HTTP 200; check"),
            ((200, {"access_token": 7}), r"HTTP 200; check"),
            ((200, [SECRET]), r"HTTP 200; check"),
            ((302, ""), r"HTTP 302; check"),
        ],
    )
    async def test_a_refusal_is_told_by_its_status_and_no_secret(
        self, threads: Threads, authority: Authority, answer: tuple[int, Any], said: str
    ) -> None:
        async with TokenEndpoint(lambda heard: answer).at(authority) as url:
            with pytest.raises(AuthenticationFailed, match=rf"no token for client me: {said}") as refusal:
                await source(url, authority).token(threads)

        assert SECRET not in f"{refusal.value!r} {refusal.value.__cause__!r}"

    async def test_an_endpoint_that_is_not_trusted_is_not_told_the_secret(
        self, threads: Threads, authority: Authority, tmp_path: Path
    ) -> None:
        (tmp_path / "others").mkdir()
        stranger = Authority.new(tmp_path / "others")
        endpoint = TokenEndpoint(lambda heard: (200, {"access_token": "abc"}))
        async with endpoint.at(authority) as url:
            with pytest.raises(AuthenticationFailed, match=r"no connection to the token endpoint .*CERTIFICATE_VERIFY"):
                await source(url, stranger).token(threads)

        assert endpoint.heard == []
