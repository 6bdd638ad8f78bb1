"""Secrets of a watched cluster: what is missing is named, what changed is noticed, and nothing of them is shown."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_recovery.cluster.errors import InvalidConfiguration
from kafka_recovery.cluster.kafka_cluster import Controllers
from kafka_recovery.cluster.security import Protocol
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.cant_open import CantOpen
from kafka_recovery.kube.clusters.credentials import Credentials, credentials, usable
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.resources.kinds import CLUSTERS, read_cluster
from testbed.certificates import Authority
from unit.kube.journal.journals import NAMESPACE
from unit.kube.our_objects import OurObjects
from unit.kube.specs import CLUSTER

PASSWORD = "hunter2-hunter2"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
SASL = {"sasl": {"mechanism": "PLAIN", "username": "ann", "passwordSecretRef": {"name": "login", "key": "password"}}}
TLS = {"tls": {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "own"}}}
FORBIDDEN = ApiError(403, "Forbidden", 'secrets "login" is forbidden')


class Secrets(OurObjects):
    """Secrets of a namespace."""

    forbidden = False

    def keep(self, name: str, **values: str | bytes) -> None:
        data = {
            key.replace("_", "."): base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
            for key, value in values.items()
        }
        self._keep(f"{SECRETS}/{name}", {"metadata": {"name": name, "uid": f"uid-{name}"}, "data": data})

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Any:
        if self.forbidden:
            raise FORBIDDEN
        return await super().get(path, deadline=deadline)


@pytest.fixture
def api(tmp_path: Path) -> Secrets:
    """With all that a cluster with TLS and SASL needs."""
    api = Secrets()
    api.keep("login", password=PASSWORD)
    authority = Authority.new(tmp_path)
    member = authority.identity("operator")
    api.keep("ca", ca_crt=authority.certificate.read_bytes())
    api.keep("own", tls_crt=member.certificate.read_bytes(), tls_key=member.key.read_bytes())
    return api


async def read(api: Secrets, **spec: Any) -> Credentials:
    return await credentials(cast(Any, api), read_cluster(api.put(CLUSTERS, "prod", {**CLUSTER, **spec})))


@pytest.mark.parametrize(
    ("spec", "protocol"),
    [
        ({}, Protocol.PLAINTEXT),
        ({"tls": {}}, Protocol.SSL),
        (TLS, Protocol.SSL),
        (SASL, Protocol.SASL_PLAINTEXT),
        ({**TLS, **SASL}, Protocol.SASL_SSL),
    ],
    ids=["nothing", "the system's CAs", "certificates", "a password", "both"],
)
async def test_what_a_cluster_names_says_how_to_get_in(api: Secrets, spec: Any, protocol: Protocol) -> None:
    found = await read(api, **spec)

    assert (found.security.protocol, [str(each) for each in found.servers]) == (protocol, ["kafka-0.kafka:9092"])


@pytest.mark.parametrize(
    ("secret", "key", "says"),
    [
        ("login", None, "spec.sasl.passwordSecretRef: Secret login is not there"),
        ("login", "password", "spec.sasl.passwordSecretRef: Secret login has no key password, or it is empty"),
        ("ca", "ca_crt", "spec.tls.caSecretRef: Secret ca has no key ca.crt, or it is empty"),
        ("own", "tls_key", "spec.tls.certSecretRef: Secret own has no key tls.key, or it is empty"),
        ("own", "tls_crt", "spec.tls.certSecretRef: Secret own has no key tls.crt, or it is empty"),
    ],
)
@pytest.mark.parametrize("value", ["", b"\xff\xfe"], ids=["empty", "no text"])
async def test_what_is_missing_is_named(api: Secrets, secret: str, key: str | None, says: str, value: Any) -> None:
    path = f"{SECRETS}/{secret}"
    if key is None:
        del api.objects[path]
    else:
        api.objects[path]["data"][key.replace("_", ".")] = base64.b64encode(value or b"").decode()

    with pytest.raises(CantOpen) as missing:
        await read(api, **TLS, **SASL)

    assert missing.value.reason.code == "InvalidReference"
    assert missing.value.reason.message.startswith(says)


async def test_what_is_no_base64_counts_as_missing(api: Secrets) -> None:
    api.objects[f"{SECRETS}/login"]["data"]["password"] = "%%%"

    with pytest.raises(CantOpen) as missing:
        await read(api, **SASL)

    assert missing.value.reason.code == "InvalidReference"


async def test_a_secret_that_may_not_be_read_says_what_the_operator_lacks(api: Secrets) -> None:
    api.forbidden = True

    with pytest.raises(CantOpen) as refused:
        await read(api, **SASL)

    assert refused.value.reason.code == "Forbidden"
    assert refused.value.reason.message == (
        "spec.sasl.passwordSecretRef: the operator may not get Secret login; its Role needs the verb get on secrets"
    )


async def test_an_api_server_that_is_silent_is_no_missing_secret(api: Secrets) -> None:
    """The connection that is open stays open."""
    api.unread = "/secrets/"

    with pytest.raises(ApiError, match="etcd has no leader"):
        await read(api, **SASL)


async def test_certificates_that_are_none_are_refused_without_quoting_them(api: Secrets) -> None:
    api.keep("ca", ca_crt="-----BEGIN CERTIFICATE-----\naGlkZGVu\n-----END CERTIFICATE-----")

    found = await read(api, **TLS)

    with pytest.raises(InvalidConfiguration) as refused:
        found.security.tls_context()
    assert "Secret ca, ca.crt" in str(refused.value)
    assert "aGlkZGVu" not in str(refused.value)


# Controllers

AT_CONTROLLERS = {
    "bootstrapServers": ["controller-0.kafka:9093"],
    "tls": {"caSecretRef": {"name": "controllers-ca"}},
    "sasl": {"mechanism": "PLAIN", "username": "bob", "passwordSecretRef": {"name": "controllers-login", "key": "pw"}},
}


@pytest.fixture
def with_controllers(api: Secrets) -> Secrets:
    """With what a login at the controllers needs, which is another one."""
    api.keep("controllers-ca", ca_crt=base64.b64decode(api.objects[f"{SECRETS}/ca"]["data"]["ca.crt"]))
    api.keep("controllers-login", pw="another-password")
    return api


async def test_controllers_have_a_way_in_of_their_own(with_controllers: Secrets) -> None:
    found = await read(with_controllers, **SASL, controllers=AT_CONTROLLERS)

    controllers = await usable(found.controllers)
    assert isinstance(controllers, Controllers)
    assert [str(each) for each in controllers.addresses] == ["controller-0.kafka:9093"]
    assert (controllers.security.protocol, found.security.protocol) == (Protocol.SASL_SSL, Protocol.SASL_PLAINTEXT)


async def test_brokers_are_reached_though_the_controllers_secret_is_missing(with_controllers: Secrets) -> None:
    """Then nothing is proven, and everything else goes on."""
    del with_controllers.objects[f"{SECRETS}/controllers-login"]

    found = await read(with_controllers, **SASL, controllers=AT_CONTROLLERS)

    assert found.controllers == Reason(
        "InvalidReference",
        "spec.controllers.sasl.passwordSecretRef: Secret controllers-login is not there; "
        "create it in the namespace of the WatchedCluster",
    )


async def test_brokers_are_reached_though_the_controllers_certificates_are_none(with_controllers: Secrets) -> None:
    with_controllers.keep("controllers-ca", ca_crt="-----BEGIN CERTIFICATE-----\naGlkZGVu\n-----END CERTIFICATE-----")

    why = await usable((await read(with_controllers, controllers=AT_CONTROLLERS)).controllers)

    assert isinstance(why, Reason)
    assert why.message.startswith("spec.controllers: Secret controllers-ca, ca.crt")
    assert "aGlkZGVu" not in why.message


# Fingerprints


@pytest.mark.parametrize(
    "spec",
    [
        {"bootstrapServers": ["kafka-1.kafka:9092"]},
        {"clusterId": "another"},
        {"sasl": {**SASL["sasl"], "username": "bob"}},
        {"sasl": {**SASL["sasl"], "mechanism": "SCRAM-SHA-512"}},
        {"tls": {"caSecretRef": {"name": "ca"}}},
        {"driver": "designated"},
        {"replicaLogInfoApiKey": 94},
        {"controllers": {"bootstrapServers": ["kafka-9.kafka:9093"]}},
    ],
    ids=lambda spec: next(iter(spec)),
)
async def test_another_way_in_has_another_fingerprint(api: Secrets, spec: Any) -> None:
    assert (await read(api, **{**TLS, **SASL, **spec})).fingerprint != (await read(api, **TLS, **SASL)).fingerprint


async def test_a_password_that_changed_is_noticed(api: Secrets) -> None:
    before = (await read(api, **SASL)).fingerprint
    api.keep("login", password="another-one")

    assert (await read(api, **SASL)).fingerprint != before


async def test_a_renewed_certificate_is_noticed(api: Secrets, tmp_path: Path) -> None:
    before = (await read(api, **TLS)).fingerprint
    api.keep("ca", ca_crt=Authority.new(tmp_path).certificate.read_bytes())

    assert (await read(api, **TLS)).fingerprint != before


# Nothing leaks


async def test_nothing_secret_can_be_printed(api: Secrets) -> None:
    found = await read(api, **TLS, **SASL)

    printed = f"{found!r} {found} {found.security!r} {found.security.sasl!r} {found.security.tls!r}"

    secrets = [PASSWORD, found.fingerprint, "PRIVATE KEY", *api.objects[f"{SECRETS}/own"]["data"].values()]
    assert [secret for secret in secrets if secret in printed] == []


async def test_no_message_holds_what_another_secret_says(api: Secrets) -> None:
    del api.objects[f"{SECRETS}/ca"]

    with pytest.raises(CantOpen) as missing:
        await read(api, **TLS, **SASL)

    assert missing.value.reason.code == "InvalidReference"
    assert PASSWORD not in str(missing.value)
