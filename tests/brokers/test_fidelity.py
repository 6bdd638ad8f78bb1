"""The simulated Kafka held against real ones: the same scripts, the same sights, field by field.

Scripts in which the same happens to brokers are played together, each on a topic of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fidelity import on_brokers, on_model, recorded
from fidelity.script import Script, differences
from fidelity.scripts import SCRIPTS
from fidelity.together import companies
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers

Company = Sequence[Script]
WITHOUT_ELR, WITH_ELR = (pytest.mark.xdist_group(name) for name in ("without ELR", "with ELR"))
OLDER = [script for script in SCRIPTS if not script.elr and not script.newest_only]


def played(company: Company, *marks: pytest.MarkDecorator) -> Any:
    """A value for `company`."""
    return pytest.param(company, id="; ".join(script.name for script in company), marks=marks)


@pytest.mark.parametrize(
    "company", [played(each, WITH_ELR if each[0].elr else WITHOUT_ELR) for each in companies(SCRIPTS)]
)
def test_the_model_sees_what_real_brokers_show(company: Company, warm: WarmKafka) -> None:
    """Up to half a minute on a busy machine: sessions of three seconds end, and brokers are started again."""
    with warm.lent(**on_brokers.wish("newest", company[0].elr)) as kafka:
        real = on_brokers.play(company, kafka)

    assert [line for script in company for line in differences(real[script], on_model.play(script))] == []
    seen_before = {script: recorded.seen(script) for script in company}
    assert real == seen_before, "record anew: python -m fidelity --record"


@pytest.mark.full
@pytest.mark.parametrize("company", [played(each) for each in companies(OLDER)])
@pytest.mark.parametrize(
    "release", [pytest.param(name, marks=pytest.mark.xdist_group(f"scripts on {name}")) for name in ("4.0", "3.9")]
)
def test_older_releases_show_the_same(release: str, company: Company, warm: WarmKafka) -> None:
    """Two more releases, three minutes each: what differs between them is KIP-966, and that has tests of its own."""
    with warm.lent(**on_brokers.wish(release, company[0].elr)) as kafka:
        real = on_brokers.play(company, kafka)

    assert [line for script in company for line in differences(real[script], on_model.play(script))] == []
