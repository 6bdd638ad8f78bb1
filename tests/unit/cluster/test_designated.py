"""Electing by KIP-1275's request: who is named, what is sent again, and what each driver does with another's plan."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafka_recovery.cluster import controller_requests
from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.designated import DesignatedElection, ElectionAsPlanned, election_in
from kafka_recovery.cluster.drivers import Driver, Kip1275
from kafka_recovery.cluster.errors import InvalidConfiguration, UnsupportedRequest
from kafka_recovery.cluster.kip_1275 import DESIGNATED, ElectLeadersRequest
from kafka_recovery.cluster.metadata import topic_id_text
from kafka_recovery.cluster.versions import require_carried, require_safe
from kafka_recovery.domain.election import ALL_OFFLINE, Answer, ElectionRequest
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import EvidenceRules
from unit.cluster.codes import code_of
from unit.cluster.play import EPOCH, ORDERS, PATIENCE, SOON, TOPIC_ID, Log, Play, offline
from unit.cluster.stage import Heard, after

OTHER = TopicPartition("orders", 1)
PAYMENTS = TopicPartition("payments", 7)
REPLICAS = tuple(map(BrokerId, (1, 2, 3)))
RULES = EvidenceRules(deadline=PATIENCE)


def request(id: TopicPartition = ORDERS, leader: int = 3, order: tuple[BrokerId, ...] = REPLICAS) -> ElectionRequest:
    """Broker 3 is named, and the order stays as it is."""
    return ElectionRequest(id, topic_id_text(TOPIC_ID), EPOCH, BrokerId(leader), order, REPLICAS)


BY_ORDER = request(order=tuple(map(BrokerId, (3, 1, 2))))
"""The same election as the other driver plans it."""


@asynccontextmanager
async def electing(play: Play, attempts: int = 3) -> AsyncIterator[DesignatedElection]:
    play.designates |= {2}
    async with play.staged(2), play.cluster() as cluster:
        yield DesignatedElection(cluster, attempts, deadline=PATIENCE)


def designations(heard: Heard) -> dict[tuple[str, int], int]:
    """Which leader the request names for each partition, by their places."""
    return {
        (topic.topic, index): leader
        for topic in heard.message.topic_partitions
        for index, leader in zip(topic.partitions, topic.designated_leaders, strict=True)
    }


class TestElecting:
    async def test_each_partition_gets_the_leader_that_was_named_for_it(self) -> None:
        play = Play()
        async with electing(play) as election:
            answers = await election.elect([request(PAYMENTS, 1), request(OTHER, 2), request()])

        (heard,) = play.asked("ElectLeaders")
        assert (heard.version, heard.message.election_type) == (3, DESIGNATED)
        assert designations(heard) == {ORDERS: 3, OTHER: 2, PAYMENTS: 1}
        assert {answer.answer for answer in answers.values()} == {Answer.ACCEPTED}

    async def test_no_request_has_more_than_are_served(self) -> None:
        """Kafka serves the first 1000, and says nothing about the others."""
        play = Play()
        requests = [request(TopicPartition("orders", n)) for n in range(2001)]
        async with electing(play) as election:
            answers = await election.elect(requests)

        sent = play.asked("ElectLeaders")
        assert [len(designations(heard)) for heard in sent] == [1000, 1000, 1]
        assert {answers[each.id].answer for each in requests} == {Answer.ACCEPTED}

    async def test_nothing_is_prepared_and_nothing_put_back(self) -> None:
        play = Play()
        play.add(offline())
        async with electing(play) as election:
            prepared = await election.designate([request()])
            restored = await election.restore([request()])

        assert prepared[ORDERS].answer is restored[ORDERS].answer is Answer.ACCEPTED
        assert not play.asked("AlterPartitionReassignments")

    @pytest.mark.parametrize(
        ("code", "answer"),
        [
            (84, Answer.NOT_NEEDED),
            (83, Answer.CHANGED),
            (39, Answer.REFUSED),
            (42, Answer.REFUSED),
            (7, Answer.UNANSWERED),
            (41, Answer.UNANSWERED),
        ],
    )
    async def test_what_the_controller_says_of_a_leader_is_said_of_its_partition_and_not_asked_again(
        self, code: int, answer: Answer
    ) -> None:
        play = Play(election=[code, 0])
        async with electing(play) as election:
            assert (await election.elect([request()]))[ORDERS].answer is answer

        assert len(play.asked("ElectLeaders")) == 1

    async def test_who_may_not_designate_is_told_the_acl_that_is_missing(self) -> None:
        play = Play(election=[31])
        async with electing(play) as election:
            found = (await election.elect([request()]))[ORDERS]

        assert found.answer is Answer.REFUSED
        assert "CLUSTER_ACTION" in str(found.reason)

    @pytest.mark.parametrize(("attempts", "answer"), [(2, Answer.CHANGED), (3, Answer.ACCEPTED)])
    async def test_an_election_that_was_certainly_not_sent_is_tried_again_so_often(
        self, attempts: int, answer: Answer
    ) -> None:
        play = Play()
        async with electing(play, attempts) as election:
            await election.offered()
            await election.cluster.pulse(PATIENCE)  # so that there are connections for looks
            idle = play.members[2].connections
            tries = iter([None, None])

            def refusing(heard: Heard) -> Any:
                return (
                    heard.cut() if heard.connection > idle and next(tries, 0) is None else play.api_versions(2, heard)
                )

            play.members[2].roles["ApiVersions"] = refusing
            found = (await election.elect([request()]))[ORDERS]

        assert found.answer is answer
        assert len(play.asked("ElectLeaders")) == (answer is Answer.ACCEPTED)

    async def test_what_could_not_be_sent_soon_is_not_held(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The second request waits for the first one's answer; the last look is too old by then."""
        monkeypatch.setattr(controller_requests, "SENT_WITHIN", SOON)
        play = Play()
        requests = [request(TopicPartition("orders", n)) for n in range(1001)]
        async with electing(play) as election:
            play.members[2].roles["ElectLeaders"] = after(2 * SOON.total_seconds(), play.elect)
            answers = await election.elect(requests)

        last = answers[requests[-1].id]
        assert answers[ORDERS].answer is Answer.ACCEPTED
        assert last.answer is Answer.CHANGED
        assert code_of(last.reason) == "NotSent"
        assert len(play.asked("ElectLeaders")) == 1

    async def test_brokers_that_do_not_know_the_request_are_never_sent_it(self) -> None:
        """At an older version the leaders' names would be dropped, and anybody elected."""
        play = Play()
        async with play.staged(2), play.cluster() as cluster:
            found = (await DesignatedElection(cluster, deadline=PATIENCE).elect([request()]))[ORDERS]

        assert found.answer is Answer.CHANGED
        assert code_of(found.reason) == "UnsupportedRequest"
        assert not play.asked("ElectLeaders")


class TestAnothersPlan:
    async def test_an_order_that_was_planned_is_not_left_out(self) -> None:
        play = Play()
        async with electing(play) as election:
            prepared = (await election.designate([BY_ORDER]))[ORDERS]
            held = (await election.elect([BY_ORDER]))[ORDERS]

        assert prepared.answer is held.answer is Answer.CHANGED
        assert code_of(prepared.reason) == "PlanOutdated"
        assert not play.asked("ElectLeaders")

    async def test_by_an_order_that_elects_another_one_nobody_is_elected(self) -> None:
        """An unclean election of the first would take broker 2, which stands before broker 3 and is alive."""
        play = Play()
        async with play.staged(2), play.cluster() as cluster:
            election = AssignmentOrderElection(cluster, deadline=PATIENCE)
            held = await election.elect([request(), request(OTHER, 2)])

        assert (held[ORDERS].answer, held[OTHER].answer) == (Answer.CHANGED, Answer.ACCEPTED)
        (heard,) = play.asked("ElectLeaders")
        assert [(topic.topic, topic.partitions) for topic in heard.message.topic_partitions] == [("orders", [1])]

    async def test_an_order_that_the_other_driver_left_behind_is_put_back(self) -> None:
        """A run by order was cut short, and the brokers were upgraded before it was gone on with."""
        play = Play()
        play.add(offline(replicas=(3, 1, 2)))
        async with electing(play) as election:
            assert (await election.restore([BY_ORDER]))[ORDERS].answer is Answer.ACCEPTED

        (heard,) = play.asked("AlterPartitionReassignments")
        assert heard.message.topics[0].partitions[0].replicas == [1, 2, 3]


class TestAuto:
    @asynccontextmanager
    async def electing(self, play: Play) -> AsyncIterator[ElectionAsPlanned]:
        async with play.staged(2), play.cluster() as cluster:
            election = election_in(cluster)
            assert isinstance(election, ElectionAsPlanned)
            yield election

    async def test_each_election_is_held_as_it_was_planned(self) -> None:
        play = Play(designates={2})
        async with self.electing(play) as election:
            prepared = await election.designate([BY_ORDER, request(OTHER)])
            answers = await election.elect([BY_ORDER, request(OTHER)])

        assert {answer.answer for answer in (*prepared.values(), *answers.values())} == {Answer.ACCEPTED}
        assert len(play.asked("AlterPartitionReassignments")) == 1
        assert sorted((heard.version, heard.message.election_type) for heard in play.asked("ElectLeaders")) == [
            (2, 1),
            (3, DESIGNATED),
        ]

    async def test_both_are_sent_soon_after_the_last_look_or_not_at_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The second election's time does not begin with the first one's answer."""
        monkeypatch.setattr(controller_requests, "SENT_WITHIN", SOON)
        play = Play(designates={2})
        async with self.electing(play) as election:
            play.members[2].roles["ElectLeaders"] = after(2 * SOON.total_seconds(), play.elect)
            answers = await election.elect([BY_ORDER, request(OTHER)])

        assert answers[BY_ORDER.id].answer is Answer.ACCEPTED
        assert answers[OTHER].answer is Answer.CHANGED
        assert "too old now" in str(answers[OTHER].reason)
        assert len(play.asked("ElectLeaders")) == 1

    async def test_where_brokers_do_not_offer_it_any_more_nobody_else_is_elected(self) -> None:
        play = Play()
        async with self.electing(play) as election:
            found = (await election.elect([request()]))[ORDERS]

        assert found.answer is Answer.CHANGED
        assert code_of(found.reason) == "PlanOutdated"
        assert not play.asked("ElectLeaders")

    async def test_an_order_that_elects_the_right_one_as_it_is_needs_no_more(self) -> None:
        play = Play()
        async with self.electing(play) as election:
            assert (await election.elect([request(leader=1)]))[ORDERS].answer is Answer.ACCEPTED

        (heard,) = play.asked("ElectLeaders")
        assert heard.message.election_type == 1


class TestChoosing:
    @pytest.mark.parametrize(
        ("driver", "offered", "designates"),
        [
            (Driver.AUTO, True, True),
            (Driver.AUTO, False, False),
            (Driver.ASSIGNMENT_ORDER, True, False),
            (Driver.DESIGNATED, True, True),
        ],
    )
    async def test_evidence_says_how_leaders_are_designated(
        self, driver: Driver, offered: bool, designates: bool
    ) -> None:
        play = Play(designates={2} if offered else set())
        play.add(offline(), b2=Log(27))
        async with play.staged(2), play.cluster(Kip1275(driver)) as cluster:
            assert (await cluster.gather(ALL_OFFLINE, RULES)).cluster.designated_elections is designates

    async def test_it_is_the_broker_that_is_gone_through_whose_word_counts(self) -> None:
        """In a rolling upgrade some know the request and some do not."""
        play = Play(designates={1}, applied={1: 90, 2: 100})
        play.add(offline(), b1=Log(30), b2=Log(27))
        async with play.staged(1, 2), play.cluster() as cluster:
            assert (await cluster.gather(ALL_OFFLINE, RULES)).cluster.designated_elections is False

    async def test_what_is_asked_for_and_not_offered_is_said_before_anything_is_measured(self) -> None:
        play = Play()
        play.add(offline(), b2=Log(27))
        async with play.staged(2), play.cluster(Kip1275(Driver.DESIGNATED)) as cluster:
            with pytest.raises(UnsupportedRequest, match=r"v0 to v2.*assignment-order works here"):
                await cluster.gather(ALL_OFFLINE, RULES)

        assert not play.asked("ListOffsets")

    @pytest.mark.parametrize("key", [43, 92, 2**15])
    def test_the_number_of_another_request_can_not_be_that_of_the_log_info(self, key: int) -> None:
        with pytest.raises(InvalidConfiguration, match=str(key)):
            Kip1275(replica_log_info_key=key)


class TestGuarding:
    def test_leaders_and_partitions_have_to_match(self) -> None:
        topic = ElectLeadersRequest.TopicPartitions
        for leaders in (None, [], [3]):
            asked = topic(topic="orders", partitions=[0, 1], designated_leaders=leaders)
            with pytest.raises(UnsupportedRequest, match="designate a leader for each"):
                require_safe("kafka:9092", ElectLeadersRequest(election_type=DESIGNATED, topic_partitions=[asked]))

    def test_an_older_version_would_drop_the_leaders(self) -> None:
        topic = ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[0], designated_leaders=[3])
        request = ElectLeadersRequest(election_type=DESIGNATED, topic_partitions=[topic], timeout_ms=1000)
        with pytest.raises(UnsupportedRequest, match="designated_leaders"):
            require_carried("kafka:9092", request, 2, frozenset())
        require_carried("kafka:9092", request, 3, frozenset())
