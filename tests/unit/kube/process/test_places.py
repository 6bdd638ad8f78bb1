"""Namespaces that can't be meant are refused before anything is touched, by the option that named them."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from kubernetes import client

from kafka_recovery.kube.process.places import Place, WrongPlace, check_existence, check_names

OPTION = "--namespace"


class _Answers(BaseHTTPRequestHandler):
    """An API server with namespace `kafka`; nobody may ask for `hidden`."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.send_response({"kafka": 200, "hidden": 403}.get(name, 404))
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[client.Configuration]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as answering:
        Thread(target=answering.serve_forever, daemon=True).start()
        yield client.Configuration(host=f"http://127.0.0.1:{answering.server_port}")
        answering.shutdown()


@pytest.mark.parametrize("name", ["a", "kafka", "k8s-1", "x" * 63, "0"])
def test_what_a_namespace_can_be_called(name: str) -> None:
    check_names([Place(OPTION, name)])


@pytest.mark.parametrize("name", ["", "Kafka", "kafka_recovery", "-a", "a-", "a.b", "x" * 64, "a b", "a/b", "ä", "a\n"])
def test_what_it_can_not_be_called_is_refused_with_what_would_be_right(name: str) -> None:
    with pytest.raises(WrongPlace, match="1 to 63 of a-z, 0-9 and -") as wrong:
        check_names([Place("--operator-namespace", "fine"), Place(OPTION, name)])

    assert wrong.value.option == OPTION
    assert repr(name) in str(wrong.value)


def test_one_that_does_not_exist_is_refused(server: client.Configuration) -> None:
    with pytest.raises(WrongPlace, match="'kafka-recovry' does not exist: create it") as wrong:
        check_existence([Place("--operator-namespace", "kafka"), Place(OPTION, "kafka-recovry")], server)

    assert wrong.value.option == OPTION


def test_one_that_nobody_may_ask_for_is_believed(server: client.Configuration) -> None:
    check_existence([Place(OPTION, "hidden")], server)


def test_an_api_server_that_is_away_refuses_nothing() -> None:
    """Whoever starts an operator during an outage wants it to wait for its end."""
    configuration = client.Configuration(host="http://127.0.0.1:1")
    configuration.retries = False

    check_existence([Place(OPTION, "kafka")], configuration)
