"""What must hold before a replica may lead: chains of guards.

Each says in its decorator when it objects, as data that every engine reads (see `conditions`), and in its body what a
person is told. Guards about a partition as a whole stand in `refusals`.
"""

from __future__ import annotations

from kafka_recovery.decision.chains import Told, objects
from kafka_recovery.decision.conditions import All, Either, Holds, Not, Same, Unknown, Value
from kafka_recovery.decision.order import FACTS, ORDERS
from kafka_recovery.domain.evidence import Broker, PartitionEvidence, Replica
from kafka_recovery.domain.policy import CandidateOrder, Rule

LOG_DIR_OFFLINE = "LogDirOffline"
"""The problem code under which a gather reports a replica whose log directory failed."""

# Brokers: judged once each, whatever the number of their replicas.


@objects("NotRegistered", when=Unknown("broker.registered"))
def listed(broker: Broker) -> str:
    """Before Kafka 4.0 a client sees unfenced brokers only: who is not seen is fenced or gone."""
    return (
        f"the controller does not list broker {broker.id}; this release lists unfenced brokers only, so it is "
        "fenced or removed. It can't lead before it is listed: see whether it runs and sees the controllers."
    )


@objects("NotRegistered", when=Not(Holds("broker.registered")))
def registered(broker: Broker) -> str:
    """KIP-841: only a registered broker may lead; the controller passes over the others."""
    return (
        f"broker {broker.id} is not registered with the controller, so it can't be elected. "
        "If its disk is gone for good, the partition can only be led by another replica."
    )


@objects("Fenced", when=Holds("broker.fenced"))
def not_fenced(broker: Broker) -> str:
    """KIP-841: a fenced replica may not lead or join the ISR; the controller would pass over it."""
    seen = "though it answers here" if broker.reachable else "and does not answer here either"
    return (
        f"broker {broker.id} is fenced by the controller, {seen}: its heartbeats do not arrive. "
        "It can't lead before it is unfenced: see whether it runs and reaches the controllers."
    )


@objects("BrokerStopping", when=Holds("broker.stopping"))
def not_stopping(broker: Broker) -> str:
    """KIP-841: a broker in controlled shutdown may not lead; it would hand the partition back at once."""
    return (
        f"broker {broker.id} is in controlled shutdown and would give up leadership at once. "
        "Let it come back, or stop the shutdown."
    )


@objects("BrokerUnreachable", when=Not(Holds("broker.reachable")))
def reachable(broker: Broker) -> str:
    """Never elect from silence; a dead broker that is not fenced yet would be elected and lead nothing."""
    why = broker.problem.message if broker.problem else "it answered nothing"
    where = f" at {broker.host}:{broker.port}" if broker.host else ""
    return (
        f"broker {broker.id}{where} did not answer here ({why}), though the controller counts it as alive. A broker "
        "in log recovery does not open its port yet: wait for it, or check the network between it and here."
    )


@objects("MetadataAgeUnknown", when=All(Holds("broker.reachable"), Unknown("broker.metadata_advances")))
def asked_twice(broker: Broker) -> str:
    """A broker that fell silent while it was looked at may be cut off as well as not."""
    return (
        f"broker {broker.id} did not say a second time how far its metadata is, so it may just have stopped or be "
        "cut off from the controllers. Look again."
    )


@objects("BrokerCutOff", when=Same("broker.metadata_advances", Value(False)))
def metadata_advances(broker: Broker) -> str:
    """KIP-343: a broker cut off from the controller goes on with stale metadata; in KRaft it does not fence itself."""
    return (
        f"broker {broker.id} was at metadata offset {broker.metadata_offset} and did not catch up with the "
        "controller: it is cut off from the controllers, or very late, and would not learn in time that it leads. "
        "Check its network to the controllers."
    )


BROKER_GUARDS = (listed, registered, not_fenced, not_stopping, reachable, asked_twice, metadata_advances)


# Replicas: what one broker said about one copy.


@objects(LOG_DIR_OFFLINE, when=Same("replica.problem.code", Value(LOG_DIR_OFFLINE)))
def log_dir_online(replica: Replica, partition: PartitionEvidence, rule: Rule) -> str:
    """KIP-858: a replica in a failed log directory may not lead."""
    return replica.problem.message if replica.problem else ""


@objects(Told("replica.problem.code", otherwise="AnswerIncomplete"), when=Unknown("replica.log"))
def answered(replica: Replica, partition: PartitionEvidence, rule: Rule) -> str:
    """Never elect from silence: a replica that did not answer is unknown, not empty."""
    if replica.problem is not None:
        return replica.problem.message
    return (
        f"broker {replica.broker} said nothing about its log of {partition.id}, so what it holds is unknown. "
        "Look again; if it stays silent, check the operator's DESCRIBE permission on the topic."
    )


MEASURED = Not(Unknown("replica.log"))


@objects("ReplicaOnOldEpoch", when=All(MEASURED, Not(Same("replica.log.answered_under", "partition.leader_epoch"))))
def promised(replica: Replica, partition: PartitionEvidence, rule: Rule) -> str:
    """KIP-101: a replica that has not seen the current epoch may follow an older leader, and its log may change."""
    epoch = replica.log.answered_under if replica.log else None
    under = "no leader epoch" if epoch is None else f"leader epoch {epoch}"
    return (
        f"broker {replica.broker} answered under {under}, the controller's is {partition.leader_epoch}: it may "
        "still follow an older leader, so its log may change. Look again in a moment; if it stays so, check that "
        "the broker reaches the controllers."
    )


FIRST_FACTS = {
    order: next(fact.read_from for key in keys if (fact := FACTS[key.fact]).subject == "log")
    for order, keys in ORDERS.items()
}
"""Of its log: what is proven of a candidate's cost may be nothing at all, and is then the same of all."""
FIRST_FACT_UNKNOWN = Either(
    *[
        All(Unknown(f"replica.{source}"), Same("rule.candidate_order", Value(order)))
        for order, source in FIRST_FACTS.items()
        if source is not None
    ]
)


@objects("EpochVectorUnreadable", when=All(MEASURED, FIRST_FACT_UNKNOWN))
def ranks_by_known_facts(replica: Replica, partition: PartitionEvidence, rule: Rule) -> str:
    """The first key about its log must be known: a guess must not decide who leads."""
    problem = f" ({replica.problem.message})" if replica.problem else ""
    return (
        f"broker {replica.broker}'s leader-epoch vector of {partition.id} could not be read{problem}, and "
        f"{rule.candidate_order} ranks by it. Grant the operator's principal READ on topic {partition.id.topic} "
        f"or, if time was short, raise evidence.deadline of rule {rule.name}; or let it rank by candidateOrder: "
        f"{CandidateOrder.LONGEST_LOG}."
    )


REPLICA_GUARDS = (log_dir_online, answered, promised, ranks_by_known_facts)
