"""One look at a whole cluster, in slices: whoever else lives on this event loop gets his turn in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import islice

from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import Evidence, MissingPartition, PartitionEvidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import EvidenceRules

SLICE = 2000
"""Partitions that are measured at a time: their answers take some tenths of a second to be read."""

Gather = Callable[[Scope, EvidenceRules], Awaitable[Evidence]]


async def snapshot(gather: Gather, everything: Sequence[TopicPartition], rules: EvidenceRules) -> Evidence:
    """Every copy of these partitions, led or not. The cluster is as the last slice saw it, and took as long as all did.

    It is dated from the first slice: nothing is older than it says, and no slice is too old beside another's logs.
    Raises ClusterFault.
    """
    partitions: list[PartitionEvidence] = []
    missing: list[MissingPartition] = []
    left = iter(sorted(everything))
    seen = await gather(Scope(tuple(islice(left, SLICE)), with_led=True), rules)
    at, took = seen.cluster.observed_at, seen.cluster.took
    while True:
        partitions += seen.partitions
        missing += seen.missing
        if not (following := tuple(islice(left, SLICE))):
            return Evidence(replace(seen.cluster, observed_at=at, took=took), tuple(partitions), tuple(missing))
        seen = await gather(Scope(following, with_led=True), rules)
        took += seen.cluster.took
