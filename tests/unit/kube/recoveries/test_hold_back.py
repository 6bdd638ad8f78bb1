"""`holdBack: pods`: a dead broker's Pod is kept away while leaders are elected, and may come back when that is over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import HoldBack, Policy
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.kube.clusters.broker_pods import BrokerPods
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.machinery.metrics import labelled
from kafka_recovery.kube.recoveries.hold_back import PodHold, named_by
from kafka_recovery.kube.recoveries.open_recovery import held_by
from kafka_recovery.kube.resources.admission import HELD_PODS_POLICY
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, POLICIES, RECOVERIES
from unit.decision.incident import broker, dead, evidence, log, partition
from unit.kube.clusters import strimzi
from unit.kube.journal.journals import NAME, NAMESPACE
from unit.kube.office import Office
from unit.kube.our_objects import PROD, SILENT, OurObjects
from unit.kube.recoveries.holding import POD, PODS, WAKING, PodSet, dies, held_back, wakings
from unit.recovery.brokers import CLUSTER, Fate
from unit.recovery.world import World, crash
from unit.virtual import awaited


@pytest.fixture
def kubernetes() -> PodSet:
    return held_back()


@pytest.fixture
def office(world: World, kubernetes: PodSet) -> Office:
    return Office(world, kubernetes)


@pytest.fixture
def at_election(world: World, kubernetes: PodSet) -> list[tuple[bool, list[str]]]:
    """Whether the Pod was there when the first order was set, and what was held back then."""
    seen: list[tuple[bool, list[str]]] = []
    world.before("designate", lambda: seen.append((kubernetes.pod() is not None, kubernetes.held())))
    return seen


def not_held(office: Office) -> str:
    """Why the broker was not kept away."""
    (told,) = office.status()["holdBack"]["notHeld"]
    assert told["broker"] == 1
    message: str = told["message"]
    return message


def deletions(api: OurObjects) -> list[str]:
    return [what for what in api.writes if what.startswith(f"delete {PODS}")]


async def test_the_pod_is_gone_before_the_first_order_is_set_and_may_come_back_when_another_leads(
    office: Office, kubernetes: PodSet, at_election: list[tuple[bool, list[str]]]
) -> None:
    office.takes_up()
    status = await office.until("Recovered")

    assert at_election == [(False, [POD])]
    assert kubernetes.held() == []
    assert "holdBack" not in status
    assert [code for _, code in office.events.said if code.startswith("Pod")] == ["PodHeld", "PodLetGo"]
    assert kubernetes.pod()
    assert office.world.leader() == 2


async def test_it_is_named_in_the_status_before_it_is_deleted(office: Office, kubernetes: PodSet) -> None:
    """Else its controller would make it anew, and nobody would refuse that."""
    office.takes_up()
    await office.until("Recovered")

    deleted = kubernetes.writes.index(f"delete {PODS}/{POD}")
    named = [place for place, status in enumerate(kubernetes.statuses) if named_by(status)]
    assert named
    assert any(what.startswith("status") for what in kubernetes.writes[:deleted])
    assert deletions(kubernetes) == [f"delete {PODS}/{POD}"]


async def test_nobody_s_pod_is_touched_where_the_policy_does_not_ask_for_it(office: Office, kubernetes: PodSet) -> None:
    kubernetes.change(POLICIES, "rules", holdBack=None)

    office.takes_up()
    await office.until("Recovered")

    assert deletions(kubernetes) == []
    assert kubernetes.pod()


async def test_nothing_is_touched_before_a_person_has_approved(world: World, kubernetes: PodSet) -> None:
    kubernetes.change(POLICIES, "rules", rules=[{"name": "rule", "approval": "ManualApprove"}])
    office = Office(world, kubernetes)
    office.takes_up()
    await office.until("AwaitingApproval")
    assert deletions(kubernetes) == []

    kubernetes.approve(office.status()["plan"]["digest"])
    office.all.approval_seen((NAMESPACE, NAME))
    await office.until("Recovered")

    assert deletions(kubernetes) == [f"delete {PODS}/{POD}"]


async def test_a_pod_that_is_ready_is_never_deleted(
    office: Office, kubernetes: PodSet, at_election: list[tuple[bool, list[str]]]
) -> None:
    kubernetes.runs(ready=True, phase="Running")

    office.takes_up()
    await office.until("Recovered")

    assert deletions(kubernetes) == []
    assert at_election == [(True, [])]
    assert "Pod prod-brokers-1 of broker 1 is Ready" in not_held(office)
    assert ("Warning", "PodNotHeld") in office.events.said


async def test_a_pod_made_by_an_api_server_that_has_not_heard_of_the_hold_yet_is_deleted_once_more(
    office: Office, kubernetes: PodSet, at_election: list[tuple[bool, list[str]]]
) -> None:
    kubernetes.deaf = 1

    office.takes_up()
    await office.until("Recovered")

    assert len(deletions(kubernetes)) == 2
    assert at_election == [(False, [POD])]


async def test_a_pod_that_comes_again_and_again_is_not_called_held(
    office: Office, kubernetes: PodSet, at_election: list[tuple[bool, list[str]]]
) -> None:
    kubernetes.deaf = 100

    office.takes_up()
    await office.until("Recovered")

    assert len(deletions(kubernetes)) == 2
    assert at_election == [(True, [])]
    assert "was created again" in not_held(office)


async def test_one_that_is_being_stopped_is_held(
    office: Office, kubernetes: PodSet, at_election: list[tuple[bool, list[str]]]
) -> None:
    """On a node that is lost it stays so: nothing starts it again there."""
    kubernetes.lingers = True

    office.takes_up()
    await office.until("Recovered")

    assert at_election == [(True, [POD])]


@pytest.mark.parametrize(
    ("goes_wrong", "says"),
    [
        (lambda api: setattr(api, "refusing", lambda what: what.startswith(f"delete {PODS}")), "hold-back.yaml"),
        (lambda api: setattr(api, "unread", PODS), "can't be seen"),
        (lambda api: [api.objects.pop(at) for at in list(api.objects) if HELD_PODS_POLICY in at], "is not there"),
        (
            lambda api: api.change(CLUSTERS, "prod", strimziRef=None, bootstrapServers=["kafka:9092"]),
            "has no strimziRef",
        ),
    ],
    ids=["no right to delete", "Pods unseen", "no admission policy", "not Strimzi's"],
)
async def test_what_can_t_be_held_is_told_and_leaders_are_elected_all_the_same(
    office: Office, kubernetes: PodSet, goes_wrong: Any, says: str
) -> None:
    goes_wrong(kubernetes)

    office.takes_up()
    await office.until("Recovered")

    assert says in not_held(office)
    assert kubernetes.pod()
    assert office.world.leader() == 2


async def test_after_a_crash_between_the_status_and_the_deletion_the_next_process_deletes_it(
    office: Office, kubernetes: PodSet, world: World, at_election: list[tuple[bool, list[str]]]
) -> None:
    async def never(path: str, *, uid: str | None = None) -> None:
        await asyncio.Event().wait()

    kubernetes.delete, real = never, kubernetes.delete  # type: ignore[method-assign]
    office.takes_up()
    await awaited(kubernetes.held)
    await dies(office)
    kubernetes.delete = real  # type: ignore[method-assign]
    assert kubernetes.pod()

    again = Office(world, kubernetes)
    again.takes_up()
    await again.until("Recovered")

    assert at_election == [(False, [POD])]
    assert kubernetes.held() == []


async def test_it_stays_away_through_a_crash_in_the_middle_of_an_election(
    office: Office, kubernetes: PodSet, world: World
) -> None:
    hit = asyncio.Event()
    world.after("designate", hit.set)
    world.after("designate", crash)
    office.takes_up()
    async with asyncio.timeout(100):
        await hit.wait()
    await dies(office)
    assert kubernetes.held() == [POD]

    world.steps.dead = False
    again = Office(world, kubernetes)
    again.takes_up()
    await again.until("Recovered")

    assert kubernetes.held() == []
    assert len(deletions(kubernetes)) == 1


async def test_a_crash_before_it_was_let_go_lets_it_go_at_the_next_start(
    office: Office, kubernetes: PodSet, world: World
) -> None:
    """What the status of a recovery names that has begun nothing is let go first of all."""
    recovery = kubernetes.recovery()
    recovery["status"] = {"holdBack": {"pods": [{"name": "prod-brokers-9", "broker": 9}]}}
    kubernetes.change(POLICIES, "rules", holdBack=None)
    kubernetes.change(RECOVERIES, NAME, suspend=True)

    office.takes_up()
    await office.until("Suspended")
    await asyncio.sleep(5)

    assert kubernetes.held() == []


@pytest.mark.parametrize(("finalizers", "held"), [([], []), ([FINALIZER], ["prod-brokers-9"])])
async def test_a_recovery_whose_cluster_is_gone_keeps_nobody_away_unless_it_has_begun(
    office: Office, kubernetes: PodSet, finalizers: list[str], held: list[str]
) -> None:
    """Nobody works on it any more who would let go; one that has begun may be in the middle of an election."""
    recovery = kubernetes.recovery()
    recovery["status"] = {"holdBack": {"pods": [{"name": "prod-brokers-9", "broker": 9}]}}
    recovery["metadata"]["finalizers"] = finalizers
    kubernetes.remove(CLUSTERS, "prod")

    office.see()
    await office.until("InvalidReference")
    assert office.message().startswith("there is no WatchedCluster prod")

    assert kubernetes.held() == held
    await asyncio.sleep(5)
    assert wakings(kubernetes) == ([] if held else [WAKING])
    await dies(office)


@pytest.mark.parametrize("ends", ["abort", "deletion"])
async def test_one_that_has_begun_keeps_nobody_away_once_it_is_to_end_though_its_cluster_is_gone(
    office: Office, kubernetes: PodSet, ends: str
) -> None:
    """The API server refuses its Pods no more, and only the operator wakes Strimzi."""
    recovery = kubernetes.recovery()
    recovery["status"] = {"holdBack": {"pods": [{"name": POD, "broker": 1}]}}
    recovery["metadata"]["finalizers"] = [FINALIZER]
    kubernetes.remove(CLUSTERS, "prod")
    if ends == "abort":
        kubernetes.change(RECOVERIES, NAME, abort=True)
    else:
        recovery["metadata"]["deletionTimestamp"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

    office.see()
    await awaited(lambda: wakings(kubernetes))

    assert wakings(kubernetes) == [WAKING]
    assert "holdBack" not in office.status()
    await dies(office)


async def test_to_let_go_is_tried_again_for_as_long_as_it_can_t_be_written(office: Office, kubernetes: PodSet) -> None:
    """Also while nothing else is to be done, and nothing that a person writes would have it tried."""
    kubernetes.recovery()["status"] = {"holdBack": {"pods": [{"name": "prod-brokers-9", "broker": 9}]}}
    kubernetes.change(RECOVERIES, NAME, suspend=True)
    write, since = kubernetes.apply_status, asyncio.get_running_loop().time()

    async def full(path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        if "holdBack" not in status and asyncio.get_running_loop().time() < since + 120:
            raise SILENT
        return await write(path, seen, status)

    kubernetes.apply_status = full  # type: ignore[method-assign]
    office.takes_up()

    async with asyncio.timeout(1000):
        while kubernetes.held():
            await asyncio.sleep(1)
    await asyncio.sleep(1)
    assert counted(office) == 0, "it is told at once, though nothing else that is told of it changes"
    await dies(office)


@pytest.mark.parametrize(
    ("finalizers", "ends", "held"),
    [
        ([FINALIZER], {}, {POD}),
        ([], {}, set()),
        ([FINALIZER], {"spec": {"abort": True}}, set()),
        ([FINALIZER], {"metadata": {"finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"}}, set()),
    ],
    ids=["has begun", "has not", "is aborted", "is deleted"],
)
def test_of_one_that_nobody_works_on_the_pods_are_counted_that_the_api_server_refuses(
    finalizers: list[str], ends: Object, held: set[str]
) -> None:
    status = {"holdBack": {"pods": [{"name": POD, "broker": 1}]}}
    assert held_by({"metadata": {"finalizers": finalizers}, "spec": {}, "status": status, **ends}) == held


def counted(office: Office) -> float | None:
    """The Pods that Prometheus is told are held back."""
    return office.metrics.registry.get_sample_value("kafka_recovery_held_pods", labelled("/".join(PROD)))


async def test_prometheus_is_told_how_many_pods_are_held_back_now(
    office: Office, kubernetes: PodSet, world: World
) -> None:
    world.kafka.restore_fates = [Fate.LOST] * 12
    office.takes_up()
    await office.until("OfflinePartitions")
    assert counted(office) == 1

    await office.until("Recovered", within=1000)
    await asyncio.sleep(1)

    assert counted(office) == 0


@pytest.mark.parametrize(("finalizers", "held"), [([], 0), ([FINALIZER], 1)])
async def test_pods_of_a_recovery_that_nobody_can_work_on_count_for_as_long_as_they_are_held(
    office: Office, kubernetes: PodSet, finalizers: list[str], held: int
) -> None:
    recovery = kubernetes.recovery()
    recovery["status"] = {"holdBack": {"pods": [{"name": "prod-brokers-9", "broker": 9}]}}
    recovery["metadata"]["finalizers"] = finalizers
    kubernetes.change(RECOVERIES, NAME, scope={"partitions": [{"topic": "orders", "partition": -1}]})
    office.takes_up()
    await office.until("InvalidSpec")

    assert counted(office) == held
    assert len(kubernetes.held()) == held
    await dies(office)


async def test_an_abort_lets_go_at_once(office: Office, kubernetes: PodSet, world: World) -> None:
    world.kafka.restore_fates = [Fate.LOST] * 12
    office.takes_up()
    await office.until("OfflinePartitions")

    kubernetes.change(RECOVERIES, NAME, abort=True)

    assert kubernetes.held() == []
    office.see()
    await awaited(kubernetes.pod)
    assert not office.status()["finished"], "orders are still to be restored"
    async with asyncio.timeout(1000):
        while not office.status()["finished"]:
            await asyncio.sleep(1)
    assert "holdBack" not in office.status()
    assert wakings(kubernetes) == [WAKING]


async def test_a_pod_that_becomes_ready_after_the_look_is_not_deleted(
    office: Office, kubernetes: PodSet, at_election: list[tuple[bool, list[str]]]
) -> None:
    """Its broker answers by then, and may lead."""
    write = kubernetes.apply_status

    async def answers_meanwhile(path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        if named_by(status) and (pod := kubernetes.pod()):
            pod["status"] = strimzi.pod(1, ready=True, phase="Running")["status"]
        return await write(path, seen, status)

    kubernetes.apply_status = answers_meanwhile  # type: ignore[method-assign]

    office.takes_up()
    await office.until("Recovered")

    assert deletions(kubernetes) == []
    assert at_election == [(True, [])]
    assert "is Ready" in not_held(office)


@pytest.mark.parametrize("stopped", ["suspended", "its cluster does not answer"])
async def test_nobody_is_kept_away_by_a_recovery_that_may_elect_nobody_before_it_has_begun(
    office: Office, kubernetes: PodSet, world: World, stopped: str
) -> None:
    """The journal could not be written after the Pod was deleted; what is waited for then may take days."""

    def no_more(what: str) -> bool:
        return bool(kubernetes.held()) and "recoveryrecords" in what

    kubernetes.refusing = no_more
    office.takes_up()
    await awaited(lambda: kubernetes.held() and kubernetes.pod() is None)

    if stopped == "suspended":
        kubernetes.change(RECOVERIES, NAME, suspend=True)
    else:
        world.before("gather", unreachable)
    office.see()
    async with asyncio.timeout(1000):
        while kubernetes.held():
            await asyncio.sleep(1)

    assert world.leader() is None
    await dies(office)


def unreachable() -> None:
    raise ClusterFault(Reason("ClusterUnreachable", "nobody answers"))


class Around:
    """A Kafka of which only a look is needed."""

    def __init__(self, seen: Evidence) -> None:
        self.seen = seen

    async def gather(self, *_: object) -> Evidence:
        return self.seen


BOTH_DEAD = evidence(
    partition({1: None, 2: log(27), 3: log(15)}),
    partition({4: None, 2: log(27), 3: log(15)}, id=TopicPartition("payments", 0), isr=(4,)),
    brokers=(dead(1), broker(2), broker(3), dead(4)),
    cluster_id=CLUSTER,
)


def holder(api: PodSet, name: str = NAME, named: Mapping[BrokerId, str] | None = None) -> PodHold:
    async def guarded() -> None:
        return None

    async def told(*_: object) -> None:
        return None

    async def again(*_: object) -> None:
        return None

    uid = api.recovery(name)["metadata"]["uid"]
    cluster: Any = Around(BOTH_DEAD)
    pods = BrokerPods(cast(Any, api), NAMESPACE, "prod")
    return PodHold(api, (NAMESPACE, name), uid, cluster, pods, guarded, told, again, named or {})


PLAN = decide(BOTH_DEAD, Policy(hold_back=HoldBack.PODS))
ORDERS, PAYMENTS = (each.id for each in BOTH_DEAD.partitions)


async def test_a_later_plan_lets_nobody_go_whom_an_earlier_one_keeps_away(kubernetes: PodSet) -> None:
    """The earlier one's election may be in doubt; both are let go together."""
    kubernetes.runs(4)
    hold = holder(kubernetes)
    await hold.hold(PLAN, [ORDERS])
    assert kubernetes.held() == [POD]

    await hold.hold(PLAN, [PAYMENTS])

    assert sorted(kubernetes.held()) == [POD, "prod-brokers-4"]
    await hold.let_go()
    assert kubernetes.held() == []


async def test_nor_does_one_that_is_not_shown_any_pod(kubernetes: PodSet) -> None:
    """What is refused already goes on being refused; of the other broker nobody knows a name."""
    hold = holder(kubernetes)
    await hold.hold(PLAN, [ORDERS])
    kubernetes.unread = PODS

    await hold.hold(PLAN, [PAYMENTS])

    assert kubernetes.held() == [POD]
    (other,) = kubernetes.recovery()["status"]["holdBack"]["notHeld"]
    assert other["broker"] == 4


@pytest.mark.parametrize("at", [1, 2], ids=["before the deletion", "after it"])
async def test_nor_does_one_that_is_shown_no_pod_at_a_later_look(kubernetes: PodSet, at: int) -> None:
    """That of the broker that was not kept away before is not called held."""
    kubernetes.runs(4)
    hold = holder(kubernetes)
    await hold.hold(PLAN, [ORDERS])
    kubernetes.shows_pods = at

    await hold.hold(PLAN, [PAYMENTS])

    assert kubernetes.held() == [POD]
    (other,) = kubernetes.recovery()["status"]["holdBack"]["notHeld"]
    assert other["broker"] == 4


async def test_a_hold_is_let_go_though_nobody_heard_that_it_was_written(kubernetes: PodSet) -> None:
    write = kubernetes.apply_status

    async def answer_is_lost(path: str, seen: Object, status: Mapping[str, Any]) -> Object:
        await write(path, seen, status)
        raise SILENT

    hold = holder(kubernetes)
    kubernetes.apply_status = answer_is_lost  # type: ignore[method-assign]
    await hold.hold(PLAN, [ORDERS])
    kubernetes.apply_status = write  # type: ignore[method-assign]
    assert kubernetes.held() == [POD]

    await hold.let_go()

    assert kubernetes.held() == []


async def test_a_pod_that_another_recovery_keeps_away_is_held_by_this_one_too(kubernetes: PodSet) -> None:
    """There is no Pod to be seen; it would come when the other one lets it go."""
    kubernetes.put(RECOVERIES, "other", kubernetes.recovery()["spec"])
    await holder(kubernetes, "other").hold(PLAN, [ORDERS])
    assert kubernetes.pod() is None
    hold = holder(kubernetes)

    await hold.hold(PLAN, [ORDERS])

    assert kubernetes.held() == [POD]


@pytest.mark.parametrize("other", [{"clusterId": "kafkaoneofothers000000"}, {"abort": True}])
async def test_what_a_recovery_of_another_cluster_or_one_that_ends_names_is_not_held(
    kubernetes: PodSet, other: Object
) -> None:
    kubernetes.put(RECOVERIES, "other", kubernetes.recovery()["spec"])
    await holder(kubernetes, "other").hold(PLAN, [ORDERS])
    kubernetes.change(RECOVERIES, "other", **other)

    await holder(kubernetes).hold(PLAN, [ORDERS])

    assert kubernetes.held() == []
