"""What a cluster's nodes are told: their ids, listeners and properties."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties

from testbed.ports import HOST
from testbed.security import Mechanism, Stronghold

CONTROLLER = 100
"""The first controller; where there are several, the others have the numbers after it."""
GUARDED = (Mechanism.SCRAM.value, Mechanism.MTLS.value)
"""The controller's listeners that ask who is there."""
# Replication and the testbed's own questions go here, so that a fault put before PLAINTEXT blinds clients only.
INTERNAL = "INTERNAL"
# For clients; its advertised port may be a proxy's.
PLAINTEXT = "PLAINTEXT"
DETOUR = "DETOUR"

SMALL = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "1",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.index.size.max.bytes": "65536",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Else each metric becomes a bean of JMX, which nobody reads here.
    "metric.reporters": "",
    "auto.include.jmx.reporter": "false",  # 3.9 adds it to those that are named
}
# Nothing changes a leader or makes a topic but the test itself.
QUIET = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "unclean.leader.election.enable": "false",
}
INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


@dataclass(frozen=True, slots=True)
class Listener:
    """Where a broker listens, and the port it tells clients; the same unless a proxy stands before it."""

    name: str
    port: int
    advertised: int
    host: str = HOST

    @classmethod
    def direct(cls, name: str, port: int, host: str = HOST) -> Listener:
        return cls(name, port, port, host)

    @property
    def bound(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.advertised}"


@dataclass(frozen=True, slots=True)
class Detour:
    """A second listener of the controller, for one broker only; what it advertises is the port of a proxy before it."""

    broker: int
    port: int
    advertised: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A cluster on paper. `session_timeout` in seconds; `listeners` per broker, then per listener name.

    A detour, and what clients with a name use, lead to the first controller: with several there are neither.
    """

    cluster_id: str
    controller_ports: Mapping[int, int]
    listeners: Mapping[int, Mapping[str, Listener]]
    racks: Mapping[int, str]
    session_timeout: float
    properties: Mapping[str, str]
    security: Stronghold | None
    host: str = HOST
    detour: Detour | None = None
    disks: int = 1
    guarded_controller_ports: Mapping[str, int] = field(default_factory=dict)
    """By listener, where the controller asks who is there, in a cluster with security."""

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(self.listeners)

    @property
    def controller_addresses(self) -> dict[int, str]:
        return {number: f"{self.host}:{port}" for number, port in self.controller_ports.items()}

    def guarded_controller_address(self, mechanism: Mechanism) -> str:
        return f"{self.host}:{self.guarded_controller_ports[mechanism.value]}"

    def controller_properties(self, number: int, data: Path) -> dict[str, str]:
        own = {
            "node.id": str(number),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{self.controller_addresses[number]}",
        }
        if self.detour:
            direct = own["listeners"]
            own |= {
                "listeners": f"{direct},{DETOUR}://{self.host}:{self.detour.port}",
                "advertised.listeners": f"{direct},{DETOUR}://{HOST}:{self.detour.advertised}",
                "controller.listener.names": f"CONTROLLER,{DETOUR}",
            }
        if guarded := self.guarded_controller_ports:
            places = ",".join(f"{name}://{self.host}:{port}" for name, port in guarded.items())
            own |= {
                "listeners": f"{own['listeners']},{places}",
                "controller.listener.names": ",".join(("CONTROLLER", *guarded)),
            }
        return self._common(data) | own | dict(self.properties)

    def broker_properties(self, broker: int, data: Path) -> dict[str, str]:
        listeners = self.listeners[broker].values()
        own = {
            "node.id": str(broker),
            "process.roles": "broker",
            "listeners": ",".join(f"{x.name}://{x.bound}" for x in listeners),
            "advertised.listeners": ",".join(f"{x.name}://{x.address}" for x in listeners),
            "inter.broker.listener.name": INTERNAL,
        }
        rack = {"broker.rack": self.racks[broker]} if broker in self.racks else {}
        if self.detour and broker == self.detour.broker:
            there = f"{HOST}:{self.detour.advertised}"
            own |= {"controller.listener.names": DETOUR, "controller.quorum.bootstrap.servers": there}
        directories = {"log.dirs": ",".join(map(str, directories_of(data, self.disks)))}
        return self._common(data) | directories | own | rack | dict(self.properties)

    def _common(self, data: Path) -> dict[str, str]:
        session = round(self.session_timeout * 1000)
        replication = str(min(3, len(self.brokers)))
        secured = self.security.properties() if self.security else {}
        protocols = {"CONTROLLER": "PLAINTEXT", INTERNAL: "PLAINTEXT", PLAINTEXT: "PLAINTEXT"}
        protocols |= {DETOUR: "PLAINTEXT"} if self.detour else {}
        protocols |= self.security.protocols() if self.security else {}
        return {
            **SMALL,
            **QUIET,
            **{f"{topic}.replication.factor": replication for topic in INTERNAL_TOPICS},
            "controller.quorum.bootstrap.servers": ",".join(self.controller_addresses.values()),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "broker.session.timeout.ms": str(session),
            # Heartbeats also carry "let me in": rare ones would make every start slow.
            "broker.heartbeat.interval.ms": str(max(100, session // 6)),
            "log.dirs": str(data),
            **secured,
        }


def directories_of(data: Path, disks: int) -> list[Path]:
    """A broker's log directories. The first one has its metadata too: a broker that loses that one ends (KIP-858)."""
    return [data, *(data.with_name(f"{data.name}-{number}") for number in range(2, disks + 1))]


def new_id() -> str:
    """A random id as Kafka writes them: a UUID in URL-safe base64; no dash in front, where it looks like an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """A Java properties file."""
    path.write_text(javaproperties.dumps(dict(properties), timestamp=None))


def format_broker(data: Path, cluster_id: str, node: int) -> None:
    """Formats a broker's empty data folder without a JVM: this file is all that StorageTool would leave there."""
    data.mkdir(parents=True, exist_ok=True)
    lines = {"version": "1", "cluster.id": cluster_id, "node.id": str(node), "directory.id": new_id()}
    write_properties(data / "meta.properties", lines)
