"""A controller's first metadata without a JVM: what Kafka's StorageTool wrote once, with another port in it.

StorageTool runs once per release and features, and what it wrote is kept beside the jars. Of all that is in there a
cluster differs only by its id, which stands in a properties file, and by the port of the one voter.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import javaproperties
from kafka.record.util import calc_crc32c

from testbed.java import Java
from testbed.layout import CONTROLLER, new_id, write_properties
from testbed.locks import locked
from testbed.ports import HOST

PORT = 20_001
META = "meta.properties"
# Of a record batch: its length counts from behind itself, its checksum covers all behind that.
LENGTH, HEAD, CHECKSUM, CHECKED = 8, 12, 17, 21


def format_controller(java: Java, data: Path, cluster_id: str, port: int, features: Mapping[str, int]) -> None:
    """Formats the empty data folder of a controller on HOST, the only voter, with these levels of features."""
    shutil.copytree(_template(java, features), data)
    meta = javaproperties.loads((data / META).read_text())
    write_properties(data / META, {**meta, "cluster.id": cluster_id})
    for snapshot in data.glob("__cluster_metadata-0/*.checkpoint"):
        snapshot.write_bytes(b"".join(_moved(batch, port) for batch in _batches(snapshot.read_bytes())))


def _template(java: Java, features: Mapping[str, int]) -> Path:
    chosen = "".join(f"-{name}={level}" for name, level in sorted(features.items()))
    wanted = java.distribution.folder / f"formatted{chosen}"
    if not wanted.exists():
        with locked(wanted.with_suffix(".lock")):
            if not wanted.exists():
                _write(java, features, wanted)
    return wanted


def _write(java: Java, features: Mapping[str, int], wanted: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="testbed-formatting-", dir=wanted.parent) as folder:
        home = Path(folder)
        properties = {
            "node.id": str(CONTROLLER),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{HOST}:{PORT}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{HOST}:{PORT}",
            "log.dirs": str(home / "data"),
        }
        write_properties(home / "server.properties", properties)
        java.format_controller(home, new_id(), f"{CONTROLLER}@{HOST}:{PORT}:{new_id()}", features)
        (home / "data").rename(wanted)


def _batches(raw: bytes) -> Iterator[bytes]:
    while raw:
        (length,) = struct.unpack_from(">i", raw, LENGTH)
        yield raw[: HEAD + length]
        raw = raw[HEAD + length :]


def _moved(batch: bytes, port: int) -> bytes:
    """The batch with the voter at this port."""
    found, moved = (HOST.encode() + struct.pack(">H", number) for number in (PORT, port))
    if found not in batch:
        return batch
    body = batch[CHECKED:].replace(found, moved)
    return batch[:CHECKSUM] + struct.pack(">I", calc_crc32c(body)) + body
