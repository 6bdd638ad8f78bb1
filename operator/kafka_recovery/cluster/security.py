"""How we prove who we are, and how a broker does: TLS contexts and the SASL exchange.

Stores are read anew for each connection, tokens for each authentication: what was rotated on disk is used at once.
"""

from __future__ import annotations

import re
import secrets
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kafka_recovery.cluster.errors import AuthenticationFailed, InvalidConfiguration, error_name
from kafka_recovery.cluster.threads import Threads

if TYPE_CHECKING:
    import httpx


class Protocol(StrEnum):
    """Kafka's `security.protocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class Mechanism(StrEnum):
    """Kafka's `sasl.mechanism`, as far as we speak it."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class StoreKind(StrEnum):
    """Kafka's `ssl.truststore.type` and `ssl.keystore.type`. JKS stands for Java's own choice: the file decides."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"


class _Contents(NamedTuple):
    """What is in a store. `certificates` of a key store begin with the key's own."""

    key: Any
    certificates: list[x509.Certificate]


@dataclass(frozen=True, slots=True)
class Store:
    """A key or trust store: a file, or PEM text. `setting` is what messages call it, for example `ssl.truststore`."""

    kind: StoreKind
    location: Path | None = None
    pem: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    setting: str = "store"

    def read(self) -> _Contents:
        """Open the store. Raises InvalidConfiguration saying what to do; never what is inside."""
        content = self._content()
        if self.kind is StoreKind.PEM:
            return self._read_pem(content)
        if content.startswith(_JKS_MAGIC):
            raise InvalidConfiguration(
                f"{self}: a JKS store can only be read by Java; convert it and use type PKCS12: keytool "
                f"-importkeystore -srckeystore {self.location} -destkeystore {self.location}.p12 -deststoretype PKCS12"
            )
        return self._read_pkcs12(content)

    def __str__(self) -> str:
        return f"{self.setting} {self.location}" if self.location else f"{self.setting} (inline PEM)"

    def _content(self) -> bytes:
        if self.location is None:
            return (self.pem or "").encode()
        try:
            return self.location.read_bytes()
        except OSError as error:
            raise InvalidConfiguration(f"{self}: {error.strerror}") from error

    def _read_pem(self, content: bytes) -> _Contents:
        blocks = _pem_blocks(content)
        keys = [block for kind, block in blocks if kind.endswith(b"PRIVATE KEY")]
        password = self.key_password.encode() if self.key_password else None
        try:
            certificates = [x509.load_pem_x509_certificate(block) for kind, block in blocks if kind == b"CERTIFICATE"]
            key = serialization.load_pem_private_key(keys[0], password) if keys else None
        except (ValueError, TypeError):
            # From None: the library's text may quote what it read; the setting is enough to find the fault.
            raise InvalidConfiguration(f"{self}: a PEM block can't be read; is the key's password right?") from None
        return _Contents(key, certificates)

    def _read_pkcs12(self, content: bytes) -> _Contents:
        try:
            store = pkcs12.load_pkcs12(content, self.password.encode() if self.password else None)
        except (ValueError, TypeError):
            raise InvalidConfiguration(f"{self}: no PKCS12 store, or its password is wrong") from None
        own = [store.cert.certificate] if store.cert else []
        return _Contents(store.key, own + [other.certificate for other in store.additional_certs])


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to trust and who we are. `trust` None: the system's CAs. `check_hostname`: https endpoint identification."""

    trust: Store | None = None
    identity: Store | None = None
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """A client context. Raises InvalidConfiguration if a store can't be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_hostname
        # As in Java, every certificate in the trust store is an anchor, a root or not.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.trust is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=_anchors(self.trust))
        if self.identity is not None:
            _load_identity(context, self.identity)
        return context


@dataclass(frozen=True, slots=True)
class Password:
    """Credentials of PLAIN and SCRAM."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where OAUTHBEARER tokens come from: a `file://` URL that holds one, or an `https://` client-credentials endpoint.

    `tls`: whom the endpoint's certificate is checked against; None: the system's CAs. It prints as its URL without what
    may hold a secret: user, query, fragment.
    """

    url: str = field(repr=False)
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    tls: Tls | None = None

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    async def token(self, threads: Threads) -> str:
        """A token, fetched now. The caller's deadline is a timeout around it. Raises AuthenticationFailed."""
        parts = urlsplit(self.url)
        from_file = parts.scheme == "file"
        token = await (self._from_file(unquote(parts.path), threads) if from_file else self._from_endpoint(threads))
        if not _BEARER_TOKEN.fullmatch(token):
            raise AuthenticationFailed(self, "what it gave is not a bearer token (RFC 6750)")
        return token

    async def _from_file(self, path: str, threads: Threads) -> str:
        try:
            return (await threads.call(partial(Path(path).read_text, encoding="utf-8"))).strip()
        except OSError as error:
            raise AuthenticationFailed(self, f"no token: {error.strerror}") from error
        except UnicodeDecodeError:
            raise AuthenticationFailed(self, "no token: the file is not text") from None

    async def _from_endpoint(self, threads: Threads) -> str:
        import httpx  # here: few log in this way, and nobody else waits for it

        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        context = await threads.call((self.tls or Tls()).context)
        try:
            # No timeout of its own: the deadline of the request that needs the token holds for the token too.
            async with httpx.AsyncClient(verify=context, timeout=None) as client:
                answer = await client.post(self.url, data=form, auth=(self.client_id or "", self.client_secret or ""))
        except httpx.HTTPError as error:
            raise AuthenticationFailed(self, f"no token: {_http_problem(error)}") from error
        return self._granted(answer)

    def _granted(self, answer: httpx.Response) -> str:
        """The token of a grant. A refusal is told by its status and its RFC 6749 word, never by its text."""
        try:
            content = answer.json()
        except ValueError:
            content = None
        fields = content if isinstance(content, dict) else {}
        if answer.is_success and isinstance(fields.get("access_token"), str):
            return str(fields["access_token"])
        word = fields.get("error")
        said = f" {word}" if isinstance(word, str) and _OAUTH_ERROR.fullmatch(word) else ""
        raise AuthenticationFailed(
            self,
            f"no token for client {self.client_id}: HTTP {answer.status_code}{said}; check client id, secret and scope",
        )


@dataclass(frozen=True, slots=True)
class Sasl:
    """A mechanism and what it needs."""

    mechanism: Mechanism
    credentials: Password | TokenSource


@dataclass(frozen=True, slots=True)
class Security:
    """How to talk to a cluster's brokers. `tls` and `sasl` are set exactly if the protocol has them."""

    protocol: Protocol = Protocol.PLAINTEXT
    tls: Tls | None = None
    sasl: Sasl | None = None

    def __post_init__(self) -> None:
        if (self.tls is not None) != (self.protocol in (Protocol.SSL, Protocol.SASL_SSL)):
            raise InvalidConfiguration(f"{self.protocol} {'goes without' if self.tls else 'needs'} TLS settings")
        if (self.sasl is not None) != (self.protocol in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)):
            raise InvalidConfiguration(f"{self.protocol} {'goes without' if self.sasl else 'needs'} SASL settings")

    def tls_context(self) -> ssl.SSLContext | None:
        """A fresh context, or None without TLS. Raises InvalidConfiguration."""
        return self.tls.context() if self.tls else None


PLAINTEXT = Security()

Send = Callable[[Any, int], Awaitable[Any]]
"""Send a request in a version, past any queue, and wait for its answer."""


async def authenticate(sasl: Sasl, send: Send, address: object, threads: Threads) -> timedelta | None:
    """Prove who we are on an open connection, for the first time or anew (KIP-368).

    Returns how long the broker believes it; None: for good. Raises AuthenticationFailed.
    """
    handshake = await send(SaslHandshakeRequest(mechanism=str(sasl.mechanism)), 1)
    if handshake.error_code:
        raise AuthenticationFailed(address, _refused_mechanism(sasl.mechanism, handshake))
    mechanism = await _mechanism(sasl, threads)
    lifetime = 0
    while not mechanism.is_done():
        answer = await send(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()), 2)
        if answer.error_code:
            raise AuthenticationFailed(address, _refused_credentials(sasl, answer.error_code))
        lifetime = answer.session_lifetime_ms
        try:
            # A broker chooses how many rounds of hashing SCRAM takes; that must not stop the loop.
            await threads.call(partial(mechanism.receive, bytes(answer.auth_bytes)))
        except (ValueError, KeyError, AttributeError) as error:
            # From None: the library's text may quote the exchange.
            raise AuthenticationFailed(
                address,
                f"the broker did not prove that it knows the {sasl.mechanism} credentials ({type(error).__name__})",
            ) from None
    if not mechanism.is_authenticated():
        raise AuthenticationFailed(address, _refused_credentials(sasl, _SASL_AUTHENTICATION_FAILED))
    return timedelta(milliseconds=lifetime) if lifetime > 0 else None


_SASL_AUTHENTICATION_FAILED = 58
_UNSUPPORTED_SASL_MECHANISM = 33
_ILLEGAL_SASL_STATE = 34
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_BEARER_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_OAUTH_ERROR = re.compile(r"[a-z_]{1,40}")
_PEM_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class _FetchedToken(AbstractTokenProvider):
    """kafka-python asks for a token where it can't wait; so it is fetched before."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


async def _mechanism(sasl: Sasl, threads: Threads) -> Any:
    """kafka-python's state machine for one exchange; it does no IO."""
    kind = get_sasl_mechanism(str(sasl.mechanism))
    if isinstance(sasl.credentials, TokenSource):
        return kind(sasl_oauth_token_provider=_FetchedToken(await sasl.credentials.token(threads)))
    username = sasl.credentials.username
    if sasl.mechanism is not Mechanism.PLAIN:
        # RFC 5802 wants these two escaped; the library does not do it.
        username = username.replace("=", "=3D").replace(",", "=2C")
    return kind(
        sasl_mechanism=str(sasl.mechanism), sasl_plain_username=username, sasl_plain_password=sasl.credentials.password
    )


def _refused_mechanism(mechanism: Mechanism, handshake: Any) -> str:
    """Why the handshake failed."""
    if handshake.error_code == _UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(handshake.mechanisms or ()) or "none"
        return f"SASL mechanism {mechanism} is not enabled on this listener; it offers {enabled}"
    if handshake.error_code == _ILLEGAL_SASL_STATE:
        return "this listener takes no SASL; set security.protocol to PLAINTEXT or SSL"
    return f"the SASL handshake was answered with {error_name(handshake.error_code)} ({handshake.error_code})"


def _refused_credentials(sasl: Sasl, code: int) -> str:
    """Why the exchange failed. The broker's text is left out: it may quote what it was sent."""
    if isinstance(sasl.credentials, TokenSource):
        who = f"the token from {sasl.credentials}"
        cause = "it may be expired, or for another audience"
    else:
        who = f"user {sasl.credentials.username}"
        cause = "wrong user or password, or no credentials for this mechanism"
    problem = "" if code == _SASL_AUTHENTICATION_FAILED else f" ({error_name(code)})"
    return f"{sasl.mechanism} refused {who}: {cause}{problem}"


def _http_problem(error: httpx.HTTPError) -> str:
    """A sentence without the request, which holds the secret."""
    import httpx

    if isinstance(error, httpx.ConnectError):
        return f"no connection to the token endpoint ({error})"
    return type(error).__name__


def _pem_blocks(content: bytes) -> list[tuple[bytes, bytes]]:
    """Kind and text of each block. In a properties file PEM stands on one line; OpenSSL wants lines of 64."""
    blocks = []
    for kind, body in _PEM_BLOCK.findall(content):
        headers, _, data = body.rpartition(b"\n\n") if b"Proc-Type" in body else (b"", b"", b"".join(body.split()))
        lines = [headers + b"\n\n" + data] if headers else [data[i : i + 64] for i in range(0, len(data), 64)]
        blocks.append((kind, b"-----BEGIN %s-----\n%s\n-----END %s-----\n" % (kind, b"\n".join(lines), kind)))
    return blocks


def _anchors(store: Store) -> str:
    """The trust store's certificates as PEM."""
    certificates = store.read().certificates
    if not certificates:
        raise InvalidConfiguration(f"{store}: holds no certificate")
    return "".join(certificate.public_bytes(serialization.Encoding.PEM).decode() for certificate in certificates)


def _load_identity(context: ssl.SSLContext, store: Store) -> None:
    """Give the context our certificate and key. OpenSSL takes them from a file only: the key is encrypted in it."""
    contents = store.read()
    if contents.key is None or not contents.certificates:
        raise InvalidConfiguration(f"{store}: needs a private key and its certificate")
    once = secrets.token_bytes(32).hex()
    key = contents.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(once.encode()),
    )
    chain = [certificate.public_bytes(serialization.Encoding.PEM) for certificate in contents.certificates]
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(key + b"".join(chain))
        file.flush()
        try:
            context.load_cert_chain(file.name, password=once)
        except ssl.SSLError as error:
            raise InvalidConfiguration(f"{store}: key and certificate can't be used: {error.reason}") from error
