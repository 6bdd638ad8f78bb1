"""The command line is killed at each step of a recovery, on real brokers; what is left, and what the next command does.

The process that dies is a real one: `kafka-recovery` halts at a step, says so, and gets its SIGKILL there. Each run
recovers a partition of its own with a journal of its own, so that all of them wait out their quarantine together.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from brokers.forked import PATIENCE, until_said
from brokers.site import (
    BEST,
    DESIGNATING,
    ORIGINAL,
    QUARANTINE,
    SURVIVORS,
    TOOL,
    Site,
    go_on,
    halted,
    halting,
    killed,
    offline_site,
    recovery,
)
from testbed.metadata import PartitionState
from testbed.waiting import wait_until
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers
GROUP = "proxied"


@dataclass(frozen=True, slots=True)
class Crash:
    """The step at which a run is killed, and what it leaves behind.

    `begun`: the journal knows that the run has begun; `in_flight`: and that its requests may be under way.
    """

    step: str
    leader: int | None = None
    order: tuple[int, ...] = ORIGINAL
    begun: bool = True
    in_flight: bool = False


CRASHES = {
    "before the plan is recorded": Crash("before record", begun=False),
    "before the run begins": Crash("after record", begun=False),
    "before the first wave": Crash("after approved"),
    "before the order is altered": Crash("after wave_started", in_flight=True),
    "before the election": Crash("before elect", order=DESIGNATING, in_flight=True),
    "before the order is restored": Crash("before restore", BEST, DESIGNATING, in_flight=True),
    "before the outcome is kept": Crash("after restore", BEST, in_flight=True),
    "before the end is kept": Crash("before finished", BEST),
}
CASES = [(when, "resume") for when in CRASHES] + [
    ("before the election", "undo"),
    ("before the order is restored", "undo"),
    ("before the election", "recover"),
    ("before the election", "execute"),
]


TWO_WAVES = range(len(CASES), len(CASES) + 3)
"""Partitions of one run that is killed while its first wave, of one, is being ended and its second is elected."""
LATE = TWO_WAVES.stop
"""The partition whose election takes effect after its sender died."""


@dataclass(frozen=True, slots=True)
class Termination:
    """The step at which a run of three partitions, the first a wave of its own, gets its SIGTERM, and what that allows.

    `led`: how many have a leader then. `begun`: there is a run to be resumed.
    """

    step: str
    led: int
    begun: bool = True


TERMINATIONS = {
    "before the run begins": Termination("after record", 0, begun=False),
    "before the order is altered": Termination("before designate", 0),
    "between order and election": Termination("after designate", 0),
    "before the election is sent": Termination("before elect", 1),
    "after the election": Termination("after elect", 1),
    "while a leader is waited for": Termination("before answering", 1),
    "before the order is restored": Termination("before restore", 1),
}
TERMINATED = {when: range(first, first + 3) for when, first in zip(TERMINATIONS, range(LATE + 1, 99, 3), strict=False)}
"""The partitions of each of these runs."""
PARTITIONS = max(partitions.stop for partitions in TERMINATED.values())


@dataclass(frozen=True, slots=True)
class Aftermath:
    """One crash: how the process ended, what it left, and what the next command said."""

    partition: int
    crash: Crash
    exit_code: int
    left: PartitionState
    then: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def site(warm: WarmKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One offline partition for each case, and those of the runs with several waves."""
    with offline_site(warm, tmp_path_factory.mktemp("crashes"), PARTITIONS) as site:
        yield site


@dataclass(frozen=True, slots=True)
class Afterwards:
    """All crashes: what each left, and what the next command said."""

    cases: Mapping[tuple[str, str], Aftermath]
    two_waves_left: list[PartitionState]
    two_waves_resumed: subprocess.CompletedProcess[str]

    def __getitem__(self, case: tuple[str, str]) -> Aftermath:
        return self.cases[case]


@pytest.fixture(scope="module")
def aftermaths(site: Site) -> Afterwards:
    """Every crash, and every next command; those that have to wait do so together."""

    def crash(partition: int) -> int:
        when, then = CASES[partition]
        words = site.words("execute" if then == "execute" else "recover", partition)
        with halting(CRASHES[when].step, *words) as run:
            halted(run)
            return killed(run)

    partitions = range(len(CASES))
    with ThreadPoolExecutor(max_workers=3) as some:
        exit_codes = list(some.map(crash, partitions))
    with halting("before elect", *site.words("recover", *TWO_WAVES), never="restore") as run:
        halted(run)
        go_on(run)
        halted(run)
        killed(run)
    left = site.kafka.describe("orders")
    with ThreadPoolExecutor(max_workers=TWO_WAVES.stop) as all_of_them:
        two_waves = all_of_them.submit(site.run, "resume", TWO_WAVES.start)
        thens = list(all_of_them.map(lambda partition: site.run(CASES[partition][1], partition), partitions))
    cases = {
        case: Aftermath(partition, CRASHES[case[0]], exit_codes[partition], left[partition], thens[partition])
        for partition, case in enumerate(CASES)
    }
    return Afterwards(cases, [left[partition] for partition in TWO_WAVES], two_waves.result())


@pytest.mark.parametrize(("when", "then"), CASES)
def test_a_killed_run_leaves_no_more_than_the_step_it_died_at(when: str, then: str, aftermaths: Afterwards) -> None:
    after = aftermaths[when, then]

    assert after.exit_code == -signal.SIGKILL
    assert (after.left.leader, after.left.replicas) == (after.crash.leader, after.crash.order)


@pytest.mark.parametrize("when", [when for when, crash in CRASHES.items() if crash.begun])
def test_resume_ends_with_the_planned_leader_and_the_original_order(
    when: str, aftermaths: Afterwards, site: Site
) -> None:
    after = aftermaths[when, "resume"]

    assert after.then.returncode == 0, after.then.stderr
    assert f"orders-{after.partition}" in after.then.stdout
    assert (f"waiting {QUARANTINE} s: InDoubt" in after.then.stderr) is after.crash.in_flight
    assert site.is_led_as_planned(after.partition)


@pytest.mark.parametrize("when", [when for when, crash in CRASHES.items() if not crash.begun])
def test_a_run_that_had_not_begun_is_not_resumed_but_run_anew(when: str, aftermaths: Afterwards, site: Site) -> None:
    """What was not begun has changed nothing: whether it still is what somebody wants is not ours to guess."""
    after = aftermaths[when, "resume"]
    resumed = (after.then.returncode, site.state(after.partition))

    again = site.run("recover", after.partition)

    assert resumed == (0, after.left)
    assert "holds no unfinished run" in after.then.stderr
    assert again.returncode == 0, again.stderr
    assert site.is_led_as_planned(after.partition)


@pytest.mark.parametrize("command", ["recover", "execute"])
def test_the_same_command_once_more_does_what_resume_does(command: str, aftermaths: Afterwards, site: Site) -> None:
    """Recover has to put the order back before it plans: its plan would take ours for the original one."""
    after = aftermaths["before the election", command]

    assert after.then.returncode == 0, after.then.stderr
    assert site.is_led_as_planned(after.partition)


def test_undo_puts_the_order_back_and_leaves_the_partition_offline(aftermaths: Afterwards, site: Site) -> None:
    after = aftermaths["before the election", "undo"]
    undone = site.state(after.partition)

    nothing_left = site.run("undo", after.partition)
    recovered = site.run("recover", after.partition)

    assert after.then.returncode == 0, after.then.stderr
    assert (undone.leader, undone.replicas, undone.leader_epoch) == (None, ORIGINAL, after.left.leader_epoch)
    assert "Nothing to undo" in nothing_left.stdout
    assert recovered.returncode == 0, recovered.stderr
    assert site.is_led_as_planned(after.partition)


def test_undo_after_the_election_puts_the_order_back_and_keeps_the_leader(aftermaths: Afterwards, site: Site) -> None:
    after = aftermaths["before the order is restored", "undo"]

    assert after.then.returncode == 0, after.then.stderr
    assert site.is_led_as_planned(after.partition)


@pytest.mark.parametrize("when", ["before the first wave", "before the order is restored", "before the end is kept"])
def test_running_again_after_success_changes_nothing(when: str, aftermaths: Afterwards, site: Site) -> None:
    partition = aftermaths[when, "resume"].partition
    before = site.state(partition)

    again = [site.run(command, partition) for command in ("resume", "undo", "recover")]

    assert [done.returncode for done in again] == [0, 0, 0], [done.stderr for done in again]
    assert site.state(partition) == before


def test_two_waves_that_were_under_way_at_once_are_both_ended(aftermaths: Afterwards, site: Site) -> None:
    """The order of one is restored while the next is elected: a crash may leave both altered."""
    before = [(state.leader, state.replicas) for state in aftermaths.two_waves_left]
    resumed = aftermaths.two_waves_resumed

    assert before == [(BEST, DESIGNATING), (None, DESIGNATING), (None, DESIGNATING)]
    assert resumed.returncode == 0, resumed.stderr
    assert all(site.is_led_as_planned(partition) for partition in TWO_WAVES)


@dataclass(frozen=True, slots=True)
class Terminated:
    """How a run ended that was asked to: its exit code, what it showed and said, and what it left."""

    exit_code: int | None
    shown: str
    said: str
    left: list[PartitionState]

    @property
    def nothing_was_left(self) -> bool:
        """Whether the last wave was under way too when the signal came: an order is restored while the next is elected,
        and either may come first.
        """
        before, _, _ = self.said.partition("SIGTERM: ending")
        return "wave 2 of 2" in before


@pytest.fixture(scope="module")
def terminated(site: Site) -> Mapping[str, Terminated]:
    """Each of the runs, some of them at a time."""

    def run(when: str) -> Terminated:
        with halting(TERMINATIONS[when].step, *site.words("recover", *TERMINATED[when])) as run:
            halted(run)
            run.process.send_signal(signal.SIGTERM)
            go_on(run, times=99)
            shown, said = run.communicate()
            return Terminated(run.returncode, shown, said, [site.state(each) for each in TERMINATED[when]])

    with ThreadPoolExecutor(max_workers=3) as some:
        return dict(zip(TERMINATIONS, some.map(run, TERMINATIONS), strict=True))


@pytest.mark.parametrize("when", TERMINATIONS)
def test_sigterm_ends_the_wave_under_way_and_says_what_was_done_and_what_was_not(
    when: str, terminated: Mapping[str, Terminated]
) -> None:
    ended = terminated[when]
    led = 3 if ended.nothing_was_left else TERMINATIONS[when].led

    assert when == "before the order is restored" or not ended.nothing_was_left
    assert ended.exit_code == (0 if led == 3 else 128 + signal.SIGTERM), ended.said
    assert [state.leader for state in ended.left] == [BEST] * led + [None] * (3 - led)
    assert {state.replicas for state in ended.left} == {ORIGINAL}
    assert f"{led} of 3 partitions have a leader that answers." in ended.shown
    assert ("Stopped by SIGTERM." in ended.said) is (led < 3)


@pytest.mark.parametrize("when", TERMINATIONS)
def test_what_it_says_to_go_on_with_does_the_rest_at_once(
    when: str, terminated: Mapping[str, Terminated], site: Site
) -> None:
    said = terminated[when].said
    if terminated[when].nothing_was_left:
        assert "To go on" not in said
        return
    if TERMINATIONS[when].begun:
        _, *words = shlex.split(said.split("To go on: ")[1].splitlines()[0])
        finished = recovery(*words)
    else:
        assert "Nothing was begun; run the command again." in said
        finished = recovery(*site.words("recover", *TERMINATED[when]))

    assert finished.returncode == 0, finished.stderr
    assert "InDoubt" not in finished.stderr
    assert all(site.is_led_as_planned(partition) for partition in TERMINATED[when])


def test_an_election_that_takes_effect_after_its_sender_died_is_waited_for(site: Site) -> None:
    """Why a wave in flight is left alone for 60 s: the network holds back the request, and then delivers it.

    With the program as it is installed: the one test that waits for the minute that it waits, so it takes over one.
    """
    with halting("before sending,after sending", *site.words("recover", LATE)) as run:
        address = halted(run)
        proxy = next(site.kafka.proxy(broker) for broker in SURVIVORS if site.kafka.address(broker) == address)
        proxy.stall()
        go_on(run)
        halted(run)
        killed(run)

    with resuming(site) as resumed:
        until_said(resumed.stderr, "waiting 60 s: InDoubt")
        left = site.state(LATE)
        proxy.restore()
        altered_all_along = wait_until(
            "it is led", lambda: site.state(LATE), lambda state: state.leader == BEST, passes=True
        )
        shown, rest = resumed.communicate(timeout=PATIENCE)

    assert (left.leader, left.replicas) == (None, DESIGNATING)
    assert altered_all_along.replicas == DESIGNATING
    assert resumed.returncode == 0, rest
    assert "1 of 1 partitions have a leader that answers." in shown
    assert site.is_led_as_planned(LATE)


@contextmanager
def resuming(site: Site) -> Iterator[subprocess.Popen[str]]:
    command = [str(Path(sys.executable).with_name(TOOL)), *map(str, site.words("resume", LATE))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
