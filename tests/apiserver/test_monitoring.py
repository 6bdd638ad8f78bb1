"""A real Prometheus scrapes a real operator, a real Alertmanager calls its webhook."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apiserver.incidents import Start, accident, policy, recoveries, watched_cluster
from testbed.certificates import Authority
from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.ports import HOST, Ports
from testbed.prometheus import Monitoring
from testbed.waiting import wait_until
from unit.monitoring import shipped

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

TOKEN = "the-testbeds-own-webhook-token"
SUFFIXES = {"counter": ("", "_total"), "histogram": ("_bucket", "_sum", "_count"), "info": ("", "_info")}

Watched = Callable[[], tuple[OperatorProcess, Monitoring]]


@pytest.fixture
def watched(start: Start, tmp_path: Path) -> Iterator[Watched]:
    """Starts an operator and what watches it, with our rules and no patience."""
    token, rules = tmp_path / "token", tmp_path / "rules.yaml"
    token.write_text(TOKEN)
    rules.write_text(re.sub(r"\b(for|interval): \d+m", r"\1: 1s", shipped.RULES.read_text()))
    started: list[Monitoring] = []
    with Ports() as ports:
        port = ports.take()
        receiver = {
            "url": f"http://{HOST}:{port}/alerts",
            "http_config": {"authorization": {"credentials_file": str(token)}},
        }

        def start_both() -> tuple[OperatorProcess, Monitoring]:
            operator = start(f"--webhook-port={port}", f"--webhook-token-file={token}")
            started.append(Monitoring(tmp_path, operator.metrics_port, rules, receiver).__enter__())
            return operator, started[0]

        yield start_both
        for each in started:
            each.__exit__(None, None, None)


def test_an_alert_about_an_incident_wakes_the_watcher_and_opens_nothing(
    watched: Watched, kafka: RealKafka, kubectl: Kubectl, namespace: str
) -> None:
    kubectl.apply(policy(patience="1h"), watched_cluster(kafka))
    operator, monitoring = watched()
    accident(kafka, 1)

    cluster = f"{namespace}/prod"
    operator.says(f"an alert wakes the watcher of {cluster}", within=60)

    assert {
        "alertname": "KafkaRecoveryOfflinePartitions",
        "namespace": namespace,
        "name": "prod",
        "severity": "critical",
    } in monitoring.firing()
    woken = 'kafka_recovery_webhook_requests_total{outcome="Woken"}'
    wait_until("that is counted", lambda: monitoring.query(f"{woken} > 0"), bool)
    assert recoveries(kubectl) == [], "an alert is no reason to be less patient"


def test_every_rule_and_every_panel_asks_for_what_is_there(watched: Watched) -> None:
    _, monitoring = watched()
    wait_until("the operator is scraped", lambda: monitoring.query("kafka_recovery_build_info"), bool)

    types = monitoring.metrics()
    names = {name + suffix for name, kind in types.items() for suffix in SUFFIXES.get(kind, ("",))}
    for expression in [*(rule["expr"] for rule in shipped.rules()), *shipped.queries()]:
        monitoring.query(expression)
        assert set(shipped.metrics_in(expression)) <= names, expression
    evaluated = wait_until(
        "all rules were evaluated",
        monitoring.rules,
        lambda rules: all(rule["health"] != "unknown" for rule in rules),
    )
    assert {rule["name"]: rule["lastError"] for rule in evaluated if rule["health"] != "ok"} == {}


def test_a_prometheus_is_let_in_over_tls_with_a_token_and_still_is_after_both_were_replaced(
    start: Start, tmp_path: Path
) -> None:
    authority = Authority.new(tmp_path)
    certificate, key, served, brought = (tmp_path / name for name in ("tls.crt", "tls.key", "served", "brought"))

    def renew(word: str) -> float:
        one = authority.identity(word)
        shutil.copy(one.certificate, certificate)
        shutil.copy(one.key, key)
        served.write_text(word)
        brought.write_text(word)
        return time.time()

    def scraped_since(moment: float) -> None:
        asked = f"timestamp(kafka_recovery_build_info) > {moment + 2}"
        wait_until("the operator is scraped", lambda: monitoring.query(asked), bool)

    began = renew("the-first-word-of-all")
    let_in = {
        "scheme": "https",
        "tls_config": {"ca_file": str(authority.certificate), "server_name": "localhost"},
        "authorization": {"credentials_file": str(brought)},
    }
    operator = start(f"--metrics-tls-cert={certificate}", f"--metrics-tls-key={key}", f"--metrics-token-file={served}")
    receiver = {"url": f"http://{HOST}:9/alerts"}
    with Monitoring(tmp_path, operator.metrics_port, shipped.RULES, receiver, let_in) as monitoring:
        scraped_since(began)
        scraped_since(renew("another-word-that-is-new"))
        brought.write_text("a-word-that-nobody-knows")
        wait_until("who has another token is kept out", lambda: monitoring.query("up == 0"), bool)
