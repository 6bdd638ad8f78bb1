"""The model shows in every script what real brokers showed when it was last played on them."""

from __future__ import annotations

import pytest

from fidelity import on_model, recorded
from fidelity.script import Script, Sight, differences
from fidelity.scripts import SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_model_sees_what_real_brokers_showed(script: Script) -> None:
    assert differences(recorded.seen(script), on_model.play(script)) == []


def test_every_record_is_of_a_script() -> None:
    assert {file.name for file in recorded.FOLDER.iterdir()} == {recorded.file_of(script).name for script in SCRIPTS}


def test_a_difference_names_the_step_the_field_and_both_values() -> None:
    real = [Sight("1. look", {"leader": 1, "ISR": [1, 2]}), Sight("2. elect", {"error": "NONE"})]
    model = [Sight("1. look", {"leader": 2, "ISR": [1, 2]}), Sight("2. elect", {})]
    assert differences(real, model) == [
        "1. look: leader is 1 on real brokers, 2 on the model",
        "2. elect: error is NONE on real brokers, None on the model",
    ]
