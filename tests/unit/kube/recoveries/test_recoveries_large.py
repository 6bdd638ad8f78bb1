"""The largest recovery that there may be, on its way through the whole of an operator's process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Limits
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.recoveries.status import FIRST
from kafka_recovery.kube.resources.fields import MOST_PARTITIONS
from kafka_recovery.kube.resources.kinds import POLICIES
from unit.kube.office import Office, all_offline
from unit.kube.operated import plans
from unit.kube.our_objects import inhabited
from unit.kube.virtual import in_no_time
from unit.recovery.world import World

LARGEST_STATUS = 10_000
DEFAULT = Limits().partitions
OFFLINE = [TopicPartition(f"orders-{number // 100:03}", number % 100) for number in range(MOST_PARTITIONS)]
SURVIVOR = 2


@pytest.fixture
def world(tmp_path: Path) -> World:
    """As many partitions as one recovery may have, each with one survivor."""
    world = World(tmp_path)
    for id in OFFLINE:
        world.offline({SURVIVOR: 27}, id)
    return world


@pytest.mark.timeout(240)  # ten seconds of work, on a machine that has other things to do
def test_twenty_thousand_partitions_are_one_recovery_of_as_many_plans_as_their_limit_wants(world: World) -> None:
    office = Office(world, inhabited())
    office.api.change(POLICIES, "rules", limits={})
    all_offline(office)

    async def tell() -> Object:
        office.open(found=OFFLINE)
        office.see()
        return await office.until("Recovered", within=1000)

    ended = in_no_time(tell())
    counts = {"total": 20_000, "recovered": 20_000, "refused": 0, "failed": 0, "waiting": 0}
    assert (ended["outcome"], ended["partitions"]) == ("Recovered", counts)
    assert {held.leader for held in world.kafka.partitions.values()} == {SURVIVOR}
    assert world.unrestored() == []
    assert len(plans(office.api)) == MOST_PARTITIONS // DEFAULT == 4
    told = [status for status in office.api.statuses if "partitions" in status]
    for each in told:
        total, *parts = each["partitions"].values()
        assert total == sum(parts) == MOST_PARTITIONS
        assert each["plan"]["elections"] == DEFAULT
        assert len(each.get("refusals", [])) <= FIRST
        assert len(json.dumps(each)) < LARGEST_STATUS
    full = [each["partitions"] for each in told if each["conditions"][0]["reason"] == "PlanIsFull"]
    assert full
    assert all(each["refused"] == MOST_PARTITIONS - each["recovered"] for each in full)
