"""How the work queue tells of failures: what comes from outside in one line for all, a defect with its traceback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from kafka_recovery.kube.machinery.work_queue import WorkQueue
from unit.virtual import in_no_time

AT_ONCE = timedelta(0)


async def fails(keys: int, seconds: float, expected: Callable[[Exception], str | None]) -> int:
    """So many keys fail for so long; how often they were looked at."""
    looks = 0

    async def badly(key: str) -> None:
        nonlocal looks
        looks += 1
        raise ConnectionError("no way")

    queue = WorkQueue(badly, owner=str, expected=expected)
    for number in range(keys):
        queue.add(f"recovery-{number}")
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(seconds)
    await queue.stop(AT_ONCE)
    await task
    return looks


def test_a_trouble_from_outside_is_one_line_a_minute_for_all_that_have_it(caplog: pytest.LogCaptureFixture) -> None:
    looks = in_no_time(fails(200, 130, lambda error: type(error).__name__))

    said = [record.getMessage() for record in caplog.records]
    assert looks > 1000
    assert len(said) == 3
    assert said[0].startswith("looking at recovery-0 failed, 1 times in a row; again in 0.")
    assert said[0].endswith(" s: no way")
    assert "more like it in the meantime)" in said[1]
    assert "Traceback" not in caplog.text


def test_an_error_of_our_own_is_told_each_time_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    looks = in_no_time(fails(1, 1, lambda error: None))

    assert caplog.text.count("Traceback") == looks == 2
