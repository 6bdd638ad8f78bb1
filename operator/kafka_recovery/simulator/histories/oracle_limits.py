"""Invariants 5 and 6: approvals, limits, waves, patience; and that every run comes to an end and says what it did."""

from __future__ import annotations

from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Decision, LossClass, Plan
from kafka_recovery.domain.policy import Approval
from kafka_recovery.simulator.histories.chronicle import Chronicle, Ran
from kafka_recovery.simulator.histories.findings import Finding, Findings
from kafka_recovery.simulator.histories.scenario import Scenario

_SLACK = 0.1


def approval_is_for_this_plan(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 5. What needs a person's yes has it, for exactly the plan that is carried out."""
    yes = [(granted.digest, granted.at) for granted in story.granted if granted.by is not None]
    for asked in story.requests("elect"):
        for ballot in asked.ballots:
            needing = [(digest, d) for digest, d in story.decisions(asked, ballot)]
            if needing and not any(
                not _needs_a_person(scenario, decision) or any(digest == d and at <= asked.at for d, at in yes)
                for digest, decision in needing
            ):
                text = f"{asked.process} elects broker {ballot.designated} for {ballot.id} by plan {needing[0][0][:8]}"
                yield Finding("approval_is_for_this_plan", asked.at, f"{text}, which nobody approved")


def limits_hold(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. No plan elects more partitions, or with more brokers down, or of fewer replicas than allowed."""
    rules = scenario.rules
    for kept, plan in story.plans():
        named = f"plan {kept.digest[:8]}"
        elected = [decision for decision in plan.decisions if decision.leader is not None]
        if len(elected) > rules.partitions:
            text = f"{named} elects {len(elected)} partitions, limits.partitions is {rules.partitions}"
            yield Finding("limits_hold", kept.at, text)
        brokers = plan.evidence.cluster.brokers
        down = [b.id for b in brokers if b.fenced or not b.registered]
        if elected and 100 * len(down) > rules.brokers_down_percent * len(brokers):
            text = f"{named} elects though {len(down)} of {len(brokers)} brokers are down"
            yield Finding("limits_hold", kept.at, text)
        for decision in elected:
            if len(decision.assignment) < rules.min_replication_factor:
                text = f"{named} elects {decision.id} of {len(decision.assignment)} replicas"
                yield Finding("limits_hold", kept.at, f"{text}, below {rules.min_replication_factor}")


def waves_hold(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. One request elects no more than a wave, and a wave is no larger than its turn allows."""
    sizes = scenario.rules.wave_sizes
    for kept, plan in story.plans():
        step = 0
        for number, wave in enumerate(plan.waves):
            if len(wave) > sizes[step]:
                text = f"wave {number + 1} of plan {kept.digest[:8]} has {len(wave)} partitions, {sizes[step]} allowed"
                yield Finding("waves_hold", kept.at, text)
            step = min(step + (len(wave) >= sizes[step]), len(sizes) - 1)
    for asked in story.requests("elect"):
        ids = {ballot.id for ballot in asked.ballots}
        plans = [story.plan(digest) for ballot in asked.ballots for digest, _ in story.decisions(asked, ballot)]
        if plans and not any(ids <= set(wave) for plan in plans for wave in plan.waves):
            text = f"{asked.process} elects {len(ids)} partitions at once, which are no wave of its plan"
            yield Finding("waves_hold", asked.at, text)


def a_failed_wave_stops_the_next(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. Once an election did not verify, no later wave of the plan is elected by that run."""
    bad = (Outcome.FAILED, Outcome.UNKNOWN)
    for asked in story.asked:
        if asked.what != "elect":
            continue
        said = [said.outcome for said in story.concluded if said.process == asked.process and said.at <= asked.at]
        failed = {outcome.id for outcome in said if outcome.outcome in bad}
        for digest, _ in story.decisions(asked, asked.ballots[0])[:1]:
            waves = story.plan(digest).waves
            turn = next((place for place, wave in enumerate(waves) if asked.ballots[0].id in wave), 0)
            for id in sorted(failed.intersection(*[{id for wave in waves[:turn] for id in wave}])):
                text = f"{asked.process} elects {asked.ballots[0].id} though {id}, of an earlier wave, did not verify"
                yield Finding("a_failed_wave_stops_the_next", asked.at, text)


def patience_is_kept(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. Where a clean member is back, it is waited for as long as the policy says."""
    for kept, plan in story.plans():
        looks = [look for look in story.looked if look.process == kept.process and look.at <= kept.at]
        for decision in plan.decisions:
            seen = next((p for p in plan.evidence.partitions if p.id == decision.id), None)
            if decision.leader is None or seen is None or not _clean_member_is_back(plan, seen):
                continue
            since = min(look.at for look in looks if look.partition(decision.id)) if looks else kept.at
            if kept.at - since < scenario.rules.patience - _SLACK:
                text = f"plan {kept.digest[:8]} elects {decision.id} {kept.at - since:.1f} s after it was first seen"
                why = f"a clean member is back, and patience is {scenario.rules.patience:g} s"
                yield Finding("patience_is_kept", kept.at, f"{text}, though {why}")


def everybody_has_an_outcome(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. At the end of a run every partition of its scope has an outcome, and a reason unless recovered."""
    for ran in story.ran:
        if ran.hangs:
            text = f"{ran.process} ({ran.command}) is not done after {ran.ended - ran.began:.0f} s"
            yield Finding("everybody_has_an_outcome", ran.ended, text)
        if ran.report is None:
            continue
        told = {outcome.id for outcome in ran.report.outcomes}
        for id in sorted((_planned(story, ran) if ran.scope is None else set(ran.scope)) - told):
            yield Finding("everybody_has_an_outcome", ran.ended, f"{ran.process} gave {id} no outcome")
        for outcome in ran.report.outcomes:
            if outcome.outcome is not Outcome.RECOVERED and outcome.reason is None:
                text = f"{ran.process} says {outcome.id} is {outcome.outcome} and gives no reason"
                yield Finding("everybody_has_an_outcome", ran.ended, text)


def _planned(story: Chronicle, ran: Ran) -> set[TopicPartition]:
    """The partitions of all plans that a run made durable: its scope, where nobody named one."""
    mine = [plan for kept, plan in story.plans() if kept.process == ran.process]
    return {decision.id for plan in mine for decision in plan.decisions}


def engines_never_break(story: Chronicle, scenario: Scenario) -> Findings:
    """An engine ends with a report, or with a sentence a person can act on; anything else is a mistake in it."""
    for ran in story.ran:
        if ran.error is not None:
            text = f"{ran.process} ({ran.command}) broke: {type(ran.error).__name__}: {ran.error}"
            yield Finding("engines_never_break", ran.ended, text)


def _needs_a_person(scenario: Scenario, decision: Decision) -> bool:
    approval = scenario.rules.approval
    lossless = decision.loss is not None and decision.loss.loss_class is LossClass.LOSSLESS
    return approval is Approval.MANUAL or (approval is Approval.AUTO_LOSSLESS and not lossless)


def _clean_member_is_back(plan: Plan, seen: PartitionEvidence) -> bool:
    """An ISR or ELR member that is alive or answers, while no old leader answers as such."""
    members: set[BrokerId] = {*seen.isr, *(seen.elr or ())}
    back = {b.id for b in plan.evidence.cluster.brokers if b.reachable or (b.registered and not b.fenced)}
    return bool(members & back) and not any(replica.leads for replica in seen.replicas)
