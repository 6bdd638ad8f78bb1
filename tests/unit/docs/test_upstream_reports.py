"""Each report for Kafka names a story that plays it, and each story has its report."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
REPORTS = (ROOT / "docs" / "explanation" / "upstream.md").read_text()
STORIES = (ROOT / "tests" / "brokers" / "test_upstream.py").read_text()


def test_every_report_is_played_by_one_command() -> None:
    reproduced = re.findall(r"^\*\*Reproduction\*\*: `make upstream ARGS=\"-k (\w+)\"`", REPORTS, re.MULTILINE)
    sections = re.findall(r"^\*\*Summary\*\*", REPORTS, re.MULTILINE)

    assert sorted(reproduced) == sorted(re.findall(r"^def (test_\w+)", STORIES, re.MULTILINE))
    assert len(reproduced) == len(sections)
