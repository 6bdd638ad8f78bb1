"""The last look before electing: does a decision still hold on fresh evidence?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from kafka_recovery.decision.attesting import attested, no_longer
from kafka_recovery.decision.checks import broker_objection, cluster_objection
from kafka_recovery.decision.cluster_index import ClusterIndex, back, index_of
from kafka_recovery.decision.judgement import Standing, judge
from kafka_recovery.decision.loss import classify, severity, takes_more
from kafka_recovery.decision.present_order import elects, passed_over
from kafka_recovery.decision.returns import if_intact
from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.counts import GONE
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, MetadataOffset, TopicPartition
from kafka_recovery.domain.plan import Decision, Loss, Plan, Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason

PATIENCE_OVER = timedelta.max
"""The plan waited as long as its rule said; what came back since then is seen by comparison."""


@dataclass(frozen=True, slots=True)
class Before:
    """What a plan was made on, for one of its partitions.

    `back`: the brokers that were back then, see `cluster_index.back`. `epochs`: of the brokers that told theirs.
    `by_request`: whether brokers took designated leaders (KIP-1275).
    """

    partition: PartitionEvidence
    back: frozenset[BrokerId]
    epochs: Mapping[BrokerId, BrokerEpoch] = field(default_factory=dict)
    by_request: bool = False


def before(plan: Plan) -> dict[TopicPartition, Before]:
    """What `plan` was made on, by partition."""
    there = back(plan.evidence.cluster)
    epochs = {broker.id: broker.epoch for broker in plan.evidence.cluster.brokers if broker.epoch is not None}
    by_request = plan.evidence.cluster.designated_elections
    return {partition.id: Before(partition, there, epochs, by_request) for partition in plan.evidence.partitions}


class LastLook:
    """Holds decisions to what was seen last; what their partitions share is worked out once.

    `designated`: the orders of those that are held to it have been set by their plan. `attestations`: those that
    counted when it was made.
    """

    def __init__(
        self,
        fresh: Evidence,
        policy: Policy,
        *,
        designated: bool = False,
        attestations: Sequence[Attestation] = (),
    ) -> None:
        fresh = attested(fresh, attestations)
        self._fresh = fresh
        self._attestations = attestations
        self._started: list[Attestation] = []
        self._designated = designated
        self._partitions = {partition.id: partition for partition in fresh.partitions}
        around = index_of(fresh.cluster, policy, broker_objection)
        obstacle = cluster_objection(around, policy.limits)
        self._around, self._obstacle = around, obstacle

    def difference(self, decision: Decision, planned: Before) -> Reason | None:
        """None if the decision to elect still holds; else the first thing that differs, with both values.

        A proven loss class holds only if the history that was read again still proves it.
        """
        partition = self._partitions.get(decision.id)
        if partition is None:
            return _gone(self._fresh, decision)
        for different in SAME:
            reason = different(decision, planned, partition, self._designated)
            if reason is not None:
                return reason
        if self._fresh.cluster.designated_elections != planned.by_request:
            return _another_driver(decision, planned)
        if lapsed := no_longer(planned.partition, self._attestations, self._fresh):
            self._started.append(lapsed)
            return lapsed.void
        return _judged(decision, planned, partition, self._around, self._obstacle)

    @property
    def attestations(self) -> tuple[Attestation, ...]:
        """As this look shows them, and as what was held to it does: those that do not count say why."""
        return (*self._fresh.cluster.attestations, *self._started)


def stands_still(evidence: Evidence, policy: Policy) -> Reason | None:
    """Why nothing may be concluded from what this evidence shows of leaders: nobody's metadata were seen to advance.

    KIP-343: what a broker shows that is cut off from the controllers may be arbitrarily old. None: they did advance.
    """
    around = index_of(evidence.cluster, policy, broker_objection)
    if around.counts.controller_present is False or around.counts.view_advances is False:
        return cluster_objection(around, policy.limits)
    committed, as_of = evidence.cluster.committed, evidence.cluster.as_of
    is_behind = committed is not None and (as_of is None or as_of < committed)
    if around.counts.controller_present is None or (around.counts.view_advances is None and is_behind):
        read = (
            f"leaders were read from broker {evidence.cluster.view_from}, and it was not to be seen that its metadata"
        )
        return Reason(
            "MetadataAgeUnknown", f"{read} advance: what they show may be old. {_to_see_their_age(committed)}"
        )
    return None


def _to_see_their_age(committed: MetadataOffset | None) -> str:
    if committed is not None:
        return "Run again."
    return (
        "The controller did not tell what it has committed either. Run again; if that does not help, grant DESCRIBE on "
        "the cluster, which DescribeQuorum needs."
    )


def _judged(
    decision: Decision,
    planned: Before,
    partition: PartitionEvidence,
    around: ClusterIndex,
    obstacle: Reason | None,
) -> Reason | None:
    """What stands against a decision on a partition that is, by the controller, as it was."""
    standing = judge(partition, around, obstacle, PATIENCE_OVER)
    return (
        _still_elects(decision, standing)
        or _clean_member_is_back(planned, partition, around.back)
        or _last_known_leader_is_back(planned, partition, around.back)
        or _same_incarnation(decision, planned, around)
        or _same_log(decision, planned.partition, partition)
        or _still_best(decision, standing)
        or _loss_no_worse(decision, partition, around)
        or _present_order_elects(decision, planned, partition, around)
    )


def _another_driver(decision: Decision, planned: Before) -> Reason:
    """KIP-1275: a designated leader is elected or nobody is; by an order, the next may be. A plan is for one way."""
    ways = ("by the assignment order", "by a request that names its leader")
    message = (
        f"{decision.id} was planned to be elected {ways[planned.by_request]}, and would now be elected "
        f"{ways[not planned.by_request]}; make a new plan"
    )
    return Reason("PlanOutdated", message)


def _gone(fresh: Evidence, decision: Decision) -> Reason:
    missing = next((missing.reason for missing in fresh.missing if missing.id == decision.id), None)
    why = f": {missing.message}" if missing else "; no answer told of it"
    message = f"{decision.id} is not to be seen any more{why}"
    if missing is None:
        return Reason("AnswerIncomplete", message)
    return Reason("PartitionGone", message) if missing.code in GONE else replace(missing, message=message)


def _same_topic(decision: Decision, planned: Before, seen: PartitionEvidence, designated: bool) -> Reason | None:
    """KIP-516: a topic of the same name and another id is another topic."""
    if seen.topic_id != decision.topic_id:
        return Reason(
            "PlanOutdated",
            f"topic {decision.id.topic} was deleted and created again: planned with id {decision.topic_id}, "
            f"now {seen.topic_id}.",
        )


def _no_leader(decision: Decision, planned: Before, seen: PartitionEvidence, designated: bool) -> Reason | None:
    """What has a leader is left alone, and an election already held is not repeated."""
    leader = seen.leader
    if leader is None:
        return None
    epochs = f"epoch {seen.leader_epoch}, planned at {decision.leader_epoch}"
    if leader in planned.partition.clean_members:
        return Reason("AlreadyOnline", f"broker {leader}, an ISR or ELR member, leads {decision.id} again ({epochs}).")
    if leader == decision.leader:
        return Reason("AlreadyOnline", f"broker {leader}, the planned leader, leads {decision.id} already ({epochs}).")
    return Reason(
        "UnexpectedLeader",
        f"broker {leader} leads {decision.id} ({epochs}); planned was {decision.leader}. Somebody else elected it.",
    )


def _same_epoch(decision: Decision, planned: Before, seen: PartitionEvidence, designated: bool) -> Reason | None:
    """Any newer epoch means that leadership changed since: what was measured no longer holds (KIP-101)."""
    if seen.leader_epoch != decision.leader_epoch:
        return Reason(
            "PlanOutdated", f"{decision.id} is at leader epoch {seen.leader_epoch}, planned at {decision.leader_epoch}."
        )


def _same_assignment(decision: Decision, planned: Before, seen: PartitionEvidence, designated: bool) -> Reason | None:
    """Kafka has no compare-and-set for assignments, and an unclean election takes the first of the order it finds."""
    expected = decision.order if designated else decision.assignment
    if seen.assignment != expected:
        return Reason(
            "PlanOutdated",
            f"{decision.id} is assigned to {_listed(seen.assignment)}, expected {_listed(expected)}: "
            "somebody else changed it.",
        )


Difference = Callable[[Decision, Before, PartitionEvidence, bool], Reason | None]
SAME: tuple[Difference, ...] = (_same_topic, _no_leader, _same_epoch, _same_assignment)


def _still_elects(decision: Decision, standing: Standing) -> Reason | None:
    """All guards hold now, for the partition and for the planned leader, under the rule it was planned by."""
    rule = standing.rule
    rejected = next((r.reason for r in standing.ranking.rejections if r.broker == decision.leader), None)
    if rejected is not None:
        return rejected
    if standing.verdict is not Verdict.ELECT:
        return standing.reason
    if (rule.name, rule.candidate_order) != (decision.rule, decision.candidate_order):
        return Reason(
            "PlanOutdated",
            f"{decision.id} now falls under rule {rule.name} ({rule.candidate_order}), planned under {decision.rule} "
            f"({decision.candidate_order}).",
        )


def _clean_member_is_back(planned: Before, seen: PartitionEvidence, there: frozenset[BrokerId]) -> Reason | None:
    """Kafka elects a member that is back by itself: one that came back since the plan was made gets its patience."""
    returned = sorted((seen.clean_members & there) - planned.back)
    if returned:
        return Reason(
            "ElectableBrokerReturning",
            f"broker {returned[0]}, an ISR or ELR member of {seen.id}, was away when the plan was made and is back "
            f"now: the controller may elect it by itself, whatever its disk holds; {if_intact(seen, returned[0])}.",
        )


def _last_known_leader_is_back(planned: Before, seen: PartitionEvidence, there: frozenset[BrokerId]) -> Reason | None:
    """The same of whom Kafka elects by itself though ISR and ELR are empty (KIP-966)."""
    leader = seen.last_known_leader
    if leader is not None and leader in there - planned.back:
        return Reason(
            "ElectableBrokerReturning",
            f"broker {leader}, the last known leader of {seen.id}, was away when the plan was made and is back now: "
            "the controller elects it by itself once it is unfenced, whatever its disk holds; "
            f"{if_intact(seen, leader)}.",
        )


def _same_incarnation(decision: Decision, planned: Before, around: ClusterIndex) -> Reason | None:
    """KIP-903: a broker that registered anew may have lost what it had, whatever its log end is now."""
    if decision.leader is None or decision.leader not in planned.epochs:
        return None
    before, seen = planned.epochs[decision.leader], around.brokers.get(decision.leader)
    now = None if seen is None else seen.epoch
    if now == before:
        return None
    log = f"its log of {decision.id} was measured under {before}"
    if now is None:
        told = f"broker {decision.leader} does not tell its broker epoch any more, and {log}: it may be restarted since"
    else:
        told = f"broker {decision.leader} was restarted: it has broker epoch {now}, and {log}"
    return Reason("PlanOutdated", f"{told}. That measurement is void: make a new plan.")


def _same_log(decision: Decision, planned: PartitionEvidence, seen: PartitionEvidence) -> Reason | None:
    """The leader's log is what was planned with; without a leader nobody may have written to it."""
    before, now = planned.replica(decision.leader), seen.replica(decision.leader)
    if before is None or now is None or before.log is None or now.log is None:
        return Reason(
            "PlanOutdated", f"broker {decision.leader}'s log of {decision.id} is not to be compared any more."
        )
    if (before.log.end, before.log.epochs) != (now.log.end, now.log.epochs):
        return Reason(
            "PlanOutdated",
            f"broker {decision.leader}'s log of {decision.id} ends at {now.log.end} with last epoch "
            f"{now.log.last_epoch}, planned at {before.log.end} with {before.log.last_epoch}.",
        )


def _still_best(decision: Decision, standing: Standing) -> Reason | None:
    """No better candidate has appeared, unless a person named this leader."""
    named_by_a_person = decision.leader not in decision.equals
    if named_by_a_person or decision.leader in standing.ranking.equals:
        return None
    best = standing.ranking.best_first[0]
    return Reason(
        "PlanOutdated",
        f"broker {best} is now better than broker {decision.leader} for {decision.id} by {decision.candidate_order}: "
        f"planned ranking {_listed(decision.ranking)}, now {_listed(standing.ranking.best_first)}.",
    )


def _present_order_elects(
    decision: Decision, planned: Before, seen: PartitionEvidence, around: ClusterIndex
) -> Reason | None:
    """An order that was left as it stands elects the leader only as long as nobody before it can be elected."""
    if planned.by_request or decision.order != decision.assignment or decision.leader is None:
        return None
    if elects(decision.leader, seen.assignment, passed_over(around.cluster, around.brokers, seen)):
        return None
    return Reason(
        "PlanOutdated",
        f"the assignment {_listed(seen.assignment)} of {decision.id} was left as it stands, and a replica before "
        f"broker {decision.leader} could be elected by now.",
    )


def _loss_no_worse(decision: Decision, seen: PartitionEvidence, around: ClusterIndex) -> Reason | None:
    """Whoever approved the plan approved this loss and no more, broker by broker."""
    planned, leader = decision.loss, seen.replica(decision.leader)
    if planned is None or leader is None:
        return None
    now = classify(seen, leader, around.cluster)
    if severity(now) <= severity(planned) and now.at_least <= planned.at_least and not takes_more(now, planned):
        return None
    return Reason(
        "PlanOutdated",
        f"electing broker {decision.leader} for {decision.id} costs {_told(now)}, planned {_told(planned)}.",
    )


def _told(loss: Loss) -> str:
    each = ", ".join(f"{lack.records} records of broker {lack.broker}" for lack in loss.lacks) or "no records of others"
    most = f"at most {loss.at_most}, " if loss.at_most else ""
    return f"{loss.loss_class} ({most}at least {loss.at_least}, visibly lacking {each})"


def _listed(brokers: tuple[BrokerId, ...]) -> str:
    return ", ".join(map(str, brokers)) or "none"
