"""Once leaders were elected: who leads what, which brokers may hold more than their leaders, and what to do next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafka_recovery.decision.alike import named
from kafka_recovery.decision.logs import contains
from kafka_recovery.decision.returns import after_an_election, away, listed_brokers
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, Offset, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan

Absent = Mapping[BrokerId, Sequence[TopicPartition]]
"""Brokers whose copies nobody could read, and the partitions that another one leads since."""


@dataclass(frozen=True, slots=True)
class LedAlike:
    """Partitions of one leader. `elected_at`: where its logs ended by the plan, the least and the greatest; None: no
    plan elected it. `writes`: whether enough replicas for acks=all were in sync when it was verified; None: not known.
    """

    ids: tuple[TopicPartition, ...]
    leader: BrokerId
    elected_at: tuple[Offset, Offset] | None
    writes: bool | None


def led_alike(plans: Sequence[Plan], outcomes: Mapping[TopicPartition, PartitionOutcome]) -> tuple[LedAlike, ...]:
    """Those of which there are most first; what has no leader that is known is left out."""
    groups: dict[tuple[BrokerId, bool, bool | None], dict[TopicPartition, Offset | None]] = {}
    for id, done in sorted(outcomes.items()):
        if done.leader is not None:
            ends = [each.log_end for plan in plans if (each := plan.elections.get(id)) and each.leader == done.leader]
            end = ends[-1] if ends else None
            group = (done.leader, end is None, _writes(done))
            groups.setdefault(group, {})[id] = end
    found = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0][0]))
    return tuple(LedAlike(tuple(ids), leader, _range(ids.values()), writes) for (leader, _, writes), ids in found)


def _range(ends: Iterable[Offset | None]) -> tuple[Offset, Offset] | None:
    known = [end for end in ends if end is not None]
    return (min(known), max(known)) if known else None


def _writes(done: PartitionOutcome) -> bool | None:
    """A minimum that nobody could read, and an ISR below it of a member that leads, are warnings of the outcome."""
    if done.outcome is Outcome.RECOVERED_UNDER_MIN_ISR:
        return False
    return True if done.outcome is Outcome.RECOVERED and not done.warnings else None


def absent(plans: Sequence[Plan], outcomes: Mapping[TopicPartition, PartitionOutcome]) -> Absent:
    """Those of the plans' evidence that another broker leads by their outcome, by broker."""
    found: dict[BrokerId, list[TopicPartition]] = {}
    for plan in plans:
        for partition in plan.evidence.partitions:
            done = outcomes.get(partition.id)
            for broker in away(partition) if done and done.leader is not None else ():
                if done and broker != done.leader and partition.id not in found.setdefault(broker, []):
                    found[broker].append(partition.id)
    return dict(sorted(found.items()))


def tiered(plans: Sequence[Plan], outcomes: Mapping[TopicPartition, PartitionOutcome]) -> Iterator[str]:
    """Which brokers may come back with a later log start: if they lead, Kafka deletes the remote tier below it."""
    found: dict[tuple[bool, tuple[BrokerId, ...]], list[TopicPartition]] = {}
    seen = {each.id: each for plan in plans for each in plan.evidence.partitions if each.leader is None}
    for id, partition in sorted(seen.items()):
        leader = done.leader if (done := outcomes.get(id)) else None
        if leader is not None and partition.may_be_tiered and (brokers := _truncated(partition, leader)):
            found.setdefault((bool(partition.tiered), brokers), []).append(id)
    for (certain, brokers), ids in found.items():
        yield _look_at_log_starts(brokers, ids, certain=certain)


def _truncated(partition: PartitionEvidence, leader: BrokerId) -> tuple[BrokerId, ...]:
    """Those that may hold what the leader lacks; the others truncate nothing when they follow it."""
    led = partition.replica(leader)
    chosen = led.log if led else None
    others = (replica for replica in partition.replicas if replica.broker != leader)
    return tuple(sorted(each.broker for each in others if not (chosen and each.log and contains(chosen, each.log))))


def _look_at_log_starts(brokers: tuple[BrokerId, ...], ids: Sequence[TopicPartition], *, certain: bool) -> str:
    which = "TIERED TOPIC" if certain else "IF THE TOPIC IS TIERED (its configs could not be read)"
    who, its = listed_brokers(brokers, "or"), "its log start is" if len(brokers) == 1 else "their log starts are"
    return (
        f"{which}: do not let {who} lead {named(ids)} before you know that {its} no later than the leader's (JMX: "
        "kafka.log:type=Log,name=LogStartOffset). Elected with a later one, a broker makes Kafka delete the remote "
        "tier below it. Kafka elects it when it is the first of the assignment and auto.leader.rebalance.enable is on, "
        "and when the leader fails: make another replica the first now (kafka-reassign-partitions.sh --execute). If "
        "its log start is later, take it out of the assignment and put it in again: it then begins where the leader "
        "does."
    )


def not_yet(brokers: Sequence[BrokerId], ids: Sequence[TopicPartition]) -> str:
    """Before any of these is started that may hold more."""
    told = listed_brokers(brokers, "or").upper()
    it, them = ("it", "IT") if len(brokers) == 1 else ("they", "THEM")
    return (
        f"DO NOT START {told} YET, NOR LET ANYTHING START {them}: {it} may hold records that the new leaders lack. "
        f"{after_an_election(brokers, ids)}"
    )


def not_yet_all(found: Absent) -> Iterator[str]:
    """Those of the same partitions at once."""
    alike: dict[tuple[TopicPartition, ...], list[BrokerId]] = {}
    for broker, ids in found.items():
        alike.setdefault(tuple(ids), []).append(broker)
    for its, brokers in alike.items():
        yield not_yet(brokers, its)


def to_do(found: Absent, led: Sequence[LedAlike]) -> tuple[str, ...]:
    """Step by step, for what these brokers may hold; empty: nothing is left to be done for it. `led`: who leads."""
    if not found:
        return ()
    brokers = listed_brokers(sorted(found))
    its, it, own = ("its", "it", "its own disk") if len(found) == 1 else ("their", "they", "their own disks")
    ids = sorted({id for each in found.values() for id in each})
    return (
        f"Copy {its} directories of {named(ids)} on {brokers}, to a place outside log.dirs.",
        f"Start {brokers} with {own}, and wait until {it} {'is' if len(found) == 1 else 'are'} in the ISR.",
        "Read the copies with kafka-dump-log.sh, and send again what the new leaders lack. Begin where they were "
        f"elected{_at_offset(led, ids)}; where leader epochs differ, what they lack begins earlier.",
    )


def _at_offset(led: Sequence[LedAlike], ids: Collection[TopicPartition]) -> str:
    """Where that is, over all of these partitions; empty: no plan elected a leader of them."""
    ends = [end for each in led if not set(each.ids).isdisjoint(ids) for end in each.elected_at or ()]
    if not ends:
        return ""
    least, most = min(ends), max(ends)
    return f" (offset {least})" if least == most else f" (offsets {least} to {most})"
