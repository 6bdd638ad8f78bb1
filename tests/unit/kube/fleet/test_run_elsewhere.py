"""Two fleet operators that see one FleetRanking: one runs it, the other says so and waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from kafka_recovery.kube.fleet.rankings import Rankings
from kafka_recovery.kube.machinery.api import Api, Object
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.metrics import labelled
from kafka_recovery.kube.machinery.work_queue import Requeue
from kafka_recovery.kube.resources.kinds import watched_by
from kafka_recovery.kube.resources.watched_by import ClaimTimes, Places
from unit.kube.fleet.asked import NIGHTLY
from unit.kube.fleet.spark_world import KEY, SilentEvents, SparkWorld
from unit.kube.kubernetes_in_memory import over_the_wire

ONE, TWO = ("one", "operator-fleet"), ("two", "operator-fleet")
TIMES = ClaimTimes()
RUNS = labelled("/".join(KEY)) | {"outcome": "Succeeded"}


class Two:
    """Two fleet operators with a Lease each, on one clock."""

    def __init__(self) -> None:
        self.world = SparkWorld()
        self.passed = timedelta(0)
        self.said = SilentEvents()
        self.one, self.two = self._operator(ONE, SilentEvents()), self._operator(TWO, self.said)

    def _operator(self, lease: tuple[str, str], events: SilentEvents) -> Rankings:
        world = self.world
        return Rankings(
            cast(Api, world.api),
            cast(Events, events),
            world.metrics,
            world.results,
            clock=lambda: world.now + self.passed,
            places=Places(lease, monotonic=lambda: self.passed),
        )

    @property
    def holder(self) -> tuple[str, str] | None:
        return watched_by(self.world.raw["status"])


@pytest.fixture
def both() -> Two:
    return Two()


async def test_the_second_writes_nothing_and_says_so_once(both: Two) -> None:
    await both.one.reconcile(KEY)
    written = len(both.world.api.writes)

    assert [await both.two.reconcile(KEY) for _ in range(3)] == [TIMES.look] * 3

    assert (both.holder, len(both.world.api.writes)) == (ONE, written)
    assert both.said.said == [("Warning", "WatchedElsewhere")]


async def test_of_two_that_come_at_once_one_begins(both: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    free = over_the_wire(both.world.raw)
    await both.one.reconcile(KEY)
    read = both.world.api.get

    async def read_before(path: str, **asked: Any) -> Object:
        monkeypatch.setattr(both.world.api, "get", read)
        return free

    monkeypatch.setattr(both.world.api, "get", read_before)
    with pytest.raises(Requeue):
        await both.two.reconcile(KEY)

    assert both.holder == ONE


async def test_the_first_renews_it_while_nothing_is_due_and_the_second_waits(both: Two) -> None:
    for _ in range(2):
        await both.one.reconcile(KEY)
    both.world.succeed()
    while both.passed < 3 * TIMES.stale:
        again = await both.one.reconcile(KEY)
        assert again is not None
        assert again <= TIMES.renew
        await both.two.reconcile(KEY)
        both.passed += min(again, TIMES.look)

    assert (both.holder, both.world.ready) == (ONE, ("True", "Succeeded"))


async def test_the_second_goes_on_with_the_run_once_the_first_is_gone(both: Two) -> None:
    for _ in range(2):
        await both.one.reconcile(KEY)
    running = both.world.applications()
    for _ in range(2 + TIMES.stale // TIMES.look):
        await both.two.reconcile(KEY)
        both.passed += TIMES.look

    assert both.holder == TWO
    assert running
    assert both.world.applications() == running


async def test_it_is_claimed_before_anything_is_made(both: Two) -> None:
    await both.one.reconcile(KEY)
    await both.one.reconcile(KEY)

    first_made = next(place for place, write in enumerate(both.world.api.writes) if write.startswith("create "))
    assert watched_by(both.world.api.statuses[0]) == ONE
    assert both.world.api.writes[0].startswith("status ")
    assert first_made > 0


async def test_a_run_that_is_under_way_is_looked_at_sooner_than_a_claim_is_renewed(both: Two) -> None:
    await both.one.reconcile(KEY)
    again = await both.one.reconcile(KEY)

    assert again is not None
    assert again < TIMES.renew


async def test_a_claim_is_renewed_long_before_the_next_run_is_due(both: Two) -> None:
    both.world.raw["spec"]["schedule"] = NIGHTLY
    assert await both.one.reconcile(KEY) == TIMES.renew


async def test_what_is_run_elsewhere_once_more_is_said_once_more_and_shown_by_the_other_alone(both: Two) -> None:
    await both.one.reconcile(KEY)
    for operator in (both.two, both.one):
        for _ in range(2 + TIMES.stale // TIMES.look):
            await operator.reconcile(KEY)
            both.passed += TIMES.look
    shown = both.world.metrics.registry.get_sample_value
    assert shown("kafka_recovery_fleet_runs_total", RUNS) is not None

    await both.two.reconcile(KEY)

    assert both.holder == ONE
    assert both.said.said.count(("Warning", "WatchedElsewhere")) == 2
    assert shown("kafka_recovery_fleet_runs_total", RUNS) is None


async def test_one_of_the_same_name_that_is_made_anew_is_told_anew(both: Two) -> None:
    await both.one.reconcile(KEY)
    for _ in range(2):
        await both.two.reconcile(KEY)
        both.two.forget(KEY)

    assert both.said.said == [("Warning", "WatchedElsewhere")] * 2
