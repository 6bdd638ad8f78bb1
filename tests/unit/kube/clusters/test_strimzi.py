"""Clusters of Strimzi's: how to get in by what its objects say, and when its work is a reason to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kafka_recovery.cluster.security import Mechanism
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.cant_open import CantOpen
from kafka_recovery.kube.clusters.strimzi import Strimzi, StrimziPending, others, way_in
from kafka_recovery.kube.clusters.strimzi_objects import at_work, check_owner
from kafka_recovery.kube.clusters.strimzi_objects import way_in as read_way_in
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound
from kafka_recovery.kube.resources.fields import CertificateSecret, SaslSpec, SecretKey, StrimziRef
from kafka_recovery.kube.resources.kinds import CLUSTERS, WatchedCluster, read_cluster
from kafka_recovery.kube.resources.ways_in import Certificates, TlsSpec
from unit.kube.clusters.strimzi import (
    CA,
    OUTSIDE,
    PLAIN,
    SCRAM,
    TLS,
    Object,
    in_trouble,
    kafka,
    pod,
    pool,
    rebalance,
    user_secret,
)
from unit.kube.specs import CLUSTER, STRIMZI, stored

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
USER = "kafka-recovery"


def watched(**ref: str) -> WatchedCluster:
    """A WatchedCluster with a strimziRef."""
    spec = {"clusterId": "abc", "strimziRef": {"name": "prod", **ref}}
    return read_cluster(stored(CLUSTERS, STRIMZI | spec))


def led_in(obj: Object, **ref: str) -> WatchedCluster:
    cluster = watched(**ref)
    assert cluster.strimzi
    return read_way_in(obj, cluster.strimzi, cluster)


def refused(obj: Object, **ref: str) -> tuple[str, str]:
    with pytest.raises(CantOpen) as refusal:
        led_in(obj, **ref)
    return refusal.value.reason.code, refusal.value.reason.message


class TestTheWayIn:
    def test_addresses_and_authorities_are_those_of_the_kafka_s_status(self) -> None:
        found = led_in(kafka(PLAIN, SCRAM), listener="scram", user=USER)

        assert found.bootstrap_servers == (Address("prod-kafka-bootstrap.kafka.svc", 9094),)
        assert found.tls == TlsSpec(Certificates(CA, "status of Kafka prod, listener scram"))

    def test_a_listener_for_scram_takes_the_password_of_the_user(self) -> None:
        found = led_in(kafka(SCRAM), user=USER)

        password = SecretKey(name=USER, key="password")
        assert found.sasl == SaslSpec(mechanism=Mechanism.SCRAM_SHA_512, username=USER, passwordSecretRef=password)
        assert found.tls
        assert found.tls.certificate is None

    def test_a_listener_for_certificates_takes_that_of_the_user(self) -> None:
        found = led_in(kafka(TLS), user=USER)

        assert found.tls
        assert found.tls.certificate == CertificateSecret(name=USER, certKey="user.crt", keyKey="user.key")
        assert found.sasl is None

    def test_a_listener_with_a_certificate_of_a_public_authority_is_not_spoken_to_in_plain_text(self) -> None:
        obj = kafka(OUTSIDE)
        del obj["status"]["listeners"][0]["certificates"]

        assert led_in(obj, listener="external").tls == TlsSpec(None)

    def test_without_a_choice_it_is_the_internal_listener_named_tls(self) -> None:
        (address,) = led_in(kafka(OUTSIDE, PLAIN, TLS), user=USER).bootstrap_servers

        assert address.port == 9093

    def test_with_none_inside_a_person_has_to_choose(self) -> None:
        code, message = refused(kafka(OUTSIDE))

        assert code == "InvalidReference"
        assert message.endswith("no listener for clients inside Kubernetes; spec.strimziRef.listener may be external")

    def test_a_listener_that_is_not_there_is_told_with_those_that_are(self) -> None:
        code, message = refused(kafka(PLAIN, TLS), listener="fast")

        assert (code, "listener fast" in message, "plain or tls" in message) == ("InvalidReference", True, True)

    @pytest.mark.parametrize("asked", ["custom", "oauth"])
    def test_a_listener_that_a_kafka_user_can_t_get_through_is_refused(self, asked: str) -> None:
        code, message = refused(kafka(SCRAM | {"authentication": {"type": asked}}), user=USER)

        assert (code, asked in message) == ("InvalidReference", True)

    def test_who_is_asked_for_a_user_has_to_name_one_and_who_is_not_must_not(self) -> None:
        assert refused(kafka(TLS)) == (
            "InvalidReference",
            "spec.strimziRef.user: listener tls asks for tls authentication: name a KafkaUser",
        )
        assert refused(kafka(PLAIN), user=USER)[1].endswith("listener plain asks nobody who comes: leave it out")

    def test_another_cluster_s_kafka_is_refused_before_anything_is_sent_to_it(self) -> None:
        code, message = refused(kafka(PLAIN, cluster_id="other"))

        assert (code, message) == ("ClusterIdMismatch", "Kafka prod has cluster id other, and spec.clusterId is abc")

    @pytest.mark.parametrize("obj", [in_trouble(kafka(PLAIN)), kafka(PLAIN) | {"status": {}}], ids=["failed", "new"])
    def test_a_kafka_without_addresses_is_waited_for(self, obj: Object) -> None:
        with pytest.raises(StrimziPending, match="no address of listener plain yet"):
            led_in(obj)

    def test_an_address_that_is_none_is_named(self) -> None:
        obj = kafka(PLAIN)
        obj["status"]["listeners"][0]["bootstrapServers"] = "nowhere"

        with pytest.raises(InvalidDocument, match=r"Kafka prod: status.listeners: 'nowhere' is not an address"):
            led_in(obj)


class TestWhoseUser:
    REF = StrimziRef(name="prod", user=USER)

    @pytest.mark.parametrize(
        "secret",
        [
            user_secret(cluster="other", password="p"),
            user_secret(password="p") | {"metadata": {"name": USER}},
            user_secret(password="p") | {"metadata": {"labels": {"strimzi.io/cluster": "prod"}}},
        ],
        ids=["another Kafka's", "not Strimzi's", "no user's"],
    )
    def test_any_other_secret_is_sent_nowhere(self, secret: Object) -> None:
        with pytest.raises(CantOpen, match="is not that of a KafkaUser of Kafka prod"):
            check_owner(secret, self.REF)


# Who is at work


def rolling(*pods: Object, pools: tuple[Object, ...] = (), now: datetime = NOW) -> dict[int, str]:
    """Brokers that come back by themselves, and in which words."""
    waits = at_work(pods, pools, (), now)
    assert {reason.code for reason in waits.restarting.values()} <= {"StrimziAtWork"}
    return {int(broker): reason.message for broker, reason in waits.restarting.items()}


class TestRolls:
    def test_a_pod_that_is_deleted_is_a_roll(self) -> None:
        assert rolling(pod(0), pod(1, deleted="2026-11-21T12:00:20Z")) == {
            1: "Pod prod-brokers-1 of broker 1 is being stopped"
        }

    def test_so_is_its_successor_until_it_is_ready(self) -> None:
        young = "2026-11-21T11:58:00Z"
        successors = pod(1, ready=False, phase="Pending", created=young), pod(2, ready=False, created=young)

        assert rolling(*successors, pod(3, created=young)) == {
            1: "Pod prod-brokers-1 of broker 1 is starting",
            2: "Pod prod-brokers-2 of broker 2 is starting",
        }

    def test_and_the_moment_between_the_two(self) -> None:
        assert rolling(pod(0), pools=(pool(0, 1),)) == {1: "broker 1 has no Pod at the moment"}

    def test_a_pod_that_has_ended_is_made_anew(self) -> None:
        assert list(rolling(pod(1, ready=False, phase="Failed"))) == [1]

    def test_nor_is_one_that_dies_after_a_roll(self) -> None:
        assert rolling(pod(1, ready=False, restarts=2, created="2026-11-21T11:58:00Z")) == {}

    def test_a_successor_that_does_not_come_up_is_not_waited_for_longer_than_ten_minutes(self) -> None:
        pending = pod(1, ready=False, phase="Pending", created="2026-11-21T11:58:00Z")

        assert [bool(rolling(pending, now=NOW + timedelta(minutes=later))) for later in (7, 9)] == [True, False]

    def test_a_pod_whose_node_is_lost_never_ends_and_is_no_roll(self) -> None:
        deleted = "2026-11-21T12:00:20Z"

        assert rolling(pod(1, deleted=deleted, disrupted="DeletionByTaintManager")) == {}
        assert list(rolling(pod(1, deleted=deleted, disrupted="EvictionByEvictionAPI"))) == [1]

    def test_nor_is_one_that_nobody_stops_though_its_time_is_over(self) -> None:
        assert rolling(pod(1, deleted="2026-11-21T11:59:29Z")) == {}

    def test_controllers_hold_no_partitions(self) -> None:
        controllers = pool(8, 9, name="controllers", roles=["controller"])

        assert rolling(pod(9, deleted="2026-11-21T12:00:20Z", broker=False), pools=(controllers,)) == {}


class TestRebalances:
    @pytest.mark.parametrize(
        "state", ["New", "PendingProposal", "ProposalReady", "Stopped", "NotReady", "Ready", "ReconciliationPaused"]
    )
    def test_only_one_that_moves_partitions_counts(self, state: str) -> None:
        assert at_work((), (), [rebalance(state)], NOW).everything is None

    def test_one_that_does_is_named(self) -> None:
        why = at_work((), (), [rebalance("Ready"), rebalance("Rebalancing", "scale-up")], NOW).everything

        assert why
        assert (why.code, why.message) == ("StrimziAtWork", "KafkaRebalance scale-up moves partitions")

    def test_one_without_a_status_is_none_yet(self) -> None:
        new = {key: value for key, value in rebalance("New").items() if key != "status"}

        assert at_work((), (), [new], NOW).everything is None


# Asking the API server


class Served:
    """An API server that knows these objects, by their path."""

    def __init__(self, *objects: Object, version: str | None = "v1", error: ApiError | None = None) -> None:
        self._error = error
        self.objects = {_path(each, version): each for each in objects}
        if version:
            versions = [{"groupVersion": f"kafka.strimzi.io/{version}", "version": version}]
            self.objects["/apis/kafka.strimzi.io"] = {"kind": "APIGroup", "versions": versions}

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        if self._error:
            raise self._error
        if path not in self.objects:
            raise NotFound(404, "NotFound", f"{path} not found", path)
        return self.objects[path]

    async def list_all(
        self, path: str, *, params: Mapping[str, str], deadline: timedelta | None = None
    ) -> list[Object]:
        wanted = dict(each.split("=") for each in params["labelSelector"].split(","))
        found = [each for at, each in self.objects.items() if at.rpartition("/")[0] == path]
        return [each for each in found if wanted.items() <= each["metadata"]["labels"].items()]

    @property
    def api(self) -> Api:
        return cast(Api, self)


def _path(obj: Object, version: str | None) -> str:
    plural, name = f"{obj['kind'].lower()}s", obj["metadata"]["name"]
    group = "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/kafka.strimzi.io/{version}"
    return f"{group}/namespaces/kafka/{plural}/{name}"


def opened(served: Served, **ref: str) -> Any:
    return asyncio.run(way_in(served.api, watched(**ref)))


def problem(served: Served, **ref: str) -> tuple[str, str]:
    with pytest.raises(CantOpen) as refusal:
        opened(served, **ref)
    return refusal.value.reason.code, refusal.value.reason.message


class TestAsking:
    def test_both_versions_of_strimzi_s_api_are_read(self) -> None:
        for version in ("v1", "v1beta2"):
            found = opened(Served(kafka(PLAIN, version=version), version=version))
            assert found.servers == (Address("prod-kafka-bootstrap.kafka.svc", 9092),)

    def test_a_password_that_strimzi_changes_is_another_way_in(self) -> None:
        plain = SCRAM | {"tls": False}
        one, other, same = (
            opened(Served(kafka(plain), user_secret(password=word)), user=USER) for word in ("a", "b", "a")
        )

        assert one.security.sasl.credentials.password == "a"
        assert one.fingerprint == same.fingerprint != other.fingerprint

    def test_without_strimzi_it_is_said_that_it_is_not_installed(self) -> None:
        code, message = problem(Served(version=None))

        assert (code, "not installed" in message) == ("ApiMissing", True)

    def test_nor_is_a_version_guessed_at(self) -> None:
        code, message = problem(Served(kafka(PLAIN), version="v9"))

        assert code == "ApiMissing"
        assert message == "of kafka.strimzi.io the API server has v9; this version reads v1 and v1beta2"

    def test_a_kafka_that_is_not_there_is_named(self) -> None:
        assert problem(Served()) == (
            "InvalidReference",
            "there is no Kafka prod (kafka.strimzi.io) in namespace kafka",
        )

    def test_a_missing_right_is_said_with_what_gives_it(self) -> None:
        code, message = problem(Served(error=ApiError(403, "Forbidden", "cannot get resource kafkas")))

        assert (code, "manifests/rbac/optional/strimzi.yaml" in message) == ("Forbidden", True)

    def test_a_user_without_a_secret_is_said_where_it_is_named(self) -> None:
        code, message = problem(Served(kafka(SCRAM)), user=USER)

        assert code == "InvalidReference"
        assert message.startswith("spec.strimziRef.user: Secret kafka-recovery is not there")

    def test_another_kafka_s_user_is_not_sent_to_this_one(self) -> None:
        code, message = problem(Served(kafka(SCRAM), user_secret(cluster="other", password="p")), user=USER)

        assert (code, "is not that of a KafkaUser of Kafka prod" in message) == ("InvalidReference", True)

    def test_another_kafka_at_the_same_addresses_is_another_way_in(self) -> None:
        """Not for Kafka's sake: it is another one's Pods that are looked at from now on."""
        namesake = kafka(PLAIN) | {"metadata": {"name": "other"}}
        one, other = (opened(Served(kafka(PLAIN), namesake), name=name) for name in ("prod", "other"))

        assert one.servers == other.servers
        assert one.fingerprint != other.fingerprint

    def test_a_user_of_another_kind_than_the_listener_asks_for_is_told_by_the_key_it_lacks(self) -> None:
        code, message = problem(Served(kafka(SCRAM), user_secret(**{"user.crt": "c", "user.key": "k"})), user=USER)

        assert (code, "no key password" in message) == ("InvalidReference", True)

    def test_only_this_kafka_s_pods_and_rebalances_are_looked_at(self) -> None:
        others_own = [
            pod(7, cluster="other", deleted="2126-11-21T12:00:00Z"),
            pool(7, 8, cluster="other", name="others"),
            rebalance("Rebalancing", "other", cluster="other"),
        ]
        served = Served(pod(1, deleted="2126-11-21T12:00:00Z"), pool(1, 2), rebalance("Ready"), *others_own)

        waits = asyncio.run(Strimzi(served.api, "kafka", StrimziRef(name="prod")).at_work())

        assert set(waits.restarting) == {BrokerId(1), BrokerId(2)}
        assert waits.everything is None

    @pytest.mark.parametrize(
        "served", [Served(version=None), Served(error=ApiError(503, "Unavailable", "later"))], ids=["gone", "silent"]
    )
    def test_what_can_t_be_seen_is_a_reason_to_wait(self, served: Served) -> None:
        waits = asyncio.run(Strimzi(served.api, "kafka", StrimziRef(name="prod")).at_work())

        assert waits.everything
        assert waits.everything.code == "ObjectsUnreadable"
        assert "whether Strimzi restarts brokers" in waits.everything.message

    def test_a_cluster_with_addresses_of_its_own_waits_for_nobody(self) -> None:
        cluster = read_cluster(stored(CLUSTERS, CLUSTER))

        assert others(Served().api, cluster) is None
        assert others(Served().api, replace(cluster, strimzi=StrimziRef(name="prod")))
