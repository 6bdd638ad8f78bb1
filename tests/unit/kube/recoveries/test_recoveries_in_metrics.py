"""What Prometheus is told of recoveries: how many are open and stuck, and how long one took since it went offline."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kafka_recovery.domain.ids import LeaderEpoch, TopicId
from kafka_recovery.kube.machinery.metrics import labelled
from kafka_recovery.kube.resources.kinds import POLICIES, RECOVERIES
from kafka_recovery.kube.resources.operator_switch import OperatorSwitch
from kafka_recovery.kube.watching.outages import Outage
from kafka_recovery.recovery.supervision import Authority
from unit.kube.journal.journals import NAME
from unit.kube.office import Office, named_twice
from unit.kube.our_objects import PROD
from unit.recovery.world import ORDERS

LABEL = "/".join(PROD)


def shown(office: Office, name: str, **labels: str) -> float:
    found = office.metrics.registry.get_sample_value(f"kafka_recovery_{name}", labelled(LABEL) | labels)
    assert found is not None, f"{name} is not shown"
    return found


async def test_the_time_counts_from_when_the_first_partition_was_seen_offline(office: Office) -> None:
    """Patience, and whatever else came before the recovery was opened, are time without a leader as well."""
    cluster = office.open()
    cluster.watcher.sees_offline(Outage(ORDERS, TopicId("id"), LeaderEpoch(5)))  # type: ignore[attr-defined]
    cluster.watcher.view = replace(cluster.watcher.view, at=timedelta(days=10_000))
    office.see()
    await office.until("Recovered")

    took = shown(office, "recovery_seconds_sum", outcome="Recovered")

    assert took == pytest.approx(timedelta(days=10_000).total_seconds(), abs=60)


async def test_without_a_watcher_that_saw_it_the_time_counts_from_the_recoverys_own_beginning(office: Office) -> None:
    made = datetime.fromisoformat(office.api.recovery()["metadata"]["creationTimestamp"])

    office.takes_up()
    await office.until("Recovered")

    age = (datetime.now(UTC) - made).total_seconds()

    assert shown(office, "recovery_seconds_sum", outcome="Recovered") == pytest.approx(max(age, 0), abs=60)


async def test_who_only_observed_before_a_restart_is_never_taken_for_at_work(office: Office) -> None:
    """An alert begins to wait anew when it is taken back for a moment."""
    office.switch = OperatorSwitch(Authority.OBSERVE)

    office.takes_up()
    await office.until("ObserveOnly")
    await office.all.stop()
    again = Office(office.world, office.api)
    again.switch = office.switch
    seen: set[float] = set()
    tell_of = again.metrics.recoveries_open

    def told(cluster: str, count: int, stuck: int = 0, idle: int = 0) -> None:
        seen.add(idle)
        tell_of(cluster, count, stuck, idle)

    again.metrics.recoveries_open = told  # type: ignore[method-assign]
    again.takes_up()
    await asyncio.sleep(20)

    assert seen == {1}


async def test_who_can_not_even_be_taken_up_is_stuck(office: Office) -> None:
    whole = office.api.recovery()["spec"]["scope"]
    named_twice(office)

    office.takes_up()
    await office.until("InvalidSpec")
    assert [shown(office, f"{which}_recoveries") for which in ("open", "stuck", "idle")] == [1, 1, 1]
    office.api.change(RECOVERIES, NAME, scope=whole)
    office.see()
    await office.until("Recovered")
    await asyncio.sleep(1)

    assert [shown(office, f"{which}_recoveries") for which in ("open", "stuck", "idle")] == [0, 0, 0]


async def test_who_goes_no_further_by_himself_is_shown_while_he_is_open(office: Office) -> None:
    office.api.change(POLICIES, "rules", limits={"brokersDownPercent": 100})
    office.world.kafka.fence(2)
    office.world.kafka.fence(3)

    office.takes_up()
    await office.until("NoCandidate")
    assert (shown(office, "open_recoveries"), shown(office, "stuck_recoveries")) == (1, 1)
    office.abort()
    await office.until("Aborted")
    await asyncio.sleep(1)

    assert (shown(office, "open_recoveries"), shown(office, "stuck_recoveries")) == (0, 0)


async def test_what_a_second_plan_asks_about_is_counted_as_asked_about_and_not_as_refused(
    asking_office: Office,
) -> None:
    """The same numbers in the status and in the metrics."""
    first = (await asking_office.asks())["plan"]["digest"]
    asking_office.world.kafka.partitions[ORDERS].ends[3] = 40
    asking_office.api.change(POLICIES, "rules", limits={"waveSizes": [1]})  # so that the plan is looked at again
    asking_office.changed()
    status = await asking_office.another_plan(first)
    asking_office.changed()
    await asyncio.sleep(70)

    counts = {where: number for where, number in status["partitions"].items() if number}
    assert counts == {"total": 1, "offline": 1, "awaitingApproval": 1}
    assert "refusals" not in status
    assert shown(asking_office, "recovery_partitions", state="awaitingApproval") == 1
    assert shown(asking_office, "recovery_partitions", state="refused") == 0
