"""How far logs reached, from columns: the same that the whole evidence says, and nothing from a damaged file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from kafka_recovery.decision.witnesses import ends_seen, snapshot_of, with_witnesses
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence, WitnessedEnd
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.kept_ends import FURTHEST_BACK, kept_ends
from kafka_recovery.formats.documents import InvalidDocument
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


def test_an_outage_may_last_longer_than_all_the_files_that_are_read(tmp_path: Path) -> None:
    archive = Archive.at(str(tmp_path))
    archive.write(looked_at(0, PARTITIONS[:1]))
    offline = replace(LED, leader=None, leader_epoch=LeaderEpoch(LED.leader_epoch + 1))
    for hour in range(1, FURTHEST_BACK + 3):
        known = kept_ends(archive, "prod")  # each time by an operator that has just started
        archive.write(with_witnesses(looked_at(hour, [offline]), known))

    (told,) = with_witnesses(looked_at(99, [offline]), kept_ends(archive, "prod")).partitions
    assert told.witnessed_ends == (WitnessedEnd(snapshot_of(WHOLE.cluster.observed_at), Offset(40)),)


@pytest.mark.parametrize(("began", "ends"), [(27, []), (50, [40])])
def test_what_was_seen_before_an_outage_tells_nothing_once_another_leader_began_below_it(
    tmp_path: Path, began: int, ends: list[int]
) -> None:
    archive = Archive.at(str(tmp_path))
    archive.write(looked_at(0, PARTITIONS[:1]))
    offline = replace(LED, leader=None, leader_epoch=LeaderEpoch(LED.leader_epoch + 1))
    archive.write(with_witnesses(looked_at(1, [offline]), kept_ends(archive, "prod")))

    led_in_between = offline.leader_epoch + 1
    again = partition({2: log(60, (0, 0), (led_in_between, began))}, leader_epoch=LeaderEpoch(led_in_between + 1))

    (told,) = with_witnesses(looked_at(2, [again]), kept_ends(archive, "prod")).partitions
    assert [witness.end for witness in told.witnessed_ends] == ends


def test_a_cluster_of_which_nothing_is_kept_tells_nothing(tmp_path: Path) -> None:
    assert kept_ends(Archive.at(str(tmp_path)), "prod") == {}


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    archive = Archive.at(str(tmp_path))
    file = tmp_path / archive.write(WHOLE).path
    file.write_bytes(file.read_bytes()[:-30])

    with pytest.raises(InvalidDocument, match="is damaged"):
        kept_ends(archive, "prod")
