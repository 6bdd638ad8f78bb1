"""The leaders that a run chose, as text in its FleetRanking's status: so they reach the operator that elects.

`base64(gzip({"clusters": {CLUSTER_ID: {TOPIC: {TOPIC_ID: [[partition, leader, leaderEpoch], …]}}}}))`. Every cluster
that the run had evidence of is there, and of each partition for which a leader was chosen this leader and the outage
that it is for. A topic has two ids if it was made anew while the evidence was gathered.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.formats.documents import InvalidDocument, canonical, read
from kafka_recovery.formats.fields import Text

LONGEST = 512 * 1024
"""Characters, of all runs of a FleetRanking together: a request to etcd holds 1.5 MiB. Some 100,000 partitions of a
thousand topics; ids of topics don't compress."""
_LARGEST = 4 * 1024 * 1024
"""Bytes after decompression, so that a few characters don't become gigabytes."""

Leaders = Mapping[str, Mapping[TopicPartition, Ranked]]
"""The leaders chosen, by cluster id."""


class TooManyLeaders(Exception):
    """A FleetRanking's status can't hold them; the message says how many they are, and the way out."""


_Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""As Kafka's protocol has partitions, brokers and epochs."""


_TopicId = Annotated[str, Text(r"[A-Za-z0-9_-]+", 64, "a topic id")]
_Rows = tuple[tuple[_Number, _Number, _Number], ...]


@dataclass(frozen=True, slots=True)
class _Chosen:
    clusters: Mapping[str, Mapping[str, Mapping[_TopicId, _Rows]]]


def packed(leaders: Leaders) -> str:
    """As text. The same leaders give the same text. Raises TooManyLeaders."""
    raw = canonical(_Chosen({id: _by_topic(leaders[id]) for id in sorted(leaders)}))
    text = base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()
    if len(raw) > _LARGEST or len(text) > LONGEST:
        count = sum(map(len, leaders.values()))
        raise TooManyLeaders(
            f"it chose {count} leaders, more than a FleetRanking's status can hold: ask for fewer clusters at a time "
            "(spec.clusterSelector)"
        )
    return text


def unpacked(text: str, name: str) -> Leaders:
    """The leaders in a run called `name`. Raises InvalidDocument for text that is not as `packed` writes it."""
    try:
        unzip = zlib.decompressobj(wbits=31)
        raw = unzip.decompress(base64.b64decode(text, validate=True), _LARGEST + 1)
    except (ValueError, zlib.error) as error:  # ValueError: no base64, or not even ASCII
        raise InvalidDocument(f"{name}: its leaders can't be read: {error}") from None
    if not unzip.eof:
        raise InvalidDocument(f"{name}: its leaders are cut off, or more than {_LARGEST} bytes")
    return {
        id: {
            TopicPartition(name, partition): Ranked(BrokerId(leader), LeaderEpoch(epoch), TopicId(topic_id))
            for name, ids in topics.items()
            for topic_id, rows in ids.items()
            for partition, leader, epoch in rows
        }
        for id, topics in read(_Chosen, raw, name).clusters.items()
    }


def _by_topic(leaders: Mapping[TopicPartition, Ranked]) -> dict[str, dict[str, _Rows]]:
    found: dict[str, dict[str, list[tuple[int, int, int]]]] = defaultdict(lambda: defaultdict(list))
    for id in sorted(leaders):
        each = leaders[id]
        found[id.topic][each.topic_id].append((id.partition, each.leader, each.leader_epoch))
    return {topic: {id: tuple(rows) for id, rows in ids.items()} for topic, ids in found.items()}
