"""A broker's log directories, by DescribeLogDirs: one small question, and a second one where something is wrong.

Kafka tells of each directory whether it is online, and of its volume how much room is left. Asked about no partition it
answers with that alone, so that the question costs the same in any incident. Measured on Kafka 3.9 to 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest

from kafka_recovery.cluster.broker_reader import BrokerReader
from kafka_recovery.cluster.errors import ClusterError, InvalidAnswer, error_name, reason_for
from kafka_recovery.cluster.metadata import by_topic
from kafka_recovery.domain.evidence import Replica, ReplicaLog
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.log_directories import BrokerDirectories, LogDirectory
from kafka_recovery.domain.reason import Reason

MOST_DIRECTORIES = 256
"""More disks than a broker has; whoever lists more does not tell the truth."""

LONGEST_PATH = 1024
"""Characters of a directory's name that are believed."""

_VERSIONS = (4, 4)
"""The first one that tells of volumes (KIP-827). Every release here has it; what the fifth adds is of no use."""


async def log_directories(reader: BrokerReader, held: Sequence[TopicPartition]) -> BrokerDirectories:
    """What the broker says of all its log directories; `held`: its copies that are looked at. Raises nothing."""
    try:
        found = await _told(reader, ())
        if not isinstance(found, Reason) and _matters_which(found):
            found = await _told(reader, held)
    except ClusterError as fault:
        found = fault.reason
    if isinstance(found, Reason):
        return BrokerDirectories(reader.broker, problem=found)
    return BrokerDirectories(reader.broker, found)


def with_room(
    copies: Mapping[TopicPartition, Replica],
    said: BrokerDirectories | None,
    before: Mapping[TopicPartition, ReplicaLog],
) -> Mapping[TopicPartition, Replica]:
    """The same copies of one broker's, each told whether its volume is almost full.

    Of a broker that did not say, or was not asked, what it said `before` counts: one lost answer voids no plan.
    """
    if said is None or said.problem:
        full = frozenset(id for id, log in before.items() if log.almost_full)
    else:
        full = said.almost_full(copies)
    return {
        id: replace(copy, log=replace(copy.log, almost_full=True)) if copy.log and id in full else copy
        for id, copy in copies.items()
    }


def _matters_which(found: Sequence[LogDirectory]) -> bool:
    """Whether anything is to be said of one directory and not of the others."""
    return len(found) > 1 and any(each.error or each.is_almost_full for each in found)


async def _told(reader: BrokerReader, held: Collection[TopicPartition]) -> tuple[LogDirectory, ...] | Reason:
    """Of none of the copies, if none is named. Raises ClusterError."""
    make = DescribeLogDirsRequest.DescribableLogDirTopic
    topics = [make(topic=name, partitions=list(indexes)) for name, indexes in by_topic(held).items()]
    answer = await reader.ask(DescribeLogDirsRequest(topics=topics), _VERSIONS)
    if answer.error_code:
        return reason_for(answer.error_code, "DescribeLogDirs", needs="DESCRIBE on the cluster")
    return tuple(_checked(reader, answer, held))


def _checked(reader: BrokerReader, answer: Any, held: Collection[TopicPartition]) -> Iterator[LogDirectory]:
    """Each of them. Raises InvalidAnswer for what no broker can have."""
    if not 0 < len(answer.results) <= MOST_DIRECTORIES:
        raise _untrue(reader, f"{len(answer.results)} log directories")
    paths: set[str] = set()
    copies, incoming = set(held), set(held)
    for entry in answer.results:
        path = entry.log_dir
        if not path or len(path) > LONGEST_PATH or not path.isprintable() or path in paths:
            raise _untrue(reader, f"the log directory {path[:_SHOWN]!r}, unreadable or twice")
        total, usable = entry.total_bytes, entry.usable_bytes
        if min(total, usable) < _NOT_TOLD or usable > total:
            raise _untrue(reader, f"{usable} of {total} bytes left in {path[:_SHOWN]!r}")
        paths.add(path)
        yield LogDirectory(
            path=path,
            error=error_name(entry.error_code) if entry.error_code else None,
            total_bytes=None if total == _NOT_TOLD else total,
            usable_bytes=None if usable == _NOT_TOLD else usable,
            copies=_held(reader, entry, copies, moving=False) if held else None,
            incoming=_held(reader, entry, incoming, moving=True) if held else None,
        )


_NOT_TOLD = -1
_SHOWN = 80


def _held(reader: BrokerReader, entry: Any, left: set[TopicPartition], *, moving: bool) -> tuple[TopicPartition, ...]:
    """Those of `left` that are here, which are none of any other directory then. Raises InvalidAnswer."""
    found: list[TopicPartition] = []
    for topic in entry.topics:
        for part in topic.partitions:
            if bool(part.is_future_key) is not moving:
                continue
            id = TopicPartition(topic.name, part.partition_index)
            if id not in left:
                raise _untrue(reader, f"{id} in {entry.log_dir!r}, which was not asked about, or is in another one")
            left.discard(id)
            found.append(id)
    return tuple(sorted(found))


def _untrue(reader: BrokerReader, what: str) -> InvalidAnswer:
    return InvalidAnswer(reader.at, f"DescribeLogDirs gave {what}")
