"""What the kubelet is told: by whom, on which addresses, and when that the process is dead."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from urllib.error import HTTPError

import pytest

from kafka_recovery.kube.process.liveness import READY, STUCK, Liveness
from testbed.ports import Ports


@pytest.fixture
def port() -> Iterator[int]:
    with Ports() as ports:
        yield ports.take()


def told(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_who_waits_for_the_lease_lives(host: str, port: int) -> None:
    url = f"http://{host}:{port}/healthz"
    for _ in range(2):  # a second one could not listen if the first still did
        with Liveness().told(url):
            assert told(url) == (HTTPStatus.OK, b"{}")


def test_without_a_host_it_answers_on_both_families(port: int) -> None:
    """A cluster of IPv6 alone has no other way to ask."""
    with Liveness().told(f"http://:{port}/healthz"):
        seen = {host: told(f"http://{host}:{port}/healthz")[0] for host in ("127.0.0.1", "[::1]")}

    assert seen == {"127.0.0.1": HTTPStatus.OK, "[::1]": HTTPStatus.OK}


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (0.25, (HTTPStatus.OK, b'{"loop_age_s": 0.25}')),
        (STUCK, (HTTPStatus.SERVICE_UNAVAILABLE, b'{"loop_age_s": 5.0}')),
    ],
)
def test_it_lives_as_long_as_its_event_loop(port: int, age: float, said: tuple[int, bytes]) -> None:
    probed, url = Liveness(), f"http://127.0.0.1:{port}/healthz"
    with probed.told(url):
        probed.loop_age = lambda: age
        assert told(url) == said


def test_who_waits_for_the_lease_is_ready_to_take_it_and_who_has_it_once_it_sees_what_it_watches(port: int) -> None:
    probed, url = Liveness(), f"http://127.0.0.1:{port}"
    with probed.told(f"{url}/healthz"):
        assert told(f"{url}{READY}")[0] == HTTPStatus.OK

        probed.loop_age, probed.unready = lambda: 0.25, lambda: "watchedclusters: no right"
        assert told(f"{url}{READY}") == (
            HTTPStatus.SERVICE_UNAVAILABLE,
            b'{"unready": "watchedclusters: no right"}',
        )
        assert told(f"{url}/healthz")[0] == HTTPStatus.OK, "it lives: a restart would not help"

        probed.unready = lambda: ""
        assert told(f"{url}{READY}?verbose")[0] == HTTPStatus.OK
        probed.loop_age = lambda: STUCK
        assert told(f"{url}{READY}")[0] == HTTPStatus.SERVICE_UNAVAILABLE


@pytest.mark.parametrize("url", ["0.0.0.0:80", "nonsense", "https://:80/", "http://localhost/healthz"])
def test_what_is_no_place_to_answer_at_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="write it as http://:8080/healthz"), Liveness().told(url):
        pass


def test_a_port_that_is_taken_is_told(port: int) -> None:
    url = f"http://127.0.0.1:{port}/healthz"
    with Liveness().told(url), pytest.raises(OSError, match="in use"), Liveness().told(url):
        pass
