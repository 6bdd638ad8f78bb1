"""`--check`: whether an operator that is installed like this one does its work, as its account sees it.

It looks and writes nothing, and the Lease stays whose it is. `helm test` runs it in a Pod.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence

import kopf

from kafka_recovery.kube.machinery.api import Api, ApiError, unfenced
from kafka_recovery.kube.machinery.readiness import refused
from kafka_recovery.kube.process import session
from kafka_recovery.kube.process.starting import FAILED
from kafka_recovery.kube.resources.admission import Admission

_LOG = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds for an operator that was installed a moment ago to begin."""

AGAIN = 1.0
"""Seconds between two looks: of three, one sees another renewal of a Lease."""

_CONNECTIONS = 4


class Check:
    """Looks for collections that can be listed, for our admission policies, and for a Lease that somebody renews."""

    def __init__(
        self, api: Api, collections: Sequence[str], lease: tuple[str, str] | None, *, relies_on_admission: bool
    ) -> None:
        self._api = api
        self._collections = collections
        self._lease = lease
        self._admission = Admission(api) if relies_on_admission else None
        self._first_seen = ""
        """The Lease's version when it was first seen."""

    async def missing(self) -> list[str]:
        """What a person has to mend before an operator works here, a line for each."""
        unlisted = [await refused(self._api, path) for path in self._collections]
        unchecked = await self._admission.missing() if self._admission else ()
        return [*filter(None, unlisted), *unchecked, *await self._unheld()]

    async def _unheld(self) -> list[str]:
        """Why nobody seems to act. No clocks are compared: who lives renews the Lease between two looks."""
        if self._lease is None:
            return []
        namespace, name = self._lease
        called = f"Lease {namespace}/{name}"
        try:
            found = await self._api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
        except ApiError as error:
            return [f"{called} can't be read: {error.reason}: no operator has begun yet, or this account may not"]
        if not (holder := found["spec"].get("holderIdentity")):
            return [f"{called} has no holder: no operator runs"]
        version = found["metadata"]["resourceVersion"]
        self._first_seen = self._first_seen or version
        return [f"{called} is not renewed by {holder}"] if version == self._first_seen else []


def checked(collections: Sequence[str], lease: tuple[str, str] | None, *, relies_on_admission: bool) -> int:
    """Say what is missing, on standard error. Returns the exit status."""
    try:
        info = session.found_login(kopf.OperatorSettings())
    except (kopf.LoginError, OSError) as error:
        _LOG.critical("there is no way to the API server: %s", error)
        return FAILED
    missing = asyncio.run(_asked(info, collections, lease, relies_on_admission))
    for each in missing:
        print(f"MISSING: {each}", file=sys.stderr)
    if not missing:
        good = {"the Lease is renewed": lease, "admission policies are in force": relies_on_admission}
        print(", ".join(["kinds can be listed", *(word for word, so in good.items() if so)]))
    return FAILED if missing else 0


async def _asked(
    info: kopf.ConnectionInfo, collections: Sequence[str], lease: tuple[str, str] | None, relies_on_admission: bool
) -> list[str]:
    async with session.opened(info, _CONNECTIONS) as connections:
        api = Api(connections, info.server, unfenced, at_once=_CONNECTIONS)
        return await patiently(Check(api, collections, lease, relies_on_admission=relies_on_admission))


async def patiently(check: Check) -> list[str]:
    """What is still missing after a while, if anything is."""
    clock = asyncio.get_running_loop().time
    until = clock() + PATIENCE
    while (missing := await check.missing()) and clock() < until:
        await asyncio.sleep(AGAIN)
    return missing
