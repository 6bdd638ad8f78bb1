"""The operator is killed, frozen, relieved and deceived on a real Kafka and a real API server, in the middle of it all.

Broker 3 survives each accident and is the last one of every assignment: an order in which it is the first is altered.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver import incidents
from apiserver.forked import QUARANTINE, launched
from apiserver.gate import Gate
from apiserver.incidents import (
    ORIGINAL,
    Start,
    accident,
    caught_in_the_middle,
    finished,
    journal,
    only_recovery,
    orders,
    policy,
    recovered_with_its_orders,
)
from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import Launch, OperatorProcess, as_program
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.timeout(400), pytest.mark.xdist_group("faults")]

QUARANTINED = 120.0
"""Seconds in which a recovery is over whose requests had to be waited out."""
COLLECTED = 90.0
FORWARDED = 55.0
"""Seconds for which a broker may go on to hand a request to the controller: 60, and the clocks begin apart."""


@pytest.fixture
def gate(kubectl: Kubectl, namespace: str, tmp_path: Path) -> Iterator[Gate]:
    """Where writes of the journal can be held."""
    folder = tmp_path / "gate"
    folder.mkdir()
    with Gate(kubectl, namespace, folder) as gate:
        yield gate


@pytest.mark.parametrize(
    "fact", [pytest.param("wave-0002-started", marks=pytest.mark.full), "wave-0002-ended", "finished"]
)
def test_killed_before_it_could_write_down(
    kafka: RealKafka, kubectl: Kubectl, start: Start, gate: Gate, fact: str
) -> None:
    """Half a minute on a busy machine: the next operator may wait for what the dead one asked."""
    accident(kafka)
    gate.shut(fact)
    operator = start("--no-lease")
    kubectl.apply(policy(limits={"waveSizes": [1, 4]}), incidents.watched_cluster(kafka))
    gate.holds(fact)

    operator.kill()
    gate.open()
    operator.start()

    recovered_with_its_orders(kafka, finished(kubectl, only_recovery(kubectl)["metadata"]["name"], within=QUARANTINED))


@pytest.mark.parametrize(
    ("launch", "waits"),
    [(launched(), QUARANTINE - 1), pytest.param(as_program, FORWARDED, marks=pytest.mark.full)],
    ids=["forked", "shipped"],
)
def test_killed_while_an_order_is_altered(
    kafka: RealKafka, kubectl: Kubectl, start: Start, launch: Launch, waits: float
) -> None:
    """Half a minute; more than one as shipped: it waits for a request of its predecessor as long as Kafka may."""
    accident(kafka)
    operator = start("--no-lease", launch=launch)
    kubectl.apply(policy(limits={"waveSizes": [1]}), incidents.watched_cluster(kafka))
    caught_in_the_middle(kafka, operator)

    operator.kill()
    assert only_recovery(kubectl)["metadata"]["finalizers"] == [incidents.FINALIZER]
    operator.start()
    killed = time.monotonic()

    recovered_with_its_orders(kafka, finished(kubectl, only_recovery(kubectl)["metadata"]["name"], within=240))
    assert time.monotonic() - killed > waits, "what the dead one had asked might still have been carried out"


def test_a_foreground_deletion_in_the_middle_waits_until_the_orders_are_restored(
    kafka: RealKafka, kubectl: Kubectl, start: Start
) -> None:
    accident(kafka)
    operator = start(lease=60)
    kubectl.apply(policy(limits={"waveSizes": [1]}), incidents.watched_cluster(kafka, suspend=False))
    caught_in_the_middle(kafka, operator)
    doomed = only_recovery(kubectl)["metadata"]
    kubectl.api.delete("prec", doomed["name"], foreground=True)
    kubectl.apply(incidents.watched_cluster(kafka, authority="Observe"))

    held = kubectl.api.get("prec", doomed["name"])["metadata"]
    assert held["deletionTimestamp"]
    assert incidents.FINALIZER in held["finalizers"]
    operator.thaw()

    wait_until("it is gone", lambda: _uids(kubectl), lambda uids: doomed["uid"] not in uids, QUARANTINED)
    assert set(orders(kafka, "orders").values()) <= ORIGINAL
    wait_until("its journal is collected", lambda: journal(kubectl, doomed["uid"]), lambda kept: not kept, COLLECTED)


def caught_without_a_lease(kafka: RealKafka, kubectl: Kubectl, start: Start) -> OperatorProcess:
    """An operator that stands still between two waves, and that another one need not wait for."""
    accident(kafka)
    operator = start("--no-lease")
    kubectl.apply(policy(limits={"waveSizes": [1]}), incidents.watched_cluster(kafka))
    caught_in_the_middle(kafka, operator)
    return operator


def test_a_watched_cluster_deleted_in_the_middle_waits_for_the_next_operator(
    kafka: RealKafka, kubectl: Kubectl, start: Start
) -> None:
    """Half a minute: the next operator waits for what the dead one may have asked."""
    operator = caught_without_a_lease(kafka, kubectl, start)
    kubectl.api.delete("wkc", "prod")
    operator.kill()
    held = kubectl.api.get("wkc", "prod")["metadata"]
    assert (bool(held["deletionTimestamp"]), held["finalizers"]) == (True, [incidents.FINALIZER])
    elected = _led(kafka)

    operator.start()
    wait_until("it says so", lambda: _of_prod(kubectl), lambda said: said == "WatchedClusterDeleted")
    wait_until("it is gone", lambda: kubectl.api.listed("watchedclusters"), lambda left: not left, QUARANTINED)

    assert set(orders(kafka, "orders").values()) <= ORIGINAL
    assert _led(kafka) <= elected + 1, "what the dead one asked for, and no more"
    ours = only_recovery(kubectl)
    assert not ours["status"].get("finished")


def _of_prod(kubectl: Kubectl) -> str:
    found = [each for each in kubectl.api.listed("watchedclusters") if each["metadata"]["name"] == "prod"]
    return incidents.reason(found[0], "OrdersAltered") if found else "gone"


def _led(kafka: RealKafka) -> int:
    return sum(state.leader is not None for state in kafka.describe("orders").values())


def test_told_to_end_in_the_middle_it_ends_its_wave_first(kafka: RealKafka, kubectl: Kubectl, start: Start) -> None:
    operator = caught_without_a_lease(kafka, kubectl, start)

    operator.thaw()
    assert operator.stop() == 0

    assert set(orders(kafka, "orders").values()) <= ORIGINAL
    left = only_recovery(kubectl)
    assert not left["status"].get("finished"), "it had twelve waves"
    operator.start()
    recovered_with_its_orders(kafka, finished(kubectl, left["metadata"]["name"], within=QUARANTINED))


def test_a_namespace_deleted_in_the_middle_ends_once_the_orders_are_restored(
    kafka: RealKafka, kubectl: Kubectl, operator: OperatorProcess, namespace: str
) -> None:
    """Half a minute: a namespace's controller looks again ever more seldom. The operator's rights lie elsewhere."""
    accident(kafka)
    kubectl.apply(policy(limits={"waveSizes": [1]}), incidents.watched_cluster(kafka))
    caught_in_the_middle(kafka, operator)
    kubectl.api.delete("namespace", namespace)
    operator.thaw()

    wait_until("the namespace is gone", lambda: not kubectl.api.has("namespace", namespace), bool, QUARANTINED)
    assert set(orders(kafka, "orders").values()) <= ORIGINAL


def test_what_was_deleted_by_force_in_the_middle_is_restored_by_the_next_operator(
    kafka: RealKafka, kubectl: Kubectl, start: Start
) -> None:
    """Half a minute: the next operator waits for what the dead one may have asked, twice."""
    operator = caught_without_a_lease(kafka, kubectl, start)
    operator.kill()
    lost = only_recovery(kubectl)["metadata"]

    kubectl.api.delete("prec", lost["name"])
    kubectl.api.patch("prec", lost["name"], {"metadata": {"finalizers": None}})

    wait_until("it is gone", lambda: incidents.recoveries(kubectl), lambda left: not left)
    assert journal(kubectl, lost["uid"]), "nobody owns the journal: it must stay"
    operator.start()
    wait_until(
        "the orders are restored and the journal says so",
        lambda: (set(orders(kafka, "orders").values()) <= ORIGINAL, journal(kubectl, lost["uid"])),
        lambda now: now[0] and any(name.endswith("-finished") for name in now[1]),
        QUARANTINED,
    )
    wait_until(
        "the partitions that were kept away from other recoveries until then are led as well",
        lambda: kafka.describe("orders"),
        lambda states: all(state.leader for state in states.values()),
        QUARANTINED,
    )
    ended = [finished(kubectl, each["metadata"]["name"]) for each in incidents.recoveries(kubectl)]
    assert lost["uid"] not in [each["metadata"]["uid"] for each in ended]
    for each in ended:
        recovered_with_its_orders(kafka, each)


def _uids(kubectl: Kubectl) -> list[str]:
    return [each["metadata"]["uid"] for each in incidents.recoveries(kubectl)]
