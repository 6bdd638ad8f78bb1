"""docs/reference.md has every word that the code says to machines: none is new, and none is gone."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.kube.machinery.metrics import PREFIX, Metrics
from kafka_recovery.recovery.partition_run import LIFE
from unit.kube.recoveries.standings import INCIDENTS

DOCS = Path(__file__).parents[3] / "docs"
CURE = "python docs/generate.py"


def loaded(name: str) -> ModuleType:
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS))


generate, reasons = loaded("generate"), loaded("generate_reasons")
PAGE = (DOCS / "reference.md").read_text()


def test_the_page_says_what_the_code_says() -> None:
    assert generate.wanted() == PAGE, CURE


def test_the_life_of_a_partition_is_drawn_as_the_engine_has_it() -> None:
    drawn = (DOCS / "reference" / "partition-life.md").read_text()

    assert generate.life() == drawn, CURE
    for step in LIFE:
        assert f"`{step.target}`" in drawn


def test_every_field_of_a_definition_is_told() -> None:
    assert loaded("generate_api").wanted() == (DOCS / "reference" / "api.md").read_text(), CURE


def test_reasons_that_a_recovery_was_seen_with_are_listed() -> None:
    codes = {known.reason.code for known, _ in INCIDENTS.values()}
    missing = [code for code in codes if f"| `{code}` |" not in PAGE]
    assert not missing, "\n".join(missing)


def test_outcomes_and_metrics_are_listed() -> None:
    metrics = [each.name for each in Metrics().registry.collect() if each.name.startswith(PREFIX)]
    missing = [word for word in (*Outcome, *metrics) if f"| `{word}" not in PAGE]
    assert not missing, "\n".join(missing)


def test_a_reason_by_a_variable_that_nobody_explains_is_an_error() -> None:
    explained = dict(generate.ELSEWHERE)
    del explained["kube/recoveries/ranked_leaders.py", "code"]

    with pytest.raises(reasons.Unexplained, match=r"ranked_leaders\.py:\d+: which reasons can code be"):
        reasons.collected(explained)


def test_an_explanation_of_what_is_gone_is_an_error() -> None:
    with pytest.raises(reasons.Unexplained, match="nothing in the code is like this"):
        reasons.collected({**generate.ELSEWHERE, ("kube/gone.py", "code"): ()})


def test_a_file_that_no_section_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "MEETINGS", generate.MEETINGS[1:])

    with pytest.raises(reasons.Unexplained, match=r"decision/refusals\.py"):
        generate.wanted()


def test_every_event_and_condition_of_the_code_is_told() -> None:
    said = [call for file in reasons.sources() if file.startswith("kube/") for call in reasons.calls(file, "say")]
    actions = {call.args[3].value for call in said if isinstance(call.args[3], ast.Constant)}
    called = [call for file in reasons.sources() for call in reasons.calls(file, "condition")]
    types = {call.args[0].value for call in called if isinstance(call.args[0], ast.Constant)}

    assert {action for action, *_ in generate.EVENTS} == actions
    assert types <= {name for each in generate.CONDITIONS.values() for name in each}
