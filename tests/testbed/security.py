"""Listeners as a guarded cluster has them: TLS with SCRAM, with client certificates or with OAuth tokens, and ACLs.

Beside them the cluster keeps its PLAINTEXT listeners, whose anonymous user is the super user: replication and the
testbed's own requests go there.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from testbed.certificates import Authority, Identity

LOGIN = "org.apache.kafka.common.security"


class Mechanism(Enum):
    """How a client proves who it is; the value names the listener that asks for it."""

    SCRAM = "SCRAM"
    MTLS = "MTLS"
    OAUTH = "OAUTH"


@dataclass(frozen=True, slots=True)
class Security:
    """What may be chosen.

    `reauthenticate_after` in seconds: an OAuth connection that has not proven itself anew by then is closed
    (connections.max.reauth.ms); None never asks again. `super_users` as Kafka writes principals (`User:ann`).
    """

    reauthenticate_after: float | None = None
    super_users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client is.

    SCRAM takes `name` and `password`; MTLS a `name`, to Kafka `User:CN=name`; OAUTH a `name`, to Kafka `User:name`, or
    a `token` that says another one.
    """

    mechanism: Mechanism
    name: str = ""
    password: str = ""
    token: str = ""


def unsecured_token(subject: str, lifetime: float = 3600.0) -> str:
    """An unsigned JSON web token for `User:subject`, valid for `lifetime` seconds; only a test cluster believes it."""
    now = time.time()
    claims = {"sub": subject, "iat": now - 5, "exp": now + lifetime, "scope": "kafka"}
    return ".".join((_section({"alg": "none"}), _section(claims), ""))


def _section(content: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Stronghold:
    """The chosen security with its certificates on disk; `folder` holds them and the clients' files."""

    security: Security
    folder: Path
    authority: Authority
    broker: Identity

    @classmethod
    def built(cls, security: Security, folder: Path) -> Stronghold:
        folder.mkdir(parents=True)
        authority = Authority.new(folder)
        return cls(security, folder, authority, authority.identity("broker"))

    @staticmethod
    def protocols() -> dict[str, str]:
        """Listener name to Kafka's security protocol."""
        return {Mechanism.SCRAM.value: "SASL_SSL", Mechanism.MTLS.value: "SSL", Mechanism.OAUTH.value: "SASL_SSL"}

    def properties(self) -> dict[str, str]:
        """What every node needs for it; a controller ignores what concerns listeners it does not have."""
        scram, oauth = "listener.name.scram", "listener.name.oauth"
        reauthentication = {}
        if self.security.reauthenticate_after is not None:
            limit = str(round(self.security.reauthenticate_after * 1000))
            reauthentication = {f"{oauth}.oauthbearer.connections.max.reauth.ms": limit}
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": ";".join(("User:ANONYMOUS", *self.security.super_users)),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.mtls.ssl.client.auth": "required",
            f"{scram}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{scram}.scram-sha-512.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
            f"{oauth}.sasl.enabled.mechanisms": "OAUTHBEARER",
            # Kafka's own validator of unsigned tokens; the claim is for the broker's login, which nobody uses.
            f"{oauth}.oauthbearer.sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";',
            **reauthentication,
        }

    def client_properties(self, who: Credentials) -> dict[str, str]:
        """A client's Java properties, as Kafka's own tools take them for --command-config."""
        trust = {
            "security.protocol": self.protocols()[who.mechanism.value],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
        }
        return trust | self._proof(who)

    def confluent_properties(self, who: Credentials) -> dict[str, str]:
        """The same client for librdkafka, which reads PEM files and tokens in its own way."""
        common = {
            "security.protocol": self.protocols()[who.mechanism.value],
            "ssl.ca.location": str(self.authority.certificate),
        }
        match who.mechanism:
            case Mechanism.SCRAM:
                login = {"sasl.username": who.name, "sasl.password": who.password}
                return common | {"sasl.mechanism": "SCRAM-SHA-512"} | login
            case Mechanism.MTLS:
                identity = self.authority.identity(who.name)
                files = {"ssl.certificate.location": str(identity.certificate), "ssl.key.location": str(identity.key)}
                return common | files
            case Mechanism.OAUTH:
                principal = {"sasl.oauthbearer.config": f"principal={who.name}"}
                return (
                    common
                    | {"sasl.mechanism": "OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt": "true"}
                    | principal
                )

    def _proof(self, who: Credentials) -> dict[str, str]:
        match who.mechanism:
            case Mechanism.SCRAM:
                user, password = _quoted(who.name), _quoted(who.password)
                jaas = f"{LOGIN}.scram.ScramLoginModule required username={user} password={password};"
                return {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}
            case Mechanism.MTLS:
                keystore = self.authority.identity(who.name).keystore
                return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}
            case Mechanism.OAUTH:
                # For clients that send the file as it is. Kafka's Java client won't: it wants a signature in the token,
                # and the brokers' validator of unsigned tokens wants none.
                return {
                    "sasl.mechanism": "OAUTHBEARER",
                    "sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
                    "sasl.oauthbearer.token.endpoint.url": self._token_file(who).as_uri(),
                }

    def _token_file(self, who: Credentials) -> Path:
        path = self.folder / f"{who.name or 'client'}.jwt"
        path.write_text(who.token or unsecured_token(who.name))
        return path


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
