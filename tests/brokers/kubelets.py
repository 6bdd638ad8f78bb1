"""What Pods and nodes would tell of the brokers of a testbed, which all run on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.metadata_log.unfenced import Alive
from kafka_recovery.domain.ids import BrokerId, MetadataOffset
from kafka_recovery.kube.clusters.pod_witness import PodWitness
from kafka_recovery.kube.clusters.residences import Home

READ_WITHIN = timedelta(seconds=20)
BETWEEN_READS = 0.1
"""Seconds. The controller writes every half second; who reads without a pause takes a whole core until then."""


class Kubelets:
    """Tell where the brokers run: on this machine, each in a Pod of its own."""

    def __init__(self, *brokers: int) -> None:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self.containers, self.written = dict.fromkeys(brokers, 1), 0
        self.disks = dict.fromkeys(brokers, 1)
        self.boots = dict.fromkeys(brokers, boot)

    async def homes(self) -> Mapping[BrokerId, Home]:
        self.written += 1
        return {
            BrokerId(id): Home(
                f"pod-{id}", f"container-{number}", f"pvc-{id}-{self.disks[id]}", self.boots[id], str(self.written)
            )
            for id, number in self.containers.items()
        }

    def started_again(self, broker: int) -> None:
        """Its container, in the same Pod."""
        self.containers[broker] += 1

    def lost_its_disk(self, broker: int) -> None:
        self.disks[broker] += 1

    def crashed(self, broker: int) -> None:
        """Its host, and with it what was not on disk yet: it is booted anew."""
        self.boots[broker] += "'"


async def watched(witness: PodWitness, cluster: KafkaCluster, looks: int = 13) -> None:
    """For as many looks, of a clock that jumps; after each look the real controller has written a no-op."""
    for _ in range(looks):
        assert await witness.look() is None
        seen = await _read(cluster)  # no less than the look did: the next one has to see more
        while await _read(cluster) <= seen:
            await asyncio.sleep(BETWEEN_READS)
        await witness.clock.sleep(witness.pause)


async def _read(cluster: KafkaCluster) -> MetadataOffset:
    """How far the metadata log is read by now."""
    alive = await cluster.unfenced(READ_WITHIN, READ_WITHIN)
    assert isinstance(alive, Alive), alive
    return alive.as_of
