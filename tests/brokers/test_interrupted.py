"""A leader is designated, and then: a broker holds its election back, or a new release finds what the old one left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import ElectLeadersRequest

from brokers.forked import ELECTION, PATIENCE, Running, until_said
from brokers.site import (
    BEST,
    DESIGNATING,
    ORIGINAL,
    SOON,
    SURVIVORS,
    Site,
    go_on,
    halted,
    halting,
    offline_site,
)
from testbed.metadata import PartitionState
from testbed.previous import ROOT, previous
from testbed.waiting import wait_until
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers
GROUP = "proxied"

PACKAGE = ROOT / "operator" / "kafka_recovery"
FROZEN, FROZEN_FOR_LONG, UPGRADED = range(3)


@pytest.fixture(scope="module")
def site(warm: WarmKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A partition for each test."""
    with offline_site(warm, tmp_path_factory.mktemp("interrupted"), UPGRADED + 1) as site:
        yield site


@pytest.mark.parametrize(
    ("partition", "stands_still", "timing"),
    [
        pytest.param(FROZEN, 0, {**SOON, ELECTION: 1}, id="until it is noticed"),
        pytest.param(FROZEN_FOR_LONG, 180, {}, id="three minutes", marks=pytest.mark.full),
    ],
)
def test_nothing_is_done_or_said_while_a_broker_that_stands_still_may_hold_the_election(
    partition: int, stands_still: float, timing: Mapping[str, float], site: Site
) -> None:
    """How long it stands still does not matter: the minute is counted from its next sign of life.

    The three minutes, which is longer than any deadline of client or broker, take four with the shipped quarantine. If
    it is the candidate itself that stood still, Kafka may take the next one: then that is what is said.
    """
    with halting("before sending,after sending", *site.words("recover", partition), timing=timing) as run:
        address = halted(run)
        relay = next(broker for broker in SURVIVORS if site.kafka.address(broker) == address)
        site.kafka.freeze(relay)
        go_on(run)
        halted(run)
        go_on(run)
        until_said(run.stderr, "RelaySilent")
        time.sleep(stands_still)  # the time itself is what is tried here
        frozen, concluded = site.state(partition), [path.name for path in site.folder.rglob("wave-*-ended.json")]
        site.kafka.thaw(relay)
        seen = states_until_the_end(site, partition, run)
        shown, _ = run.communicate()

    assert (frozen.leader, frozen.replicas, concluded) == (None, DESIGNATING, [])
    assert list((site.folder / f"journal-{partition}").rglob(f"wave-0001-doubt-{relay}.json"))
    leader = seen[-1][0]
    assert seen == [(None, DESIGNATING), (leader, DESIGNATING), (leader, ORIGINAL)]
    assert leader == BEST or relay == BEST
    assert (run.returncode, "UnexpectedLeader" in shown) == ((0, False) if leader == BEST else (1, True))
    assert site.kafka.leader_answers("orders", partition, leader)


def test_what_the_commit_before_had_altered_when_it_was_replaced_is_elected_and_restored(
    site: Site, tmp_path: Path
) -> None:
    """The program as it was before its last change designates a leader, and dies before its election gets anywhere."""
    for broker in SURVIVORS:
        site.kafka.proxy(broker).hold(ElectLeadersRequest)
    with before_the_last_change(tmp_path, *site.words("recover", UPGRADED)) as process:
        wait_until(
            "its election is held back",
            lambda: [site.kafka.proxy(broker).holding for broker in SURVIVORS],
            any,
            alive=lambda: dies_of_nothing(process),
        )
        left = site.state(UPGRADED)
        process.kill()
    for broker in SURVIVORS:
        site.kafka.proxy(broker).cut()
        site.kafka.proxy(broker).restore()

    resumed = site.run("resume", UPGRADED)

    assert (left.leader, left.replicas) == (None, DESIGNATING)
    assert resumed.returncode == 0, resumed.stderr
    assert "1 of 1 partitions have a leader that answers." in resumed.stdout
    assert site.is_led_as_planned(UPGRADED)


@contextmanager
def before_the_last_change(folder: Path, *words: object) -> Iterator[subprocess.Popen[str]]:
    """The command as the commit before typed it; where there is no history, as it is."""
    package = previous(PACKAGE, folder) or PACKAGE
    command = [sys.executable, "-B", "-m", "kafka_recovery.cli.main", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def dies_of_nothing(process: subprocess.Popen[str]) -> None:
    assert process.poll() is None, process.stderr and process.stderr.read()


def states_until_the_end(site: Site, partition: int, run: Running) -> list[Any]:
    """Who leads in which order, as it changes, until the command has ended."""
    seen: list[Any] = [(None, DESIGNATING)]

    def look() -> PartitionState:
        state = site.state(partition)
        if [(state.leader, state.replicas)] != seen[-1:]:
            seen.append((state.leader, state.replicas))
        return state

    wait_until("the command ends", look, lambda _: run.returncode is not None, PATIENCE, passes=True)
    return seen
