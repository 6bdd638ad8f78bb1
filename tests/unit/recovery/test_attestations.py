"""What a person attested of a broker holds for as long as that broker stays silent, and the attestation lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_recovery.decision.attesting import attested
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.election import ALL_OFFLINE, Scope
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval
from kafka_recovery.recovery.supervision import Permission, Unsupervised
from unit.recovery.world import AUTO, ORDERS, PAYMENTS, World, code, crash, dies_in, policy

LASTS = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _the_disk_of_four_failed(world: World) -> None:
    """It is in no ISR, so nothing but its silence stands against an election, and nothing but the attestation helps."""
    world.offline({3: 15, 2: 27, 4: 20})
    world.kafka.nodes[4].disk_failed = True


def four_is_lost(world: World) -> Attestation:
    now = world.clock.now()
    return Attestation(BrokerId(4), Witness.DISK_LOST, "ann", "INC-7", now, now + LASTS)


async def plan(world: World) -> Plan:
    said = four_is_lost(world)
    seen = await world.kafka.gather(ALL_OFFLINE, AUTO.widest_evidence_rules)
    return decide(attested(seen, [said]), AUTO)


async def recover(world: World) -> Report:
    with world.process(Unsupervised(AUTO, (four_is_lost(world),))) as engine:
        return await engine.recover(Scope((ORDERS,)))


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
    world.before("gather", lambda: repair(world), nth=2)

    report = await recover(world)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    first, second = report.plans
    assert kept(world, first).void is None
    void = kept(world, second).void
    assert (void and void.code) == "AttestedBrokerAnswers"
    assert world.kept_its_promises()


async def test_a_broker_that_answered_once_and_fell_silent_is_not_taken_for_one_without_a_disk(world: World) -> None:
    """It answers the last look alone: when the next plan is made its disk has failed again."""
    world.before("gather", lambda: repair(world), nth=2)
    world.after("gather", lambda: fail_again(world), nth=2)

    report = await recover(world)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "LogDirOffline")
    assert world.leader() is None
    assert world.kept_its_promises()


async def test_a_plan_that_is_executed_is_given_up_for_it(world: World) -> None:
    made = await plan(world)
    repair(world)

    report = await world.execute(made)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "AttestedBrokerAnswers")
    assert world.changed() == []


def repair(world: World) -> None:
    world.kafka.nodes[4].disk_failed = False


def fail_again(world: World) -> None:
    world.kafka.nodes[4].disk_failed = True


def expire(world: World) -> None:
    world.clock.advance(LASTS)


ENDS: dict[str, tuple[Callable[[World], None], str]] = {
    "the broker answers": (repair, "AttestedBrokerAnswers"),
    "it is over": (expire, "AttestationEnded"),
}


@pytest.mark.parametrize(("happens", "why"), ENDS.values(), ids=list(ENDS))
async def test_a_run_that_is_resumed_elects_nobody_by_what_does_not_count_any_more(
    happens: Callable[[World], None], why: str, world: World
) -> None:
    """Its order is put back."""
    world.before("elect", crash)
    await dies_in(recover(world))
    world.calm_down()
    happens(world)

    report = await world.resume()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, why)
    assert world.leader() is None
    assert world.kept_its_promises()


async def test_a_run_that_is_resumed_in_time_goes_on(world: World) -> None:
    world.before("elect", crash)
    await dies_in(recover(world))
    world.calm_down()

    report = await world.resume()

    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 2)
    assert world.kept_its_promises()


# What is taken back


class People:
    """Port `Supervision`: what people attest, changed by tests."""

    def __init__(self, *attested: Attestation) -> None:
        self.now = Permission(policy(Approval.AUTO, 1), attestations=attested)

    async def permission(self) -> Permission:
        return self.now

    def attest(self, *attested: Attestation) -> None:
        self.now = replace(self.now, attestations=attested)


async def planned(world: World, people: People) -> Plan:
    """Orders and payments, each with a replica on broker 4, each in a wave of its own."""
    world.offline({2: 8, 3: 9, 4: 10}, PAYMENTS)
    return await world.plan(people)


async def test_a_person_is_asked_about_what_stands_on_it_though_the_policy_asks_nobody(world: World) -> None:
    """Whoever attests may not be who approves."""
    world.approver = None

    report = await recover(world)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "AwaitingApproval")
    assert world.changed() == []


async def test_what_a_person_takes_back_elects_nobody_in_the_next_wave(world: World) -> None:
    """The wave under way goes on to its end."""
    people = People(four_is_lost(world))
    plan = await planned(world, people)
    world.after("elect", people.attest)

    report = await world.execute(plan, people)

    (first,), (second,) = plan.waves
    assert report[first].outcome is Outcome.RECOVERED
    assert (report[second].outcome, code(report, second)) == (Outcome.REFUSED, "AttestationEnded")
    assert world.leader(second) is None
    assert world.kept_its_promises()


async def test_nor_in_the_wave_whose_orders_are_set_already(world: World) -> None:
    """They are put back."""
    people = People(four_is_lost(world))
    plan = await planned(world, people)
    world.after("designate", people.attest)

    report = await world.execute(plan, people)

    assert {code(report, id) for id in plan.elections} == {"AttestationEnded"}
    assert "elect" not in world.changed()
    assert world.unrestored() == []
    assert world.kept_its_promises()


async def test_a_partition_without_a_replica_there_is_elected_all_the_same(world: World) -> None:
    people = People(four_is_lost(world))
    world.offline({2: 8, 3: 9}, PAYMENTS)
    plan = await world.plan(people)
    people.attest()

    report = await world.execute(plan, people)

    assert (code(report), report[PAYMENTS].outcome) == ("AttestationEnded", Outcome.RECOVERED)


async def test_what_a_person_says_again_with_another_end_is_another_attestation(world: World) -> None:
    said = four_is_lost(world)
    people = People(said)
    plan = await world.plan(people)
    people.attest(replace(said, expires=said.expires + LASTS))

    report = await world.execute(plan, people)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "AttestationEnded")
    assert world.changed() == []
