"""Leaders of a plan beside which a better one may be had: what speaks against them, or seems to, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from kafka_recovery.decision.alike import named
from kafka_recovery.decision.attesting import attested_lost
from kafka_recovery.decision.better_proofs import better_proofs, is_named_badly
from kafka_recovery.decision.costs import is_empty, records
from kafka_recovery.decision.returns import named_brokers
from kafka_recovery.domain.evidence import PartitionEvidence, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.domain.plan import Decision, Plan

Elections = Sequence[tuple[Decision, PartitionEvidence]]
_NAMED = 4
"""So many pairs of logs are told of."""


class Against(Enum):
    """What speaks against the leaders of a plan: of several things the first."""

    NAMED = "somebody named one that is worse than another"
    EMPTY = "one holds no record"
    BETTER_PROOF = "of another one more is proven"


def against(plan: Plan) -> Against | None:
    """What decides what is to be done in place of approving it; None: nothing does."""
    elections, cluster = elections_of(plan), plan.evidence.cluster
    if any(is_named_badly(*election, cluster) for election in elections):
        return Against.NAMED
    if any(_is_empty_leader(*election) for election in elections):
        return Against.EMPTY
    return Against.BETTER_PROOF if any(better_proofs(plan)) else None


def elections_of(plan: Plan) -> Elections:
    """Those that it elects, each with its partition."""
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    return [(decision, seen[id]) for id, decision in plan.elections.items()]


def bad_leaders(plan: Plan, *, over: bool = False) -> Iterator[str]:
    """Leaders beside which a better one may be had. `over`: what is, without what to do about it."""
    elections = elections_of(plan)
    yield from _empty_leaders(elections, attested_lost(plan.evidence.cluster), over=over)
    cluster = plan.evidence.cluster
    by_hand = [decision for decision, partition in elections if is_named_badly(decision, partition, cluster)]
    for leader in sorted({decision.leader for decision in by_hand if decision.leader is not None}):
        named_by_hand = [decision for decision in by_hand if decision.leader == leader]
        yield f"{'' if over else _stopped(named_by_hand)}{_named_by_hand(leader, named_by_hand)}"
    for ids, more in () if over else better_proofs(plan):
        yield f"{_stopped([plan.elections[id] for id in ids])}{more}"


def longer_but_older(plan: Plan) -> Iterator[str]:
    """Why a shorter log is chosen, where whoever reads two lengths would choose the longer one."""
    found: dict[tuple[BrokerId, BrokerId, LeaderEpoch | None, LeaderEpoch | None], list[TopicPartition]] = {}
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    for id, decision in plan.elections.items():
        leader = next(replica for replica in seen[id].replicas if replica.broker == decision.leader)
        for other in seen[id].replicas:
            if leader.log and other.log and _is_longer_but_older(other.log, leader.log):
                alike = (other.broker, leader.broker, other.log.last_epoch, leader.log.last_epoch)
                found.setdefault(alike, []).append(id)
    for (longer, chosen, older, newer), ids in list(found.items())[:_NAMED]:
        yield (
            f"On {named(ids)} the log of broker {longer} is longer than that of broker {chosen}, but older: it ends in "
            f"leader epoch {older}, the other in {newer}."
        )


def _is_longer_but_older(log: ReplicaLog, leader: ReplicaLog) -> bool:
    if log.last_epoch is None or leader.last_epoch is None:
        return False
    return log.end > leader.end and log.last_epoch < leader.last_epoch


def _stopped(decisions: Sequence[Decision]) -> str:
    """What comes before the reason why these elections are not to be held yet."""
    return "DO NOT APPROVE. " if all(each.needs_approval for each in decisions) else "STOP THIS PLAN. "


def _named_by_hand(leader: BrokerId, decisions: Sequence[Decision]) -> str:
    """What a person gives up who named a leader that the candidate order would not have chosen."""
    better = named_brokers(sorted({decision.ranking[0] for decision in decisions}), "or")
    lacking = [
        lack.records
        for each in decisions
        for lack in (each.loss.lacks if each.loss else ())
        if lack.broker == each.ranking[0]
    ]
    lost = f", and holds {records(sum(lacking))} that broker {leader} lacks" if lacking else ""
    return (
        f"Broker {leader} was named (designatedLeader or rankingRef) as leader of "
        f"{named([each.id for each in decisions])}: by {decisions[0].candidate_order} {better} is better{lost}. See "
        f"whether a plan that does not name broker {leader} elects {better} (operator: refuse this recovery, then "
        "apply another one; none opens by itself)."
    )


def _empty_leaders(elections: Elections, lost: frozenset[BrokerId], *, over: bool) -> Iterator[str]:
    """Whoever reads `log end 0` at night may not see what it means."""
    empty: dict[BrokerId, list[tuple[Decision, PartitionEvidence]]] = {}
    for decision, partition in elections:
        if decision.leader is not None and _is_empty_leader(decision, partition):
            empty.setdefault(decision.leader, []).append((decision, partition))
    for leader, found in sorted(empty.items()):
        held = f"Broker {leader} is EMPTY: it holds no record of {named([each.id for each, _ in found])}{_aged(found)}"
        deleted = "Once it leads, the others delete ALL they hold there."
        others = sorted(frozenset().union(*(_may_hold_records(each) for _, each in found)) - lost)
        if over or not others:
            yield f"{held}. {deleted}"
            continue
        first = f"See first if {named_brokers(others, 'or')} can start with its own disk."
        yield f"{_stopped([each for each, _ in found])}{held}. {deleted} {first}"


def _aged(empty: Elections) -> str:
    """A log that ends beyond 0 held records once: then the other copies may be as empty as this one."""
    ends = {decision.log_end for decision, _ in empty if decision.log_end}
    if not ends:
        return ""
    some = "" if all(decision.log_end for decision, _ in empty) else "on some "
    return f" ({some}log end {min(ends)}{'' if len(ends) == 1 else ' or more'}: retention may be why)"


def _is_empty_leader(decision: Decision, partition: PartitionEvidence) -> bool:
    leader = partition.replica(decision.leader)
    return leader is not None and is_empty(leader.log)


def _may_hold_records(partition: PartitionEvidence) -> frozenset[BrokerId]:
    return frozenset(replica.broker for replica in partition.replicas if not is_empty(replica.log))
