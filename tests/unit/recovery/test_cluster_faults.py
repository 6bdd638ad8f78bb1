"""The cluster falls silent in the midst of a run: nothing that may have been changed is reported as untouched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Never

import pytest

from kafka_recovery.domain.election import Answer, Lead, Relay, Scope, Sighting
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, MetadataOffset, TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval, EvidenceRules
from kafka_recovery.recovery.engine import Effort
from kafka_recovery.recovery.ports import JournalUnwritable
from unit.recovery.brokers import Fate, Unavailable
from unit.recovery.world import AUTO, ORDERS, PAYMENTS, World, code, crash, dies_in, policy


def no_broker_answers() -> None:
    raise Unavailable


async def test_a_cluster_that_falls_silent_for_a_while_costs_neither_an_order_nor_an_outcome(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The election was held, and nothing is wrong: nobody is to be seen for some seconds."""
    world.offline({3: 15, 2: 27})
    silent_until = timedelta(0)
    leaders, answering = world.kafka.leaders, world.kafka.answering

    async def nobody_leads(
        partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Mapping[TopicPartition, Sighting]:
        if world.clock.monotonic() < silent_until:
            raise Unavailable
        return await leaders(partitions, deadline, not_before)

    async def nobody_answers(
        candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        if world.clock.monotonic() < silent_until:
            raise Unavailable
        return await answering(candidates, deadline)

    def fall_silent() -> None:
        nonlocal silent_until
        silent_until = world.clock.monotonic() + timedelta(seconds=5)

    monkeypatch.setattr(world.kafka, "leaders", nobody_leads)
    monkeypatch.setattr(world.kafka, "answering", nobody_answers)
    world.after("elect", fall_silent)

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 2)
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_orders_that_stood_when_the_cluster_fell_silent_for_good_are_not_said_to_be_restored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.offline({3: 15, 2: 27})

    async def nobody(*_: object) -> Never:
        raise Unavailable

    def fall_silent() -> None:
        monkeypatch.setattr(world.kafka, "leaders", nobody)
        monkeypatch.setattr(world.kafka, "answering", nobody)
        world.kafka.restore_fates = [Fate.LOST] * 4

    world.after("elect", fall_silent)

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.IN_DOUBT, None)
    assert await world.open_runs() == list(report.plans)


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


async def test_what_an_earlier_run_left_and_was_put_back_is_not_said_to_be_altered(world: World) -> None:
    """It leads by now; before that can be seen, nobody answers any more."""
    world.offline()
    world.before("wave_ended", crash)
    await dies_in(world.recover())
    world.after("finished", lambda: world.before("leaders", no_broker_answers))

    report = await world.recover(scope=Scope((ORDERS,)))

    assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.IN_DOUBT, True)
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_an_order_that_an_earlier_run_left_is_said_to_be_altered_whatever_becomes_of_the_partition(
    world: World,
) -> None:
    world.offline()
    world.before("elect", crash)
    await dies_in(world.recover())
    world.kafka.restore_fates = [Fate.LOST] * 2
    world.kafka.boot(1)

    report = await world.recover(AUTO, effort=Effort(within=timedelta(seconds=5)))

    assert "ElectableBroker" in str(report[ORDERS].reason), "it was waited for: this run had nothing to elect"
    assert world.unrestored() == [ORDERS]
    assert not report[ORDERS].order_restored


async def test_a_leader_that_applies_nothing_else_while_it_begins_to_lead_is_looked_through_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata stand still for as long as it takes, as they would without a controller."""
    ids = [world.offline({3: 15, 2: 27}, TopicPartition("orders", number)) for number in range(4)]
    gather, answering = world.kafka.gather, world.kafka.answering
    begins_until = timedelta(0)

    def begin_to_lead() -> None:
        nonlocal begins_until
        begins_until = world.clock.monotonic() + timedelta(seconds=1)

    async def seen_by_who_begins(
        scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        evidence = await gather(scope, rules, known)
        if world.clock.monotonic() >= begins_until:
            return evidence
        standing = tuple(replace(broker, metadata_advances=False) for broker in evidence.cluster.brokers)
        return replace(evidence, cluster=replace(evidence.cluster, brokers=standing))

    async def answers_once_it_leads(
        candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        return await answering(candidates, deadline) if world.clock.monotonic() >= begins_until else {}

    monkeypatch.setattr(world.kafka, "gather", seen_by_who_begins)
    monkeypatch.setattr(world.kafka, "answering", answers_once_it_leads)
    world.after("elect", begin_to_lead)
    world.after("elect", begin_to_lead, nth=2)

    report = await world.execute(await world.plan(policy(Approval.AUTO, 1, 1, 2)))

    assert [report[id].outcome for id in ids] == [Outcome.RECOVERED] * 4
    assert world.kept_its_promises()


async def test_a_fault_while_a_silent_relay_is_waited_for_leaves_the_run_open(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To call it finished would leave an order altered that nobody knows of."""
    world.offline({3: 15, 2: 27})
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.kafka.relay = Relay(BrokerId(4), "b4", 9092)
    world.kafka.elect_fates = [Fate.LOST]

    async def nobody(*_: object) -> Never:
        raise Unavailable

    monkeypatch.setattr(world.kafka, "relay_answers", nobody)

    report = await world.recover(policy(Approval.AUTO, 1))

    assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.IN_DOUBT, False)
    assert world.changed() == ["designate", "elect"], "the other one is left alone"
    assert await world.open_runs() == list(report.plans)


async def test_what_a_wave_came_to_is_told_also_where_the_journal_can_not_keep_it(world: World) -> None:
    def disk_full() -> None:
        raise JournalUnwritable("disk full")

    world.offline({3: 15, 2: 27})
    world.before("wave_ended", disk_full)

    with pytest.raises(JournalUnwritable):
        await world.recover()

    assert [outcome.outcome for outcome in world.concluded_outcomes] == [Outcome.RECOVERED]
