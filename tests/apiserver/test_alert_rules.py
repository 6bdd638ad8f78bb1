"""Our alerts in Prometheus' own judgement: promtool plays each one's story, to fire and not to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from testbed.prometheus import fetch
from unit.monitoring import shipped

pytestmark = pytest.mark.apiserver


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([fetch()["promtool"], *arguments], capture_output=True, text=True, timeout=150)


def test_the_rule_file_is_one_of_prometheus() -> None:
    told = promtool("check", "rules", "--lint-fatal", shipped.RULES)

    assert told.returncode == 0, told.stdout + told.stderr


def test_each_alert_fires_when_it_must_and_only_then() -> None:
    told = promtool("test", "rules", shipped.RULE_TESTS)

    assert told.returncode == 0, told.stdout + told.stderr


def test_the_stories_notice_each_alert_that_fires_too_late(tmp_path: Path) -> None:
    """A story that no rule can fail would prove nothing."""
    (tmp_path / shipped.RULES.name).write_text(shipped.RULES.read_text().replace("for: ", "for: 9"))
    stories = yaml.safe_load(shipped.RULE_TESTS.read_text())
    stories["tests"] = [each for each in stories["tests"] if "alert_rule_test" in each]  # one of the others takes a day
    (tmp_path / shipped.RULE_TESTS.name).write_text(yaml.safe_dump(stories))

    told = promtool("test", "rules", tmp_path / shipped.RULE_TESTS.name)

    assert told.returncode == 1
    assert [name for name in shipped.alerts() if name not in told.stdout + told.stderr] == []
