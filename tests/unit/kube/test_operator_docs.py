"""docs/operator.md names what an operator's owner has to know, and keeps up with it."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main

from kafka_recovery.domain.outcome import End
from kafka_recovery.kube.__main__ import app
from kafka_recovery.kube.machinery.metrics import PREFIX, Metrics
from unit.kube.recoveries.standings import INCIDENTS

DOCS = (Path(__file__).parents[3] / "docs" / "operator.md").read_text()

METRICS = sorted(each.name for each in Metrics().registry.collect() if each.name.startswith(PREFIX))
OPTIONS = sorted(word for each in typer.main.get_command(app).params for word in each.opts if word != "--help")
REASONS = sorted({known.reason.code for known, _ in INCIDENTS.values()} - {"NoCandidate"})  # one of the decision rules'


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_is_documented(name: str) -> None:
    assert f"`{name}" in DOCS


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_is_documented(option: str) -> None:
    assert f"`{option}`" in DOCS


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_is_documented(reason: str) -> None:
    assert f"`{reason}`" in DOCS


@pytest.mark.parametrize("end", End)
def test_each_outcome_is_documented(end: End) -> None:
    assert f"`outcome: {end}`" in DOCS
