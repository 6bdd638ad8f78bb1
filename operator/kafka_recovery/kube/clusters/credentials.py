"""How to get into a watched cluster: what its spec names, with the Secrets that it refers to."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from kafka_recovery.cluster.errors import InvalidConfiguration
from kafka_recovery.cluster.kafka_cluster import Controllers
from kafka_recovery.cluster.security import Password, Protocol, Sasl, Security, Store, StoreKind, Tls
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.cant_open import CantOpen, secret_missing
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound
from kafka_recovery.kube.resources.fields import SaslSpec
from kafka_recovery.kube.resources.kinds import WatchedCluster
from kafka_recovery.kube.resources.ways_in import Certificates, ControllersSpec, TlsSpec


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where and how to talk to the cluster, and a fingerprint that changes with anything in it.

    `controllers`: the same for the controllers, or why they can't be asked; None: nobody named any.
    """

    servers: tuple[Address, ...]
    security: Security
    fingerprint: str = field(repr=False)
    controllers: Controllers | Reason | None = None


async def credentials(api: Api, cluster: WatchedCluster) -> Credentials:
    """Read the Secrets as they are now. Raises ApiError, and CantOpen but for the controllers'.

    Whether they hold certificates shows when `security.tls_context()` is made: once, by who opens a connection.
    """
    reader = _Reader(api, cluster.meta.namespace)
    security = await reader.security(cluster.tls, cluster.sasl, "spec")
    named = cluster.controllers
    controllers = await _controllers(reader, named) if isinstance(named, ControllersSpec) else named
    return Credentials(cluster.bootstrap_servers, security, reader.fingerprint(cluster), controllers)


async def _controllers(reader: _Reader, spec: ControllersSpec) -> Controllers | Reason:
    """What is wrong with their Secrets keeps nobody from recovering the cluster: only proofs are missing."""
    try:
        return Controllers(spec.addresses, await reader.security(spec.tls, spec.sasl, "spec.controllers"))
    except CantOpen as problem:
        return problem.reason


async def usable(controllers: Controllers | Reason | None) -> Controllers | Reason | None:
    """The same, once their certificates have been looked at: what is none is the reason."""
    if isinstance(controllers, Controllers):
        try:
            await asyncio.to_thread(controllers.security.tls_context)
        except InvalidConfiguration as invalid:
            return Reason(invalid.code, f"spec.controllers: {invalid}")
    return controllers


class _Reader:
    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._hash = hashlib.sha256()
        self._secrets: dict[str, Mapping[str, str]] = {}

    async def security(self, tls: TlsSpec | None, sasl: SaslSpec | None, where: str) -> Security:
        """`where`: what both are fields of."""
        protocol = {
            (False, False): Protocol.PLAINTEXT,
            (True, False): Protocol.SSL,
            (False, True): Protocol.SASL_PLAINTEXT,
            (True, True): Protocol.SASL_SSL,
        }[tls is not None, sasl is not None]
        return Security(
            protocol,
            await self._tls(tls, f"{where}.tls") if tls else None,
            await self._sasl(sasl, f"{where}.sasl") if sasl else None,
        )

    async def _tls(self, spec: TlsSpec, within: str) -> Tls:
        trust = identity = None
        if isinstance(spec.ca, Certificates):
            trust = Store(StoreKind.PEM, pem=spec.ca.pem, setting=spec.ca.source)
        elif spec.ca:
            pem = await self._value(spec.ca.name, spec.ca.key, f"{within}.caSecretRef")
            trust = Store(StoreKind.PEM, pem=pem, setting=f"Secret {spec.ca.name}, {spec.ca.key}")
        if own := spec.certificate:
            where = f"{within}.certSecretRef"
            key = await self._value(own.name, own.key_key, where)
            chain = await self._value(own.name, own.cert_key, where)
            identity = Store(StoreKind.PEM, pem=f"{key}\n{chain}", setting=f"Secret {own.name}")
        return Tls(trust, identity)

    async def _sasl(self, spec: SaslSpec, within: str) -> Sasl:
        password = await self._value(spec.password.name, spec.password.key, f"{within}.passwordSecretRef")
        return Sasl(spec.mechanism, Password(spec.username, password))

    def fingerprint(self, cluster: WatchedCluster) -> str:
        way_in = (cluster.cluster_id, cluster.bootstrap_servers, cluster.tls, cluster.sasl, cluster.strimzi)
        spec = (*way_in, cluster.kip_1275, cluster.controllers)
        self._hash.update(repr(spec).encode())
        return self._hash.hexdigest()

    async def _value(self, secret: str, key: str, where: str) -> str:
        if secret not in self._secrets:
            try:
                found = await self._api.get(f"/api/v1/namespaces/{self._namespace}/secrets/{secret}")
            except NotFound:
                raise secret_missing(secret, None, where) from None
            except ApiError as error:
                if error.status == HTTPStatus.FORBIDDEN:
                    lacks = f"the operator may not get Secret {secret}; its Role needs the verb get on secrets"
                    raise CantOpen("Forbidden", f"{where}: {lacks}") from None
                raise
            self._secrets[secret] = found.get("data") or {}
        try:
            text = base64.b64decode(self._secrets[secret].get(key, ""), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            text = ""
        if not text:
            raise secret_missing(secret, key, where)
        self._hash.update(f"{secret}/{key}:{text}".encode())
        return text
