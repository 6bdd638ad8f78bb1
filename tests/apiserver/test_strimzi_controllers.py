"""Controllers of a Kafka of Strimzi's: found on a real API server by the rights that we ship, read on a real Kafka."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from apiserver.calling import calling
from apiserver.test_strimzi import DEFINITIONS, allow, put
from kafka_recovery.cluster.kafka_cluster import Controllers, KafkaCluster
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.credentials import Credentials
from kafka_recovery.kube.clusters.strimzi import way_in
from kafka_recovery.kube.resources.kinds import read_cluster
from testbed.access import Acl
from testbed.cluster import RealKafka
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.security import Credentials as Who
from testbed.security import Mechanism
from testbed.waiting import wait_until
from unit.kube.clusters import strimzi
from unit.kube.clusters.strimzi import PLAIN, Object, kafka_status, pool, secret

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

OWN = "kafka-recovery-controllers"
SOON = timedelta(seconds=20)


@pytest.fixture
def installed(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str, secured_kafka: RealKafka, account: Path
) -> Kubectl:
    """Strimzi's kinds, and its Kafka: a broker, and a controller that lets in whoever has a certificate of its CA."""
    control_plane.apply_definitions(DEFINITIONS)
    kafka = secured_kafka
    addresses = {"plain": kafka.bootstrap}
    put(kubectl, strimzi.kafka(PLAIN) | {"status": kafka_status(addresses, [PLAIN], kafka.cluster_id)})
    put(kubectl, pool(1))
    put(kubectl, pool(100, name="controllers", roles=["controller"]))
    mine = kafka.confluent_properties(Who(Mechanism.MTLS, OWN))
    put(kubectl, secret("prod-cluster-ca-cert", **{"ca.crt": Path(mine["ssl.ca.location"]).read_text()}))
    places = {"tls.crt": "ssl.certificate.location", "tls.key": "ssl.key.location"}
    put(kubectl, secret(OWN, **{key: Path(mine[place]).read_text() for key, place in places.items()}))
    kafka.grant(Acl(f"User:CN={OWN}", "cluster", "kafka-cluster", "cluster_action"))
    return kubectl


def watched(kubectl: Kubectl, cluster_id: str, controllers: Object) -> Object:
    """The WatchedCluster as the API server keeps it."""
    spec = {"clusterId": cluster_id, "strimziRef": {"name": "prod"}, "controllers": controllers}
    kubectl.apply({**_OURS, "kind": "WatchedCluster", "metadata": {"name": "prod"}, "spec": spec})
    found: Object = kubectl.api.get("watchedcluster", "prod")
    return found


_OURS = {"apiVersion": "kafka-recovery.dev/v1alpha1"}
CERTIFICATE: Object = {"tls": {"certSecretRef": {"name": OWN}}}


async def led_in(account: Path, raw: Object) -> Credentials:
    async with calling(account) as api:
        return await way_in(api, read_cluster(raw))


async def read(kafka: RealKafka, found: Credentials) -> Reason | None:
    """Read the metadata log by this way in; its names lead nowhere here, so the real address stands in for them."""
    assert isinstance(found.controllers, Controllers)
    at = Address.parse(kafka.guarded_controller_address(Mechanism.MTLS))
    there = replace(found.controllers, addresses=(at,))
    async with KafkaCluster(found.servers, found.security, kafka.cluster_id, controllers=there) as cluster:
        return await cluster.read_metadata_log(SOON, SOON)


def test_they_are_found_by_the_rights_that_we_ship_and_let_in_the_certificate_that_was_named(
    installed: Kubectl, secured_kafka: RealKafka, account: Path, namespace: str
) -> None:
    raw = watched(installed, secured_kafka.cluster_id, CERTIFICATE)
    allow(installed, namespace)
    found = wait_until(
        "the node pools may be listed",
        lambda: asyncio.run(led_in(account, raw)),
        lambda each: isinstance(each.controllers, Controllers),
        passes=True,
    )

    assert isinstance(found.controllers, Controllers)
    (address,) = found.controllers.addresses
    assert str(address) == f"prod-controllers-100.prod-kafka-brokers.{namespace}.svc:9090"
    assert asyncio.run(read(secured_kafka, found)) is None


def test_without_a_certificate_of_the_cluster_ca_they_let_nobody_in(
    installed: Kubectl, secured_kafka: RealKafka, account: Path, namespace: str
) -> None:
    allow(installed, namespace)
    raw = watched(installed, secured_kafka.cluster_id, {})
    found = wait_until(
        "the node pools may be listed",
        lambda: asyncio.run(led_in(account, raw)),
        lambda each: isinstance(each.controllers, Controllers),
        passes=True,
    )

    why = asyncio.run(read(secured_kafka, found))

    assert why
    assert why.code == "MetadataLogUnavailable"
    assert "certificate" in why.message, why
