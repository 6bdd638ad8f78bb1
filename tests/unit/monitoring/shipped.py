"""The rules and the dashboard that we ship, read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
RULES = ROOT / "monitoring" / "prometheus-rules.yaml"
RULE_TESTS = ROOT / "monitoring" / "prometheus-rules-tests.yaml"
DASHBOARD = ROOT / "monitoring" / "grafana-dashboard.json"
RUNBOOKS = ROOT / "docs" / "runbooks"

_METRIC = re.compile(r"(?<![:\w])(kafka_recovery_\w+|process_\w+)(?![\w:])")
_VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$namespace": ".*", "$cluster": ".*", "$ranking": ".*"}


def rules() -> list[dict[str, Any]]:
    """All of them."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """By name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def recorded() -> set[str]:
    """Names of the recording rules."""
    return {rule["record"] for rule in rules() if "record" in rule}


def dashboard() -> dict[str, Any]:
    """As Grafana imports it."""
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def panels() -> list[dict[str, Any]]:
    """Those that show something, whichever row they are in."""
    rows = dashboard()["panels"]
    nested = [panel for row in rows for panel in row.get("panels", ())]
    return [panel for panel in (*rows, *nested) if panel["type"] != "row"]


def queries() -> list[str]:
    """What the dashboard asks Prometheus, with something in place of Grafana's variables."""
    return [_filled(target["expr"]) for panel in panels() for target in panel["targets"]]


def metrics_in(expression: str) -> Iterator[str]:
    """Names of metrics of ours that an expression has; what rules record is none."""
    yield from _METRIC.findall(expression)


def _filled(expression: str) -> str:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, f"a variable is left in {expression}"
    return expression
