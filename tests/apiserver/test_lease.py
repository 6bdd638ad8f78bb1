"""One acts at a time: candidates that are killed, stopped, cut off and relieved, on a real API server.

Times of 6, 4 and 1 s: takeover 6 s after the last renewal was seen, own end 4 s after it was sent.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from apiserver.forked import PROGRAMS
from kafka_recovery.kube.process.lease import LOST
from testbed.fork_server import Forked
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.rights import bound, role
from testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver

LEASE = "kafka-recovery-operator"
STARTING = 30.0
SLACK = 4.0
"""Seconds that a busy machine may take; less than a Lease lasts, or else nobody could tell at once from after it."""


@dataclass
class Candidate:
    """One process of `apiserver.candidate`."""

    name: str
    process: Forked
    out: Path
    log: Path

    @property
    def leads(self) -> bool:
        return "leading" in self.out.read_text()

    @property
    def said(self) -> str:
        return self.log.read_text()

    def awaits_its_turn(self) -> None:
        wait_until(f"{self.name} sees that another holds it", lambda: self.said, lambda said: "holds it" in said)

    def comes_to_lead(self, within: float) -> float:
        """Seconds until it leads."""
        began = time.monotonic()
        wait_until(f"{self.name} leads", lambda: self.leads, bool, within, self.check)
        return time.monotonic() - began

    def ends(self, within: float) -> int:
        """Its exit status."""
        return self.process.wait(within)

    def check(self) -> None:
        assert self.process.poll() is None, f"{self.name} ended with {self.process.poll()}: {self.said}"


class Candidates:
    """Starts them, knows what they wrote, and ends those that are left."""

    def __init__(self, control_plane: ControlPlane, namespace: str, folder: Path) -> None:
        self._control_plane = control_plane
        self._namespace = namespace
        self._folder = folder
        self._kubectl = control_plane.kubectl(control_plane.administrator(namespace))
        self._started: list[Candidate] = []

    def start(
        self, name: str, mode: str = "writes", *, lease: str = LEASE, duration: int = 6, who: Path | None = None
    ) -> Candidate:
        out, log = self._folder / f"{name}.out", self._folder / f"{name}.log"
        wish = [lease, self._namespace, name, mode, str(duration)]
        environment = os.environ | {"KUBECONFIG": str(who or self._control_plane.administrator(self._namespace))}
        with out.open("wb") as output, log.open("wb") as said:
            process = PROGRAMS.start("apiserver.forked:candidate", wish, output, environment, said)
        candidate = Candidate(name, process, out, log)
        self._started.append(candidate)
        return candidate

    def start_leading(self, name: str, mode: str = "writes", *, lease: str = LEASE) -> Candidate:
        candidate = self.start(name, mode, lease=lease)
        candidate.comes_to_lead(STARTING)
        return candidate

    def writes(self) -> list[str]:
        """Whose each write was, in the order in which etcd took them."""
        found = [each["metadata"] for each in self._kubectl.api.listed("configmaps")]
        ours = [meta for meta in found if re.fullmatch(r"\w+-\d{5}", meta["name"])]
        return [meta["name"].partition("-")[0] for meta in sorted(ours, key=lambda meta: int(meta["resourceVersion"]))]

    def wait_for_writes(self, name: str) -> None:
        wait_until(f"{name} has written", self.writes, lambda writes: writes.count(name) > 3)

    def end(self) -> None:
        for each in self._started:
            if each.process.poll() is None:
                each.process.kill()
            each.process.wait()


@pytest.fixture
def candidates(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Candidates]:
    started = Candidates(control_plane, namespace, tmp_path)
    yield started
    started.end()


def test_of_many_that_start_together_one_leads(candidates: Candidates) -> None:
    started = [candidates.start(name) for name in ("ann", "bob", "cyd")]
    wait_until("one leads", lambda: [each.name for each in started if each.leads], bool, STARTING)
    for each in started:
        if not each.leads:
            each.awaits_its_turn()
    time.sleep(2)

    leaders = [each.name for each in started if each.leads]
    assert len(leaders) == 1
    assert set(candidates.writes()) == set(leaders)


def test_when_the_leader_is_killed_the_next_one_takes_over_after_the_duration(candidates: Candidates) -> None:
    ann, bob = candidates.start_leading("ann"), candidates.start("bob")
    bob.awaits_its_turn()

    ann.process.kill()

    assert 4 < bob.comes_to_lead(6 + 2 + SLACK) < 6 + 2 + SLACK


def test_a_leader_that_gives_the_lease_back_is_followed_at_once(candidates: Candidates) -> None:
    ann, bob = candidates.start_leading("ann"), candidates.start("bob")
    bob.awaits_its_turn()
    candidates.wait_for_writes("ann")

    ann.process.terminate()

    assert bob.comes_to_lead(SLACK) < SLACK
    assert ann.ends(SLACK) == 0
    candidates.wait_for_writes("bob")
    assert_one_after_the_other(candidates.writes(), "ann", "bob")


def test_a_stopped_leader_that_wakes_up_writes_nothing_after_the_next_one_began(candidates: Candidates) -> None:
    """The next one has shorter times of its own, and waits for as long as the old one's Lease says all the same."""
    ann, bob = candidates.start_leading("ann"), candidates.start("bob", duration=3)
    bob.awaits_its_turn()
    candidates.wait_for_writes("ann")

    ann.process.send_signal(signal.SIGSTOP)
    assert bob.comes_to_lead(6 + 2 + SLACK) > 4
    candidates.wait_for_writes("bob")
    ann.process.send_signal(signal.SIGCONT)

    assert ann.ends(SLACK) == LOST
    assert "CRITICAL lease" in ann.said
    assert_one_after_the_other(candidates.writes(), "ann", "bob")


def test_when_renewals_hang_the_leader_ends_before_the_others_may_begin(
    control_plane: ControlPlane, candidates: Candidates
) -> None:
    """Even one whose event loop stands still; and those who wait have the patience to go on waiting."""
    ann, deaf = candidates.start_leading("ann"), candidates.start_leading("deaf", "blocked", lease="another")
    bob = candidates.start("bob")
    bob.awaits_its_turn()

    with control_plane.apiserver_frozen():
        began = time.monotonic()
        assert (ann.ends(4 + SLACK), deaf.ends(4 + SLACK)) == (LOST, LOST)
        assert time.monotonic() - began < 6, "that is when another might begin"

    bob.comes_to_lead(6 + 2 + SLACK)
    candidates.wait_for_writes("bob")
    assert_one_after_the_other(candidates.writes(), "ann", "bob")


def test_a_short_silence_of_the_server_unseats_nobody(control_plane: ControlPlane, candidates: Candidates) -> None:
    ann, bob = candidates.start_leading("ann"), candidates.start("bob")
    bob.awaits_its_turn()

    with control_plane.apiserver_frozen():
        time.sleep(1.5)
    time.sleep(4)

    ann.check()
    bob.check()
    assert not bob.leads


@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_a_wall_clock_that_is_set_neither_makes_a_candidate_hasty_nor_keeps_it_waiting(
    candidates: Candidates, mode: str
) -> None:
    """The library would take a living holder's Lease, or wait for an hour."""
    ann, bob = candidates.start_leading("ann"), candidates.start("bob", mode)
    bob.awaits_its_turn()
    time.sleep(4)
    ann.check()
    assert not bob.leads

    ann.process.kill()

    bob.comes_to_lead(6 + 2 + SLACK)
    time.sleep(5)
    bob.check()


def test_who_may_not_touch_leases_says_so_and_waits(
    control_plane: ControlPlane, candidates: Candidates, kubectl: Kubectl, namespace: str
) -> None:
    ann = candidates.start("ann", who=control_plane.user("ann", namespace=namespace))
    wait_until("it says why", lambda: ann.said, lambda said: "403 Forbidden" in said, STARTING, ann.check)

    leader = role("leader", ["get", "create", "update"], "leases.coordination.k8s.io")
    kubectl.apply(leader, bound("ann", "leader", own=True))

    ann.comes_to_lead(10)
    assert ann.said.count("can't be read: 403 Forbidden") == 1, "once is enough"


def test_a_leader_whose_lease_was_given_to_another_ends_at_once(candidates: Candidates, kubectl: Kubectl) -> None:
    ann = candidates.start_leading("ann")

    kubectl.api.patch("lease", LEASE, {"spec": {"holderIdentity": "somebody"}})

    assert ann.ends(1 + SLACK) == LOST
    assert "somebody holds it" in ann.said


def test_a_lease_that_was_deleted_is_made_again(candidates: Candidates, kubectl: Kubectl) -> None:
    ann = candidates.start_leading("ann")

    kubectl.api.delete("lease", LEASE)

    wait_until(
        "the Lease is there again",
        lambda: [each["spec"]["holderIdentity"] for each in kubectl.api.listed("leases")],
        lambda holders: holders == ["ann"],
    )
    time.sleep(5)
    ann.check()


def assert_one_after_the_other(writes: list[str], first: str, second: str) -> None:
    began = writes.index(second)
    assert set(writes[:began]) == {first}
    assert set(writes[began:]) == {second}, f"{first} wrote after {second} had begun"
