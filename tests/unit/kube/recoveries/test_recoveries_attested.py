"""What people attest in a PartitionRecovery: it stands in the plan, and a change of it makes another plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.recoveries.status import Phase, status_of
from kafka_recovery.kube.resources.kinds import RECOVERIES
from kafka_recovery.kube.resources.operator_switch import OperatorSwitch
from kafka_recovery.recovery.supervision import Authority
from unit.kube.journal.journals import NAME
from unit.kube.office import Office
from unit.kube.operated import Going, Operated
from unit.kube.our_objects import inhabited
from unit.recovery.world import World
from unit.virtual import awaited

FORGED = Reason("AdmissionPolicyMissing", "nobody checks who attests")


@pytest.fixture
def operated(tmp_path: Path) -> Operated:
    """Broker 1 is dead, the disk of 4 failed, and the operator may do by itself what its policy asks nobody about."""
    world = World(tmp_path)
    world.offline({3: 15, 2: 27, 4: 20})
    world.kafka.nodes[4].disk_failed = True
    return Operated(world, inhabited())


def moment(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def lost(operated: Operated, broker: int = 4, **changed: Any) -> dict[str, Any]:
    """What Ann says of a broker's disk."""
    return lost_by(operated.world, broker, **changed)


def lost_by(world: World, broker: int = 4, **changed: Any) -> dict[str, Any]:
    """The same."""
    now = world.clock.now()
    said = {"broker": broker, "witness": "disk-lost", "by": "ann", "reason": "INC-7: the volume was deleted"}
    return said | {"at": moment(now - timedelta(minutes=1)), "expires": moment(now + timedelta(hours=1))} | changed


def attest(operated: Operated, *attestations: dict[str, Any], going: Going | None = None) -> None:
    """Somebody writes these into the recovery, and no others."""
    operated.api.change(RECOVERIES, NAME, attestations=list(attestations))
    if going:
        going.run.wake()


async def asked(operated: Operated) -> Going:
    return await Going.up_to(Phase.AWAITING_APPROVAL, operated.process())


async def another_plan(going: Going, than: str) -> Going:
    """Wait until a person is asked about another plan."""
    await awaited(lambda: (shown := going.run.progress.plan_shown) and shown.digest != than, within=1000)
    await going.until(Phase.AWAITING_APPROVAL)
    return going


def news(going: Going) -> str:
    """What an event says of the last plan that is void."""
    return going.run.progress.news[-1].message


# Whose consent is wanted


async def test_a_person_is_asked_though_the_policy_asks_nobody_and_the_operator_may_act_by_itself(
    operated: Operated,
) -> None:
    """Whoever may write a recovery may attest; that must elect nobody."""
    attest(operated, lost(operated))

    going = await asked(operated)

    assert operated.automatic == 0
    shown = status_of(going.run.progress.known(), 1, {}, operated.world.clock.now())["plan"]
    assert shown["needsApproval"] is True
    assert "ann attested at" in shown["summary"]
    assert "the disk of broker 4 is lost for good (INC-7: the volume was deleted)" in shown["summary"]

    operated.api.approve(going.digest)
    going.run.wake()

    assert (await going.end(), operated.world.leader()) == (End.RECOVERED, 2)


async def test_what_would_be_elected_without_it_asks_nobody(operated: Operated) -> None:
    """Broker 4 is dead, and the controller says so as well: the attestation is for those who read the plan."""
    four = operated.world.kafka.nodes[4]
    four.alive, four.fenced = False, True
    attest(operated, lost(operated))

    assert await Going.to_its_end(operated.process()) is End.RECOVERED
    assert operated.automatic == 1


async def test_to_take_it_back_gives_the_operator_no_leave_to_elect_by_the_plan_that_stood_on_it(
    operated: Operated,
) -> None:
    attest(operated, lost(operated))
    going = await asked(operated)

    attest(operated, going=going)
    await going.until(Phase.STUCK)
    await asyncio.sleep(60)

    assert going.run.progress.reason.code == "LogDirOffline"
    assert operated.world.leader() is None
    await going.killed()


async def test_no_plan_that_stands_on_it_is_executed_while_nobody_checks_who_attests(operated: Operated) -> None:
    operated.unchecked_attestations = FORGED
    attest(operated, lost(operated))
    going = await asked(operated)

    operated.api.approve(going.digest)
    going.run.wake()
    await asyncio.sleep(10)

    assert operated.answers == [("yes", "AdmissionPolicyMissing")]
    assert operated.world.leader() is None
    await going.killed()


# Another plan


@pytest.fixture
def by_hand(operated: Operated) -> Operated:
    """A person is asked about everything."""
    operated.switch = OperatorSwitch(Authority.APPROVE)
    return operated


async def test_one_that_is_added_makes_another_plan_and_the_approval_of_the_old_one_does_not_count(
    by_hand: Operated,
) -> None:
    four = by_hand.world.kafka.nodes[4]
    four.alive, four.fenced = False, True
    going = await asked(by_hand)
    first = going.digest

    attest(by_hand, lost(by_hand))
    by_hand.api.approve(first)
    await another_plan(going, first)

    assert "what is attested was nothing, now it is broker 4: disk-lost (by ann" in news(going)
    await asyncio.sleep(10)
    assert by_hand.answers[-1] == ("yes", "PlanOutdated")
    assert by_hand.world.leader() is None
    await going.killed()


def taken_back(operated: Operated) -> None:
    attest(operated)


def said_otherwise(operated: Operated) -> None:
    attest(operated, lost(operated, reason="INC-8: another volume"))


def answers(operated: Operated) -> None:
    operated.world.kafka.nodes[4].disk_failed = False
    operated.world.clock.advance(timedelta(minutes=2))  # the last look is too old by then


def disk_of_four(operated: Operated, *, failed: bool) -> None:
    operated.world.kafka.nodes[4].disk_failed = failed


def over(operated: Operated) -> None:
    operated.world.clock.advance(timedelta(hours=2))


ENDS: dict[str, tuple[Callable[[Operated], None], str]] = {
    "taken back": (taken_back, "now it is nothing"),
    "for another reason": (said_otherwise, "what is attested was broker 4"),
    "the broker answers": (answers, "an attestation does not count any more: broker 4 answered"),
    "over": (over, "an attestation does not count any more: what ann attested of broker 4 holds from"),
}


@pytest.mark.parametrize(("happens", "why"), ENDS.values(), ids=list(ENDS))
async def test_so_does_one_that_ends(happens: Callable[[Operated], None], why: str, by_hand: Operated) -> None:
    attest(by_hand, lost(by_hand))
    going = await asked(by_hand)
    first = going.digest

    happens(by_hand)
    by_hand.api.approve(first)
    going.run.wake()
    await asyncio.sleep(60)

    assert why in news(going)
    assert by_hand.world.leader() is None
    await going.killed()


async def test_what_does_not_count_is_said_in_the_status_with_its_reason(by_hand: Operated) -> None:
    by_hand.world.kafka.nodes[4].disk_failed = False
    attest(by_hand, lost(by_hand))

    going = await asked(by_hand)

    shown = status_of(going.run.progress.known(), 1, {}, by_hand.world.clock.now())["plan"]
    assert "VOID: ann attested at" in shown["summary"]
    assert "broker 4 answered for its copy of orders-0" in shown["summary"]
    await going.killed()


async def test_it_counts_no_more_once_its_broker_has_fallen_silent_again(by_hand: Operated) -> None:
    """The look at the plan that waits finds it void. What is attested after that is another thing."""
    attest(by_hand, lost(by_hand))
    going = await asked(by_hand)
    by_hand.world.before("gather", lambda: disk_of_four(by_hand, failed=False))
    by_hand.world.after("gather", lambda: disk_of_four(by_hand, failed=True))
    by_hand.world.clock.advance(timedelta(minutes=2))  # the last look is too old by then

    await going.until(Phase.STUCK)
    await asyncio.sleep(60)

    assert going.run.progress.reason.code == "LogDirOffline"
    attest(by_hand, lost(by_hand, at=moment(by_hand.world.clock.now())), going=going)
    await going.until(Phase.AWAITING_APPROVAL)
    await going.killed()


async def test_what_was_void_stands_in_the_status_and_is_void_in_the_next_process(office: Office) -> None:
    four = office.world.kafka.nodes[4]
    office.world.offline({3: 15, 2: 27, 4: 20})
    said = lost_by(office.world)
    office.api.change(RECOVERIES, NAME, attestations=[said])
    office.world.after("gather", lambda: setattr(four, "disk_failed", True))
    office.switch = OperatorSwitch(Authority.APPROVE)
    office.takes_up()
    await asyncio.sleep(5)

    (void,) = office.status()["voidAttestations"]
    assert void | {"message": ""} == {"broker": 4, "by": "ann", "at": said["at"], "message": ""}
    assert "broker 4 answered for its copy of orders-0" in void["message"]
    await office.all.stop()
    again = Office(office.world, office.api)
    again.switch = OperatorSwitch(Authority.APPROVE)
    again.takes_up()
    await asyncio.sleep(60)
    assert again.reason() == "LogDirOffline"
    assert again.status()["voidAttestations"] == [void]
    await again.all.stop()


async def test_a_void_one_makes_no_new_plan_again_and_again(by_hand: Operated) -> None:
    by_hand.world.kafka.nodes[4].disk_failed = False
    attest(by_hand, lost(by_hand))
    going = await asked(by_hand)
    first = going.digest

    for _ in range(5):
        by_hand.world.clock.advance(timedelta(minutes=2))
        await asyncio.sleep(10)

    assert (going.digest, going.run.progress.phase) == (first, Phase.AWAITING_APPROVAL)
    await going.killed()
