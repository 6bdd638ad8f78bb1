"""The status of a WatchedCluster, from what its watcher sees. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.cool_down import LastAutomatic
from kafka_recovery.kube.clusters.held import NONE_ALTERED
from kafka_recovery.kube.clusters.history import NO_CONTROLLERS
from kafka_recovery.kube.clusters.pod_witness import NO_PODS
from kafka_recovery.kube.machinery.conditions import Standing, condition, cut, instant, merged
from kafka_recovery.kube.watching.room import NO_ROOM
from kafka_recovery.kube.watching.waits import WAITS
from kafka_recovery.kube.watching.watch import BrokerState
from kafka_recovery.kube.watching.watcher import WatchView

FIRST = 10
"""So many topics are named, and so many whom partitions wait for."""

PATIENCE = timedelta(minutes=1)
"""So long what is not ready may be under way: a Secret, a policy or a Kafka may come in the next moment. Tools that
wait for it then see it fail, and not their own time-out."""

ALTERED = "OrdersAltered"
"""The type of the condition that says why a deletion would wait."""

_KEPT = ("clusterId", "brokerStates", "lastProbe", "lastAutomaticElection")
_SIGHTS = ("clusterId", "brokers", "brokerStates", "offlinePartitions", "lastProbe")

_CONNECTING = Reason("Connecting", "no broker has answered yet")


def unopened(
    why: Reason, generation: int, old: Mapping[str, Any], now: datetime, altered: Reason = NONE_ALTERED
) -> dict[str, Any]:
    """The status of a cluster that can't even be looked at. What was known before stays, and how old that is."""
    unknown = Reason("ViewUnavailable", "it is not being looked at: see Ready")
    return {
        "observedGeneration": generation,
        **{name: old[name] for name in _KEPT if name in old},
        "conditions": _conditions(why, unknown, unknown, unknown, altered, generation, old, now),
    }


def watched(
    view: WatchView,
    policy: Policy | Reason,
    last: LastAutomatic | None,
    recoveries: int,
    generation: int,
    old: Mapping[str, Any],
    now: datetime,
    doubled: Reason | None = None,
    incarnations: Mapping[int, int] = MappingProxyType({}),
    history: Reason | None = NO_CONTROLLERS,
    altered: Reason = NONE_ALTERED,
    restarts: Reason | None = NO_PODS,
    unkept: str | None = None,
) -> dict[str, Any]:
    """The status of a cluster that is being watched. `doubled`: why another WatchedCluster should not be there.

    `incarnations`: how often each broker had come back before it was watched by this process. `history`: why no ISR
    history is known, if so; `restarts`: why of brokers that are killed and started again nothing is known, if so;
    `unkept`: why the next process will not know the histories that Kafka cuts off, if so.
    """
    proven = f"{_PROVEN}; {_of_restarts(restarts)}; {_of_the_kept(unkept)}"
    ready = doubled or _ready(view, policy)
    status: dict[str, Any] = {
        **(_seen_before(old) if view.pulsed_at is None else {}),
        "observedGeneration": generation,
        **(_brokers(view, old, now, incarnations) if view.pulsed_at is not None or "brokers" not in old else {}),
        "openRecoveries": recoveries,
        "conditions": _conditions(
            ready, _healthy(view), _isolation(view), history, altered, generation, old, now, proven
        ),
    }
    if view.scanned_at is not None:
        status["offlinePartitions"] = len(view.offline)
    if view.cluster_id:
        status["clusterId"] = view.cluster_id
    if view.unclean is not None and view.unclean.topics:
        topics = view.unclean.topics
        status["uncleanElectionTopics"] = {"count": len(topics), "first": list(topics[:FIRST])}
    if waits := Counter(why for why in view.left.values() if why.code in (*WAITS, NO_ROOM)):
        told = sorted(waits.items(), key=lambda item: (-item[1], item[0].code, item[0].message))[:FIRST]
        status["waitsFor"] = [
            {"reason": why.code, "message": cut(why.message), "partitions": number} for why, number in told
        ]
    if view.pulsed_at is not None:
        status["lastProbe"] = instant(now - (view.at - view.pulsed_at))
    if last:
        status["lastAutomaticElection"] = {"at": instant(last.at), "recoveryUid": last.recovery_uid}
    return status


def _seen_before(old: Mapping[str, Any]) -> dict[str, Any]:
    """What an earlier process saw, while this one has seen nothing: `lastProbe` tells how old that is."""
    return {name: old[name] for name in _SIGHTS if name in old}


def _brokers(view: WatchView, old: Mapping[str, Any], now: datetime, incarnations: Mapping[int, int]) -> dict[str, Any]:
    """How many there are, and how each of them does."""
    states = Counter(broker.state for broker in view.brokers)
    return {
        "brokers": {
            "registered": len(view.brokers) - states[BrokerState.UNREGISTERED],
            "fenced": states[BrokerState.FENCED],
            "unreachable": states[BrokerState.UNREACHABLE],
        },
        "brokerStates": [
            {
                "id": int(broker.id),
                "state": str(broker.state),
                "since": _since(broker.id, str(broker.state), old, now - (view.at - broker.since)),
                "incarnation": incarnations.get(int(broker.id), 0) + broker.incarnation,
            }
            for broker in view.brokers
        ],
    }


def _ready(view: WatchView, policy: Policy | Reason) -> Reason | None:
    """Why observing does not work, or works without rules."""
    if view.pulsed_at is None:
        return view.isolated or _CONNECTING
    if view.isolated and view.at - view.pulsed_at > timedelta(seconds=10):
        return view.isolated
    return policy if isinstance(policy, Reason) and policy.code != Decisive.NO_POLICY else None


def _healthy(view: WatchView) -> Reason | None:
    if view.scanned_at is None:
        return Reason("ScanPending", "its partitions have not been gone through yet")
    if view.offline:
        first = view.offline[0].partition.id
        more = f" and {len(view.offline) - 1} more" if len(view.offline) > 1 else ""
        return Reason("OfflinePartitions", f"{first}{more} have no leader")
    if view.isolated:
        return Reason("ViewUnavailable", "what it looks like can't be seen at the moment: see ViewTrusted")
    if view.scan_fault:
        return view.scan_fault


def _isolation(view: WatchView) -> Reason | None:
    return view.isolated or (_CONNECTING if view.pulsed_at is None else None)


def _conditions(
    unready: Reason | None,
    sick: Reason | None,
    isolated: Reason | None,
    history: Reason | None,
    altered: Reason,
    generation: int,
    old: Mapping[str, Any],
    now: datetime,
    proven: str = "",
) -> Sequence[Mapping[str, Any]]:
    ready = unready or Reason("AsExpected", "it is looked at several times a second")
    health = sick or Reason("AsExpected", "every partition has a leader")
    view = isolated or Reason("AsExpected", "what is seen can be relied on")
    proofs = history or Reason("AsExpected", proven)
    how = _standing(unready, generation, old, now)
    said = (
        ("Ready", None if ready.code in _UNKNOWN else unready is None, ready),
        ("KafkaHealthy", None if health.code in _UNKNOWN else sick is None, health),
        ("ViewTrusted", None if view.code in _UNKNOWN else isolated is None, view),
        ("HistoryKnown", None if proofs.code in _UNKNOWN else history is None, proofs),
        ("Reconciling", how is Standing.WORKING, ready),
        ("Stalled", how is Standing.STUCK, ready),
        (ALTERED, None if altered.code in _UNKNOWN else altered != NONE_ALTERED, altered),
    )
    new = [condition(kind, holds, why.code, why.message, generation) for kind, holds, why in said]
    return merged(old.get("conditions", ()), new, now)


_PROVEN = "plans say which elections are proven to lose nothing"


def _of_restarts(unseen: Reason | None) -> str:
    """What a broker counts as that was killed and started again."""
    if unseen is None:
        return "a broker that was killed is intact if it was seen to start again in its Pod, on the same boot"
    return f"a broker that was killed is not proven to be intact without ELR ({unseen.code}: {unseen.message})"


def _of_the_kept(unkept: str | None) -> str:
    """What becomes of histories that Kafka cuts off."""
    if unkept is None:
        return "ISR histories are kept for the operator's next process"
    return f"ISR histories are not kept for the operator's next process: {unkept}"


def _standing(unready: Reason | None, generation: int, old: Mapping[str, Any], now: datetime) -> Standing:
    """What is wrong with the object itself needs a person at once; all else may pass by itself, but not for ever.

    What was stuck stays so until it is ready, or wanted otherwise: that its reason changes is no progress.
    """
    if unready is None:
        return Standing.DONE
    told = {each.get("type"): each for each in old.get("conditions", ())}
    before = {kind: told[kind] for kind in ("Reconciling", "Stalled") if told.get(kind, {}).get("status") == "True"}
    known = {kind: each for kind, each in before.items() if each.get("observedGeneration") == generation}
    waits = known.get("Reconciling")
    late = waits and now - datetime.fromisoformat(waits["lastTransitionTime"]) >= PATIENCE
    return Standing.STUCK if unready.code in _WRONG or "Stalled" in known or late else Standing.WORKING


_WRONG = frozenset({Decisive.INVALID_SPEC, Decisive.INVALID_CONFIGURATION})
_UNKNOWN = frozenset(
    {Decisive.VIEW_UNAVAILABLE, Decisive.SCAN_PENDING, Decisive.CONNECTING}
    | {Decisive.NOT_CONFIGURED, Decisive.OBJECTS_UNREADABLE}
)


def _since(broker: int, state: str, old: Mapping[str, Any], at: datetime) -> str:
    """As it was told before, while the state is the same: clocks drift, and a status must not change for that."""
    known: Mapping[str, Any] = next((each for each in old.get("brokerStates", ()) if each.get("id") == int(broker)), {})
    return str(known["since"]) if known.get("state") == state and "since" in known else instant(at)
