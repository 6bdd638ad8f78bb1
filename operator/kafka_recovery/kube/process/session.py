"""HTTP sessions with the API server: who we are to it, and how many connections there may be."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
import kopf
from aiohttp import ClientResponse

_LOG = logging.getLogger(__name__)

_KEPT_ALIVE = 45.0
"""Seconds for which an idle connection is kept: longer than from one resync to the next, so that an incident finds some
open, and shorter than API servers (90 s) and what stands before them keep theirs."""

_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

UNLIMITED: Final = 0
"""For watches: each of them has a connection for as long as the process lives."""


def found_login(settings: kopf.OperatorSettings) -> kopf.ConnectionInfo:
    """As a Pod, or as the kubeconfig's user. Raises LoginError, OSError."""
    if info := kopf.login_with_service_account(settings=settings):
        return replace(info, server=server_for_pods(os.environ) or info.server)
    info = kopf.login_with_kubeconfig(settings=settings)
    if info is None:
        raise kopf.LoginError("neither a service account nor a kubeconfig was found; set KUBECONFIG")
    return info


def server_for_pods(environment: Mapping[str, str]) -> str | None:
    """Where a Pod's environment says that the API server is; None if it says nothing.

    That is an address, and where the Lease is renewed. kopf would take a name, and be lost while the cluster's DNS is.
    """
    host, port = (environment.get(f"KUBERNETES_SERVICE_{each}") for each in ("HOST", "PORT"))
    if not host or not port:
        return None
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def opened(
    info: kopf.ConnectionInfo,
    connections: int,
    *middlewares: aiohttp.ClientMiddlewareType,
    answer: type[ClientResponse] = ClientResponse,
) -> aiohttp.ClientSession:
    """A session with so many connections at once. Raises OSError if the service account's token can't be read."""
    rotating = _TOKEN.exists()
    tls = info.as_ssl_context() if info.server.startswith("https") else False
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, ssl=tls, keepalive_timeout=_KEPT_ALIVE),
        headers={} if rotating else info.as_http_headers(),
        response_class=answer,
        middlewares=[*middlewares, ServiceAccountToken(_TOKEN)] if rotating else middlewares,
    )


class ServiceAccountToken:
    """An aiohttp middleware that sends a service account's token as it is on disk now: the kubelet renews the file.

    Raises OSError at the beginning if there is none; later it goes on with the last one it could read.
    """

    AS_GOOD_AS_NEW: Final = 10.0
    """Seconds for which it is not read again. The kubelet renews a token long before the old one ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._token = file.read_text().strip()
        self._read_at = time.monotonic()

    async def __call__(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> ClientResponse:
        if time.monotonic() - self._read_at > self.AS_GOOD_AS_NEW:
            self._read()
        sent = self._token
        request.headers["Authorization"] = f"Bearer {sent}"
        response = await handler(request)
        if response.status == HTTPStatus.UNAUTHORIZED and self._read() != sent:
            response.release()
            request.headers["Authorization"] = f"Bearer {self._token}"
            response = await handler(request)
        return response

    def _read(self) -> str:
        self._read_at = time.monotonic()
        try:
            self._token = self._file.read_text().strip() or self._token
        except OSError as error:
            _LOG.warning("the service account's token can't be read again: %s", error.strerror)
        return self._token
