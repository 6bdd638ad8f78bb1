"""The largest recovery that there may be, on its way through the whole of an operator's process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Limits
from kafka_recovery.kube.recoveries.status import FIRST
from kafka_recovery.kube.resources.fields import MOST_PARTITIONS
from kafka_recovery.kube.resources.kinds import POLICIES
from unit.kube.office import Office, all_offline
from unit.kube.operated import plans
from unit.kube.our_objects import inhabited
from unit.recovery.world import World

LARGEST_STATUS = 10_000
SURVIVOR = 2
LARGEST = pytest.param(
    MOST_PARTITIONS, {}, Limits().partitions, marks=[pytest.mark.full, pytest.mark.timeout(240)], id="largest"
)
"""As many as one recovery may have, under the limit that nobody has set: ten seconds of work on a quiet machine."""


@pytest.mark.parametrize(("many", "limits", "at_once"), [(1000, {"partitions": 250}, 250), LARGEST])
async def test_thousands_of_partitions_are_one_recovery_of_as_many_plans_as_their_limit_wants(
    tmp_path: Path, many: int, limits: dict[str, int], at_once: int
) -> None:
    offline = [TopicPartition(f"orders-{number // 100:03}", number % 100) for number in range(many)]
    world = World(tmp_path)
    for id in offline:
        world.offline({SURVIVOR: 27}, id)
    office = Office(world, inhabited())
    office.api.change(POLICIES, "rules", limits=limits)
    all_offline(office)

    office.takes_up(found=offline)
    ended = await office.until("Recovered", within=1000)
    counts = {where: number for where, number in ended["partitions"].items() if number}
    assert (ended["outcome"], counts) == ("Recovered", {"total": many, "recovered": many})
    assert {held.leader for held in world.kafka.partitions.values()} == {SURVIVOR}
    assert world.unrestored() == []
    assert len(plans(office.api)) == many // at_once == 4
    told = [status for status in office.api.statuses if "partitions" in status]
    for each in told:
        total, _offline, *parts = each["partitions"].values()
        assert total == sum(parts) == many
        assert each["plan"]["elections"] == at_once
        assert len(each.get("refusals", [])) <= FIRST
        assert len(json.dumps(each)) < LARGEST_STATUS
    full = [each["partitions"] for each in told if each["conditions"][0]["reason"] == "PartitionLimitReached"]

    assert full
    assert all(each["waiting"] == many - each["recovered"] for each in full), "nobody refused them"
