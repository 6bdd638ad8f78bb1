"""From a plan to the elections it asks for."""

from __future__ import annotations

from kafka_recovery.decision.present_order import elects, passed_over
from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.formats.documents import InvalidDocument


def request_of(decision: Decision) -> ElectionRequest:
    """The election a decision asks for; raises ValueError for a decision without a leader."""
    if decision.leader is None:
        raise ValueError(f"{decision.id} has no designated leader (verdict {decision.verdict})")
    return ElectionRequest(
        decision.id, decision.topic_id, decision.leader_epoch, decision.leader, decision.order, decision.assignment
    )


def check_plan(plan: Plan) -> None:
    """Raise InvalidDocument for a plan that does not hold together; one that was written by hand may not."""
    measured = {partition.id: partition for partition in plan.evidence.partitions}
    elected = plan.elections
    if len({decision.id for decision in plan.decisions}) != len(plan.decisions):
        raise InvalidDocument("the plan decides on a partition twice")
    for id, decision in elected.items():
        if id not in measured or measured[id].topic_id != decision.topic_id:
            raise InvalidDocument(f"the plan elects a leader for {id} without evidence about it")
        if plan.evidence.cluster.designated_elections:
            sound, right = decision.order == decision.assignment, "though elections designate their leaders there"
        else:
            altered = sorted(decision.order) == sorted(decision.assignment) and decision.order[:1] == (decision.leader,)
            sound = altered or (decision.order == decision.assignment and _elects(plan, decision, measured[id]))
            right = f"as it stands or with the leader {decision.leader} first"
        if not sound or decision.leader not in decision.assignment:
            order, assignment = list(decision.order), list(decision.assignment)
            raise InvalidDocument(f"the plan's order {order} for {id} is not its assignment {assignment} {right}")
    if sorted(id for wave in plan.waves for id in wave) != sorted(elected):
        raise InvalidDocument("the plan's waves are not exactly the partitions it elects a leader for, each once")


def _elects(plan: Plan, decision: Decision, partition: PartitionEvidence) -> bool:
    """Whether the assignment elects the leader as it stands, by the plan's own evidence."""
    cluster = plan.evidence.cluster
    passed = passed_over(cluster, {broker.id: broker for broker in cluster.brokers}, partition)
    return decision.leader is not None and elects(decision.leader, decision.assignment, passed)
