"""How the fleet operator's process begins and ends: by a signal, by an error of its own, and without an API server."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import kopf
import pytest
from kubernetes import client
from typer.testing import CliRunner

from kafka_recovery.kube import fleet_main, fleet_operator
from kafka_recovery.kube.fleet.prefixes import NONE
from kafka_recovery.kube.fleet_operator import FleetOperator, Settings
from kafka_recovery.kube.machinery.api import unfenced
from kafka_recovery.kube.machinery.metrics import FLEET, Metrics
from kafka_recovery.kube.process import lease, session, starting
from kafka_recovery.kube.process.starting import FAILED


class Looking:
    """What it looks after. `work`: what its work does; `left`: what can't be brought to an end."""

    def __init__(self, work: Callable[[], None], left: list[tuple[str, str]]) -> None:
        self._work = work
        self._left = left
        self.stopped = False

    async def run(self) -> None:
        await asyncio.sleep(0.01)
        self._work()
        await asyncio.Event().wait()

    async def stop(self, grace: timedelta) -> list[tuple[str, str]]:
        self.stopped = True
        return self._left

    def tell(self, metrics: Metrics) -> None:
        """Nobody listens."""


@pytest.fixture
def fleet() -> FleetOperator:
    return FleetOperator(Settings(("kafka",), NONE), Metrics(FLEET), unfenced)


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Looking]:
    def made(work: Callable[[], None], left: list[tuple[str, str]] | None = None) -> Looking:
        one = Looking(work, left or [])
        monkeypatch.setattr(session, "found_login", lambda settings: kopf.ConnectionInfo(server="http://127.0.0.1:1"))
        monkeypatch.setattr(fleet_operator, "LookOut", lambda *given, **places: one)
        return one

    return made


def told(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(fleet: FleetOperator, looking: Callable[..., Looking], number: int) -> None:
    one = looking(told(number))

    assert fleet.run() == 0

    assert one.stopped
    assert fleet.clean, "the Lease is given back"
    assert fleet.loop_age() is None


def test_where_something_is_still_at_work_the_lease_runs_out_by_itself(
    fleet: FleetOperator, looking: Callable[..., Looking]
) -> None:
    looking(told(signal.SIGTERM), left=[("kafka", "nightly")])

    assert fleet.run() == 0
    assert not fleet.clean


def test_an_error_of_its_own_ends_it_and_is_told(
    fleet: FleetOperator, looking: Callable[..., Looking], caplog: pytest.LogCaptureFixture
) -> None:
    def defect() -> None:
        raise ZeroDivisionError("a defect")

    one = looking(defect)

    assert fleet.run() == FAILED
    assert one.stopped
    assert "a defect" in caplog.text


def test_one_that_can_not_log_in_says_so_in_a_line(
    fleet: FleetOperator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(settings: Any) -> None:
        raise kopf.LoginError("no kubeconfig was found")

    monkeypatch.setattr(session, "found_login", refuse)

    assert fleet.run() == FAILED
    assert fleet.clean
    assert [each.getMessage() for each in caplog.records] == [
        "there is no way to the API server: no kubeconfig was found"
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--fleet-results=/results"], "names no folder, such as s3://bucket/results"),
        (["--fleet-results=s3://key:secret@bucket/x"], "a plain folder without credentials is wanted"),
        (["--name=Bad Name"], "--name: 'Bad Name' can't be the name of a Lease"),
        (["--liveness=nonsense", "--no-lease"], "--liveness: 'nonsense': write it as http:"),
        (["--authority=Automatic"], "No such option: --authority"),
    ],
)
def test_options_that_can_not_be_meant_are_refused_before_anything_is_touched(
    monkeypatch: pytest.MonkeyPatch, options: list[str], says: str
) -> None:
    nowhere = client.Configuration(host="http://127.0.0.1:1")
    nowhere.retries = False
    monkeypatch.setattr(starting, "set_up", lambda form, level: None)
    monkeypatch.setattr(lease, "found_configuration", lambda: nowhere)

    ended = CliRunner().invoke(fleet_main.app, ["--metrics-port=0", "--operator-namespace=a", *options])

    assert ended.exit_code == 2
    assert says in " ".join(ended.output.replace("│", " ").split())
    assert "secret" not in ended.output
