"""What Flux, Helm and `kubectl wait` make of every condition of every kind: nothing in Git is waited for for ever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.held import NONE_ALTERED
from kafka_recovery.kube.clusters.policies import Policies
from kafka_recovery.kube.clusters.status import PATIENCE, unopened, watched
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.resources.kinds import APPROVALS, CLUSTERS, POLICIES, RECOVERIES, Kind
from kafka_recovery.kube.watching.watcher import WatchView
from testbed.kstatus import Kstatus, kstatus
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.our_objects import OurObjects
from unit.kube.recoveries.standings import INCIDENTS, LOST, RULES, SEEN, states
from unit.kube.specs import POLICY
from unit.kube.watching.sights import seconds

CONNECTING = WatchView(seconds(1))
OUT_OF_SIGHT = replace(SEEN, isolated=LOST, pulsed_at=seconds(50))
AFTER = PATIENCE + timedelta(seconds=5)
MOMENT = timedelta(seconds=5)

NOT_OPENED = (
    *("InvalidReference", "Forbidden", "DuplicateCluster", "ApiMissing"),
    *("InvalidSpec", "InvalidConfiguration"),
)
AT_ONCE = {"InvalidSpec", "InvalidConfiguration"}
"""What only another spec mends."""


def shown(status: Object, generation: int = 1) -> Kstatus:
    return kstatus({"metadata": {"generation": generation}, "status": status})


def told(view: WatchView, policy: Any = RULES, old: Object | None = None, at: datetime = NOON, **more: Any) -> Object:
    return watched(view, policy, None, 0, 1, old or {}, at, **more)


@pytest.mark.parametrize("code", NOT_OPENED)
def test_a_cluster_that_can_not_be_opened_is_under_way_for_a_minute_and_then_failed(code: str) -> None:
    why = Reason(code, "a sentence that says why")
    first = unopened(why, 1, {"observedGeneration": -1}, NOON)
    later = unopened(why, 1, first, NOON + MOMENT)
    last = unopened(why, 1, later, NOON + AFTER)

    early = Kstatus.FAILED if code in AT_ONCE else Kstatus.IN_PROGRESS
    assert [shown(each) for each in (first, later, last)] == [early, early, Kstatus.FAILED]


@pytest.mark.parametrize("view", [CONNECTING, OUT_OF_SIGHT], ids=["nobody answered yet", "nobody answers any more"])
def test_nor_is_one_waited_for_that_nobody_can_reach(view: WatchView) -> None:
    first = told(view)

    assert (shown(first), shown(told(view, old=first, at=NOON + AFTER))) == (Kstatus.IN_PROGRESS, Kstatus.FAILED)


@pytest.mark.parametrize("code", ["InvalidReference", "WatchedClusterDeleted", "InvalidSpec"])
def test_nor_for_its_policy(code: str) -> None:
    policy = Reason(code, "a sentence that says why")
    first = told(SEEN, policy)

    assert shown(told(SEEN, policy, first, NOON + AFTER)) is Kstatus.FAILED
    assert shown(told(SEEN, RULES, first, NOON + AFTER)) is Kstatus.CURRENT, "it came"


def test_a_reason_that_changes_is_no_progress() -> None:
    """A broker that refuses now and is silent then would be waited for for ever."""
    one, other = unopened(Reason("InvalidReference", ""), 1, {}, NOON), told(OUT_OF_SIGHT, at=NOON)
    flapping = told(OUT_OF_SIGHT, old=one, at=NOON + AFTER)

    assert shown(flapping) is Kstatus.FAILED
    assert shown(told(CONNECTING, old=flapping, at=NOON + AFTER + MOMENT)) is Kstatus.FAILED
    assert shown(told(SEEN, old=flapping, at=NOON + AFTER + MOMENT)) is Kstatus.CURRENT
    assert shown(other) is Kstatus.IN_PROGRESS


def test_another_spec_is_given_its_own_minute() -> None:
    missing = Reason("InvalidReference", "")
    stuck = unopened(missing, 1, unopened(missing, 1, {}, NOON), NOON + AFTER)

    changed = unopened(missing, 2, stuck, NOON + AFTER + MOMENT)

    assert shown(stuck, generation=2) is Kstatus.IN_PROGRESS, "the operator has not seen it yet"
    assert shown(changed, generation=2) is Kstatus.IN_PROGRESS
    assert shown(unopened(missing, 2, changed, NOON + AFTER * 3), generation=2) is Kstatus.FAILED


def each_condition() -> Iterator[tuple[str, str, Object]]:
    """Conditions that say nothing of whether it is watched: each of their words, on a cluster that is."""
    for history in (None, Reason("NotConfigured", ""), Reason("MetadataLogUnavailable", "")):
        yield "HistoryKnown", history.code if history else "", told(SEEN, history=history)
    for altered in (NONE_ALTERED, Reason("AsExpected", "another has begun")):
        yield "OrdersAltered", altered.code, told(SEEN, altered=altered)


@pytest.mark.parametrize(("kind", "code", "status"), list(each_condition()))
def test_what_is_beside_ready_blocks_nothing(kind: str, code: str, status: Object) -> None:
    assert kind in {each["type"] for each in status["conditions"]}
    assert shown(status) is Kstatus.CURRENT


@pytest.mark.parametrize(("spec", "stands"), [(POLICY, Kstatus.CURRENT), (POLICY | {"rules": []}, Kstatus.FAILED)])
async def test_a_policy_is_never_under_way(spec: Object, stands: Kstatus) -> None:
    api = OurObjects()
    made = api.put(POLICIES, "rules", spec)
    key = made["metadata"]["namespace"], "rules"

    await Policies(api).reconcile(key)  # type: ignore[arg-type]

    policy = api.objects[POLICIES.path(*key)]
    assert kstatus(policy) is stands
    assert {each["type"] for each in policy["status"]["conditions"]} == {"Ready", "Reconciling", "Stalled"}


def test_of_an_incident_only_work_and_a_person_are_waited_for() -> None:
    """It is never in Git; and nobody is stuck: it is asked about, or held by those who may let it go on."""
    waits = {known.phase for known, tools in INCIDENTS.values() if tools[1] is Kstatus.IN_PROGRESS}

    assert waits == {Phase.PLANNING, Phase.AWAITING_APPROVAL, Phase.ELECTING, Phase.HELD, Phase.RESTORING}


SAID: dict[Kind, frozenset[str]] = {
    CLUSTERS: frozenset(
        {"Ready", "KafkaHealthy", "ViewTrusted", "HistoryKnown", "OrdersAltered", "Reconciling", "Stalled"}
    ),
    RECOVERIES: frozenset({"Ready", "Reconciling", "Stalled", "Planned", "Approved", "Verified"}),
    APPROVALS: frozenset({"Accepted"}),
}


@pytest.mark.parametrize("kind", SAID, ids=lambda kind: kind.kind)
def test_each_condition_of_a_kind_is_known_here(kind: Kind) -> None:
    """A new one may change what tools show: decide what, and say so above."""
    found = {each["type"] for state in states() if state.kind is kind for each in state.status.get("conditions", ())}

    assert found == SAID[kind]


def test_the_minute_is_counted_from_when_it_was_not_ready_first() -> None:
    missing, old = Reason("InvalidReference", ""), told(SEEN, at=NOON - timedelta(hours=1))
    times = [NOON + timedelta(seconds=10 * tick) for tick in range(8)]
    seen = []
    for at in times:
        old = unopened(missing, 1, old, at)
        seen.append(shown(old))

    assert seen == [Kstatus.IN_PROGRESS] * 6 + [Kstatus.FAILED] * 2
