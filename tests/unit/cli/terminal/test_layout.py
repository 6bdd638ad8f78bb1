"""Tables on terminals of any width: nothing is cut or broken, and no row needs more room than there is."""

from __future__ import annotations

import re

import pytest

from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster

RACKS = {2: "eu-central-1a", 3: "eu-central-1b"}
VALUES = ("orders-17", "ISR", "fenced, silent", "eu-central-1a", "eu-central-1b", "BrokerTimeout", "up")


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(racks=dict(RACKS))
    cluster.offline("orders-17", {2: 27, 3: 15})
    return cluster


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize(
    "command", [["inspect"], ["explain", "orders-17"], ["plan", "--all-offline-partitions"]], ids=lambda words: words[0]
)
def test_every_line_fits_the_terminal_but_for_commands_to_copy(
    recovery: Run, monkeypatch: pytest.MonkeyPatch, command: list[str], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    lines = recovery(*command).stdout.splitlines()

    assert [
        line
        for line in lines
        if len(line) > width and not line.startswith(("Next: ", "THEN, IF YOU APPROVE (THIS ELECTS NOBODY YET): "))
    ] == []


@pytest.mark.parametrize("width", [80, 200])
def test_inspect_breaks_no_value(recovery: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    shown = recovery("inspect").stdout

    assert [value for value in VALUES if value not in shown] == []
    assert [row.split()[2] for row in shown.splitlines() if re.match(r"orders-17 +7 ", row)] == ["1", "2", "3"]


@pytest.mark.parametrize("width", [80, 200])
def test_explain_keeps_rank_broker_and_log_in_one_line(
    recovery: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    shown = recovery("explain", "orders-17").stdout

    assert re.search(r"^1 +2 .* 27 .* chosen", shown, re.M)
    assert re.search(r"^2 +3 .* 15 .* candidate", shown, re.M)
    for value in ("in ISR, fenced, silent", "eu-central-1b", "rejected", "Fenced"):
        assert value in shown


def test_a_topic_longer_than_the_terminal_is_not_cut(
    cluster: SmallCluster, recovery: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "t" * 120
    cluster.offline(f"{topic}-0", {2: 27})
    monkeypatch.setenv("COLUMNS", "80")

    shown = recovery("inspect", "--partition", f"{topic}-0").stdout

    assert shown.count(f"\n{topic}-0\n") == 2
    assert "Epoch: 7; Broker: 2; Rack: eu-central-1a; State: up; Last epoch: 5;" in " ".join(shown.split())
