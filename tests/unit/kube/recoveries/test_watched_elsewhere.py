"""Recoveries of a WatchedCluster that another operator watches: that one alone works on them, and tells of them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.recoveries.pauses import GONE_WITHIN
from kafka_recovery.kube.resources.kinds import RECOVERIES
from unit.kube.office import Office, named_twice
from unit.kube.our_objects import KEY, PROD

ELSEWHERE = Reason("WatchedElsewhere", "the operator whose Lease is two/operator watches it")


async def test_nothing_is_said_of_one_and_once_the_cluster_is_ours_it_is_taken_up(office: Office) -> None:
    office.clusters.known[PROD] = ELSEWHERE
    office.see()
    await asyncio.sleep(timedelta(minutes=10).total_seconds())
    assert office.api.statuses == []

    office.open()

    await office.until("Recovered")


async def test_of_one_only_the_version_is_read_while_nothing_changes(office: Office) -> None:
    office.clusters.known[PROD] = ELSEWHERE
    office.see()
    await asyncio.sleep(1)
    office.api.reads.clear()
    await asyncio.sleep(GONE_WITHIN.total_seconds())

    assert office.api.reads == []
    assert set(office.api.versions_read) == {RECOVERIES.path(*KEY)}


async def test_nor_of_one_that_this_release_can_not_read(office: Office) -> None:
    named_twice(office)
    office.clusters.known[PROD] = ELSEWHERE
    office.see()
    await asyncio.sleep(timedelta(minutes=10).total_seconds())

    assert office.api.statuses == []


async def test_a_run_ends_without_a_word_when_another_operator_takes_over_and_that_one_goes_on(
    asking_office: Office,
) -> None:
    before = await asking_office.asks()
    other = Office(asking_office.world, asking_office.api)
    asking_office.clusters.known[PROD] = ELSEWHERE
    asking_office.changed()
    await asyncio.sleep(5)
    assert asking_office.all.claims(PROD) == {}
    written = len(asking_office.api.statuses)
    await asyncio.sleep(600)
    assert len(asking_office.api.statuses) == written

    other.takes_up()
    await other.until("AwaitingApproval")
    asking_office.answer(before["plan"]["digest"])
    other.answer(before["plan"]["digest"])

    await other.until("Recovered")
    assert ("Normal", "Recovered") not in asking_office.events.said
