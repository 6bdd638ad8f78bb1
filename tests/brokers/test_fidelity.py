"""The simulated Kafka held against real ones: the same scripts, the same sights, field by field.

Scripts in which the same happens to brokers are played together, each on a topic of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fidelity import on_brokers, on_model, recorded
from fidelity.script import Script, Sight, differences
from fidelity.scripts import SCRIPTS
from fidelity.together import groups
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers

Group = Sequence[Script]
WITHOUT_ELR, WITH_ELR = (pytest.mark.xdist_group(name) for name in ("without ELR", "with ELR"))
OLDER = [script for script in SCRIPTS if not script.elr and not script.newest_only]


def played(group: Group, *marks: pytest.MarkDecorator) -> Any:
    """A value for `group`."""
    return pytest.param(group, id="; ".join(script.name for script in group), marks=marks)


def spoilt_by(group: Group) -> bool:
    return any(script.spoils for script in group)


def from_the_model(real: Mapping[Script, Sequence[Sight]]) -> list[str]:
    """How it differs, each line with the script in which it does."""
    return [
        f"{script.name}: {line}"
        for script, sights in real.items()
        for line in differences(sights, on_model.play(script))
    ]


@pytest.mark.parametrize("group", [played(each, WITH_ELR if each[0].elr else WITHOUT_ELR) for each in groups(SCRIPTS)])
def test_the_model_sees_what_real_brokers_show(group: Group, warm: WarmKafka) -> None:
    """Up to half a minute on a busy machine: sessions of three seconds end, and brokers are started again."""
    with warm.lent(for_good=spoilt_by(group), **on_brokers.wish("newest", group[0].elr)) as kafka:
        real = on_brokers.play(group, kafka)

    assert from_the_model(real) == []
    seen_before = {script: recorded.seen(script) for script in group}
    assert real == seen_before, "record anew: python -m fidelity --record"


@pytest.mark.full
@pytest.mark.parametrize("group", [played(each) for each in groups(OLDER)])
@pytest.mark.parametrize(
    "release", [pytest.param(name, marks=pytest.mark.xdist_group(f"scripts on {name}")) for name in ("4.0", "3.9")]
)
def test_older_releases_show_the_same(release: str, group: Group, warm: WarmKafka) -> None:
    """Two more releases, three minutes each: what differs between them is KIP-966, and that has tests of its own."""
    with warm.lent(for_good=spoilt_by(group), **on_brokers.wish(release, group[0].elr)) as kafka:
        real = on_brokers.play(group, kafka)

    assert from_the_model(real) == []
