"""docs/reference/kubectl-plugin.md has every command of the plugin, and shows what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import typer.main

from kafka_recovery.cli.kubectl import commands
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import Incidents

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "kubectl-plugin.md").read_text()
SAMPLE = re.compile(r"```bash\nkubectl kafka-recovery ([^\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)
DIFFERS = re.compile(r"\b(?:\d+[smhd]|[0-9a-f]{12})\b")
"""Ages and digests."""


def alike(text: str) -> str:
    """Whatever differs from run to run as one word, and blanks as one."""
    return "\n".join(" ".join(DIFFERS.sub("…", line).split()) for line in text.strip().splitlines())


def test_every_command_has_its_row() -> None:
    names = typer.main.get_command(commands.app).commands  # type: ignore[attr-defined]

    assert [name for name in names if not re.search(rf"^\| .*`{name}\b", PAGE, re.MULTILINE)] == []


def test_the_page_shows_what_is_shown(incidents: Incidents, plugin: Plugin) -> None:
    incidents.cluster()
    incidents.awaiting("prod-1")
    samples = SAMPLE.findall(PAGE)
    assert len(samples) == 3

    for typed, told in samples:
        shown = plugin(*typed.split(), typed="y\n").stdout
        assert alike(told) == alike(shown), f"{typed}\n{shown}"
