"""Taking recoveries up and letting them go: scope and claims, what holds incidents back, and what is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import LeaderEpoch, TopicId
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import Conflict, Object
from kafka_recovery.kube.recoveries.status_writer import with_card
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, RECORDS, RECOVERIES
from kafka_recovery.kube.watching.outages import Outage, left_offline
from unit.kube.journal.journals import NAME, NAMESPACE, PLACE, begin, engine, journal_of
from unit.kube.office import HOUR, RULES, Office, Seen, all_offline, named_twice
from unit.kube.office import Told as Events
from unit.kube.our_objects import PROD, OurObjects
from unit.recovery.brokers import CLUSTER, Crash
from unit.recovery.world import MANUAL, ORDERS, PAYMENTS, crash

# To the end


async def test_a_good_end_says_what_is_not_good_about_it(office: Office) -> None:
    office.world.kafka.partitions[ORDERS].min_isr = 2

    office.takes_up()
    status = await office.until("Recovered")

    assert status["conditions"][0]["message"] == (
        "1 of 1 partitions have a leader that answered itself; 1 were elected uncleanly; 1 had fewer than "
        "min.insync.replicas in sync: acks=all fails there"
    )


async def test_a_good_end_says_that_a_member_leads_after_an_election_that_was_held(office: Office) -> None:
    """The designated leader is followed at once by one that was in sync before: what it alone held is deleted."""
    kafka = office.world.kafka

    def member_leads() -> None:
        kafka.start(1)
        kafka.elect_uncleanly(ORDERS, 1)

    office.world.after("elect", member_leads)

    office.takes_up()
    status = await office.until("Recovered")

    message = status["conditions"][0]["message"]
    assert "1 are led by a member of the ISR or ELR, after an election that was, or may be, unclean" in message


async def test_a_restart_is_no_turn(asking_office: Office) -> None:
    before = await asking_office.asks()
    await asking_office.all.stop()
    again = Office(asking_office.world, asking_office.api)
    again.takes_up()
    await asyncio.sleep(5)
    after = again.status()
    again.answer(after["plan"]["digest"])
    await again.until("Recovered")
    said = again.events.said

    assert after["conditions"] == before["conditions"]
    assert ("Normal", "Planning") not in said
    assert ("Normal", "AwaitingApproval") not in said


async def test_who_is_suspended_is_never_told_that_replicas_are_being_asked(office: Office) -> None:
    office.api.change(RECOVERIES, NAME, suspend=True)

    office.takes_up()
    status = await office.until("Suspended")
    await asyncio.sleep(5)

    assert [why for _, why in office.events.said] == ["Suspended"]
    assert "partitions" not in status, "the first word needs no journal"
    assert office.status()["partitions"]["total"] == 1


async def test_that_it_is_suspended_does_not_hide_what_a_person_has_to_mend(office: Office) -> None:
    office.api.change(RECOVERIES, NAME, suspend=True)
    recovery = office.api.recovery()
    recovery["metadata"]["finalizers"] = [FINALIZER]
    recovery["status"] = {"begun": {"recoveryUid": recovery["metadata"]["uid"], "plans": ["0" * 64]}}

    office.takes_up()
    await office.until("JournalDamaged")

    assert office.condition("Stalled")[0] == "True"
    assert "it is missing, though status.begun names its plan" in office.message()


async def test_what_kept_it_from_being_taken_up_is_not_told_any_longer_than_it_holds(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stall(*_: object) -> None:
        await asyncio.Event().wait()

    office.clusters.known[PROD] = Reason("InvalidReference", "Secret ca is not there")
    monkeypatch.setattr(office.world.kafka, "gather", stall)

    office.see()
    await office.until("InvalidReference")
    assert office.message() == "Secret ca is not there", "and not that there is no WatchedCluster, nor nothing at all"
    office.open()
    await asyncio.sleep(20)

    assert office.reason() == "Planning"


async def test_a_status_from_a_backup_shows_its_plan_no_longer_than_it_takes_to_read_the_journal(
    asking_office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stall(*_: object) -> None:
        await asyncio.Event().wait()

    await asking_office.asks()
    await asking_office.all.stop()
    for name in asking_office.api.records():
        del asking_office.api.objects[f"{PLACE}/{name}"]
    monkeypatch.setattr(asking_office.world.kafka, "gather", stall)
    again = Office(asking_office.world, asking_office.api)
    again.takes_up()
    await asyncio.sleep(5)
    status = again.status()

    assert "plan" not in status
    assert next(each["reason"] for each in status["conditions"] if each["type"] == "Ready") == "Planning"


async def test_a_finished_recovery_holds_nothing_though_the_answer_to_its_last_status_was_lost(
    asking_office: Office,
) -> None:
    """The write is tried again, meets its own first try, and the next look finds the object finished."""

    class Losing(OurObjects):
        async def apply_status(self, path: str, seen: Object, status: Mapping[str, Any]) -> Object:
            done = await OurObjects.apply_status(self, path, seen, status)
            if status.get("finished"):
                raise Conflict(409, "Conflict", "it has been modified", path)
            return done

    asking_office.api.__class__ = Losing

    await asking_office.asks()
    asking_office.abort()
    await asking_office.until("Aborted")
    await asyncio.sleep(1)

    assert asking_office.all.claims(PROD) == {}


async def test_a_run_that_ends_while_an_event_is_said_is_not_begun_again(
    asking_office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    office = asking_office

    class Slow(Events):
        async def say(self, about: Mapping[str, Any], type: str, reason: str, action: str, note: str) -> None:
            if reason == "AwaitingApproval":
                office.answer(office.status()["plan"]["digest"])
                await asyncio.sleep(60)

    office.events.__class__ = Slow

    with caplog.at_level(logging.INFO):
        office.takes_up()
        await office.until("Recovered")

    assert [each.getMessage() for each in caplog.records].count(f"{ORDERS}: Recovered ") == 1


# What can't be taken up


async def test_a_recovery_that_cannot_be_read_says_why_and_holds_nothing_back(office: Office) -> None:
    named_twice(office)

    cluster = office.takes_up(untaken={NAME: datetime.now(UTC)})
    await office.until("InvalidSpec")
    await asyncio.sleep(1000)
    looks = len(office.looks)

    assert (office.condition("Stalled"), cluster.untaken, looks) == (("True", "InvalidSpec"), {}, 1)
    assert "named twice" in next(each["message"] for each in office.status()["conditions"])


async def test_a_missing_cluster_is_told_and_its_recovery_begins_when_it_comes(office: Office) -> None:
    raw = office.api.objects.pop(CLUSTERS.path(*PROD))

    office.see()
    await office.until("InvalidReference")
    assert office.events.said == [("Normal", "InvalidReference")], "it may come back"
    assert office.message() == "there is no WatchedCluster prod in namespace kafka"
    office.api.objects[CLUSTERS.path(*PROD)] = raw
    office.open()
    await office.until("Recovered", within=2)


async def test_a_cluster_that_is_not_open_yet_is_not_called_missing(office: Office) -> None:
    """After a restart recoveries may be looked at before their cluster is."""
    office.see()
    await asyncio.sleep(1)
    told = len(office.api.statuses)
    office.open()
    await office.until("Recovered", within=2)

    assert told == 0
    assert "InvalidReference" not in {reason for _, reason in office.events.said}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"clusterId": "another"}, "ClusterIdMismatch"), ({"clusterRef": {"name": "nowhere"}}, "InvalidReference")],
)
async def test_a_recovery_for_another_cluster_is_left_alone(
    office: Office, fields: dict[str, Any], reason: str
) -> None:
    office.api.change(RECOVERIES, NAME, **fields)

    office.takes_up()
    await office.until(reason)
    await asyncio.sleep(60)

    assert office.world.changed() == []
    assert office.condition("Stalled")[0] == ("True" if reason == "ClusterIdMismatch" else "False")


async def test_a_journal_that_was_tampered_with_stalls_it_and_holds_no_incident_back(office: Office) -> None:
    all_offline(office)

    plan = await engine(office.world, office.api).plan(Scope((ORDERS,)))
    await begin(journal_of(office.api), plan)
    for name, record in office.api.records().items():
        if name.endswith("-plan"):
            record["spec"]["sha256"] = "0" * 64
    cluster = office.takes_up(untaken={NAME: datetime.now(UTC)})
    await office.until("JournalDamaged")

    assert (office.condition("Stalled")[0], cluster.untaken, office.world.changed()) == ("True", {}, [])


# Events


async def test_whoever_is_asked_is_told_by_the_event_what_the_card_begins_with(asking_office: Office) -> None:
    asking_office.takes_up()
    status = await asking_office.until("AwaitingApproval")
    note = asking_office.events.notes["AwaitingApproval"]

    assert note.startswith(f"plan {status['plan']['digest'][:12]} waits for a RecoveryApproval; read it: kubectl ")
    offline, elects, asks = (
        note.index(each) for each in ("1 partition has no leader", "This plan would elect broker", "Can broker 1 be st")
    )
    assert offline < elects < asks
    assert "electing as planned may lose" in note.lower()


def test_an_event_has_whole_sentences_as_far_as_there_is_room() -> None:
    assert with_card(["Go.", "Stop."], "it waits") == "it waits. Go. Stop."
    assert with_card(["é" * 508 + ".", "Go."], "wait") == f"wait. {'é' * 508}."
    assert with_card(["é" * 510 + ".", "Go."], "wait") == "wait"


# Scope


async def test_all_offline_partitions_are_those_found_when_it_begins(asking_office: Office) -> None:
    asking_office.world.offline({3: 8, 4: 9}, PAYMENTS)
    all_offline(asking_office)

    cluster = asking_office.takes_up(found=(ORDERS,))
    status = await asking_office.until("AwaitingApproval")
    cluster.found = (ORDERS, PAYMENTS)
    asking_office.answer(status["plan"]["digest"])

    assert (await asking_office.until("Recovered"))["partitions"]["total"] == 1
    assert asking_office.world.leader(PAYMENTS) is None


async def test_after_a_restart_they_are_those_of_the_plans(asking_office: Office) -> None:
    all_offline(asking_office)
    asking_office.world.offline({3: 8, 4: 9}, PAYMENTS)

    plan = await engine(asking_office.world, asking_office.api, MANUAL).plan(Scope((ORDERS,)))
    digest = await journal_of(asking_office.api).record(plan)
    recovery = asking_office.api.recovery()
    asking_office.api.put(RECOVERIES, NAME, recovery["spec"], {"plan": {"digest": digest}})
    asking_office.takes_up(found=(PAYMENTS,))
    await asking_office.until("AwaitingApproval")

    assert list(asking_office.all.claims(PROD)) == [ORDERS]


async def crashed_in_a_wave(office: Office) -> None:
    """A process set an order, and ended before it could hold the election."""
    office.world.after("designate", crash)
    with suppress(Crash):
        await engine(office.world, office.api).recover(Scope((ORDERS,)))
    office.world.calm_down()
    office.world.steps.dead = False
    assert office.world.unrestored() == [ORDERS]


async def test_what_was_begun_is_gone_on_with_though_its_policy_is_missing_by_now(office: Office) -> None:
    all_offline(office)

    await crashed_in_a_wave(office)
    office.api.change(RECOVERIES, NAME, abort=True)
    office.takes_up(policy=Reason("InvalidReference", "there is no RecoveryPolicy rules"))
    await office.until("Aborted")

    assert office.world.unrestored() == []


async def test_an_election_that_nobody_was_asked_about_is_known_though_the_crash_came_before_its_status(
    office: Office,
) -> None:
    await crashed_in_a_wave(office)
    office.api.change(RECOVERIES, NAME, abort=True)  # nothing more is elected, then
    cluster = office.takes_up()
    await office.until("Aborted")

    assert cluster.cool_down.last is not None


async def test_where_nothing_is_offline_it_is_not_said_that_topics_were_deleted(office: Office) -> None:
    all_offline(office)

    office.takes_up(found=())

    assert "nothing was offline" in str((await office.until("NothingToRecover"))["conditions"])


async def test_a_long_scan_for_one_recovery_of_all_offline_keeps_no_other_waiting(asking_office: Office) -> None:
    all_offline(asking_office)
    asking_office.world.offline({3: 8, 4: 9}, PAYMENTS)

    asking_office.open(found=(ORDERS,), scanned_in=timedelta(seconds=50))
    others = [f"all-{number}" for number in range(6)]
    for name in others:
        asking_office.another(name)
        asking_office.api.change(RECOVERIES, name, scope={"allOffline": True})
    asking_office.another("named", PAYMENTS)
    for name in (NAME, *others, "named"):
        asking_office.see(name)

    assert (await asking_office.until("AwaitingApproval", "named", within=40))["partitions"]["total"] == 1


async def test_without_a_policy_all_offline_waits_for_one_and_is_not_called_recovered(office: Office) -> None:
    all_offline(office)
    missing = Reason("InvalidReference", "there is no RecoveryPolicy rules")

    cluster = office.takes_up(policy=missing, found=(ORDERS,))
    await office.until("InvalidReference")
    assert office.message() == missing.message
    cluster.policy = RULES
    office.changed()

    assert (await office.until("Recovered", within=3))["partitions"]["recovered"] == 1


async def test_a_kafka_that_cannot_be_gone_through_is_tried_again(office: Office) -> None:
    all_offline(office)

    cluster = office.takes_up(found=ClusterFault("nobody answers"))
    await office.until("ClusterFault")
    cluster.found = (ORDERS,)

    assert (await office.until("Recovered"))["partitions"]["recovered"] == 1


# What is left


LEFT = Outage(ORDERS, TopicId("orders-id"), LeaderEpoch(7))
ELSEWHERE = Outage(PAYMENTS, TopicId("payments-id"), LeaderEpoch(3))


async def test_what_an_aborted_recovery_leaves_offline_is_kept_in_its_status_and_left_alone(
    asking_office: Office,
) -> None:
    cluster = asking_office.open()
    seen = cast(Seen, cluster.watcher)
    seen.sees_offline(LEFT, ELSEWHERE)
    asking_office.see()
    await asking_office.until("AwaitingApproval")
    asking_office.abort()
    while not asking_office.status().get("finished"):
        await asyncio.sleep(0.1)
    status = await asking_office.until("Aborted")

    assert status["leftOffline"] == left_offline([LEFT]), "payments is another recovery's"
    assert seen.left_alone == {LEFT: NAME}


async def test_what_ends_before_the_cluster_was_seen_leaves_what_its_plan_had_seen(asking_office: Office) -> None:
    cluster = asking_office.open()
    assert cluster.watcher.view.scanned_at is None
    asking_office.see()
    await asking_office.until("AwaitingApproval")
    asking_office.abort()
    while not asking_office.status().get("finished"):
        await asyncio.sleep(0.1)
    (left,) = asking_office.status()["leftOffline"]

    assert (left["topic"], left["partitions"]) == (ORDERS.topic, [ORDERS.partition])


# Claims


async def test_the_oldest_recovery_has_a_partition_and_the_next_one_gets_it_when_that_ended(
    asking_office: Office,
) -> None:
    asking_office.world.offline({3: 8, 4: 9}, PAYMENTS)
    asking_office.another("later", ORDERS, PAYMENTS)

    asking_office.takes_up()
    asking_office.see("later")
    await asking_office.until("AwaitingApproval")
    await asking_office.until("AwaitingApproval", "later")
    claims = asking_office.all.claims(PROD)
    asking_office.abort()
    await asking_office.until("Aborted")
    await asyncio.sleep(1)

    assert asking_office.all.claims(PROD) == {ORDERS: "later", PAYMENTS: "later"}

    assert claims == {ORDERS: NAME, PAYMENTS: "later"}


async def test_an_older_recovery_that_comes_late_does_not_take_a_partition_out_of_a_younger_ones_hands(
    asking_office: Office,
) -> None:
    """Its own scan may have taken long. Two at once would take each other's temporary order for the original one."""
    asking_office.another("later", ORDERS)

    asking_office.open()
    asking_office.see("later")
    await asking_office.until("AwaitingApproval", "later")
    asking_office.see()
    await asking_office.until("InOtherRecovery")
    claims = asking_office.all.claims(PROD)
    asking_office.api.change(RECOVERIES, "later", abort=True)
    asking_office.see("later")
    await asking_office.until("AwaitingApproval")

    assert asking_office.all.claims(PROD) == {ORDERS: NAME}

    assert claims == {ORDERS: "later"}


@pytest.mark.parametrize("after", [HOUR, timedelta(0)], ids=["an hour later", "in the same second"])
async def test_a_younger_recovery_waits_until_all_older_ones_are_known(asking_office: Office, after: timedelta) -> None:
    """An older one may have altered the order of a partition that both have."""
    asking_office.another("x-later", ORDERS, after=after)
    made = datetime.fromisoformat(asking_office.api.recovery()["metadata"]["creationTimestamp"])

    asking_office.open(untaken={NAME: made, "x-later": made + after})
    asking_office.see("x-later")
    await asyncio.sleep(60)
    assert asking_office.all.claims(PROD) == {}
    asking_office.see()
    await asking_office.until("InOtherRecovery", "x-later", within=5)

    assert asking_office.all.claims(PROD) == {ORDERS: NAME}


async def restarted_beside_an_older_one(office: Office) -> None:
    """It crashed in a wave; the older recovery of the same partition has begun nothing."""
    await crashed_in_a_wave(office)
    office.another("older", ORDERS, after=-HOUR)
    made = datetime.fromisoformat(office.api.recovery("older")["metadata"]["creationTimestamp"])

    office.open(untaken={"older": made, NAME: made + HOUR}, begun=frozenset({NAME}))


async def test_after_a_restart_an_older_recovery_waits_for_a_younger_one_that_has_begun(office: Office) -> None:
    """It would take that one's temporary order for the original one, and keep it for good."""
    await restarted_beside_an_older_one(office)

    office.see("older")
    await asyncio.sleep(60)
    assert office.all.claims(PROD) == {}
    office.see()
    await office.until("Recovered")
    await office.until("Recovered", "older")

    assert office.world.kept_its_promises()


async def test_after_a_restart_what_was_begun_waits_for_no_older_recovery(office: Office) -> None:
    """Whoever may create recoveries could make one that nobody can take up."""
    await restarted_beside_an_older_one(office)

    office.see()
    await office.until("Recovered")

    assert office.world.kept_its_promises()


async def test_what_an_orphaned_journal_altered_is_not_planned_before_it_is_restored(office: Office) -> None:
    """Its present order would be taken for the original one, and kept for good."""
    plan = await engine(office.world, office.api).plan(Scope((ORDERS,)))
    lost = RecordJournal(cast(Any, office.api), NAMESPACE, "a-lost-one", "of-a-lost-one", CLUSTER)
    office.api.put_recovery(NAMESPACE, "a-lost-one", "of-a-lost-one")
    await begin(lost, plan)
    office.api.remove(RECOVERIES, "a-lost-one")
    cluster = office.takes_up()
    await office.until("InOtherRecovery")
    meanwhile = office.world.changed()
    for name in list(office.api.records()):
        if name.startswith("a-lost-one"):
            del office.api.objects[RECORDS.path(NAMESPACE, name)]
    await cluster.look_for_orphans(cast(Any, office.api))
    office.changed()
    await office.until("Recovered")

    assert meanwhile == []
