"""Invariants 1 to 3: what a choice may cost, what it stands on, and that it is the best one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_recovery.domain.election import Ballot
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Decision, LossClass
from kafka_recovery.simulator.histories.chronicle import Asked, Chronicle, Concluded, Held, Looked
from kafka_recovery.simulator.histories.findings import Finding, Findings
from kafka_recovery.simulator.histories.naive_order import firsts
from kafka_recovery.simulator.histories.scenario import Scenario

LONGEST_TRUST = 3.5
"""Seconds from the end of the last look to the request: a look is trusted for two, and the way to it takes some."""


def loss_stays_in_its_class(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 1. On true logs `Lossless` loses nothing acknowledged with acks=all, `Bounded` at most its bound.

    Acknowledged by whoever and whenever: also by the leader who was overthrown and does not know it yet. A class stands
    on copies that follow nobody older, so no such leader can have enough of them left to acknowledge anything.
    """
    for held, ballot, decision in _elected_as_planned(story):
        loss = decision.loss
        if loss is None or loss.at_most is None:
            continue
        later = story.lost_later(held)
        lost = (*held.lost, *later)
        if len(lost) > loss.at_most:
            yield Finding(
                "loss_stays_in_its_class",
                held.at,
                f"{held.by} elected broker {held.leader} for {ballot.id} as {loss.loss_class}, at most {loss.at_most} "
                f"records lost; its log lacks {len(lost)} acknowledged ones ({_some(lost)}; {len(later)} of them "
                f"acknowledged later by the leader it overthrew). Proof: {loss.proof}",
            )


def class_is_proven(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 1. A promise about losses needs a history, and a number."""
    for kept, plan in story.plans():
        for decision in plan.decisions:
            if decision.loss is None or decision.loss.loss_class is LossClass.UNKNOWN:
                continue
            if not scenario.knows_history or not (decision.loss.proof or decision.loss.missing):
                text = f"plan {kept.digest[:8]} calls {decision.id} {decision.loss.loss_class} without any proof"
                yield Finding("class_is_proven", kept.at, text)


def nobody_from_silence(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 2. Who is named in an election answered a moment ago, under the current epoch, and may lead."""
    for asked in story.requests("elect"):
        for ballot in asked.ballots:
            looked = story.last_look(asked, ballot.id)
            problem = "it never looked at it" if looked is None else _untrustworthy(asked, ballot, looked)
            if problem:
                text = f"{asked.process} asks to elect broker {ballot.designated} for {ballot.id}, but {problem}"
                yield Finding("nobody_from_silence", asked.at, text)


def recovered_means_verified(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 2. `Recovered*` names a leader that did lead, in that epoch; another than the planned one is told."""
    for said in story.concluded:
        outcome = said.outcome
        if not outcome.outcome.is_recovered:
            continue
        if not any(
            led.id == outcome.id
            and led.broker == f"broker {outcome.leader}"
            and led.epoch == outcome.leader_epoch
            and led.at <= said.at
            for led in story.led
        ):
            text = f"{said.process} says {outcome.id} is {outcome.outcome}, but broker {outcome.leader} never led it in"
            yield Finding("recovered_means_verified", said.at, f"{text} epoch {outcome.leader_epoch}")
        yield from _as_planned(story, said)
        yield from _cleanly(story, said)


def best_first(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 3. Who is elected is first by its rule's order at the last look, by a second implementation."""
    policy = scenario.rules.policy
    for asked in story.requests("elect"):
        for ballot in asked.ballots:
            looked, rule = story.last_look(asked, ballot.id), policy.rule_for(ballot.id.topic)
            partition = looked.partition(ballot.id) if looked else None
            if looked is None or partition is None or rule is None:
                continue
            allowed = firsts(_as_it_was(partition, ballot), looked.evidence.cluster, rule.candidate_order)
            if ballot.designated not in allowed:
                text = f"{asked.process} elects broker {ballot.designated} for {ballot.id}; first by"
                yield Finding(
                    "best_first",
                    asked.at,
                    f"{text} {rule.candidate_order} of what it saw at {looked.at:.3f} is {sorted(allowed)}",
                )


def _elected_as_planned(story: Chronicle) -> Iterator[tuple[Held, Ballot, Decision]]:
    """Elections that engines asked for and got, in the epoch they were planned in; Kafka holds later ones as well."""
    for held in story.held:
        asked = next(
            (a for a in reversed(story.asked) if a.what == "elect" and a.process == held.by and a.at <= held.at
             and any(ballot.id == held.id for ballot in a.ballots)), None,
        )  # fmt: skip
        if asked is None:
            continue
        ballot = next(ballot for ballot in asked.ballots if ballot.id == held.id)
        stands_on = story.decision(asked, ballot)
        if stands_on and held.leader == ballot.designated and held.epoch == ballot.leader_epoch + 1:
            yield held, ballot, stands_on[1]


def _untrustworthy(asked: Asked, ballot: Ballot, looked: Looked) -> str | None:
    """Why the last look does not allow this election."""
    partition = looked.partition(ballot.id)
    broker = looked.evidence.cluster.broker(ballot.designated)
    replica = partition.replica(ballot.designated) if partition else None
    if asked.at - looked.at > LONGEST_TRUST:
        return f"its last look is {asked.at - looked.at:.1f} s old"
    if partition is None or partition.topic_id != ballot.topic_id:
        return "its last look showed another topic"
    if partition.leader is not None:
        return f"its last look showed broker {partition.leader} leading"
    if partition.leader_epoch != ballot.leader_epoch:
        return f"its last look showed epoch {partition.leader_epoch}, the plan is of {ballot.leader_epoch}"
    if replica is None or replica.log is None:
        return "that broker did not answer in its last look"
    if replica.log.answered_under != partition.leader_epoch:
        return f"that broker answered under {replica.log.answered_under}, not under the current epoch"
    if broker is None or broker.fenced or not broker.registered or broker.stopping or not broker.reachable:
        return f"that broker may not lead by its last look ({broker})"
    if broker.metadata_advances is False:
        return "that broker was cut off from the controller in its last look"
    return None


def _as_planned(story: Chronicle, said: Concluded) -> Findings:
    """`Recovered` with another leader, or with less than was planned, is not `Recovered`.

    A run that elected twice may find the leader of its earlier election back: it is measured by that one's plan.
    """
    outcome = said.outcome
    elections = [
        (asked, ballot)
        for asked in reversed(story.asked)
        if asked.what == "elect" and asked.machine == said.machine and asked.at <= said.at
        for ballot in asked.ballots
        if ballot.id == outcome.id
    ]
    if not elections or outcome.outcome is Outcome.RECOVERED_CLEANLY:
        return
    of_this_leader = (e for e in elections if e[0].process == said.process and e[1].designated == outcome.leader)
    asked, ballot = next(of_this_leader, elections[0])
    stands_on = story.decision(asked, ballot)
    planned = None if stands_on is None else stands_on[1].log_end
    if outcome.leader != ballot.designated:
        text = f"{said.process} says {outcome.id} is {outcome.outcome} under broker {outcome.leader}"
        yield Finding("recovered_means_verified", said.at, f"{text}, planned was broker {ballot.designated}")
    if planned is not None and outcome.log_end is not None and outcome.log_end < planned:
        text = f"{said.process} says {outcome.id} is {outcome.outcome} with log end {outcome.log_end}"
        yield Finding("recovered_means_verified", said.at, f"{text}, planned was {planned}")


def _cleanly(story: Chronicle, said: Concluded) -> Findings:
    """`RecoveredCleanly` is no word for an election that this engine asked for."""
    outcome = said.outcome
    if outcome.outcome is not Outcome.RECOVERED_CLEANLY:
        return
    for held in story.held:
        if (held.id, held.leader, held.epoch, held.by) == (
            outcome.id, outcome.leader, outcome.leader_epoch, said.process
        ) and held.at <= said.at:  # fmt: skip
            text = f"{said.process} says {outcome.id} is {outcome.outcome}, but it had broker {held.leader} elected"
            yield Finding("recovered_means_verified", said.at, text)


def _as_it_was(partition: PartitionEvidence, ballot: Ballot) -> PartitionEvidence:
    """With the assignment in its original order: while electing, ours stands there."""
    if partition.assignment != ballot.order:
        return partition
    replicas = {replica.broker: replica for replica in partition.replicas}
    return PartitionEvidence(
        partition.id, partition.topic_id, partition.internal, partition.leader, partition.leader_epoch, partition.isr,
        partition.elr, partition.last_known_elr, tuple(replicas[broker] for broker in ballot.assignment),
    )  # fmt: skip


def _some(records: Iterable[object]) -> str:
    listed = list(records)
    return ", ".join(map(str, listed[:3])) + (" …" if len(listed) > 3 else "")
