"""The status of a watched cluster: three conditions that never claim what was not seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.cluster.scan import UncleanTopics
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.cool_down import LastAutomatic
from kafka_recovery.kube.clusters.status import FIRST, unopened, watched
from kafka_recovery.kube.watching.incidents import Offline
from kafka_recovery.kube.watching.watch import BrokerState, WatchedBroker
from kafka_recovery.kube.watching.watcher import WatchView
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.recoveries.standings import LOST, RULES, SEEN
from unit.kube.watching.sights import offline, seconds

GONE = Offline(offline(), seconds(90))
LATER = NOON + timedelta(minutes=1)


def status(view: WatchView = SEEN, policy: Policy | Reason = RULES, old: Any = None, **more: Any) -> dict[str, Any]:
    return watched(view, policy, more.get("last"), 0, 1, old or {}, more.get("now", NOON))


def said(status: dict[str, Any], kind: str) -> tuple[str, str]:
    return next((each["status"], each["reason"]) for each in status["conditions"] if each["type"] == kind)


@pytest.mark.parametrize(
    ("view", "healthy"),
    [
        (SEEN, ("True", "AsExpected")),
        (replace(SEEN, offline=(GONE,)), ("False", "OfflinePartitions")),
        (replace(SEEN, scanned_at=None), ("Unknown", "ScanPending")),
        (replace(SEEN, scan_fault=Reason("StaleMetadata", "it is old")), ("False", "StaleMetadata")),
        (replace(SEEN, isolated=LOST), ("Unknown", "ViewUnavailable")),
        (replace(SEEN, isolated=LOST, offline=(GONE,)), ("False", "OfflinePartitions")),
    ],
    ids=["well", "offline", "never gone through", "not gone through now", "out of sight", "offline and out of sight"],
)
def test_kafka_is_called_healthy_only_while_it_is_seen(view: WatchView, healthy: tuple[str, str]) -> None:
    assert said(status(view), "KafkaHealthy") == healthy


@pytest.mark.parametrize(
    ("view", "policy", "ready", "trusted"),
    [
        (SEEN, RULES, ("True", "AsExpected"), ("True", "AsExpected")),
        (WatchView(seconds(1)), RULES, ("Unknown", "Connecting"), ("Unknown", "Connecting")),
        (WatchView(seconds(1), isolated=LOST), RULES, ("False", "OperatorCutOff"), ("False", "OperatorCutOff")),
        (
            replace(SEEN, isolated=LOST, pulsed_at=seconds(95)),
            RULES,
            ("True", "AsExpected"),
            ("False", "OperatorCutOff"),
        ),
        (
            replace(SEEN, isolated=LOST, pulsed_at=seconds(89)),
            RULES,
            ("False", "OperatorCutOff"),
            ("False", "OperatorCutOff"),
        ),
        (SEEN, Reason("NoPolicy", "none is named"), ("True", "AsExpected"), ("True", "AsExpected")),
        (SEEN, Reason("InvalidSpec", "no rules"), ("False", "InvalidSpec"), ("True", "AsExpected")),
    ],
)
def test_ready_is_about_watching_and_view_trusted_about_ourselves(
    view: WatchView, policy: Policy | Reason, ready: tuple[str, str], trusted: tuple[str, str]
) -> None:
    found = status(view, policy)

    assert (said(found, "Ready"), said(found, "ViewTrusted")) == (ready, trusted)


def test_what_cannot_be_opened_claims_nothing_but_why() -> None:
    """And what was known of it, with the time of that look."""
    found = unopened(Reason("InvalidReference", "Secret ca is not there"), 1, status(), LATER)

    assert found.keys() == {"observedGeneration", "conditions", "clusterId", "brokerStates", "lastProbe"}
    assert [said(found, kind) for kind in ("Ready", "KafkaHealthy", "ViewTrusted", "HistoryKnown")] == [
        ("False", "InvalidReference"),
        ("Unknown", "ViewUnavailable"),
        ("Unknown", "ViewUnavailable"),
        ("Unknown", "ViewUnavailable"),
    ]


def test_a_process_that_has_seen_nothing_yet_tells_what_the_one_before_saw() -> None:
    before = status(replace(SEEN, brokers=BROKERS, pulsed_at=seconds(70)))
    blind = WatchView(seconds(1), isolated=Reason("OperatorCutOff", "nobody answers us"))

    found = status(blind, old=before)

    assert said(found, "Ready") == ("False", "OperatorCutOff")
    assert {name: found[name] for name in ("brokerStates", "offlinePartitions", "lastProbe")} == {
        name: before[name] for name in ("brokerStates", "offlinePartitions", "lastProbe")
    }


def test_how_often_a_broker_came_back_is_counted_on_after_a_restart() -> None:
    found = watched(replace(SEEN, brokers=BROKERS), RULES, None, 0, 1, {}, NOON, incarnations={1: 4})

    assert [each["incarnation"] for each in found["brokerStates"]][:3] == [0, 5, 2]


def test_whom_partitions_wait_for_is_cut_to_what_a_status_may_hold() -> None:
    left = {TopicPartition("orders", 0): Reason("ObjectsUnreadable", "x" * 5000)}

    (told,) = status(replace(SEEN, left=left))["waitsFor"]

    assert len(told["message"]) == 1024


BROKERS = tuple(WatchedBroker(BrokerId(id), state, seconds(40), incarnation=id) for id, state in enumerate(BrokerState))


def test_brokers_are_counted_and_named_with_their_incarnation() -> None:
    found = status(replace(SEEN, brokers=BROKERS))

    assert found["brokers"] == {"registered": 3, "fenced": 1, "unreachable": 1}
    assert found["brokerStates"][1] == {
        "id": 1,
        "state": "Fenced",
        "since": "2026-11-21T11:59:00Z",
        "incarnation": 1,
    }


def test_since_when_a_broker_is_in_its_state_does_not_drift_with_the_clock() -> None:
    before = status(replace(SEEN, brokers=BROKERS))

    after = status(replace(SEEN, brokers=BROKERS), old=before, now=NOON + timedelta(seconds=7))

    assert after["brokerStates"] == before["brokerStates"]


def test_topics_in_which_kafka_elects_by_itself_are_named_but_not_all_of_them() -> None:
    topics = tuple(f"t{n}" for n in range(50))

    found = status(replace(SEEN, unclean=UncleanTopics(topics, 0)))

    assert found["uncleanElectionTopics"] == {"count": 50, "first": list(topics[:FIRST])}


def test_the_last_automatic_election_is_told_so_that_the_next_process_knows_it() -> None:
    found = status(last=LastAutomatic(NOON, "uid-1"))

    assert found["lastAutomaticElection"] == {"at": "2026-11-21T12:00:00Z", "recoveryUid": "uid-1"}


def test_when_it_was_looked_at_last_is_told() -> None:
    assert status(replace(SEEN, pulsed_at=seconds(70)))["lastProbe"] == "2026-11-21T11:59:30Z"
    assert "lastProbe" not in status(WatchView(seconds(1)))
