"""A real Prometheus and a real Alertmanager on loopback: Debian's packages, unpacked into the cache, never installed.

`python -m testbed.prometheus` fetches beforehand what the tests would fetch on first use (30 MB).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import yaml

from testbed.distribution import cache
from testbed.guard import Guard
from testbed.locks import locked
from testbed.node import Node, Program
from testbed.ports import HOST, Ports
from testbed.waiting import wait_until

PACKAGES = ("prometheus", "prometheus-alertmanager")
PROGRAMS = ("prometheus", "promtool", "prometheus-alertmanager")
OS_RELEASE = Path("/etc/os-release")
# Debian's Alertmanager reads its templates from there, and takes no other word for it. As long, and relative:
INSTALLED, UNPACKED = b"/usr/share/prometheus/alertmanager", b"usr//share/prometheus/alertmanager"
LONGEST_FETCH = 240
LONGEST_ANSWER = 10.0


class PrometheusUnavailable(RuntimeError):
    """The programs could not be had; says why."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder with all of PROGRAMS, ready to run."""

    folder: Path

    def __getitem__(self, program: str) -> Path:
        return self.folder / "usr" / "bin" / program


def fetch() -> Programs:
    """From the cache, or else from this machine's package sources; PrometheusUnavailable if neither has them."""
    programs = Programs(cache() / f"prometheus-{_distribution()}")
    if programs.folder.is_dir():
        return programs
    try:
        with locked(cache() / "prometheus.lock"):
            if not programs.folder.is_dir():
                _unpack(programs.folder)
    except subprocess.CalledProcessError as failed:
        cause = (failed.stderr or "").strip().splitlines()[-3:]
        raise PrometheusUnavailable(f"{failed.cmd[0]} failed: {' '.join(cause)}") from None
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise PrometheusUnavailable(f"Prometheus can't be had: {cause}") from cause
    return programs


def _distribution() -> str:
    """Such as debian-12: another one has other versions of them."""
    try:
        lines = OS_RELEASE.read_text().splitlines()
    except OSError:
        raise PrometheusUnavailable("Prometheus comes from Debian's or Ubuntu's packages; this is neither") from None
    said = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        name = said.get("PRETTY_NAME", "this system")
        raise PrometheusUnavailable(f"Prometheus comes from Debian's or Ubuntu's packages; {name} has no apt-get")
    return f"{said.get('ID', 'linux')}-{said.get('VERSION_ID', 'rolling')}"


def _unpack(folder: Path) -> None:
    """All or nothing: the folder appears by one rename. The package lists are our own, which takes no root."""
    staging = folder.with_name(f".{folder.name}")
    shutil.rmtree(staging, ignore_errors=True)  # of somebody who was killed
    with tempfile.TemporaryDirectory(prefix="testbed-prometheus-") as work:
        for name in ("lists", "archives", "packages"):
            Path(work, name, "partial").mkdir(parents=True)
        apt = (
            *("apt-get", "--quiet", "--assume-yes", f"--option=Dir::State::Lists={work}/lists"),
            *(f"--option=Dir::Cache={work}", "--option=APT::Sandbox::User="),
        )
        _run(*apt, "update", cwd=work)
        _run(*apt, "download", *PACKAGES, cwd=f"{work}/packages")
        for package in sorted(Path(work, "packages").glob("*.deb")):
            _run("dpkg-deb", "--extract", str(package), str(staging), cwd=work)
    missing = [name for name in PROGRAMS if not os.access(Programs(staging)[name], os.X_OK)]
    if missing:
        raise PrometheusUnavailable(f"the packages {', '.join(PACKAGES)} lack {', '.join(missing)}")
    alertmanager = Programs(staging)["prometheus-alertmanager"]
    alertmanager.write_bytes(alertmanager.read_bytes().replace(INSTALLED, UNPACKED))
    staging.rename(folder)


def _run(*command: str, cwd: str) -> None:
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=True, timeout=LONGEST_FETCH)


class Monitoring:
    """A Prometheus with our rules that scrapes one port of loopback, and an Alertmanager that calls one webhook.

    For the length of a `with` block. `rules`: a rule file. `receiver`: an entry of Alertmanager's `webhook_configs`.
    `let_in`: what a scrape says of TLS and tokens. Everything happens every second.
    """

    def __init__(
        self,
        folder: Path,
        scraped: int,
        rules: Path,
        receiver: Mapping[str, Any],
        let_in: Mapping[str, Any] | None = None,
    ) -> None:
        self._let_in = dict(let_in or {})
        self._folder = folder
        self._scraped = scraped
        self._rules = rules
        self._receiver = dict(receiver)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            guard = Guard(None)
            stack.callback(guard.close)
            ports = stack.enter_context(Ports())
            self._prometheus_port, self._alertmanager_port = ports.take(), ports.take()
            self._nodes = [
                self._node(guard, "prometheus-alertmanager", self._alertmanager_options()),
                self._node(guard, "prometheus", self._prometheus_options()),
            ]
            for node in self._nodes:
                stack.callback(node.end)
                node.start()
            for port in (self._alertmanager_port, self._prometheus_port):
                self._ready(port)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an instant query finds; AssertionError with Prometheus' words if it is none."""
        found: list[dict[str, Any]] = self._get("/api/v1/query", query=expression)["result"]
        return found

    def metrics(self) -> dict[str, str]:
        """The names of all metric families that are scraped, and their types, whether they have series or not."""
        found = self._get("/api/v1/metadata")
        return {name: told[0]["type"] for name, told in found.items()}

    def rules(self) -> list[dict[str, Any]]:
        """All rules, with their `health` and `lastError`."""
        groups = self._get("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def firing(self) -> list[dict[str, str]]:
        """The labels of the alerts that fire."""
        alerts = self._get("/api/v1/alerts")["alerts"]
        return [alert["labels"] for alert in alerts if alert["state"] == "firing"]

    def _get(self, path: str, **query: str) -> Any:
        url = f"http://{HOST}:{self._prometheus_port}{path}?{urlencode(query)}"
        try:
            with build_opener(ProxyHandler({})).open(url, timeout=LONGEST_ANSWER) as answer:
                said = json.load(answer)
        except HTTPError as refused:
            said = json.load(refused)
        assert said["status"] == "success", f"{query or path}: {said['error']}"
        return said["data"]

    def _prometheus_options(self) -> tuple[str, ...]:
        return (
            f"--web.listen-address={HOST}:{self._prometheus_port}",
            f"--storage.tsdb.path={self._folder / 'prometheus' / 'data'}",
            self._configured(
                "prometheus",
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(self._rules)],
                    "alerting": {"alertmanagers": [_targets(self._alertmanager_port)]},
                    "scrape_configs": [
                        {
                            "job_name": "operator",
                            "honor_labels": True,
                            "static_configs": [_target(self._scraped)],
                            **self._let_in,
                        }
                    ],
                },
            ),
        )

    def _alertmanager_options(self) -> tuple[str, ...]:
        often = {"group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h", "group_by": ["namespace", "name"]}
        return (
            f"--web.listen-address={HOST}:{self._alertmanager_port}",
            "--cluster.listen-address=",
            f"--storage.path={self._folder / 'prometheus-alertmanager' / 'data'}",
            self._configured(
                "alertmanager",
                {
                    "route": {"receiver": "kafka-recovery", **often},
                    "receivers": [{"name": "kafka-recovery", "webhook_configs": [self._receiver]}],
                },
            ),
        )

    def _configured(self, program: str, configuration: Mapping[str, Any]) -> str:
        file = self._folder / f"{program}.yaml"
        file.write_text(yaml.safe_dump(configuration))
        return f"--config.file={file}"

    def _node(self, guard: Guard, name: str, options: tuple[str, ...]) -> Node:
        programs, home = fetch(), self._folder / name
        home.mkdir()
        (home / "usr").symlink_to(programs.folder / "usr")
        environment = {"HOME": str(home), "PATH": os.defpath}
        return Node(Program(name, home, (str(programs[name]), *options), environment), guard)

    def _ready(self, port: int) -> None:
        def status() -> int:
            with build_opener(ProxyHandler({})).open(f"http://{HOST}:{port}/-/ready", timeout=1) as answer:
                return int(answer.status)

        def alive() -> None:
            for node in self._nodes:
                node.check()

        wait_until(f"port {port} is ready", status, lambda seen: seen == 200, alive=alive)


def _targets(port: int) -> dict[str, Any]:
    return {"static_configs": [_target(port)]}


def _target(port: int) -> dict[str, Any]:
    return {"targets": [f"{HOST}:{port}"]}


def main() -> None:
    """Fetches, if need be, and says where the programs lie."""
    try:
        print(f"Prometheus: ready in {fetch().folder}")
    except PrometheusUnavailable as trouble:
        sys.exit(f"{trouble}")


if __name__ == "__main__":
    main()
