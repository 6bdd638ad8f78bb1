"""The cluster falls silent in the midst of a run: nothing that may have been changed is reported as untouched."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from kafka_recovery.domain.election import Answer, Ballot, ElectionAnswer, Lead
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval
from kafka_recovery.recovery.engine import Effort
from unit.recovery.brokers import Crash, Fate, Unavailable
from unit.recovery.world import AUTO, ORDERS, PAYMENTS, World, code, crash, policy

SHIPMENTS = TopicPartition("shipments", 0)


def no_broker_answers() -> None:
    raise Unavailable


async def test_orders_that_are_being_set_when_the_cluster_falls_silent_are_not_said_to_be_untouched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shipments are designated while the leader of payments is still waited for."""
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.offline({3: 8, 2: 9}, SHIPMENTS)
    world.kafka.nodes[4].busy = True
    under_way, fallen_silent = asyncio.Event(), asyncio.Event()
    designate, answering = world.kafka.designate, world.kafka.answering

    async def slow_to_answer(ballots: Sequence[Ballot]) -> Mapping[TopicPartition, ElectionAnswer]:
        answers = await designate(ballots)
        if SHIPMENTS in answers:
            under_way.set()
            await fallen_silent.wait()
        return answers

    async def silent_once_that_is_under_way(
        candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        if ORDERS in candidates:
            return await answering(candidates, deadline)
        await under_way.wait()
        fallen_silent.set()
        raise Unavailable

    monkeypatch.setattr(world.kafka, "designate", slow_to_answer)
    monkeypatch.setattr(world.kafka, "answering", silent_once_that_is_under_way)

    report = await world.recover(policy(Approval.AUTO, 2, 1))

    assert SHIPMENTS in world.unrestored()
    assert (report[SHIPMENTS].outcome, report[SHIPMENTS].order_restored) == (Outcome.UNKNOWN, False)


async def test_what_was_put_back_before_the_cluster_fell_silent_is_not_said_to_be_altered(world: World) -> None:
    """It was to be decided again, and there was nobody to look at it through."""
    world.offline()
    world.kafka.denied[ORDERS] = Answer.CHANGED
    world.before("gather", no_broker_answers, nth=3)

    report = await world.recover()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "Unavailable")
    assert report[ORDERS].order_restored
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_an_order_that_an_earlier_run_left_is_said_to_be_altered_whatever_becomes_of_the_partition(
    world: World,
) -> None:
    world.offline()
    world.before("elect", crash)
    with pytest.raises(Crash):
        await world.recover()
    world.kafka.restore_fates = [Fate.LOST] * 2
    world.kafka.boot(1)

    report = await world.recover(AUTO, effort=Effort(within=timedelta(seconds=5)))

    assert "CleanMember" in str(report[ORDERS].reason), "it was waited for: this run had nothing to elect"
    assert world.unrestored() == [ORDERS]
    assert not report[ORDERS].order_restored
