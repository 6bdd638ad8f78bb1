"""Who may say yes, and whose Secrets may be used: the admission policies and roles in manifests/, on a real API server.

Everybody here is bound to the example roles that the manifests hold; nothing is granted by the test alone unless it
says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import (
    AuthorizationV1Api,
    V1ResourceAttributes,
    V1SelfSubjectAccessReview,
    V1SelfSubjectAccessReviewSpec,
)

from apiserver.objects import Asking, Refused
from kafka_recovery.kube.resources.admission import APPROVALS_POLICY
from kafka_recovery.kube.resources.kinds import APPROVALS, CLUSTERS, GROUP, RANKINGS, RECOVERIES
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import Api
from testbed.kubernetes.rights import bound, hold, role
from testbed.waiting import wait_until
from unit.kube.specs import APPROVAL, ATTESTATION, CLUSTER, RANKING, RECOVERY, STRIMZI, changed

pytestmark = pytest.mark.apiserver

MANIFESTS = Path(__file__).parents[2] / "manifests"
OPERATOR = "kafka-recovery-operator"
SECRETS = "secret-references.kafka-recovery.dev"
PODS = "fleet-rankings.kafka-recovery.dev"
ROLES = "rbac.authorization.k8s.io"
OPEN, WRITE = f"partitionrecoveries.{GROUP}", f"recoveryapprovals.{GROUP}"
RIGHTS = {"viewer": ("list", OPEN), "responder": ("create", OPEN), "approver": ("approve", OPEN)}
"""One of each example role, by which it is seen to hold."""
Said = dict[str, Any]


def documents(file: str, namespace: str) -> list[Said]:
    """A manifest's objects, moved to a namespace."""
    text = (MANIFESTS / file).read_text().replace("namespace: kafka-recovery", f"namespace: {namespace}")
    return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture(scope="module")
def guarded(control_plane: ControlPlane) -> ControlPlane:
    """A control plane where both policies are at work, and that knows the example roles."""
    control_plane.kubectl().apply(*documents("rbac/people.yaml", ""))
    somewhere = Asking(control_plane.client(), control_plane.create_namespace("guarded"))
    wait_until("approvals are checked", lambda: _checked(somewhere), bool)
    return control_plane


def _checked(somewhere: Asking) -> bool:
    """A new policy takes a moment until it holds. The administrator may do everything but lie about the name."""
    try:
        somewhere.create(APPROVALS, "probe", APPROVAL | {"approver": "somebody else"}, dry_run=True)
    except Refused:
        return True
    return False


@pytest.fixture
def home(guarded: ControlPlane, namespace: str) -> ControlPlane:
    """The test's namespace has a recovery to approve and Secrets to name."""
    Asking(guarded.client(), namespace).create(RECOVERIES, "prod-0123456789", RECOVERY)
    return guarded


def person(home: ControlPlane, namespace: str, name: str, *roles: str, once: Sequence[tuple[str, str]] = ()) -> Asking:
    """Somebody with some of the example roles, once these and other rights hold."""
    admin = home.kubectl(home.administrator(namespace))
    admin.apply(*(bound(name, f"kafka-recovery-{each}") for each in roles))
    who = home.user(name, namespace=namespace)
    hold(Api.by(who), *(RIGHTS[each] for each in roles), *once)
    return Asking(home.client(who), namespace)


def account(home: ControlPlane, namespace: str, name: str) -> Asking:
    return Asking(home.client(home.service_account(namespace, name)), namespace)


def install_operator(home: ControlPlane, namespace: str) -> Asking:
    """The operator's account with exactly what manifests/rbac gives it."""
    admin = home.kubectl(home.administrator(namespace))
    admin.apply(*documents("rbac/operator.yaml", namespace), *documents("rbac/admission-reader.yaml", namespace))
    return account(home, namespace, OPERATOR)


@contextmanager
def allowing(home: ControlPlane, *accounts: str) -> Iterator[None]:
    """The policy names these service accounts for the length of a `with` block, as an administrator would write it."""
    (policy, _) = documents("admission/recovery-approvals.yaml", "")
    (named,) = [each for each in policy["spec"]["variables"] if each["name"] == "serviceAccountsThatMayApprove"]
    named["expression"], as_it_was = str(list(accounts)), named["expression"]
    home.kubectl().apply(policy)
    try:
        yield
    finally:
        named["expression"] = as_it_was
        home.kubectl().apply(policy)


def created(who: Asking, approval: Said) -> bool:
    """Whether it is taken by now: a change of policy takes a moment."""
    try:
        who.create(APPROVALS, "a", approval)
    except Refused:
        return False
    return True


def by(name: str, **more: Any) -> Said:
    return APPROVAL | {"approver": name} | more


# Attestations


def says(name: str, **more: Any) -> Said:
    return ATTESTATION | {"by": name} | more


def test_a_responder_attests_in_their_own_name(home: ControlPlane, namespace: str) -> None:
    ann = person(home, namespace, "ann@example.com", "responder")

    held = ann.patch(RECOVERIES, "prod-0123456789", attestations=[says("ann@example.com")])

    assert held["spec"]["attestations"] == [says("ann@example.com")]
    ann.create(RECOVERIES, "another", RECOVERY | {"attestations": [says("ann@example.com")]})


def test_nobody_attests_in_the_name_of_another(home: ControlPlane, namespace: str) -> None:
    ann = person(home, namespace, "ann@example.com", "responder")
    why = "says of broker 3 that bob attests, but it is ann@example.com who asks; nobody attests in the name of another"

    with pytest.raises(Refused, match=why):
        ann.patch(RECOVERIES, "prod-0123456789", attestations=[says("bob")])
    with pytest.raises(Refused, match=why):
        ann.create(RECOVERIES, "another", RECOVERY | {"attestations": [says("ann@example.com", broker=4), says("bob")]})


def test_what_another_person_attested_before_stays_whoever_changes_the_rest(home: ControlPlane, namespace: str) -> None:
    """But no word of it may be changed in that person's name; to take it away is anybody's right who may write."""
    ann, bob = (person(home, namespace, name, "responder") for name in ("ann@example.com", "bob"))
    bob.patch(RECOVERIES, "prod-0123456789", attestations=[says("bob")])

    both = [says("bob"), says("ann@example.com", broker=4)]
    assert ann.patch(RECOVERIES, "prod-0123456789", attestations=both)["spec"]["attestations"] == both
    ann.patch(RECOVERIES, "prod-0123456789", suspend=True)
    with pytest.raises(Refused, match="nobody attests in the name of another"):
        ann.patch(RECOVERIES, "prod-0123456789", attestations=[says("bob", expires="2026-01-31T11:30:00Z")])
    assert ann.patch(RECOVERIES, "prod-0123456789", attestations=[])["spec"]["attestations"] == []


# Approvals


def test_an_approver_approves_and_refuses_in_their_own_name(home: ControlPlane, namespace: str) -> None:
    ann = person(home, namespace, "ann@example.com", "approver")

    assert ann.create(APPROVALS, "yes", by("ann@example.com"))["spec"]["approver"] == "ann@example.com"
    ann.create(APPROVALS, "no", by("ann@example.com", decision="Refuse", reason="INC-7: restore from backup"))


def test_nobody_approves_in_the_name_of_another(home: ControlPlane, namespace: str) -> None:
    ann = person(home, namespace, "ann@example.com", "approver")

    with pytest.raises(Refused, match=r"spec.approver is bob, but it is ann@example.com who asks"):
        ann.create(APPROVALS, "a", by("bob"))


def test_not_even_an_administrator_approves_in_the_name_of_another(home: ControlPlane, namespace: str) -> None:
    with pytest.raises(Refused, match=r"nobody approves in the name of another"):
        Asking(home.client(), namespace).create(APPROVALS, "a", by("ann@example.com"))


def test_who_may_write_approvals_but_has_not_the_verb_approves_nothing(
    home: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    kubectl.apply(role("writer", ["create"], WRITE), bound("bob", "writer", own=True))
    bob = person(home, namespace, "bob", "responder", once=[("create", WRITE)])

    with pytest.raises(Refused, match=r"bob may not approve partitionrecoveries/prod-0123456789 in namespace .*verb"):
        bob.create(APPROVALS, "a", by("bob"))


def test_the_verb_for_one_recovery_is_none_for_another(home: ControlPlane, namespace: str, kubectl: Kubectl) -> None:
    verb = {"apiGroups": [GROUP], "resources": ["partitionrecoveries"], "verbs": ["approve"]}
    write = {"apiGroups": [GROUP], "resources": ["recoveryapprovals"], "verbs": ["create"]}
    rules = [verb | {"resourceNames": ["prod-0123456789"]}, write]
    one = {"apiVersion": f"{ROLES}/v1", "kind": "Role", "metadata": {"name": "one"}, "rules": rules}
    kubectl.apply(one, bound("eve", "one", own=True))
    eve = person(home, namespace, "eve", once=[("approve", f"{OPEN}/prod-0123456789")])

    eve.create(APPROVALS, "a", by("eve"))
    with pytest.raises(Refused, match="eve may not approve partitionrecoveries/other"):
        eve.create(APPROVALS, "b", changed(by("eve"), "recoveryRef.name", "other"))


def test_an_approver_of_one_namespace_is_none_in_another(home: ControlPlane, namespace: str) -> None:
    person(home, namespace, "ann@example.com", "approver")
    elsewhere = home.create_namespace("elsewhere")

    with pytest.raises(Refused, match="forbidden"):
        Asking(home.client(home.user("ann@example.com")), elsewhere).create(APPROVALS, "a", by("ann@example.com"))


def test_viewers_and_responders_can_t_even_write_one(home: ControlPlane, namespace: str) -> None:
    for each in ("viewer", "responder"):
        with pytest.raises(Refused, match="cannot create resource"):
            person(home, namespace, each, each).create(APPROVALS, "a", by(each))


def test_a_service_account_approves_nothing_unless_it_is_allowed_by_name(
    home: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    name, ci = f"system:serviceaccount:{namespace}:default", account(home, namespace, "default")
    kubectl.apply(bound(name, "kafka-recovery-approver"))

    with pytest.raises(Refused, match=f"{name} is a service account; a person approves"):
        ci.create(APPROVALS, "a", by(name))

    with allowing(home, name):
        wait_until("the account is allowed", lambda: created(ci, by(name)), bool)


def test_the_operator_never_approves_whatever_somebody_grants_it(
    home: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    operator, name = install_operator(home, namespace), f"system:serviceaccount:{namespace}:{OPERATOR}"
    with pytest.raises(Refused, match="cannot create resource"):
        operator.create(APPROVALS, "a", by(name))

    other = f"system:serviceaccount:{namespace}:other"
    kubectl.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "other"}})
    kubectl.apply(bound(name, "cluster-admin"), bound(other, "kafka-recovery-approver"))
    with allowing(home, name, other):
        wait_until("the other account is allowed", lambda: created(account(home, namespace, "other"), by(other)), bool)
        with pytest.raises(Refused, match="that is the operator, which never approves"):
            operator.create(APPROVALS, "a", by(name))


def test_an_approval_of_another_recovery_with_the_same_name_is_for_the_operator_to_refuse(
    home: ControlPlane, namespace: str
) -> None:
    """A policy can't read the recovery, so it can't compare the uid; what it can is to want one."""
    ann = person(home, namespace, "ann@example.com", "approver")

    ann.create(APPROVALS, "a", changed(by("ann@example.com"), "recoveryRef.uid", "of-an-older-one"))
    with pytest.raises(Refused, match="uid: Required value"):
        ann.create(APPROVALS, "b", by("ann@example.com", recoveryRef={"name": "prod-0123456789"}))


# Secrets


PASSWORD = {"mechanism": "PLAIN", "username": "u", "passwordSecretRef": {"name": "kafka-password", "key": "p"}}
TRUST = {"caSecretRef": {"name": "kafka-ca"}}


def author_of_clusters(*secrets: str) -> Said:
    """The Role of who may write WatchedClusters and get these Secrets."""
    clusters = {"apiGroups": [GROUP], "resources": ["watchedclusters"], "verbs": ["create", "patch", "get"]}
    named = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": list(secrets), "verbs": ["get"]}
    return {"apiVersion": f"{ROLES}/v1", "kind": "Role", "metadata": {"name": "author"}, "rules": [clusters, named]}


@pytest.fixture
def author(home: ControlPlane, namespace: str, kubectl: Kubectl) -> Asking:
    """Somebody who may write WatchedClusters and get one Secret, kafka-ca."""
    kubectl.apply(author_of_clusters("kafka-ca"), bound("author", "author", own=True))
    return person(home, namespace, "author", once=[("get", "secrets/kafka-ca")])


def test_a_cluster_without_secrets_and_one_with_the_author_s_own_are_fine(author: Asking) -> None:
    author.create(CLUSTERS, "open", CLUSTER)
    author.create(CLUSTERS, "tls", CLUSTER | {"tls": {}})
    author.create(CLUSTERS, "trusting", CLUSTER | {"tls": TRUST})


@pytest.mark.parametrize(
    "spec",
    [{"sasl": PASSWORD}, {"tls": {"certSecretRef": {"name": "kafka-password"}}}, {"tls": TRUST, "sasl": PASSWORD}],
)
def test_a_secret_that_its_author_may_not_get_can_t_be_named(author: Asking, spec: Said) -> None:
    with pytest.raises(Refused, match=r"author may not get every Secret .*kafka-password in"):
        author.create(CLUSTERS, "prod", CLUSTER | spec)


def test_nor_can_it_be_named_later(author: Asking) -> None:
    author.create(CLUSTERS, "prod", CLUSTER | {"tls": TRUST})

    with pytest.raises(Refused, match="author may not get every Secret"):
        author.patch(CLUSTERS, "prod", sasl=PASSWORD)
    with pytest.raises(Refused, match="author may not get every Secret"):
        author.patch(CLUSTERS, "prod", tls={"caSecretRef": {"name": "kafka-password"}})


@pytest.mark.parametrize(
    "change",
    [
        {"bootstrapServers": ["my-own.example:9092"]},
        {"tls": None},
        {"tls": {"caSecretRef": None}},
        {"sasl": {"mechanism": "PLAIN"}},
        {"sasl": {"passwordSecretRef": {"key": "other"}}},
        {"controllers": {"bootstrapServers": ["my-own.example:9093"]}},
        {"controllers": {"sasl": None}},
    ],
    ids=str,
)
def test_somebody_else_s_password_can_t_be_sent_elsewhere_or_less_safely(
    home: ControlPlane, namespace: str, author: Asking, change: Said
) -> None:
    administrator = Asking(home.client(), namespace)
    login: Said = {"tls": TRUST, "sasl": PASSWORD | {"mechanism": "SCRAM-SHA-512"}}
    safely = CLUSTER | login | {"controllers": {"bootstrapServers": ["c-0.kafka:9093"], **login}}
    administrator.create(CLUSTERS, "prod", safely)

    with pytest.raises(Refused, match="author may not get every Secret"):
        author.patch(CLUSTERS, "prod", **change)
    administrator.patch(CLUSTERS, "prod", **change)


def test_what_concerns_no_secret_is_free_and_so_is_giving_one_up(
    home: ControlPlane, namespace: str, author: Asking
) -> None:
    Asking(home.client(), namespace).create(CLUSTERS, "prod", CLUSTER | {"tls": TRUST, "sasl": PASSWORD})

    author.patch(CLUSTERS, "prod", suspend=True, policyRef={"name": "strict"}, history={"limit": 5})
    author.patch_metadata(CLUSTERS, "prod", labels={"team": "payments"})
    author.patch(CLUSTERS, "prod", sasl=None)


@pytest.mark.parametrize(
    "login",
    [
        {"sasl": PASSWORD},
        {"tls": {"caSecretRef": {"name": "kafka-password"}}},
        {"tls": {"certSecretRef": {"name": "kafka-password"}}},
    ],
    ids=["a password", "authorities", "a certificate"],
)
def test_a_secret_for_the_controllers_is_a_secret_like_any_other(author: Asking, login: Said) -> None:
    with pytest.raises(Refused, match=r"author may not get every Secret .*kafka-password in"):
        author.create(CLUSTERS, "other", CLUSTER | {"controllers": {"bootstrapServers": ["c-0.kafka:9093"], **login}})


MANY = {
    "tls": {"caSecretRef": {"name": "a"}, "certSecretRef": {"name": "b"}},
    "sasl": changed(PASSWORD, "passwordSecretRef.name", "c"),
    "controllers": {
        "bootstrapServers": ["c-0.kafka:9093"],
        "tls": {"caSecretRef": {"name": "d"}, "certSecretRef": {"name": "e"}},
        "sasl": changed(PASSWORD, "passwordSecretRef.name", "f"),
    },
}


@pytest.mark.parametrize("foreign", [*"abcdef"])
def test_each_secret_of_many_is_asked_for(
    home: ControlPlane, namespace: str, kubectl: Kubectl, author: Asking, foreign: str
) -> None:
    """The API server grants an expression no more than two such questions."""
    own = sorted({*"abcdef"} - {foreign})
    kubectl.apply(author_of_clusters(*own))
    for name in own:
        wait_until(f"the right to get {name} holds", partial(may, author, "get", "", "secrets", name), bool)

    with pytest.raises(Refused, match=r"author may not get every Secret .*\(a, b, c, d, e, f in"):
        author.create(CLUSTERS, "prod", CLUSTER | MANY)
    Asking(home.client(), namespace).create(CLUSTERS, "prod", CLUSTER | MANY)


def test_the_user_of_a_strimzi_ref_is_a_secret_like_any_other(
    home: ControlPlane, namespace: str, author: Asking
) -> None:
    """Strimzi keeps what a KafkaUser proves itself with in a Secret of the user's name."""
    author.create(CLUSTERS, "anonymous", STRIMZI)
    author.create(CLUSTERS, "own", changed(STRIMZI, "strimziRef.user", "kafka-ca"))

    with pytest.raises(Refused, match=r"author may not get every Secret .*kafka-password in"):
        author.create(CLUSTERS, "other", changed(STRIMZI, "strimziRef.user", "kafka-password"))
    with pytest.raises(Refused, match="author may not get every Secret"):
        author.patch(CLUSTERS, "anonymous", strimziRef={"user": "kafka-password"})


@pytest.mark.parametrize(
    "change",
    [
        {"strimziRef": {"name": "my-own"}},
        {"strimziRef": {"listener": "plain"}},
        {"strimziRef": None, "bootstrapServers": ["my-own.example:9092"], "sasl": PASSWORD},
    ],
    ids=str,
)
def test_somebody_else_s_kafka_user_can_t_be_sent_elsewhere_or_less_safely(
    home: ControlPlane, namespace: str, author: Asking, change: Said
) -> None:
    administrator = Asking(home.client(), namespace)
    administrator.create(CLUSTERS, "prod", changed(STRIMZI, "strimziRef.user", "kafka-password"))

    with pytest.raises(Refused, match="author may not get every Secret"):
        author.patch(CLUSTERS, "prod", **change)
    author.patch(CLUSTERS, "prod", suspend=True)
    administrator.patch(CLUSTERS, "prod", **change)


# What the operator may do


READ = ("get", "list", "watch")
ADMISSION = "admissionregistration.k8s.io"
ALLOWED: list[tuple[tuple[str, ...], str, str, str]] = [
    ((*READ, "patch"), GROUP, "watchedclusters", ""),  # its finalizer
    (READ, GROUP, "recoverypolicies", ""),
    (READ, GROUP, "recoveryapprovals", ""),
    ((*READ, "create", "patch", "delete"), GROUP, "partitionrecoveries", ""),
    (("patch",), GROUP, "watchedclusters/status", ""),
    (("patch",), GROUP, "recoverypolicies/status", ""),
    (("patch",), GROUP, "partitionrecoveries/status", ""),
    (("patch",), GROUP, "recoveryapprovals/status", ""),
    (("get", "list", "create", "patch", "delete"), GROUP, "recoveryrecords", ""),
    (("list", "create", "delete"), GROUP, "clusterhistories", ""),
    (("get",), "", "configmaps", OPERATOR),
    (("get",), "", "secrets", ""),
    (("create", "patch"), "events.k8s.io", "events", ""),
    (("create",), "coordination.k8s.io", "leases", ""),
    (("get", "update"), "coordination.k8s.io", "leases", OPERATOR),
    (("get",), ADMISSION, "validatingadmissionpolicies", APPROVALS_POLICY),
    (("get",), ADMISSION, "validatingadmissionpolicybindings", SECRETS),
]
"""Verbs, group, resource, name."""
DENIED: list[tuple[tuple[str, ...], str, str, str]] = [
    (("update",), GROUP, "recoveryrecords", ""),
    (("update", "patch"), GROUP, "clusterhistories", ""),
    (("get", "list", "create", "patch", "delete"), "", "configmaps", ""),
    (("create", "update", "patch", "delete"), GROUP, "recoveryapprovals", ""),
    (("approve",), GROUP, "partitionrecoveries", ""),
    (("create", "update", "delete"), GROUP, "watchedclusters", ""),
    (("create", "update", "patch", "delete"), GROUP, "recoverypolicies", ""),
    (("list", "watch", "create", "patch", "delete"), "", "secrets", ""),
    (("update",), "coordination.k8s.io", "leases", "somebody-else-s"),
    (("patch", "delete"), ADMISSION, "validatingadmissionpolicies", APPROVALS_POLICY),
    (("impersonate",), "", "users", ""),
    (("get",), "", "pods", ""),
]


def may(who: Asking, verb: str, group: str, resource: str, name: str) -> bool:
    """As `kubectl auth can-i`."""
    resource, _, subresource = resource.partition("/")
    asked = V1ResourceAttributes(
        namespace=who.namespace, verb=verb, group=group, resource=resource, subresource=subresource, name=name
    )
    review = V1SelfSubjectAccessReview(spec=V1SelfSubjectAccessReviewSpec(resource_attributes=asked))
    answer = AuthorizationV1Api(who.client).create_self_subject_access_review(review)
    assert answer.status
    return bool(answer.status.allowed)


def test_the_operator_s_role_allows_what_it_does_and_no_more(home: ControlPlane, namespace: str) -> None:
    operator = install_operator(home, namespace)

    for rights, right in ((ALLOWED, True), (DENIED, False)):
        for verbs, *what in rights:
            for verb in verbs:
                assert may(operator, verb, *what) is right, (verb, *what)
    elsewhere = Asking(operator.client, home.create_namespace("elsewhere"))
    assert not may(elsewhere, "get", "", "secrets", "")
    assert not may(elsewhere, "get", GROUP, "partitionrecoveries", "")


def test_its_optional_role_for_strimzi_lets_it_look_and_no_more(
    home: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    operator = install_operator(home, namespace)
    kubectl.apply(*documents("rbac/optional/strimzi.yaml", namespace))

    for verb, group, resource in (
        ("get", "kafka.strimzi.io", "kafkas"),
        ("list", "kafka.strimzi.io", "kafkanodepools"),
        ("list", "kafka.strimzi.io", "kafkarebalances"),
        ("list", "", "pods"),
    ):
        assert may(operator, verb, group, resource, "")
        for change in ("create", "update", "patch", "delete"):
            assert not may(operator, change, group, resource, ""), (change, resource)
    assert not may(operator, "get", "kafka.strimzi.io", "kafkausers", "")


# Whose Pods


def test_a_fleet_ranking_is_for_those_who_may_create_pods(home: ControlPlane, namespace: str, kubectl: Kubectl) -> None:
    asker = role("asker", ["create", "update", "get"], f"fleetrankings.{GROUP}")
    kubectl.apply(asker, bound("ann", "asker", own=True))
    ann = person(home, namespace, "ann", once=[("create", f"fleetrankings.{GROUP}")])

    with pytest.raises(Refused, match="ann may not create Pods in namespace"):
        ann.create(RANKINGS, "nightly", RANKING)

    kubectl.apply(role("pods", ["create"], "pods"), bound("ann", "pods", own=True))
    wait_until("the right holds", lambda: may(ann, "create", "", "pods", ""), bool)
    ann.create(RANKINGS, "nightly", RANKING)


# The policies themselves


def test_the_policies_deny_and_their_expressions_fit_the_schemas(home: ControlPlane, kubectl: Kubectl) -> None:
    for name in (APPROVALS_POLICY, SECRETS, PODS):
        policy = wait_until(
            f"{name} is type-checked",
            lambda name=name: kubectl.api.get("validatingadmissionpolicy", name),  # type: ignore[misc]
            lambda found: "typeChecking" in found.get("status", {}),
        )
        binding = kubectl.api.get("validatingadmissionpolicybinding", name)

        assert policy["status"]["typeChecking"] == {}
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert "Deny" in binding["spec"]["validationActions"]
