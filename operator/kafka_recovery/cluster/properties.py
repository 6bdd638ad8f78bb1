"""Java properties files, read as Kafka's own tools read them for --command-config.

What concerns other things than security (timeouts, client ids) is left alone, as is what we do not know. An error names
the file, the key, and what would be right; the value only where it can't be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

import javaproperties

from kafka_recovery.cluster.errors import InvalidConfiguration
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

Choice = TypeVar("Choice", Protocol, Mechanism, StoreKind)


def read_security(path: Path) -> Security:
    """The security a properties file asks for. Raises InvalidConfiguration."""
    try:
        # Java reads such files as Latin-1; what is beyond it is written \uXXXX.
        with path.open(encoding="latin-1") as file:
            settings = javaproperties.load(file)
    except OSError as error:
        raise InvalidConfiguration(f"{path}: {error.strerror}") from error
    except javaproperties.InvalidUEscapeError as error:
        raise InvalidConfiguration(f"{path}: a \\u must be followed by four hexadecimal digits") from error
    return security_of(settings, str(path))


def security_of(settings: Mapping[str, str], origin: str) -> Security:
    """The security in Kafka client settings; messages call their source `origin`. Raises InvalidConfiguration."""
    return _Settings(settings, origin).security()


@dataclass(frozen=True, slots=True)
class _Settings:
    """Settings and where they come from. A blank value is as good as none, as for Kafka's own passwords and paths."""

    values: Mapping[str, str]
    origin: str

    def security(self) -> Security:
        protocol = self.choice("security.protocol", Protocol, Protocol.PLAINTEXT)
        tls = self.tls() if protocol in (Protocol.SSL, Protocol.SASL_SSL) else None
        sasl = self.sasl() if protocol in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL) else None
        return Security(protocol, tls, sasl)

    def get(self, key: str) -> str | None:
        return self.values.get(key, "").strip() or None

    def secret(self, key: str) -> str | None:
        """As written: a password may begin or end with a blank."""
        return self.values.get(key) or None

    def refuse(self, key: str, problem: str) -> InvalidConfiguration:
        return InvalidConfiguration(f"{self.origin}: {key} {problem}")

    def choice(self, key: str, kind: type[Choice], otherwise: Choice) -> Choice:
        """One of Kafka's words, in any case."""
        text = self.get(key)
        if text is None:
            return otherwise
        if text.upper() not in list(kind):
            raise self.refuse(key, f"is {text!r}; right are {', '.join(kind)}")
        return kind(text.upper())

    def tls(self) -> Tls:
        algorithm = (self.values.get("ssl.endpoint.identification.algorithm", "https")).strip()
        if algorithm.lower() not in ("https", ""):
            raise self.refuse("ssl.endpoint.identification.algorithm", f"is {algorithm!r}; right are https, or nothing")
        return Tls(self.trust(), self.identity(), check_hostname=bool(algorithm))

    def trust(self) -> Store | None:
        pem = self.secret("ssl.truststore.certificates")
        return self.store("ssl.truststore", pem, "ssl.truststore.certificates")

    def identity(self) -> Store | None:
        key, chain = self.secret("ssl.keystore.key"), self.secret("ssl.keystore.certificate.chain")
        if bool(key) != bool(chain):
            missing = "ssl.keystore.certificate.chain" if key else "ssl.keystore.key"
            raise self.refuse(missing, "is missing; a PEM key and its certificate chain go together")
        return self.store("ssl.keystore", f"{key}\n{chain}" if key else None, "ssl.keystore.key")

    def store(self, prefix: str, pem: str | None, pem_key: str) -> Store | None:
        """The store under `ssl.truststore` or `ssl.keystore`, or None where there is none."""
        location = self.get(f"{prefix}.location")
        kind = self.choice(f"{prefix}.type", StoreKind, StoreKind.PEM if pem else StoreKind.JKS)
        if pem is None and location is None:
            return None
        if pem is not None and kind is not StoreKind.PEM:
            raise self.refuse(f"{prefix}.type", f"is {kind.value!r}; with {pem_key} it must be PEM")
        if pem is not None and location is not None:
            raise self.refuse(f"{prefix}.location", f"and {pem_key} are both set; one of them must go")
        path = Path(location) if location else None
        password, key_password = self.secret(f"{prefix}.password"), self.secret("ssl.key.password")
        return Store(kind, path, pem, password, key_password, setting=f"{self.origin}: {prefix}")

    def sasl(self) -> Sasl:
        supported = ", ".join(Mechanism)
        if self.get("sasl.mechanism") is None:
            raise self.refuse("sasl.mechanism", f"is missing (Kafka's default is GSSAPI); right are {supported}")
        mechanism = self.choice("sasl.mechanism", Mechanism, Mechanism.PLAIN)
        options = jaas_options(self.values.get("sasl.jaas.config", ""), self.origin)
        if mechanism is Mechanism.OAUTHBEARER:
            return Sasl(mechanism, self.token_source(options))
        for name in ("username", "password"):
            if not options.get(name):
                raise self.refuse("sasl.jaas.config", f"has no {name}; right is {_JAAS_EXAMPLE}")
        return Sasl(mechanism, Password(options["username"], options["password"]))

    def token_source(self, options: Mapping[str, str]) -> TokenSource:
        url_key = "sasl.oauthbearer.token.endpoint.url"
        url = self.get(url_key)
        if url is None:
            raise self.refuse(url_key, "is missing; right are https://… of a token endpoint, or file:///… of a token")
        parts = _url_parts(url)
        if "@" in parts.netloc:
            raise self.refuse(url_key, "holds a user; put clientId and clientSecret into sasl.jaas.config")
        if "?" in url or "#" in url:
            wanted = "scope goes into sasl.oauthbearer.scope, secrets into sasl.jaas.config"
            raise self.refuse(url_key, f"holds a query or a fragment, which logs may show; {wanted}")
        if parts.scheme == "file":
            return TokenSource(url)
        if parts.scheme != "https":
            raise self.refuse(url_key, f"is a {parts.scheme or 'nameless'} URL; right are https:// and file://")
        found = {
            name: options.get(name) or self.secret(key)
            for name, key in (
                ("clientId", "sasl.oauthbearer.client.credentials.client.id"),
                ("clientSecret", "sasl.oauthbearer.client.credentials.client.secret"),
                ("scope", "sasl.oauthbearer.scope"),
            )
        }
        for name in ("clientId", "clientSecret"):
            if not found[name]:
                raise self.refuse("sasl.jaas.config", f"has no {name}; right is {_OAUTH_EXAMPLE}")
        # As in Kafka: whom to trust at the token endpoint is said by ssl.* among the login module's options.
        tls = _Settings(options, f"{self.origin}: sasl.jaas.config").tls()
        return TokenSource(url, found["clientId"], found["clientSecret"], found["scope"], tls)


_JAAS_EXAMPLE = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="…" password="…"; (or PlainLoginModule)'
)
_OAUTH_EXAMPLE = (
    'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="…" clientSecret="…";'
)
_FLAGS = ("required", "requisite", "sufficient", "optional")


def jaas_options(text: str, origin: str) -> dict[str, str]:
    """The options of a `sasl.jaas.config`: one login module, a flag, `name=value` pairs, a semicolon.

    Values may be quoted, with backslash escapes as in Java. Raises InvalidConfiguration that quotes nothing of it.
    """
    if not text.strip():
        raise InvalidConfiguration(f"{origin}: sasl.jaas.config is missing; right is {_JAAS_EXAMPLE}")
    tokens = _tokens(text, origin)
    end = len(tokens) - 1
    if [place for place, token in enumerate(tokens) if token is _END] != [end]:
        raise InvalidConfiguration(f"{origin}: sasl.jaas.config must hold one login module and end with a semicolon")
    if end < 2 or tokens[1].lower() not in _FLAGS:
        raise InvalidConfiguration(
            f"{origin}: sasl.jaas.config must begin with a login module and one of {', '.join(_FLAGS)}; "
            f"right is {_JAAS_EXAMPLE}"
        )
    pairs = tokens[2:end]
    if len(pairs) % 3 or any(sign is not _EQUALS for sign in pairs[1::3]):
        raise InvalidConfiguration(
            f"{origin}: sasl.jaas.config: an option is not name=value; a value with other signs than letters and "
            'digits stands in double quotes, in which \\ and " are written \\\\ and \\"'
        )
    return dict(zip(pairs[0::3], pairs[2::3], strict=True))


class _Sign(str):
    """A sign of the language; a quoted text that looks the same is another object."""

    __slots__ = ()


_EQUALS = _Sign("=")
_END = _Sign(";")
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | "(?P<quoted>(?:[^"\\\n]|\\.)*)"
    | (?P<sign>[=;])
    | (?P<word>[^\s"=;]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _tokens(text: str, origin: str) -> list[str]:
    """Words, unquoted texts and signs."""
    tokens: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidConfiguration(f"{origin}: sasl.jaas.config: a double quote is not closed")
        position = match.end()
        if match["quoted"] is not None:
            tokens.append(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), match["quoted"]))
        elif match["sign"]:
            tokens.append(_EQUALS if match["sign"] == "=" else _END)
        elif match["word"]:
            tokens.append(match["word"])
    return tokens


def _url_parts(url: str) -> SplitResult:
    """The parts of a URL; an unreadable one has none."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")
