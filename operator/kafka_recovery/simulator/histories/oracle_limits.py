"""Invariants 5 and 6: approvals, limits, waves, patience; and that every run comes to an end and says what it did."""

from __future__ import annotations

from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Decision, LossClass
from kafka_recovery.domain.policy import Approval, Policy
from kafka_recovery.recovery.ports import JournalUnwritable
from kafka_recovery.simulator.histories.chronicle import Chronicle, Ran
from kafka_recovery.simulator.histories.findings import Finding, Findings
from kafka_recovery.simulator.histories.scenario import Scenario

_SLACK = 0.1

ENDING = 90.0
"""Seconds within which a run ends what is under way when its time is over."""


def approval_is_for_this_plan(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 5. What needs a person's yes has it, for exactly the plan that is carried out."""
    yes = [(granted.digest, granted.at) for granted in story.granted if granted.by is not None]
    policy = scenario.rules.policy
    for asked in story.requests("elect"):
        for ballot in asked.ballots:
            stands_on = story.decision(asked, ballot)
            if stands_on is None or not _needs_a_person(policy, stands_on[1]):
                continue
            if not any(digest == stands_on[0] and at <= asked.at for digest, at in yes):
                text = f"{asked.process} elects broker {ballot.designated} for {ballot.id} by plan {stands_on[0][:8]}"
                yield Finding("approval_is_for_this_plan", asked.at, f"{text}, which nobody approved")


def limits_hold(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. No plan elects more partitions, or with more brokers down, or of fewer replicas than allowed."""
    policy = scenario.rules.policy
    limits = policy.limits
    for kept, plan in story.plans():
        named = f"plan {kept.digest[:8]}"
        elected = [decision for decision in plan.decisions if decision.leader is not None]
        if len(elected) > limits.partitions:
            text = f"{named} elects {len(elected)} partitions, limits.partitions is {limits.partitions}"
            yield Finding("limits_hold", kept.at, text)
        brokers = plan.evidence.cluster.brokers
        down = [b.id for b in brokers if b.fenced or not b.registered]
        if elected and 100 * len(down) > limits.brokers_down_percent * len(brokers):
            text = f"{named} elects though {len(down)} of {len(brokers)} brokers are down"
            yield Finding("limits_hold", kept.at, text)
        for decision in elected:
            rule = policy.rule_for(decision.id.topic)
            if rule is None:
                yield Finding("limits_hold", kept.at, f"{named} elects {decision.id}, which no rule selects")
            elif len(decision.assignment) < rule.min_replication_factor:
                text = f"{named} elects {decision.id} of {len(decision.assignment)} replicas"
                yield Finding("limits_hold", kept.at, f"{text}, below {rule.min_replication_factor}")


def waves_hold(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. One request elects no more than a wave, and a wave is no larger than its turn allows."""
    sizes = scenario.rules.policy.limits.wave_sizes
    for kept, plan in story.plans():
        step = 0
        for number, wave in enumerate(plan.waves):
            if len(wave) > sizes[step]:
                text = f"wave {number + 1} of plan {kept.digest[:8]} has {len(wave)} partitions, {sizes[step]} allowed"
                yield Finding("waves_hold", kept.at, text)
            step = min(step + (len(wave) >= sizes[step]), len(sizes) - 1)
    for asked in story.requests("elect"):
        ids = {ballot.id for ballot in asked.ballots}
        plans = {stands_on[0] for ballot in asked.ballots if (stands_on := story.decision(asked, ballot))}
        if plans and not any(ids <= set(wave) for digest in plans for wave in story.plan(digest).waves):
            text = f"{asked.process} elects {len(ids)} partitions at once, which are no wave of its plan"
            yield Finding("waves_hold", asked.at, text)


def a_failed_wave_stops_the_next(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. Once an election did not verify, no later wave of the plan is elected by that run."""
    bad = (Outcome.FAILED, Outcome.UNKNOWN)
    for asked in story.requests("elect"):
        said = [said.outcome for said in story.concluded if said.process == asked.process and said.at <= asked.at]
        failed = {outcome.id for outcome in said if outcome.outcome in bad}
        if stands_on := story.decision(asked, asked.ballots[0]):
            waves = story.plan(stands_on[0]).waves
            turn = next((place for place, wave in enumerate(waves) if asked.ballots[0].id in wave), 0)
            for id in sorted(failed.intersection(*[{id for wave in waves[:turn] for id in wave}])):
                text = f"{asked.process} elects {asked.ballots[0].id} though {id}, of an earlier wave, did not verify"
                yield Finding("a_failed_wave_stops_the_next", asked.at, text)


def patience_is_kept(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. A clean member is waited for as long as its rule says, from when it was first seen to be back."""
    policy = scenario.rules.policy
    for kept, plan in story.plans():
        looks = [look for look in story.looked if look.process == kept.process and look.at <= kept.at]
        for decision in plan.decisions:
            rule = policy.rule_for(decision.id.topic)
            if decision.leader is None or rule is None or not _clean_member_is_back(plan.evidence, decision):
                continue
            since = min((look.at for look in looks if _clean_member_is_back(look.evidence, decision)), default=kept.at)
            if kept.at - since < rule.patience.total_seconds() - _SLACK:
                text = f"plan {kept.digest[:8]} elects {decision.id} {kept.at - since:.1f} s after a clean member was"
                why = f"first seen to be back; patience is {rule.patience.total_seconds():g} s"
                yield Finding("patience_is_kept", kept.at, f"{text} {why}")


def the_deadline_is_kept(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. When its time is over a run elects nobody any more, and soon says what came of everybody.

    An election may still be held on a look that began in time. What is under way ends within `ENDING`, not counting
    the time in which a request without an answer may take effect and the time that a person takes to answer.
    """
    if scenario.within is None:
        return
    for ran in story.ran:
        due = ran.timed_from + scenario.within
        yield from _begun_too_late(story, ran, due)
        over = ran.ended - due - _excused(story, ran, due)
        if over > ENDING:
            text = f"{ran.process} ({ran.command}) ends {over:.0f} s after its time was over"
            yield Finding("the_deadline_is_kept", ran.ended, text)


def _begun_too_late(story: Chronicle, ran: Ran, due: float) -> Findings:
    """Elections after the deadline whose last look was not under way by then."""
    late = [asked for asked in story.requests("elect") if asked.process == ran.process and asked.at > due]
    for asked, ballot in [(request, ballot) for request in late for ballot in request.ballots]:
        looked = story.last_look(asked, ballot.id)
        if looked is None or looked.at - looked.evidence.cluster.took.total_seconds() > due + _SLACK:
            text = f"{ran.process} elects broker {ballot.designated} for {ballot.id}"
            yield Finding("the_deadline_is_kept", asked.at, f"{text}, begun after its time was over at {due:.3f}")


def _excused(story: Chronicle, ran: Ran, due: float) -> float:
    """Seconds after a run's deadline in which it can't but wait."""
    quarantines = [(waited.at, waited.until) for waited in story.waited if waited.process == ran.process]
    answers = [(due, granted.at) for granted in story.granted if granted.process == ran.process]
    return sum(max(min(until, ran.ended) - max(since, due), 0) for since, until in (*quarantines, *answers))


def everybody_has_an_outcome(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 6. At the end of a run every partition of its scope has an outcome, and a reason unless recovered."""
    for ran in story.ran:
        if ran.hangs:
            text = f"{ran.process} ({ran.command}) is not done after {ran.ended - ran.began:.0f} s"
            yield Finding("everybody_has_an_outcome", ran.ended, text)
        if ran.report is None:
            continue
        told = {outcome.id for outcome in ran.report.outcomes}
        for id in sorted(_scope(story, ran) - told):
            yield Finding("everybody_has_an_outcome", ran.ended, f"{ran.process} gave {id} no outcome")
        for outcome in ran.report.outcomes:
            if outcome.outcome is not Outcome.RECOVERED and outcome.reason is None:
                text = f"{ran.process} says {outcome.id} is {outcome.outcome} and gives no reason"
                yield Finding("everybody_has_an_outcome", ran.ended, text)


def _scope(story: Chronicle, ran: Ran) -> set[TopicPartition]:
    """What was asked for, and what the run looked at: where nobody named anything, whatever it found offline."""
    looks = [looked.evidence for looked in story.looked if looked.process == ran.process]
    return {*(ran.scope or ()), *(partition.id for evidence in looks for partition in evidence.partitions)}


def engines_never_break(story: Chronicle, scenario: Scenario) -> Findings:
    """An engine ends with a report, or with a sentence a person can act on; anything else is a mistake in it.

    Who has asked for a change owes a report: a sentence alone leaves open what became of the change. Only a journal
    that can't be written ends a run at any point, because nothing may be done without its record. Who has only put back
    what an earlier run altered, and then can't look at the cluster, owes none: the journal knows of the earlier run.
    """
    for ran in story.ran:
        if ran.error is not None:
            text = f"{ran.process} ({ran.command}) broke: {type(ran.error).__name__}: {ran.error}"
            yield Finding("engines_never_break", ran.ended, text)
        if ran.sentence is not None and not isinstance(ran.sentence, JournalUnwritable):
            asked = [a.what for a in story.asked if a.process == ran.process and a.what != "approve"]
            only_tidied = ran.command in ("recover", "execute") and set(asked) == {"restore"}
            if asked and not only_tidied:
                text = f"{ran.process} ({ran.command}) asked to {asked[-1]} and ends without a report: {ran.sentence}"
                yield Finding("engines_never_break", ran.ended, text)


def _needs_a_person(policy: Policy, decision: Decision) -> bool:
    rule = policy.rule_for(decision.id.topic)
    approval = Approval.MANUAL if rule is None else rule.approval
    lossless = decision.loss is not None and decision.loss.loss_class is LossClass.LOSSLESS
    return approval is Approval.MANUAL or (approval is Approval.AUTO_LOSSLESS and not lossless)


def _clean_member_is_back(evidence: Evidence, decision: Decision) -> bool:
    """An ISR or ELR member that is alive or answers, while nobody leads and no old leader answers as such."""
    for seen in evidence.partitions:
        if (seen.id, seen.topic_id, seen.leader) == (decision.id, decision.topic_id, None):
            members: set[BrokerId] = {*seen.isr, *(seen.elr or ())}
            back = {b.id for b in evidence.cluster.brokers if b.reachable or (b.registered and not b.fenced)}
            return bool(members & back) and not any(replica.leads for replica in seen.replicas)
    return False
