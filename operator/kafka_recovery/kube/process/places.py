"""Whether the namespaces that an operator is started for can be right, before it touches anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kubernetes import client
from urllib3.exceptions import HTTPError

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NOT_FOUND = 404
_PATIENCE = 5
"""Seconds. An API server that does not answer now is no reason to refuse: the Lease is waited for anyway."""


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace, and the option that named it."""

    option: str
    namespace: str


class WrongPlace(Exception):
    """A namespace that can't be meant."""

    def __init__(self, place: Place, why: str) -> None:
        super().__init__(f"{place.namespace!r} {why}")
        self.option = place.option


def check_names(places: Iterable[Place]) -> None:
    """Raises WrongPlace for what no namespace can be called (RFC 1123 labels, as Kubernetes wants them)."""
    for place in places:
        if not _LABEL.fullmatch(place.namespace):
            why = "can't be the name of a namespace: write 1 to 63 of a-z, 0-9 and -, the first and last no -"
            raise WrongPlace(place, why)


def check_existence(places: Iterable[Place], configuration: client.Configuration) -> None:
    """Raises WrongPlace for a namespace that the API server says it does not have. Who may not ask is believed.

    CoreV1Api is not used: loading its models of every kind takes half a second of each start.
    """
    with client.ApiClient(configuration) as connected:
        for place in places:
            path = f"/api/v1/namespaces/{place.namespace}"
            method, url, headers, *_ = connected.param_serialize("GET", path, auth_settings=["BearerToken"])
            try:
                answer = connected.call_api(method, url, headers, _request_timeout=(_PATIENCE, _PATIENCE))
                answer.read()
            except (client.ApiException, HTTPError):
                return
            if answer.status == _NOT_FOUND:
                why = f"does not exist: create it (kubectl create namespace {place.namespace}), or name another one"
                raise WrongPlace(place, why)
