"""Elections that nobody is asked about, beside others of their plan that wait for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from kafka_recovery.domain.election import Answer, ElectionAnswer, ElectionRequest
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.recoveries.pauses import LOOK
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.resources.kinds import POLICIES, RECOVERIES
from kafka_recovery.kube.resources.operator_switch import OperatorSwitch
from kafka_recovery.recovery.supervision import Authority
from unit.kube.journal.journals import NAME
from unit.kube.operated import FULL, Going, Operated
from unit.kube.our_objects import inhabited
from unit.recovery.world import ORDERS, PAYMENTS, World

MORE = TopicPartition("orders", 1)
RULES = [{"name": "pay", "topics": {"names": ["payments"]}}, {"name": "rest", "approval": "AutoApprove"}]


@pytest.fixture
def both(world: World) -> Operated:
    """Nobody is asked about two partitions of orders, which are elected one after the other; payments wants a yes."""
    world.offline({3: 8, 4: 9}, PAYMENTS)
    world.offline({3: 15, 2: 27}, MORE)
    operated = Operated(world, inhabited(ORDERS, MORE, PAYMENTS), (ORDERS, MORE, PAYMENTS))
    operated.api.change(POLICIES, "rules", rules=RULES, limits={"waveSizes": [1]})
    return operated


def led(operated: Operated) -> list[bool]:
    """Which of both orders, and payments, have a leader."""
    return [operated.world.leader(id) is not None for id in (ORDERS, MORE, PAYMENTS)]


def suspended(operated: Operated) -> None:
    operated.api.change(RECOVERIES, NAME, suspend=True)


def resumed(operated: Operated) -> None:
    operated.api.change(RECOVERIES, NAME, suspend=False)


def observed(operated: Operated) -> None:
    operated.switch = OperatorSwitch(Authority.OBSERVE)


def automatic_again(operated: Operated) -> None:
    operated.switch = FULL


def cut_off(operated: Operated) -> None:
    operated.state.alone = Reason("ViewUnavailable", "OperatorCutOff: two of three do not answer us")


def connected(operated: Operated) -> None:
    operated.state.alone = None


def mute(operated: Operated) -> None:
    for node in operated.world.kafka.nodes.values():
        node.mute = True


def answering(operated: Operated) -> None:
    for node in operated.world.kafka.nodes.values():
        node.mute = False


HALTS = [(suspended, resumed), (observed, automatic_again), (cut_off, connected)]


@pytest.mark.parametrize(("halt", "goes_on"), HALTS)
async def test_what_a_halt_stopped_goes_on_after_it_though_a_person_has_not_answered_for_the_rest(
    both: Operated, halt: Callable[[Operated], None], goes_on: Callable[[Operated], None]
) -> None:
    both.world.after("elect", lambda: halt(both))
    going = await Going.up_to(Phase.HELD, both.process())
    assert led(both) == [True, False, False]
    goes_on(both)
    going.run.wake()
    await asyncio.sleep(60)

    assert (led(both), going.run.progress.phase) == ([True, True, False], Phase.AWAITING_APPROVAL)
    both.api.approve(going.digest)
    going.run.wake()
    assert await going.end() is End.RECOVERED
    assert both.world.kept_its_promises()


async def test_what_a_halt_stopped_goes_on_in_the_next_process_too(both: Operated) -> None:
    both.world.after("elect", lambda: suspended(both))
    going = await Going.up_to(Phase.HELD, both.process())
    shown = going.digest
    await going.killed()
    again = await Going.up_to(Phase.HELD, both.process(shown=shown))
    assert led(both) == [True, False, False]
    resumed(both)
    again.run.wake()
    await again.until(Phase.AWAITING_APPROVAL)

    assert (led(both), again.digest) == ([True, True, False], shown)
    assert both.world.kept_its_promises()


async def test_what_a_fault_stopped_goes_on_after_it_though_a_person_has_not_answered_for_the_rest(
    both: Operated,
) -> None:
    both.world.after("elect", lambda: mute(both))
    going = Going(both.process())
    await asyncio.sleep(60)
    assert led(both)[1:] == [False, False]
    answering(both)
    await asyncio.sleep(120)

    assert (led(both), going.run.progress.phase) == ([True, True, False], Phase.AWAITING_APPROVAL)
    both.api.approve(going.digest)
    going.run.wake()
    assert await going.end() is End.RECOVERED
    assert both.world.kept_its_promises()


async def test_what_is_refused_is_tried_less_and_less_often_and_a_yes_to_the_rest_counts_at_once(
    both: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    no = Reason("Forbidden", "CLUSTER_AUTHORIZATION_FAILED (31)")
    tries: list[TopicPartition] = []
    elect = both.world.kafka.elect

    async def refuse(requests: Sequence[ElectionRequest]) -> dict[TopicPartition, ElectionAnswer]:
        tries.extend(request.id for request in requests)
        answers = {request.id: ElectionAnswer(Answer.REFUSED, no) for request in requests}
        return answers if PAYMENTS not in answers else dict(await elect(requests))

    monkeypatch.setattr(both.world.kafka, "elect", refuse)
    going = await Going.up_to(Phase.AWAITING_APPROVAL, both.process())
    since = going.run.progress.awaiting_since
    await asyncio.sleep(1800)
    await going.until(Phase.AWAITING_APPROVAL)

    assert 15 < len(tries) < 40
    assert set(both.in_vain) == {True}
    assert (led(both), going.run.progress.awaiting_since) == ([False, False, False], since)
    both.api.approve(going.digest)
    going.run.wake()
    await asyncio.sleep(LOOK.total_seconds())
    assert led(both) == [False, False, True]


async def test_a_try_is_not_in_vain_once_it_elected_anybody_or_nobody_knows(
    both: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause after an election that nobody was asked about counts from it (limits.coolDown)."""
    elect = both.world.kafka.elect

    async def fail(requests: Sequence[ElectionRequest]) -> dict[TopicPartition, ElectionAnswer]:
        answers = dict(await elect(requests))
        if MORE in answers:
            raise RuntimeError("a defect of the driver, after the election")
        return answers

    monkeypatch.setattr(both.world.kafka, "elect", fail)
    await Going.up_to(Phase.AWAITING_APPROVAL, both.process())

    assert (both.automatic, both.in_vain[0]) == (2, False)


async def test_what_is_another_one_by_now_is_planned_again_though_a_person_has_not_answered_for_the_rest(
    both: Operated,
) -> None:
    both.world.after("elect", lambda: suspended(both))
    going = await Going.up_to(Phase.HELD, both.process())
    shown = going.digest
    both.world.kafka.partitions[MORE].ends[3] = 40
    resumed(both)
    going.run.wake()
    await asyncio.sleep(60)

    assert (led(both), both.world.leader(MORE)) == ([True, True, False], 3)
    assert (going.run.progress.phase, going.digest == shown) == (Phase.AWAITING_APPROVAL, False)


async def test_what_a_halt_stopped_is_not_elected_by_itself_while_a_person_is_needed_for_it_by_now(
    both: Operated,
) -> None:
    both.world.after("elect", lambda: suspended(both))
    going = await Going.up_to(Phase.HELD, both.process())
    both.switch = OperatorSwitch(Authority.APPROVE)
    resumed(both)
    going.run.wake()
    await asyncio.sleep(600)

    assert (led(both), going.run.progress.phase) == ([True, False, False], Phase.AWAITING_APPROVAL)
    both.switch = FULL
    going.run.wake()
    await asyncio.sleep(60)
    assert led(both) == [True, True, False]
