"""The controllers of a Kafka of Strimzi's, by what its objects say; what is missing costs proofs and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import pytest

from kafka_recovery.cluster.kafka_cluster import Controllers
from kafka_recovery.cluster.security import Protocol, Store
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.credentials import Credentials
from kafka_recovery.kube.clusters.history import HistoryFollower, MetadataLogReader
from kafka_recovery.kube.clusters.strimzi import follower, way_in
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.resources.kinds import CLUSTERS, WatchedCluster, read_cluster
from unit.kube.clusters.keeping import NothingKept, NothingToKeep
from unit.kube.clusters.strimzi import PLAIN, Object, kafka, pool, secret
from unit.kube.clusters.test_strimzi import Served
from unit.kube.specs import CLUSTER, STRIMZI, stored

OWN = {"tls.crt": "own certificate", "tls.key": "own key"}
CERTIFICATE = {"tls": {"certSecretRef": {"name": "own"}}}
BROKERS, CONTROLLERS = pool(0, 1, 2), pool(3, 4, 5, name="controllers", roles=["controller"])
OLD_AND_NEW = {"ca.crt": "new CA", "ca-2026-01-01T00-00-00Z.crt": "old CA", "ca.p12": "both", "ca.password": "word"}


def watched(controllers: Mapping[str, Any] | None) -> WatchedCluster:
    given = {} if controllers is None else {"controllers": controllers}
    return read_cluster(stored(CLUSTERS, STRIMZI | {"clusterId": "abc"} | given))


def strimzi(*others: Object) -> Served:
    """A Kafka of three brokers and three controllers, with the Secrets that it takes."""
    secrets = secret("prod-cluster-ca-cert", **OLD_AND_NEW), secret("own", **OWN)
    return Served(kafka(PLAIN), BROKERS, CONTROLLERS, *secrets, *others)


def without(served: Served, name: str) -> Served:
    served.objects = {path: each for path, each in served.objects.items() if not path.endswith(f"/{name}")}
    return served


def opened(served: Served, controllers: Mapping[str, Any] | None = CERTIFICATE) -> Credentials:
    return asyncio.run(way_in(served.api, watched(controllers)))


def found(served: Served, controllers: Mapping[str, Any] = CERTIFICATE) -> Controllers:
    told = opened(served, controllers).controllers
    assert isinstance(told, Controllers)
    return told


def untold(served: Served, controllers: Mapping[str, Any] = CERTIFICATE) -> Reason:
    """Why there are none, though the brokers are reached."""
    credentials = opened(served, controllers)
    assert [str(each) for each in credentials.servers] == ["prod-kafka-bootstrap.kafka.svc:9092"]
    assert isinstance(credentials.controllers, Reason)
    return credentials.controllers


def store(of: Store | None) -> str:
    assert of
    assert of.pem
    return of.pem


def test_addresses_are_those_of_the_nodes_that_are_controllers() -> None:
    assert [str(each) for each in found(strimzi()).addresses] == [
        f"prod-controllers-{node}.prod-kafka-brokers.kafka.svc:9090" for node in (3, 4, 5)
    ]


def test_pools_of_another_kafka_are_passed_over() -> None:
    others = pool(9, cluster="other", name="others", roles=["controller"])

    assert len(found(strimzi(others)).addresses) == 3


def test_every_certificate_of_the_cluster_ca_is_trusted_while_its_key_is_replaced() -> None:
    security = found(strimzi()).security

    assert security.protocol is Protocol.SSL
    assert security.tls
    assert store(security.tls.trust) == "old CA\nnew CA"


def test_the_certificate_is_the_one_that_was_named_and_no_other() -> None:
    tls = found(strimzi()).security.tls
    assert tls
    assert store(tls.identity) == "own key\nown certificate"

    nobody = found(strimzi(), {}).security.tls
    assert nobody
    assert nobody.identity is None


def test_addresses_that_were_named_are_asked_alone() -> None:
    named = {"bootstrapServers": ["controller-0:9093"]}

    told = found(Served(kafka(PLAIN)), named)

    assert ([str(each) for each in told.addresses], told.security.protocol) == (
        ["controller-0:9093"],
        Protocol.PLAINTEXT,
    )


def test_where_nobody_said_as_whom_strimzis_controllers_are_not_asked_and_what_is_to_do_is_said() -> None:
    assert opened(strimzi(), None).controllers is None

    why = unstarted(watched(None)).problem

    assert (why and why.code) == "NotConfigured"
    assert "spec.controllers.tls.certSecretRef (such as prod-cluster-operator-certs)" in str(why)
    assert "port 9090" in str(why)


def test_where_there_are_no_controllers_yet_it_is_said() -> None:
    why = untold(without(strimzi(), "controllers"))

    assert (why.code, "no KafkaNodePool of Kafka prod has nodes with role controller" in why.message) == (
        "StrimziPending",
        True,
    )


@pytest.mark.parametrize(
    ("missing", "where"),
    [("prod-cluster-ca-cert", "spec.controllers.tls.caSecretRef"), ("own", "spec.controllers.tls.certSecretRef")],
)
def test_a_secret_that_is_missing_is_named(missing: str, where: str) -> None:
    why = untold(without(strimzi(), missing))

    assert (why.code, why.message.startswith(f"{where}: Secret {missing} is not there")) == ("InvalidReference", True)


class Refusing(Served):
    """An API server that answers one kind of question with an error."""

    def __init__(self, status: int, of: str) -> None:
        super().__init__()
        self.objects, self._status, self._of = strimzi().objects, status, of

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        self._refuse(path)
        return await super().get(path, deadline=deadline)

    async def list_all(
        self, path: str, *, params: Mapping[str, str], deadline: timedelta | None = None
    ) -> list[Object]:
        self._refuse(path)
        return await super().list_all(path, params=params, deadline=deadline)

    def _refuse(self, path: str) -> None:
        if self._of in path:
            raise ApiError(self._status, "Forbidden", f"cannot read {path}")


@pytest.mark.parametrize("of", ["kafkanodepools", "prod-cluster-ca-cert"])
def test_a_right_that_is_missing_is_said_with_what_gives_it(of: str) -> None:
    why = untold(Refusing(403, of))

    assert why.code == "Forbidden"
    assert "manifests/rbac/optional/strimzi.yaml, and the verb get on Secret prod-cluster-ca-cert" in why.message


@pytest.mark.parametrize("of", ["kafkanodepools", "prod-cluster-ca-cert"])
def test_an_api_server_that_does_not_answer_for_a_moment_ends_no_history(of: str) -> None:
    """Who opens clusters keeps what is open, and asks again."""
    with pytest.raises(ApiError):
        opened(Refusing(503, of))


def test_a_node_pool_that_cannot_be_read_is_told_and_costs_proofs_only() -> None:
    broken = pool(7, name="broken") | {"spec": {"roles": "controller"}}

    why = untold(strimzi(broken))

    assert (why.code, why.message.startswith("KafkaNodePool: spec.roles")) == ("InvalidReference", True)


def test_another_controller_or_another_ca_is_another_way_in_and_the_same_ones_are_not() -> None:
    as_it_is = opened(strimzi()).fingerprint

    assert opened(strimzi()).fingerprint == as_it_is
    grown = strimzi(pool(6, name="more", roles=["controller"]))
    renewed = strimzi(secret("prod-cluster-ca-cert", **{"ca.crt": "newer CA"}))
    assert len({as_it_is, opened(grown).fingerprint, opened(renewed).fingerprint}) == 3


class Silent(NothingToKeep):
    """A Kafka whose controllers do not answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def read_metadata_log(self, within: timedelta, deadline: timedelta) -> Reason | None:
        self.asked.set()
        return Reason("MetadataLogUnavailable", "no controller told the metadata log: c-0: no answer within 3s")


def unstarted(cluster: WatchedCluster) -> HistoryFollower:
    return follower(cluster, cast(MetadataLogReader, None), NothingKept(), lambda: None)


async def problem_of(cluster: WatchedCluster) -> str:
    """What is said of silent controllers."""
    told, kafka = asyncio.Event(), Silent()
    following = follower(cluster, kafka, NothingKept(), told.set)
    following.start("kafka/prod")
    async with asyncio.timeout(10):
        await told.wait()
    await following.stop()
    assert following.problem
    return following.problem.message


async def test_where_they_do_not_answer_strimzis_network_policy_is_named() -> None:
    said = await problem_of(watched(CERTIFICATE))
    assert said.startswith(
        "no controller told the metadata log: c-0: no answer within 3s. Strimzi's NetworkPolicy prod-"
    )

    others = await problem_of(read_cluster(stored(CLUSTERS, CLUSTER)))
    assert "Strimzi" not in others
