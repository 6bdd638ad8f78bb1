"""What a person attested of a broker holds for as long as that broker stays silent, and the attestation lasts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kafka_recovery.decision.attesting import attested
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.election import ALL_OFFLINE, Scope
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.plan import Plan
from unit.recovery.brokers import Crash
from unit.recovery.world import AUTO, ORDERS, World, code, crash

LASTS = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _four_is_dead_too(world: World) -> None:
    """It is in no ISR, so nothing but the attestation speaks of its return."""
    world.offline({3: 15, 2: 27, 4: 20})
    world.kafka.nodes[4].alive, world.kafka.nodes[4].fenced = False, True


def four_is_lost(world: World) -> Attestation:
    now = world.clock.now()
    return Attestation(BrokerId(4), Witness.DISK_LOST, "ann", "INC-7", now, now + LASTS)


async def plan(world: World) -> Plan:
    said = four_is_lost(world)
    seen = await world.kafka.gather(ALL_OFFLINE, AUTO.widest_evidence_rules)
    return decide(attested(seen, [said]), AUTO)


async def recover(world: World) -> Report:
    with world.process() as engine:
        return await engine.recover(Scope((ORDERS,)), attestations=[four_is_lost(world)])


def kept(world: World, digest: str) -> Attestation:
    """What the journal's plan holds of it."""
    with world.journal() as journal:
        (held,) = journal.plan(digest).evidence.cluster.attestations
    return held


async def test_the_plan_of_a_recovery_holds_what_was_attested(world: World) -> None:
    report = await recover(world)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    held = kept(world, report.plans[0])
    assert (held.broker, held.by, held.reason, held.void) == (4, "ann", "INC-7", None)
    assert world.kept_its_promises()


async def test_a_broker_that_answers_by_the_last_look_sends_its_partitions_back_to_deciding(world: World) -> None:
    """The next plan is made as if nothing had been attested, and says so."""
    world.before("gather", lambda: world.kafka.boot(4), nth=2)

    report = await recover(world)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    first, second = report.plans
    assert kept(world, first).void is None
    void = kept(world, second).void
    assert void is not None
    assert void.code == "AttestedBrokerAnswers"
    assert world.kept_its_promises()


async def test_a_plan_that_is_executed_is_given_up_for_it(world: World) -> None:
    made = await plan(world)
    world.kafka.boot(4)

    report = await world.execute(made)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "AttestedBrokerAnswers")
    assert world.changed() == []


def expire(world: World) -> None:
    world.clock.advance(LASTS)


ENDS: dict[str, tuple[Callable[[World], None], str]] = {
    "the broker answers": (lambda world: world.kafka.boot(4), "AttestedBrokerAnswers"),
    "it is over": (expire, "AttestationExpired"),
}


@pytest.mark.parametrize(("happens", "why"), ENDS.values(), ids=list(ENDS))
async def test_a_run_that_is_resumed_elects_nobody_by_what_does_not_count_any_more(
    happens: Callable[[World], None], why: str, world: World
) -> None:
    """Its order is put back."""
    world.before("elect", crash)
    with pytest.raises(Crash):
        await recover(world)
    world.calm_down()
    happens(world)

    report = await world.resume()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, why)
    assert world.leader() is None
    assert world.kept_its_promises()


async def test_a_run_that_is_resumed_in_time_goes_on(world: World) -> None:
    world.before("elect", crash)
    with pytest.raises(Crash):
        await recover(world)
    world.calm_down()

    report = await world.resume()

    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 2)
    assert world.kept_its_promises()
