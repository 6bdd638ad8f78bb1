"""Two operators that see the same WatchedCluster: one watches it, the other says so and waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_recovery.kube.clusters import clusters as module
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.machinery.metrics import labelled
from kafka_recovery.kube.machinery.work_queue import Requeue
from kafka_recovery.kube.resources.kinds import CLUSTERS, watched_by
from kafka_recovery.kube.resources.watched_by import ClaimTimes, Places
from unit.kube.clusters.watched import SilentKafka, Watched
from unit.kube.our_objects import PROD, OurObjects, inhabited

ONE, TWO = ("one", "operator"), ("two", "operator")
TIMES = ClaimTimes()
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Two:
    """Two operators with a Lease each, or processes of one operator, on one clock."""

    def __init__(self) -> None:
        self.api = inhabited()
        self.now = timedelta(0)
        self.one, self.two = self.operator(ONE), self.operator(TWO)

    def operator(self, lease: tuple[str, str] | None) -> Watched:
        return Watched(self.api, Places(lease, monotonic=lambda: self.now))

    @property
    def raw(self) -> Object:
        return self.api.objects[CLUSTERS.path(*PROD)]

    @property
    def holder(self) -> tuple[str, str] | None:
        return watched_by(self.raw["status"])

    async def looks(self, who: Watched, lasts: timedelta, each: timedelta = TIMES.look) -> None:
        """It looks at the cluster again and again for so long."""
        until = self.now + lasts
        while self.now < until:
            self.now += each
            await who.settle(PROD)

    def renew(self) -> None:
        """The holder has written anew."""
        self.raw["status"]["watchedBy"]["renewed"] = f"{NOON + self.now:%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
async def both(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Two]:
    monkeypatch.setattr(module, "KafkaCluster", SilentKafka)
    made = Two()
    yield made
    await made.one.all.stop()
    await made.two.all.stop()


async def test_who_watches_a_cluster_says_where_its_lease_lies(both: Two) -> None:
    await both.one.settle(PROD)

    told = both.raw["status"]["watchedBy"]
    assert (told["namespace"], told["name"]) == ONE
    assert datetime.now(UTC) - datetime.fromisoformat(told["renewed"]) < timedelta(minutes=1)


async def test_it_is_written_down_before_anything_is_opened(both: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    class Noting(SilentKafka):
        def __init__(self, *_: object, **__: object) -> None:
            seen.append(both.holder)

    monkeypatch.setattr(module, "KafkaCluster", Noting)
    await both.one.settle(PROD)

    assert seen == [ONE]


async def test_another_operator_leaves_it_alone_says_so_once_and_writes_no_status(both: Two) -> None:
    await both.one.settle(PROD)
    before, written = dict(both.raw["status"]), len(both.api.statuses)

    await both.looks(both.two, TIMES.stale - TIMES.look)

    assert (both.two.acting(), both.raw["status"], len(both.api.statuses)) == ([], before, written)
    assert both.two.events.said == [("Warning", "WatchedElsewhere")]
    assert await both.two.all.reconcile(PROD) == TIMES.look
    problem = both.two.all.elsewhere(PROD)
    assert problem
    assert problem.message.startswith("the operator whose Lease is one/operator watches it; end that operator")
    watching = both.two.metrics.registry.get_sample_value("kafka_recovery_watching", labelled("/".join(PROD)))
    assert watching == 0


async def test_what_is_wrong_with_it_is_told_by_the_one_that_watches(both: Two) -> None:
    await both.one.settle(PROD)
    both.api.change(CLUSTERS, "prod", authority="All")
    written = len(both.api.statuses)

    await both.two.settle(PROD)

    assert len(both.api.statuses) == written


async def test_who_may_not_list_clusters_says_nothing_of_one_that_another_watches(
    both: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage of the API server a 403 may only mean that its rules are not loaded yet."""
    await both.one.settle(PROD)
    written = len(both.api.statuses)

    async def forbidden(path: str, **_: object) -> list[Object]:
        raise ApiError(403, "Forbidden", "not yet", path)

    monkeypatch.setattr(both.api, "list_all", forbidden)
    await both.two.settle(PROD)

    assert (both.holder, len(both.api.statuses)) == (ONE, written)


async def test_one_that_is_renewed_is_never_taken_over(both: Two) -> None:
    await both.one.settle(PROD)
    for _ in range(10):
        await both.looks(both.two, TIMES.renew)
        both.renew()

    assert (both.holder, both.two.acting()) == (ONE, [])


async def test_one_that_is_renewed_no_more_is_taken_over(both: Two) -> None:
    await both.one.settle(PROD)

    await both.looks(both.two, TIMES.stale + 2 * TIMES.look)

    assert (both.holder, both.two.acting(), both.two.all.elsewhere(PROD)) == (TWO, [PROD], None)
    assert PROD in both.two.woken, "its recoveries wait for that"


async def test_what_happened_while_nobody_looked_does_not_count(both: Two) -> None:
    """The API server was away: the other could not write either."""
    await both.one.settle(PROD)
    await both.two.settle(PROD)

    both.now += timedelta(hours=1)
    await both.looks(both.two, TIMES.stale - TIMES.look)

    assert (both.holder, both.two.acting()) == (ONE, [])


async def test_it_is_renewed_as_well_while_the_first_look_lasts(both: Two) -> None:
    """What was told before is not taken back meanwhile, and so no status is written."""
    await both.one.settle(PROD)
    await both.one.all.stop()
    well = {"type": "Ready", "status": "True", "reason": "AsExpected", "message": "it is looked at"}
    both.raw["status"] |= {"conditions": [well]}
    both.raw["status"]["watchedBy"]["renewed"] = f"{NOON:%Y-%m-%dT%H:%M:%SZ}"
    again = both.operator(ONE)

    await again.settle(PROD)

    assert both.raw["status"]["conditions"] == [well]
    assert datetime.fromisoformat(both.raw["status"]["watchedBy"]["renewed"]) > NOON
    await again.all.stop()


async def test_who_was_taken_for_gone_and_is_not_leaves_it_as_by_a_crash(both: Two) -> None:
    await both.one.settle(PROD)
    both.one.at_work = True
    await both.looks(both.two, TIMES.stale + 2 * TIMES.look)
    written = len(both.api.statuses)
    both.one.woken.clear()

    await both.one.settle(PROD)

    assert (both.one.acting(), both.holder, len(both.api.statuses)) == ([], TWO, written)
    assert PROD in both.one.woken, "its runs end"


async def test_of_two_that_find_it_free_one_gets_it(both: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other has read it already when the first writes."""
    api = both.api
    plain = OurObjects.apply_status

    async def second(path: str, seen: Object, status: Any) -> Object:
        monkeypatch.setattr(api, "apply_status", lambda *args: plain(api, *args))
        await both.two.settle(PROD)
        return await plain(api, path, seen, status)

    monkeypatch.setattr(api, "apply_status", second)
    with pytest.raises(Requeue):
        await both.one.all.reconcile(PROD)

    await both.one.settle(PROD)
    assert (both.holder, both.one.acting(), both.two.acting()) == (TWO, [], [PROD])


async def test_who_has_no_lease_claims_nothing_and_leaves_to_others_what_is_theirs(both: Two) -> None:
    alone = both.operator(None)
    await alone.settle(PROD)
    assert (alone.acting(), both.holder) == ([PROD], None)
    await alone.all.stop()
    await both.one.settle(PROD)
    late = both.operator(None)

    await late.settle(PROD)

    assert late.acting() == []


@pytest.mark.parametrize(
    ("renewed", "becomes"),
    [
        ("2026-11-21T11:59:31Z", "2026-11-21T11:59:31Z"),
        ("2026-11-21T11:59:30Z", "2026-11-21T12:00:00Z"),
        ("2026-11-21T12:00:01Z", "2026-11-21T12:00:00Z"),
        ("yesterday", "2026-11-21T12:00:00Z"),
        ("2026-11-21T11:59:31", "2026-11-21T12:00:00Z"),
        (None, "2026-11-21T12:00:00Z"),
    ],
)
def test_a_place_is_renewed_when_it_is_old_or_not_of_this_clock(renewed: object, becomes: str) -> None:
    old = {"watchedBy": {"namespace": "one", "name": "operator", "renewed": renewed}}

    assert Places(ONE).claiming({}, old, NOON)["watchedBy"]["renewed"] == becomes


def test_a_young_place_of_another_is_not_taken_for_ours() -> None:
    old = {"watchedBy": {"namespace": "two", "name": "operator", "renewed": "2026-11-21T11:59:59Z"}}

    assert Places(ONE).claiming({}, old, NOON)["watchedBy"] == {
        "namespace": "one",
        "name": "operator",
        "renewed": "2026-11-21T12:00:00Z",
    }


@pytest.mark.parametrize("told", [None, 5, {}, {"namespace": "one"}, {"namespace": "one", "name": 5}, []])
def test_what_is_no_place_is_nobody_s(told: object) -> None:
    assert watched_by({"watchedBy": told}) is None
