"""How an operator's process begins and ends where it has no API server to speak to."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest
from kubernetes import client
from typer.main import get_command
from typer.testing import CliRunner

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube import __main__ as process
from kafka_recovery.kube import operator as kube_operator
from kafka_recovery.kube.machinery.api import Api, unfenced
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.operator import Operator, Settings
from kafka_recovery.kube.process import lease, session, starting
from kafka_recovery.kube.process.starting import FAILED
from kafka_recovery.kube.resources.kinds import APPROVALS, CLUSTERS, POLICIES, RECOVERIES, Kind
from kafka_recovery.kube.resources.operator_switch import KnownSwitch, OperatorSwitch
from kafka_recovery.kube.webhook import server
from unit.kube.our_objects import SILENT

NOWHERE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: x
"""


@pytest.fixture
def operator() -> Operator:
    return Operator(Settings(("kafka",), ("kafka", "kafka-recovery-operator")), Metrics(), unfenced)


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that come to an operator, where the command opens no port, reads no file and takes no Lease."""
    found: list[Settings] = []
    nowhere(monkeypatch)
    for name in ("POD_NAME", "POD_UID", "POD_IP"):
        monkeypatch.setenv(name, "10.0.0.1")
    monkeypatch.setattr(process, "collect_seldom", lambda: None)
    monkeypatch.setattr(starting, "callers", lambda *options: None)
    monkeypatch.setattr(starting, "serve", lambda *options: None)
    monkeypatch.setattr(starting, "act", lambda begun, *options: begun(unfenced))
    monkeypatch.setattr(server, "opened", lambda *options: None)
    monkeypatch.setattr(kube_operator, "Operator", lambda settings, metrics, fence: found.append(settings))
    return found


def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds an API server that does not answer, and leaves this process's logs as they are."""
    configuration = client.Configuration(host="http://127.0.0.1:1")
    configuration.retries = False
    monkeypatch.setattr(starting, "set_up", lambda form, level: None)
    monkeypatch.setattr(lease, "found_configuration", lambda: configuration)


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of an API server that nobody is behind."""
    file = tmp_path / "kubeconfig"
    file.write_text(NOWHERE)
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


HASTE = (
    "--authority=Automatic", "--operator-namespace=a", "--name=b", "--lease-duration=6", "--probe=50ms",
    "--rescan=50ms", "--evidence=evidence", "--evidence-every=50ms", "--evidence-keep=50ms", "--webhook-port=1",
    "--webhook-token-file=t", "--webhook-tls-cert=c", "--webhook-tls-key=k", "--webhook-client-ca=ca",
    "--webhook-service=alerts", "--metrics-port=1", "--metrics-token-file=t", "--metrics-tls-cert=c",
    "--metrics-tls-key=k", "--metrics-client-ca=ca", "--liveness=http://:1/healthz", "--log-format=json",
    "--log-level=DEBUG",
)  # fmt: skip
"""Options as hurried as they can be; with those of either place below that is all there are."""
PLACES = [("--namespace=kafka", "--lease"), ("--all-namespaces", "--no-lease")]


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_what_a_dead_process_asked_of_kafka_is_waited_for_as_long_as_that_may_take_by_whatever_options(
    reached: list[Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[str, ...]
) -> None:
    """A broker may forward a request for a minute."""
    monkeypatch.chdir(tmp_path)

    ended = CliRunner().invoke(process.app, [*HASTE, *place])

    assert ended.exit_code == 0, ended.output
    (settings,) = reached
    assert settings.probe == timedelta(milliseconds=50), "the options are those that were given"
    assert settings.timing.quarantine >= timedelta(minutes=1)


def test_every_option_is_among_those_that_are_tried() -> None:
    tried = {option.partition("=")[0] for option in chain(HASTE, *PLACES)}
    known = {option for each in get_command(process.app).params for option in (*each.opts, *each.secondary_opts)}

    assert known - tried == {"--check", "--version", "--install-completion", "--show-completion"}, "no operator starts"
    assert tried <= known


@pytest.mark.parametrize(
    "why", [kopf.LoginError("no kubeconfig was found"), PermissionError(13, "Permission denied", "token")], ids=repr
)
def test_one_that_can_not_log_in_says_so_in_a_line_and_ends_in_order(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, why: Exception
) -> None:
    def refuse(settings: kopf.OperatorSettings) -> None:
        raise why

    monkeypatch.setattr(session, "found_login", refuse)

    assert operator.run() == FAILED

    assert operator.clean, "nothing was begun: the Lease can be given back"
    assert [record.getMessage() for record in caplog.records] == [f"there is no way to the API server: {why}"]
    assert "Traceback" not in caplog.text


def test_an_error_of_its_own_ends_it_in_order(
    operator: Operator, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def defect(**options: Any) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(kopf, "run", defect)

    assert operator.run() == FAILED

    assert operator.clean
    assert "a defect" in caplog.text


@pytest.mark.parametrize("kind", [CLUSTERS, POLICIES, RECOVERIES, APPROVALS], ids=lambda kind: kind.plural)
def test_what_another_release_writes_into_a_status_has_nothing_looked_at(operator: Operator, kind: Kind) -> None:
    """Two that watch one RecoveryPolicy each write its status once a change, and never in answer to one another."""
    meta = {"namespace": "kafka", "name": "prod", "uid": "u-1", "generation": 1, "resourceVersion": "1"}
    created = {"metadata": meta, "spec": {}}
    answered = {**created, "metadata": {**meta, "resourceVersion": "2"}, "status": {"digest": "theirs"}}
    changed = {**answered, "metadata": {**meta, "resourceVersion": "3", "generation": 2}}

    seen = [operator._is_new(kind, "MODIFIED", cast(kopf.Body, each)) for each in (created, answered, changed)]

    assert seen == [True, False, True]


async def test_what_never_started_can_be_stopped(operator: Operator) -> None:
    await operator._stop()

    assert operator.clean


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--operator-namespace=Kafka"], "--operator-namespace: 'Kafka' can't be the name of a namespace"),
        (["--namespace=b_c"], "--namespace: 'b_c' can't be the name of a namespace"),
        (["--liveness=0.0.0.0:80"], "--liveness: '0.0.0.0:80': write it as http://:8080"),
        (["--name=Bad Name"], "--name: 'Bad Name' can't be the name of a Lease"),
        (["--probe=0ms"], "--probe: '0ms' is shorter than 50ms"),
        (["--rescan=1us"], "--rescan: '1us' is no duration such as 250ms"),
        (["--liveness=nonsense", "--no-lease"], "--liveness: 'nonsense': write it as http:"),
        (["--webhook-token-file=t"], "--webhook-port: --webhook-… say how alerts are heard"),
        (["--webhook-port=9095"], "--webhook-port: nobody would be asked who they are"),
        (
            ["--webhook-port=9095", "--webhook-client-ca=ca"],
            "--webhook-client-ca: it needs --webhook-tls-cert and --webhook-tls-key",
        ),
        (
            ["--liveness=nonsense", "--metrics-client-ca=ca"],
            "--metrics-client-ca: it needs --metrics-tls-cert and --metrics-tls-key",
        ),
        (
            ["--liveness=nonsense", "--metrics-token-file=/nowhere/token"],
            "/nowhere/token can't be read: No such file or directory",
        ),
        (
            ["--webhook-port=9095", "--webhook-token-file=t", "--webhook-tls-cert=c"],
            "--webhook-tls-cert and --webhook-tls-key belong together",
        ),
        (
            ["--webhook-port=9095", "--webhook-token-file=/nowhere/token"],
            "/nowhere/token can't be read: No such file or directory",
        ),
        (
            ["--webhook-port=9095", "--webhook-token-file=t", "--webhook-service=alerts"],
            "--webhook-service: needs the Pod's own POD_NAME, POD_UID, POD_IP in the environment",
        ),
        (
            ["--liveness=nonsense", "--evidence=s3://bucket/evidence"],
            "--evidence: s3: what elects leaders speaks to no object store. Name a folder of a mounted volume, or have",
        ),
        (["--liveness=nonsense", "--evidence=sftp://host/evidence"], "--evidence: sftp: what elects leaders"),
    ],
)
def test_options_that_can_not_be_meant_are_refused_before_anything_is_touched(
    monkeypatch: pytest.MonkeyPatch, options: list[str], says: str
) -> None:
    nowhere(monkeypatch)

    ended = CliRunner().invoke(process.app, ["--metrics-port=0", "--operator-namespace=a", *options])

    assert ended.exit_code == 2
    assert says in " ".join(ended.output.replace("│", " ").split())


class Stopped:
    """A part of an operator that has nothing left to do."""

    async def stop(self) -> None:
        """At once."""

    async def flush(self, grace: timedelta) -> None:
        """Nothing waits."""

    def beat(self) -> None:
        """Nobody listens."""

    def urgent(self) -> frozenset[str]:
        """None."""
        return frozenset()

    async def reconcile(self, key: tuple[str, str]) -> None:
        """Nothing to do."""

    async def run(self) -> None:
        """Until it is cancelled."""
        await asyncio.Event().wait()


class Busy(Stopped):
    """One whose look takes a while."""

    async def reconcile(self, key: tuple[str, str]) -> None:
        await asyncio.sleep(0.2)


async def test_a_clean_stop_waits_for_what_is_under_way_and_is_no_error(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one queue still works, others have ended: that is no defect, for which the Lease would be kept."""
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(session, "found_login", lambda settings: kopf.ConnectionInfo(server="http://127.0.0.1:1"))

    def wire(api: Api) -> None:
        parts = {"_clusters": Stopped(), "_recoveries": Busy(), "_policies": Stopped(), "_events": Stopped()}
        vars(operator).update(parts, _housekeeping=Stopped(), _switch=KnownSwitch(silent))

    async def silent() -> OperatorSwitch:
        raise SILENT

    monkeypatch.setattr(operator, "_wire", wire)
    await operator._start(kopf.OperatorSettings())
    operator._recovery_soon(("kafka", "orders-1"), timedelta(0))
    await asyncio.sleep(0.05)

    await operator._stop()

    assert ended == []
    assert operator.clean
    assert operator._session
    assert operator._session.closed


async def test_an_alert_has_the_cluster_that_it_is_about_looked_at(operator: Operator) -> None:
    woken: list[str] = []
    missing = Reason("InvalidReference", "there is no WatchedCluster test")
    known = {("kafka", "prod"): SimpleNamespace(watcher=SimpleNamespace(wake=lambda: woken.append("prod")))}
    cast(Any, operator)._clusters = SimpleNamespace(get=lambda key: known.get(key, missing))

    assert operator._alerted(("kafka", "prod")) is None
    assert operator._alerted(("kafka", "test")) == missing
    assert woken == ["prod"]
