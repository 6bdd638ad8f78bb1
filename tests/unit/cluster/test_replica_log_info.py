"""Measuring by GetReplicaLogInfo (KIP-1275): when it is sent, what of its answer counts, and the broker's epoch."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_recovery.cluster.drivers import Kip1275
from kafka_recovery.domain.election import ALL_OFFLINE, Scope
from kafka_recovery.domain.evidence import Evidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from unit.cluster.codes import code_of
from unit.cluster.play import EPOCH, ORDERS, PATIENCE, Log, Play, offline
from unit.cluster.stage import Heard

KEY = 700
RULES = EvidenceRules(deadline=PATIENCE)
_LATEST = -1


def telling(log: Log, **play: Any) -> Play:
    """Broker 2 holds orders-0 and knows the request."""
    found = Play(log_info={2: KEY}, **play)
    found.add(offline(replicas=(1, 2)), b2=log)
    return found


async def gathered(play: Play, key: int | None = KEY, scope: Scope = ALL_OFFLINE) -> Evidence:
    async with play.cluster(Kip1275(replica_log_info_key=key)) as cluster:
        return await cluster.gather(scope, RULES)


async def measured(play: Play, key: int | None = KEY) -> Replica:
    async with play.staged(2):
        found = (await gathered(play, key)).partitions[0].replica(BrokerId(2))
    assert found
    return found


def epoch(evidence: Evidence) -> int | None:
    broker = evidence.cluster.broker(BrokerId(2))
    assert broker
    return broker.epoch


def asked_for_ends(play: Play) -> int:
    """How often log ends were asked for by released Kafka's request."""
    return sum(
        part.timestamp == _LATEST
        for heard in play.asked("ListOffsets")
        for topic in heard.message.topics
        for part in topic.partitions
        if heard.message.replica_id == -2
    )


class TestWhenItIsSent:
    async def test_where_its_key_is_given_and_offered_it_tells_where_the_log_ends(self) -> None:
        play = telling(Log(27, [(3, 0), (4, 20)]))
        found = (await measured(play)).log

        assert found
        assert (found.end, found.answered_under) == (27, EPOCH)
        assert len(play.asked("GetReplicaLogInfo")) == 1
        assert not asked_for_ends(play)

    @pytest.mark.parametrize(("listed", "given"), [(KEY, None), (KEY, KEY + 1), (None, KEY)])
    async def test_else_it_is_never_sent(self, listed: int | None, given: int | None) -> None:
        """A number alone proves nothing: in Kafka 4.4 the next free one is another request."""
        play = telling(Log(27))
        play.log_info = {} if listed is None else {2: listed}
        found = (await measured(play, given)).log

        assert (found and found.end) == 27
        assert not play.asked("GetReplicaLogInfo")

    async def test_each_broker_is_asked_by_what_it_knows_itself(self) -> None:
        """In a rolling upgrade."""
        play = Play(log_info={2: KEY})
        play.add(offline(), b2=Log(27), b3=Log(15))
        async with play.staged(2, 3):
            evidence = await gathered(play)

        assert [replica.log.end for replica in evidence.partitions[0].replicas if replica.log] == [27, 15]
        assert [broker.epoch for broker in evidence.cluster.brokers] == [42, None]
        assert not play.members[3].names().count("GetReplicaLogInfo")


class TestWhatItTells:
    async def test_its_leader_epoch_is_never_taken_for_the_last_records(self) -> None:
        """The partition is at epoch 5; the log was last written under 4."""
        found = (await measured(telling(Log(27, [(3, 0), (4, 20)])))).log

        assert found
        assert (found.last_epoch, found.answered_under) == (4, EPOCH)

    async def test_without_a_vector_the_last_epoch_stays_unknown(self) -> None:
        play = telling(Log(27, [(3, 0), (4, 20)]))
        async with play.staged(2):
            play.members[2].roles["Fetch"] = lambda heard: _refused(play, heard)
            evidence = await gathered(play)

        found = evidence.partitions[0].replica(BrokerId(2))
        assert found
        assert found.log
        assert (found.log.end, found.log.last_epoch) == (27, None)
        assert "READ on topic orders" in str(found.problem)

    @pytest.mark.parametrize("knows", [EPOCH - 1, EPOCH + 1])
    async def test_a_broker_that_knows_another_leader_epoch_may_still_follow_an_older_leader(self, knows: int) -> None:
        found = await measured(telling(Log(27, knows=knows)))

        assert found.log
        assert (found.log.end, found.log.answered_under) == (27, None)
        assert code_of(found.problem) == "ReplicaOnOldEpoch"

    async def test_one_that_learns_the_epoch_in_time_is_good(self) -> None:
        log = Log(27, knows=EPOCH - 1)
        play = telling(log)

        def learns(heard: Heard) -> Any:
            answer = play.replica_log_info(2, heard)
            log.knows = EPOCH
            return answer

        async with play.staged(2):
            play.members[2].roles["GetReplicaLogInfo"] = learns
            evidence = await gathered(play)

        found = evidence.partitions[0].replica(BrokerId(2))
        assert found
        assert (found.log and found.log.answered_under) == EPOCH

    @pytest.mark.parametrize(
        ("code", "said"),
        [(29, "DESCRIBE on topic orders"), (31, "CLUSTER_ACTION on the cluster"), (56, "KAFKA_STORAGE_ERROR")],
    )
    async def test_an_error_is_the_reason_why_nothing_is_known(self, code: int, said: str) -> None:
        found = await measured(telling(Log(0, error=code)))

        assert found.log is None
        assert said in str(found.problem)
        assert "GetReplicaLogInfo" in str(found.problem)

    async def test_who_tells_another_end_by_its_leader_epochs_is_named_with_both_requests(self) -> None:
        play = telling(Log(27, [(3, 0), (4, 20)]))

        def exaggerated(heard: Heard) -> Any:
            answer = play.replica_log_info(2, heard)
            answer.topic_partition_log_info_list[0].partition_log_info[0].log_end_offset = 37
            return answer

        async with play.staged(2):
            play.members[2].roles["GetReplicaLogInfo"] = exaggerated
            evidence = await gathered(play)

        found = evidence.partitions[0].replica(BrokerId(2))
        assert found
        assert found.log is None
        assert "ends at 37 (by GetReplicaLogInfo) and at 27 (by Fetch)" in str(found.problem)

    @pytest.mark.parametrize("impossible", ["another partition", "no broker's epoch"])
    async def test_what_can_not_be_is_no_answer(self, impossible: str) -> None:
        play = telling(Log(27))
        play.add(offline(TopicPartition("orders", 1), replicas=(1, 3)))

        def told(heard: Heard) -> Any:
            answer = play.replica_log_info(2, heard)
            if impossible == "another partition":
                answer.topic_partition_log_info_list[0].partition_log_info[0].partition = 1
            else:
                answer.broker_epoch = -1
            return answer

        async with play.staged(2):
            play.members[2].roles["GetReplicaLogInfo"] = told
            evidence = await gathered(play, scope=Scope((ORDERS,)))

        found = evidence.partitions[0].replica(BrokerId(2))
        assert found
        assert found.log is None
        assert code_of(found.problem) == "InvalidAnswer"


class TestManyPartitions:
    def holding(self, partitions: int, **play: Any) -> Play:
        found = Play(log_info={2: KEY}, **play)
        for n in range(partitions):
            found.add(offline(TopicPartition("orders", n), replicas=(2,)), b2=Log(10 + n))
        return found

    async def ends(self, play: Play) -> list[int | None]:
        async with play.staged(2):
            evidence = await gathered(play)
        return [part.replicas[0].log.end if part.replicas[0].log else None for part in evidence.partitions]

    async def test_no_question_has_more_than_are_served(self) -> None:
        play = self.holding(2001)

        assert await self.ends(play) == [10 + n for n in range(2001)]
        asked = [
            sum(len(topic.partitions) for topic in heard.message.topic_partitions)
            for heard in play.asked("GetReplicaLogInfo")
        ]
        assert sorted(asked) == [1, 1000, 1000]

    async def test_a_broker_that_has_more_to_tell_is_asked_again_for_the_rest(self) -> None:
        play = self.holding(25, served=10)

        assert await self.ends(play) == [10 + n for n in range(25)]
        assert len(play.asked("GetReplicaLogInfo")) == 3

    async def test_one_that_never_tells_the_rest_is_not_asked_for_ever(self) -> None:
        play = self.holding(3, served=0)

        assert await self.ends(play) == [None] * 3
        assert len(play.asked("GetReplicaLogInfo")) == 1

    async def test_what_is_left_out_without_a_word_is_unknown(self) -> None:
        play = self.holding(3, left_out={TopicPartition("orders", 1)})

        assert await self.ends(play) == [10, None, 12]


class TestBrokerEpoch:
    async def test_it_is_kept_with_the_evidence(self) -> None:
        play = telling(Log(27), epochs={2: 4711})
        async with play.staged(2):
            assert epoch(await gathered(play)) == 4711

    async def test_a_broker_that_is_restarted_while_it_is_measured_has_told_nothing(self) -> None:
        """KIP-903: another epoch is another incarnation, which may have lost what the first one had."""
        play = Play(log_info={2: KEY}, served=1)
        for n in range(2):
            play.add(offline(TopicPartition("orders", n), replicas=(2,)), b2=Log(10))

        def restarts(heard: Heard) -> Any:
            answer = play.replica_log_info(2, heard)
            play.epochs[2] = 50
            return answer

        async with play.staged(2):
            play.members[2].roles["GetReplicaLogInfo"] = restarts
            evidence = await gathered(play)

        problems = [part.replicas[0].problem for part in evidence.partitions]
        assert [part.replicas[0].log for part in evidence.partitions] == [None, None]
        assert {problem.code for problem in problems if problem} == {"BrokerRestarted"}

    async def test_nor_has_one_that_told_of_some_partitions_before_it_fell_silent_and_was_restarted(self) -> None:
        """What it told first is the word of a process that is gone; what the next one holds, nobody has measured."""
        play = Play(log_info={2: KEY})
        short, long = TopicPartition("orders", 0), TopicPartition("orders", 1)
        play.add(offline(short, replicas=(2,)), b2=Log(10))
        play.add(offline(long, replicas=(2,)), b2=Log(27, [(0, 0), (2, 10), (4, 20)]))

        def dies(heard: Heard) -> Any:
            if {part.partition for topic in heard.message.topics for part in topic.partitions} != {long.partition}:
                return play.fetch(2, heard)
            play.epochs[2] = 50
            return None

        async with play.staged(2):
            play.members[2].roles["Fetch"] = dies
            evidence = await gathered(play)

        assert [part.replicas[0].log for part in evidence.partitions] == [None, None]
        problems = [part.replicas[0].problem for part in evidence.partitions]
        assert {problem.code for problem in problems if problem} == {"BrokerRestarted"}


def _refused(play: Play, heard: Heard) -> Any:
    answer = play.fetch(2, heard)
    for topic in answer.responses:
        for part in topic.partitions:
            part.error_code, part.diverging_epoch = 29, None
    return answer
