"""Two operators, a lost Lease, an API server that restarts, freezes and forgets, and 2,000 partitions at once."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from apiserver import incidents
from apiserver.forked import launched
from apiserver.incidents import (
    Start,
    accident,
    approval,
    awaiting,
    caught_in_the_middle,
    finished,
    journal,
    only_recovery,
    policy,
    recovered_with_its_orders,
)
from testbed.cluster import RealKafka
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.timeout(300), pytest.mark.xdist_group("faults")]

QUARANTINED = 120.0
"""Seconds in which a recovery is over whose requests had to be waited out."""
LOST_LEASE = 70


def test_a_holder_that_stood_still_for_too_long_ends_and_changes_nothing(
    kafka: RealKafka, kubectl: Kubectl, start: Start
) -> None:
    """Half a minute: a Lease runs out, and the next one waits for what the old one may have asked."""
    accident(kafka)
    old = start()
    kubectl.apply(policy(limits={"waveSizes": [1]}), incidents.watched_cluster(kafka))
    caught_in_the_middle(kafka, old)
    start(launch=launched(quarantine=20))  # until the old one has woken up and ended
    name, uid = (only_recovery(kubectl)["metadata"][field] for field in ("name", "uid"))
    incidents.seen(kubectl, name, lambda each: incidents.reason(each) == "InDoubt")  # another's requests may come still
    before = kafka.describe("orders"), journal(kubectl, uid)

    old.thaw()

    assert old.ends() == LOST_LEASE
    assert (kafka.describe("orders"), journal(kubectl, uid)) == before
    recovered_with_its_orders(kafka, finished(kubectl, name, within=QUARANTINED))


def test_after_a_clean_stop_the_next_one_takes_over_at_once(kafka: RealKafka, kubectl: Kubectl, start: Start) -> None:
    """Half a minute on a busy machine: twelve partitions, and two operators one after the other."""
    accident(kafka)
    old = start(lease=60)
    kubectl.apply(policy(approval="ManualApprove"), incidents.watched_cluster(kafka))
    waiting = awaiting(kubectl, only_recovery(kubectl)["metadata"]["name"])
    new = start(lease=60)
    new.says("holds it")

    assert old.stop(within=20) == 0
    kubectl.apply(approval(waiting))

    ended = finished(kubectl, waiting["metadata"]["name"], within=30)
    recovered_with_its_orders(kafka, ended)
    assert ended["status"]["plan"]["digest"] == incidents.plan_digest(waiting)


def test_two_operators_without_a_lease_do_no_harm(kafka: RealKafka, kubectl: Kubectl, start: Start) -> None:
    """Half a minute: each may wait out what the other one asked of Kafka.

    Whichever is slower may find what the other one elected, and then says so of it: another leader. It may also find
    that the status shows the other one's plan, and then carries out none of its own.
    """
    accident(kafka)
    for operator in [start("--no-lease", launch=launched(quarantine=30)) for _ in range(2)]:
        operator.says("Initial authentication has finished")
    kubectl.apply(policy(limits={"waveSizes": [1, 3]}), incidents.watched_cluster(kafka))
    name = only_recovery(kubectl)["metadata"]["name"]

    status = finished(kubectl, name, within=QUARANTINED)["status"]
    wait_until("everything is led in its own order", lambda: standing(kafka), is_led_in_order, QUARANTINED)

    assert {each["reason"] for each in status.get("failures", ())} <= {"UnexpectedLeader"}, status
    assert (status["partitions"]["refused"], status["partitions"]["waiting"]) == (0, 0), status
    said = kubectl.api.listed("events.events.k8s.io")
    reasons = {each["reason"] for each in said if each["regarding"]["name"] == name}
    assert not {"InternalError", "JournalDamaged"} & reasons


def standing(kafka: RealKafka) -> tuple[set[int | None], set[tuple[int, ...]]]:
    """Who leads, and in which orders."""
    return {state.leader for state in kafka.describe("orders").values()}, set(
        incidents.orders(kafka, "orders").values()
    )


def is_led_in_order(seen: tuple[set[int | None], set[tuple[int, ...]]]) -> bool:
    leaders, now = seen
    return leaders == {incidents.SURVIVOR} and now <= incidents.ORIGINAL


@pytest.mark.parametrize("how", ["restarted", pytest.param("killed", marks=pytest.mark.full), "frozen"])
def test_the_api_server_goes_away_in_the_middle_of_a_recovery(
    kafka: RealKafka, kubectl: Kubectl, start: Start, control_plane: ControlPlane, how: str
) -> None:
    """Up to half a minute: longer than one try of a call may take, and then the rest of six waves."""
    accident(kafka, 6)
    operator = start(lease=60)
    kubectl.apply(policy(limits={"waveSizes": [1]}), incidents.watched_cluster(kafka))
    operator.says("wave 2 of", within=60)

    _without_apiserver(control_plane, how)

    recovered_with_its_orders(kafka, finished(kubectl, only_recovery(kubectl)["metadata"]["name"], within=QUARANTINED))
    assert operator.exit_code is None


def test_an_operator_whose_lease_ran_out_with_the_api_server_away_ends_and_the_next_goes_on(
    kafka: RealKafka, kubectl: Kubectl, start: Start, control_plane: ControlPlane
) -> None:
    """Half a minute: a Lease runs out twice, and what was asked of Kafka before is waited for."""
    accident(kafka, 6)
    operator = start(lease=6)
    kubectl.apply(policy(limits={"waveSizes": [1]}), incidents.watched_cluster(kafka))
    operator.says("wave 2 of", within=60)

    with control_plane.apiserver_frozen():
        assert operator.ends(within=15) == LOST_LEASE
    operator.start()

    recovered_with_its_orders(kafka, finished(kubectl, only_recovery(kubectl)["metadata"]["name"], within=QUARANTINED))


def test_a_watch_that_the_api_server_no_longer_remembers_is_begun_anew(
    kafka: RealKafka, kubectl: Kubectl, start: Start, control_plane: ControlPlane
) -> None:
    accident(kafka)
    operator = start(lease=120)
    kubectl.apply(policy(approval="ManualApprove"), incidents.watched_cluster(kafka, authority="Observe"))
    only_recovery(kubectl)

    operator.freeze()
    by_hand = incidents.recovery(kafka, scope={"partitions": [{"topic": "orders", "partition": 0}]})
    kubectl.apply(by_hand)
    _forget(control_plane)
    operator.thaw()

    incidents.seen(kubectl, "by-hand", lambda each: bool(incidents.reason(each)))


@pytest.mark.full
def test_2000_partitions_are_recovered_in_one_recovery(kafka: RealKafka, kubectl: Kubectl, start: Start) -> None:
    """Minutes of CPU, most of them Kafka's own. `unit/kube/test_recoveries_large.py` tells of 20,000 in memory."""
    accident(kafka, 2000)
    operator = start(lease=15)
    operator.says("this process holds the Lease")
    began = time.monotonic()
    kubectl.apply(policy(), incidents.watched_cluster(kafka))
    operator.says("wave 3 of 3: 1949 partitions", within=120)
    assert operator.is_alive(), "the kubelet would end it in the middle of its largest wave"

    ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"], within=240)

    seconds, cpu = time.monotonic() - began, _cpu_seconds(operator.pid)
    size = len(json.dumps(ended["status"]))
    uid = ended["metadata"]["uid"]
    print(f"\n2000 partitions: {seconds:.1f} s, {cpu:.1f} s CPU, status {size} bytes, journal {journal(kubectl, uid)}")
    recovered_with_its_orders(kafka, ended)
    assert ended["status"]["partitions"]["recovered"] == 2000
    assert size < 10_000


def _without_apiserver(control_plane: ControlPlane, how: str) -> None:
    if how == "restarted":
        control_plane.restart_apiserver()
    elif how == "killed":
        with control_plane.apiserver_stopped(abruptly=True):
            pass
    else:
        with control_plane.apiserver_frozen():
            time.sleep(12)  # longer than one try of a call may take


def _forget(control_plane: ControlPlane) -> None:
    """Compact etcd up to now and restart the API server, so that no watch can go on where it was (410)."""
    etcd = control_plane.etcd_url
    newest = _etcd(etcd, "kv/range", {"key": "AA==", "range_end": "AA==", "count_only": True})["header"]["revision"]
    control_plane.restart_apiserver()
    _etcd(etcd, "kv/compaction", {"revision": newest, "physical": True})


def _etcd(url: str, call: str, body: object) -> dict[str, dict[str, str]]:
    request = Request(f"{url}/v3/{call}", json.dumps(body).encode())
    with build_opener(ProxyHandler({})).open(request, timeout=10) as answer:
        said: dict[str, dict[str, str]] = json.load(answer)
        return said


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
