"""The Lua of `examples/argocd`, run as Argo CD runs it, on the statuses that the operator writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.kube.clusters.policies import Policies
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.resources.kinds import API_VERSION, CLUSTERS, POLICIES, RANKINGS, RECOVERIES
from testbed import argocd
from testbed.kstatus import Kstatus, kstatus
from unit.kube.recoveries.standings import INCIDENTS, State, states
from unit.kube.specs import POLICY

SCRIPTS = Path(__file__).parents[4] / "examples" / "argocd"
STATES = list(states())


def shown(by: Object) -> tuple[str, Kstatus]:
    """By Argo CD; by Flux and Helm."""
    return argocd.health(SCRIPTS, by).status, kstatus(by)


def test_argo_cd_flux_and_helm_show_each_state_as_they_should() -> None:
    seen = [(state, shown(state.object)) for state in STATES]
    wrong = [f"{state}: {found}" for state, found in seen if found != (state.argo, state.kstatus)]
    assert not wrong, "\n".join(wrong)


def test_a_status_about_an_older_spec_is_progress() -> None:
    followed = [state for state in STATES if state.kind in (RECOVERIES, CLUSTERS, RANKINGS)]
    seen = [(state, shown(state.object | {"metadata": {"generation": 2}})) for state in followed]
    wrong = [f"{state}: {found}" for state, found in seen if found != ("Progressing", Kstatus.IN_PROGRESS)]
    assert not wrong, "\n".join(wrong)


def test_every_phase_and_every_end_is_among_the_states() -> None:
    known = [known for known, _ in INCIDENTS.values()]

    assert {each.phase for each in known} == set(Phase)
    assert {each.end for each in known} == {None, *End}


def test_an_unwell_kafka_is_told_of_and_blocks_nothing() -> None:
    unwell = named("has offline partitions").object

    assert argocd.health(SCRIPTS, unwell) == argocd.Health(
        "Healthy", "it is looked at several times a second; Kafka: orders-0 have no leader"
    )
    assert kstatus(unwell) is Kstatus.CURRENT


def test_a_suspended_cluster_blocks_nothing_and_is_told_of() -> None:
    suspended = named("is well").object
    suspended["spec"] = suspended["spec"] | {"suspend": True}

    found = argocd.health(SCRIPTS, suspended)

    assert (found.status, found.message.endswith("; suspended")) == ("Healthy", True)


def test_why_a_recovery_waits_is_told() -> None:
    assert argocd.health(SCRIPTS, named("awaits approval").object).message == "a sentence that says why"


@pytest.mark.parametrize(
    ("spec", "argo", "tools"),
    [
        (POLICY, "Healthy", Kstatus.CURRENT),
        ({"rules": [{"name": "a"}, {"name": "a"}]}, "Degraded", Kstatus.FAILED),
    ],
    ids=["valid", "invalid"],
)
async def test_a_policy_is_healthy_if_it_is_valid(spec: dict[str, Any], argo: str, tools: Kstatus) -> None:
    policy = await reconciled(spec)

    assert (argocd.health(SCRIPTS, policy).status, kstatus(policy)) == (argo, tools)


def test_a_policy_that_nobody_has_looked_at_is_progress() -> None:
    policy = a_policy(POLICY) | {"status": {"observedGeneration": -1}}

    assert argocd.health(SCRIPTS, policy).status == "Progressing"


@pytest.mark.parametrize("state", ["Healthy", "Degraded", "Progressing"])
def test_an_application_of_applications_is_told_how_each_of_them_is(state: str) -> None:
    theirs = {"kind": "Application", "status": {"health": {"status": state}}}

    assert argocd.health(SCRIPTS, theirs) == argocd.Health(state, "")
    assert argocd.health(SCRIPTS, {"kind": "Application", "status": {}}).status == "Progressing"


def named(name: str) -> State:
    return next(state for state in STATES if state.name == name)


def a_policy(spec: dict[str, Any]) -> Object:
    meta = {"name": "prod", "namespace": "dev", "uid": "u", "generation": 1, "resourceVersion": "1"}
    meta["creationTimestamp"] = "2026-11-21T12:00:00Z"
    return {"apiVersion": API_VERSION, "kind": POLICIES.kind, "metadata": meta, "spec": spec}


async def reconciled(spec: dict[str, Any]) -> Object:
    """A policy with the status that the operator gives it."""
    api = OnePolicy(a_policy(spec))
    await Policies(api).reconcile(("dev", "prod"))  # type: ignore[arg-type] # all of Api that it needs
    return api.policy


class OnePolicy:
    """An API server with one object."""

    def __init__(self, policy: Object) -> None:
        self.policy = policy

    async def get(self, path: str) -> Object:
        return self.policy

    async def apply_status(self, path: str, obj: Object, status: Object) -> None:
        self.policy = obj | {"status": status}
