"""Objects from the API become values that every part of the operator may believe."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.cluster.drivers import Driver, Kip1275
from kafka_recovery.cluster.security import Mechanism
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.resources.fields import (
    MOST_PARTITIONS,
    CaSecret,
    CertificateSecret,
    History,
    SaslSpec,
    SecretKey,
)
from kafka_recovery.kube.resources.kinds import (
    APPROVALS,
    CLUSTERS,
    POLICIES,
    RECOVERIES,
    Meta,
    RecoveryApproval,
    WatchedCluster,
    Word,
    read_approval,
    read_cluster,
    read_policy,
    read_recovery,
    strictest,
)
from kafka_recovery.kube.resources.labels import label_value
from kafka_recovery.kube.resources.ways_in import TlsSpec
from kafka_recovery.recovery.supervision import Authority
from unit.kube.specs import APPROVAL, CLUSTER, DIGEST, POLICY, RECOVERY, changed, stored

META = Meta("kafka", "prod", "0f4f8e2c-0000-4000-8000-000000000001", 3, "4711", datetime(2026, 11, 21, 12, tzinfo=UTC))


def refused(read: Any, obj: object) -> list[str]:
    """The lines of the refusal."""
    with pytest.raises(InvalidDocument) as refusal:
        read(obj)
    return str(refusal.value).splitlines()


def test_a_path_leads_to_a_kind_in_all_namespaces_in_one_or_to_one_object() -> None:
    assert RECOVERIES.path(None) == "/apis/kafka-recovery.dev/v1alpha1/partitionrecoveries"
    assert APPROVALS.path("kafka") == "/apis/kafka-recovery.dev/v1alpha1/namespaces/kafka/recoveryapprovals"
    assert CLUSTERS.path("kafka", "prod", "status").endswith("/namespaces/kafka/watchedclusters/prod/status")
    with pytest.raises(ValueError, match="an object stands in a namespace"):
        POLICIES.path(None, "prod")


def test_a_cluster_says_how_to_get_in_and_how_far_to_go() -> None:
    spec = CLUSTER | {
        "bootstrapServers": ["kafka-0:9092", "[::1]:9093"],
        "tls": {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "me", "certKey": "user.crt"}},
        "sasl": {
            "mechanism": "SCRAM-SHA-512",
            "username": "operator",
            "passwordSecretRef": {"name": "me", "key": "password"},
        },
        "policyRef": {"name": "strict"},
        "authority": "Approve",
        "driver": "designated",
        "replicaLogInfoApiKey": 94,
        "suspend": True,
        "history": {"ttl": "1h", "lossyTTL": "2h", "limit": 5},
    }

    assert read_cluster(stored(CLUSTERS, spec)) == WatchedCluster(
        META,
        "Some-base64_url-ID0000",
        (Address("kafka-0", 9092), Address("::1", 9093)),
        TlsSpec(CaSecret(name="ca"), CertificateSecret(name="me", certKey="user.crt")),
        SaslSpec(
            mechanism=Mechanism.SCRAM_SHA_512,
            username="operator",
            passwordSecretRef=SecretKey(name="me", key="password"),
        ),
        "strict",
        Authority.APPROVE,
        suspend=True,
        history=History.model_validate({"ttl": "1h", "lossyTTL": "2h", "limit": 5}),
        kip_1275=Kip1275(Driver.DESIGNATED, 94),
    )


def test_a_cluster_of_which_little_is_said_is_only_observed() -> None:
    cluster = read_cluster(stored(CLUSTERS, CLUSTER))

    assert (cluster.authority, cluster.policy_name, cluster.suspend) == (Authority.OBSERVE, None, False)
    assert (cluster.tls, cluster.sasl, cluster.history) == (None, None, History())
    assert (cluster.kip_1275.driver, cluster.kip_1275.replica_log_info_key) == (Driver.AUTO, None)


def test_a_policy_has_the_digest_of_what_it_says_not_of_how_it_is_written() -> None:
    short = read_policy(stored(POLICIES, POLICY))
    long = read_policy(stored(POLICIES, changed(POLICY, "rules.0.patience", "120s"), name="other"))
    stricter = read_policy(stored(POLICIES, changed(POLICY, "rules.0.patience", "121s")))

    assert len(short.digest) == 64
    assert short.digest == long.digest != stricter.digest


def test_a_recovery_of_some_partitions_keeps_their_order_and_the_leaders_that_were_named() -> None:
    entries = [{"topic": "b", "partition": 1, "designatedLeader": 3}, {"topic": "a", "partition": 0}]
    recovery = read_recovery(stored(RECOVERIES, changed(RECOVERY, "scope", {"partitions": entries})))

    assert recovery.scope == Scope((TopicPartition("b", 1), TopicPartition("a", 0)))
    assert recovery.designated == {TopicPartition("b", 1): BrokerId(3)}


def test_a_partition_named_twice_is_refused_with_both_places() -> None:
    entries = [{"topic": "a", "partition": 0}, {"topic": "b", "partition": 0}, {"topic": "a", "partition": 0}]

    assert refused(read_recovery, stored(RECOVERIES, changed(RECOVERY, "scope", {"partitions": entries}))) == [
        "PartitionRecovery kafka/prod: spec.scope.partitions[2]: a-0 is named twice, first at spec.scope.partitions[0]"
    ]


def test_the_largest_recovery_can_be_read() -> None:
    entries = [{"topic": "a", "partition": number} for number in range(MOST_PARTITIONS)]
    recovery = read_recovery(stored(RECOVERIES, changed(RECOVERY, "scope", {"partitions": entries})))

    assert recovery.scope.partitions is not None
    assert len(recovery.scope.partitions) == MOST_PARTITIONS


def test_an_approval_says_who_approves_which_plan_of_which_recovery() -> None:
    spec = APPROVAL | {"maxLossClass": "Bounded", "reason": "INC-1"}

    assert read_approval(stored(APPROVALS, spec)) == RecoveryApproval(
        META,
        "prod-0123456789",
        "5f0c6f0e-7d4d-4c3e-9f0a-3c1b2a190807",
        DIGEST,
        Word.APPROVE,
        "ann@example.com",
        LossClass.BOUNDED,
        "INC-1",
    )


def test_a_refusal_names_no_loss_that_it_would_agree_to() -> None:
    spec = APPROVAL | {"decision": "Refuse", "maxLossClass": "Bounded"}

    assert refused(read_approval, stored(APPROVALS, spec)) == [
        "RecoveryApproval kafka/prod: spec: maxLossClass goes with decision Approve only"
    ]


def test_an_object_that_is_going_says_since_when_and_for_whom_it_waits() -> None:
    going = stored(RECOVERIES, RECOVERY, deletionTimestamp="2026-11-21T12:05:00Z", finalizers=["kafka-recovery.dev/x"])

    assert read_recovery(going).meta == replace(
        META, deleting_since=datetime(2026, 11, 21, 12, 5, tzinfo=UTC), finalizers=("kafka-recovery.dev/x",)
    )


def test_all_that_is_wrong_is_told_at_once_with_its_value() -> None:
    spec = CLUSTER | {"authority": "everything", "history": {"limit": -1}, "bootstrapServers": ["k"]}

    assert refused(read_cluster, stored(CLUSTERS, spec)) == [
        "WatchedCluster kafka/prod: spec.bootstrapServers[0]: must be host:port, for example kafka-0.kafka:9092, "
        'of 1 to 261 characters (got "k")',
        'WatchedCluster kafka/prod: spec.authority: must be Observe or Approve or Automatic (got "everything")',
        "WatchedCluster kafka/prod: spec.history.limit: must be a whole number from 0 to 10000 (got -1)",
    ]


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        ({}, "PartitionRecovery without a name: metadata: is missing"),
        (None, "PartitionRecovery without a name: document: is empty"),
        ([], "PartitionRecovery without a name: document: must be a mapping of fields"),
        (stored(CLUSTERS, CLUSTER), "PartitionRecovery kafka/prod: kind: is 'WatchedCluster'; a PartitionRecovery"),
        (
            stored(RECOVERIES, RECOVERY) | {"apiVersion": "kafka-recovery.dev/v1"},
            "apiVersion: is 'kafka-recovery.dev/v1'",
        ),
        (stored(RECOVERIES, None), "PartitionRecovery kafka/prod: spec: is empty"),
        (stored(RECOVERIES, RECOVERY, uid=None), "metadata.uid: is empty"),
        (stored(RECOVERIES, RECOVERY, name="a/../b"), "metadata.name: must be an object's name"),
        (stored(RECOVERIES, RECOVERY, creationTimestamp="yesterday"), "metadata.creationTimestamp: "),
        (stored(RECOVERIES, RECOVERY) | {"status": []}, "PartitionRecovery kafka/prod: status: must be a mapping"),
    ],
)
def test_what_is_no_such_object_is_refused(obj: object, says: str) -> None:
    assert any(says in line for line in refused(read_recovery, obj))


def test_the_strictest_authority_holds() -> None:
    observe, approve, automatic = Authority

    assert strictest(automatic, observe, approve) is observe
    assert strictest(automatic, approve) is approve
    assert strictest(automatic) is automatic


@given(st.text(st.sampled_from("aZ0_-."), max_size=70))
def test_any_cluster_id_has_a_value_for_a_label(cluster_id: str) -> None:
    value = label_value(cluster_id)

    assert 0 < len(value) <= 63
    assert value[0].isalnum()
    assert value[-1].isalnum()
    assert value == cluster_id or value.startswith("sha256-")
    assert label_value(cluster_id + "x") != value


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
FIELDS = st.sampled_from(["metadata", "spec", "name", "namespace", "scope", "partitions", "tls", "sasl", "rules"])
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4))


@given(TREES, TREES)
def test_no_tree_breaks_a_reader(obj: object, spec: object) -> None:
    for kind, read in (
        (CLUSTERS, read_cluster),
        (POLICIES, read_policy),
        (RECOVERIES, read_recovery),
        (APPROVALS, read_approval),
    ):
        for tree in (obj, stored(kind, spec)):
            try:
                read(tree)
            except InvalidDocument as refusal:
                assert str(refusal).startswith(kind.kind)  # noqa: PT017 - any tree may be an object
