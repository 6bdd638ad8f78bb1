"""Scenarios as files: what is written can be read, and what is wrong is said with its line and field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.domain.documents import InvalidDocument
from kafka_recovery.simulator.histories.scenario import VERSION, Fault, Kind
from kafka_recovery.simulator.histories.scenario_files import load_scenario, written
from kafka_recovery.simulator.histories.schedules import draw
from kafka_recovery.simulator.histories.shrink import shrink

SMALL = """version: 1
seed: 7
brokers: 3
topics:
- name: orders
  assignments: [[1, 2, 3]]
faults:
- {at: 5, kind: kill, broker: 1}
- at: 6
  kind: cut
  broker: 1
  other: 2
"""


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_read_again(seed: int) -> None:
    scenario = draw(seed)

    assert load_scenario(written(scenario), "a.yaml") == scenario


def test_a_seed_always_gives_the_same_scenario() -> None:
    assert draw(11) == draw(11)
    assert draw(11) != draw(12)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("kind: cut", "kind: cutt", "a.yaml:10: faults.1.kind: "),
        ("other: 2", "otherr: 2", "a.yaml:12: faults.1.otherr: "),
        ("other: 2", "other: 9", "a.yaml:12: faults.1.other: there is no broker 9"),
        ("brokers: 3", "brokers: three", "a.yaml:3: brokers: "),
        ("[[1, 2, 3]]", "[[1, 2, 2]]", "a.yaml:6: topics.0.assignments.0: "),
        ("version: 1", "version: 99", "a.yaml:1: version: this simulator replays version"),
        ("seed: 7", "seed: [", "a.yaml:"),
        ("seed: 7", "seed: 2020-13-45", "a.yaml:1: not YAML that can be read: "),
        ("seed: 7", "seed: " + 5000 * "[", "a.yaml:2: not YAML that can be read: it is nested too deeply"),
        ("seed: 7", "seed: &all 7\nbrokers: *all", "a.yaml:3: not YAML that can be read: aliases are not supported"),
        ("version: 1", "version: true", "a.yaml:1: version: this simulator replays version"),
        ("at: 5,", "at: .nan,", "a.yaml:8: faults.0.at: "),
        ("at: 5,", "at: -5,", "a.yaml:8: faults.0.at: must be from 0 to 120 (got -5)"),
        ("at: 5,", "at: 500,", "a.yaml:8: faults.0.at: must be from 0 to 120 (got 500)"),
        ("kill, broker: 1}", "kill}", "a.yaml:8: faults.0.broker: is missing; kill needs it"),
        ("  other: 2\n", "", "a.yaml:9: faults.1.other: is missing; cut needs it"),
        ("faults:", "- {name: orders, assignments: [[1]]}\nfaults:", "a.yaml:7: topics.1.name: there are two topics"),
        ("faults:", "  min_isr: 9\nfaults:", "a.yaml:7: topics.0.min_isr: must be from 1 to 3 (got 9)"),
        ("brokers: 3", "brokers: 3\nquiet_at: .inf", "a.yaml:4: quiet_at: "),
        (
            "faults:",
            "traffic: [{partition: orders-0, acks_all: true, first: 1, last: 9, every: 1, records: -3}]\nfaults:",
            "a.yaml:7: traffic.0.records: must be from 1 to 10000 (got -3)",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_field(right: str, wrong: str, said: str) -> None:
    with pytest.raises(InvalidDocument) as problem:
        load_scenario(SMALL.replace(right, wrong), "a.yaml")

    assert str(problem.value).startswith(said)


def test_a_scenario_of_another_version_says_that_it_cannot_be_replayed() -> None:
    with pytest.raises(InvalidDocument, match="the release that wrote it"):
        load_scenario(SMALL.replace("version: 1", f"version: {VERSION + 1}"), "a.yaml")


def test_shrinking_leaves_only_what_the_failure_needs() -> None:
    scenario = draw(3)
    needed = Fault(50, Kind.CRASH, broker=2)
    noisy = replace(scenario, faults=(*scenario.faults, needed))

    short = shrink(noisy, lambda candidate: needed in candidate.faults)

    assert short.faults == (needed,)
    assert short.engines == ()
    assert short.traffic == ()
    assert len(short.topics) == 1
