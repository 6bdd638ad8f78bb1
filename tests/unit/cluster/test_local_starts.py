"""Where logs of tiered topics begin on their brokers' disks: whom a look asks, at what price, and what it believes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.cluster.local_starts import Asked, with_local_starts
from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.evidence import Evidence, Replica
from kafka_recovery.domain.ids import BrokerId, Offset, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from unit.cluster.play import PATIENCE, Log, Play, offline
from unit.cluster.stage import Heard
from unit.decision.incident import log

RULES = EvidenceRules(deadline=PATIENCE, attempts=3)
LAST = EvidenceRules(deadline=PATIENCE, attempts=1)
PLAIN = TopicPartition("plain", 0)
EARLIEST_LOCAL = -4


def disaster(second: int | None = 20, third: int | None = 5, **play: Any) -> Play:
    """orders-0, of a tiered topic, lost its leader 1; brokers 2 and 3 hold it, from these offsets on their disks."""
    found = Play(tiered={"orders"}, **play)
    found.add(offline(), b1=Log(30), b2=Log(27, local_start=second), b3=Log(27, local_start=third))
    return found


async def gathered(play: Play) -> Evidence:
    async with play.staged(2, 3), play.cluster() as cluster:
        return await cluster.gather(ALL_OFFLINE, RULES)


def begins(evidence: Evidence, topic: str = "orders") -> dict[int, int | None]:
    seen = next(each for each in evidence.partitions if each.id.topic == topic)
    return {replica.broker: replica.log.local_start for replica in seen.replicas if replica.log}


def asked(play: Play) -> list[Heard]:
    return [
        heard
        for heard in play.asked("ListOffsets")
        if any(part.timestamp == EARLIEST_LOCAL for topic in heard.message.topics for part in topic.partitions)
    ]


async def test_each_broker_is_asked_once_where_its_logs_of_tiered_topics_begin_on_its_disk() -> None:
    play = disaster()

    assert begins(await gathered(play)) == {2: 20, 3: 5}
    assert len(asked(play)) == 2


async def test_nobody_is_asked_about_a_topic_that_is_not_tiered() -> None:
    play = Play()
    play.add(offline(PLAIN), b2=Log(27, local_start=20), b3=Log(27, local_start=5))

    assert begins(await gathered(play), "plain") == {2: None, 3: None}
    assert asked(play) == []


async def test_what_a_broker_does_not_tell_is_unknown_and_its_log_counts_all_the_same() -> None:
    play = disaster(second=None)
    evidence = await gathered(play)

    assert begins(evidence) == {2: None, 3: 5}
    assert [replica.problem for replica in evidence.partitions[0].replicas if replica.log] == [None, None]


async def test_a_broker_that_hangs_at_this_question_costs_a_second_and_no_log() -> None:
    play = disaster()

    async def hangs(heard: Heard) -> Any:
        if heard in asked(play):
            await asyncio.sleep(600)
        return play.list_offsets(2, heard)

    async with play.staged(2, 3), play.cluster() as cluster:
        play.members[2].roles["ListOffsets"] = hangs
        evidence = await cluster.gather(ALL_OFFLINE, RULES)

    assert begins(evidence) == {2: None, 3: 5}
    assert evidence.cluster.took < timedelta(seconds=5)


async def test_a_log_at_rest_that_begins_behind_its_end_is_not_believed() -> None:
    evidence = await gathered(disaster(second=28))

    assert begins(evidence) == {3: 5}
    second = evidence.partitions[0].replica(evidence.partitions[0].assignment[1])
    assert second is not None
    assert str(second.problem) == (
        "LogEndsContradict: broker 2 says that the log of orders-0 begins at 28 on its disk and ends at 27"
    )


@pytest.mark.parametrize("moves", [True, False], ids=["it may follow an older leader", "it has a leader"])
async def test_of_a_log_that_may_have_moved_on_between_two_answers_it_is_unknown(moves: bool) -> None:
    state = offline() if moves else offline(leader=BrokerId(3))
    copies = {state.id: {BrokerId(2): Replica(BrokerId(2), log(27, answered_under=None) if moves else log(27))}}

    async def behind(broker: BrokerId, asked: Asked) -> Mapping[TopicPartition, Offset]:
        return dict.fromkeys(asked, Offset(28))

    assert await with_local_starts([state], copies, {}, behind) == copies


async def test_the_later_of_the_log_s_start_and_its_start_on_disk_counts() -> None:
    """DeleteRecords moves the one at once, and the other when a segment is deleted."""
    play = disaster()
    play.logs[3, offline().id].start = 9

    assert begins(await gathered(play)) == {2: 20, 3: 9}


async def test_a_last_look_asks_nobody_and_knows_what_the_plan_knew() -> None:
    """Else a plan would be void because one disk was cleaned before the other."""
    play = disaster()
    async with play.staged(2, 3), play.cluster() as cluster:
        before = await cluster.gather(ALL_OFFLINE, RULES)
        for held in play.logs.values():
            held.local_start = 25
        last = await cluster.gather(ALL_OFFLINE, LAST, {each.id: each for each in before.partitions})

    assert begins(last) == begins(before) == {2: 20, 3: 5}
    assert len(asked(play)) == 2


async def test_a_last_look_does_not_learn_what_the_plan_did_not_know() -> None:
    play = disaster(third=None)
    async with play.staged(2, 3), play.cluster() as cluster:
        before = await cluster.gather(ALL_OFFLINE, RULES)
        play.logs[3, offline().id].local_start = 5
        last = await cluster.gather(ALL_OFFLINE, LAST, {each.id: each for each in before.partitions})

    assert begins(last) == begins(before) == {2: 20, 3: None}


async def test_of_a_log_that_changed_it_is_asked_anew() -> None:
    play = disaster()
    async with play.staged(2, 3), play.cluster() as cluster:
        before = await cluster.gather(ALL_OFFLINE, RULES)
        changed = play.logs[2, offline().id]
        changed.end, changed.local_start = 29, 25
        later = await cluster.gather(ALL_OFFLINE, RULES, {each.id: each for each in before.partitions})

    assert begins(later) == {2: 25, 3: 5}
    assert len(asked(play)) == 3
