"""Who asks: SASL PLAIN and SCRAM (RFC 5802) as brokers do them, for as many users as were named."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Protocol

from kafka_recovery.simulator.wire.exchange import Exchange

_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE, _FAILED = 33, 34, 58
_ROUNDS = 4096
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_FIRST = re.compile(r"n,,(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+))(?:,.*)?", re.ASCII | re.DOTALL)
_FINAL = re.compile(r"(?P<unproven>c=biws,r=(?P<nonce>[^,]+)),p=(?P<proof>[A-Za-z0-9+/=]+)", re.ASCII)


class Denied(Exception):
    """Wrong credentials, or no message of this mechanism."""


class _Mechanism(Protocol):
    user: str

    def answer(self, said: bytes) -> tuple[bytes, bool]:
        """What to say, and whether that was all. Raises Denied."""
        ...


class Authentication:
    """One connection's. `passwords` None: nobody has to say who they are."""

    def __init__(self, passwords: Mapping[str, str] | None) -> None:
        self._passwords = passwords
        self._mechanism: _Mechanism | None = None
        self.user: str | None = None
        self.done = passwords is None
        self.failed = False

    @property
    def needed(self) -> bool:
        """Whether clients have to say who they are."""
        return self._passwords is not None

    def handshake(self, exchange: Exchange) -> None:
        """SaslHandshake: which mechanism it will be."""
        wanted, known = exchange.asked.mechanism, ["PLAIN", *_HASHES]
        if self._passwords is None or wanted not in known:
            self.failed = True
            error = _ILLEGAL_STATE if self._passwords is None else _UNSUPPORTED_MECHANISM
            exchange.answer(error_code=error, mechanisms=known)
            return
        # The broker's part of the nonce is the same each time: a history has to be the same each time too.
        self._mechanism = _Scram(self._passwords, _HASHES[wanted]) if wanted in _HASHES else _Plain(self._passwords)
        self.done = False
        exchange.answer(error_code=0, mechanisms=known)

    def authenticate(self, exchange: Exchange) -> None:
        """SaslAuthenticate: one step of it."""
        error, message, said = 0, None, b""
        if self._mechanism is None:
            error, message = _ILLEGAL_STATE, "SaslAuthenticate request received before SaslHandshake"
        else:
            try:
                said, self.done = self._mechanism.answer(exchange.asked.auth_bytes)
                self.user = self._mechanism.user if self.done else None
            except Denied:
                error, message = _FAILED, "Authentication failed: Invalid username or password"
        self.failed = error != 0
        exchange.answer(error_code=error, error_message=message, auth_bytes=said, session_lifetime_ms=0)


def handshake(exchange: Exchange) -> None:
    """SaslHandshake."""
    exchange.line.authentication.handshake(exchange)


def authenticate(exchange: Exchange) -> None:
    """SaslAuthenticate."""
    exchange.line.authentication.authenticate(exchange)


class _Plain:
    """RFC 4616."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user = ""

    def answer(self, said: bytes) -> tuple[bytes, bool]:
        """Done in one step."""
        try:
            _, user, password = said.decode().split("\0")
        except ValueError:
            raise Denied from None
        if self._passwords.get(user) != password:
            raise Denied
        self.user = user
        return b"", True


class _Scram:
    """The client proves that it knows the password, and then the broker does."""

    def __init__(self, passwords: Mapping[str, str], hash: str) -> None:
        self._passwords, self._hash = passwords, hash
        self.user = ""
        self._first: tuple[str, str, bytes] | None = None

    def answer(self, said: bytes) -> tuple[bytes, bool]:
        """Two steps."""
        try:
            text = said.decode()
        except UnicodeDecodeError:
            raise Denied from None
        return (self._challenge(text), False) if self._first is None else (self._confirmed(text, *self._first), True)

    def _challenge(self, text: str) -> bytes:
        first = _FIRST.fullmatch(text)
        user = first["user"].replace("=2C", ",").replace("=3D", "=") if first else ""
        if first is None or user not in self._passwords:
            raise Denied
        self.user = user
        salt, nonce = hashlib.sha256(user.encode()).digest(), first["nonce"] + "simulated"
        said = f"r={nonce},s={base64.b64encode(salt).decode()},i={_ROUNDS}"
        salted = hashlib.pbkdf2_hmac(self._hash, self._passwords[user].encode(), salt, _ROUNDS)
        self._first = nonce, f"{first['bare']},{said}", salted
        return said.encode()

    def _confirmed(self, text: str, nonce: str, exchanged: str, salted: bytes) -> bytes:
        final = _FINAL.fullmatch(text)
        if final is None or final["nonce"] != nonce:
            raise Denied
        signed = f"{exchanged},{final['unproven']}".encode()
        client = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash, client).digest(), signed)
        expected = bytes(one ^ other for one, other in zip(client, signature, strict=True))
        try:
            proven = base64.b64decode(final["proof"], validate=True)
        except binascii.Error:
            raise Denied from None
        if not hmac.compare_digest(proven, expected):
            raise Denied
        return b"v=" + base64.b64encode(self._mac(self._mac(salted, b"Server Key"), signed))

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)
