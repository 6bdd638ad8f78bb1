"""Who may be elected: what a choice stands on, what forbids any, and that it is the best one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Asked, Looked
from kafka_recovery.simulator.histories.findings import Broken, Examined, unless
from kafka_recovery.simulator.histories.judging.naive_order import best_first_of, firsts
from kafka_recovery.simulator.histories.judging.naive_refusals import forbidden
from kafka_recovery.simulator.histories.scenario import Scenario

LONGEST_TRUST = 7.0
"""Seconds from the end of the last look to the request: a look is trusted for two, and then a request is given five to
leave, which the way to a slow broker may need."""

WISHES = 2.5
"""Seconds before its last look in which an engine may have read what its owners want: no later wave reads it anew."""


def nobody_from_silence(story: Chronicle, scenario: Scenario) -> Examined:
    """Who is named in an election answered a moment ago, under the current epoch, and may lead."""
    for asked, request, looked in _elections(story):
        problem = "it never looked at it" if looked is None else _untrustworthy(asked, request, looked)
        text = f"{asked.process} asks to elect broker {request.designated} for {request.id}, but {problem}"
        yield unless(problem is None, asked.at, text)


def nothing_forbids_it(story: Chronicle, scenario: Scenario) -> Examined:
    """Neither what a plan was made on nor the last look before its election holds what forbids any election.

    Each by the rules of the time: a plan by the policy that it was made under, a last look by any that its owners
    wanted since shortly before it.
    """
    for kept, plan in story.plans():
        seen = {partition.id: partition for partition in plan.evidence.partitions}
        for decision in plan.decisions:
            if decision.leader is not None:
                why = forbidden(seen[decision.id], plan.evidence.cluster, plan.policy)
                yield unless(why is None, kept.at, f"plan {kept.digest[:8]} elects {decision.id}, though {why}")
    for asked, request, looked in _elections(story):
        partition = looked.partition(request.id) if looked else None
        if looked is None or partition is None:
            continue
        cluster = looked.evidence.cluster
        began = looked.at - cluster.took.total_seconds() - WISHES
        policies = [wish.policy for wish in story.wishes(began, asked.at)]
        reasons = [forbidden(partition, cluster, policy) for policy in policies]
        text = f"{asked.process} asks to elect {request.id}, though at its last look {reasons[0]}"
        yield unless(None in reasons, asked.at, text)


def best_first(story: Chronicle, scenario: Scenario) -> Examined:
    """Who is elected is first by its rule's order, in the plan and at the last look, by a second implementation."""
    for kept, plan in story.plans():
        seen = {partition.id: partition for partition in plan.evidence.partitions}
        for decision in plan.decisions:
            if decision.leader is not None:
                allowed = firsts(seen[decision.id], plan.evidence.cluster, decision.candidate_order)
                text = f"plan {kept.digest[:8]} elects broker {decision.leader} for {decision.id}; first by"
                text = f"{text} {decision.candidate_order} of what it was made on is {sorted(allowed)}"
                yield unless(decision.leader in allowed, kept.at, text)
    for asked, request, looked in _elections(story):
        partition = looked.partition(request.id) if looked else None
        stands_on = story.decision(asked, request)
        if looked is None or partition is None or stands_on is None:
            continue
        order = stands_on[1].candidate_order
        allowed = firsts(_as_it_was(partition, request), looked.evidence.cluster, order)
        text = f"{asked.process} elects broker {request.designated} for {request.id}; first by {order}"
        text = f"{text} of what it saw at {looked.at:.3f} is {sorted(allowed)}"
        yield unless(request.designated in allowed, asked.at, text)


def the_rest_in_order(story: Chronicle, scenario: Scenario) -> Examined:
    """Behind the designated leader stand the other candidates, best first, and then the rest as they stood.

    If the first can't be elected, the controller takes the next of that order. Where the election names its leader,
    nobody else is taken, and the order stays as it stood.
    """
    for kept, plan in story.plans():
        seen = {partition.id: partition for partition in plan.evidence.partitions}
        for decision in plan.decisions:
            if decision.leader is None:
                continue
            best = best_first_of(seen[decision.id], plan.evidence.cluster, decision.candidate_order)
            others = [broker for broker in decision.assignment if broker not in best]
            wanted = (decision.leader, *[broker for broker in best if broker != decision.leader], *others)
            if scenario.driver is Driver.DESIGNATED or _elects_as_it_stands(decision, seen[decision.id], plan, wanted):
                wanted = decision.assignment
            text = f"plan {kept.digest[:8]} puts {decision.id} into the order {list(decision.order)}"
            yield unless(tuple(decision.order) == wanted, kept.at, f"{text}; best first is {list(wanted)}")


def _elects_as_it_stands(decision: Decision, seen: PartitionEvidence, plan: Plan, wanted: Sequence[BrokerId]) -> bool:
    """Whether the order may be left: nobody else can be taken before the leader, nor a worse one after it."""
    cluster = plan.evidence.cluster
    up = {broker.id for broker in cluster.brokers if not broker.fenced}
    away = set(decision.assignment) - up
    known = {broker.id for broker in cluster.brokers if broker.registered is not False}
    if (cluster.release or "").startswith("3"):  # fenced ones are not listed there
        known = {*decision.assignment} - {broker.id for broker in cluster.brokers if broker.registered is False}
    clean = {*seen.isr, *(seen.elr or ())}
    left = [id for id in decision.assignment if id in known and not (id in away and id in clean)]
    behind = [0 if id in decision.equals else wanted.index(id) for id in left[1:]]
    return left[:1] == [decision.leader] and behind == sorted(behind)


def the_rule_is_its_topics_own(story: Chronicle, scenario: Scenario) -> Examined:
    """A plan is made under a policy that its owners had at that time, each partition under the rule for its topic."""
    for kept, plan in story.plans():
        mine = [look for look in story.looked if look.process == kept.process and look.at <= kept.at]
        looked = next((look for look in mine if look.evidence == plan.evidence), None)
        looked = looked or next((look for look in mine if look.evidence.partitions), None)
        began = kept.at if looked is None else looked.at - looked.evidence.cluster.took.total_seconds() - WISHES
        if plan.policy not in [wish.policy for wish in story.wishes(min(began, kept.at - WISHES), kept.at)]:
            yield Broken(kept.at, f"plan {kept.digest[:8]} was made under a policy that its owners did not want then")
        for decision in plan.decisions:
            rule = plan.policy.rule_for(decision.id.topic)
            if decision.leader is not None:
                own = rule is not None and (decision.rule, decision.candidate_order) == (
                    rule.name, rule.candidate_order
                )  # fmt: skip
                text = f"plan {kept.digest[:8]} elects {decision.id} by rule {decision.rule or 'none'} and"
                yield unless(own, kept.at, f"{text} {decision.candidate_order}, which is not its topic's")


def _elections(story: Chronicle) -> Iterator[tuple[Asked, ElectionRequest, Looked | None]]:
    """Every election that was asked for, with what the engine had seen of it last."""
    for asked in story.requests("elect"):
        for request in asked.requests:
            yield asked, request, story.last_look(asked, request.id)


def _untrustworthy(asked: Asked, request: ElectionRequest, looked: Looked) -> str | None:
    """Why the last look does not allow this election."""
    partition = looked.partition(request.id)
    broker = looked.evidence.cluster.broker(request.designated)
    replica = partition.replica(request.designated) if partition else None
    if asked.at - looked.at > LONGEST_TRUST:
        return f"its last look is {asked.at - looked.at:.1f} s old"
    if partition is None or partition.topic_id != request.topic_id:
        return "its last look showed another topic"
    if partition.leader is not None:
        return f"its last look showed broker {partition.leader} leading"
    if partition.leader_epoch != request.leader_epoch:
        return f"its last look showed epoch {partition.leader_epoch}, the plan is of {request.leader_epoch}"
    if partition.assignment not in (request.assignment, request.order):
        return f"its last look showed the assignment {list(partition.assignment)}"
    if replica is None or replica.log is None:
        return "that broker did not answer in its last look"
    if replica.log.answered_under != partition.leader_epoch:
        return f"that broker answered under {replica.log.answered_under}, not under the current epoch"
    if broker is None or broker.fenced or not broker.registered or broker.stopping or not broker.reachable:
        return f"that broker may not lead by its last look ({broker})"
    if broker.metadata_advances is not True:
        return "that broker's metadata did not advance in its last look"
    return None


def _as_it_was(partition: PartitionEvidence, request: ElectionRequest) -> PartitionEvidence:
    """With the assignment in its original order: while electing, ours stands there."""
    if partition.assignment != request.order:
        return partition
    replicas = {replica.broker: replica for replica in partition.replicas}
    return replace(partition, replicas=tuple(replicas[broker] for broker in request.assignment))
