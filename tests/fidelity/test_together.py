"""Scripts that are played together: what happens to brokers happens once, and each script sees its own topic."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fidelity import together
from fidelity.script import Script, Stage, Step, freeze, kill, thaw
from fidelity.scripts import SCRIPTS
from fidelity.together import groups


class Told:
    """A stage that notes what it is told, beside other stages of the same cluster."""

    def __init__(self, name: str, noted: list[str]) -> None:
        self._name, self._noted = name, noted

    def freeze(self, broker: int) -> None:
        self._noted.append(f"{broker} freezes")

    def thaw(self, broker: int) -> None:
        self._noted.append(f"{broker} thaws")

    def kill(self, broker: int) -> None:
        self._noted.append(f"{broker} is killed")

    def write(self, broker: int, records: int, acks: int) -> str:
        self._noted.append(f"{self._name} gets {records}")
        return self._name


def wrote(records: int) -> Step:
    return Step(f"write {records}", lambda stage: {"error": stage.write(1, records, 1)})


def script(name: str, *steps: Step, elr: bool = False) -> Script:
    return Script(name, elr, steps)


def played(*scripts: Script) -> tuple[list[str], Any]:
    """What the cluster was told, and what the scripts saw."""
    noted: list[str] = []
    seen = together.play({each: cast(Stage, Told(each.name, noted)) for each in scripts})
    return noted, {each.name: [(sight.step, sight.fields["error"]) for sight in seen[each]] for each in scripts}


def test_what_happens_to_brokers_happens_once_between_what_happens_to_each_topic() -> None:
    long = script("long", wrote(1), freeze(2), wrote(2), thaw(2))
    short = script("short", freeze(2), wrote(3))

    noted, seen = played(long, short)

    assert noted == ["long gets 1", "2 freezes", "long gets 2", "short gets 3", "2 thaws"]
    assert seen == {"long": [("1. write 1", "long"), ("3. write 2", "long")], "short": [("2. write 3", "short")]}


def test_a_script_goes_on_when_one_before_it_has_ended() -> None:
    noted, _ = played(script("short", freeze(2)), script("long", freeze(2), thaw(2), wrote(1)))
    assert noted == ["2 freezes", "2 thaws", "long gets 1"]


def test_scripts_in_which_something_else_happens_to_brokers_are_not_played_together() -> None:
    with pytest.raises(ValueError, match=r"freeze 2.*kill 2"):
        played(script("one", freeze(2)), script("other", kill(2)))


def test_a_group_is_one_script_and_those_that_go_no_other_way_as_far_as_they_go() -> None:
    short, long, other = script("short", freeze(2)), script("long", freeze(2), thaw(2)), script("other", kill(2))
    assert groups([short, long, other]) == [(long, short), (other,)]


def test_scripts_with_eligible_leader_replicas_are_not_in_a_group_with_those_without() -> None:
    without, having = script("without", freeze(2)), script("with", freeze(2), elr=True)
    assert groups([without, having]) == [(without,), (having,)]


def test_every_script_is_in_one_group_and_the_last_one_is_played_last_and_alone() -> None:
    found = groups(SCRIPTS)
    assert sorted(each.name for group in found for each in group) == sorted(each.name for each in SCRIPTS)
    assert found[-1] == (SCRIPTS[-1],)
