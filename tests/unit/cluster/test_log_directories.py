"""What a look learns of the brokers' log directories, at what price, and what it does not believe."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.log_directories import BrokerDirectories, LogDirectory
from kafka_recovery.domain.policy import EvidenceRules
from unit.cluster.play import ORDERS, PATIENCE, Disk, Log, Play, offline

RULES = EvidenceRules(deadline=PATIENCE, attempts=3)
LAST = EvidenceRules(deadline=PATIENCE, attempts=1)
OTHER = TopicPartition("orders", 1)
GIB = 1 << 30
FAILED = Disk("/data1", error=56, total=-1, usable=-1)


def disaster(**play: Any) -> Play:
    """orders-0 lost its leader 1; brokers 2 and 3 hold it."""
    found = Play(**play)
    found.add(offline(), b1=Log(30), b2=Log(27), b3=Log(15))
    return found


async def gathered(play: Play, rules: EvidenceRules = RULES) -> Evidence:
    async with play.staged(1, 2, 3), play.cluster() as cluster:
        return await cluster.gather(ALL_OFFLINE, rules)


def told(evidence: Evidence, broker: int) -> BrokerDirectories | None:
    return next((its for its in evidence.cluster.log_directories if its.broker == broker), None)


def problem(evidence: Evidence, broker: int) -> str | None:
    its = told(evidence, broker)
    return its.problem.code if its and its.problem else None


async def test_each_broker_that_answers_is_asked_once_and_about_no_partition() -> None:
    """The question costs the same however many partitions are offline."""
    play = disaster()

    evidence = await gathered(play)

    asked = play.asked("DescribeLogDirs")
    assert [heard.message.topics for heard in asked] == [[], [], []]
    assert evidence.cluster.log_directories == tuple(
        BrokerDirectories(BrokerId(id), (LogDirectory("/data", None, 100 * GIB, 60 * GIB),)) for id in (1, 2, 3)
    )


async def test_where_one_of_several_directories_failed_it_is_asked_which_copies_lie_in_the_others() -> None:
    play = disaster(disks={2: [FAILED, Disk("/data2", copies=(ORDERS, OTHER))]})
    play.logs[2, ORDERS].error = 56

    evidence = await gathered(play)

    assert told(evidence, 2) == BrokerDirectories(
        BrokerId(2),
        (
            LogDirectory("/data1", "KAFKA_STORAGE_ERROR", copies=(), incoming=()),
            LogDirectory("/data2", None, 100 * GIB, 60 * GIB, copies=(ORDERS,), incoming=()),
        ),
    )
    assert [len(heard.message.topics) for heard in play.members[2].heard if heard.name == "DescribeLogDirs"] == [0, 1]


async def test_where_one_of_several_volumes_is_almost_full_it_is_asked_too() -> None:
    play = disaster(disks={2: [Disk("/data1", usable=0, copies=(ORDERS,)), Disk("/data2", incoming=(ORDERS,))]})

    its = told(await gathered(play), 2)

    assert its
    assert [(each.copies, each.incoming) for each in its.directories] == [((ORDERS,), ()), ((), (ORDERS,))]


async def test_several_directories_that_are_all_well_need_no_second_question() -> None:
    play = disaster(disks={2: [Disk("/data1", copies=(ORDERS,)), Disk("/data2")]})

    its = told(await gathered(play), 2)

    assert its
    assert [each.copies for each in its.directories] == [None, None]


async def test_a_broker_that_does_not_answer_is_not_asked() -> None:
    play = disaster()
    async with play.staged(2, 3), play.cluster() as cluster:
        evidence = await cluster.gather(ALL_OFFLINE, RULES)

    assert [its.broker for its in evidence.cluster.log_directories] == [2, 3]


async def test_a_last_look_does_not_ask() -> None:
    play = disaster()
    async with play.staged(1, 2, 3), play.cluster() as cluster:
        before = await cluster.gather(ALL_OFFLINE, RULES)
        asked = len(play.asked("DescribeLogDirs"))
        last = await cluster.gather(ALL_OFFLINE, LAST, {each.id: each for each in before.partitions})

    assert last.cluster.log_directories == ()
    assert len(play.asked("DescribeLogDirs")) == asked


def marked(evidence: Evidence) -> set[int]:
    """Whose copies of orders-0 are known to have no room."""
    return {copy.broker for copy in evidence.partitions[0].replicas if copy.log and copy.log.almost_full}


@pytest.mark.parametrize(
    ("disks", "expected"),
    [
        ([Disk(usable=0)], {2}),
        ([Disk()], set()),
        ([Disk("/data1", usable=0, copies=(ORDERS,)), Disk("/data2")], {2}),
        ([Disk("/data1", usable=0), Disk("/data2", copies=(ORDERS,))], set()),
        ([Disk("/data1", usable=0, incoming=(ORDERS,)), Disk("/data2", copies=(ORDERS,))], set()),
    ],
    ids=["full", "well", "the one with the copy", "another one", "one that it is moved to"],
)
async def test_a_copy_is_marked_that_lies_on_an_almost_full_volume(disks: list[Disk], expected: set[int]) -> None:
    assert marked(await gathered(disaster(disks={2: disks}))) == expected


async def test_what_a_broker_said_of_its_room_counts_until_it_says_something_else() -> None:
    """Else one lost answer would make another leader the best one, and void a plan."""
    play = disaster(disks={2: [Disk(usable=0)]})
    async with play.staged(1, 2, 3), play.cluster() as cluster:
        known = {each.id: each for each in (await cluster.gather(ALL_OFFLINE, RULES)).partitions}
        tells = play.members[2].roles["DescribeLogDirs"]
        play.members[2].roles["DescribeLogDirs"] = lambda heard: asyncio.sleep(600)
        silent = await cluster.gather(ALL_OFFLINE, RULES, known)
        last = await cluster.gather(ALL_OFFLINE, LAST, known)
        play.members[2].roles["DescribeLogDirs"], play.disks = tells, {}
        roomy = await cluster.gather(ALL_OFFLINE, RULES, known)

    assert problem(silent, 2) == "BrokerTimeout"
    assert [marked(each) for each in (silent, last, roomy)] == [{2}, {2}, set()]


async def test_without_the_right_they_are_unknown_and_the_right_is_named() -> None:
    evidence = await gathered(disaster(disks_error=31))

    its = told(evidence, 2)
    assert its
    assert (its.problem and its.problem.code) == "ClusterAuthorizationFailed"
    assert "DESCRIBE on the cluster" in str(its.problem)
    assert [replica.log.end for replica in evidence.partitions[0].replicas if replica.log] == [30, 27, 15]


async def test_a_volume_that_hangs_costs_a_second_and_no_log() -> None:
    play = disaster()
    async with play.staged(1, 2, 3), play.cluster() as cluster:
        play.members[2].roles["DescribeLogDirs"] = lambda heard: asyncio.sleep(600)
        evidence = await cluster.gather(ALL_OFFLINE, RULES)

    assert problem(evidence, 2) == "BrokerTimeout"
    assert evidence.cluster.took < timedelta(seconds=3)
    assert [replica.log.end for replica in evidence.partitions[0].replicas if replica.log] == [30, 27, 15]


@pytest.mark.parametrize(
    "lies",
    [
        [],
        [Disk(f"/data{number}") for number in range(257)],
        [Disk("/data"), Disk("/data")],
        [Disk("")],
        [Disk("/" + 1024 * "d")],
        [Disk("/data\x1b[2J")],
        [Disk(total=-2, usable=-2)],
        [Disk(total=100, usable=101)],
        [Disk(total=-1, usable=7)],
    ],
    ids=["none", "too many", "one twice", "no name", "a long name", "an escape", "a negative size", "too much", "of ?"],
)
async def test_what_no_broker_can_have_is_not_believed_and_costs_no_log(lies: list[Disk]) -> None:
    evidence = await gathered(disaster(disks={2: lies}))

    assert problem(evidence, 2) == "InvalidAnswer"
    assert [replica.log.end for replica in evidence.partitions[0].replicas if replica.log] == [30, 27, 15]


@pytest.mark.parametrize("lie", [(ORDERS, ORDERS), (ORDERS, OTHER)], ids=["in two", "not asked about"])
async def test_a_copy_lies_in_one_directory_and_was_asked_about(lie: tuple[TopicPartition, TopicPartition]) -> None:
    play = disaster(disks={2: [FAILED, Disk("/data2", copies=lie[:1]), Disk("/data3", copies=lie[1:])]})
    told_anyway = play.describe_log_dirs

    def tells_of_more(broker: int, heard: Any) -> Any:
        for topic in heard.message.topics:
            topic.partitions = [*topic.partitions, OTHER.partition]
        return told_anyway(broker, heard)

    play.describe_log_dirs = tells_of_more  # type: ignore[method-assign]

    assert problem(await gathered(play), 2) == "InvalidAnswer"


@pytest.mark.parametrize(
    ("total", "usable", "almost_full"),
    [
        (100 * GIB, 0, True),
        (100 * GIB, GIB - 1, True),
        (100 * GIB, GIB, False),
        (16 << 20, 8 << 20, False),
        (16 << 20, 1 << 19, True),
        (None, None, False),
    ],
)
def test_a_volume_is_almost_full_with_less_than_a_gib_and_five_percent_left(
    total: int | None, usable: int | None, almost_full: bool
) -> None:
    assert LogDirectory("/data", None, total, usable).is_almost_full is almost_full
