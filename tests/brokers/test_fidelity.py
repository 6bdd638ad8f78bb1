"""The simulated Kafka held against real ones: the same scripts, the same sights, field by field."""

from __future__ import annotations

import pytest

from fidelity import on_brokers, on_model, recorded
from fidelity.script import Script, differences
from fidelity.scripts import SCRIPTS
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers

WITHOUT_ELR, WITH_ELR = (pytest.mark.xdist_group(name) for name in ("without ELR", "with ELR"))
OLDER = [script for script in SCRIPTS if not script.elr and not script.newest_only]


@pytest.mark.parametrize(
    "script",
    [pytest.param(script, id=script.name, marks=WITH_ELR if script.elr else WITHOUT_ELR) for script in SCRIPTS],
)
def test_the_model_sees_what_real_brokers_show(script: Script, warm: WarmKafka) -> None:
    """Up to half a minute on a busy machine: sessions of three seconds end, and brokers are started again."""
    with warm.lent(**on_brokers.wish("newest", script.elr)) as kafka:
        real = on_brokers.play(script, kafka)

    assert differences(real, on_model.play(script)) == []
    assert real == recorded.seen(script), "record anew: python -m fidelity --record"


@pytest.mark.full
@pytest.mark.parametrize("script", [pytest.param(script, id=script.name) for script in OLDER])
@pytest.mark.parametrize(
    "release", [pytest.param(name, marks=pytest.mark.xdist_group(f"scripts on {name}")) for name in ("4.0", "3.9")]
)
def test_older_releases_show_the_same(release: str, script: Script, warm: WarmKafka) -> None:
    """Two more releases, five minutes each: what differs between them is KIP-966, and that has tests of its own."""
    with warm.lent(**on_brokers.wish(release, script.elr)) as kafka:
        assert differences(on_brokers.play(script, kafka), on_model.play(script)) == []
