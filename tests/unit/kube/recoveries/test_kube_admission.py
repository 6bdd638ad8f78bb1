"""Whether somebody checks who approves: the policy and its binding are there, belong together, and deny."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.resources.admission import APPROVALS_POLICY, ATTESTATIONS_POLICY, RECORDS_POLICY, Admission
from kafka_recovery.kube.resources.kinds import Meta
from unit.kube.our_objects import OurObjects, policy_in_force

MANIFEST = Path(__file__).parents[4] / "manifests" / "admission" / "recovery-approvals.yaml"
INSTALLED = "2026-11-21T12:00:00Z"
POLICY, BINDING = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
PLURALS = {"ValidatingAdmissionPolicy": POLICY, "ValidatingAdmissionPolicyBinding": BINDING}


def path(plural: str) -> str:
    return f"/apis/admissionregistration.k8s.io/v1/{plural}/{APPROVALS_POLICY}"


@pytest.fixture
def api() -> OurObjects:
    """With what our manifests install."""
    api = OurObjects()
    for each in yaml.safe_load_all(MANIFEST.read_text()):
        each["metadata"]["creationTimestamp"] = INSTALLED
        api.objects[f"/apis/{each['apiVersion']}/{PLURALS[each['kind']]}/{each['metadata']['name']}"] = each
    return api


def written(at: str = "2026-11-21T12:01:00Z") -> Meta:
    """An approval that somebody wrote then."""
    return Meta("kafka", "yes", "uid", 1, "7", datetime.fromisoformat(at))


async def code(api: OurObjects, approval: Meta | None = None) -> str | None:
    why = await Admission(cast(Any, api))(approval or written())
    return why.code if why else None


def spec(api: OurObjects, plural: str) -> Object:
    found: Object = api.objects[path(plural)]["spec"]
    return found


async def test_approvals_are_trusted_where_our_manifests_are_installed(api: OurObjects) -> None:
    assert await code(api) is None


@pytest.mark.parametrize("plural", [POLICY, BINDING])
async def test_without_policy_or_binding_they_are_not(api: OurObjects, plural: str) -> None:
    del api.objects[path(plural)]

    why = await Admission(cast(Any, api))(written())

    assert (why and why.code) == "AdmissionPolicyMissing"
    assert f"{plural}/{APPROVALS_POLICY} is not there; kubectl apply -f manifests/admission/" in str(why)


@pytest.mark.parametrize("plural", [POLICY, BINDING])
async def test_what_cannot_be_read_is_not_trusted(api: OurObjects, plural: str) -> None:
    api.unread = f"/{plural}/"

    assert await code(api) == "AdmissionPolicyMissing"


@pytest.mark.parametrize("actions", [[], ["Audit"], ["Warn", "Audit"], None])
async def test_a_binding_that_only_warns_is_none(api: OurObjects, actions: list[str] | None) -> None:
    spec(api, BINDING)["validationActions"] = actions
    if actions is None:
        del spec(api, BINDING)["validationActions"]

    assert await code(api) == "AdmissionPolicyMissing"


async def test_a_binding_of_another_policy_is_none(api: OurObjects) -> None:
    spec(api, BINDING)["policyName"] = "everything-goes"

    assert await code(api) == "AdmissionPolicyMissing"


async def test_what_was_good_is_looked_at_again_for_the_next_approval(api: OurObjects) -> None:
    trusted = Admission(cast(Any, api))
    assert await trusted(written()) is None

    del api.objects[path(POLICY)]

    assert await trusted(written()) is not None


async def test_what_was_missing_is_asked_for_each_time(api: OurObjects) -> None:
    kept = api.objects.pop(path(BINDING))
    trusted = Admission(cast(Any, api))
    assert await trusted(written()) is not None
    api.objects[path(BINDING)] = kept

    assert await trusted(written()) is None


@pytest.mark.parametrize("at", ["2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z", "2026-11-21T12:00:02Z"])
async def test_what_was_written_before_it_was_checked_does_not_count_later(api: OurObjects, at: str) -> None:
    """Else whoever may create approvals writes one in anybody's name while the policy is away."""
    assert await code(api, written(at)) == "PredatesAdmissionPolicy"


@pytest.mark.parametrize("plural", [POLICY, BINDING])
async def test_the_younger_of_both_decides(api: OurObjects, plural: str) -> None:
    api.objects[path(plural)]["metadata"]["creationTimestamp"] = "2026-11-21T12:02:00Z"

    assert await code(api) == "PredatesAdmissionPolicy"
    assert await code(api, written("2026-11-21T12:02:03Z")) is None


@pytest.mark.parametrize("plural", [POLICY, BINDING])
async def test_what_was_written_while_they_were_other_ones_does_not_count(api: OurObjects, plural: str) -> None:
    """A binding that audited for a week, and then denies, was there all the time."""
    changed = {"manager": "helm", "operation": "Update", "time": "2026-11-21T12:02:00Z"}
    told = {"manager": "controller", "subresource": "status", "time": "2026-11-21T12:03:00Z"}
    api.objects[path(plural)]["metadata"]["managedFields"] = [{"manager": "helm", "time": INSTALLED}, changed, told]
    api.objects[path(plural)]["metadata"]["generation"] = 2

    assert await code(api) == "PredatesAdmissionPolicy"
    assert await code(api, written("2026-11-21T12:02:03Z")) is None


async def test_another_label_is_no_other_policy(api: OurObjects) -> None:
    """Each release of the chart writes its version on them."""
    labelled = {"manager": "helm", "operation": "Update", "time": "2026-11-21T12:02:00Z"}
    api.objects[path(POLICY)]["metadata"] |= {"generation": 1, "managedFields": [labelled]}

    assert await code(api) is None


# Journals


@pytest.mark.parametrize(
    ("oldest", "why"),
    [
        ("2026-11-21T12:01:00Z", None),
        ("2026-11-21T12:00:02Z", "PredatesAdmissionPolicy"),
        ("2026-11-21T11:00:00Z", "PredatesAdmissionPolicy"),
    ],
)
async def test_a_journal_is_trusted_if_all_of_it_was_written_under_its_policy(oldest: str, why: str | None) -> None:
    api = OurObjects()
    policy_in_force(api, RECORDS_POLICY, INSTALLED)

    found = await Admission(cast(Any, api)).of_journal(datetime.fromisoformat(oldest))

    assert (found and found.code) == why


@pytest.mark.parametrize(
    ("kinds", "trusted"), [(["recoveryrecords", "clusterhistories"], True), (["recoveryrecords"], False)]
)
async def test_a_history_is_trusted_if_the_policy_asks_who_writes_one(kinds: list[str], trusted: bool) -> None:
    """An older release's policy, which nobody has applied anew, asks only about records."""
    api = OurObjects()
    policy_in_force(api, RECORDS_POLICY, INSTALLED)
    policy = api.objects[f"/apis/admissionregistration.k8s.io/v1/{POLICY}/{RECORDS_POLICY}"]
    policy["spec"]["matchConstraints"] = {"resourceRules": [{"resources": ["watchedclusters"]}, {"resources": kinds}]}

    found = await Admission(cast(Any, api)).of_histories(datetime.fromisoformat("2026-11-21T12:01:00Z"))

    assert (found is None) is trusted
    assert trusted or (found and "does not ask who writes clusterhistories" in found.message)


async def test_the_policy_of_approvals_is_none_of_journals(api: OurObjects) -> None:
    found = await Admission(cast(Any, api)).of_journal(datetime.fromisoformat("2026-11-21T12:01:00Z"))

    assert (found and found.code) == "AdmissionPolicyMissing"
    assert RECORDS_POLICY in str(found)


@pytest.mark.parametrize(
    ("made", "against"),
    [
        ("2026-11-21T12:00:03Z", None),
        ("2026-11-21T12:00:02Z", "PredatesAdmissionPolicy"),
        ("2026-11-21T11:00:00Z", "PredatesAdmissionPolicy"),
    ],
)
async def test_what_a_recovery_attests_is_trusted_if_all_of_it_is_younger_than_that_policy(
    made: str, against: str | None
) -> None:
    """When an entry was written only its author says, and may say what is yet to come."""
    api = OurObjects()
    policy_in_force(api, ATTESTATIONS_POLICY, INSTALLED)

    why = await Admission(cast(Any, api)).of_attestations(datetime.fromisoformat(made))

    assert (why.code if why else None) == against


async def test_that_of_approvals_is_none_for_attestations(api: OurObjects) -> None:
    why = await Admission(cast(Any, api)).of_attestations(datetime.fromisoformat("2026-11-21T12:01:00Z"))

    assert (why and why.code) == "AdmissionPolicyMissing"
    assert f"{POLICY}/{ATTESTATIONS_POLICY} is not there" in str(why)
