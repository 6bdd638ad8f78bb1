"""An operator that is older than the definitions: what it does not know is said, and stops nothing by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.policy_file import load_policy
from kafka_recovery.kube.clusters.policies import Policies
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.resources.kinds import (
    APPROVALS,
    CLUSTERS,
    POLICIES,
    RANKINGS,
    RECOVERIES,
    Kind,
    read_approval,
    read_cluster,
    read_policy,
    read_recovery,
)
from kafka_recovery.kube.resources.unknown import ASKED, NONE, UnknownFields, told
from testbed.kstatus import Kstatus, kstatus
from unit.kube.our_objects import OurObjects
from unit.kube.specs import CLUSTER, POLICY, RECOVERY, SMALLEST, changed, stored

READERS: dict[Kind, Any] = {
    CLUSTERS: read_cluster,
    POLICIES: read_policy,
    RECOVERIES: read_recovery,
    APPROVALS: read_approval,
    RANKINGS: read_ranking,
}
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
EMPTY: list[object] = [None, False, "", [], {}, {"a": {"b": False}}]
GIVEN: list[object] = [True, 0, 1, "x", [False], {"a": {"b": 0}}]


@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("value", EMPTY, ids=repr)
def test_an_object_with_an_empty_field_of_a_newer_release_says_what_it_said_without(kind: Kind, value: object) -> None:
    seen = READERS[kind](stored(kind, SMALLEST[kind] | {"aNewField": value}))

    assert seen.unknown == UnknownFields(empty=("spec.aNewField",))
    assert seen.unknown.restricts is None
    object.__setattr__(seen, "unknown", NONE)
    assert seen == READERS[kind](stored(kind, SMALLEST[kind]))


@pytest.mark.parametrize("value", GIVEN, ids=repr)
def test_any_other_value_may_forbid_something(value: object) -> None:
    unknown = read_cluster(stored(CLUSTERS, CLUSTER | {"aNewField": value})).unknown

    assert unknown == UnknownFields(given=("spec.aNewField",))
    assert str(unknown.restricts) == (
        "UnknownFields: this release does not know spec.aNewField, which may forbid what it would do"
    )


@pytest.mark.parametrize(
    ("kind", "path", "place"),
    [
        (CLUSTERS, "tls.aNewField", "spec.tls.aNewField"),
        (CLUSTERS, "history.aNewField", "spec.history.aNewField"),
        (POLICIES, "rules.0.aNewField", "spec.rules[].aNewField"),
        (POLICIES, "rules.0.evidence.aNewField", "spec.rules[].evidence.aNewField"),
        (RECOVERIES, "scope.aNewField", "spec.scope.aNewField"),
        (APPROVALS, "recoveryRef.aNewField", "spec.recoveryRef.aNewField"),
        (RANKINGS, "storage.aNewField", "spec.storage.aNewField"),
    ],
)
def test_it_is_found_wherever_it_stands(kind: Kind, path: str, place: str) -> None:
    spec = SMALLEST[kind]
    for inner in ("tls", "history"):
        if path.startswith(inner):
            spec = changed(spec, inner, {})
    if "evidence" in path:
        spec = changed(spec, "rules.0.evidence", {})

    assert READERS[kind](stored(kind, changed(spec, path, 5))).unknown.given == (place,)


def test_of_many_partitions_a_place_is_named_once() -> None:
    partitions = [{"topic": "t", "partition": number, "aNewField": False} for number in range(20_000)]

    unknown = read_recovery(stored(RECOVERIES, changed(RECOVERY, "scope", {"partitions": partitions}))).unknown

    assert unknown == UnknownFields(empty=("spec.scope.partitions[].aNewField",))


def test_what_is_wrong_is_refused_as_before_and_names_no_unknown_field() -> None:
    with pytest.raises(InvalidDocument) as refusal:
        read_cluster(stored(CLUSTERS, CLUSTER | {"aNewField": 1, "authority": "All"}))

    assert str(refusal.value) == (
        'WatchedCluster kafka/prod: spec.authority: must be Observe or Approve or Automatic (got "All")'
    )


def test_what_is_left_without_it_must_say_enough() -> None:
    with pytest.raises(InvalidDocument, match="give either allOffline or partitions"):
        read_recovery(stored(RECOVERIES, changed(RECOVERY, "scope", {"topicsWithPrefix": ["pay-"]})))


def test_rules_are_read_as_if_it_did_not_stand_there() -> None:
    policy = read_policy(stored(POLICIES, changed(POLICY, "rules.0.aNewField", {"x": False})))

    assert (policy.digest, policy.spec) == (read_policy(stored(POLICIES, POLICY)).digest, POLICY)


def test_in_a_file_it_is_an_error_for_there_it_may_be_a_typing_error() -> None:
    with pytest.raises(InvalidDocument, match=r"rules\[0\].patience_: is an unknown field; did you mean patience"):
        load_policy("rules: [{name: a, patience_: 1s}]", "policy.yaml")


def test_the_status_says_what_is_ignored_and_tools_take_it_for_no_state() -> None:
    seen = stored(CLUSTERS, CLUSTER)
    ready = {"type": "Ready", "status": "True", "reason": "AsExpected", "message": ""}
    status = {"observedGeneration": 3, "conditions": [ready]}

    said = told(status, UnknownFields(("spec.b",), ("spec.a",)), ASKED, seen, NOON)

    assert said["conditions"] == [
        ready,
        {
            "type": "UnknownFields",
            "status": "True",
            "reason": "UnknownFields",
            "message": "the definitions are newer than the operator, which ignores what it does not know: spec.a may "
            "forbid something: each plan wants an approver, whatever the rules say; spec.b says nothing",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-11-21T12:00:00Z",
        },
    ]
    assert kstatus({**seen, "status": said}) is Kstatus.CURRENT
    later = NOON + timedelta(hours=1)
    assert told(status, UnknownFields(("spec.b",), ("spec.a",)), ASKED, {**seen, "status": said}, later) == said


def test_of_very_many_the_first_are_named() -> None:
    many = UnknownFields.of({("spec", f"new{number:02}"): True for number in range(30)})

    assert str(many.restricts).endswith("spec.new08, spec.new09 and 20 more, which may forbid what it would do")


async def test_a_policy_says_that_it_holds_and_what_of_it_does_not() -> None:
    api = OurObjects()
    api.put(POLICIES, "rules", {"rules": [{"name": "rule", "aNewField": 1}]})

    await Policies(api).reconcile(("kafka", "rules"))  # type: ignore[arg-type] # all of Api that it needs

    conditions = api.objects[POLICIES.path("kafka", "rules")]["status"]["conditions"]
    said = {each["type"]: (each["status"], each["reason"]) for each in conditions}
    assert (said["Ready"], said["UnknownFields"]) == (("True", "AsExpected"), ("True", "UnknownFields"))
