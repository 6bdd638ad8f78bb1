"""What forbids an election, worked out a second time, from section 2 of docs/explanation/decision-rules.md alone.

As in `naive_order`, nothing here is shared with `decision`. Each says in its name what it looks for; where several hold
at once, any of them is reason enough, so their order means nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_recovery.domain.evidence import Broker, ClusterState, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import CandidateOrder, Policy, RequiredAnswers, Rule

Seen = tuple[PartitionEvidence, ClusterState, Policy]


def no_controller(seen: Seen) -> bool:
    """Whether the controller told nothing, and no broker that was asked twice has news."""
    if seen[1].committed is not None:
        return False
    told = [broker.metadata_advances for broker in seen[1].brokers if broker.reachable]
    known = [advances for advances in told if advances is not None]
    return bool(known) and not any(known)


def stale_view(seen: Seen) -> bool:
    """Whether the broker that was asked about everything has no news."""
    view = seen[1].broker(seen[1].view_from)
    return view is not None and view.metadata_advances is False


def too_many_down(seen: Seen) -> bool:
    """Whether more brokers are fenced or gone than the policy allows."""
    _, cluster, policy = seen
    down = [broker for broker in cluster.brokers if not alive(broker)]
    return 100 * len(down) > policy.limits.brokers_down_percent * len(cluster.brokers)


def no_rule(seen: Seen) -> bool:
    """Whether no rule selects the topic."""
    return _rule(seen) is None


def too_few_replicas(seen: Seen) -> bool:
    """Whether the partition has fewer replicas than its rule wants."""
    rule = _rule(seen)
    return rule is not None and len(seen[0].replicas) < rule.min_replication_factor


def reassignment_unknown(seen: Seen) -> bool:
    """Whether nobody said if it is being reassigned."""
    return not seen[0].reassignment_known


def reassignment_ongoing(seen: Seen) -> bool:
    """Whether it is being reassigned."""
    return seen[0].reassignment is not None


def old_leader_answers(seen: Seen) -> bool:
    """Whether a broker still answers as its leader."""
    return any(replica.leads for replica in seen[0].replicas)


def evidence_too_old(seen: Seen) -> bool:
    """Whether a replica was measured longer ago than its rule allows."""
    rule, now = _rule(seen), seen[1].observed_at
    return rule is not None and any(
        replica.log is not None and now - replica.log.observed_at > rule.evidence.max_age
        for replica in seen[0].replicas
    )


def a_living_broker_has_a_dead_disk(seen: Seen) -> bool:
    """Whether every living broker has to answer, and one can't: the log directory is offline."""
    return any(replica.log is None and _disk_is_dead(replica) for replica in _required(seen))


def a_living_broker_is_silent(seen: Seen) -> bool:
    """Whether every living broker has to answer, and one did not, for whatever other reason."""
    return any(replica.log is None and not _disk_is_dead(replica) for replica in _required(seen))


def _disk_is_dead(replica: Replica) -> bool:
    return replica.problem is not None and replica.problem.code == "LogDirOffline"


def a_living_broker_promised_nothing(seen: Seen) -> bool:
    """Whether every living broker has to answer under the current epoch, and one did not."""
    return any(
        replica.log is not None and replica.log.answered_under != seen[0].leader_epoch for replica in _required(seen)
    )


def a_living_broker_can_not_be_ranked(seen: Seen) -> bool:
    """Whether every living broker's log has to be compared by its epochs, and one's are not known."""
    rule = _rule(seen)
    by_epoch = rule is not None and rule.candidate_order is not CandidateOrder.LONGEST_LOG
    return by_epoch and any(replica.log is not None and replica.log.epochs is None for replica in _required(seen))


OBSTACLES: dict[str, Callable[[Seen], bool]] = {
    "NoActiveController": no_controller,
    "BrokerCutOff": stale_view,
    "TooManyBrokersDown": too_many_down,
    "NoRule": no_rule,
    "ReplicationFactorTooLow": too_few_replicas,
    "AnswerIncomplete": reassignment_unknown,
    "ReassignmentOngoing": reassignment_ongoing,
    "OldLeaderAnswers": old_leader_answers,
    "EvidenceTooOld": evidence_too_old,
    "LogDirOffline": a_living_broker_has_a_dead_disk,
    "LiveReplicaUnmeasured": a_living_broker_is_silent,
    "ReplicaOnOldEpoch": a_living_broker_promised_nothing,
    "EpochVectorUnreadable": a_living_broker_can_not_be_ranked,
}
"""By the word that a refusal is told with."""


def forbidden(partition: PartitionEvidence, cluster: ClusterState, policy: Policy) -> str | None:
    """Why any election of this partition is forbidden by what was seen; None: nothing forbids it."""
    seen = partition, cluster, policy
    return next((word for word, holds in OBSTACLES.items() if holds(seen)), None)


def alive(broker: Broker) -> bool:
    """As the controller sees it."""
    return broker.registered is True and not broker.fenced


def with_a_lost_disk(cluster: ClusterState) -> set[BrokerId]:
    """The brokers of which a person said that nothing will come back, and nothing was seen that says otherwise."""
    return {each.broker for each in cluster.attestations if each.void is None}


def _rule(seen: Seen) -> Rule | None:
    return seen[2].rule_for(seen[0].id.topic)


def _required(seen: Seen) -> list[Replica]:
    """The replicas that have to answer: all of living brokers whose disk nobody attested lost, or none."""
    partition, cluster, _ = seen
    rule = _rule(seen)
    if rule is None or rule.evidence.required_answers is RequiredAnswers.ANY:
        return []
    asked = {broker.id for broker in cluster.brokers if alive(broker)} - with_a_lost_disk(cluster)
    return [replica for replica in partition.replicas if replica.broker in asked]
