"""Losslessness proven on real brokers: the metadata log tells what an election costs, before it is held."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from brokers import test_upstream as upstream
from brokers.acknowledged import Acknowledged, acknowledging
from brokers.conftest import LED, ON_3_9, ON_4_0, ON_NEWEST, USUAL, WITHOUT_ELR, Recovery, on, only_in_full
from brokers.kubelets import BETWEEN_READS
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, Policy, Rule
from testbed import metadata
from testbed.cluster import RealKafka
from testbed.scenarios import lead_on
from testbed.topics import configure
from testbed.waiting import wait_until

pytestmark = pytest.mark.brokers

TWO, ONE, LOWERED = "two-in-sync", "one-in-sync", "lowered-for-a-moment"
READ_WITHIN, ANSWERED_WITHIN = timedelta(seconds=60), timedelta(seconds=20)
BY_ITSELF = Policy((Rule("everything", approval=Approval.AUTO_LOSSLESS),))


def left_alone(
    kafka: RealKafka, wait: Callable[[Acknowledged], None], topics: Sequence[str] = (TWO, ONE, LOWERED)
) -> Acknowledged:
    """Brokers 3 and then 2 stand still for longer than their sessions; broker 1 goes on alone, and is killed.

    Brokers 2 and 3 then go on as the processes that they were. What was acknowledged is returned.
    """
    for topic in topics:
        kafka.create_topic(topic, [[1, 3, 2]], min_insync_replicas=1 if topic == ONE else 2)
    with acknowledging(kafka.bootstrap, topics) as told:
        for topic in topics:
            told.wait_for_more(topic)
        kafka.freeze(3)
        kafka.wait_until_fenced(3)
        told.wait_for_more(TWO)
        kafka.freeze(2)
        kafka.wait_until_fenced(2)
        wait(told)
        kafka.kill(1)
        kafka.thaw(2)
        kafka.thaw(3)
        kafka.wait_until_unfenced(2, 3)
        kafka.wait_until_fenced(1)
    return told


def classes(plan: Plan) -> dict[str, tuple[int | None, LossClass]]:
    """By topic: who is chosen, and what that costs."""
    return {each.id.topic: (each.leader, each.loss.loss_class) for each in plan.decisions if each.loss is not None}


@pytest.mark.parametrize("kafka", [only_in_full(ON_3_9), WITHOUT_ELR], indirect=True)
async def test_what_loses_nothing_is_recovered_with_nobody_asked_and_what_may_lose_waits(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Kafka calls all three unclean. Where two had to be in sync, nothing was acknowledged to one alone.

    In `make test` the drawn incident of test_lossless.py shows the same proof on 3.9.

    Takes 25 s: three sessions have to run out, one after the other.
    """

    def alone(told: Acknowledged) -> None:
        told.wait_for_more(ONE)
        kafka.configure_topic(LOWERED, "min.insync.replicas", "1")
        told.wait_for_more(LOWERED)
        kafka.configure_topic(LOWERED, "min.insync.replicas", "2")
        told.wait_for_more(ONE)

    told = left_alone(kafka, alone)

    ours = recovery(kafka).with_(policy=BY_ITSELF, approver=None, reads_history=True)
    assert classes(await ours.plan()) == {
        TWO: (2, LossClass.LOSSLESS),
        ONE: (2, LossClass.UNKNOWN),
        LOWERED: (2, LossClass.UNKNOWN),
    }
    report = await ours.recover()

    outcomes = {topic: report[TopicPartition(topic, 0)].outcome for topic in told.values}
    assert outcomes[TWO] in LED
    assert not LED & {outcomes[ONE], outcomes[LOWERED]}
    kept = set(kafka.consume(TWO, 0))
    assert [value for value in told.values[TWO] if value not in kept] == []


DEFAULTED = "by-the-default-of-all-brokers"
REFUSED_BY_BROKER_1 = {
    ("2", "background.threads"): "2",
    ("3", "background.threads"): "2",
    ("", "background.threads"): "4",
    ("", "min.insync.replicas"): "2",
}
"""A broker's threads may be doubled at most. Brokers 2 and 3 take all of it over; broker 1 has one thread (see its
configuration), so it refuses four, and with them every other setting for all brokers."""


@pytest.mark.parametrize("kafka", [only_in_full(ON_3_9), WITHOUT_ELR], indirect=True)
async def test_a_setting_for_all_brokers_proves_nothing_where_the_leader_went_on_without_it(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """The metadata log tells of two that have to be in sync; broker 1 acknowledges what it alone holds.

    Takes 20 s: two sessions have to run out, one after the other.
    """
    with kafka.configured_brokers(REFUSED_BY_BROKER_1, through=2):
        kafka.create_topic(DEFAULTED, [[1, 3, 2]])
        with acknowledging(kafka.bootstrap, (DEFAULTED,)) as told:
            told.wait_for_more(DEFAULTED)
            for broker in (3, 2):
                kafka.freeze(broker)
                kafka.wait_until_fenced(broker)
                told.wait_for_more(DEFAULTED)  # after the second one: with broker 1 alone in the ISR
            kafka.kill(1)
            for broker in (2, 3):
                kafka.thaw(broker)
            kafka.wait_until_unfenced(2, 3)
            kafka.wait_until_fenced(1)

        ours = recovery(kafka).with_(policy=BY_ITSELF, approver=None, reads_history=True)

        assert classes(await ours.plan()) == {DEFAULTED: (2, LossClass.UNKNOWN)}
        assert (await ours.recover())[TopicPartition(DEFAULTED, 0)].outcome not in LED


RAISED = "raised-while-its-leader-lags"
AS_CREATED = pytest.param("3.9", marks=pytest.mark.full), pytest.param("4.0", marks=pytest.mark.full), "newest"


@pytest.mark.parametrize("release", AS_CREATED)
async def test_a_topics_own_minimum_that_its_leader_had_not_applied_proves_nothing(
    release: str, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Broker 1 creates thousands of replicas when the minimum is raised; it learns first that it is alone in the ISR.

    By the metadata log two had to be in sync, and broker 2 was. What broker 1 acknowledged alone is not there. Broker 4
    is there to be asked. Half a minute: a cluster of its own, and a session runs out.
    """
    with RealKafka(release, brokers=4, elr=False, **upstream.SLOW) as kafka:
        kafka.create_topic(RAISED, [[1, 2, 3]], min_insync_replicas=1)
        kafka.terminate(3)
        kafka.wait_until_fenced(3)
        with acknowledging(kafka.address(1), (RAISED,)) as told:
            told.wait_for_more(RAISED)
            upstream.create_replicas(kafka, broker=1)
            configure(kafka.address(4), RAISED, upstream.MINIMUM, "2")
            kafka.freeze(2)
            wait_until("1 is alone", lambda: isr(kafka), lambda members: members == (1,))
            told.wait_for_more(RAISED)
            kafka.kill(1)
        kafka.thaw(2)
        kafka.wait_until_fenced(1)
        kafka.wait_until_unfenced(2)
        ours = recovery(kafka).with_(policy=BY_ITSELF, approver=None, reads_history=True)
        id = TopicPartition(RAISED, 0)

        plan = await ours.plan(id)

        assert classes(plan) == {RAISED: (2, LossClass.UNKNOWN)}
        [history] = [seen.history for seen in plan.evidence.partitions]
        assert history
        assert {step.min_isr for step in history.steps} == {1}
        assert (await ours.recover(id))[id].outcome not in LED
        held = set(kafka.read_replica(2, RAISED, 0))
        lost = [value for value in told.values[RAISED] if value not in held]
        assert lost, "broker 1 acknowledged nothing alone once the minimum was raised"
        print(f"{release}: {len(lost)} of {len(told.values[RAISED])} acknowledged records are not in broker 2's log")


def isr(kafka: RealKafka) -> tuple[int, ...]:
    """As broker 4 knows it, which is not busy."""
    return metadata.describe(kafka.address(4), RAISED)[0].isr


EVEN, BEHIND = "equal-logs", "one-log-is-behind"
MANY = range(12)


@pytest.mark.parametrize("kafka", [only_in_full(ON_3_9), WITHOUT_ELR], indirect=True)
async def test_what_a_copy_that_stayed_proves_of_one_that_left_the_isr_too_early(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Broker 3 left while two were in sync, so the ISR's history does not speak for it; a person names it all the same.

    Broker 2's copy is intact, and has all that was acknowledged. Where both logs are equal, none of that is lost; where
    broker 3's is behind, no more than broker 2 has more. Takes 15 s: two sessions have to run out.
    """
    for topic in (EVEN, BEHIND):
        kafka.create_topic(topic, [[1, 2, 3] for _ in MANY], min_insync_replicas=2)
    told = {topic: kafka.produce_to(topic, MANY, 20, "all-three") for topic in (EVEN, BEHIND)}
    kafka.freeze(3)
    kafka.wait_until_fenced(3)
    for index, more in kafka.produce_to(BEHIND, MANY, 7, "one-and-two").items():
        told[BEHIND][index] += more
    kafka.freeze(2)
    kafka.wait_until_fenced(2)
    kafka.kill(1)
    for broker in (2, 3):
        kafka.thaw(broker)
    kafka.wait_until_unfenced(2, 3)
    kafka.wait_until_fenced(1)
    named = {TopicPartition(topic, index): BrokerId(3) for topic in told for index in MANY}

    async with recovery(kafka).with_(reads_history=True).engine() as engine:
        plan = await engine.plan(Scope(tuple(named)), named)
        report = await engine.execute(plan)

    for id, decision in plan.elections.items():
        assert report[id].outcome in LED, report[id]
        assert decision.loss is not None
        assert decision.loss.at_most is not None, decision.loss
        lost = set(told[id.topic][id.partition]) - set(kafka.consume(id.topic, id.partition))
        assert len(lost) <= decision.loss.at_most, (id, lost, decision.loss)
    ways = Counter((id.topic, each.leader, each.loss.loss_class) for id, each in plan.elections.items() if each.loss)
    assert ways == {(EVEN, 3, LossClass.LOSSLESS): len(MANY), (BEHIND, 3, LossClass.BOUNDED): len(MANY)}


CUT_BACK = "cut-back"


@pytest.mark.parametrize("kafka", [ON_3_9, only_in_full(ON_4_0), only_in_full(WITHOUT_ELR), ON_NEWEST], indirect=True)
async def test_a_log_that_a_crash_of_its_host_cut_back_is_never_proven_to_hold_everything(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Broker 2 was in sync with all that was acknowledged, and comes back without the last half of it.

    Only its end in the metadata log, another process, tells of that: what is left of its log looks whole.
    """
    kafka.create_topic(CUT_BACK, [[1, 2, 3]], min_insync_replicas=2)
    told = kafka.produce(CUT_BACK, 0, 5, "all-three")
    kafka.freeze(3)
    kafka.wait_until_fenced(3)
    told += kafka.produce(CUT_BACK, 0, 40, "one-and-two")
    kafka.kill(2)
    kafka.wait_until_fenced(2)
    kafka.kill(1)
    kafka.lose_page_cache(2, CUT_BACK, 0)
    kafka.start(2)
    kafka.thaw(3)
    kafka.wait_until_unfenced(2, 3)
    kafka.wait_until_fenced(1)
    left = kafka.read_replica(2, CUT_BACK, 0)
    assert 0 < len(left) < len(told), "its log was cut back"

    async with recovery(kafka).with_(reads_history=True).engine() as engine:
        id = TopicPartition(CUT_BACK, 0)
        for leader in (BrokerId(2), BrokerId(3)):
            plan = await engine.plan(Scope((id,)), {id: leader})
            assert classes(plan) == {CUT_BACK: (leader, LossClass.UNKNOWN)}, plan.decisions


AGAIN = "led-again-by-another-process"


@pytest.mark.parametrize("kafka", [ON_3_9], indirect=True)
async def test_a_leader_that_began_anew_and_was_not_elected_again_proves_nothing(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Kafka 3.9 lets a leader go on that is another process, if its session ended while nobody else sent heartbeats to
    a new controller (KAFKA-18106). It lacks what its host lost, and broker 3 follows it; broker 2 has all of that.

    Takes 45 s: four sessions have to run out, and a broker and the controller start anew.
    """
    told = lead_on(kafka, AGAIN)
    kafka.produce(AGAIN, 0, 40, "one-and-three")
    kafka.freeze(3)
    kafka.wait_until_fenced(3)
    kafka.kill(1)
    for broker in (2, 3):
        kafka.thaw(broker)
    kafka.wait_until_unfenced(2, 3)
    kafka.wait_until_fenced(1)
    assert set(kafka.read_replica(2, AGAIN, 0)) >= set(told), "broker 2 lacks nothing of it"
    assert not set(kafka.read_replica(3, AGAIN, 0)) >= set(told), "broker 3 has all of it"

    async with recovery(kafka).with_(reads_history=True).engine() as engine:
        id = TopicPartition(AGAIN, 0)
        plan = await engine.plan(Scope((id,)), {id: BrokerId(3)})

    assert classes(plan) == {AGAIN: (3, LossClass.UNKNOWN)}, plan.decisions


THREE_CONTROLLERS = {"controllers": 3, "elr": False, "properties": USUAL["properties"]}


@pytest.mark.parametrize("kafka", [on("three controllers", THREE_CONTROLLERS)], indirect=True)
async def test_a_proof_outlives_the_controllers_that_wrote_its_history(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """One process follows the log, as the operator does. The controller that leads is killed before the incident. The
    next one is frozen in the middle of it: its connections stay open, and nothing answers there. What loses nothing is
    elected all the same, and what may lose something is not.

    Takes 40 s: sessions have to run out, and the brokers' questions to the frozen controller too.
    """
    ours = recovery(kafka).with_(policy=BY_ITSELF, approver=None, reads_history=True)
    both = Scope((TopicPartition(TWO, 0), TopicPartition(ONE, 0)))
    async with ours.cluster() as cluster:
        assert await cluster.read_metadata_log(READ_WITHIN, ANSWERED_WITHIN) is None
        killed = kafka.leading_controller()
        kafka.kill_controller(killed)
        kafka.leading_controller()
        async with asyncio.timeout(60):  # it knows what is committed once the other one follows it
            while await cluster.read_metadata_log(READ_WITHIN, ANSWERED_WITHIN) is not None:
                await asyncio.sleep(BETWEEN_READS)
        kafka.start_controller(killed)
        frozen: list[int] = []

        def another_leads(told: Acknowledged) -> None:
            told.wait_for_more(ONE)
            frozen.append(kafka.leading_controller())
            kafka.freeze_controller(frozen[0])
            assert kafka.leading_controller() not in frozen
            told.wait_for_more(ONE)

        told = left_alone(kafka, another_leads, topics=(TWO, ONE))
        assert await cluster.read_metadata_log(READ_WITHIN, ANSWERED_WITHIN) is None
        with ours.engine_on(cluster) as engine:
            async with asyncio.timeout(120):  # for a while brokers ask the frozen controller about reassignments
                while not classes(plan := await engine.plan(both)):
                    await asyncio.sleep(BETWEEN_READS)
            assert classes(plan) == {TWO: (2, LossClass.LOSSLESS), ONE: (2, LossClass.UNKNOWN)}
            report = await engine.recover(both)

    assert report[TopicPartition(TWO, 0)].outcome in LED
    assert report[TopicPartition(ONE, 0)].outcome not in LED
    kept = set(kafka.consume(TWO, 0))
    assert [value for value in told.values[TWO] if value not in kept] == []
