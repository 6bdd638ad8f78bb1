"""The command line, run in this process on a small cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kafka_recovery.cli import main
from kafka_recovery.cli.kip_1275 import unclean_recovery
from unit.cli.small_cluster import SmallCluster

AUTOMATIC = """
rules:
- name: everything
  approval: AutoApprove
  patience: 1s
"""


@dataclass(frozen=True)
class Run:
    """A program, called with the words that a person types."""

    call: Callable[..., Result]

    def __call__(self, *words: object, **how: Any) -> Result:
        return self.call(*words, **how)

    def says(self, *words: object, **how: Any) -> str:
        """What it prints when all went well."""
        done = self.call(*words, **how)
        assert done.exit_code == 0, done.output
        return done.stdout

    def refuses(self, *words: object, code: int = 2, **how: Any) -> str:
        """What it says on stderr when it ends with that exit code; 2: what was typed can't be done."""
        done = self.call(*words, **how)
        assert done.exit_code == code, done.output
        return done.stderr


@pytest.fixture
def cluster() -> SmallCluster:
    return SmallCluster()


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the default journal is, and a wide terminal that is none."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("COLUMNS", "KAFKA_RECOVERY_BOOTSTRAP_SERVER", "KAFKA_RECOVERY_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "state" / "kafka-recovery"


@pytest.fixture
def automatic(tmp_path: Path) -> Path:
    """A policy under which nobody is asked."""
    path = tmp_path / "automatic.yaml"
    path.write_text(AUTOMATIC)
    return path


@pytest.fixture
def recovery(cluster: SmallCluster) -> Run:
    """`kafka-recovery COMMAND --bootstrap-server … WORDS…`."""

    def run(command: str, *words: object) -> Result:
        arguments = [command, "--bootstrap-server", "kafka-1:9092", *map(str, words)]
        return CliRunner().invoke(main.app, arguments, obj=cluster.open)

    return Run(run)


@pytest.fixture
def unclean(cluster: SmallCluster) -> Run:
    """`kafka-unclean-recovery --bootstrap-server … WORDS…`."""

    def run(*words: object) -> Result:
        arguments = ["--bootstrap-server", "kafka-1:9092", *map(str, words)]
        return CliRunner().invoke(unclean_recovery.app, arguments, obj=cluster.open)

    return Run(run)
