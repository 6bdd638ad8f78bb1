"""The simulated Kafka held against the newest real one: the same scripts, the same sights, field by field."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fidelity import on_brokers, on_model, recorded
from fidelity.script import Script, differences
from fidelity.scripts import SCRIPTS
from testbed.cluster import RealKafka

pytestmark = pytest.mark.brokers


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[RealKafka]:
    """One cluster for all scripts with ELR, one for all without."""
    with on_brokers.cluster("newest", elr=request.param) as kafka:
        yield kafka


@pytest.mark.parametrize(
    ("shared", "script"),
    [pytest.param(script.elr, script, id=script.name) for script in SCRIPTS],
    indirect=["shared"],
)
def test_the_model_sees_what_real_brokers_show(shared: RealKafka, script: Script) -> None:
    real = on_brokers.play(script, shared)

    assert differences(real, on_model.play(script)) == []
    assert real == recorded.seen(script), "record anew: python -m fidelity --record"
