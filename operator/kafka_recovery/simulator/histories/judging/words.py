"""What an engine says of a partition that is back, held against the truth at the time it is said."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Asked, Concluded, Held
from kafka_recovery.simulator.histories.findings import Broken, Examined, unless
from kafka_recovery.simulator.histories.judging.ownership import RACE
from kafka_recovery.simulator.histories.scenario import Kind, Scenario
from kafka_recovery.simulator.model.grants import Operation
from kafka_recovery.simulator.model.metadata import PartitionState

LAST_SEEN = 12.0
"""Seconds of its own time within which an engine has looked at what it says: a question is answered in ten."""

GARBLED = 1000
"""So many epochs beyond the newest are a number that nobody has told: no history has as many."""


def recovered_means_verified(story: Chronicle, scenario: Scenario) -> Examined:
    """`Recovered*` names a leader that did lead, in that epoch; another than the planned one is told.

    A leader that goes on in a newer epoch hears of it a moment after the others.
    """
    for said in story.concluded:
        outcome = said.outcome
        if not outcome.outcome.is_recovered:
            continue
        led = any(
            (led.id, led.broker, led.epoch) == (outcome.id, f"broker {outcome.leader}", outcome.leader_epoch)
            for led in story.led
            if led.at <= said.at + RACE
        )
        text = f"{said.process} says {outcome.id} is {outcome.outcome}, but broker {outcome.leader} never led it in"
        yield unless(led, said.at, f"{text} epoch {outcome.leader_epoch}")
        yield from _as_planned(story, said)


def recovered_is_so(story: Chronicle, scenario: Scenario) -> Examined:
    """When `Recovered*` is said, that leader leads, or did a moment ago: what ended long before is not recovered."""
    for said in _said_recovered(story):
        outcome = said.outcome
        near = _near(story, said)
        leads = any((state.leader, state.leader_epoch) == (outcome.leader, outcome.leader_epoch) for state in near)
        seen = [(state.leader, state.leader_epoch) for state in near]
        text = f"{said.process} says {outcome.id} is {outcome.outcome} under broker {outcome.leader} in epoch"
        text = f"{text} {outcome.leader_epoch}; leaders and epochs of that time are {seen}"
        yield unless(leads, said.at, f"{text}, {_blindness(story, said)}{_held_up(story, said)}")


def nothing_older_than_was_shown(story: Chronicle, scenario: Scenario) -> Examined:
    """No outcome names a leader of an epoch that was over by what its process had been shown of that partition.

    A number that was garbled on the way, far beyond any epoch, is nothing that it was shown.
    """
    for said in story.concluded:
        outcome, epoch = said.outcome, said.outcome.leader_epoch
        if outcome.leader is None or epoch is None:
            continue
        reached = max((state.leader_epoch for state in story.states(outcome.id, 0.0, said.at)), default=epoch)
        known = [
            shown
            for shown in story.shown
            if (shown.process, shown.id, shown.topic_id) == (said.process, outcome.id, said.topic_id)
            and shown.at <= said.at
            and shown.epoch < reached + GARBLED
        ]
        newest = max(known, key=lambda shown: shown.epoch, default=None)
        text = f"{said.process} says {outcome.id} is {outcome.outcome} under broker {outcome.leader} in epoch {epoch}"
        if newest is not None:
            text = f"{text}; it had been shown leader {newest.leader} in epoch {newest.epoch} by {newest.at:.3f}"
            yield unless(epoch >= newest.epoch, said.at, text)


def min_isr_is_told(story: Chronicle, scenario: Scenario) -> Examined:
    """`Recovered` is not said below min.insync.replicas, and `RecoveredUnderMinIsr` only there.

    As many replicas as there are will do where more are asked for. Who could not read the minimum has to say so.
    """
    for said in _said_recovered(story):
        outcome = said.outcome
        led = [state for state in _near(story, said) if state.leader_epoch == outcome.leader_epoch]
        values = _min_isrs(story, scenario, said)
        unread = any(warning.startswith("min.insync.replicas could not be read") for warning in outcome.warnings)
        if outcome.outcome is Outcome.RECOVERED_CLEANLY or not led or not values or unread:
            continue
        low = [len(state.isr) < min(value, len(state.replicas)) for state in led for value in values]
        under = outcome.outcome is Outcome.RECOVERED_UNDER_MIN_ISR
        text = f"{said.process} says {outcome.id} is {outcome.outcome}; its ISR is {list(led[-1].isr)}, min.insync."
        why = f"{_held_up(story, said)}{_unread(scenario, said)}"
        yield unless(any(low) if under else not all(low), said.at, f"{text}replicas {values}{why}")


def cleanly_is_clean(story: Chronicle, scenario: Scenario) -> Examined:
    """`RecoveredCleanly` is not said of a leader whom an engine of this machine had elected, unless that was told.

    By whoever had it elected, or by a run that found it in their journal. Another machine's journal nobody can see.
    """
    for said in _said_recovered(story):
        outcome = said.outcome
        if outcome.outcome is not Outcome.RECOVERED_CLEANLY:
            continue
        election = _election(story, said)
        machine = next((asked.machine for asked in story.asked if election and asked.process == election.by), None)
        if election is None or machine != said.machine:
            yield None
            continue
        told = election.by != said.process and any(
            other.machine == machine and other.outcome.id == outcome.id and election.at <= other.at < said.at
            for other in story.concluded
        )
        text = f"{said.process} says {outcome.id} is {outcome.outcome}, but {election.by} had broker"
        text = f"{text} {election.leader} elected, and {len(election.lost)} acknowledged records were lost by that"
        yield unless(told, said.at, f"{text}; nobody has told of it")


def who_came_back_was_in_sync(story: Chronicle, scenario: Scenario) -> Examined:
    """`RecoveredCleanly` is not said of a leader that was in neither ISR nor ELR when it was seen to be offline.

    By whoever had it elected: what the others hold beyond its log is lost, and a person has to hear of it.
    """
    for said in _said_recovered(story):
        outcome = said.outcome
        if outcome.outcome is not Outcome.RECOVERED_CLEANLY:
            continue
        clean = [{*seen.isr, *(seen.elr or ())} for seen in _seen_offline(story, said)]
        text = f"{said.process} says {outcome.id} is {outcome.outcome} under broker {outcome.leader}, which was in"
        text = f"{text} neither ISR nor ELR when it saw it offline: {[sorted(members) for members in clean[:1]]}"
        if clean:
            yield unless(any(outcome.leader in members for members in clean), said.at, text)


def _seen_offline(story: Chronicle, said: Concluded) -> Iterator[PartitionEvidence]:
    """What its process had seen of the partition while nobody led it."""
    for look in story.looked:
        if look.process == said.process and look.at <= said.at:
            seen = look.partition(said.outcome.id)
            if seen is not None and (seen.topic_id, seen.leader) == (said.topic_id, None):
                yield seen


def _blindness(story: Chronicle, said: Concluded) -> str:
    """What kept an engine from seeing more, by its own last look."""
    looked = next(
        (look for look in reversed(story.looked) if look.process == said.process and look.at <= said.at), None
    )
    advances = [b.metadata_advances for b in looked.evidence.cluster.brokers if b.reachable] if looked else [None]
    return "and it could see that no metadata moves" if True not in advances else "and it saw metadata move"


def _held_up(story: Chronicle, said: Concluded) -> str:
    """Whether it led until a request of that engine got no answer, and the word had to wait for that."""
    doubts = [a.asked_at for a in story.answered if a.process == said.process and a.doubtful and a.at <= said.at]
    led = [
        at
        for at in doubts[-1:]
        for state in story.states(said.outcome.id, at - LAST_SEEN, at)
        if (state.leader, state.leader_epoch) == (said.outcome.leader, said.outcome.leader_epoch)
    ]
    return f"; it led until a request got no answer, asked {said.at - led[0]:.0f} s before" if led else ""


def _unread(scenario: Scenario, said: Concluded) -> str:
    """Whether brokers would not tell it the topic's configs."""
    denied = (
        fault.partition
        for fault in scenario.faults
        if fault.kind is Kind.RIGHTS and fault.right is Operation.DESCRIBE and fault.at <= said.at
    )
    topics = {TopicPartition.parse(partition).topic for partition in denied if partition is not None}
    return "; it had lost the right to see the topic" if said.outcome.id.topic in topics else ""


def _said_recovered(story: Chronicle) -> Iterator[Concluded]:
    return (said for said in story.concluded if said.outcome.outcome.is_recovered)


def _near(story: Chronicle, said: Concluded) -> tuple[PartitionState, ...]:
    """The partition's states in the time that an engine may speak of."""
    return story.states(said.outcome.id, story.awake_before(said.process, said.at, LAST_SEEN), said.at)


def _min_isrs(story: Chronicle, scenario: Scenario, said: Concluded) -> list[int]:
    """Every min.insync.replicas that was in force since the engine's last look at the partition."""
    looks = [look.at for look in story.looked if look.process == said.process and look.partition(said.outcome.id)]
    since, topic = min(looks, default=0.0), said.outcome.id.topic
    first = next(each.min_isr for each in scenario.topics if each.name == topic)
    known = [(0.0, first), *((c.at, c.min_isr) for c in story.configured if c.topic == topic)]
    ends = [*[at for at, _ in known[1:]], float("inf")]
    return [value for (began, value), end in zip(known, ends, strict=True) if began <= said.at and end >= since]


def _election(story: Chronicle, said: Concluded) -> Held | None:
    """The election that brought the leader of whom this is said."""
    wanted = said.outcome.id, said.topic_id, said.outcome.leader, said.outcome.leader_epoch
    return next((held for held in story.held if (held.id, held.topic_id, held.leader, held.epoch) == wanted), None)


def _as_planned(story: Chronicle, said: Concluded) -> Examined:
    """`Recovered` with another leader, or with less than was planned, is not `Recovered`.

    A run that elected twice may find the leader of its earlier election back: it is measured by that one's plan. So is
    whoever leads as the last plan says that its process has taken over: what that plan elected nobody can tell it. A
    member of the ISR or ELR that leads in place of the planned one is told as such, and with what it has less.
    """
    outcome = said.outcome
    elections: list[tuple[Asked, ElectionRequest]] = [
        (asked, request)
        for asked in reversed(story.asked)
        if asked.what == "elect" and asked.machine == said.machine and asked.at <= said.at
        for request in asked.requests
        if request.id == outcome.id
    ]
    if not elections or outcome.outcome is Outcome.RECOVERED_CLEANLY:
        return
    of_this_leader = (e for e in elections if e[0].process == said.process and e[1].designated == outcome.leader)
    asked, request = next(of_this_leader, elections[0])
    stands_on = story.decision(asked, request)
    planned = None if stands_on is None else stands_on[1].log_end
    if outcome.leader != request.designated and outcome.leader != _taken_over(story, said):
        if stands_on and told_as_member(outcome, story.plan(stands_on[0])):
            return
        if told_as_handed_over(story, outcome, request.designated):
            return
        text = f"{said.process} says {outcome.id} is {outcome.outcome} under broker {outcome.leader}"
        yield Broken(said.at, f"{text}, planned was broker {request.designated}")
    if planned is not None and outcome.log_end is not None:
        text = f"{said.process} says {outcome.id} is {outcome.outcome} with log end {outcome.log_end}"
        yield unless(outcome.log_end >= planned, said.at, f"{text}, planned was {planned}")


def _taken_over(story: Chronicle, said: Concluded) -> BrokerId | None:
    """Whom the last plan designated that the same journal had open, where this process elected nobody itself.

    Somebody else may have that one elected before the plan's first wave is begun. A plan that another process finished
    is not taken over.
    """
    if any(asked.process == said.process for asked in story.requests("elect")):
        return None
    kept = [k for k in story.kept if k.machine == said.machine and k.at <= said.at]
    over = {k.digest for k in kept if k.name == "finished.json" and k.process != said.process}
    mine = [k.digest for k in kept if k.name == "plan.json" and k.digest not in over]
    plans = [story.plan(digest).elections.get(said.outcome.id) for digest in mine]
    return next((decision.leader for decision in reversed(plans) if decision is not None), None)


def told_as_member(outcome: PartitionOutcome, plan: Plan) -> bool:
    """Whether it is said that a member of the ISR or ELR leads where another one was planned, and what it has less."""
    seen = next((partition for partition in plan.evidence.partitions if partition.id == outcome.id), None)
    decision = next((decision for decision in plan.decisions if decision.id == outcome.id), None)
    said = " ".join((str(outcome.reason), *outcome.warnings))
    behind = bool(decision and decision.log_end and (outcome.log_end or 0) < decision.log_end)
    member = seen is not None and outcome.leader in seen.clean_members
    return member and "a member of the ISR or ELR" in said and ("came back with log end" in said or not behind)


def told_as_handed_over(story: Chronicle, outcome: PartitionOutcome, designated: BrokerId | None) -> bool:
    """Whether it is said that the planned leader led before the one that is named, and it did."""
    said, epoch = " ".join((str(outcome.reason), *outcome.warnings)), outcome.leader_epoch
    led = [led for led in story.led if (led.id, led.broker) == (outcome.id, f"broker {designated}")]
    return "led it in epoch" in said and epoch is not None and any(each.epoch < epoch for each in led)
