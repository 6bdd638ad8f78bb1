"""What a person on call sees first of each incident; the files are made by unit.cli.terminal.incidents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_recovery.domain.plan import Verdict
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


def test_once_nothing_is_elected_by_it_nobody_is_told_what_to_do_before() -> None:
    shown = as_shown(the_last_member_is_dead(), over=True)

    assert "3 partitions had no leader when this plan was made" in shown
    for advice in ("CAN BROKER", "NEVER", "IF YOU APPROVE", "IF NOBODY APPROVES"):
        assert advice not in shown


def test_the_docs_show_what_is_shown() -> None:
    shown = file_of("the_longest_log_is_the_wrong_one").read_text()
    card = shown.split("\n\n", 1)[1].split("\nPartition  Verdict")[0].rstrip()

    assert card in (Path(__file__).parents[4] / "docs" / "reference" / "commands.md").read_text()
