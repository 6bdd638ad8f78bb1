"""What all programs have alike: help that can be read at 80 columns, the release, completion; and a quick start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from kafka_recovery.cli import main
from kafka_recovery.cli.kip_1275 import unclean_recovery
from kafka_recovery.cli.kubectl import commands as plugin
from kafka_recovery.cli.kubectl.completion import suggestions
from kafka_recovery.kube import __main__ as operator
from kafka_recovery.kube import fleet_main as fleet_operator
from unit.cli.kubectl.person import Incidents, SmallKubernetes
from unit.cli.small_cluster import SmallCluster

APPS = {
    "kafka-recovery": main.app,
    "kubectl kafka-recovery": plugin.app,
    "kafka-unclean-recovery": unclean_recovery.app,
    "kafka-recovery-operator": operator.app,
    "kafka-recovery-fleet-operator": fleet_operator.app,
}
ENTRIES = {
    "kafka-recovery": "kafka_recovery.cli.main",
    "kubectl kafka-recovery": "kafka_recovery.cli.kubectl",
    "kafka-unclean-recovery": "kafka_recovery.cli.kip_1275.unclean_recovery",
    "kafka-recovery-operator": "kafka_recovery.kube.__main__",
    "kafka-recovery-fleet-operator": "kafka_recovery.kube.fleet_main",
}
HEAVY = ("aiohttp", "kopf", "kubernetes", "matplotlib", "pyarrow", "pyspark", "rich")
FIRST_PERSON = re.compile(r"\b(we|us|our|ours|ourselves)\b", re.IGNORECASE)


def commands(known: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each command's words, and those of the groups it is in."""
    yield words
    for name, below in getattr(known, "commands", {}).items():
        yield from commands(below, (*words, name))


KNOWN = {program: typer.main.get_command(app) for program, app in APPS.items()}
PAGES = [(program, words) for program, known in KNOWN.items() for words in commands(known)]


def shown(program: str, *words: str) -> str:
    """What a command prints at a terminal of 80 columns."""
    done = CliRunner().invoke(APPS[program], words, env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(("program", "words"), PAGES, ids=[" ".join((name, *words)) for name, words in PAGES])
def test_each_help_can_be_read_at_80_columns(program: str, words: tuple[str, ...]) -> None:
    page = shown(program, *words, "-h")

    assert page == shown(program, *words, "--help")
    assert max(map(len, page.splitlines())) <= 80
    assert "..." not in page.replace("COMMAND [ARGS]...", "").partition("Options:")[2], "a sentence is cut"
    assert "│" not in page
    assert not FIRST_PERSON.search(page)


@pytest.mark.parametrize(("program", "words"), PAGES, ids=[" ".join((name, *words)) for name, words in PAGES])
def test_each_option_says_what_it_does(program: str, words: tuple[str, ...]) -> None:
    known = KNOWN[program]
    for word in words:
        known = known.commands[word]  # type: ignore[attr-defined]

    said = {name: str(getattr(each, "help", "") or "") for each in known.params for name in each.opts}

    assert not [name for name, sentence in said.items() if len(re.sub(r"\[.*?\]", "", sentence).split()) < 3]


@pytest.mark.parametrize("program", APPS)
def test_each_program_says_its_release(program: str) -> None:
    assert shown(program, "--version") == version("kafka-recovery-operator") + "\n"


@pytest.mark.parametrize("program", APPS)
def test_who_asks_for_help_does_not_wait_for_what_draws_tables_or_speaks_to_clusters(program: str) -> None:
    script = (
        "import atexit, json, sys; sys.argv[1:] = ['--help']\n"
        f"atexit.register(lambda: print('\\n' + json.dumps([each for each in {HEAVY} if each in sys.modules])))\n"
        f"from {ENTRIES[program]} import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize("program", sorted(APPS.keys() - {"kubectl kafka-recovery"}))
def test_a_shell_can_complete_each_program(program: str) -> None:
    assert "--show-completion" in shown(program, "--help")


def test_kubectl_completes_commands_options_values_and_files() -> None:
    assert [line.partition("\t")[0] for line in suggestions(["s"])] == ["status", "suspend", "support-bundle"]
    assert [line.partition("\t")[0] for line in suggestions(["status", "--kube"])] == ["--kubeconfig"]
    assert suggestions(["status", "-o", ""]) == ["table", "wide", "json", "yaml"]
    assert suggestions(["support-bundle", "--out", "/tm"]) == [], "the shell knows files best"


def test_kubectl_completes_names_of_recoveries(cluster: SmallCluster) -> None:
    kubernetes = SmallKubernetes()
    for name in ("prod-1", "prod-2"):
        Incidents(kubernetes, cluster).opened(name)

    assert suggestions(["approve", "prod-"], kubernetes.open) == ["prod-1", "prod-2"]
    assert suggestions(["approve", "x"], kubernetes.open) == []
