"""What owners say now: every halt, who is asked though the rules want nobody, and that silence is no permission."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.recoveries.supervision import OVER
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, POLICIES, RECOVERIES
from kafka_recovery.kube.resources.operator_switch import KnownSwitch, OperatorSwitch, read_switch
from kafka_recovery.recovery.supervision import Authority, Permission
from unit.kube.journal.journals import NAME, NAMESPACE
from unit.kube.operated import Operated
from unit.kube.our_objects import SILENT, OurObjects, inhabited
from unit.recovery.world import World

SWITCH = ("kafka", "operator")
CONFIG = "/api/v1/namespaces/kafka/configmaps/operator"
AUTOMATIC, APPROVE, OBSERVE = Authority.AUTOMATIC, Authority.APPROVE, Authority.OBSERVE


@pytest.fixture
def owners(tmp_path: Path) -> Operated:
    return Operated(World(tmp_path), inhabited())


async def permission(owners: Operated, **known: Any) -> Permission:
    return await owners.supervision(**known).permission()


def deletion(owners: Operated) -> None:
    spec = owners.api.recovery()["spec"]
    owners.api.put(RECOVERIES, NAME, spec, deletionTimestamp="2026-11-21T12:00:00Z", finalizers=["example.com/other"])


def another_of_that_name(owners: Operated) -> None:
    owners.api.put(RECOVERIES, NAME, owners.api.recovery()["spec"], uid="another")


def cluster_deletion(owners: Operated) -> None:
    cluster = owners.api.objects[CLUSTERS.path(NAMESPACE, "prod")]
    cluster["metadata"] |= {"finalizers": [FINALIZER], "deletionTimestamp": "2026-11-21T12:00:00Z"}


def house_suspended(owners: Operated) -> None:
    owners.switch = OperatorSwitch(AUTOMATIC, Reason("Suspended", "by ConfigMap"))


def cut_off(owners: Operated) -> None:
    owners.state.alone = Reason("ViewUnavailable", "OperatorCutOff: two of three do not answer us")


def silent_about(path: str) -> Callable[[Operated], None]:
    return lambda owners: setattr(owners.api, "unread", path)


HALTS: dict[str, tuple[Callable[[Operated], object], str]] = {
    "nobody objects": (lambda o: None, ""),
    "the recovery is gone": (lambda o: o.api.remove(RECOVERIES, NAME), "Aborted: the PartitionRecovery is gone"),
    "the recovery is being deleted": (deletion, "Aborted: the PartitionRecovery was deleted"),
    "another recovery has its name": (another_of_that_name, "Aborted: the PartitionRecovery was deleted"),
    "the recovery is aborted": (lambda o: o.api.change(RECOVERIES, NAME, abort=True), "Aborted: spec.abort is true"),
    "the recovery is suspended": (lambda o: o.api.change(RECOVERIES, NAME, suspend=True), "Suspended"),
    "the cluster is suspended": (lambda o: o.api.change(CLUSTERS, "prod", suspend=True), "Suspended"),
    "the operator is suspended": (house_suspended, "Suspended"),
    "our own look can't be trusted": (cut_off, "ViewUnavailable"),
    "the cluster is gone": (lambda o: o.api.remove(CLUSTERS, "prod"), "InvalidReference: WatchedCluster prod"),
    "the cluster is being deleted": (cluster_deletion, "WatchedClusterDeleted"),
    "the cluster is another one now": (
        lambda o: o.api.change(CLUSTERS, "prod", clusterId="other"),
        "ClusterIdMismatch",
    ),
    "the cluster names no policy": (lambda o: o.api.change(CLUSTERS, "prod", policyRef=None), "NoPolicy"),
    "the policy is gone": (lambda o: o.api.remove(POLICIES, "rules"), "InvalidReference: RecoveryPolicy rules"),
    "the policy is not valid": (
        lambda o: o.api.change(POLICIES, "rules", rules=[]),
        "InvalidSpec: RecoveryPolicy kafka/rules",
    ),
    "the cluster can't be understood": (
        lambda o: o.api.change(CLUSTERS, "prod", authority="All"),
        "InvalidSpec: WatchedCluster kafka/prod",
    ),
    "the API server is silent": (silent_about("/partitionrecoveries/"), "ObjectsUnreadable"),
    "it is silent about the cluster": (
        silent_about("/watchedclusters/"),
        "ObjectsUnreadable",
    ),
    "it is silent about the policy": (
        silent_about("/recoverypolicies/"),
        "ObjectsUnreadable",
    ),
}


@pytest.mark.parametrize(("happens", "code"), HALTS.values(), ids=HALTS)
async def test_what_halts_a_recovery(owners: Operated, happens: Callable[[Operated], object], code: str) -> None:
    happens(owners)

    halted = (await permission(owners)).halted

    assert (halted.code if halted else "") == code.partition(":")[0]
    assert str(halted or "").startswith(code)


@pytest.mark.parametrize(("happens", "code"), HALTS.values(), ids=HALTS)
async def test_what_halts_later_halts_as_well(
    owners: Operated, happens: Callable[[Operated], object], code: str
) -> None:
    """What was read once is not believed again."""
    supervision = owners.supervision()
    await supervision.permission()
    happens(owners)

    halted = (await supervision.permission()).halted

    assert (halted.code if halted else "") == code.partition(":")[0]
    assert str(halted or "").startswith(code)


@pytest.mark.parametrize(
    ("lease", "code"), [(("two", "operator"), "WatchedElsewhere"), (("one", "operator"), ""), (None, "")]
)
async def test_nothing_is_begun_any_more_once_another_operator_watches_the_cluster(
    owners: Operated, lease: tuple[str, str] | None, code: str
) -> None:
    supervision = owners.supervision(lease=lease)
    await supervision.permission()
    place = {"namespace": "one", "name": "operator", "renewed": "2026-11-21T12:00:00Z"}
    owners.api.objects[CLUSTERS.path(NAMESPACE, "prod")]["status"] = {"watchedBy": place}

    halted = (await supervision.permission()).halted

    assert (halted.code if halted else "") == code


def test_only_what_can_not_be_taken_back_ends_a_recovery() -> None:
    assert {"Aborted"} == OVER


async def test_a_cluster_may_be_given_another_policy(owners: Operated) -> None:
    supervision = owners.supervision()
    await supervision.permission()
    owners.api.put(POLICIES, "strict", {"rules": [{"name": "strict"}]})
    owners.api.change(CLUSTERS, "prod", policyRef={"name": "strict"})

    assert [rule.name for rule in (await supervision.permission()).policy.rules] == ["strict"]


async def test_an_operator_that_cannot_read_its_own_settings_may_do_nothing(owners: Operated) -> None:
    async def silent() -> OperatorSwitch:
        raise SILENT

    supervision = owners.supervision()
    supervision._switch = KnownSwitch(silent)

    halted = (await supervision.permission()).halted
    assert (halted and halted.code) == "ObjectsUnreadable"


# Authority


@pytest.mark.parametrize(
    ("operator", "cluster", "allowed", "caution"),
    [
        (AUTOMATIC, AUTOMATIC, AUTOMATIC, None),
        (AUTOMATIC, APPROVE, APPROVE, None),
        (APPROVE, AUTOMATIC, APPROVE, None),
        (OBSERVE, AUTOMATIC, APPROVE, "ObserveOnly"),
        (AUTOMATIC, OBSERVE, APPROVE, "ObserveOnly"),
    ],
)
async def test_the_strictest_authority_holds_and_observe_is_shown_as_a_plan(
    owners: Operated, operator: Authority, cluster: Authority, allowed: Authority, caution: str | None
) -> None:
    owners.switch = OperatorSwitch(operator)
    owners.api.change(CLUSTERS, "prod", authority=str(cluster))
    supervision = owners.supervision()

    now = await supervision.permission()

    assert (now.authority, now.halted) == (allowed, None)
    assert (supervision.caution.code if supervision.caution else None) == caution


async def test_what_has_begun_is_halted_under_observe(owners: Operated) -> None:
    owners.switch = OperatorSwitch(OBSERVE)

    now = await permission(owners, begun=lambda: True)

    assert (now.halted and now.halted.code) == "ObserveOnly"


COOLS = Reason("CoolingDown", "the last automatic election was 5 s ago")


@pytest.mark.parametrize(
    ("cools", "known", "code"),
    [
        (COOLS, {}, "CoolingDown"),
        (None, {"named": Reason("AwaitingApproval", "by nightly")}, "AwaitingApproval"),
        (COOLS, {"named": Reason("AwaitingApproval", "by nightly")}, "CoolingDown"),
        (None, {"failed": lambda: True}, "AfterFailure"),
        (None, {}, None),
    ],
)
async def test_a_person_is_asked_though_the_rules_want_nobody(
    owners: Operated, cools: Reason | None, known: dict[str, Any], code: str | None
) -> None:
    owners.state.cools = cools
    supervision = owners.supervision(**known)

    now = await supervision.permission()

    assert (supervision.caution.code if supervision.caution else None) == code
    assert now.authority is (APPROVE if code else AUTOMATIC)


NEWER: dict[str, Callable[[Operated, object], None]] = {
    "the cluster": lambda o, value: o.api.change(CLUSTERS, "prod", aNewField=value),
    "the policy": lambda o, value: o.api.change(POLICIES, "rules", rules=[{"name": "rule", "aNewField": value}]),
    "the recovery": lambda o, value: o.api.change(RECOVERIES, NAME, aNewField=value),
}


@pytest.mark.parametrize("write", NEWER.values(), ids=NEWER)
async def test_what_a_newer_release_would_heed_asks_a_person(
    owners: Operated, write: Callable[[Operated, object], None]
) -> None:
    supervision = owners.supervision()
    write(owners, {"never": "on Fridays"})

    now = await supervision.permission()

    assert (now.authority, now.halted) == (APPROVE, None)
    assert "aNewField, which may forbid what it would do" in supervision.asked_because(now)


@pytest.mark.parametrize("write", NEWER.values(), ids=NEWER)
async def test_what_the_api_server_fills_in_for_a_newer_release_changes_nothing(
    owners: Operated, write: Callable[[Operated, object], None]
) -> None:
    supervision = owners.supervision()
    write(owners, False)

    now = await supervision.permission()

    assert (now.authority, supervision.caution) == (AUTOMATIC, None)


async def test_a_caution_that_is_over_is_forgotten(owners: Operated) -> None:
    owners.state.cools = COOLS
    supervision = owners.supervision()
    await supervision.permission()
    owners.state.cools = None

    now = await supervision.permission()

    assert (supervision.caution, now.authority) == (None, AUTOMATIC)


# The operator's own ConfigMap


@pytest.mark.parametrize(
    ("data", "suspended"),
    [
        (None, False),
        ({}, False),
        ({"suspend": ""}, False),
        ({"suspend": "false"}, False),
        ({"suspend": "False"}, False),
        ({"suspend": "true"}, True),
        ({"suspend": "no"}, True),
    ],
)
async def test_the_operator_is_suspended_by_anything_but_a_clear_no(
    data: dict[str, str] | None, suspended: bool
) -> None:
    api = OurObjects()
    api.objects[CONFIG] = {"metadata": {"name": "operator"}} | ({} if data is None else {"data": data})

    switch = await read_switch(api, SWITCH, APPROVE)

    assert (switch.authority, switch.suspended is not None) == (APPROVE, suspended)


async def test_without_its_record_the_operator_is_not_suspended() -> None:
    assert await read_switch(OurObjects(), SWITCH, APPROVE) == OperatorSwitch(APPROVE)


async def test_a_record_that_cannot_be_read_is_no_permission() -> None:
    api = OurObjects()
    api.unread = "/configmaps/"

    with pytest.raises(ApiError):
        await read_switch(api, SWITCH, APPROVE)
