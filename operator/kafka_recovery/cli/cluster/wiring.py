"""Where the command line meets a real cluster. Tests and the simulator hand in something else that opens."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from kafka_recovery.cluster.designated import election_in
from kafka_recovery.cluster.drivers import Kip1275
from kafka_recovery.cluster.kafka_cluster import Controllers, KafkaCluster
from kafka_recovery.cluster.properties import read_security
from kafka_recovery.cluster.security import Security
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.recovery.ports import Cluster, Election


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster, how to get in, and which id it must have. `bootstrap` is as it was typed.

    `kip_1275`: by which driver leaders are designated there, and what else of the KIP is used.
    `controllers`: as typed; where the metadata log is read, by `controller_config`, else as the brokers are asked.
    """

    bootstrap: str
    command_config: Path | None = None
    expected_cluster_id: str | None = None
    election_attempts: int = 3
    kip_1275: Kip1275 = field(default_factory=Kip1275)
    controllers: str | None = None
    controller_config: Path | None = None

    def reading_at(self, controllers: str | None, config: Path | None) -> Target:
        """The same, with the controllers at which its metadata log is read."""
        return replace(self, controllers=controllers, controller_config=config)


Listing = Callable[[timedelta], Awaitable[tuple[TopicPartition, ...]]]
"""The names of all partitions that the principal may see, within the deadline for each page of them."""


@dataclass(frozen=True, slots=True)
class Connection:
    """An open cluster through its two ports, and the listing of what is in it."""

    cluster: Cluster
    election: Election
    every_partition: Listing

    async def cluster_id(self, policy: Policy) -> str:
        """The id of the cluster that answers; names its journal."""
        evidence = await self.cluster.gather(Scope(()), policy.widest_evidence_rules)
        return evidence.cluster.cluster_id


_METADATA_LOG_WITHIN, _FIRST_LOOK = timedelta(minutes=2), timedelta(seconds=10)
"""200,000 partitions' log takes some 20 CPU seconds to read; a look goes without what is not read by then."""

OpenCluster = Callable[[Target], AbstractAsyncContextManager[Connection]]


@asynccontextmanager
async def open_kafka(target: Target) -> AsyncIterator[Connection]:
    """A real Kafka. Raises InvalidDocument for addresses, ClusterError for the rest."""
    security = read_security(target.command_config) if target.command_config else Security()
    addresses, expected = _addresses(target.bootstrap), target.expected_cluster_id
    controllers = _controllers(target, security)
    async with KafkaCluster(
        addresses, security, expected, kip_1275=target.kip_1275, controllers=controllers
    ) as cluster:
        await cluster.read_metadata_log(_METADATA_LOG_WITHIN, _FIRST_LOOK)
        yield Connection(cluster, election_in(cluster, target.election_attempts), cluster.every_partition)


def _controllers(target: Target, security: Security) -> Controllers | None:
    if target.controllers is None:
        if target.controller_config is not None:
            raise InvalidDocument(
                f"--controller-config {target.controller_config}: name controllers to be asked by it "
                "with --bootstrap-controller HOST:PORT"
            )
        return None
    own = read_security(target.controller_config) if target.controller_config else security
    return Controllers(_addresses(target.controllers, "--bootstrap-controller"), own)


def _addresses(bootstrap: str, option: str = "--bootstrap-server") -> list[Address]:
    try:
        return [Address.parse(part) for part in bootstrap.split(",")]
    except ValueError as error:
        raise InvalidDocument(f"{option}: {_port_problem(bootstrap) or error}") from None


def _port_problem(bootstrap: str) -> str | None:
    """Which address is right but for its port, if that is what is wrong."""
    for part in bootstrap.split(","):
        host, _, port = part.strip().rpartition(":")
        if host and re.fullmatch("[0-9]{1,19}", port) and not 0 < int(port) < 65536:
            return f"{part.strip()!r}: there is no port {port}; write host:port with a port from 1 to 65535"
