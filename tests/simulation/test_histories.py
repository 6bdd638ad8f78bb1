"""Hundreds of histories with the real engine inside, every promise kept in each; and one seed tells one story."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.schedules import draw

HISTORIES = int(os.environ.get("HISTORIES", "500"))
CHUNK = 25


@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_every_promise_is_kept_in_every_history(first: int) -> None:
    for seed in range(first, min(first + CHUNK, HISTORIES)):
        history = happen(draw(seed))

        found = "\n".join(map(str, history.findings))
        assert not found, f"python -m kafka_recovery.simulator replay --seed {seed}\n{found}"


def test_seeds_tell_the_same_stories_again_in_another_process() -> None:
    program = "from kafka_recovery.simulator.__main__ import main\nfor seed in '149': main(['replay', '--seed', seed])"
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert told[0] == told[1]
    assert told[0].count("seed: ") == 3
    assert "everybody" in told[0]
