"""KIP-1275's own test plan, on every release: kill -9 the whole ISR, recover, led from outside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers.conftest import ON_3_9, ON_4_0, ON_NEWEST, WITHOUT_ELR, Command
from testbed.cluster import RealKafka

pytestmark = pytest.mark.brokers

TOOL = "kafka-unclean-recovery"
SURVIVOR = 3


@pytest.mark.parametrize(
    "kafka",
    [
        ON_3_9,
        ON_4_0,
        pytest.param({"release": "4.0", "elr": False}, id="4.0 without ELR", marks=pytest.mark.full),
        ON_NEWEST,
        WITHOUT_ELR,
    ],
    indirect=True,
)
def test_a_partition_whose_whole_isr_was_killed_is_led_by_a_replica_from_outside_it(
    kafka: RealKafka, installed: Command, tmp_path: Path
) -> None:
    """The tool writes down whom it would elect, then elects. 4.0 without ELR is full only: 3.9 has none either.

    Half a minute on a busy machine: a cluster of its own, and the program as a user has it, twice.
    """
    file = tmp_path / "leaders.json"
    lost = kafka.offline_by_freezing("orders", survivors=(SURVIVOR,), partitions=2, records=10, missed=5)
    before = kafka.describe("orders")
    words = (TOOL, "--bootstrap-server", kafka.bootstrap, "--all-offline-partitions")

    written = installed(*words, "--manual-recovery-output-file", str(file))
    untouched = kafka.describe("orders")
    result = installed(*words, "--automated-recovery")

    assert written.returncode == 0, written.stderr
    designated = [{"topic": "orders", "partition": index, "designatedLeader": SURVIVOR} for index in before]
    assert json.loads(file.read_text()) == {"partitions": designated}
    assert untouched == before
    assert result.returncode == 0, result.stderr
    after = kafka.describe("orders")
    assert {state.leader for state in after.values()} == {SURVIVOR}
    assert all(kafka.leader_answers("orders", index, SURVIVOR) for index in after)
    assert {i: s.replicas for i, s in after.items()} == {i: s.replicas for i, s in before.items()}
    assert kafka.consume("orders", 0) == list(lost[0].held[SURVIVOR])
