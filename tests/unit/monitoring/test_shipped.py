"""What an alert must have, and a dashboard: whoever is woken by one needs to know what to type."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from prometheus_client import Metric

from kafka_recovery.cli.kubectl.commands import app
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.kube.machinery.metrics import Heard, Metrics, Step
from unit.monitoring import shipped

ALERTS = shipped.alerts()
BASES = {alert["annotations"]["runbook_url"].rsplit("/", 2)[0] for alert in ALERTS.values()}
COMMAND = re.compile(r"kubectl kafka-recovery ([a-z-]+)")
PLUGIN = {(each.name or each.callback.__name__).replace("_", "-") for each in app.registered_commands if each.callback}
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def runbook(alert: str) -> str:
    return (shipped.RUNBOOKS / f"{alert}.md").read_text()


def test_an_alert_says_how_bad_it_is_what_is_wrong_and_where_to_read_on() -> None:
    for name, alert in ALERTS.items():
        assert re.fullmatch(r"\d+[mh]", alert["for"]), name
        assert alert["labels"]["severity"] in {"critical", "warning"}, name
        assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}, name
        assert alert["annotations"]["runbook_url"].endswith(f"/{name}/"), name


def test_all_runbooks_have_one_base_that_can_be_replaced() -> None:
    assert {"https://docs.example/runbooks"} == BASES


def test_an_alert_is_tested_to_fire_and_not_to() -> None:
    tests = yaml.safe_load(shipped.RULE_TESTS.read_text())["tests"]
    about = [each for test in tests for each in test.get("alert_rule_test", ())]

    assert {each["alertname"] for each in about if each["exp_alerts"]} == ALERTS.keys()
    assert {each["alertname"] for each in about if not each["exp_alerts"]} == ALERTS.keys()


def test_an_alert_has_a_runbook_with_the_same_questions_answered() -> None:
    for name in ALERTS:
        headings = re.findall(r"^## (.+)$", runbook(name), re.MULTILINE)

        assert runbook(name).startswith(f"# {name}\n")
        assert headings == ["What it means", "Diagnose", "Resolve", "False alarms"], name
        assert "kubectl " in runbook(name).partition("## Diagnose")[2], name


def test_there_is_no_runbook_for_an_alert_that_is_not_there() -> None:
    assert {page.stem for page in shipped.RUNBOOKS.glob("KafkaRecovery*.md")} == set(ALERTS)


def test_the_list_of_runbooks_is_whole() -> None:
    index = (shipped.RUNBOOKS / "README.md").read_text()

    assert [name for name in ALERTS if f"[{name}]({name}.md)" not in index] == []


def test_a_runbook_types_commands_that_exist() -> None:
    wrong = [f"{name}: {typed}" for name in ALERTS for typed in COMMAND.findall(runbook(name)) if typed not in PLUGIN]
    assert not wrong, "\n".join(wrong)


def source() -> set[str]:
    """All words that the operator and the job for Spark may ever say."""
    folders = (shipped.ROOT / name for name in ("operator", "spark"))
    files = (file for folder in folders for file in folder.rglob("*.py"))
    return {word for file in files for word in re.findall(r"\w+", file.read_text())}


def test_a_runbook_explains_reasons_that_exist() -> None:
    words = source()
    told = {name: re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", runbook(name)) for name in ALERTS}
    wrong = [f"{name}: {reason}" for name, reasons in told.items() for reason in reasons if reason not in words]
    assert not wrong, "\n".join(wrong)


def names() -> set[str]:
    """Of all series that an operator may ever show."""
    metrics = Metrics()
    metrics.webhook_open()
    metrics.ranking_seen("kafka/nightly", True, NOON, NOON)
    metrics.ranking_ended("kafka/nightly", RunOutcome.SUCCEEDED, timedelta(minutes=1))
    return {name for family in metrics.registry.collect() for name in _samples(family)}


def _samples(family: Metric) -> list[str]:
    endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "info": ["_info"]}
    return [family.name + ending for ending in endings.get(family.type, [""])]


def test_whatever_is_asked_is_asked_of_metrics_that_exist() -> None:
    shown, recorded = names(), shipped.recorded()
    for expression in (*(rule["expr"] for rule in shipped.rules()), *shipped.queries()):
        asked = set(shipped.metrics_in(expression))

        assert asked or any(name in expression for name in recorded), f"it asks for nothing of ours: {expression}"
        assert asked <= shown, expression


@pytest.mark.parametrize("label", ["phase", "outcome"])
def test_values_of_labels_in_rules_exist(label: str) -> None:
    told = {*(step.value for step in Step), *(what.value for what in Heard), "Recovered", "Failed", "Aborted"}
    asked = re.findall(rf'{label}[!=~]+"([^"]+)"', shipped.RULES.read_text() + shipped.DASHBOARD.read_text())

    assert {word for each in asked for word in each.split("|")} <= told


def test_the_dashboard_shows_what_was_promised() -> None:
    asked = " ".join(shipped.queries())
    for metric in (
        "offline_partitions",
        "recoveries_total",
        "phase_seconds_bucket",
        "approvals_waiting",
        "lease_held",
        "evidence_missing",
        "fleet_last_run_succeeded",
    ):
        assert f"kafka_recovery_{metric}" in asked


def test_each_panel_says_what_it_shows_and_has_a_place_of_its_own() -> None:
    taken: Counter[tuple[int, int]] = Counter()
    for panel in shipped.panels():
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        place = panel["gridPos"]
        taken.update((x, y) for x in _span(place["x"], place["w"]) for y in _span(place["y"], place["h"]))
        assert place["x"] + place["w"] <= 24

    assert max(taken.values()) == 1, "panels lie on each other"
    ids = [panel["id"] for panel in shipped.dashboard()["panels"]]
    assert len(set(ids)) == len(ids)


def _span(start: int, length: int) -> range:
    return range(start, start + length)
