"""What is said of the metadata log while it is followed: only what the last reading showed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from kafka_recovery.cluster.errors import ClusterUnavailable
from kafka_recovery.cluster.metadata_log.reader import READING
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters import status as cluster_status
from kafka_recovery.kube.clusters.history import NO_CONTROLLERS, HistoryFollower
from kafka_recovery.kube.watching.watcher import WatchView
from unit.kube.clusters.keeping import NothingKept, NothingToKeep

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

Told = Reason | None | Exception


@dataclass
class Kafka(NothingToKeep):
    """Tells one after the other, and the last one for ever."""

    readings: Sequence[Told]
    times: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    async def read_metadata_log(self, within: timedelta, deadline: timedelta) -> Reason | None:
        told = self.readings[min(self.times, len(self.readings) - 1)]
        self.times += 1
        if self.times > len(self.readings):
            self.enough.set()
        if isinstance(told, Exception):
            raise told
        return told


@dataclass
class Following:
    """What was told of a follower while it followed."""

    seen: list[Reason | None] = field(default_factory=list)
    follower: HistoryFollower | None = None

    async def through(self, *readings: Told) -> list[Reason | None]:
        kafka = Kafka(readings)
        self.follower = HistoryFollower(kafka, NothingKept(), self._note, pause=timedelta(0))
        self.follower.start("kafka/prod")
        assert self.follower.problem is READING
        await asyncio.wait_for(kafka.enough.wait(), 10)
        return self.seen

    def _note(self) -> None:
        assert self.follower is not None
        self.seen.append(self.follower.problem)


@pytest.fixture
async def following() -> AsyncIterator[Following]:
    made = Following()
    yield made
    assert made.follower is not None
    await made.follower.stop()


async def test_a_cluster_of_which_nobody_answers_is_a_reason(following: Following) -> None:
    (told,) = await following.through(ClusterUnavailable({}))
    assert told == Reason("ClusterUnavailable", "no broker answered")


async def test_a_defect_ends_what_was_said_and_the_next_reading_mends_it(following: Following) -> None:
    first, broken, last = await following.through(None, RuntimeError("a defect"), None)
    assert (first, last) == (None, None)
    assert (broken and broken.code) == "InternalError"


def condition(problem: Reason | None) -> tuple[str, str]:
    """Status and reason of HistoryKnown."""
    status = cluster_status.watched(WatchView(timedelta(0)), Policy(()), None, 0, 1, {}, NOON, history=problem)
    (found,) = [each for each in status["conditions"] if each["type"] == "HistoryKnown"]
    return found["status"], found["reason"]


def test_what_nobody_asked_for_and_what_is_not_known_yet_are_no_troubles() -> None:
    assert condition(NO_CONTROLLERS) == ("Unknown", "NotConfigured")
    assert condition(READING) == ("Unknown", "ScanPending")


def test_the_status_says_what_becomes_of_histories_that_kafka_cuts_off() -> None:
    def told(unkept: str | None) -> str:
        status = cluster_status.watched(
            WatchView(timedelta(0)), Policy(()), None, 0, 1, {}, NOON, history=None, unkept=unkept
        )
        (found,) = [each for each in status["conditions"] if each["type"] == "HistoryKnown"]
        return str(found["message"])

    assert told(None).endswith("; ISR histories are kept for the operator's next process")
    assert told("no right").endswith("; ISR histories are not kept for the operator's next process: no right")
