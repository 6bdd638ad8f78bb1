"""What must hold before a replica may lead: chains of named functions.

A guard returns its Reason, or nothing; the first one that objects is what a person is told. A new guard is one
function, one line in a chain and one test. Guards about a partition as a whole stand in `refusals`.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_recovery.decision.order import FACTS, ORDERS
from kafka_recovery.domain.evidence import Broker, PartitionEvidence, Replica
from kafka_recovery.domain.policy import CandidateOrder, Rule
from kafka_recovery.domain.reason import Reason

LOG_DIR_OFFLINE = "LogDirOffline"
"""The problem code under which a gather reports a replica whose log directory failed."""

FIRST_FACT = {order: FACTS[keys[0].fact] for order, keys in ORDERS.items()}


# Brokers: judged once each, whatever the number of their replicas.


def registered(broker: Broker) -> Reason | None:
    """KIP-841: only a registered broker may lead; the controller passes over the others."""
    if broker.registered:
        return None
    if broker.registered is None:
        return Reason(
            "NotListed",
            f"the controller does not list broker {broker.id}; this release lists unfenced brokers only, so it is "
            "fenced or removed. It becomes a candidate once it is listed: check that it runs and sees the controllers.",
        )
    return Reason(
        "NotRegistered",
        f"broker {broker.id} is not registered with the controller, so it can't be elected. "
        "Start it if it still exists; if it is gone for good, the partition can only be led by another replica.",
    )


def not_fenced(broker: Broker) -> Reason | None:
    """KIP-841: a fenced replica may not lead or join the ISR; the controller would pass over it."""
    if broker.fenced:
        seen = "though it answers us" if broker.reachable else "and does not answer us either"
        return Reason(
            "Fenced",
            f"broker {broker.id} is fenced by the controller, {seen}: its heartbeats do not arrive. "
            "It becomes a candidate once it is unfenced: check that it runs and reaches the controllers.",
        )


def not_stopping(broker: Broker) -> Reason | None:
    """KIP-841: a broker in controlled shutdown may not lead; it would hand the partition back at once."""
    if broker.stopping:
        return Reason(
            "Stopping",
            f"broker {broker.id} is in controlled shutdown and would give up leadership at once. "
            "Let it come back, or stop the shutdown.",
        )


def reachable(broker: Broker) -> Reason | None:
    """Never elect from silence; a dead broker that is not fenced yet would be elected and lead nothing."""
    if not broker.reachable:
        why = broker.problem.message if broker.problem else "it answered nothing"
        where = f" at {broker.host}:{broker.port}" if broker.host else ""
        return Reason(
            "Unreachable",
            f"broker {broker.id}{where} did not answer us ({why}), though the controller counts it as alive. A broker "
            "in log recovery does not open its port yet: wait for it, or check the network between it and here.",
        )


def metadata_advances(broker: Broker) -> Reason | None:
    """KIP-343: a broker cut off from the controller goes on with stale metadata; in KRaft it does not fence itself."""
    if broker.reachable and broker.metadata_advances is None:
        return Reason(
            "MetadataUnknown",
            f"broker {broker.id} did not say a second time how far its metadata is, so it may just have stopped or be "
            "cut off from the controllers. Look again.",
        )
    if broker.metadata_advances is False:
        return Reason(
            "CutOff",
            f"broker {broker.id} has stood still at metadata offset {broker.metadata_offset}: it is cut off from the "
            "controllers and would not learn that it leads. Check its network to the controllers.",
        )


BrokerGuard = Callable[[Broker], Reason | None]
BROKER_GUARDS: tuple[BrokerGuard, ...] = (registered, not_fenced, not_stopping, reachable, metadata_advances)


def broker_rejection(broker: Broker) -> Reason | None:
    """The first guard this broker fails, or None."""
    return next((reason for guard in BROKER_GUARDS if (reason := guard(broker))), None)


# Replicas: what one broker said about one copy.


def log_dir_online(replica: Replica, partition: PartitionEvidence, rule: Rule) -> Reason | None:
    """KIP-858: a replica in a failed log directory may not lead."""
    if replica.problem is not None and replica.problem.code == LOG_DIR_OFFLINE:
        return replica.problem


def answered(replica: Replica, partition: PartitionEvidence, rule: Rule) -> Reason | None:
    """Never elect from silence: a replica that did not answer is unknown, not empty."""
    if replica.log is None:
        return replica.problem or Reason(
            "NotMeasured",
            f"broker {replica.broker} said nothing about its log of {partition.id}, so what it holds is unknown. "
            "Look again; if it stays silent, check the operator's DESCRIBE permission on the topic.",
        )


def promised(replica: Replica, partition: PartitionEvidence, rule: Rule) -> Reason | None:
    """KIP-101: a replica that has not seen the current epoch may follow an older leader, and its log may change."""
    log = replica.log
    if log is not None and log.answered_under != partition.leader_epoch:
        under = "no leader epoch" if log.answered_under is None else f"leader epoch {log.answered_under}"
        return Reason(
            "NotPromised",
            f"broker {replica.broker} answered under {under}, the controller's is {partition.leader_epoch}: it may "
            "still follow an older leader, so its log may change. Look again in a moment; if it stays so, check that "
            "the broker reaches the controllers.",
        )


def ranks_by_known_facts(replica: Replica, partition: PartitionEvidence, rule: Rule) -> Reason | None:
    """The first key of the candidate order must be known: a guess must not decide who leads."""
    log = replica.log
    # nothing but the vector can be unknown: asking that first is quicker
    if log is not None and log.epochs is None and FIRST_FACT[rule.candidate_order](log, 0) is None:
        problem = f" ({replica.problem.message})" if replica.problem else ""
        return Reason(
            "EpochUnknown",
            f"broker {replica.broker}'s leader-epoch vector of {partition.id} could not be read{problem}, and "
            f"{rule.candidate_order} ranks by it. Grant the operator's principal READ on topic {partition.id.topic} "
            f"or, if time was short, raise evidence.deadline of rule {rule.name}; or let it rank by candidateOrder: "
            f"{CandidateOrder.LONGEST_LOG}.",
        )


ReplicaGuard = Callable[[Replica, PartitionEvidence, Rule], Reason | None]
REPLICA_GUARDS: tuple[ReplicaGuard, ...] = (log_dir_online, answered, promised, ranks_by_known_facts)
