"""Questions that are asked at once, of which all are answered or none counts."""

from __future__ import annotations

import asyncio

import pytest

from kafka_recovery.cluster.errors import ClusterError
from kafka_recovery.cluster.together import together


async def say(word: str) -> str:
    return word


async def test_answers_come_in_the_order_of_the_questions() -> None:
    assert await together(say("one"), say("two")) == ("one", "two")


async def test_after_the_first_error_nobody_asks_on() -> None:
    """Whoever tries again would share what the first try still writes to."""
    ended: list[str] = []

    async def fails() -> None:
        raise ClusterError("no")

    async def lasts() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("called off")

    with pytest.raises(ClusterError, match="no"):
        await together(lasts(), fails())
    assert ended == ["called off"]
