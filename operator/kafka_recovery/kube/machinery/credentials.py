"""Who may call a port: who knows a token, or has a certificate of our CA. Files are read again when they change."""

from __future__ import annotations

import hmac
import logging
import ssl
from dataclasses import dataclass, field
from pathlib import Path

_LOG = logging.getLogger(__name__)

SHORTEST_TOKEN = 16
LONGEST_FILE = 64 * 1024


class BadCredentials(Exception):
    """A file that can't be used; says which and why, and nothing of what is in it."""


@dataclass(slots=True)
class TokenFile:
    """Bearer tokens, one a line: two of them while one is being replaced."""

    path: Path
    _told: str = ""
    """What is wrong with the file, as it was told last: whoever may connect must not fill the log with it."""

    def check(self) -> None:
        """Raises BadCredentials."""
        self._tokens()

    def admits(self, authorization: str) -> bool:
        """Whether a header `Authorization` has one of the tokens; the time it takes does not tell how much of it."""
        scheme, _, given = authorization.partition(" ")
        try:
            tokens = self._tokens()
        except BadCredentials as bad:
            if str(bad) != self._told:
                _LOG.error("nobody is let in: %s", bad)
            self._told = str(bad)
            return False
        self._told = ""
        mine = given.strip().encode(errors="surrogateescape")
        matches = [hmac.compare_digest(mine, token) for token in tokens]
        return scheme.lower() == "bearer" and any(matches)

    def _tokens(self) -> list[bytes]:
        """As the file has them now. A mounted Secret is a small file in memory: reading it is no work."""
        tokens = [line.strip() for line in _read(self.path).splitlines() if line.strip()]
        if not tokens or any(len(token) < SHORTEST_TOKEN for token in tokens):
            raise BadCredentials(f"{self.path} must hold a token of at least {SHORTEST_TOKEN} characters a line")
        return tokens


@dataclass(slots=True)
class TlsFiles:
    """Our certificate and key, and the CA of those who may speak to us; without one anybody may."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    _read: tuple[bytes, ...] = ()
    _context: ssl.SSLContext = field(default_factory=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    _told: str = ""
    """As of a `TokenFile`."""

    def context(self) -> ssl.SSLContext:
        """For a new connection. Raises BadCredentials; a context that was good once is kept for that case."""
        paths = [path for path in (self.certificate, self.key, self.client_ca) if path]
        now = tuple(map(_read, paths))
        if now != self._read:
            self._context, self._read = self._loaded(), now
        return self._context

    def context_or_last(self) -> ssl.SSLContext:
        """The same; what can't be read in the middle of a rotation is read with the next connection."""
        try:
            context = self.context()
        except BadCredentials as bad:
            if str(bad) != self._told:
                _LOG.warning("the certificates of before are used: %s", bad)
            self._told = str(bad)
            return self._context
        self._told = ""
        return context

    def _loaded(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.client_ca)
            context.load_cert_chain(self.certificate, self.key, password=_nobody_knows)
        except (ssl.SSLError, OSError, ValueError) as error:
            files = ", ".join(str(path) for path in (self.certificate, self.key, self.client_ca) if path)
            raise BadCredentials(f"certificate, key and CA can't be used together ({files}): {error}") from None
        if self.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@dataclass(frozen=True, slots=True)
class Callers:
    """Who is answered at a port: who has the token, if there is one, and by TLS, if there is that."""

    token: TokenFile | None = None
    tls: TlsFiles | None = None

    def check(self) -> None:
        """Raises BadCredentials."""
        if self.token:
            self.token.check()
        if self.tls:
            self.tls.context()


ANYBODY = Callers()


def _nobody_knows() -> str:
    raise ValueError("the key is encrypted")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            held = file.read(LONGEST_FILE + 1)
    except OSError as error:
        raise BadCredentials(f"{path} can't be read: {error.strerror}") from None
    if len(held) > LONGEST_FILE:
        raise BadCredentials(f"{path} is longer than {LONGEST_FILE} bytes")
    return held
