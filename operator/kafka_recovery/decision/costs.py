"""What the elections of a plan may take from each broker, over all partitions: figures, and one line of words.

A record is lost for a broker when a leader that lacks it is elected: on joining, the broker truncates to the leader's
log (KIP-101). What was compared is an upper bound in offsets; what could not be read or compared is unknown, and is
never counted as nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kafka_recovery.decision.logs import contradict
from kafka_recovery.domain.evidence import PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision, Plan

_NAMED = 4
"""So many brokers are named in the line; the table has all of them."""
_ANY = BrokerId(-1)
_NOT_COMPARED = "its log can't be compared with the new leader's"


@dataclass(frozen=True, slots=True)
class BrokerCost:
    """What one broker may lose.

    `records`: at most so many, on `partitions` where its log and the new leader's were compared and differ.
    `unknown`: partitions where nobody knows how much, and `because` of what; of them `certain` offsets for certain.
    """

    broker: BrokerId
    records: int = 0
    partitions: int = 0
    unknown: int = 0
    certain: int = 0
    because: str = ""


def costs(plan: Plan) -> tuple[BrokerCost, ...]:
    """By broker, those first that may lose most; a broker that is not among them loses nothing."""
    sums = _Sums()
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    for id, decision in plan.elections.items():
        sums.add(decision, seen[id])
    found = map(sums.of, sums.brokers())
    return tuple(sorted(found, key=lambda cost: (-cost.records, -cost.unknown, cost.broker)))


class _Sums:
    """Counters by broker, for thousands of partitions."""

    def __init__(self) -> None:
        self._records: Counter[BrokerId] = Counter()
        self._partitions: Counter[BrokerId] = Counter()
        self._certain: Counter[BrokerId] = Counter()
        self._unknown: Counter[BrokerId] = Counter()
        self._because: dict[BrokerId, Counter[str]] = {}

    def add(self, decision: Decision, partition: PartitionEvidence) -> None:
        """One election."""
        lacking = {lack.broker: lack.records for lack in decision.loss.lacks} if decision.loss else {}
        leader = next(replica.log for replica in partition.replicas if replica.broker == decision.leader)
        for replica in partition.replicas:
            broker = replica.broker
            if broker == decision.leader:
                continue
            if why := why_unknown(replica, leader):
                self._unknown[broker] += 1
                self._certain[broker] += lacking.get(broker, 0)
                self._because.setdefault(broker, Counter())[why] += 1
            elif broker in lacking:
                self._records[broker] += lacking[broker]
                self._partitions[broker] += 1

    def brokers(self) -> set[BrokerId]:
        """Those that may lose anything."""
        return {*self._partitions, *self._unknown}

    def of(self, broker: BrokerId) -> BrokerCost:
        """All of them together."""
        because = "; ".join(why for why, _ in self._because.get(broker, Counter[str]()).most_common(2))
        return BrokerCost(
            broker,
            self._records[broker],
            self._partitions[broker],
            self._unknown[broker],
            self._certain[broker],
            because,
        )


def why_unknown(replica: Replica, leader: ReplicaLog | None) -> str:
    """Why nobody can tell what this replica loses; empty: it can be told."""
    if replica.log is None:
        return f"could not be read: {replica.problem.code if replica.problem else 'no answer'}"
    if leader is None:
        return f"{_NOT_COMPARED}, which could not be read"
    whose = [word for word, log in (("its own", replica.log), ("the new leader's", leader)) if log.epochs is None]
    if whose:
        return f"{_NOT_COMPARED}: {' and '.join(whose)} leader epochs are unknown, and it may be the newer one"
    if contradict(leader, replica.log):
        return f"{_NOT_COMPARED}: their leader epochs contradict each other"
    return ""


def is_empty(log: ReplicaLog | None) -> bool:
    """Whether it was read and holds no record."""
    return log is not None and log.end <= log.start


def may_hold_more(decision: Decision, partition: PartitionEvidence) -> frozenset[BrokerId]:
    """The brokers that answered, and whose copy holds what the new leader lacks, or may hold it."""
    lacking = {lack.broker for lack in decision.loss.lacks} if decision.loss else set()
    leader = next(replica.log for replica in partition.replicas if replica.broker == decision.leader)
    others = (replica for replica in partition.replicas if replica.log and replica.broker != decision.leader)
    return frozenset(each.broker for each in others if each.broker in lacking or why_unknown(each, leader))


def in_a_line(plan: Plan, found: Sequence[BrokerCost], *, proven_too: bool = True) -> str:
    """What the elections of a plan may lose, for whoever approves it. `proven_too`: where nothing acknowledged is."""
    elections = plan.elections
    if not elections:
        return "This plan elects nobody, so nothing is lost by it."
    proven = all(each.loss and each.loss.loss_class is LossClass.LOSSLESS for each in elections.values())
    witnessed = _witnessed(elections.values())
    if not found:
        told = "Electing as planned deletes no record that was read: every copy was, and no new leader lacks any of it."
        doubt = "" if proven else " Whether an acknowledged record is missing in all copies is not known."
        return f"{told}{witnessed}{doubt}"
    more = f"; {len(found) - _NAMED} more brokers" if len(found) > _NAMED else ""
    what = "; ".join(_each_told(found[:_NAMED])) + more
    if proven:
        return f"What may be lost was not acknowledged with acks=all: {what}.{witnessed}"
    some = sum(1 for each in elections.values() if each.loss and each.loss.loss_class is LossClass.LOSSLESS)
    but = (
        f" Where it is proven Lossless ({partitions(some)}), nothing of it was acknowledged with acks=all."
        if some and proven_too
        else ""
    )
    electing = "Acknowledged or not, electing" if _is_bounded(elections.values()) else "Electing"
    return f"{electing} as planned may lose {what}.{but}{witnessed}"


def _is_bounded(elections: Iterable[Decision]) -> bool:
    """Whether it is known how many acknowledged records are lost at most, so that nobody adds the others to them."""
    return all(each.loss is not None and each.loss.at_most is not None for each in elections)


def _witnessed(elections: Iterable[Decision]) -> str:
    """What others saw once and no new leader holds, whoever else may."""
    seen = [each.loss.at_least for each in elections if each.loss and each.loss.at_least]
    if not seen:
        return ""
    return f" On {partitions(len(seen))} {sum(seen):,} offsets that were seen once lie beyond the new leader's log."


def _each_told(found: Sequence[BrokerCost]) -> Iterator[str]:
    """Brokers that are alike once."""
    alike: dict[BrokerCost, list[BrokerId]] = {}
    for cost in found:
        alike.setdefault(replace(cost, broker=_ANY), []).append(cost.broker)
    for cost, (*others, last) in alike.items():
        whose = f"each of broker {', '.join(map(str, others))} and {last}" if others else f"broker {last}"
        yield " and ".join(_parts(cost, whose))


def _parts(cost: BrokerCost, whose: str) -> Iterator[str]:
    if cost.partitions:
        lacks = f"that {whose} holds and the new leader lacks, on {partitions(cost.partitions)}"
        yield f"up to {records(cost.records)} {lacks}"
        whose = "it"
    if cost.unknown:
        least = f", {cost.certain} offsets at least" if cost.certain else ""
        yield f"an unknown part of what {whose} holds on {partitions(cost.unknown)}{least} ({cost.because})"


def records(count: int) -> str:
    """So many records."""
    return f"{count:,} record{'' if count == 1 else 's'}"


def partitions(count: int) -> str:
    """So many partitions."""
    return f"{count:,} partition{'' if count == 1 else 's'}"
