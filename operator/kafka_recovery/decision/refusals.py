"""Guards about a whole partition or the whole cluster: what must hold before any of its replicas is elected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from kafka_recovery.decision.guards import promised, ranks_by_known_facts
from kafka_recovery.decision.scene import Scene
from kafka_recovery.domain.evidence import PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Limits, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason

# The cluster: judged once a plan; an objection refuses every partition.


def controller_present(scene: Scene, limits: Limits) -> Reason | None:
    """Without a controller brokers still answer, from stale metadata, and no election can be held."""
    asked = [b for b in scene.brokers.values() if b.reachable and b.metadata_advances is not None]
    if asked and not any(b.metadata_advances for b in asked):
        seen = ", ".join(f"broker {b.id} at {b.metadata_offset}" for b in sorted(asked, key=lambda b: b.id)[:5])
        return Reason(
            "NoController",
            f"the metadata of all {len(asked)} brokers that answered stands still ({seen}): there is no active "
            "controller, what they show may be stale, and nothing can be elected. Bring the controllers back first.",
        )


def view_advances(scene: Scene, limits: Limits) -> Reason | None:
    """KIP-343: metadata from a broker that is cut off from the controller may be arbitrarily old."""
    view = scene.brokers.get(scene.cluster.view_from)
    if view is not None and view.metadata_advances is False:
        return Reason(
            "ViewIsStale",
            f"leaders, ISR and assignments were read from broker {view.id}, whose metadata stands still at offset "
            f"{view.metadata_offset}: it is cut off from the controller. Look again through another broker.",
        )


def enough_brokers_up(scene: Scene, limits: Limits) -> Reason | None:
    """With many brokers down it is rather an outage of network, rack or controller, which ends without any loss."""
    known = len(scene.brokers)
    down = sorted(id_ for id_ in scene.brokers if id_ not in scene.alive)
    if down and 100 * len(down) > limits.brokers_down_percent * known:
        named = ", ".join(str(id_) for id_ in down[:10]) + (" …" if len(down) > 10 else "")
        return Reason(
            "TooManyBrokersDown",
            f"{len(down)} of {known} brokers are fenced or not registered ({named}), more than "
            f"limits.brokersDownPercent: {limits.brokers_down_percent}. Bring brokers back first; if they are lost for "
            "good, raise the limit.",
        )


ClusterGuard = Callable[[Scene, Limits], Reason | None]
CLUSTER_GUARDS: tuple[ClusterGuard, ...] = (controller_present, view_advances, enough_brokers_up)


def cluster_refusal(scene: Scene, limits: Limits) -> Reason | None:
    """The first guard the cluster as a whole fails, or None."""
    return next((reason for guard in CLUSTER_GUARDS if (reason := guard(scene, limits))), None)


# Partitions.


def enough_replicas(partition: PartitionEvidence, rule: Rule, scene: Scene) -> Reason | None:
    """A single-replica partition in a rolling restart just waits: nobody else could know its records."""
    if len(partition.replicas) < rule.min_replication_factor:
        return Reason(
            "ReplicationFactorTooLow",
            f"{partition.id} has {len(partition.replicas)} replicas, rule {rule.name} recovers from "
            f"minReplicationFactor: {rule.min_replication_factor} on. Bring broker {_listed(partition.isr)} back, or "
            "lower that.",
        )


def reassignment_known(partition: PartitionEvidence, rule: Rule, scene: Scene) -> Reason | None:
    """An election altering the assignment order would cancel a reassignment nobody told us of (KIP-455)."""
    if not partition.reassignment_known:
        return Reason(
            "ReassignmentUnknown",
            f"the controller did not say whether {partition.id} is being reassigned. Look again; "
            "ListPartitionReassignments needs the DESCRIBE permission on the cluster.",
        )


def not_reassigned(partition: PartitionEvidence, rule: Rule, scene: Scene) -> Reason | None:
    """KIP-455: while a reassignment goes on the replica set is not settled, and altering it would cancel that."""
    ongoing = partition.reassignment
    if ongoing is not None:
        return Reason(
            "ReassignmentOngoing",
            f"{partition.id} is being reassigned (adding brokers {_listed(ongoing.adding)}, removing "
            f"{_listed(ongoing.removing)}). Let it end, or cancel it: kafka-reassign-partitions.sh --cancel.",
        )


def no_old_leader(partition: PartitionEvidence, rule: Rule, scene: Scene) -> Reason | None:
    """KIP-343's self-fencing never came to KRaft: a leader the controller fenced goes on serving whom it can reach."""
    for replica in partition.replicas:
        if replica.leads:
            return Reason(
                "OldLeaderAnswers",
                f"broker {replica.broker} still answers as leader of {partition.id}, though the controller shows none: "
                "it does not know that it was fenced, and clients may still write to it. Reconnect it to the "
                "controllers, and it leads again without loss; or stop it for good, and plan again.",
            )


def fresh(partition: PartitionEvidence, rule: Rule, scene: Scene) -> Reason | None:
    """An old measurement is no evidence: the log may have been truncated or written since."""
    oldest = scene.cluster.observed_at - rule.evidence.max_age
    for replica in partition.replicas:
        log = replica.log
        if log is not None and log.observed_at < oldest:
            return Reason(
                "EvidenceTooOld",
                f"broker {replica.broker}'s log of {partition.id} was measured at {log.observed_at:%H:%M:%S}, "
                f"{_seconds(scene.cluster.observed_at - log.observed_at)} before the cluster was looked at; rule "
                f"{rule.name} allows evidence.maxAge: {_seconds(rule.evidence.max_age)}. Look again.",
            )


def required_answers(partition: PartitionEvidence, rule: Rule, scene: Scene) -> Reason | None:
    """A broker that lives but stays silent, or whose answer can't be ranked, may hold what no other replica does."""
    if rule.evidence.required_answers is not RequiredAnswers.ALL:
        return None
    for replica in partition.replicas:
        log = replica.log
        comparable = log is not None and log.answered_under == partition.leader_epoch and log.epochs is not None
        if comparable or replica.broker not in scene.alive:  # the first is what is usual, and quick to see
            continue
        if log is None:
            return _promised_missing(partition, replica, rule, scene)
        if useless := promised(replica, partition, rule) or ranks_by_known_facts(replica, partition, rule):
            return Reason(
                useless.code,
                f"{useless.message} Until then it can't be compared with the others, and requiredAnswers: "
                f"{RequiredAnswers.ALL} lets nobody be elected over it.",
            )


def _promised_missing(partition: PartitionEvidence, replica: Replica, rule: Rule, scene: Scene) -> Reason:
    broker = scene.brokers[replica.broker]
    problem = replica.problem or broker.problem
    evidence = rule.evidence
    why = problem.message if problem else "no reason known"
    unknown = sum(r.log is None for r in partition.replicas)
    min_isr = f"With min.insync.replicas {partition.min_isr.value} an" if partition.min_isr else "An"
    return Reason(
        "PromisedMissing",
        f"broker {replica.broker} counts as alive, but its log was not measured within {_seconds(evidence.deadline)} "
        f"({evidence.attempts} attempts; {why}). Without it {unknown} of {len(partition.replicas)} replicas are "
        f"unknown. {min_isr} acknowledged record may be only there. To go on: bring broker {replica.broker} back, stop "
        f"it for good so that the controller fences it, or set requiredAnswers: {RequiredAnswers.ANY}.",
    )


PartitionGuard = Callable[[PartitionEvidence, Rule, Scene], Reason | None]
PARTITION_GUARDS: tuple[PartitionGuard, ...] = (
    enough_replicas,
    reassignment_known,
    not_reassigned,
    no_old_leader,
    fresh,
    required_answers,
)


# Refusals and waits that need more than one partition's evidence.


def no_rule(topic: str) -> Reason:
    """A topic that no rule selects is observed only."""
    return Reason(
        "NoRule", f"no rule of the policy selects topic {topic}, so it is observed only. Add a rule that matches it."
    )


def beyond_limit(partition: TopicPartition, limit: int, wanted: int) -> Reason:
    """One plan elects so many partitions and no more; the most urgent ones come first."""
    return Reason(
        "PlanIsFull",
        f"{wanted} partitions could be elected, more than limits.partitions: {limit}; {wanted - limit} less urgent "
        f"ones, {partition} among them, are not in this plan. Recover the others and plan again, or raise the limit.",
    )


def clean_return(partition: PartitionEvidence, rule: Rule, scene: Scene, waited: timedelta) -> Reason | None:
    """A clean way out always wins: an ISR or ELR member that is back is elected by the controller itself (KIP-966).

    Not while an old leader still answers as leader: it would go on writing alone, so there is nothing good to wait for.
    """
    if waited >= rule.patience or any(replica.leads for replica in partition.replicas):
        return None
    for broker in sorted(partition.clean_members & scene.back):
        where = "ISR" if broker in partition.isr else "ELR"
        seen = "is alive," if broker in scene.alive else "answers again, though it is still fenced,"
        return Reason(
            "CleanMemberReturning",
            f"broker {broker} is in the {where} and {seen} so the controller will elect it without loss. "
            f"Waited {_seconds(waited)} of the {_seconds(rule.patience)} of patience rule {rule.name} allows.",
        )


def _last_known_leader(partition: PartitionEvidence, scene: Scene) -> str | None:
    """KAFKA-19522: 4.0 with ELR may elect the last known leader though it is fenced, not the designated replica."""
    last_known, cluster = partition.last_known_elr, scene.cluster
    if last_known and cluster.elr_enabled and (cluster.release or "").startswith("4.0"):
        return (
            f"Kafka {cluster.release} with ELR may elect the last known leader, broker {_listed(last_known)}, though "
            "it is fenced (KAFKA-19522); the result is verified, and 4.1 has the fix"
        )


def _kafka_elects_by_itself(partition: PartitionEvidence, scene: Scene) -> str | None:
    """`unclean.leader.election.enable`: the controller takes the first living replica, whoever plans what."""
    if partition.unclean_election_enabled:
        return (
            "unclean.leader.election.enable is on for the topic: Kafka may elect any living replica before this plan "
            "is carried out"
        )


def _tiered(partition: PartitionEvidence, scene: Scene) -> str | None:
    """KIP-405: what is in the remote tier is not seen here, and a leader without its metadata may not find it."""
    if partition.tiered:
        return "the topic has remote storage: only local logs were compared, what is in the remote tier was not"


def _old_leader_not_asked(partition: PartitionEvidence, scene: Scene) -> str | None:
    """Before 4.0 DescribeCluster lists no fenced brokers: one that was never seen has no address to ask at."""
    unseen = tuple(sorted(broker for broker in partition.isr if broker not in scene.brokers))
    if unseen:
        return (
            f"the address of broker {_listed(unseen)} in the ISR is not known (this release lists unfenced brokers "
            "only), so it could not be asked whether it still acts as leader: make sure that it is really down"
        )


_WARNINGS = (_last_known_leader, _kafka_elects_by_itself, _tiered, _old_leader_not_asked)


def warnings(partition: PartitionEvidence, scene: Scene) -> tuple[str, ...]:
    """What a person should know before this partition is elected, though it refuses nothing."""
    said = partition.last_known_elr or partition.unclean_election_enabled or partition.tiered
    if not said and all(map(scene.brokers.__contains__, partition.isr)):  # usual, and quick to see
        return ()
    return tuple(text for warning in _WARNINGS if (text := warning(partition, scene)))


def _listed(brokers: tuple[BrokerId, ...]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g}s"
