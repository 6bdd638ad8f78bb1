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

from brokers import forked
from brokers.conftest import PROXIED
from brokers.forked import PATIENCE, Running, running
from brokers.halting import at as halts_at
from testbed.cluster import RealKafka
from testbed.metadata import PartitionState
from testbed.scenarios import OfflineTopic
from testbed.waiting import wait_until
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers
GROUP = "crashes"

TOOL = "kafka-recovery"
AUTOMATIC = "rules: [{name: everything, approval: AutoApprove}]\n"
SURVIVORS = {2: 27, 3: 15}
BEST = 3
ORIGINAL, DESIGNATING = (1, 2, 3), (3, 2, 1)
QUARANTINE = 5
"""Seconds, but in the test that shows what Kafka's minute is for."""


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
TERMINATED = range(LATE + 1, LATE + 4)
"""Partitions of a run that is asked to end in its first wave."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """One crash: how the process ended, what it left, and what the next command said."""

    partition: int
    crash: Crash
    exit_code: int
    left: PartitionState
    then: subprocess.CompletedProcess[str]


def halted(run: Running) -> str:
    """Wait until it halts; returns where."""
    line = run.stdout.readline()
    assert line.startswith("halted"), f"it did not halt, but said {line!r} {run.communicate()}"
    return line.split()[-1]


def go_on(run: Running) -> None:
    run.stdin.write("\n")
    run.stdin.flush()


def killed(run: Running) -> int:
    """SIGKILL; returns the exit code."""
    run.process.kill()
    return run.process.wait(PATIENCE)


@contextmanager
def halting(steps: str, *words: object, never: str = "") -> Iterator[Running]:
    """The command with these words, which halts at the steps (separated by commas); one step it never gets done."""
    with running(TOOL, *map(str, words), environment=halts_at(steps, never)) as run:
        yield run


def recovery(*words: object) -> subprocess.CompletedProcess[str]:
    """`kafka-recovery` to its end."""
    return forked.run(TOOL, *map(str, words), environment={}, quarantine=QUARANTINE)


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster whose partitions are offline, and where its journals and files are kept."""

    kafka: RealKafka
    orders: OfflineTopic
    folder: Path

    def words(self, command: str, partition: int, *others: int) -> list[object]:
        """What to type after `kafka-recovery`; the journal is the first partition's."""
        words: list[object] = [command, "--bootstrap-server", self.kafka.bootstrap]
        words += ["--journal", self.folder / f"journal-{partition}"]
        if command == "recover":
            words += [word for each in (partition, *others) for word in ("--partition", f"orders-{each}")]
            words += ["--policy", self.folder / "automatic.yaml"]
        if command == "execute":
            plan = self.folder / f"plan-{partition}.json"
            if not plan.exists():
                reach = ("--bootstrap-server", self.kafka.bootstrap)
                made = recovery("plan", *reach, "--partition", f"orders-{partition}", "--out", plan)
                assert made.returncode == 0, made.stderr
            digest = plan.read_text().split('"digest": "')[1].split('"')[0]
            words += [plan, "--approve", digest]
        return words

    def run(self, command: str, partition: int) -> subprocess.CompletedProcess[str]:
        return recovery(*self.words(command, partition))

    def state(self, partition: int) -> PartitionState:
        return self.kafka.describe("orders")[partition]

    def is_led_as_planned(self, partition: int) -> bool:
        """The best replica leads by its own word, in the original order, and lost nothing of what it held."""
        state = self.state(partition)
        return (
            (state.leader, state.replicas) == (BEST, ORIGINAL)
            and self.kafka.leader_answers("orders", partition, BEST)
            and self.kafka.consume("orders", partition) == list(self.orders[partition].held[BEST])
        )


@pytest.fixture(scope="module")
def site(warm: WarmKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One offline partition for each case, and those of the runs with several waves."""
    folder = tmp_path_factory.mktemp("crashes")
    (folder / "automatic.yaml").write_text(AUTOMATIC)
    with warm.lent(**PROXIED) as kafka:
        yield Site(kafka, kafka.offline_partition("orders", survivors=SURVIVORS, partitions=TERMINATED.stop), folder)


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
    assert (f"waiting {QUARANTINE} s: Quarantine" in after.then.stderr) is after.crash.in_flight
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


def test_sigterm_ends_after_the_wave_under_way_and_resume_does_the_rest(site: Site) -> None:
    with halting("before elect", *site.words("recover", *TERMINATED)) as run:
        halted(run)
        run.process.send_signal(signal.SIGTERM)
        go_on(run)
        shown, rest = run.communicate()
        states = [site.state(partition) for partition in TERMINATED]

    assert run.returncode == 128 + signal.SIGTERM
    assert "stopped by signal" in recovery("--help").stdout
    assert [state.leader for state in states] == [BEST, None, None]
    assert {state.replicas for state in states} == {ORIGINAL}
    assert "1 of 3 partitions have a leader that answers." in shown

    _, *next_words = shlex.split(rest.split("To go on: ")[1])
    resumed = recovery(*next_words)

    assert resumed.returncode == 0, resumed.stderr
    assert "Quarantine" not in resumed.stderr
    assert all(site.is_led_as_planned(partition) for partition in TERMINATED)


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
        said(resumed, "waiting 60 s: Quarantine")
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


def said(process: subprocess.Popen[str], text: str) -> None:
    """Wait until a line on stderr holds the text."""
    assert process.stderr
    lines = ""
    for line in process.stderr:
        lines += line
        if text in line:
            return
    raise AssertionError(f"never said {text!r}, but: {lines}")
