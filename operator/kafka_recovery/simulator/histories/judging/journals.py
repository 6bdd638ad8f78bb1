"""What a journal alone can be held to: facts in their order, waves of their plan, outcomes that fit what was planned.

Nothing here needs the true logs, so it judges a journal from the field as well (`field.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.policy import Approval
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Kept
from kafka_recovery.simulator.histories.findings import Examined, unless
from kafka_recovery.simulator.histories.judging.words import told_as_handed_over, told_as_member
from kafka_recovery.simulator.histories.scenario import Scenario


def facts_in_their_order(story: Chronicle, scenario: Scenario) -> Examined:
    """A plan is written down before it begins, a wave is begun after that, and ended after it was begun."""
    before = {"begun.json": "plan.json", "approval.json": "plan.json", "finished.json": "begun.json"}
    for kept in story.kept:
        needed = before.get(kept.name)
        if kept.name.endswith("-started.json"):
            needed = "begun.json"
        if kept.name.endswith("-ended.json"):
            needed = kept.name.replace("-ended", "-started")
        if needed:
            there = any(_same(other, kept) and other.name == needed and other.at <= kept.at for other in story.kept)
            yield unless(there, kept.at, f"plan {kept.digest[:8]} has {kept.name} and no {needed} before it")


def waves_are_of_their_plan(story: Chronicle, scenario: Scenario) -> Examined:
    """A wave holds partitions for which its plan elects a leader, and nothing else."""
    for kept in story.kept:
        if kept.wave:
            elected = {decision.id for decision in story.plan(kept.digest).decisions if decision.leader is not None}
            text = f"{kept.name} of plan {kept.digest[:8]} names {', '.join(map(str, sorted(kept.wave - elected)))}"
            yield unless(kept.wave <= elected, kept.at, f"{text}, for which the plan elects nobody")


def what_began_was_approved(story: Chronicle, scenario: Scenario) -> Examined:
    """A wave with what its own plan wants a person's yes for begins after that yes was written down."""
    for kept in story.kept:
        wanting = [d for d in story.plan(kept.digest).decisions if d.id in kept.wave and d.approval is Approval.MANUAL]
        if wanting:
            yes = any(_same(other, kept) and other.name == "approval.json" for other in story.kept)
            text = f"{kept.name} of plan {kept.digest[:8]} elects {wanting[0].id}, and no approval is written down"
            yield unless(yes, kept.at, text)


def finished_is_finished(story: Chronicle, scenario: Scenario) -> Examined:
    """A plan is called finished when every wave of it has ended, and no order is left altered or in doubt."""
    for kept in story.kept:
        if kept.name != "finished.json":
            continue
        mine = [other for other in story.kept if _same(other, kept) and other.at <= kept.at]
        started = {other.name[:9] for other in mine if other.name.endswith("-started.json")}
        ended = {other.name[:9] for other in mine if other.name.endswith("-ended.json")}
        text = f"plan {kept.digest[:8]} is called finished, and {', '.join(sorted(started - ended))} never ended"
        yield unless(started <= ended, kept.at, text)
        for id, outcome in _last_words(mine).items():
            left = outcome is None or (outcome.order_restored is True and outcome.outcome is not Outcome.IN_DOUBT)
            text = f"plan {kept.digest[:8]} is called finished, and {id} is left {outcome.outcome if outcome else ''}"
            yield unless(left, kept.at, f"{text}, its order altered or in doubt")


def outcomes_fit_the_plan(story: Chronicle, scenario: Scenario) -> Examined:
    """`Recovered` names the planned leader, in a newer epoch, with no less than was planned; others give a reason."""
    for kept, plan, outcome in _outcomes(story):
        decision = next((decision for decision in plan.decisions if decision.id == outcome.id), None)
        text = f"{kept.name} of plan {kept.digest[:8]} says {outcome.id} is {outcome.outcome}"
        if decision is None:
            yield unless(False, kept.at, f"{text}, which the plan does not know")
        elif outcome.outcome in (Outcome.RECOVERED, Outcome.RECOVERED_UNDER_MIN_ISR):
            told = f"broker {outcome.leader}, epoch {outcome.leader_epoch}, log end {outcome.log_end}"
            moved = told_as_member(outcome, plan) or told_as_handed_over(story, outcome, decision.leader)
            fits = _as_planned(outcome, decision) or moved or _as_planned_before(story, kept, outcome, decision)
            yield unless(fits, kept.at, f"{text}: {told}, which is not as planned")
        else:
            yield unless(outcome.reason is not None, kept.at, f"{text} and gives no reason")


def _last_words(mine: Sequence[Kept]) -> dict[TopicPartition, PartitionOutcome | None]:
    """What the last wave with each partition said of it as it ended; None: nothing, its order was put back."""
    said: dict[TopicPartition, PartitionOutcome | None] = {}
    for kept in mine:
        if kept.name.endswith("-ended.json"):
            name = kept.name.replace("-ended", "-started")
            wave = next((other.wave for other in mine if other.name == name), frozenset[TopicPartition]())
            told = {outcome.id: outcome for outcome in kept.outcomes}
            said |= {id: told.get(id) for id in wave}
    return said


def _as_planned(outcome: PartitionOutcome, decision: Decision) -> bool:
    newer = outcome.leader_epoch is not None and outcome.leader_epoch > decision.leader_epoch
    whole = outcome.log_end is not None and outcome.log_end >= (decision.log_end or 0)
    return outcome.leader == decision.leader and newer and whole


def _as_planned_before(story: Chronicle, kept: Kept, outcome: PartitionOutcome, decision: Decision) -> bool:
    """Whether it is as an earlier plan of the same process had it, which had this leader elected, that came back."""
    elected = {held.leader for held in story.held if (held.by, held.id) == (kept.process, outcome.id)}
    plans = {other.digest for other in story.kept if other.process == kept.process and other.at < kept.at}
    return outcome.leader in elected and any(
        (earlier.id, earlier.topic_id) == (decision.id, decision.topic_id) and _as_planned(outcome, earlier)
        for digest in sorted(plans)
        for earlier in story.plan(digest).decisions
    )


def _outcomes(story: Chronicle) -> Iterator[tuple[Kept, Plan, PartitionOutcome]]:
    for kept in story.kept:
        for outcome in kept.outcomes:
            yield kept, story.plan(kept.digest), outcome


def _same(one: Kept, other: Kept) -> bool:
    return (one.machine, one.digest) == (other.machine, other.digest)
