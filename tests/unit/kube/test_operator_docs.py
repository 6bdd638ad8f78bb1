"""docs/reference/operator.md names what an operator's owner has to know, and keeps up with it."""

from __future__ import annotations

from pathlib import Path

import typer.main

from kafka_recovery.domain.outcome import End
from kafka_recovery.kube.__main__ import app
from kafka_recovery.kube.fleet_main import app as fleet_app
from kafka_recovery.kube.machinery.metrics import PREFIX, Metrics
from unit.kube.recoveries.standings import INCIDENTS

DOCS = (Path(__file__).parents[3] / "docs" / "reference" / "operator.md").read_text()

METRICS = sorted(each.name for each in Metrics().registry.collect() if each.name.startswith(PREFIX))
OPTIONS = sorted(
    {
        word
        for program in (app, fleet_app)
        for each in typer.main.get_command(program).params
        for word in each.opts
        if word != "--help"
    }
)
REASONS = sorted({known.reason.code for known, _ in INCIDENTS.values()} - {"NoCandidate"})  # one of the decision rules'


def test_each_metric_option_reason_and_outcome_is_documented() -> None:
    words = [
        *(f"`{name}" for name in METRICS),
        *(f"`{word}`" for word in (*OPTIONS, *REASONS)),
        *(f"`outcome: {end}`" for end in End),
    ]
    missing = [word for word in words if word not in DOCS]
    assert not missing, "\n".join(missing)
