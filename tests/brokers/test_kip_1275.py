"""KIP-1275's own test plan, on every release: kill -9 the whole ISR, recover, led from outside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.conftest import ON_3_9, ON_4_0, ON_NEWEST, WITHOUT_ELR, Command, on, only_in_full
from testbed.cluster import RealKafka

pytestmark = pytest.mark.brokers

TOOL = "kafka-unclean-recovery"
SURVIVOR = 3


def typed(how: str, kafka: Any) -> Any:
    """Values for `kafka` and `how`."""
    return pytest.param(*kafka.values, how, id=kafka.id, marks=kafka.marks)


@pytest.mark.parametrize(
    ("kafka", "how"),
    [
        typed("command", ON_3_9),
        typed("command", ON_4_0),
        typed("command", only_in_full(on("4.0 without ELR", {"release": "4.0", "elr": False}))),
        typed("installed", ON_NEWEST),
        typed("command", WITHOUT_ELR),
    ],
    indirect=["kafka"],
)
def test_a_partition_whose_whole_isr_was_killed_is_led_by_a_replica_from_outside_it(
    kafka: RealKafka, how: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The tool writes down whom it would elect, then elects. 4.0 without ELR is full only: 3.9 has none either.

    On the newest it is the program as a user has it, twice: half a minute on a busy machine, as a first cluster is.
    """
    run: Command = request.getfixturevalue(how)
    file = tmp_path / "leaders.json"
    lost = kafka.offline_by_freezing("orders", survivors=(SURVIVOR,), partitions=2, records=10, missed=5)
    before = kafka.describe("orders")
    words = (TOOL, "--bootstrap-server", kafka.bootstrap, "--all-offline-partitions")

    written = run(*words, "--manual-recovery-output-file", str(file))
    untouched = kafka.describe("orders")
    result = run(*words, "--automated-recovery")

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
