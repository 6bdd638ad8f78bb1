"""How a WatchedCluster's Kafka and its controllers are reached: addresses, whom to trust, and who we are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_recovery.cluster.sockets import Address
from kafka_recovery.kube.resources.fields import CertificateSecret, ControllersFields, SaslSpec, SecretKey, TlsFields


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
    return ControllersSpec(addresses_of(fields.bootstrap_servers or ()), tls_of(fields.tls), fields.sasl)


def tls_of(fields: TlsFields | None) -> TlsSpec | None:
    """The same of TLS."""
    return TlsSpec(fields.ca_secret_ref, fields.cert_secret_ref) if fields else None
