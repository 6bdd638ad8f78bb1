"""Electing by the assignment order: what an answer means, what is sent again, and what never is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from kafka_recovery.cluster import controller_requests
from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.metadata import topic_id_text
from kafka_recovery.domain.election import Answer, Relay
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.reason import Reason
from unit.cluster.codes import code_of
from unit.cluster.play import ORDERS, PATIENCE, SOON, Play, offline, request
from unit.cluster.stage import Heard, after

OTHER = TopicPartition("orders", 1)


def in_our_order(**play: Any) -> Play:
    """The order of orders-0 is the one that `request` asks for."""
    found = Play(**play)
    found.add(offline(replicas=(3, 1, 2)))
    return found


@asynccontextmanager
async def electing(play: Play, *brokers: int, deadline: timedelta = PATIENCE) -> AsyncIterator[AssignmentOrderElection]:
    """On stage are these brokers, or broker 2."""
    async with play.staged(*(brokers or (2,))), play.cluster() as cluster:
        yield AssignmentOrderElection(cluster, deadline=deadline)


class TestElecting:
    @pytest.mark.parametrize(
        ("code", "answer"),
        [
            (0, Answer.ACCEPTED),
            (84, Answer.NOT_NEEDED),
            (3, Answer.CHANGED),
            (83, Answer.CHANGED),
            (31, Answer.REFUSED),
            (42, Answer.REFUSED),
            (7, Answer.UNANSWERED),
            (13, Answer.UNANSWERED),
            (41, Answer.UNANSWERED),
            (-1, Answer.UNANSWERED),
            (4242, Answer.UNANSWERED),
        ],
    )
    async def test_what_the_controller_said_is_taken_for_what_it_can_mean(self, code: int, answer: Answer) -> None:
        async with electing(Play(election=[code])) as election:
            found = (await election.elect([request()]))[ORDERS]

        assert found.answer is answer
        assert (found.relay is None) is (answer is Answer.ACCEPTED), "whoever forwards a request may send it twice"

    @pytest.mark.parametrize("code", [41, -1])
    async def test_an_election_by_a_controller_that_resigned_is_never_held_again(self, code: int) -> None:
        """Its records may have gone to Raft before it failed the request: the successor may commit them."""
        play = Play(election=[code, 0])
        async with electing(play) as election:
            await election.elect([request()])

        assert len(play.asked("ElectLeaders")) == 1

    async def test_an_election_that_can_not_be_sent_soon_is_not_held_at_all(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The last look at its candidates would be too old by then."""
        monkeypatch.setattr(controller_requests, "SENT_WITHIN", SOON)
        play = Play()
        async with electing(play) as election:
            await election.cluster.route(PATIENCE)
            play.members[2].roles["ApiVersions"] = after(2 * SOON.total_seconds(), partial(play.api_versions, 2))
            found = (await election.elect([request()]))[ORDERS]

        assert found.answer is Answer.CHANGED
        assert code_of(found.reason) == "NotSent"
        assert found.relay is None
        assert not play.asked("ElectLeaders")

    async def test_a_partition_that_the_answer_leaves_out_may_have_been_elected(self) -> None:
        play = Play(left_out={OTHER})
        async with electing(play) as election:
            answers = await election.elect([request(), request(OTHER)])

        assert (answers[ORDERS].answer, answers[OTHER].answer) == (Answer.ACCEPTED, Answer.UNANSWERED)
        reason = answers[OTHER].reason
        assert code_of(reason) == "AnswerIncomplete"

    async def test_a_connection_that_breaks_after_the_request_leaves_it_open(self) -> None:
        play = Play()
        async with electing(play) as election:
            play.members[2].roles["ElectLeaders"] = lambda heard: heard.cut()
            assert (await election.elect([request()]))[ORDERS].answer is Answer.UNANSWERED

    async def test_a_replica_behind_dead_ones_is_elected_by_the_order_that_stands(self) -> None:
        play = Play(fenced={1})
        stands = replace(request(order=(1, 2, 3)), designated=BrokerId(2))
        async with electing(play, 1, 2, 3) as election:
            assert (await election.designate([stands]))[ORDERS].answer is Answer.ACCEPTED
            assert (await election.elect([stands]))[ORDERS].answer is Answer.ACCEPTED

        assert not play.asked("AlterPartitionReassignments")

    async def test_but_not_behind_one_that_came_back_meanwhile(self) -> None:
        play = Play()
        stands = replace(request(order=(1, 2, 3)), designated=BrokerId(2))
        async with electing(play, 1, 2, 3) as election:
            held = (await election.elect([stands]))[ORDERS]

        assert (held.answer, held.relay) == (Answer.CHANGED, None)
        assert not play.asked("ElectLeaders")

    async def test_who_may_still_forward_an_unanswered_request_is_told(self) -> None:
        play = Play()
        async with electing(play) as election:
            play.members[2].roles["ElectLeaders"] = lambda heard: heard.cut()
            relay = (await election.elect([request()]))[ORDERS].relay

            assert relay is not None
            assert relay == Relay(BrokerId(2), *play.address(2))
            assert await election.cluster.relay_answers(relay, PATIENCE)

    @pytest.mark.parametrize("change", ["designate", "elect", "restore"])
    async def test_what_is_forbidden_when_the_request_could_be_written_is_not_sent(self, change: str) -> None:
        """The permit is asked when the connection is open: what was forbidden meanwhile is noticed."""
        play, asked_after = Play(), []
        play.add(offline(replicas=(3, 1, 2)))

        def permit() -> Reason:
            asked_after.append(play.members[2].connections)
            return Reason("Suspended", "somebody suspended it")

        async with play.staged(2), play.cluster() as cluster:
            await cluster.route(PATIENCE)
            before = play.members[2].connections
            election = AssignmentOrderElection(cluster, deadline=PATIENCE, permit=permit)
            answer = (await getattr(election, change)([request()]))[ORDERS]

        assert (answer.answer, answer.reason) == (Answer.CHANGED, Reason("Suspended", "somebody suspended it"))
        assert not play.asked("ElectLeaders") + play.asked("AlterPartitionReassignments")
        assert asked_after
        assert asked_after[0] > before


class TestRelay:
    """Whoever never got an answer waits until nothing can come of the request any more."""

    async def test_one_that_stands_still_may_forward_it_yet(self) -> None:
        play = Play()
        async with play.staged(2), play.cluster() as cluster:
            play.members[2].roles["ApiVersions"] = lambda heard: None
            assert not await cluster.relay_answers(Relay(BrokerId(2), *play.address(2)), SOON)

    async def test_one_whose_process_is_gone_forwards_nothing(self) -> None:
        play = Play()
        async with play.cluster() as cluster:
            async with play.staged(2):
                relay = Relay(BrokerId(2), *play.address(2))
            assert await cluster.relay_answers(relay, PATIENCE)


class TestDesignating:
    async def test_an_order_may_never_change_the_number_of_replicas(self) -> None:
        """Kafka refuses it then, if somebody has added one since the order was thought up (KIP-860)."""
        play = Play()
        async with electing(play) as election:
            await election.designate([request()])

        (heard,) = play.asked("AlterPartitionReassignments")
        assert heard.message.allow_replication_factor_change is False

    async def test_an_order_that_stands_already_is_not_set(self) -> None:
        play = Play()
        async with electing(play) as election:
            answers = await election.designate([request(order=(1, 2, 3))])

        assert answers[ORDERS].answer is Answer.ACCEPTED
        assert not play.asked("AlterPartitionReassignments")

    async def test_an_order_is_set_again_when_a_controller_has_resigned(self) -> None:
        play = Play(reassignment=[41, 41, 0])
        async with electing(play) as election:
            assert (await election.designate([request()]))[ORDERS].answer is Answer.ACCEPTED

        assert len(play.asked("AlterPartitionReassignments")) == 3

    async def test_if_all_controllers_resign_it_is_unknown_whether_the_order_is_set(self) -> None:
        play = Play(reassignment=[41])
        async with electing(play) as election:
            assert (await election.designate([request()]))[ORDERS].answer is Answer.UNANSWERED

        assert len(play.asked("AlterPartitionReassignments")) == 3

    async def test_a_second_try_that_is_not_sent_does_not_undo_the_first(self) -> None:
        play = Play(reassignment=[41])

        def last_words(heard: Heard) -> Any:
            play.members[2].roles["ApiVersions"] = lambda heard: heard.cut()
            return play.reassign(heard)

        async with electing(play) as election:
            play.members[2].roles["AlterPartitionReassignments"] = last_words
            assert (await election.designate([request()]))[ORDERS].answer is Answer.UNANSWERED

    async def test_an_unknown_server_error_is_not_tried_again(self) -> None:
        play = Play(reassignment=[-1, 0])
        async with electing(play) as election:
            assert (await election.designate([request()]))[ORDERS].answer is Answer.UNANSWERED

        assert len(play.asked("AlterPartitionReassignments")) == 1

    async def test_partitions_that_are_through_are_not_set_again_for_the_sake_of_others(self) -> None:
        """Only if it was the wrong controller for all of them, the whole request is sent again."""
        play = Play()
        codes = {0: 41, 1: 0}

        def mixed(heard: Heard) -> Any:
            answer = play.reassign(heard)
            for part in answer.responses[0].partitions:
                part.error_code = codes[part.partition_index]
            return answer

        async with electing(play) as election:
            play.members[2].roles["AlterPartitionReassignments"] = mixed
            answers = await election.designate([request(), request(OTHER)])

        assert (answers[ORDERS].answer, answers[OTHER].answer) == (Answer.UNANSWERED, Answer.ACCEPTED)
        assert len(play.asked("AlterPartitionReassignments")) == 1


class TestRestoring:
    async def test_only_an_order_that_is_still_ours_is_put_back(self) -> None:
        play = in_our_order()
        play.add(offline(OTHER, replicas=(2, 1, 3)))
        async with electing(play) as election:
            answers = await election.restore([request(), request(OTHER)])

        assert {answer.answer for answer in answers.values()} == {Answer.ACCEPTED}
        (heard,) = play.asked("AlterPartitionReassignments")
        (topic,) = heard.message.topics
        assert [(part.partition_index, part.replicas) for part in topic.partitions] == [(0, [1, 2, 3])]

    async def test_the_order_of_a_topic_that_was_made_anew_is_left_alone(self) -> None:
        play = in_our_order()
        of_before = replace(request(), topic_id=topic_id_text(uuid4()))
        async with electing(play) as election:
            answers = await election.restore([of_before])

        assert answers[ORDERS].answer is Answer.ACCEPTED
        assert not play.asked("AlterPartitionReassignments")

    async def test_an_order_that_may_not_be_seen_any_more_is_not_said_to_be_restored(self) -> None:
        """Somebody takes the ACL away between the election and the restore: the order may be ours still."""
        play = in_our_order(hidden={"orders": 29})
        async with electing(play) as election:
            answer = (await election.restore([request()]))[ORDERS]

        assert answer.answer is Answer.CHANGED
        assert code_of(answer.reason) == "TopicAuthorizationFailed"

    async def test_a_topic_that_is_gone_has_no_order_of_ours(self) -> None:
        async with electing(Play()) as election:
            assert (await election.restore([request()]))[ORDERS].answer is Answer.ACCEPTED

    async def test_an_unregistered_broker_in_the_way_is_named_with_what_to_do(self) -> None:
        """Kafka takes no assignment that names such a broker, whatever its order; asking again does not help."""
        play = in_our_order(reassignment=[39])
        async with electing(play) as election:
            answer = (await election.restore([request()]))[ORDERS]

        assert answer.answer is Answer.REFUSED
        assert (answer.reason and answer.reason.code) == "OrderCannotBeSet"
        assert "brokers [1, 3]" in str(answer.reason)
        assert "kafka-reassign-partitions.sh" in str(answer.reason)

    async def test_metadata_that_can_not_be_read_are_read_through_another_broker(self) -> None:
        play = in_our_order()
        async with electing(play, 1, 2) as election:
            play.members[1].roles["DescribeTopicPartitions"] = lambda heard: heard.cut()
            answers = await election.restore([request()])

        assert answers[ORDERS].answer is Answer.ACCEPTED
        assert len(play.asked("AlterPartitionReassignments")) == 1

    async def test_an_order_seen_in_old_metadata_is_not_taken_for_the_present_one(self) -> None:
        """A broker that is behind the controller may show an order as ours that another one has set since."""
        play = in_our_order(applied={2: 90}, watermark=100)
        async with electing(play, deadline=timedelta(seconds=1)) as election:
            answers = await election.restore([request()])

        reason = answers[ORDERS].reason
        assert answers[ORDERS].answer is Answer.CHANGED
        assert code_of(reason) == "StaleMetadata"
        assert not play.asked("AlterPartitionReassignments")

    async def test_metadata_that_nobody_lets_us_read_are_an_answer_not_an_accident(self) -> None:
        play = in_our_order()
        async with electing(play, 1, 2, deadline=SOON) as election:
            for member in play.members.values():
                member.roles["DescribeTopicPartitions"] = lambda heard: None
            answers = await election.restore([request(), request(OTHER, (1, 2, 3))])

        assert (answers[ORDERS].answer, answers[OTHER].answer) == (Answer.CHANGED, Answer.ACCEPTED)
        assert answers[ORDERS].reason
        assert not play.asked("AlterPartitionReassignments")
