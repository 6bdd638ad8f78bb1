"""What the engine's word is worth on a Kafka that lacks one of its safety rules: its proofs stand on them.

The same incident twice: with the rule nothing acknowledged is lost, by the engine's choice or because it makes none.
Without it the engine elects what the ISR history proves to be whole, and it is not. The oracle notices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval
from kafka_recovery.simulator.histories.facts import Step
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import ElectionType, ElectLeaders, Unsupported
from simulation.incidents import (
    acknowledged_below_the_minimum,
    cut_at_the_high_watermark,
    fenced_and_readmitted,
    heard_for_its_former_self,
    heard_from_a_former_term,
    late_isr_change,
    led_by_turns,
    one_generation_is_kept,
    unfenced_by_its_twin,
)
from simulation.telling import CONTROLLER, ORDERS, A, B, C, Story, unless
from simulation.with_engine import broken_promises, everybody_returns, only_is_left, the_engine_recovers

D = BrokerId(4)

switched = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


@dataclass(frozen=True)
class Rule:
    """A switch, the incident that it is for, and who lacks an acknowledged record in the end. `without`: others off."""

    switch: str
    incident: Callable[..., Story]
    spoilt: BrokerId
    leader: BrokerId
    lost: str
    without: tuple[str, ...] = ()


RULES = [
    Rule("truncate_by_epochs", lambda *off: cut_at_the_high_watermark(off), C, B, "m"),
    Rule("truncate_to_common_epochs", led_by_turns, A, B, "r"),
    Rule("refuse_forgotten_epochs", one_generation_is_kept, A, C, "x"),
    Rule("fetches_name_leader_epochs", heard_from_a_former_term, C, A, "r"),
    Rule("controller_rejects_stale_epochs", late_isr_change, C, A, "r"),
    Rule("leader_matches_broker_epochs", heard_for_its_former_self, C, A, "r", ("controller_rejects_stale_epochs",)),
    Rule("incarnations_checked", unfenced_by_its_twin, C, A, "r"),
]


def test_a_copy_that_was_readmitted_while_it_was_away_is_not_proven_intact() -> None:
    """Without KIP-841's check: it is in the ISR again, and its process of that time is another one than the last."""
    story = fenced_and_readmitted("controller_rejects_ineligible")
    only_is_left(story, C, A, [B])

    assert the_engine_recovers(story).loss is LossClass.UNKNOWN


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.switch)
@switched
def test_a_proof_of_losslessness_stands_on_kafkas_rules(rule: Rule, on: bool) -> None:
    story = rule.incident(*rule.without, *unless(on, rule.switch))
    only_is_left(story, rule.spoilt, rule.leader, sorted({*story.state.replicas} - {rule.spoilt, rule.leader}))
    said = the_engine_recovers(story)
    everybody_returns(story)

    assert story.lost() == (set() if on else {rule.lost}), story.timeline
    assert broken_promises(story) == (set() if on else {"loss_stays_in_its_class"})
    if not on:
        assert (said.chosen, said.loss) == (rule.spoilt, LossClass.LOSSLESS)


@pytest.mark.parametrize(
    ("on", "lost"), [((), {"m"}), (("acks_wait_for_replicas_watermark",), set())], ids=["without", "with"]
)
def test_where_followers_go_back_to_their_high_watermark_the_proof_holds_if_acknowledgements_waited_for_it(
    on: tuple[str, ...], lost: set[str]
) -> None:
    """KAFKA-1211's title instead of its epochs: C is proven whole, and is."""
    story = cut_at_the_high_watermark(("truncate_by_epochs",), on)
    story.kill_and_fence(C)
    story.kill_and_fence(B)
    story.heal(C)
    story.cut(C, B)
    story.bring_back(C)
    story.run_for(1)
    said = the_engine_recovers(story)
    story.until_led()

    assert (said.chosen, said.loss) == (C, LossClass.LOSSLESS)
    assert story.lost() == lost


@switched
def test_below_the_minimum_the_engine_trusts_who_left_the_isr_as_kip_966_does(on: bool) -> None:
    """ELR is off; the engine replays it from the history. B left when the ISR fell below the minimum, without r."""
    story = acknowledged_below_the_minimum(*unless(on, "high_watermark_needs_min_isr"))
    story.kill_and_fence(C, A)
    story.bring_back(B)
    story.run_for(1)
    assert story.leader is None
    said = the_engine_recovers(story)
    everybody_returns(story)

    assert (said.chosen, said.loss) == (B, LossClass.LOSSLESS)
    assert story.lost() == (set() if on else {"r"})
    assert broken_promises(story) == (set() if on else {"loss_stays_in_its_class"})


@switched
def test_the_engine_can_overthrow_a_leader_that_it_does_not_reach_and_that_does_not_fence_itself(on: bool) -> None:
    """KIP-343. A, alone in the ISR, is reached by its clients and by nobody else. B is elected, of which nothing is
    proven. What A acknowledged before it fenced itself is lost either way.
    """
    story = Story(A, B, C, on=("brokers_fence_themselves",) if on else ())
    story.kill(B)
    story.kill(C)
    story.until_isr(A)
    story.write("both")
    story.start(B)
    story.cut(B, A)
    story.cut(A, B)
    story.isolate(A)
    story.cut("engine-1", A)
    story.until_fenced(A)
    story.until_unfenced(B)
    producer = story.producer("p", ORDERS, every=0.5, bootstrap=A)
    story.run_for(5)
    said = the_engine_recovers(story, approval=Approval.AUTO)
    assert (said.chosen, said.loss) == (B, LossClass.UNKNOWN)
    elected_at = next(held.at for held in story.chronicle.held if held.leader == B)
    story.run_for(10)
    producer.stop()
    late = [sent for sent in story.truth.acknowledged(ORDERS) if sent.producer == "p" and sent.sent_at > elected_at]
    story.heal(A)
    story.until_isr(A, B)

    assert bool(late) is not on
    assert {record for sent in late for record in sent.ids} <= set(story.missing())
    assert broken_promises(story, approval=Approval.AUTO) == set()


@switched
def test_the_engine_waits_for_a_member_of_the_isr_that_should_never_have_been_one(on: bool) -> None:
    """KIP-841's leader half, under an older controller: B joined though it was fenced, and then its host lost power.

    With the rule B is no member, and nothing is proven of it.
    """
    off = ("controller_rejects_ineligible", *unless(on, "leader_proposes_eligible"))
    story = Story(A, B, off=off)
    story.cut(B, CONTROLLER)
    story.until_fenced(B)
    story.write("r")
    story.run_for(1)
    story.kill_and_fence(A)
    story.host_crash(B)
    story.mend(B, CONTROLLER)
    heartbeats = story.hold(B, CONTROLLER, "Heartbeat")
    story.start(B)
    assert not story.run_while(lambda: not story.brokers[B].is_open)
    story.scheduler.after(3.0, heartbeats.release)
    assert story.leader is None
    said = the_engine_recovers(story)
    everybody_returns(story)

    assert said.outcome is (Outcome.REFUSED if on else Outcome.RECOVERED_CLEANLY)
    assert story.lost() == (set() if on else {"r"})
    assert broken_promises(story) == set(), "RecoveredCleanly says who elected, not what is on the disk"


def by_hand(type: ElectionType, leader: BrokerId) -> ElectLeaders:
    """The engine's choice as `kafka-leader-election` takes it from a file; what is unclean names nobody."""
    designated = (leader,) if type is ElectionType.DESIGNATED else None
    return ElectLeaders(type, (ORDERS,), "a person", designated)


@switched
def test_the_engines_choice_carried_out_by_hand_needs_designated_elections(on: bool) -> None:
    """KIP-1275's motivation: C is first in the order, and empty. The plan says B; an unclean election can't be told."""
    story = Story(C, A, B, off=unless(on, "designated_elections"))
    story.cut(C, A)
    story.replace_disk(C)
    story.until_fenced(C)
    story.start(C)
    story.write("early")
    story.pause(B)
    story.until_fenced(B)
    story.write("late")
    story.kill_and_fence(A)
    story.thaw(B)
    story.until_unfenced(B, C)
    story.run_for(1)
    assert story.leader is None
    said = the_engine_recovers(story)
    assert (said.outcome, said.chosen) == (Outcome.REFUSED, B), "a person was asked, and will do it alone"
    assert said.chosen is not None
    first = story.ask(B, by_hand(ElectionType.DESIGNATED, said.chosen))
    if not on:
        assert first == Unsupported()
        story.ask(B, by_hand(ElectionType.UNCLEAN, said.chosen))
    story.until_led()

    assert story.lost() == ({"late"} if on else {"early", "late"})


def members_of_the_elr_are_away(*off: str) -> Story:
    """r is on A and B, who stopped cleanly and are eligible; C is back, without r."""
    story = Story(A, B, C, min_isr=2, elr=True, off=off)
    for broker, left in ((C, (A, B)), (B, (A,))):
        if broker == B:
            story.write("r")
        story.shut_down(broker)
        story.until_isr(*left)
    story.shut_down(A)
    story.until_isr()
    story.bring_back(C)
    story.run_for(1)
    return story


@switched
def test_the_engines_choice_is_overtaken_by_a_member_that_returns(on: bool) -> None:
    """KIP-1275: a designation touches no partition that has a leader, or the plan of a minute ago loses r."""
    story = members_of_the_elr_are_away(*unless(on, "designation_offline_only"))
    said = the_engine_recovers(story)
    assert said.chosen == C
    story.start(A)
    assert story.until_led() == A
    decided = story.ask(C, by_hand(ElectionType.DESIGNATED, C))
    story.start(B)
    story.run_for(10)

    assert decided.partitions == {ORDERS: Error.ELECTION_NOT_NEEDED if on else Error.NONE}
    assert story.lost() == (set() if on else {"r"})


def everything_is_on_a_dead_leader(*off: str) -> Story:
    """r is on A alone, the last in sync, who died; D is back, without r. C holds nothing."""
    story = Story(A, B, D, brokers=(A, B, C, D), off=off)
    story.write("both")
    story.kill(B)
    story.kill(D)
    story.until_isr(A)
    story.write("r")
    story.kill_and_fence(A)
    story.bring_back(D)
    story.run_for(1)
    return story


@switched
def test_the_engines_choice_is_fenced_by_the_time_it_is_carried_out(on: bool) -> None:
    """KIP-1275: only who is unfenced can be designated. Otherwise D leads and does not know; A, with r, follows it."""
    story = everything_is_on_a_dead_leader(*unless(on, "designation_eligible_only"))
    said = the_engine_recovers(story)
    assert said.chosen == D
    story.isolate(D)
    story.until_fenced(D)
    story.bring_back(B)
    story.run_for(1)
    decided = story.ask(B, by_hand(ElectionType.DESIGNATED, D))
    story.heal(D)
    story.start(A)
    story.run_for(20)

    assert decided.partitions == {ORDERS: Error.ELIGIBLE_LEADERS_NOT_AVAILABLE if on else Error.NONE}
    assert story.leader == (A if on else D)
    assert story.lost() == (set() if on else {"r"})


def as_it_elects(story: Story, happens: Callable[[], object], *, late: float) -> None:
    """What happens as the engine's election leaves it, which takes so many seconds to arrive."""

    def strike(step: Step) -> None:
        if step.what == "elect":
            story.slow("engine-1", late)
            story.scheduler.after(late + 1, lambda: story.slow("engine-1", 0.0))
            happens()

    story.chronicle.when_step.append(strike)


@switched
def test_the_driver_designated_is_overtaken_by_a_member_that_returns(on: bool) -> None:
    story = members_of_the_elr_are_away(*unless(on, "designation_offline_only"))
    as_it_elects(story, lambda: story.start(A), late=1.5)
    said = the_engine_recovers(story, approval=Approval.AUTO, driver=Driver.DESIGNATED)
    everybody_returns(story)

    assert said.outcome is (Outcome.RECOVERED_CLEANLY if on else Outcome.RECOVERED)
    assert story.lost() == (set() if on else {"r"})


@switched
def test_the_driver_designated_names_a_replica_that_is_fenced_when_the_election_arrives(on: bool) -> None:
    story = everything_is_on_a_dead_leader(*unless(on, "designation_eligible_only"))
    as_it_elects(story, lambda: story.isolate(D), late=5.0)
    said = the_engine_recovers(story, approval=Approval.AUTO, driver=Driver.DESIGNATED)
    story.heal(D)
    story.start(A)
    story.until_led()
    story.run_for(10)

    assert said.outcome is (Outcome.REFUSED if on else Outcome.FAILED)
    assert story.leader == (A if on else D)
    assert story.lost() == (set() if on else {"r"})


@switched
def test_the_driver_designated_needs_a_kafka_that_designates_and_elects_nobody_else_where_there_is_none(
    on: bool,
) -> None:
    story = everything_is_on_a_dead_leader(*unless(on, "designated_elections"))
    if on:
        said = the_engine_recovers(story, approval=Approval.AUTO, driver=Driver.DESIGNATED)
        assert (said.chosen, story.leader) == (D, D)
    else:
        with pytest.raises(AssertionError, match="assignment-order works here"):
            the_engine_recovers(story, approval=Approval.AUTO, driver=Driver.DESIGNATED)
        assert story.leader is None
