"""How runs end: with an outcome for everybody, or with a sentence that a person can act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import LAST, Ran
from kafka_recovery.simulator.histories.findings import Broken, Examined, unless
from kafka_recovery.simulator.histories.judging.told import held_up_by_a_relay
from kafka_recovery.simulator.histories.scenario import Scenario

UNWRITABLE = "JournalUnwritable"
"""The one sentence that may end a run at any point: nothing may be done without its record."""


def everybody_has_an_outcome(story: Chronicle, scenario: Scenario) -> Examined:
    """At the end of a run every partition of its scope has an outcome, and a reason unless recovered."""
    for ran in story.ran:
        if ran.hangs:
            text = f"{ran.process} ({ran.command}) is not done after {ran.ended - ran.began:.0f} s"
            yield Broken(ran.ended, text)
        if ran.report is None:
            continue
        told = {outcome.id for outcome in ran.report.outcomes}
        for id in sorted(_scope(story, ran) | told):
            yield unless(id in told, ran.ended, f"{ran.process} gave {id} no outcome")
        for outcome in ran.report.outcomes:
            if outcome.outcome is not Outcome.RECOVERED and outcome.reason is None:
                yield Broken(ran.ended, f"{ran.process} says {outcome.id} is {outcome.outcome} and gives no reason")


def engines_never_break(story: Chronicle, scenario: Scenario) -> Examined:
    """An engine ends with a report, or with a sentence a person can act on; anything else is a mistake in it.

    Who has asked for a change owes a report: a sentence alone leaves open what became of the change. Only a journal
    that can't be written ends a run at any point, because nothing may be done without its record. Who has only put back
    what an earlier run altered, and then can't look at the cluster, owes none: the journal knows of the earlier run.
    """
    for ran in story.ran:
        text = f"{ran.process} ({ran.command}) broke: {type(ran.error).__name__}: {ran.error}"
        yield unless(ran.error is None, ran.ended, text)
        if ran.sentence is not None and type(ran.sentence).__name__ != UNWRITABLE:
            asked = [a.what for a in story.asked if a.process == ran.process and a.what != "approve"]
            only_tidied = ran.command in ("recover", "execute") and set(asked) == {"restore"}
            text = f"{ran.process} ({ran.command}) asked to {asked[-1:]} and ends without a report: {ran.sentence}"
            yield unless(not asked or only_tidied, ran.ended, text)


def the_quiet_end_is_explained(story: Chronicle, scenario: Scenario) -> Examined:
    """When nothing goes wrong any more, every partition is led again or refused for a reason that is true now.

    Some brokers may never come back. Everybody who lives is heard, a person who is asked says yes, owners want
    elections and there is no deadline: only what can't be or may not be is a reason.
    """
    ran = next((ran for ran in story.ran if ran.process == LAST), None)
    if ran is None:
        return
    said = {outcome.id: outcome for outcome in (ran.report.outcomes if ran.report else ())}
    for id in ran.leaderless:
        led = any(state.leader is not None for state in story.states(id, ran.ended - 1, ran.ended))
        reason = said[id].reason if id in said else None
        holds = _QUIET.get(reason.code, _never)(story, id) if reason else ran.report is None and _nobody_answers(story)
        text = f"{id} is left without a leader by {ran.process} when all is quiet"
        yield unless(led or holds, ran.ended, f"{text}: {reason or ran.sentence or 'nothing was said of it'}")


def _never(story: Chronicle, id: TopicPartition) -> bool:
    return False


def _nobody_answers(story: Chronicle) -> bool:
    """Whether no broker of the cluster runs, so that a run can only end without a report."""
    return all(map(story.kafka.truth.fenced, story.kafka.brokers))


def _nobody_lives(story: Chronicle, id: TopicPartition) -> bool:
    """Whether the controller could not elect any of its replicas."""
    state = story.kafka.controllers.state
    return not any(state.acceptable(broker, id) for broker in story.assignment(id))


def _a_disk_is_gone(story: Chronicle, id: TopicPartition) -> bool:
    """Whether a broker lives and can't read its replica: nobody may be elected over what it may hold."""
    state = story.kafka.controllers.state
    return any(
        not state.acceptable(broker, id) and not story.kafka.truth.fenced(broker) for broker in story.assignment(id)
    )


def _too_few(story: Chronicle, id: TopicPartition) -> bool:
    rule = story.wished[-1].policy.rule_for(id.topic)
    return rule is not None and len(story.assignment(id)) < rule.min_replication_factor


def _too_many_down(story: Chronicle, id: TopicPartition) -> bool:
    down = [broker for broker in story.kafka.brokers if story.kafka.truth.fenced(broker)]
    return 100 * len(down) > story.wished[-1].policy.limits.brokers_down_percent * len(story.kafka.brokers)


def _moving(story: Chronicle, id: TopicPartition) -> bool:
    state = story.kafka.truth.state(id)
    return state is not None and bool(state.adding or state.removing)


def _full(story: Chronicle, id: TopicPartition) -> bool:
    limit = story.wished[-1].policy.limits.partitions
    mine = [plan for kept, plan in story.plans() if kept.process == LAST]
    return any(sum(decision.leader is not None for decision in plan.decisions) >= limit for plan in mine)


_QUIET: Mapping[str, Callable[[Chronicle, TopicPartition], bool]] = {
    "OrderNotRestored": held_up_by_a_relay,
    "RelaySilent": held_up_by_a_relay,
    "NoCandidate": _nobody_lives,
    "LogDirOffline": _a_disk_is_gone,
    "ReplicationFactorTooLow": _too_few,
    "TooManyBrokersDown": _too_many_down,
    "ReassignmentOngoing": _moving,
    "PartitionLimitReached": _full,
}
"""The reasons that may be left, and when each is true."""


def _scope(story: Chronicle, ran: Ran) -> set[TopicPartition]:
    """What was asked for, and what the run looked at: where nobody named anything, whatever it found offline."""
    looks = [looked.evidence for looked in story.looked if looked.process == ran.process]
    return {*(ran.scope or ()), *(partition.id for evidence in looks for partition in evidence.partitions)}
