"""Where a Pod finds the API server."""

from __future__ import annotations

import pytest

from kafka_recovery.kube.process.session import server_for_pods


@pytest.mark.parametrize(
    ("host", "server"),
    [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")],
)
def test_a_pod_goes_to_the_address_that_it_is_told_and_needs_no_dns(host: str, server: str) -> None:
    assert server_for_pods({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}) == server


def test_where_nothing_is_told_there_is_no_address() -> None:
    assert server_for_pods({}) is None
