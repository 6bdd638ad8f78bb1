"""Commands as pages show them, and what our programs take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

from kafka_recovery.cli import main
from kafka_recovery.cli.kip_1275 import unclean_recovery
from kafka_recovery.cli.kubectl import commands as plugin
from kafka_recovery.kube import __main__ as operator
from kafka_recovery.kube import fleet_main as fleet_operator

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "monitoring/*.md", "charts/*/README.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"
)

PROGRAMS: dict[str, Any] = {
    "kafka-recovery": typer.main.get_command(main.app),
    "kubectl kafka-recovery": typer.main.get_command(plugin.app),
    "kafka-unclean-recovery": typer.main.get_command(unclean_recovery.app),
    "kafka-recovery-operator": typer.main.get_command(operator.app),
    "kafka-recovery-fleet-operator": typer.main.get_command(fleet_operator.app),
}
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
CONTINUED = re.compile(r" *\\\n *")
ENDS = {"|", "&&", "#", ";", ">"}


def lines(text: str) -> list[str]:
    """A line for each command, also where it is written on several."""
    return CONTINUED.sub(" ", text).splitlines()


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of one of our programs on a page."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def shown() -> Iterator[Shown]:
    """All of them in blocks of code, in the order of pages and lines; lines that end in a backslash go on."""
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            for line in lines(block):
                words = _words(line)
                program = " ".join(words[:2]) if words[:1] == ["kubectl"] else "".join(words[:1])
                if program in PROGRAMS:
                    yield Shown(str(page.relative_to(ROOT)), tuple(words))


def problem(command: Shown) -> str | None:
    """The first word that its program would not know."""
    count = 2 if command.words[0] == "kubectl" else 1
    known = PROGRAMS[" ".join(command.words[:count])]
    for word in command.words[count:]:
        commands = getattr(known, "commands", None)
        if word.startswith("-"):
            if word.partition("=")[0] not in _options(known):
                return f"{known.name} has no option {word}"
        elif commands is not None:
            if word not in commands:
                return f"{known.name} has no command {word}"
            known = commands[word]
    return None


def _options(command: Any) -> set[str]:
    return {"--help"} | {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def _words(line: str) -> list[str]:
    try:
        words = shlex.split(line.removeprefix("$ "), comments=True)
    except ValueError:  # prose, or what a command printed
        return []
    return words[: next((place for place, word in enumerate(words) if word in ENDS), None)]
