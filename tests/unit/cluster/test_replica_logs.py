"""Measuring replicas: who leads, where logs end, their epochs, and what is made of answers that do not come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from kafka_recovery.cluster import broker_reader
from kafka_recovery.cluster.brokers import Brokers
from kafka_recovery.cluster.epoch_vectors import VECTOR_ENTRIES
from kafka_recovery.cluster.errors import BrokerTimeout
from kafka_recovery.cluster.replica_logs import ReplicaSurvey
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.domain.evidence import Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from unit.cluster.codes import code_of
from unit.cluster.play import EPOCH, ORDERS, PATIENCE, SOON, Log, Play, offline
from unit.cluster.stage import Heard, Role, after

PAYMENTS = TopicPartition("payments", 0)


@asynccontextmanager
async def surveying(play: Play, deadline: timedelta = PATIENCE) -> AsyncIterator[ReplicaSurvey]:
    async with play.staged(2), Brokers(PLAINTEXT) as brokers:
        yield ReplicaSurvey(brokers, BrokerId(2), play.address(2), deadline, lambda: datetime.now(UTC))


async def measured(play: Play, *, may_lead: bool = False, deadline: timedelta = PATIENCE, **roles: Role) -> Replica:
    """What is measured of broker 2's copy of orders-0; `roles`: how it answers a request of that name."""
    async with surveying(play, deadline) as survey:
        play.members[2].roles |= roles
        return (await survey.measure(play.states.values(), may_lead=may_lead))[ORDERS]


def playing(log: Log) -> Play:
    play = Play()
    play.add(offline(), b2=log)
    return play


class TestLeading:
    async def test_a_leader_is_known_by_its_log_end_not_by_its_high_watermark(self) -> None:
        play = playing(Log(27, [(4, 0), (6, 20)], high_watermark=20, led_in=6))
        async with surveying(play) as survey:
            assert await survey.leading([ORDERS]) == {ORDERS: (6, 27)}
            assert len(play.asked("ListOffsets")) == 2

    async def test_a_leader_without_an_offset_for_consumers_leads(self) -> None:
        """KAFKA-15583: below min.insync.replicas the high watermark stays behind the epoch's start, error 78."""
        play = playing(Log(27, [(4, 0), (6, 20)], high_watermark=0, led_in=6))
        async with surveying(play) as survey:
            assert await survey.leading([ORDERS]) == {ORDERS: (6, 27)}

    async def test_who_follows_is_not_asked_twice(self) -> None:
        play = playing(Log(27))
        async with surveying(play) as survey:
            assert await survey.leading([ORDERS]) == {}
            assert len(play.asked("ListOffsets")) == 1

    @pytest.mark.parametrize("high_watermark", [0, 20])
    async def test_who_stops_leading_between_the_questions_does_not_lead(self, high_watermark: int) -> None:
        """It would tell a follower's log end under an epoch in which another one leads."""
        log = Log(27, [(4, 0), (6, 20)], high_watermark=high_watermark, led_in=6)
        play = playing(log)

        def deposed(heard: Heard) -> Any:
            answer = play.list_offsets(2, heard)
            log.led_in, log.knows = None, 7
            return answer

        async with surveying(play) as survey:
            play.members[2].roles["ListOffsets"] = deposed
            assert await survey.leading([ORDERS]) == {}

    async def test_of_many_those_that_lead_are_found(self) -> None:
        play = playing(Log(27, led_in=6, high_watermark=27))
        play.add(offline(PAYMENTS), b2=Log(3))
        async with surveying(play) as survey:
            assert await survey.leading([ORDERS, PAYMENTS, TopicPartition("gone", 0)]) == {ORDERS: (6, 27)}


class TestOldLeaders:
    @pytest.mark.parametrize("high_watermark", [0, 27])
    async def test_a_fenced_broker_that_still_leads_is_seen_to(self, high_watermark: int) -> None:
        play = playing(Log(27, [(0, 0), (4, 20)], high_watermark=high_watermark, led_in=4))
        assert (await measured(play, may_lead=True)).leads

    async def test_a_live_broker_that_does_not_know_the_epoch_is_asked_whether_it_leads(self) -> None:
        replica = await measured(playing(Log(27, [(4, 0)], led_in=6)))

        assert replica.leads
        assert replica.log
        assert replica.log.answered_under is None
        assert code_of(replica.problem) == "ReplicaOnOldEpoch"

    async def test_a_follower_is_not(self) -> None:
        assert not (await measured(playing(Log(27)), may_lead=True)).leads


class TestVectors:
    @pytest.mark.parametrize("epochs", [[(0, 0)], [(5, 0)], [(0, 0), (1, 5), (4, 20)], [(2, 0), (5, 27)], []], ids=str)
    async def test_a_vector_is_read_as_it_is(self, epochs: list[tuple[int, int]]) -> None:
        replica = await measured(playing(Log(27 if epochs else 0, epochs)))

        assert replica.problem is None
        assert replica.log
        assert replica.log.answered_under == EPOCH
        assert [tuple(entry) for entry in replica.log.epochs or ()] == epochs

    async def test_records_without_leader_epochs_have_an_unknown_vector_and_no_empty_one(self) -> None:
        """Message formats before KIP-101 have none, and a checkpoint file that is gone tells none; the end is true."""
        replica = await measured(playing(Log(27, [])))

        assert replica.log
        assert (replica.log.end, replica.log.epochs, replica.log.last_epoch) == (27, None, None)
        assert str(replica.problem) == "EpochVectorUnreadable: broker 2 gave no leader epochs of orders-0"

    async def test_a_broker_that_falls_silent_before_it_was_asked_for_its_told_end_has_no_vector_yet(self) -> None:
        play = playing(Log(27, []))

        def tired(heard: Heard) -> Any:
            return None if heard.message.topics[0].partitions[0].last_fetched_epoch < 0 else play.fetch(2, heard)

        replica = await measured(play, deadline=SOON, Fetch=tired)

        assert replica.log
        assert replica.log.epochs is None
        assert code_of(replica.problem) == BrokerTimeout.code

    async def test_entries_below_the_log_start_are_none(self) -> None:
        replica = await measured(playing(Log(27, [(1, 10), (4, 20)], start=10)))

        assert replica.log
        assert [tuple(entry) for entry in replica.log.epochs or ()] == [(1, 10), (4, 20)]
        assert replica.log.start == 10

    async def test_of_a_long_vector_the_newest_entries_are_read_without_the_one_whose_begin_is_unknown(self) -> None:
        epochs = [(epoch, 10 * epoch) for epoch in range(100)]
        play = Play()
        play.add(offline(leader_epoch=100), b2=Log(1000, epochs, knows=100))

        replica = await measured(play)

        assert replica.log
        assert [tuple(entry) for entry in replica.log.epochs or ()] == epochs[100 - VECTOR_ENTRIES + 1 :]

    async def test_a_log_that_shrinks_while_its_vector_is_read_has_none(self) -> None:
        """It was truncated: the entries read so far may not belong to it any more."""
        log = Log(27, [(0, 0), (2, 10), (4, 20)])
        play = playing(log)

        def shrinking(heard: Heard) -> Any:
            answer = play.fetch(2, heard)
            if heard.message.topics[0].partitions[0].last_fetched_epoch == 4:
                log.epochs = [(0, 0)]
            return answer

        replica = await measured(play, Fetch=shrinking)

        assert replica.log
        assert replica.log.epochs is None
        assert code_of(replica.problem) == "EpochVectorUnreadable"


def moved(play: Play, by: int, only: int | None = None) -> Role:
    """Broker 2 tells other offsets than it has; `only`: of this timestamp."""

    def role(heard: Heard) -> Any:
        answer = play.list_offsets(2, heard)
        if only in (None, heard.message.topics[0].partitions[0].timestamp):
            for topic in answer.topics:
                for part in topic.partitions:
                    part.offset += by
        return answer

    return role


class TestContradictions:
    async def test_who_says_two_things_of_where_its_log_ends_is_named_and_not_believed(self) -> None:
        play = playing(Log(27, [(0, 0), (4, 20)]))

        replica = await measured(play, ListOffsets=moved(play, 10))

        assert replica.log is None
        assert code_of(replica.problem) == "LogEndsContradict"
        told = "the log of orders-0 ends at 37 (by ListOffsets) and at 27 (by Fetch)"
        assert f"broker 2 says that {told}" in str(replica.problem)

    async def test_a_log_that_ends_before_it_begins_is_not_believed(self) -> None:
        play = playing(Log(27, [], start=27))

        replica = await measured(play, ListOffsets=moved(play, -1, broker_reader.LATEST))

        assert replica.log is None
        assert str(replica.problem) == (
            "LogEndsContradict: broker 2 says that the log of orders-0 begins at 27 and ends at 26"
        )

    @pytest.mark.parametrize("told_end", [1, 1000])
    async def test_a_broker_whose_log_is_empty_and_that_tells_of_records_is_named_and_not_believed(
        self, told_end: int
    ) -> None:
        """It knows no leader epoch that would contradict it; but it can't read where it says that its log ends."""
        play = playing(Log(0, []))

        replica = await measured(play, ListOffsets=moved(play, told_end, broker_reader.LATEST))

        assert replica.log is None
        told = f"the log of orders-0 ends at {told_end} (by ListOffsets) and before that (by Fetch)"
        assert str(replica.problem) == f"LogEndsContradict: broker 2 says that {told}"

    async def test_a_log_that_is_cut_while_its_empty_vector_is_read_is_no_contradiction(self) -> None:
        """It follows a leader: what was told a moment ago need not be so now, and proves nothing against its broker."""
        log = Log(27, [])
        play = Play()
        play.add(offline(leader=BrokerId(1)), b2=log)

        def truncated(heard: Heard) -> Any:
            log.end = 0
            return play.fetch(2, heard)

        replica = await measured(play, Fetch=truncated)

        assert replica.log
        assert (replica.log.end, replica.log.epochs) == (27, None)

    async def test_a_log_that_had_not_come_to_rest_is_asked_about_again(self) -> None:
        log = Log(27, [(0, 0), (4, 20)])
        play = playing(log)

        def growing(heard: Heard) -> Any:
            log.end = 30
            return play.fetch(2, heard)

        replica = await measured(play, Fetch=growing)

        assert replica.problem is None
        assert (replica.log and replica.log.end) == 30


class TestProblems:
    @pytest.mark.parametrize(
        ("error", "code"), [(3, "UnknownTopicOrPartition"), (29, "TopicAuthorizationFailed"), (56, "LogDirOffline")]
    )
    async def test_an_error_of_a_partition_is_its_problem(self, error: int, code: str) -> None:
        replica = await measured(playing(Log(0, error=error)))

        assert replica.log is None
        assert code_of(replica.problem) == code

    async def test_a_partition_that_is_left_out_of_the_answer_is_unknown(self) -> None:
        play = playing(Log(27))
        play.left_out.add(ORDERS)

        replica = await measured(play)

        assert replica.log is None
        assert code_of(replica.problem) == "BrokerTimeout"


class TestDeadline:
    async def test_a_broker_that_falls_silent_in_the_middle_keeps_what_it_told_and_lacks_a_vector(self) -> None:
        """An unread rest must not look as if the log began there."""
        play = playing(Log(27, [(0, 0), (2, 10), (4, 20)]))

        def tired(heard: Heard) -> Any:
            return play.fetch(2, heard) if len(play.asked("Fetch")) < 3 else None

        replica = await measured(play, deadline=SOON, Fetch=tired)

        assert replica.log
        assert (replica.log.end, replica.log.epochs) == (27, None)
        assert (replica.problem and replica.problem.code) == BrokerTimeout.code
        assert "did not tell all leader epochs of orders-0 within 0.6s" in str(replica.problem)

    async def test_a_vector_that_takes_many_slow_answers_does_not_take_many_deadlines(self) -> None:
        play = playing(Log(1000, [(epoch, 10 * epoch) for epoch in range(50)], knows=50))
        play.states[ORDERS] = offline(leader_epoch=50)

        async with asyncio.timeout(2):
            replica = await measured(play, deadline=SOON, Fetch=after(0.1, partial(play.fetch, 2)))

        assert replica.log
        assert replica.log.epochs is None

    async def test_a_broker_that_says_nothing_at_all_is_silent(self) -> None:
        play = playing(Log(27))
        async with surveying(play, SOON) as survey:
            play.members[2].roles["ListOffsets"] = lambda heard: None
            with pytest.raises(BrokerTimeout, match=r"did not answer ListOffsets within 0.6s"):
                await survey.measure(play.states.values(), may_lead=False)

    async def test_a_log_end_without_a_log_start_is_no_log(self) -> None:
        play = playing(Log(27))
        replica = await measured(play, deadline=SOON, Fetch=lambda heard: None)

        assert replica.log is None
        assert code_of(replica.problem) == BrokerTimeout.code


class TestALogThatIsKnown:
    @staticmethod
    async def measured_twice(play: Play, between: Callable[[], object]) -> tuple[Replica, Replica, int]:
        """The same replica measured, and once more with what is known; and how often Fetch was asked for that."""
        async with surveying(play) as survey:
            first = (await survey.measure(play.states.values(), may_lead=False))[ORDERS]
            assert first.log
            between()
            asked = len(play.asked("Fetch"))
            again = await survey.measure(play.states.values(), may_lead=False, known={ORDERS: first.log})
            return first, again[ORDERS], len(play.asked("Fetch")) - asked

    async def test_the_same_end_under_the_same_epoch_is_the_same_log(self) -> None:
        play = playing(Log(27, [(0, 0), (2, 10), (4, 20)]))

        first, again, fetches = await self.measured_twice(play, lambda: None)

        assert first.log
        assert again.log
        assert (again.log.epochs, again.log.start, fetches) == (first.log.epochs, first.log.start, 0)

    async def test_another_end_is_another_log_and_is_read_anew(self) -> None:
        play = playing(Log(27, [(0, 0), (2, 10), (4, 20)]))
        shorter = Log(18, [(0, 0), (2, 10)])

        _, again, fetches = await self.measured_twice(play, lambda: play.logs.update({(2, ORDERS): shorter}))

        assert again.log
        assert (again.log.end, again.log.epochs) == (18, ((0, 0), (2, 10)))
        assert fetches > 0

    async def test_a_replica_that_has_not_learned_the_epoch_may_follow_somebody_and_is_read_anew(self) -> None:
        play = playing(Log(27, [(0, 0), (2, 10)], knows=EPOCH - 1))

        _, _, fetches = await self.measured_twice(play, lambda: None)

        assert fetches > 0

    async def test_a_vector_that_was_not_told_is_not_asked_for_again(self) -> None:
        """A slow broker is still measured at the last look, where a rule ranks without vectors."""
        play = playing(Log(27, [(0, 0), (2, 10)]))
        async with surveying(play) as survey:
            (first,) = (await survey.measure(play.states.values(), may_lead=False)).values()
            assert first.log
            known = {ORDERS: replace(first.log, epochs=None)}
            asked = len(play.asked("Fetch"))
            again = (await survey.measure(play.states.values(), may_lead=False, known=known))[ORDERS]

        assert again.log
        assert (again.log.end, again.log.epochs, len(play.asked("Fetch"))) == (27, None, asked)
