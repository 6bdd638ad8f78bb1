"""`--check`: what a person is told who wants to know whether an installed operator does its work."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.process.check import PATIENCE, Check, patiently
from kafka_recovery.kube.resources.admission import (
    APPROVALS_POLICY,
    ATTESTATIONS_POLICY,
    HELD_PODS_POLICY,
    RECORDS_POLICY,
    SECRETS_POLICY,
)
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES, collections
from unit.kube.our_objects import POLICIES_OF_ADMISSION, OurObjects, policy_in_force
from unit.virtual import taking_no_time

POLICIES = APPROVALS_POLICY, RECORDS_POLICY, ATTESTATIONS_POLICY, HELD_PODS_POLICY, SECRETS_POLICY
LEASE = ("kafka", "kafka-recovery-operator")
AT = "/apis/coordination.k8s.io/v1/namespaces/kafka/leases/kafka-recovery-operator"
LISTED = collections((CLUSTERS, RECOVERIES), ("kafka",))


class Installed(OurObjects):
    """Everything is installed; `holder` renews the Lease before each look, unless it is dead or nobody."""

    def __init__(self) -> None:
        super().__init__()
        for policy in POLICIES:
            policy_in_force(self, policy)
        self._keep(AT, {"metadata": {"uid": "lease"}, "spec": {}})
        self.holder = "operator-1"
        self.renews = True
        self.unlisted: dict[str, str] = {}

    async def first(self, path: str) -> list[Object]:
        if reason := self.unlisted.get(path):
            raise ApiError(403, reason, "no right", path)
        return []

    async def get(self, path: str, **_: Any) -> Object:
        if path == AT and AT in self.objects and (self.renews or not self.objects[AT]["spec"]):
            self._keep(AT, self.objects[AT] | {"spec": {"holderIdentity": self.holder} if self.holder else {}})
        return await super().get(path)


def check(api: Installed, lease: tuple[str, str] | None = LEASE, *, relies_on_admission: bool = True) -> Check:
    return Check(cast(Any, api), LISTED, lease, relies_on_admission=relies_on_admission)


async def told(api: Installed) -> list[str]:
    """By the second look."""
    twice = check(api)
    await twice.missing()
    return await twice.missing()


async def test_nothing_is_missing_where_all_is_installed_and_an_operator_renews_its_lease() -> None:
    assert await told(Installed()) == []


async def test_a_kind_that_cannot_be_listed_is_named_and_so_is_why() -> None:
    api = Installed()
    api.unlisted[LISTED[1]] = "Forbidden"

    assert await told(api) == [f"{LISTED[1]} can't be listed: Forbidden"]


@pytest.mark.parametrize("plural", POLICIES_OF_ADMISSION)
@pytest.mark.parametrize("policy", POLICIES)
async def test_each_admission_policy_is_asked_for_and_its_binding(policy: str, plural: str) -> None:
    api = Installed()
    del api.objects[f"/apis/admissionregistration.k8s.io/v1/{plural}/{policy}"]

    assert await told(api) == [f"{plural}/{policy} is not there; kubectl apply -f manifests/admission/"]


async def test_a_lease_that_nobody_has_made_says_so() -> None:
    api = Installed()
    del api.objects[AT]

    (said,) = await told(api)

    assert said.startswith("Lease kafka/kafka-recovery-operator can't be read: NotFound")


@pytest.mark.parametrize(
    ("holder", "said"), [("", "has no holder: no operator runs"), ("operator-1", "is not renewed by operator-1")]
)
async def test_a_lease_that_nobody_renews_is_no_operator_s_at_work(holder: str, said: str) -> None:
    """One that died holds it still, and clocks may differ: what counts is that it moves."""
    api = Installed()
    api.holder, api.renews = holder, False

    assert await told(api) == [f"Lease kafka/kafka-recovery-operator {said}"]


async def test_who_acts_without_a_lease_is_asked_for_none() -> None:
    api = Installed()
    del api.objects[AT]

    assert await check(api, None).missing() == []


async def test_the_fleet_operator_which_may_not_read_them_is_asked_for_no_admission_policies() -> None:
    api = Installed()
    api.unread = "/validatingadmissionpolicies/"

    assert await check(api, None, relies_on_admission=False).missing() == []
    assert len(await check(api, None).missing()) == len(POLICIES)


@taking_no_time
async def test_an_operator_that_begins_in_time_is_waited_for() -> None:
    api = Installed()
    api.holder = ""
    asked = asyncio.create_task(patiently(check(api)))
    await asyncio.sleep(PATIENCE / 2)
    assert not asked.done()

    api.holder = "operator-1"

    assert await asked == []


@taking_no_time
async def test_what_does_not_come_is_not_waited_for_without_end() -> None:
    api = Installed()
    api.holder = ""

    async with asyncio.timeout(PATIENCE + 5):
        assert await patiently(check(api)) == ["Lease kafka/kafka-recovery-operator has no holder: no operator runs"]
