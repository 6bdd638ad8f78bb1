"""Watched clusters that change while they are open: who hears of it, and two that are one and the same Kafka."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_recovery.domain.ids import LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters import clusters as module
from kafka_recovery.kube.clusters import opening
from kafka_recovery.kube.clusters.cant_open import secret_missing
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.clusters.opening import Earlier
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, RECOVERIES
from kafka_recovery.kube.watching.outages import Outage, left_offline
from unit.kube.clusters.keeping import NothingToKeep
from unit.kube.clusters.watched import SilentKafka, Watched, loses_its_secret
from unit.kube.journal.journals import NAMESPACE
from unit.kube.our_objects import PROD
from unit.recovery.brokers import CLUSTER

COPY = (PROD[0], "copy-of-prod")


def copied(watched: Watched) -> None:
    """Somebody applies the manifest once more, under another name."""
    watched.api.pass_time(timedelta(hours=1))
    watched.api.put(CLUSTERS, COPY[1], watched.api.objects[CLUSTERS.path(*PROD)]["spec"])
    for each in (PROD, COPY):
        confirmed(watched, each)


def confirmed(watched: Watched, key: tuple[str, str]) -> None:
    """The Kafka behind it has said that it is the one that it names."""
    watched.api.objects[CLUSTERS.path(*key)]["status"] |= {"clusterId": CLUSTER}


def begun(watched: Watched) -> Object:
    """Its recovery may have altered orders."""
    recovery = watched.api.recovery()
    recovery["metadata"]["finalizers"] = [FINALIZER]
    recovery["status"] = {"begun": {"recoveryUid": recovery["metadata"]["uid"], "plans": ["ab" * 32]}}
    return recovery


@pytest.mark.parametrize("fields", [{"suspend": True}, {"authority": "Observe"}, {"policyRef": None}], ids=str)
async def test_recoveries_hear_at_once_that_something_else_is_wanted_of_their_cluster(
    watched: Watched, fields: dict[str, Any]
) -> None:
    await watched.settle(PROD)
    watched.api.change(CLUSTERS, "prod", **fields)
    watched.woken.clear()

    await watched.settle(PROD)

    assert PROD in watched.woken
    watched.woken.clear()
    await watched.settle(PROD)
    assert watched.woken == [], "nothing changed since"


async def test_of_two_with_the_same_kafka_the_older_acts_and_both_say_so(watched: Watched) -> None:
    copied(watched)

    await watched.settle(COPY, PROD)  # the younger one first, as may be after a restart

    assert watched.acting() == [PROD]
    young, why = watched.all.get(COPY), watched.ready(COPY)
    assert isinstance(young, Reason)
    assert why == (young.code, young.message) == ("DuplicateCluster", young.message)
    assert watched.ready(PROD)[0] == "DuplicateCluster"
    assert "kafka/copy-of-prod" in watched.ready(PROD)[1]
    assert "kafka/prod, which is older" in why[1]
    assert watched.events.said.count(("Warning", "DuplicateCluster")) == 2


async def test_two_that_name_a_kafka_which_none_has_seen_only_look_until_one_of_them_has(watched: Watched) -> None:
    """The other one may belong to somebody who only names it."""
    copied(watched)
    for each in (PROD, COPY):
        watched.api.objects[CLUSTERS.path(*each)]["status"] = {}
    await watched.settle(PROD, COPY)
    looking = {each.key: each.only_restores for each in watched.all.open()}
    assert looking.keys() == {PROD, COPY}
    assert {each and each.code for each in looking.values()} == {"DuplicateCluster"}
    assert watched.all.policy(PROD) is None, "no incident is opened"

    confirmed(watched, COPY)
    await watched.settle(COPY)

    (acting,) = watched.all.open()
    assert (acting.key, acting.only_restores) == (COPY, None)
    assert watched.ready(PROD)[0] == "DuplicateCluster"


async def test_the_younger_waits_until_no_recovery_of_the_older_may_have_altered_orders(watched: Watched) -> None:
    copied(watched)
    await watched.settle(PROD, COPY)
    begun(watched)
    await watched.api.delete(CLUSTERS.path(*PROD))

    await watched.settle(PROD)

    assert watched.acting() == []
    code, why = watched.ready(COPY)
    assert (code, "PartitionRecovery kafka/prod-1f0c9a2b7d of WatchedCluster prod" in why) == ("DuplicateCluster", True)
    watched.api.recovery()["metadata"]["finalizers"] = []
    await watched.settle(COPY)
    assert watched.acting() == [COPY]


async def test_the_younger_waits_for_no_recovery_of_the_older_that_has_ended(watched: Watched) -> None:
    """Its finalizer may still be there: that goes last."""
    copied(watched)
    await watched.settle(PROD, COPY)
    begun(watched)["status"] |= {"finished": True, "outcome": "Failed"}
    await watched.api.delete(CLUSTERS.path(*PROD))

    await watched.settle(PROD, COPY)

    assert watched.acting() == [COPY]


@pytest.mark.parametrize("status", [{}, {"begun": {"recoveryUid": "of-an-earlier-one", "plans": ["ab" * 32]}}])
async def test_a_finalizer_that_anybody_may_have_written_keeps_no_cluster_closed(
    watched: Watched, status: Object
) -> None:
    """Whoever may create recoveries may write our finalizer as well, and name any Kafka."""
    foreign = watched.api.recovery()
    foreign["metadata"]["finalizers"] = [FINALIZER]
    foreign["spec"]["clusterRef"] = {"name": "no-such-cluster"}
    foreign["status"] = status

    await watched.settle(PROD)

    assert watched.acting() == [PROD]


async def test_a_cluster_that_is_opened_knows_which_recoveries_have_begun_and_which_only_say_so(
    watched: Watched,
) -> None:
    recovery = begun(watched)
    watched.api.put(RECOVERIES, "forged", recovery["spec"], {}, finalizers=[FINALIZER])

    await watched.settle(PROD)

    (cluster,) = watched.all.open()
    assert set(cluster.begun) == {recovery["metadata"]["name"]}
    assert set(cluster.untaken) == {recovery["metadata"]["name"], "forged"}


async def test_only_recoveries_of_the_cluster_that_is_opened_are_read_with_all_their_partitions(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may have 20,000, which takes a while, and in other namespaces anybody may make hundreds."""
    own = watched.api.recovery()
    for name, other in {
        "of-another-kafka": {"clusterId": "x" * 22},
        "of-a-copy": {"clusterRef": {"name": COPY[1]}},
    }.items():
        watched.api.put(RECOVERIES, name, own["spec"] | other)
    read = []
    monkeypatch.setattr(opening, "read_recovery", lambda raw: read.append(raw["metadata"]["name"]))

    await watched.settle(PROD)

    (cluster,) = watched.all.open()
    assert (read, list(cluster.untaken)) == ([own["metadata"]["name"]],) * 2


async def test_what_a_person_ended_under_the_older_is_left_alone_by_the_younger(watched: Watched) -> None:
    copied(watched)
    left = Outage(TopicPartition("orders", 0), TopicId("orders-id"), LeaderEpoch(7))
    ended = {"finished": True, "outcome": "RefusedByApprover", "leftOffline": left_offline([left])}
    watched.api.put(RECOVERIES, "ended", watched.api.recovery()["spec"], ended)
    await watched.settle(PROD, COPY)
    await watched.api.delete(CLUSTERS.path(*PROD))

    await watched.settle(PROD)

    (copy,) = watched.all.open()
    assert (copy.key, set(copy.watcher.holding_back())) == (COPY, {"ended"})


def test_a_recovery_of_another_namespace_is_called_by_both_of_its_names(watched: Watched) -> None:
    earlier = Earlier.of(watched.api.recovery(), PROD)
    assert [earlier.name_in(place) for place in (NAMESPACE, "other")] == [
        "prod-1f0c9a2b7d", "kafka/prod-1f0c9a2b7d",
    ]  # fmt: skip


async def test_a_secret_that_is_gone_for_a_moment_ends_no_cool_down(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watched.settle(PROD)
    before = watched.all.open()[0]
    before.cool_down.elected("first")
    with monkeypatch.context() as gone:
        gone.setattr(module, "way_in", loses_its_secret)
        await watched.settle(PROD)
        assert "Secret ca is not there" in watched.ready(PROD)[1]
        assert watched.ready(PROD)[0] == "InvalidReference"

    await watched.settle(PROD)

    (after,) = watched.all.open()
    assert after is not before
    assert after.cooling("second", timedelta(minutes=10)) is not None


async def test_recoveries_of_a_cluster_that_is_not_open_hear_what_keeps_it_closed_now(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = [secret_missing("ca", None, "spec.tls.caSecretRef")]

    async def lacks(*arguments: object) -> None:
        raise missing[-1]

    monkeypatch.setattr(module, "way_in", lacks)
    await watched.settle(PROD, PROD)
    first = watched.woken.copy()
    missing.append(secret_missing("user", None, "spec.sasl.passwordSecretRef"))
    await watched.settle(PROD)
    second = watched.woken.copy()
    watched.api.remove(CLUSTERS, "prod")
    await watched.settle(PROD)

    assert (first, second, watched.woken) == ([PROD], [PROD] * 2, [PROD] * 3)


async def test_an_event_tells_each_reference_that_leads_nowhere_once(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = secret_missing("ca", None, "spec.tls.caSecretRef")

    async def lacks(*arguments: object) -> None:
        raise missing

    monkeypatch.setattr(module, "way_in", lacks)
    await watched.settle(PROD, PROD)
    first = watched.events.said.copy()
    missing = secret_missing("user", None, "spec.sasl.passwordSecretRef")
    await watched.settle(PROD, PROD)

    assert (first, watched.events.said) == ([("Warning", "InvalidReference")], [("Warning", "InvalidReference")] * 2)


@pytest.mark.parametrize("what", ["WatchedCluster", "Secret"])
async def test_what_is_gone_in_the_middle_of_a_wave_is_closed_once_its_orders_are_restored(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    await watched.settle(PROD)
    (cluster,) = watched.all.open()
    watched.at_work = True
    if what == "Secret":
        monkeypatch.setattr(module, "way_in", loses_its_secret)
    else:
        watched.api.remove(CLUSTERS, "prod")
    watched.woken.clear()

    await watched.settle(PROD)
    assert (watched.all.get(PROD), watched.woken) == (cluster, [PROD])
    assert watched.all.policy(PROD) is None, "nothing new is begun"

    watched.at_work = False
    await watched.settle(PROD)
    assert watched.all.open() == ()


async def test_a_secret_that_comes_back_in_the_middle_of_a_wave_lets_recoveries_elect_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watched.settle(PROD)
    (cluster,) = watched.all.open()
    watched.at_work = True
    with monkeypatch.context() as gone:
        gone.setattr(module, "way_in", loses_its_secret)
        await watched.settle(PROD)
    told = cluster.only_restores
    assert told is not None

    await watched.settle(PROD)

    assert watched.all.get(PROD) is cluster, "the connection is the same"
    assert cluster.only_restores is None


async def test_a_restart_takes_nothing_back_of_what_was_told_and_seen(watched: Watched) -> None:
    told = {
        "clusterId": CLUSTER,
        "observedGeneration": 1,
        "brokerStates": [{"id": 1, "state": "Fenced", "since": "2026-11-21T11:00:00Z", "incarnation": 4}],
        "offlinePartitions": 3,
        "lastAutomaticElection": {"at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "recoveryUid": "first"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "AsExpected"}],
    }
    watched.api.objects[CLUSTERS.path(*PROD)]["status"] = dict(told)

    await watched.settle(PROD)

    (cluster,) = watched.all.open()
    assert watched.api.objects[CLUSTERS.path(*PROD)]["status"] == told
    assert (watched.events.said, cluster.incarnations) == ([], {1: 4})
    assert cluster.cooling("second", timedelta(minutes=10)) is not None


async def test_when_the_older_goes_the_younger_acts(watched: Watched) -> None:
    copied(watched)
    await watched.settle(PROD, COPY)
    watched.api.remove(CLUSTERS, "prod")

    await watched.settle(PROD)

    assert watched.acting() == [COPY]
    assert watched.ready(COPY)[0] != "DuplicateCluster"
    assert isinstance(watched.all.get(COPY), OpenCluster)


async def test_when_the_younger_goes_the_older_says_nothing_of_it_any_more(watched: Watched) -> None:
    copied(watched)
    await watched.settle(PROD, COPY)
    watched.api.remove(CLUSTERS, COPY[1])

    await watched.settle(COPY)

    assert (watched.acting(), watched.ready(PROD)[0]) == ([PROD], "Connecting")


async def test_one_that_cannot_be_understood_is_in_nobody_s_way(watched: Watched) -> None:
    copied(watched)
    await watched.settle(PROD, COPY)
    watched.api.change(CLUSTERS, "prod", authority="All")

    await watched.settle(PROD)

    assert (watched.acting(), watched.ready(PROD)[0]) == ([COPY], "InvalidSpec")


class ReadingKafka(NothingToKeep, SilentKafka):
    """Its metadata log can't be read, and then it can."""

    problem: Reason | None = Reason("MetadataLogUnavailable", "no controller told the metadata log")

    async def read_metadata_log(self, *_: object) -> Reason | None:
        return type(self).problem


async def test_recoveries_hear_at_once_that_there_is_more_to_prove(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KafkaCluster", ReadingKafka)
    monkeypatch.setattr(ReadingKafka, "problem", ReadingKafka.problem)
    watched.api.change(CLUSTERS, "prod", controllers={"bootstrapServers": ["controller-0:9093"]})
    await watched.settle(PROD)
    cluster = watched.all.get(PROD)
    assert isinstance(cluster, OpenCluster)
    cluster.history.pause = timedelta(0)
    assert cluster.task is not None
    cluster.task.cancel()  # what the watcher sees wakes them as well
    while cluster.history.problem != ReadingKafka.problem:
        await asyncio.sleep(0)
    assert watched.known() == 0
    watched.woken.clear()

    monkeypatch.setattr(ReadingKafka, "problem", None)
    while cluster.history.problem is not None:
        await asyncio.sleep(0)

    assert watched.woken == [PROD]
    assert watched.known() == 1
    assert PROD in watched.queue, "its status says so"
