"""The order of work: what everything else needs comes first, and every wave is spread over the new leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from kafka_recovery.decision.spread import deal
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Rule

Urgency = tuple[int, int]
"""Lower is more urgent: internal topics (0, n), then (1, tier of the rule)."""

INTERNAL_TIER = 0
FIRST_INTERNAL = ("__transaction_state", "__consumer_offsets")
"""Producers can't commit without the first, consumers can't go on without the second."""


def urgency(partition: PartitionEvidence, rule: Rule) -> Urgency:
    """When this partition's turn is."""
    if not partition.internal:
        return 1, rule.tier
    topic = partition.id.topic
    return 0, FIRST_INTERNAL.index(topic) if topic in FIRST_INTERNAL else len(FIRST_INTERNAL)


Work = Iterable[tuple[TopicPartition, BrokerId]]
"""Partitions to elect, each with its leader to be."""


def waves(by_urgency: Iterable[Work], sizes: Sequence[int]) -> tuple[tuple[TopicPartition, ...], ...]:
    """Cut the work, most urgent first, into waves; sizes in turn, the last one repeats.

    A wave never mixes urgencies: what is urgent would wait for the rest of its request. The next size is reached only
    by a full wave, so that trust grows with what went well.
    """
    made: list[tuple[TopicPartition, ...]] = []
    step = 0
    for work in by_urgency:
        queue = interleaved(work)
        while wave := tuple(islice(queue, sizes[step])):
            made.append(wave)
            step = min(step + (len(wave) == sizes[step]), len(sizes) - 1)
    return tuple(made)


def interleaved(work: Work) -> Iterator[TopicPartition]:
    """Partitions in an order whose every stretch is spread over the leaders as the whole is."""
    queues: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for partition, leader in work:
        queues[leader].append(partition)
    turns = {leader: iter(queue) for leader, queue in queues.items()}
    return (next(turns[leader]) for leader in deal({leader: len(queue) for leader, queue in queues.items()}))
