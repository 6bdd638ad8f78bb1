"""Thousands of histories: those that `test_histories` does not run."""

from __future__ import annotations

import pytest

from kafka_recovery.simulator.histories.many import many

FIRST, END, CHUNK = 500, 5000, 250


@pytest.mark.full
@pytest.mark.parametrize("first", range(FIRST, END, CHUNK))
def test_every_promise_is_kept_in_thousands_of_histories(first: int) -> None:
    failed = [told for told in many(range(first, first + CHUNK), jobs=1) if told.findings]

    found = "\n".join(f"seed {told.seed}: {finding}" for told in failed for finding in told.findings)
    assert not found, f"make simulate SEEDS={first}..{first + CHUNK}\n{found}"
