"""Tiered topics (KIP-405) on real brokers; their remote tier is the one of Kafka's own tests, a folder on this disk."""

from __future__ import annotations

import os
from pathlib import Path

from testbed.distribution import Release
from testbed.layout import INTERNAL
from testbed.pinned import jar

RELEASE = Release.named("4.0")
"""The newest one here of which the registry has the tests' jars."""
_JARS = {
    "kafka-storage": "b5143ab2aaf89d20e0194b484442767242c131eaf76a6f0cadb42f9c4fde11cf",
    "kafka-clients": "519fce5abdf174a39847e16c5d4f70d078b0fc93fb41963e670850c5795537ab",
}
_SOON = "500"


def tiered(folder: Path) -> dict[str, str]:
    """Properties of brokers whose tier is this folder, and which copy and delete segments twice a second."""
    jars = [jar(artifact, RELEASE.version, digest, classifier="test") for artifact, digest in _JARS.items()]
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": os.pathsep.join(map(str, jars)),
        "rsm.config.dir": str(folder),
        "remote.log.metadata.manager.listener.name": INTERNAL,
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.initialization.retry.interval.ms": _SOON,
        "remote.log.manager.task.interval.ms": _SOON,
        "log.retention.check.interval.ms": _SOON,
        "log.initial.task.delay.ms": _SOON,
    }


def tier(folder: Path) -> list[int]:
    """The base offsets of the segments that are in it, sorted."""
    return sorted(int(segment.name.split("-")[0]) for segment in folder.rglob("*.log"))
