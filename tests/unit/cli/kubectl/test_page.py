"""docs/reference/kubectl-plugin.md has every command of the plugin."""

from __future__ import annotations

import re
from pathlib import Path

import typer.main

from kafka_recovery.cli.kubectl import commands

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "kubectl-plugin.md").read_text()


def test_every_command_has_its_row() -> None:
    names = typer.main.get_command(commands.app).commands  # type: ignore[attr-defined]

    assert [name for name in names if not re.search(rf"^\| .*`{name}\b", PAGE, re.MULTILINE)] == []
