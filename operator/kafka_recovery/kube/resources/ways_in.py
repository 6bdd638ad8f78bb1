"""How a WatchedCluster's Kafka and its controllers are reached: addresses, whom to trust, and who we are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_recovery.cluster.security import Mechanism
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.kube.resources.fields import ControllersFields, SaslFields, TlsFields


@dataclass(frozen=True, slots=True)
class SecretKey:
    """One value of a Secret of the same namespace."""

    name: str
    key: str


DEFAULT_CA_KEY = "ca.crt"


@dataclass(frozen=True, slots=True)
class CertificateSecret:
    """A Secret with a client certificate and its private key, in PEM. The default keys are kubernetes.io/tls's."""

    name: str
    cert_key: str = "tls.crt"
    key_key: str = "tls.key"


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificates themselves, in PEM, and where they were read."""

    pem: str
    source: str


@dataclass(frozen=True, slots=True)
class TlsSpec:
    """Whom to trust (None: the system's CAs), and who we are (None: no client certificate)."""

    ca: SecretKey | Certificates | None = None
    certificate: CertificateSecret | None = None


@dataclass(frozen=True, slots=True)
class SaslSpec:
    """A user, and where the password is."""

    mechanism: Mechanism
    username: str
    password: SecretKey


@dataclass(frozen=True, slots=True)
class ControllersSpec:
    """The controllers' own listeners, all of them, where the metadata log is read. `tls` None: plain text.

    Without addresses they are Strimzi's, who says where they are and which CA they have.
    """

    addresses: tuple[Address, ...]
    tls: TlsSpec | None = None
    sasl: SaslSpec | None = None


def addresses_of(servers: Sequence[str]) -> tuple[Address, ...]:
    """Where to begin to ask."""
    return tuple(map(Address.parse, servers))


def controllers_of(fields: ControllersFields) -> ControllersSpec:
    """As a WatchedCluster's spec has them."""
    return ControllersSpec(
        addresses_of(fields.bootstrap_servers or ()),
        tls=tls_of(fields.tls) if fields.tls else None,
        sasl=sasl_of(fields.sasl) if fields.sasl else None,
    )


def tls_of(fields: TlsFields) -> TlsSpec:
    """The same of TLS."""
    ca, certificate = fields.ca_secret_ref, fields.cert_secret_ref
    return TlsSpec(
        ca=SecretKey(ca.name, ca.key or DEFAULT_CA_KEY) if ca else None,
        certificate=CertificateSecret(**certificate.given()) if certificate else None,
    )


def sasl_of(fields: SaslFields) -> SaslSpec:
    """The same of a user."""
    password = fields.password_secret_ref
    return SaslSpec(fields.mechanism, fields.username, SecretKey(password.name, password.key))
