"""Where a Service for alerts leads: to which Pod, said how, and what becomes of refusals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.webhook import endpoint
from kafka_recovery.kube.webhook.endpoint import Endpoint, NoEndpoint, lead_here
from unit.kube.webhook.callers import until

POD = {"POD_NAME": "operator-1", "POD_UID": "uid-1", "POD_IP": "10.0.0.7"}
FORBIDDEN = ApiError(403, "Forbidden", "no right to endpointslices")


class Slices:
    """What was applied; while it has `refused`, nothing is."""

    def __init__(self) -> None:
        self.refused: ApiError | None = None
        self.asked = 0
        self.there: dict[str, Object] = {}

    async def apply(self, path: str, body: Mapping[str, Any]) -> Object:
        self.asked += 1
        if self.refused:
            raise self.refused
        self.there[path] = dict(body)
        return dict(body)


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> Slices:
    """Nobody waits in between."""
    monkeypatch.setattr(endpoint, "AGAIN", 0.001)
    monkeypatch.setattr(endpoint, "SOON", 0.001)
    return Slices()


@asynccontextmanager
async def led(slices: Slices) -> AsyncIterator[None]:
    task = asyncio.create_task(lead_here(slices, Endpoint.of("alerts", "ops", POD), 9095))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("address", "family"), [("10.0.0.7", "IPv4"), ("fd00::7", "IPv6")])
def test_the_service_leads_to_this_pod_alone(address: str, family: str) -> None:
    here = Endpoint.of("alerts", "ops", POD | {"POD_IP": address})
    said = here.slice(9095)

    name = said["metadata"]["name"]
    assert (name, said["addressType"]) == (f"alerts-{family.lower()}", family)
    assert here.path == f"/apis/discovery.k8s.io/v1/namespaces/ops/endpointslices/{name}"
    assert said["metadata"]["labels"]["kubernetes.io/service-name"] == "alerts"
    (only,) = said["endpoints"]
    assert (only["addresses"], only["conditions"]) == ([address], {"ready": True})
    assert (only["targetRef"]["name"], only["targetRef"]["uid"]) == ("operator-1", "uid-1")
    assert said["ports"] == [{"name": "alerts", "port": 9095, "protocol": "TCP"}]


def test_what_leads_to_a_pod_goes_with_the_pod() -> None:
    said = Endpoint.of("alerts", "ops", POD).slice(9095)

    owner = {"apiVersion": "v1", "kind": "Pod", "name": "operator-1", "uid": "uid-1"}
    assert said["metadata"]["ownerReferences"] == [owner]


@pytest.mark.parametrize(
    ("service", "environment", "why"),
    [
        ("alerts", {}, "needs the Pod's own POD_NAME, POD_UID, POD_IP"),
        ("alerts", POD | {"POD_UID": ""}, "needs the Pod's own"),
        ("alerts", POD | {"POD_IP": "nowhere"}, "POD_IP: 'nowhere' is no address"),
        ("Alerts", POD, "'Alerts' can't be a Service's name"),
        ("a/../b", POD, "can't be a Service's name"),
        ("a" * 59, POD, "of at most 58 characters"),
    ],
)
def test_what_is_no_pod_and_no_service_is_refused(service: str, environment: dict[str, str], why: str) -> None:
    with pytest.raises(NoEndpoint, match=why):
        Endpoint.of(service, "ops", environment)


async def test_what_somebody_deletes_is_said_again(slices: Slices) -> None:
    async with led(slices):
        await until(lambda: slices.there)
        slices.there.clear()
        await until(lambda: slices.there)


async def test_a_right_that_is_missing_is_told_once_and_asked_for_until_it_is_there(
    slices: Slices, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    slices.refused = FORBIDDEN
    async with led(slices):
        await until(lambda: slices.asked > 5)
        (told,) = [each.getMessage() for each in caplog.records]
        assert told == f"Service alerts does not lead here, alerts are missed: {FORBIDDEN}"

        slices.refused = None
        await until(lambda: slices.there)
        await until(lambda: len(caplog.records) > 1)
    assert caplog.records[-1].getMessage() == "Service alerts leads here again"


async def test_after_a_refusal_it_is_tried_again_soon(slices: Slices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "AGAIN", 3600.0)
    slices.refused = FORBIDDEN
    async with led(slices):
        await until(lambda: slices.asked)
        slices.refused = None
        await until(lambda: slices.there)
