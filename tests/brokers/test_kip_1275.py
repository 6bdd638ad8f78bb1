"""KIP-1275's own test plan, on every release: kill -9 the whole ISR, recover, led from outside it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cluster import RealKafka

pytestmark = pytest.mark.brokers

Command = Callable[..., subprocess.CompletedProcess[str]]
TOOL = "kafka-unclean-recovery"


@pytest.mark.parametrize(
    ("release", "elr"), [("3.9", None), ("4.0", False), ("4.0", True), ("newest", False), ("newest", True)]
)
def test_a_partition_whose_whole_isr_was_killed_is_led_by_a_replica_from_outside_it(
    release: str, elr: bool | None, command: Command
) -> None:
    with RealKafka(release, elr=elr) as kafka:
        lost = kafka.offline_by_freezing("orders", survivors=(3,), partitions=2, records=10, missed=5)
        before = kafka.describe("orders")

        result = command(
            TOOL, "--bootstrap-server", kafka.bootstrap, "--all-offline-partitions", "--automated-recovery"
        )

        assert result.returncode == 0, result.stderr
        after = kafka.describe("orders")
        assert {state.leader for state in after.values()} == {3}
        assert all(kafka.leader_answers("orders", index, 3) for index in after)
        assert {i: s.replicas for i, s in after.items()} == {i: s.replicas for i, s in before.items()}
        assert kafka.consume("orders", 0) == list(lost[0].held[3])


def test_the_file_of_a_manual_recovery_names_the_best_replica_and_our_own_execute_takes_it(
    kafka: RealKafka, command: Command, tmp_path: Path
) -> None:
    kafka.offline_partition("orders", survivors={2: 27, 3: 15})
    file = tmp_path / "leaders.json"

    written = command(
        TOOL,
        "--bootstrap-server",
        kafka.bootstrap,
        "--all-offline-partitions",
        "--manual-recovery-output-file",
        str(file),
    )

    assert written.returncode == 0, written.stderr
    assert json.loads(file.read_text()) == {"partitions": [{"topic": "orders", "partition": 0, "designatedLeader": 3}]}
    assert kafka.describe("orders")[0].leader is None
