"""Guards about a whole partition or the whole cluster: what must hold before any of its replicas is elected."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kafka_recovery.decision.chains import Guard, each_replica, objects
from kafka_recovery.decision.conditions import (
    BACK,
    REQUIRED,
    All,
    AnyIs,
    Before,
    Either,
    Holds,
    Less,
    Not,
    On,
    Same,
    Size,
    SomeReplica,
    Times,
    Unknown,
    Value,
)
from kafka_recovery.decision.guards import LOG_DIR_OFFLINE, promised, ranks_by_known_facts
from kafka_recovery.decision.returns import elected_by_kafka, if_intact
from kafka_recovery.domain.evidence import PartitionEvidence, Reassignment, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Limits, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason

if TYPE_CHECKING:
    from kafka_recovery.decision.cluster_index import ClusterIndex

# The cluster: judged once a plan; an objection refuses every partition.


@objects("NoActiveController", when=Same("counts.controller_present", Value(False)))
def controller_present(index: ClusterIndex, limits: Limits) -> str:
    """Without a controller brokers still answer, from stale metadata, and no election can be held."""
    asked = [b for b in index.brokers.values() if b.reachable and b.metadata_advances is not None]
    seen = ", ".join(f"broker {b.id} at {b.metadata_offset}" for b in sorted(asked, key=lambda b: b.id)[:5])
    return (
        f"the metadata of all {len(asked)} brokers that answered stands still ({seen}): there is no active "
        "controller, what they show may be stale, and nothing can be elected. Bring the controllers back first."
    )


@objects("BrokerCutOff", when=Same("counts.view_advances", Value(False)))
def view_advances(index: ClusterIndex, limits: Limits) -> str:
    """KIP-343: metadata from a broker that is cut off from the controller may be arbitrarily old."""
    view, committed = index.brokers[index.cluster.view_from], index.cluster.committed
    read = f"leaders, ISR and assignments were read from broker {view.id}, whose metadata"
    if committed is not None:
        return (
            f"{read} were at offset {view.metadata_offset} while the controller had committed {committed}: the "
            "controller is there, and the broker is late. Wait until it has caught up, or look through another broker."
        )
    return (
        f"{read} stands still at offset {view.metadata_offset}: it is cut off from the controller. Look again through "
        "another broker."
    )


@objects(
    "TooManyBrokersDown",
    when=Less(Times("limits.brokers_down_percent", "counts.brokers_known"), Times(Value(100), "counts.brokers_down")),
)
def enough_brokers_up(index: ClusterIndex, limits: Limits) -> str:
    """With many brokers down it is rather an outage of network, rack or controller, which ends without any loss."""
    down = sorted(id_ for id_ in index.brokers if id_ not in index.alive)
    named = ", ".join(str(id_) for id_ in down[:10]) + (" …" if len(down) > 10 else "")
    return (
        f"{len(down)} of {len(index.brokers)} brokers are fenced or not registered ({named}), more than "
        f"limits.brokersDownPercent: {limits.brokers_down_percent}. Start brokers first, each with its own, intact "
        "disk. Those whose disks are lost stay down until other brokers lead; if too few are left, raise the limit."
    )


CLUSTER_GUARDS = (controller_present, view_advances, enough_brokers_up)


# Partitions.


@objects("ReplicationFactorTooLow", when=Less(Size("partition.replicas"), "rule.min_replication_factor"))
def enough_replicas(partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
    """A single-replica partition in a rolling restart just waits: nobody else could know its records."""
    return (
        f"{partition.id} has {len(partition.replicas)} replicas, rule {rule.name} recovers from "
        f"minReplicationFactor: {rule.min_replication_factor} on. Start broker {_listed(partition.isr)} with its own, "
        "intact disk, or lower that."
    )


@objects("AnswerIncomplete", when=Not(Holds("partition.reassignment_known")))
def reassignment_known(partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
    """An election altering the assignment order would cancel a reassignment nobody told us of (KIP-455)."""
    return (
        f"the controller did not say whether {partition.id} is being reassigned. Look again; "
        "ListPartitionReassignments needs the DESCRIBE permission on the cluster."
    )


@objects("ReassignmentOngoing", when=Not(Unknown("partition.reassignment")))
def not_reassigned(partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
    """KIP-455: while a reassignment goes on the replica set is not settled, and altering it would cancel that."""
    ongoing = partition.reassignment or Reassignment((), ())
    return (
        f"{partition.id} is being reassigned (adding brokers {_listed(ongoing.adding)}, removing "
        f"{_listed(ongoing.removing)}). Let it end, or cancel it: kafka-reassign-partitions.sh --cancel."
    )


@objects("OldLeaderAnswers", when=Holds("replica.leads"))
def no_old_leader(replica: Replica, partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
    """KIP-343's self-fencing never came to KRaft: a leader the controller fenced goes on serving whom it can reach."""
    return (
        f"broker {replica.broker} still answers as leader of {partition.id}, though the controller shows none: "
        "it does not know that it was fenced, and clients may still write to it. Reconnect it to the controllers "
        "without a restart: as an ISR or ELR member it is elected again, with all that it holds. Only if "
        "that can't be done, stop it, KEEP its volume, copy its directory, and read the next plan. That is worse: what "
        "it alone holds is then in that copy only."
    )


@objects("EvidenceTooOld", when=Less("replica.log.observed_at", Before("cluster.observed_at", "rule.evidence.max_age")))
def fresh(replica: Replica, partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
    """An old measurement is no evidence: the log may have been truncated or written since."""
    now = index.cluster.observed_at
    measured = replica.log.observed_at if replica.log else now
    return (
        f"broker {replica.broker}'s log of {partition.id} was measured at {measured:%H:%M:%S}, "
        f"{_seconds(now - measured)} before the cluster was looked at; rule "
        f"{rule.name} allows evidence.maxAge: {_seconds(rule.evidence.max_age)}. Look again."
    )


@objects("LogDirOffline", when=All(Unknown("replica.log"), Same("replica.problem.code", Value(LOG_DIR_OFFLINE))))
def not_on_a_failed_disk(replica: Replica, partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
    """KIP-858: the broker lives and answers; what it can't read may be what no other replica has."""
    id, broker = partition.id, replica.broker
    why = replica.problem.message if replica.problem else "no reason known"
    empty = (
        "Never put an empty disk in its place before that: Kafka would elect the replica, and the others would delete "
        "every record that it lacks. "
        if broker in elected_by_kafka(partition)
        else ""
    )
    return (
        f"broker {broker} lives, but the log directory with its replica of {id} is offline ({why}): an acknowledged "
        "record may be only there. To go on: repair that disk with what is on it (mount, file system, permissions) "
        f"and restart broker {broker}. If the disk is lost for good, so is what it alone held: say so "
        f"(kafka-recovery --attest broker={broker}:disk-lost; kubectl kafka-recovery attest), or set "
        f"requiredAnswers: {RequiredAnswers.ANY}, to elect another replica; then replace the disk. {empty}"
    ).rstrip()


@objects("LiveReplicaUnmeasured", when=Unknown("replica.log"))
def not_silent(replica: Replica, partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
    """A broker that lives but stays silent may hold what no other replica does."""
    broker = index.brokers[replica.broker]
    problem = replica.problem or broker.problem
    evidence = rule.evidence
    why = problem.message if problem else "no reason known"
    unknown = sum(r.log is None for r in partition.replicas)
    min_isr = f"With min.insync.replicas {partition.min_isr.value} an" if partition.min_isr else "An"
    return (
        f"broker {replica.broker} counts as alive, but its log was not measured within {_seconds(evidence.deadline)} "
        f"({evidence.attempts} attempts; {why}). Without it {unknown} of {len(partition.replicas)} replicas are "
        f"unknown. {min_isr} acknowledged record may be only there. To go on: have broker {replica.broker} answer, "
        "with its own, intact disk; or stop it, KEEP its volume, and copy its directories: the controller then fences "
        f"it; or set requiredAnswers: {RequiredAnswers.ANY}."
    )


def comparable(
    guard: Guard[[Replica, PartitionEvidence, Rule]],
) -> Guard[[Replica, PartitionEvidence, Rule, ClusterIndex]]:
    """The same objection for the sake of the other replicas: an answer that can't be ranked may hide a better log."""

    def explain(replica: Replica, partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> str:
        return (
            f"{guard.explain(replica, partition, rule)} Until then it can't be compared with the others, and "
            f"requiredAnswers: {RequiredAnswers.ALL} lets nobody be elected over it."
        )

    return Guard(guard.code, guard.when, explain)


comparably_promised = comparable(promised)
comparably_ranked = comparable(ranks_by_known_facts)

PARTITION_GUARDS = (
    enough_replicas,
    reassignment_known,
    not_reassigned,
    each_replica(no_old_leader),
    each_replica(fresh),
    each_replica(
        not_on_a_failed_disk,
        not_silent,
        comparably_promised,
        comparably_ranked,
        when=Same("rule.evidence.required_answers", Value(RequiredAnswers.ALL)),
        among=On(REQUIRED),
    ),
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
        "PartitionLimitReached",
        f"{wanted} partitions could be elected, more than limits.partitions: {limit}; {wanted - limit} less urgent "
        f"ones, {partition} among them, are not in this plan. Recover the others and plan again, or raise the limit.",
    )


WORTH_WAITING = All(
    Less("waited", "rule.patience"),
    Not(SomeReplica(Holds("replica.leads"))),
)
"""Not while an old leader still answers as leader: it goes on writing alone, so nothing good is to be waited for."""


@objects(
    "ElectableBrokerReturning",
    when=All(
        Either(AnyIs("partition.isr", BACK), AnyIs("partition.elr", BACK)),
        WORTH_WAITING,
    ),
)
def clean_return(partition: PartitionEvidence, rule: Rule, index: ClusterIndex, waited: timedelta) -> str:
    """An ISR or ELR member that is back is elected by the controller itself (KIP-966), whatever is on its disk."""
    broker = min(partition.clean_members & index.back)
    where = "ISR" if broker in partition.isr else "ELR"
    seen = "is alive," if broker in index.alive else "answers again, though it is still fenced,"
    return (
        f"broker {broker} is in the {where} and {seen} so the controller will elect it by itself: "
        f"{if_intact(partition, broker)}. "
        "On an empty or replaced disk it would be elected as well: stop it then. "
        f"Waited {_seconds(waited)} of the {_seconds(rule.patience)} of patience rule {rule.name} allows."
    )


@objects(
    "ElectableBrokerReturning",
    when=All(
        Same(Size("partition.isr"), Value(0)),
        Either(Unknown("partition.elr"), Same(Size("partition.elr"), Value(0))),
        Same(Size("partition.last_known_elr"), Value(1)),
        AnyIs("partition.last_known_elr", BACK),
        WORTH_WAITING,
    ),
)
def last_known_leader_return(partition: PartitionEvidence, rule: Rule, index: ClusterIndex, waited: timedelta) -> str:
    """KIP-966: with nobody in ISR and ELR the controller elects the last known leader as soon as it is unfenced.

    Whoever else was designated: an unclean election looks for it before it looks at the assignment.
    """
    broker = partition.last_known_leader
    assert broker is not None, f"{partition.id} has members or no last known leader"
    seen = "is alive" if broker in index.alive else "answers again, though it is still fenced"
    return (
        f"nobody is left in ISR and ELR of {partition.id}, and broker {broker}, its last known leader, {seen}: the "
        "controller elects it by itself once it is unfenced, though it stopped uncleanly: "
        f"{if_intact(partition, broker)}. "
        "On an empty or replaced disk it would be elected as well: stop it then. "
        f"Waited {_seconds(waited)} of the {_seconds(rule.patience)} of patience rule {rule.name} allows."
    )


RETURN_GUARDS = (clean_return, last_known_leader_return)


def _kafka_elects_by_itself(partition: PartitionEvidence, index: ClusterIndex) -> str | None:
    """`unclean.leader.election.enable`: the controller takes the first living replica, whoever plans what."""
    if partition.unclean_election_enabled:
        return (
            "unclean.leader.election.enable is on for the topic: Kafka may elect any living replica before this plan "
            "is carried out"
        )


def _tiered(partition: PartitionEvidence, index: ClusterIndex) -> str | None:
    """KIP-405: what is in the remote tier is not seen here, and a leader without its metadata may not find it."""
    if partition.tiered:
        return (
            "the topic is tiered (remote.storage.enable): local logs were compared, the remote tier was not looked at. "
            "Beyond the new leader's log end nothing of the tier can be read any more, whatever it holds"
        )


def _old_leader_not_asked(partition: PartitionEvidence, index: ClusterIndex) -> str | None:
    """Before 4.0 DescribeCluster lists no fenced brokers: one that was never seen has no address to ask at."""
    unseen = tuple(sorted(broker for broker in partition.isr if broker not in index.brokers))
    if unseen:
        return (
            f"the address of broker {_listed(unseen)} in the ISR is not known (this release lists unfenced brokers "
            "only), so it could not be asked whether it still acts as leader: make sure that it is really down"
        )


def _configs_unread(partition: PartitionEvidence, index: ClusterIndex) -> str | None:
    """What they say may make Kafka elect by itself, or leave the elected leader without enough replicas to write to."""
    if partition.configs_problem:
        return (
            "min.insync.replicas, unclean.leader.election.enable and remote.storage.enable of the topic could not be "
            f"read: {partition.configs_problem.message}"
        )


_WARNINGS = (_configs_unread, _kafka_elects_by_itself, _tiered, _old_leader_not_asked)


def warnings(partition: PartitionEvidence, index: ClusterIndex) -> tuple[str, ...]:
    """What a person should know before this partition is elected, though it refuses nothing."""
    said: object = partition.unclean_election_enabled or partition.tiered or partition.configs_problem
    if not said and index.listed.issuperset(partition.isr):  # usual, and quick to see
        return ()
    return tuple(text for warning in _WARNINGS if (text := warning(partition, index)))


def _listed(brokers: tuple[BrokerId, ...]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g}s"


def order_cannot_be_set(partition: PartitionEvidence, leader: BrokerId, missing: tuple[BrokerId, ...]) -> Reason:
    """Neither the order that designates the leader nor the original one afterwards would be taken.

    A reassignment is taken, but ends only once there is a leader with enough of the new replicas in the ISR; until then
    its target stands first in the order.
    """
    message = (
        f"broker {leader} should lead {partition.id}, but the assignment {list(partition.assignment)} elects another "
        f"replica, and Kafka takes no other order while it names brokers that are not registered: {list(missing)}; "
        f"reassign {partition.id} to registered brokers, broker {leader} first (kafka-reassign-partitions.sh "
        f"--execute). That ends only once it has a leader: have Kafka elect broker {leader} from that order "
        "(kafka-leader-election.sh --election-type unclean)"
    )
    return Reason("OrderCannotBeSet", message)
