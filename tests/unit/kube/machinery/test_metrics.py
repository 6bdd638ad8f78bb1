"""What Prometheus is told, and what it is told no more."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.kube.machinery.metrics import FLEET, Heard, Metrics, Step
from kafka_recovery.kube.machinery.work_queue import Depth

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(now=clock)


def shown(metrics: Metrics, metric: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"kafka_recovery_{metric}", labels)


def test_a_cluster_is_shown_as_it_was_last_seen(metrics: Metrics, clock: Clock) -> None:
    metrics.watched("kafka/prod", offline=12, isolated=True)
    metrics.probed("kafka/prod")
    metrics.recoveries_open("kafka/prod", 2)
    metrics.evidence_missing("kafka/prod", 3)

    assert shown(metrics, "offline_partitions", namespace="kafka", name="prod") == 12
    assert shown(metrics, "isolated", namespace="kafka", name="prod") == 1
    assert shown(metrics, "last_probe_timestamp_seconds", namespace="kafka", name="prod") == NOON.timestamp()
    assert shown(metrics, "open_recoveries", namespace="kafka", name="prod") == 2
    assert shown(metrics, "evidence_missing", namespace="kafka", name="prod") == 3


def test_the_first_recovery_of_its_kind_is_an_increase(metrics: Metrics) -> None:
    """A counter that appears as 1 has no increase, so an alert on it would miss the first failure."""
    metrics.watched("kafka/prod", offline=0, isolated=False)
    labels = {"namespace": "kafka", "name": "prod", "outcome": "Failed", "loss_class": "Unknown"}
    assert shown(metrics, "recoveries_total", **labels) == 0

    metrics.recovery_ended("kafka/prod", "Failed", "Unknown", MINUTE)
    assert shown(metrics, "recoveries_total", **labels) == 1


def test_rejected_candidates_are_counted_by_guard(metrics: Metrics) -> None:
    metrics.rejected("kafka/prod", "Fenced", 2)
    metrics.rejected("kafka/prod", "Fenced")

    assert shown(metrics, "candidates_rejected_total", namespace="kafka", name="prod", guard="Fenced") == 3


def test_the_age_of_the_oldest_waiting_plan_grows_by_itself(metrics: Metrics, clock: Clock) -> None:
    metrics.awaiting_approval("kafka/prod", [NOON - timedelta(minutes=1), NOON - timedelta(minutes=10)])
    clock.now += timedelta(minutes=5)

    assert shown(metrics, "approvals_waiting", namespace="kafka", name="prod") == 2
    assert shown(metrics, "approval_waiting_seconds", namespace="kafka", name="prod") == 15 * 60


def test_when_nobody_waits_there_is_no_age(metrics: Metrics, clock: Clock) -> None:
    metrics.awaiting_approval("kafka/prod", [NOON])
    metrics.awaiting_approval("kafka/prod", [])
    clock.now += timedelta(minutes=5)

    assert shown(metrics, "approvals_waiting", namespace="kafka", name="prod") == 0
    assert shown(metrics, "approval_waiting_seconds", namespace="kafka", name="prod") == 0


def test_a_clock_that_was_set_back_makes_no_negative_age(metrics: Metrics, clock: Clock) -> None:
    metrics.awaiting_approval("kafka/prod", [NOON])
    clock.now -= timedelta(hours=1)

    assert shown(metrics, "approval_waiting_seconds", namespace="kafka", name="prod") == 0


def test_a_cluster_that_can_not_be_opened_is_told_from_one_that_is_watched(metrics: Metrics) -> None:
    metrics.watched("kafka/prod", offline=0, isolated=False, unclean=2)
    assert shown(metrics, "watching", namespace="kafka", name="prod") == 1
    assert shown(metrics, "unclean_election_topics", namespace="kafka", name="prod") == 2

    metrics.forget("kafka/prod")
    metrics.not_watched("kafka/prod")

    assert shown(metrics, "watching", namespace="kafka", name="prod") == 0
    assert shown(metrics, "unclean_election_topics", namespace="kafka", name="prod") is None


def test_recoveries_are_measured_from_offline_to_their_end(metrics: Metrics) -> None:
    metrics.recovery_ended("kafka/prod", "Recovered", "Lossless", timedelta(seconds=200))

    labels = {"namespace": "kafka", "name": "prod", "outcome": "Recovered"}
    assert shown(metrics, "recovery_seconds_bucket", le="120.0", **labels) == 0
    assert shown(metrics, "recovery_seconds_bucket", le="300.0", **labels) == 1
    assert shown(metrics, "recovery_seconds_count", namespace="kafka", name="prod", outcome="Failed") == 0


def test_of_a_ranking_is_shown_what_its_status_says(metrics: Metrics) -> None:
    ranking = {"namespace": "kafka", "name": "nightly"}
    metrics.ranking_seen("kafka/nightly", None, None, NOON)
    assert shown(metrics, "fleet_runs_total", outcome="Failed", **ranking) == 0
    assert shown(metrics, "fleet_last_run_succeeded", **ranking) is None
    assert shown(metrics, "fleet_result_due_timestamp_seconds", **ranking) == NOON.timestamp()

    metrics.ranking_ended("kafka/nightly", RunOutcome.FAILED, timedelta(hours=1))
    metrics.ranking_seen("kafka/nightly", False, NOON, None)
    assert shown(metrics, "fleet_runs_total", outcome="Failed", **ranking) == 1
    assert shown(metrics, "fleet_run_seconds_sum", **ranking) == 3600
    assert shown(metrics, "fleet_last_run_succeeded", **ranking) == 0
    assert shown(metrics, "fleet_last_success_timestamp_seconds", **ranking) == NOON.timestamp()
    assert shown(metrics, "fleet_result_due_timestamp_seconds", **ranking) is None

    metrics.forget_ranking("kafka/nightly")
    assert 'name="nightly"' not in metrics.exposition().decode()


def test_a_first_refusal_of_the_webhook_is_an_increase(metrics: Metrics) -> None:
    assert shown(metrics, "webhook_requests_total", outcome="Unauthenticated") is None
    metrics.webhook_open()
    assert shown(metrics, "webhook_requests_total", outcome="Unauthenticated") == 0
    metrics.heard(Heard.UNAUTHENTICATED)
    assert shown(metrics, "webhook_requests_total", outcome="Unauthenticated") == 1


def test_a_cluster_that_is_not_watched_any_more_drops_its_series_and_no_others(metrics: Metrics) -> None:
    for cluster in ("kafka/prod", "kafka/test"):
        metrics.watched(cluster, offline=1, isolated=False, unclean=1)
        metrics.probed(cluster)
        metrics.recoveries_open(cluster, 1, 1)
        metrics.recovery_ended(cluster, "Recovered", "Lossless", MINUTE)
        metrics.evidence_missing(cluster, 1)
        metrics.rejected(cluster, "Fenced")
        metrics.awaiting_approval(cluster, [NOON])

    metrics.forget("kafka/prod")

    text = metrics.exposition().decode()
    assert 'name="prod"' not in text
    assert shown(metrics, "offline_partitions", namespace="kafka", name="test") == 1


def test_a_cluster_that_comes_back_begins_at_zero(metrics: Metrics) -> None:
    labels = {"namespace": "kafka", "name": "prod", "outcome": "Recovered", "loss_class": "Lossless"}
    metrics.recovery_ended("kafka/prod", "Recovered", "Lossless", MINUTE)
    metrics.forget("kafka/prod")
    metrics.watched("kafka/prod", offline=0, isolated=False)

    assert shown(metrics, "recoveries_total", **labels) == 0


def test_phases_are_measured_from_milliseconds_to_minutes(metrics: Metrics) -> None:
    metrics.took(Step.APPROVE, timedelta(minutes=4))
    metrics.took(Step.GATHER, timedelta(milliseconds=7))
    metrics.decided(timedelta(milliseconds=3))

    assert shown(metrics, "phase_seconds_bucket", phase="approve", le="120.0") == 0
    assert shown(metrics, "phase_seconds_bucket", phase="approve", le="300.0") == 1
    assert shown(metrics, "phase_seconds_bucket", phase="gather", le="0.005") == 0
    assert shown(metrics, "phase_seconds_bucket", phase="gather", le="0.01") == 1
    assert shown(metrics, "decision_seconds_bucket", le="0.005") == 1


def test_a_step_that_fails_took_its_time_as_well(metrics: Metrics) -> None:
    with pytest.raises(ConnectionError), metrics.timing(Step.ELECT):
        raise ConnectionError

    assert shown(metrics, "phase_seconds_count", phase="elect") == 1


def test_who_holds_the_lease_is_shown(metrics: Metrics) -> None:
    assert shown(metrics, "lease_held", program="operator") == 0
    metrics.leading(True)
    assert shown(metrics, "lease_held", program="operator") == 1
    metrics.leading(False)
    assert shown(metrics, "lease_held", program="operator") == 0


def test_the_fleet_operator_is_not_taken_for_the_one_that_elects() -> None:
    """Or the alerts that nobody recovers would be silent as long as fleets are ranked."""
    metrics = Metrics(FLEET)
    metrics.leading(True)

    assert shown(metrics, "lease_held", program="fleet") == 1
    assert shown(metrics, "lease_held", program="operator") is None
    (build,) = re.findall("kafka_recovery_build_info{(.*)} 1.0", metrics.exposition().decode())
    assert 'program="fleet"' in build


def test_names_follow_prometheus_conventions(metrics: Metrics) -> None:
    metrics.recovery_ended("kafka/prod", "Recovered", None, MINUTE)
    families = list(text_string_to_metric_families(metrics.exposition().decode()))

    ours = [family for family in families if not family.name.startswith("process_")]
    assert all(family.name.startswith("kafka_recovery_") for family in ours)
    assert all(family.documentation.endswith(".") for family in ours)
    assert {family.name for family in ours if family.name.endswith("_build_info")} == {"kafka_recovery_build_info"}
    assert not [family.name for family in families if family.name.endswith("_created")]


def test_the_operator_s_own_work_is_told(metrics: Metrics) -> None:
    metrics.queued("clusters", Depth(later=3, due=2, running=1, failing=4), timedelta(minutes=6))
    metrics.asked("PATCH", 403)

    seen = {state: shown(metrics, "queue_objects", queue="clusters", state=state) for state in Depth._fields}
    assert seen == {"later": 3, "due": 2, "running": 1, "failing": 4}
    assert shown(metrics, "queue_longest_look_seconds", queue="clusters") == 360
    assert shown(metrics, "api_requests_total", method="PATCH", status="403") == 1


def test_no_metric_has_the_label_that_others_give_to_a_whole_kubernetes_cluster(metrics: Metrics) -> None:
    """An external label of Thanos and Mimir does not stand where a series has one of its own."""
    labels = {
        label for collector in metrics.registry._collector_to_names for label in getattr(collector, "_labelnames", ())
    }

    assert {"namespace", "name"} <= labels
    assert not labels & {"cluster", "ranking", "job", "instance"}
