"""What a person on call sees first of each incident; the files are made by unit.cli.terminal.incidents."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import Approval
from unit.cli.terminal.incidents import INCIDENTS, SHOWN, as_shown, file_of, the_last_member_is_dead

FIRST_SCREEN = 24
"""Lines of a terminal that nobody made larger."""


@pytest.mark.parametrize("incident", INCIDENTS)
def test_each_incident_is_shown_as_it_was_read_and_found_good(incident: str) -> None:
    assert as_shown(INCIDENTS[incident]()) == file_of(incident).read_text()


def test_every_file_belongs_to_an_incident() -> None:
    assert sorted(path.stem for path in SHOWN.iterdir()) == sorted(INCIDENTS)
    assert len(INCIDENTS) >= 16


@pytest.mark.parametrize("incident", INCIDENTS)
def test_who_is_elected_what_it_loses_and_whom_to_repair_first_stand_on_the_first_screen(incident: str) -> None:
    plan = INCIDENTS[incident]()
    first = " ".join("\n".join(as_shown(plan).splitlines()[:FIRST_SCREEN]).split())
    if not plan.elections:
        assert "This plan elects nobody" in first
        return
    for decision in plan.elections.values():
        assert f"broker {decision.leader} on " in first
        assert decision.loss is not None
        assert re.search(rf"\. {decision.loss.loss_class}( on \S+ partitions?)?: ", first)
    assert any(word in first for word in ("CAN ", "DANGER: stop", "Waiting saves nothing"))
    assert any(each.verdict is Verdict.ELECT for each in plan.decisions)


@pytest.mark.parametrize(
    "incident", ["the_last_member_is_dead", "nothing_is_lost", "no_copy_lives", "the_old_leader_still_leads"]
)
def test_in_an_ordinary_case_all_that_decides_stands_on_one_screen(incident: str) -> None:
    """Down to the last broker; what the ISR was, and each partition's line, come below."""
    _, *shown = as_shown(INCIDENTS[incident]()).splitlines()
    assert shown.index(next(line for line in shown if line.startswith("Partitions "))) - 1 <= FIRST_SCREEN


@pytest.mark.parametrize(
    ("incident", "why"),
    [
        ("the_only_copy_is_empty", "Broker 3 is EMPTY: it holds no record of orders-0, orders-1."),
        ("retention_emptied_the_only_copy", "Broker 3 is EMPTY: it holds no record of orders-0."),
        ("a_few_records_are_lost_at_most", "Broker 3 was named as leader of orders-0: by EpochFirst broker 2 is"),
    ],
)
def test_a_plan_beside_which_a_better_one_may_be_had_opens_with_that(incident: str, why: str) -> None:
    _, first, *_ = as_shown(INCIDENTS[incident]()).splitlines()
    assert first.startswith(f"DO NOT APPROVE. {why}")

    over = as_shown(INCIDENTS[incident](), over=True)
    assert f"\n{why}" in over
    assert "DO NOT APPROVE" not in over


def test_a_plan_beside_which_kafka_may_elect_a_broker_with_less_opens_with_stopping_it() -> None:
    _, first, *_ = as_shown(INCIDENTS["a_member_is_back_with_less"]()).splitlines()
    assert first.startswith("DO NOT APPROVE YET. DANGER: stop broker 1 NOW, and keep it stopped.")


def test_an_empty_leader_about_whom_nobody_is_asked_is_to_be_stopped() -> None:
    plan = INCIDENTS["the_only_copy_is_empty"]()
    unasked = tuple(replace(each, approval=Approval.AUTO) for each in plan.decisions)
    _, first, *_ = as_shown(replace(plan, decisions=unasked)).splitlines()
    assert first.startswith("STOP THIS PLAN. Broker 3 is EMPTY: it holds no record of orders-0, orders-1.")


@pytest.mark.parametrize("incident", INCIDENTS)
def test_what_must_never_be_done_stands_above_the_first_thing_to_start(incident: str) -> None:
    shown = as_shown(INCIDENTS[incident]())
    if "start it, wait" in shown:
        assert shown.index("NEVER start") < shown.index("start it, wait")


def test_partitions_that_are_alike_are_told_once_with_their_isr_and_their_log_ends() -> None:
    shown = as_shown(INCIDENTS["several_brokers_are_dead"]())
    assert "orders-1, orders-2, orders-4  2     -    2            1: ?, 2: ?, 3: 40 (0)\n" in shown
    assert "orders-3                      1, 2  -    ?            1: ?, 2: ?, 3: 40 (0)\n" in shown
    assert ": 1000 to 1056 (0)" in as_shown(INCIDENTS["many_partitions"]())
    assert "3: 0 EMPTY\n" in as_shown(INCIDENTS["the_only_copy_is_empty"]())


def test_once_nothing_is_elected_by_it_nobody_is_told_what_to_do_before() -> None:
    shown = as_shown(the_last_member_is_dead(), over=True)

    assert "3 partitions had no leader when this plan was made" in shown
    for advice in ("CAN BROKER", "NEVER", "IF YOU APPROVE", "IF NOBODY APPROVES"):
        assert advice not in shown


def test_the_docs_show_what_is_shown() -> None:
    shown = file_of("the_longest_log_is_the_wrong_one").read_text()
    card = shown.split("\n", 1)[1].split("\nPartition  Verdict")[0].rstrip()

    assert card in (Path(__file__).parents[4] / "docs" / "reference" / "commands.md").read_text()
