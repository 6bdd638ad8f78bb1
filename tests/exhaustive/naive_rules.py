"""docs/explanation/decision-rules.md a second time: flat and slow, and nothing of `decision/` in it.

What forbids an election and who is best is stated where the oracle of the histories has it; here is what that leaves
to say. An error would have to be made twice, in two ways, to stay unseen. Section numbers are those of that page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.evidence import Broker, ClusterState, Evidence, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import CandidateOrder, Policy, Rule
from kafka_recovery.simulator.histories.judging.naive_order import best_first_of
from kafka_recovery.simulator.histories.judging.naive_refusals import OBSTACLES, alive, with_a_lost_disk

Seen = Mapping[BrokerId, Broker]
OF_THE_CLUSTER = frozenset({"NoActiveController", "BrokerCutOff", "TooManyBrokersDown"})


@dataclass(frozen=True)
class Ruling:
    """What has to be decided. `reasons`: those that hold, of the cluster before those of the partition; one is told.

    `failed`: the first rule that each of the others failed. `best_first`: who may lead, should anybody.
    """

    verdict: str
    reasons: frozenset[str]
    best_first: tuple[BrokerId, ...]
    failed: Mapping[BrokerId, str]


def ruling(partition: PartitionEvidence, cluster: ClusterState, policy: Policy, waited: timedelta) -> Ruling:
    """Section 1: the first row of its table that is true."""
    rule = policy.rule_for(partition.id.topic)
    if partition.leader is not None:
        return Ruling("Nothing", frozenset(), (), {})
    if rule is None:
        return Ruling("Refuse", frozenset({"NoRule"}), (), {})
    brokers = {broker.id: broker for broker in cluster.brokers}
    failed = {r.broker: code for r in partition.replicas if (code := first_failure(r, partition, brokers, rule))}
    best_first = best_first_of(partition, cluster, rule.candidate_order)
    assert set(best_first) == set(partition.assignment) - set(failed), "who may lead is stated twice, and differs"
    without_hope = with_a_lost_disk(cluster)
    hoped_for = {id: broker for id, broker in brokers.items() if id not in without_hope}
    if somebody_clean_returns(partition, hoped_for) and waited < rule.patience:
        return Ruling("Wait", frozenset({"ElectableBrokerReturning"}), best_first, failed)
    if the_last_known_leader_returns(partition, hoped_for) and waited < rule.patience:
        return Ruling("Wait", frozenset({"ElectableBrokerReturning"}), best_first, failed)
    forbidding = {word for word, holds in OBSTACLES.items() if holds((partition, cluster, policy))}
    reasons = forbidding & OF_THE_CLUSTER or forbidding or (set() if best_first else {"NoCandidate"})
    return Ruling("Refuse" if reasons else "Elect", frozenset(reasons), best_first, failed)


def counts(said: Attestation, looked: Evidence) -> bool:
    """Section 7: in its time, of a broker that is dead, or that says itself of each leaderless copy: my disk failed."""
    its = [
        replica for partition in looked.partitions for replica in partition.replicas if replica.broker == said.broker
    ]
    if any(replica.log is not None or replica.leads for replica in its):
        return False
    if any(partition.leader == said.broker for partition in looked.partitions):
        return False
    if not said.at <= looked.cluster.observed_at <= said.expires:
        return False
    found = [broker for broker in looked.cluster.brokers if broker.id == said.broker]
    if not any(alive(broker) or broker.reachable for broker in found):
        return True
    leaderless = [partition.replica(said.broker) for partition in looked.partitions if partition.leader is None]
    copies = [replica for replica in leaderless if replica is not None]
    failed = [copy for copy in copies if copy.problem is not None and copy.problem.code == "LogDirOffline"]
    return len(failed) == len(copies) > 0


def with_a_named_leader(free: Ruling, partition: PartitionEvidence, named: BrokerId) -> Ruling:
    """A leader that a person or a ranking named beats the order, but no rule."""
    if free.verdict in ("Nothing", "Wait") or named in free.best_first:
        return free
    return replace(free, verdict="Refuse", reasons=free.reasons | {"DesignatedLeaderRejected"})


def somebody_clean_returns(partition: PartitionEvidence, brokers: Seen) -> bool:
    """An ISR or ELR member that is alive or answers again; not while an old leader goes on writing."""
    if any(replica.leads for replica in partition.replicas):
        return False
    members = [*partition.isr, *(partition.elr or ())]
    return any(id in brokers and (alive(brokers[id]) or brokers[id].reachable) for id in members)


def the_last_known_leader_returns(partition: PartitionEvidence, brokers: Seen) -> bool:
    """Nobody is in ISR or ELR, one broker is named as the last leader, and it is alive or answers again."""
    named = list(partition.last_known_elr or ())
    if partition.isr or partition.elr or len(named) != 1 or any(replica.leads for replica in partition.replicas):
        return False
    return named[0] in brokers and (alive(brokers[named[0]]) or brokers[named[0]].reachable)


def first_failure(replica: Replica, partition: PartitionEvidence, brokers: Seen, rule: Rule) -> str | None:
    """Section 3: the first rule that this replica fails, its broker's rules first."""
    broker, log = brokers.get(replica.broker), replica.log
    if broker is None or broker.registered is not True:
        return "NotRegistered"
    if broker.fenced:
        return "Fenced"
    if broker.stopping is True:
        return "BrokerStopping"
    if not broker.reachable:
        return "BrokerUnreachable"
    if broker.metadata_advances is not True:
        return "BrokerCutOff" if broker.metadata_advances is False else "MetadataAgeUnknown"
    if replica.problem is not None and replica.problem.code == "LogDirOffline":
        return "LogDirOffline"
    if log is None:
        return replica.problem.code if replica.problem is not None else "AnswerIncomplete"
    if log.answered_under != partition.leader_epoch:
        return "ReplicaOnOldEpoch"
    if rule.candidate_order is not CandidateOrder.LONGEST_LOG and log.epochs is None:
        return "EpochVectorUnreadable"
    return None


def fallbacks(leader: BrokerId, assignment: tuple[BrokerId, ...], best_first: tuple[BrokerId, ...]) -> list[BrokerId]:
    """The order that designates: the leader, the other candidates best first, the others as they were assigned."""
    others = [broker for broker in assignment if broker not in best_first]
    return [leader, *(broker for broker in best_first if broker != leader), *others]


def stands_already(
    leader: BrokerId,
    partition: PartitionEvidence,
    cluster: ClusterState,
    best_first: tuple[BrokerId, ...],
    equals: tuple[BrokerId, ...],
) -> bool:
    """Section 5: nobody that an election could take stands before the leader, and behind it the better come first."""
    brokers = {broker.id: broker for broker in cluster.brokers}
    members = {*partition.isr, *(partition.elr or ())}
    tells = not (cluster.release or "").startswith("3")

    def can_be_taken(id: BrokerId) -> bool:
        if id not in brokers:
            return not tells and id not in members
        return brokers[id].registered is not False and not (brokers[id].fenced and id in members)

    places = {id: 1 if id in equals else place for place, id in enumerate(best_first, 1)}
    first, *others = [*filter(can_be_taken, partition.assignment), leader]
    behind = [places.get(id, len(best_first) + 1) for id in others[:-1] if id != leader]
    return first == leader and behind == sorted(behind)
