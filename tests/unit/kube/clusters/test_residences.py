"""Where the processes of brokers lived: a restart in the same Pod and on the same boot loses nothing, and no other.

What is not seen beyond doubt is unknown. Each test is a way in which a proof could be false, or one that is good.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_recovery.cluster.metadata_log.unfenced import Alive
from kafka_recovery.decision.intactness import is_intact
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.history import BrokerStart
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, MetadataOffset
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.policy import EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.kube.clusters import residences
from kafka_recovery.kube.clusters.residences import LONGEST_GAP, SETTLED, Home, Residence, Residences, with_residences
from unit.decision.incident import ORDERS, evidence, history, log, partition, started, step
from unit.examples import examples

B = BrokerId(2)
FIRST = BrokerEpoch(10)
MINUTE = timedelta(minutes=1)
THERE = Home("pod-1", "container-1", "pvc-1", "monday", "12:00")
IN_POD_1 = Residence("pvc-1", "monday in Pod pod-1")


@dataclass
class Looks:
    """Looks at broker 2, half a minute apart, whose node's status its kubelet writes every minute."""

    residences: Residences = field(default_factory=Residences)
    at: timedelta = timedelta(0)
    number: int = 0

    def go_on(self, lasts: timedelta = SETTLED + timedelta(minutes=1), **differs: Any) -> Looks:
        """Look for so long, and always see the same."""
        until = self.at + lasts
        while self.at < until:
            self.once(**differs)
        return self

    def once(
        self, home: Home | None = THERE, epoch: int | None = FIRST, quorum: int = 1, *, still: bool = False, **at: Any
    ) -> None:
        """`epoch` None: the broker is fenced; `still`: the controller writes nothing."""
        self.at += at.get("after", timedelta(seconds=30))
        self.number += not still
        alive = {} if epoch is None else {B: BrokerEpoch(epoch)}
        homes = {} if home is None else {B: replace(home, status_at=at.get("status_at", f"{self.at // MINUTE}"))}
        self.residences.learn(homes, Alive(MetadataOffset(1000 + self.number), quorum, alive), self.at)

    @property
    def known(self) -> dict[BrokerEpoch, Residence]:
        return self.residences.known.get(B, {})


class TestWhoseHomeIsKnown:
    def test_a_process_that_lives_long_enough_in_one_pod_on_one_boot(self) -> None:
        assert Looks().go_on().known == {FIRST: IN_POD_1}

    def test_one_that_does_not_live_long_enough_is_unknown(self) -> None:
        """Who is not fenced may have been dead for a session."""
        assert Looks().go_on(SETTLED).known == {}

    def test_time_counts_from_the_second_look_before_which_its_registration_was_read(self) -> None:
        """In the first one the node may have been booted, and the process begun, between reading node and log."""
        looks = Looks()
        looks.once(after=timedelta(0))
        looks.once(after=LONGEST_GAP)
        while looks.at < SETTLED:
            looks.once()
        assert looks.known == {}
        looks.go_on(LONGEST_GAP)
        assert looks.known == {FIRST: IN_POD_1}

    def test_a_boot_that_the_kubelet_did_not_tell_again_meanwhile_is_unknown(self) -> None:
        """The node may have been booted long ago, and its kubelet not have come to say so."""
        assert Looks().go_on(timedelta(hours=1), status_at="11:59").known == {}

    def test_it_stays_known_when_its_pod_is_gone(self) -> None:
        looks = Looks().go_on()
        looks.go_on(home=None)
        assert looks.known == {FIRST: IN_POD_1}

    def test_of_very_many_the_newest_are_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(residences, "MOST_KEPT", 2)
        looks = Looks()
        for epoch in (10, 20, 30):
            looks.go_on(epoch=epoch)
        assert list(looks.known) == [20, 30]


class TestWhatBeginsAnew:
    @pytest.mark.parametrize(
        "differs",
        [{"home": replace(THERE, boot="tuesday")}, {"home": replace(THERE, pod="pod-2")}, {"epoch": 11}],
        ids=["a node that was booted with the same Pod on it", "a Pod that was replaced", "another registration"],
    )
    def test_what_is_another_one_from_then_on(self, differs: dict[str, Any]) -> None:
        looks = Looks().go_on(SETTLED)
        looks.go_on(SETTLED, **differs)
        assert looks.known == {}

    def test_a_container_that_was_started_again(self) -> None:
        """It may be one that can't register because another process of its id is alive elsewhere."""
        looks = Looks()
        for number in range(60):
            looks.once(home=replace(THERE, container=f"container-{number // 4}"))
        assert looks.known == {}

    def test_a_broker_that_was_fenced(self) -> None:
        looks = Looks().go_on(SETTLED)
        looks.once(epoch=None)
        looks.go_on(SETTLED)
        assert looks.known == {}

    def test_another_controller_which_gives_everybody_a_new_session(self) -> None:
        looks = Looks()
        for number in range(60):
            looks.once(quorum=number // 4)
        assert looks.known == {}

    def test_a_controller_that_writes_nothing_any_more(self) -> None:
        """It stands still, and fences nobody."""
        looks = Looks().go_on(SETTLED - MINUTE)
        looks.go_on(timedelta(hours=1), still=True)
        assert looks.known == {}

    def test_a_pause_between_looks(self) -> None:
        looks = Looks()
        for _ in range(20):
            looks.once(after=LONGEST_GAP + timedelta(seconds=1))
        assert looks.known == {}

    def test_a_clock_that_goes_back(self) -> None:
        looks = Looks().go_on(SETTLED)
        looks.once(after=-timedelta(hours=1))
        looks.go_on(SETTLED)
        assert looks.known == {}

    def test_a_look_that_showed_nothing(self) -> None:
        looks = Looks().go_on(SETTLED)
        looks.residences.forget()
        looks.go_on(SETTLED)
        assert looks.known == {}


def start(epoch: int, **facts: Any) -> BrokerStart:
    return BrokerStart(B, BrokerEpoch(epoch), directory="a", **facts)


OUT = (step(1, 2, 3), step(1, 2), step(1))
"""Broker 2 was the last one to leave: with min.insync.replicas 2 it has all that was acknowledged."""


def seen(*epochs: int) -> Any:
    """An incident whose history tells of these starts of broker 2."""
    others = started(1, 1), started(3, 1)
    told = replace(history(*OUT), starts=(*others, *(start(epoch) for epoch in epochs)))
    return evidence(partition({1: None, 2: log(30), 3: log(10)}, history=told))


def intact(known: dict[int, Residence], *epochs: int) -> bool:
    residences = {B: {BrokerEpoch(epoch): residence for epoch, residence in known.items()}}
    told = with_residences(seen(*epochs), residences).partitions[0].history
    assert told
    return is_intact(B, told)


class TestWhatItProves:
    def test_a_broker_that_was_killed_and_started_again_in_its_pod_is_intact(self) -> None:
        assert not intact({}, 5, 35)
        assert intact({5: IN_POD_1, 35: IN_POD_1}, 5, 35)

    def test_one_that_came_back_in_another_pod_or_on_another_boot_is_not(self) -> None:
        for other in (Residence("pvc-1", "monday in Pod pod-2"), Residence("pvc-1", "tuesday in Pod pod-1")):
            assert not intact({5: IN_POD_1, 35: other}, 5, 35)

    @pytest.mark.parametrize("seen", [35, 5], ids=["it began before anybody looked", "it began just now"])
    def test_one_of_whose_lives_only_one_was_seen_is_not(self, seen: int) -> None:
        assert not intact({seen: IN_POD_1}, 5, 35)

    def test_processes_between_two_of_the_same_pod_and_boot_were_there_too(self) -> None:
        """It crashed three times within a minute."""
        assert intact({5: IN_POD_1, 38: IN_POD_1}, 5, 32, 35, 38)
        assert not intact({5: IN_POD_1, 38: Residence("pvc-1", "tuesday in Pod pod-1")}, 5, 32, 35, 38)

    def test_one_before_or_after_them_may_have_been_elsewhere(self) -> None:
        """It was started on another host, and what its disk had then was copied from a backup."""
        assert not intact({32: IN_POD_1, 38: IN_POD_1}, 5, 32, 38)
        assert not intact({5: IN_POD_1, 32: IN_POD_1}, 5, 32, 38)

    def test_one_between_two_of_different_boots_may_have_been_on_either(self) -> None:
        known = {BrokerEpoch(5): IN_POD_1, BrokerEpoch(38): Residence("pvc-1", "tuesday in Pod pod-1")}

        told = with_residences(seen(5, 35, 38), {B: known}).partitions[0].history

        assert told
        assert [start.boot for start in told.starts if start.broker == B] == [
            "monday in Pod pod-1",
            None,
            "tuesday in Pod pod-1",
        ]

    def test_another_directory_is_another_log_wherever_it_is(self) -> None:
        told = with_residences(
            evidence(
                partition(
                    {1: None, 2: log(30), 3: log(10)},
                    history=replace(history(*OUT), starts=(start(5), replace(start(35), directory="b"))),
                )
            ),
            {B: {BrokerEpoch(5): IN_POD_1, BrokerEpoch(35): IN_POD_1}},
        )
        assert told.partitions[0].history
        assert not is_intact(B, told.partitions[0].history)

    def test_an_election_of_a_broker_that_was_killed_is_lossless_with_it_and_unknown_without(self) -> None:
        policy = Policy((Rule("everything", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))
        looks = Looks().go_on(epoch=5)
        looks.go_on(epoch=35, home=replace(THERE, container="container-2"))

        without, known = seen(5, 35), with_residences(seen(5, 35), looks.residences.known)

        classes = [decide(each, policy, waited=timedelta(hours=1)).elections[ORDERS].loss for each in (without, known)]
        assert [loss and loss.loss_class for loss in classes] == [LossClass.UNKNOWN, LossClass.LOSSLESS]

    def test_what_has_no_history_has_none_with_it(self) -> None:
        nothing = evidence(partition({1: None, 2: log(30), 3: log(10)}))
        assert with_residences(nothing, {B: {FIRST: IN_POD_1}}) == nothing


SESSION = timedelta(seconds=60)
DOINGS = ("start", "start", "start", "kill", "reboot", "reboot", "replace", "kubelet", "stall", "go on")
"""What a chapter begins with."""
MEANWHILE = ((), (), (), ("kubelet",), ("pod status", "kubelet"), ("pod status", "kubelet"), ("kubelet", "elect"))
"""What is done again and again in a chapter, each time with a look after it."""
CHAPTER = 4
"""Bytes: what it begins with, what is done meanwhile, how often, and after how many seconds each time."""


@dataclass
class World:
    """One broker on one node, whose statuses may be as old as they like. `truth`: where each process really lived.

    `stalled`: what a controller goes on telling that stands still.
    """

    now: timedelta = timedelta(0)
    boot: int = 0
    pod: int = 0
    epoch: int = 0
    runs: bool = False
    beat: timedelta = timedelta(0)
    quorum: int = 0
    session_from: timedelta = timedelta(0)
    truth: dict[int, Residence] = field(default_factory=dict)
    node_told: tuple[int, int] = (0, 0)
    pod_told: tuple[int, int, bool] = (0, 0, False)
    numbers: Any = field(default_factory=lambda: count(1))
    container: int = 0
    stalled: Alive | None = None
    residences: Residences = field(default_factory=Residences)

    def do(self, what: str, seconds: int) -> None:
        """`seconds` pass first; a process that runs sends heartbeats."""
        self.now += timedelta(seconds=seconds)
        if self.runs:
            self.beat = self.now
        getattr(self, f"_{what.replace(' ', '_')}")()

    @property
    def _unfenced(self) -> bool:
        return self.epoch > 0 and self.now - max(self.beat, self.session_from) <= SESSION

    def _look(self) -> None:
        pod, container, ready = self.pod_told
        boot, number = self.node_told
        known = ready and pod == self.pod
        homes = {B: Home(f"{pod}", f"{container}", "pvc", f"{boot}", f"{number}")} if known else {}
        self.residences.learn(homes, self._alive(), self.now)

    def _alive(self) -> Alive:
        alive = {B: BrokerEpoch(self.epoch)} if self._unfenced else {}
        return self.stalled or Alive(MetadataOffset(next(self.numbers)), self.quorum, alive)

    def _kubelet(self) -> None:
        self.node_told = self.boot, next(self.numbers)

    def _pod_status(self) -> None:
        self.pod_told = self.pod, self.container, self.runs

    def _kill(self) -> None:
        self.runs = False

    def _start(self) -> None:
        """The controller lets it register once the process before it is fenced."""
        if self.runs or self._unfenced or self.stalled:
            return
        self.runs, self.epoch, self.container, self.beat = True, next(self.numbers), next(self.numbers), self.now
        self.truth[self.epoch] = Residence("pvc", f"{self.boot} in Pod {self.pod}")

    def _reboot(self) -> None:
        self.runs, self.boot = False, self.boot + 1

    def _replace(self) -> None:
        self.runs, self.pod = False, self.pod + 1

    def _elect(self) -> None:
        """A new controller, which lets everybody's session begin anew."""
        self.quorum, self.stalled = self.quorum + 1, None
        if self._unfenced:
            self.session_from = self.now

    def _stall(self) -> None:
        """The controller stands still: it writes nothing, and fences nobody."""
        self.stalled = self._alive()

    def _go_on(self) -> None:
        self.stalled = None

    def live(self, lots: bytes) -> None:
        """Chapters of a life, and looks at it: a process is known only after minutes in which nothing else happens."""
        for what, meanwhile, times, seconds in zip(*(lots[place::CHAPTER] for place in range(CHAPTER)), strict=False):
            self.do(DOINGS[what % len(DOINGS)], 1 + seconds % 80)
            for _ in range(times % 16):
                self.now += timedelta(seconds=15 + seconds // 8)
                for each in (*MEANWHILE[meanwhile % len(MEANWHILE)], "look"):
                    self.do(each, 1)


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(min_size=10 * CHAPTER, max_size=40 * CHAPTER))
def test_however_old_the_statuses_are_that_are_read_no_process_is_said_to_have_lived_elsewhere(lots: bytes) -> None:
    """Drawn as bytes: to draw each step takes longer than the check."""
    world = World()
    world.live(lots)

    for epoch, residence in world.residences.known.get(B, {}).items():
        assert residence == world.truth[int(epoch)]


def test_the_world_of_the_property_gets_as_far_as_a_proof() -> None:
    world = World()
    for epoch in range(2):
        for what in ("start", "pod status", *("look", "kubelet") * 10, "kill", "look"):
            world.do(what, 40)
        assert len(world.residences.known.get(B, {})) == epoch + 1
    assert world.residences.known[B] == world.truth
