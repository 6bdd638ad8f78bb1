"""How far logs reached, from columns: the same that the whole evidence says, and nothing from a damaged file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from kafka_recovery.decision.witnesses import ends_seen
from kafka_recovery.domain.documents import InvalidDocument
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence, WitnessedEnd
from kafka_recovery.domain.ids import BrokerId, Offset, TopicPartition
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.kept_ends import kept_ends
from unit.decision.incident import broker, evidence, log, partition

LED = partition({1: log(42, high_watermark=Offset(40)), 2: log(27)}, leader=BrokerId(1))
PARTITIONS = (
    LED,
    replace(LED, id=TopicPartition("orders", 1), leader=BrokerId(2)),
    replace(LED, id=TopicPartition("orders", 2), leader=BrokerId(9)),
    partition({1: None, 2: log(27)}, id=TopicPartition("orders", 3)),
    partition(
        {1: None, 2: log(27)},
        id=TopicPartition("orders", 4),
        witnessed_ends=(WitnessedEnd("a group", Offset(30)), WitnessedEnd("earlier", Offset(40))),
    ),
    partition({1: log(5, high_watermark=None)}, id=TopicPartition("orders", 5), leader=BrokerId(1)),
    partition({1: None, 2: log(5)}, id=TopicPartition("orders", 6), leader=BrokerId(1)),
)
WHOLE = evidence(*PARTITIONS, brokers=(broker(1), broker(2)))


def looked_at(hour: int, partitions: Sequence[PartitionEvidence]) -> Evidence:
    """A whole cluster, so many hours after noon."""
    at = WHOLE.cluster.observed_at + timedelta(hours=hour)
    return replace(WHOLE, cluster=replace(WHOLE.cluster, observed_at=at), partitions=tuple(partitions))


def test_columns_say_what_the_whole_evidence_says(tmp_path: Path) -> None:
    archive = Archive.at(str(tmp_path))
    archive.write(WHOLE)

    assert kept_ends(archive, "prod") == ends_seen(WHOLE)
    assert {id.partition for id in ends_seen(WHOLE)} == {0, 1}


def test_of_what_is_offline_in_the_newest_the_one_before_tells(tmp_path: Path) -> None:
    archive = Archive.at(str(tmp_path))
    archive.write(looked_at(1, WHOLE.partitions))
    archive.write(looked_at(2, [replace(each, leader=None) for each in PARTITIONS[:1]]))
    archive.write(looked_at(3, [replace(each, leader=None) for each in PARTITIONS[:1]]))

    assert kept_ends(archive, "prod") == {LED.id: ends_seen(looked_at(1, WHOLE.partitions))[LED.id]}


def test_a_cluster_of_which_nothing_is_kept_tells_nothing(tmp_path: Path) -> None:
    assert kept_ends(Archive.at(str(tmp_path)), "prod") == {}


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    archive = Archive.at(str(tmp_path))
    file = tmp_path / archive.write(WHOLE).path
    file.write_bytes(file.read_bytes()[:-30])

    with pytest.raises(InvalidDocument, match="is damaged"):
        kept_ends(archive, "prod")
