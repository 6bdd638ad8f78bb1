"""An archive of loaded and linked classes (Java's AOT cache) per release and Java, with which a broker starts in less
than half the time.

Built once, from a small Kafka that is started, used and ended. Everything works without it, only slower: what goes
wrong here is logged and never raised.
"""

from __future__ import annotations

import logging
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from testbed import metadata, replicas, topics
from testbed.distribution import Distribution
from testbed.guard import Guard
from testbed.java import HEAP, Java
from testbed.layout import SMALL, new_id, write_properties
from testbed.locks import locked
from testbed.node import Node, Program
from testbed.ports import HOST, Ports
from testbed.waiting import WaitedInVain, wait_until

# Java says so when an archive does not fit; it then starts without, which is all right here.
QUIET = ("-Xlog:cds=off", "-Xlog:aot=off")
# Where it was written for, if that is free: else each process changes every address in its 70 MB.
IN_ITS_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")

log = logging.getLogger(__name__)


@cache  # one attempt a process: where it fails once it will fail again
def ensured(distribution: Distribution) -> Path | None:
    """The archive, built now if need be; None where it can't be built."""
    wanted = distribution.archive
    try:
        if not wanted.exists():
            with locked(wanted.with_suffix(".lock")):
                if not wanted.exists():
                    _build(distribution)
    except (OSError, subprocess.SubprocessError, RuntimeError, WaitedInVain) as cause:
        log.warning(
            "no class archive for Kafka %s, its nodes will start slower: %s", distribution.release.version, cause
        )
        return None
    return wanted


def options(archive: Path | None) -> tuple[str, ...]:
    """The Java options that use it."""
    return (f"-XX:AOTCache={archive}", *IN_ITS_PLACE, *QUIET) if archive else ()


def _build(distribution: Distribution) -> None:
    fresh = distribution.archive.with_suffix(".new")
    with tempfile.TemporaryDirectory(prefix="testbed-archive-") as folder, Ports() as ports:
        _train(distribution, Path(folder), fresh, ports.take(), ports.take())
    fresh.rename(distribution.archive)


def _train(distribution: Distribution, home: Path, into: Path, broker: int, controller: int) -> None:
    """Runs a node that is broker and controller in one, uses it a little and ends it: that writes the archive."""
    properties = home / "server.properties"
    write_properties(properties, _combined(home, broker, controller))
    Java(distribution).format_controller(home, new_id(), f"1@{HOST}:{controller}:{new_id()}", {})
    java = Java(distribution, (f"-XX:AOTCacheOutput={into}",))
    command = java.command(home, HEAP, "kafka.Kafka", str(properties))
    guard = Guard(None)
    node = Node(Program("the node to learn from", home, command, java.environment), guard)
    try:
        node.start()
        _use(f"{HOST}:{broker}", node)
        node.terminate()
    finally:
        node.end()
        guard.close()


def _use(address: str, node: Node) -> None:
    wait_until("the node to learn from is unfenced", lambda: metadata.unfenced(address), bool, alive=node.check)
    topics.create(address, "lesson", [[1]], {})
    topics.produce(address, "lesson", [0], 10, "lesson", "all", patience=10)
    topic_id = metadata.describe(address, "lesson")[0].topic_id
    wait_until(
        "it can be read", lambda: replicas.read_as_client(address, "lesson", topic_id, 0), bool, alive=node.check
    )


def _combined(home: Path, broker: int, controller: int) -> dict[str, str]:
    return {
        **SMALL,
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{broker},CONTROLLER://{HOST}:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "log.dirs": str(home / "data"),
    }
