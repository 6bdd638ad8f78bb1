"""All processes of one cluster, and what they need around them: ports, folders, proxies, and a guard should we die."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from testbed import archive, formatting
from testbed.distribution import Release, fetch
from testbed.faults import Proxy
from testbed.guard import Guard
from testbed.java import HEAP, Java
from testbed.layout import (
    CONTROLLER,
    GUARDED,
    INTERNAL,
    PLAINTEXT,
    Detour,
    Layout,
    Listener,
    directories_of,
    format_broker,
    new_id,
    write_properties,
)
from testbed.node import Node, Program, State
from testbed.ports import HOST, Ports
from testbed.security import Mechanism, Security, Stronghold
from testbed.small_volume import on_small_volume

ELR = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True)
class Wish:
    """What cluster is wanted; RealKafka says what each field means."""

    release: Release
    brokers: int
    controllers: int
    elr: bool | None
    racks: Mapping[int, str]
    session_timeout: float
    properties: Mapping[str, str]
    security: Security | None
    heap: int
    proxied: Sequence[int]
    folder: Path | None
    host: str
    detour: int | None
    environment: Mapping[str, str]
    disks: int
    small_disks: Mapping[int, int]


class Nodes:
    """Controllers and brokers, started by `start`; `close` ends what runs and removes a temporary folder."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        distribution = fetch(wish.release)
        self._java = Java(distribution, archive.options(archive.ensured(distribution)))
        self.proxies: dict[int, Proxy] = {}
        self.detour: Proxy | None = None
        with ExitStack() as stack:
            self.folder = wish.folder or Path(tempfile.mkdtemp(prefix="testbed-kafka-"))
            self._guard = Guard(None if wish.folder else self.folder)
            stack.callback(self._guard.close)
            ports = stack.enter_context(Ports())
            self.stronghold = Stronghold.built(wish.security, self.folder / "tls") if wish.security else None
            self.layout = self._planned(ports, stack)
            self._nodes: dict[int, Node] = {}
            stack.callback(self._end)
            self._stack = stack.pop_all()

    def __getitem__(self, number: int) -> Node:
        """The node of a broker or a controller; KeyError if there is none."""
        return self._nodes[number]

    @property
    def running(self) -> tuple[int, ...]:
        """The brokers that run and are not frozen."""
        return tuple(b for b in self.layout.brokers if self._nodes[b].state is State.RUNNING)

    @property
    def processes(self) -> tuple[int, ...]:
        """The process ids of controllers and brokers, as far as they live."""
        return tuple(pid for node in self._nodes.values() if (pid := node.pid) is not None)

    def start(self) -> None:
        """Formats and starts everything; does not wait for it."""
        voters = ",".join(f"{each}@{address}:{new_id()}" for each, address in self.layout.controller_addresses.items())
        for number in self.layout.controller_addresses:
            properties = self.layout.controller_properties(number, self.data(number))
            controller = self._prepared(number, properties, HEAP)
            self._format_controller(controller.program.home, voters)
            controller.start()
        for broker in self.layout.brokers:
            node = self._prepared(broker, self.layout.broker_properties(broker, self.data(broker)), self._wish.heap)
            for directory in self.directories(broker):
                format_broker(directory, self.layout.cluster_id, broker)
            node.start()

    def data(self, number: int) -> Path:
        """The folder with a node's logs, in Kafka's sense of the word."""
        return self.folder / f"node-{number}" / "data"

    def directories(self, broker: int) -> list[Path]:
        """A broker's log directories; the first one is `data`."""
        return directories_of(self.data(broker), self._wish.disks)

    def check(self) -> None:
        """NodeDied if a node ended that nobody ended."""
        for node in self._nodes.values():
            node.check()

    def rest(self) -> None:
        """Freezes every node that runs."""
        for node in self._nodes.values():
            if node.state is State.RUNNING:
                node.freeze()

    def revive(self) -> None:
        """Every node runs and every proxy passes all on, as at first; does not wait for it."""
        for proxy in (*self.proxies.values(), *([self.detour] if self.detour else [])):
            proxy.restore()
        for node in self._nodes.values():
            node.revive()

    def run_tool(self, main: str, *arguments: str) -> str:
        """Runs a main class of this Kafka; its output, or JavaFailed."""
        home = self.folder / "tools"
        home.mkdir(exist_ok=True)
        return self._java.run(home, main, *arguments)

    def close(self) -> None:
        self._stack.close()

    def _planned(self, ports: Ports, stack: ExitStack) -> Layout:
        return Layout(
            cluster_id=new_id(),
            controller_ports={CONTROLLER + number: ports.take() for number in range(self._wish.controllers)},
            listeners={broker: self._listeners(broker, ports, stack) for broker in range(1, self._wish.brokers + 1)},
            racks=self._wish.racks,
            session_timeout=self._wish.session_timeout,
            properties=self._wish.properties,
            security=self.stronghold,
            host=self._wish.host,
            detour=self._detour(ports, stack),
            disks=self._wish.disks,
            guarded_controller_ports={name: ports.take() for name in GUARDED} if self._wish.security else {},
        )

    def _detour(self, ports: Ports, stack: ExitStack) -> Detour | None:
        if self._wish.detour is None:
            return None
        port = ports.take()
        self.detour = stack.enter_context(Proxy(f"{self._wish.host}:{port}"))
        return Detour(self._wish.detour, port, self.detour.port)

    def _listeners(self, broker: int, ports: Ports, stack: ExitStack) -> dict[str, Listener]:
        secured = [mechanism.value for mechanism in Mechanism] if self.stronghold else []
        found = {name: Listener.direct(name, ports.take(), self._wish.host) for name in (INTERNAL, PLAINTEXT, *secured)}
        if broker in self._wish.proxied:
            behind = found[PLAINTEXT]
            proxy = stack.enter_context(Proxy(behind.address))
            self.proxies[broker] = proxy
            found[PLAINTEXT] = Listener(PLAINTEXT, behind.port, proxy.port)
        return found

    def _prepared(self, number: int, properties: Mapping[str, str], heap: int) -> Node:
        controls = number in self.layout.controller_addresses
        name = f"controller {number}" if controls else f"broker {number}"
        home = self.folder / f"node-{number}"
        home.mkdir(parents=True)
        write_properties(home / "server.properties", properties)
        command = self._java.command(home, heap, "kafka.Kafka", str(home / "server.properties"))
        if not controls and number in self._wish.small_disks:
            command = on_small_volume(command, self.directories(number)[-1], self._wish.small_disks[number])
        environment = {**self._java.environment, **({} if controls else self._wish.environment)}
        self._nodes[number] = Node(Program(name, home, command, environment), self._guard)
        return self._nodes[number]

    def _format_controller(self, home: Path, voters: str) -> None:
        elr = self._wish.elr
        features = {ELR: int(elr)} if elr is not None and self._wish.release.elr else {}
        layout = self.layout
        if layout.host == HOST and self._wish.controllers == 1:
            port = layout.controller_ports[CONTROLLER]
            formatting.format_controller(self._java, self.data(CONTROLLER), layout.cluster_id, port, features)
        else:
            self._java.format_controller(home, layout.cluster_id, voters, features)

    def _end(self) -> None:
        for node in self._nodes.values():
            node.end()
