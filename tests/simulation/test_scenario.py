"""Scenarios as files: what is written can be read, and what is wrong is said with its line and field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario import VERSION, Fault, Kind
from kafka_recovery.simulator.histories.scenario_files import load_scenario, written
from kafka_recovery.simulator.histories.schedules import draw
from kafka_recovery.simulator.histories.shrink import shrink
from kafka_recovery.simulator.model.switches import AS_RELEASED

SMALL = f"""version: {VERSION}
seed: 7
brokers: 3
topics:
- name: orders
  assignments: [[1, 2, 3]]
faults:
- {{at: 5, kind: kill, broker: 1}}
- at: 6
  kind: cut
  broker: 1
  other: 2
"""


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_read_again(seed: int) -> None:
    scenario = draw(seed)
    striking = tuple(fault for fault in scenario.faults if fault.machine in (None, *scenario.machines))

    assert load_scenario(written(scenario), "a.yaml") == replace(scenario, faults=striking)


def test_a_fault_of_a_machine_where_no_engine_runs_is_not_written() -> None:
    """Chance draws such faults; they strike nobody, and in a file they would be refused."""
    small = load_scenario(SMALL, "a.yaml")
    nowhere = replace(small, faults=(*small.faults, Fault(7, Kind.KILL_ENGINE, machine=1)))

    assert load_scenario(written(nowhere), "a.yaml") == small


def test_a_scenario_names_the_safety_rules_that_differ_and_is_played_by_them() -> None:
    alone = "- {at: 5, kind: isolate, broker: 1}\nswitches: {brokers_fence_themselves: true}\n"
    cut_off = load_scenario(SMALL.split("- {at: 5")[0] + alone, "a.yaml")

    assert cut_off.switches == replace(AS_RELEASED, brokers_fence_themselves=True)
    assert "switches: {brokers_fence_themselves: true}" in written(cut_off)
    assert load_scenario(written(cut_off), "a.yaml") == cut_off
    for scenario, fenced in ((cut_off, True), (replace(cut_off, switches=AS_RELEASED), False)):
        told = str(happen(scenario, timeline=True).story.kafka.timeline)
        assert ("broker 1       fenced itself" in told) is fenced


def test_a_seed_always_gives_the_same_scenario() -> None:
    assert draw(11) == draw(11)
    assert draw(11) != draw(12)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("kind: cut", "kind: cutt", "a.yaml:10: faults.1.kind: there is no kind 'cutt'; did you mean cut?"),
        ("kind: cut", "kind: xyz", "a.yaml:10: faults.1.kind: there is no kind 'xyz'; known are kill, start, stop, "),
        ("other: 2", "otherr: 2", "a.yaml:12: faults.1.otherr: is an unknown field; did you mean other?"),
        ("seed: 7", "elrs: true\nseed: 7", "a.yaml:2: elrs: is an unknown field; did you mean elr?"),
        (
            "seed: 7",
            "switches: {truncate_by_epoch: false}\nseed: 7",
            "a.yaml:2: switches.truncate_by_epoch: is an unknown field; did you mean truncate_by_epochs?",
        ),
        ("seed: 7\n", "", "a.yaml:1: seed: is missing"),
        ("other: 2", "other: 9", "a.yaml:12: faults.1.other: there is no broker 9; there are 1 to 3"),
        ("other: 2", "other: 1", "a.yaml:12: faults.1.other: broker 1 can't be cut off from itself"),
        ("brokers: 3", "brokers: three", "a.yaml:3: brokers: "),
        ("brokers: 3", "brokers: 99999999999999", "a.yaml:3: brokers: must be from 1 to 100 (got 1e+14)"),
        ("[[1, 2, 3]]", "[[1, 2, 2]]", "a.yaml:6: topics.0.assignments.0: "),
        (f"version: {VERSION}", "version: 99", "a.yaml:1: version: this simulator replays version"),
        ("seed: 7", "seed: [", "a.yaml:"),
        ("seed: 7", "seed: 2020-13-45", "a.yaml:1: not YAML that can be read: "),
        ("seed: 7", "seed: " + 5000 * "[", "a.yaml:2: not YAML that can be read: it is nested too deeply"),
        ("seed: 7", "seed: &all 7\nbrokers: *all", "a.yaml:3: not YAML that can be read: aliases are not supported"),
        ("at: 5,", "at: .nan,", "a.yaml:8: faults.0.at: "),
        ("at: 5,", "at: 500,", "a.yaml:8: faults.0.at: must be from 0 to 120 (got 500)"),
        ("kill, broker: 1}", "kill}", "a.yaml:8: faults.0.broker: is missing; kill needs it"),
        ("broker: 1}", "designated: true}", "a.yaml:8: faults.0.designated: needs upon"),
        (
            "kill, broker: 1}",
            "reassign, partition: orders-0}",
            "a.yaml:8: faults.0.replicas: is missing; reassign needs it: different brokers of 1 to 3",
        ),
        (
            "kill, broker: 1}",
            "reassign, partition: orders-0, replicas: [1, 9]}",
            "a.yaml:8: faults.0.replicas: [1, 9] are not different brokers of 1 to 3",
        ),
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


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("kill-engine, machine: 7", "no engine runs on machine 7; engines run on 1 or 2"),
        ("kill-engine", "no engine runs on machine 0 (which is meant where none is named); engines run on 1 or 2"),
    ],
)
def test_a_machine_where_no_engine_runs_is_refused_and_those_where_one_does_are_named(fault: str, said: str) -> None:
    engines = "engines: [{at: 5, machine: 1}, {at: 9, machine: 2}]\nfaults:"
    text = SMALL.replace("faults:", engines).replace("kill, broker: 1", fault)

    with pytest.raises(InvalidDocument) as problem:
        load_scenario(text, "a.yaml")

    assert str(problem.value) == f"a.yaml:9: faults.0.machine: {said}"


def test_without_any_engine_it_is_said_where_engines_are_written() -> None:
    with pytest.raises(InvalidDocument, match=r"machine: no engine runs on machine 0 .*; no engine runs at all: say"):
        load_scenario(SMALL.replace("kill, broker: 1", "kill-engine"), "a.yaml")


def test_a_clock_jumps_by_a_year_at_most() -> None:
    text = SMALL.replace("faults:", "engines: [{at: 5}]\nfaults:").replace("kill, broker: 1", "jump, delay: 1e300")

    with pytest.raises(InvalidDocument, match=r"a\.yaml:9: faults\.0\.delay: "):
        load_scenario(text, "a.yaml")


@pytest.mark.parametrize(
    ("once", "twice", "said"),
    [
        ("seed: 7\n", "seed: 7\nseed: 8\n", ["a.yaml:3: seed: stands here again; it is at line 2 already"]),
        ("at: 5,", "at: 5, at: 6,", ["a.yaml:8: faults.0.at: stands here again; it is at line 8 already"]),
        (
            "other: 2\n",
            "other: 2\n  other: 3\n",
            ["a.yaml:13: faults.1.other: stands here again; it is at line 12 already"],
        ),
        (
            "seed: 7\n",
            "seed: 7\nbrokers: 4\nfaults: []\n",
            [
                "a.yaml:5: brokers: stands here again; it is at line 3 already",
                "a.yaml:9: faults: stands here again; it is at line 4 already",
            ],
        ),
        (
            f"version: {VERSION}\n",
            f"version: 99\nversion: {VERSION}\n",
            ["a.yaml:2: version: stands here again; it is at line 1 already"],
        ),
    ],
)
def test_a_field_that_is_written_twice_is_refused_with_both_lines(once: str, twice: str, said: list[str]) -> None:
    with pytest.raises(InvalidDocument) as problem:
        load_scenario(SMALL.replace(once, twice, 1), "a.yaml")

    assert str(problem.value).splitlines() == said


def test_all_that_makes_no_sense_is_said_in_the_order_of_lines() -> None:
    text = (
        SMALL.replace("broker: 1}", "broker: 8}").replace("[[1, 2, 3]]", "[[1, 2, 7]]").replace("other: 2", "other: 9")
    )

    with pytest.raises(InvalidDocument) as problem:
        load_scenario(text, "a.yaml")

    assert [line.split(": ")[0] for line in str(problem.value).splitlines()] == ["a.yaml:6", "a.yaml:8", "a.yaml:12"]


def test_shrinking_leaves_only_what_the_failure_needs() -> None:
    scenario = draw(3)
    needed = Fault(50, Kind.CRASH, broker=2)
    noisy = replace(scenario, faults=(*scenario.faults, needed))

    short = shrink(noisy, lambda candidate: needed in candidate.faults)

    assert short.faults == (needed,)
    assert short.engines == ()
    assert short.traffic == ()
    assert len(short.topics) == 1
