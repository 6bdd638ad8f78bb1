"""Our own `Api`, as whoever a kubeconfig says."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from kubernetes import client, config

from kafka_recovery.kube.machinery.api import Api, Effort, Fence, unfenced


@asynccontextmanager
async def calling(kubeconfig: Path, fence: Fence = unfenced, effort: Effort | None = None) -> AsyncIterator[Api]:
    """Calls that end with the block."""
    who = client.Configuration()
    config.load_kube_config(str(kubeconfig), client_configuration=who)
    tls = ssl.create_default_context(cafile=who.ssl_ca_cert)
    if who.cert_file:
        tls.load_cert_chain(who.cert_file, who.key_file)
    headers = {"Authorization": token} if (token := who.get_api_key_with_prefix("BearerToken", "authorization")) else {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), headers=headers) as session:
        yield Api(session, str(who.host), fence, effort)
