"""Which Pod alerts come to: the one that holds the Lease says so, in the EndpointSlice of a Service without selector.

A selector would send every second alert to a Pod that stands by. A label of the leader's Pod would do as well, but who
may write it may patch every Pod of the namespace; this needs a right to objects of one name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from kafka_recovery.kube.machinery.api import ApiError, Object

_LOG = logging.getLogger(__name__)

AGAIN = 30.0
"""Seconds until it is said again: somebody may have deleted it. What is there already is not written."""

SOON = 5.0
"""Seconds after a refusal."""

PORT = "alerts"
"""The name that the Service's port has too."""

LONGEST_NAME = 58
"""Of a Service, whose names have 63 characters, with the family behind it."""

_SERVICE = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_VARIABLES = ("POD_NAME", "POD_UID", "POD_IP")


class NoEndpoint(Exception):
    """What is missing for a Service to lead here."""


class Applies(Protocol):
    """What is asked of the API."""

    async def apply(self, path: str, body: Mapping[str, Any]) -> Object:
        """Create the object, or make these of its fields what they are here."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A Pod behind a Service. Deleted with the Pod, unless another one has taken its place by then."""

    service: str
    namespace: str
    pod: str
    uid: str
    address: ipaddress.IPv4Address | ipaddress.IPv6Address

    @classmethod
    def of(cls, service: str, namespace: str, environment: Mapping[str, str]) -> Self:
        """The Pod that the downward API tells of. Raises NoEndpoint."""
        if not _SERVICE.fullmatch(service) or len(service) > LONGEST_NAME:
            raise NoEndpoint(f"{service!r} can't be a Service's name of at most {LONGEST_NAME} characters")
        pod, uid, address = (environment.get(name, "") for name in _VARIABLES)
        if not (pod and uid and address):
            raise NoEndpoint(f"needs the Pod's own {', '.join(_VARIABLES)} in the environment (downward API)")
        try:
            return cls(service, namespace, pod, uid, ipaddress.ip_address(address))
        except ValueError:
            raise NoEndpoint(f"POD_IP: {address!r} is no address") from None

    @property
    def path(self) -> str:
        """One for each family: a slice can't change it."""
        name = f"{self.service}-ipv{self.address.version}"
        return f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices/{name}"

    def slice(self, port: int) -> Object:
        """The EndpointSlice that leads to this Pod and nowhere else."""
        pod = {"kind": "Pod", "name": self.pod, "uid": self.uid}
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.path.rpartition("/")[2],
                "labels": {
                    "kubernetes.io/service-name": self.service,
                    "endpointslice.kubernetes.io/managed-by": "kafka-recovery-operator",
                },
                "ownerReferences": [{"apiVersion": "v1", **pod}],
            },
            "addressType": f"IPv{self.address.version}",
            "endpoints": [
                {
                    "addresses": [str(self.address)],
                    "conditions": {"ready": True},
                    "targetRef": pod | {"namespace": self.namespace},
                }
            ],
            "ports": [{"name": PORT, "port": port, "protocol": "TCP"}],
        }


async def lead_here(api: Applies, endpoint: Endpoint, port: int) -> None:
    """Have alerts come to this process, until it is cancelled. A refusal is told once, and tried again."""
    troubled = False
    while True:
        try:
            await api.apply(endpoint.path, endpoint.slice(port))
        except ApiError as refusal:
            if not troubled:
                _LOG.warning("Service %s does not lead here, alerts are missed: %s", endpoint.service, refusal)
            troubled = True
        else:
            if troubled:
                _LOG.info("Service %s leads here again", endpoint.service)
            troubled = False
        await asyncio.sleep(SOON if troubled else AGAIN)
