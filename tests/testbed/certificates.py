"""A throw-away certificate authority with a certificate for the brokers and one for a client, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testbed.ports import HOST

LIFETIME = datetime.timedelta(days=2)
ISSUER = "testbed-authority"
KEY_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """A name with its certificate and key; `keystore` holds both, as Kafka's PEM key stores want it."""

    name: str
    certificate: Path
    key: Path
    keystore: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs identities; `certificate` is the file everybody trusts."""

    certificate: Path
    _own: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, folder: Path) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        own = _as_authority(_builder(ISSUER, key, key)).sign(key, hashes.SHA256())
        path = folder / "ca.pem"
        path.write_bytes(_pem(own))
        return cls(path, own, key)

    def identity(self, name: str, groups: Sequence[str] = (), host: str = HOST) -> Identity:
        """A certificate for `CN=name`, good for loopback and the address `host`, as server and as client.

        `groups` are further names in it, organizations (O): to Kubernetes the groups of a user.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        signed = _as_member(_builder(name, key, self._key, groups), host).sign(self._key, hashes.SHA256())
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        folder = self.certificate.parent
        certificate, private, both = (folder / f"{name}.{kind}" for kind in ("pem", "key", "keystore.pem"))
        identity = Identity(name, certificate, private, both)
        identity.certificate.write_bytes(_pem(signed))
        identity.key.write_bytes(secret)
        identity.keystore.write_bytes(secret + _pem(signed))
        return identity


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, groups: Sequence[str] = ()
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name, groups))
        .issuer_name(_subject(ISSUER))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # a container's clock may lag behind its host's
        .not_valid_after(now + LIFETIME)
        # Python 3.13 verifies strictly (RFC 5280): without both key identifiers it refuses.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(signed_by, critical=False)
    )


def _as_authority(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    signs = dict.fromkeys(KEY_USES, False) | {"key_cert_sign": True, "crl_sign": True}
    constrained = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return constrained.add_extension(x509.KeyUsage(**signs), critical=True)


def _as_member(builder: x509.CertificateBuilder, host: str) -> x509.CertificateBuilder:
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in sorted({HOST, host})]
    constrained = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    return constrained.add_extension(
        x509.SubjectAlternativeName([*addresses, x509.DNSName("localhost")]), critical=False
    )


def _subject(name: str, groups: Sequence[str] = ()) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
