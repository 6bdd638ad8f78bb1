"""The plugin, run in this process at a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from kafka_recovery.cli.kubectl import asking, commands
from unit.cli.conftest import Run
from unit.cli.kubectl.person import Incidents, SmallKubernetes
from unit.cli.small_cluster import SmallCluster

Plugin = Run
Answer = Callable[[str], None]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch, journal: object) -> None:
    """A terminal that is none, with 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def kubernetes() -> SmallKubernetes:
    return SmallKubernetes()


@pytest.fixture
def incidents(kubernetes: SmallKubernetes, cluster: SmallCluster) -> Incidents:
    cluster.offline("orders-17", {2: 27, 3: 15})
    return Incidents(kubernetes, cluster)


@pytest.fixture
def plugin(kubernetes: SmallKubernetes) -> Plugin:
    """`kubectl kafka-recovery WORDS…`; `typed` is what a person types, None: there is nobody."""

    def run(*words: object, typed: str | None = None) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asking, "somebody_there", lambda: typed is not None)
            return CliRunner().invoke(commands.app, list(map(str, words)), obj=kubernetes.open, input=typed)

    return Run(run)
