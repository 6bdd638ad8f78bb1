"""What the start of a broker that is away does to a partition: before another replica leads it, and after. Words only.

An ISR or ELR member is elected by the controller as soon as it is back, whatever its disk holds, and with ELR on so is
the last known leader where both are empty (KIP-966). Every replica then truncates to what the leader has (KIP-101). So
nothing here promises anything of a broker without naming its disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafka_recovery.decision.alike import named
from kafka_recovery.decision.costs import may_hold_more
from kafka_recovery.decision.guards import LOG_DIR_OFFLINE
from kafka_recovery.domain.elr import replay_elr
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.plan import Plan


@dataclass(frozen=True, slots=True)
class Led:
    """That a partition was seen with a leader after its plan was made. What is None is not known."""

    leader: BrokerId | None = None
    epoch: LeaderEpoch | None = None
    log_end: Offset | None = None


def away(partition: PartitionEvidence) -> tuple[BrokerId, ...]:
    """The brokers whose copy nobody could measure: what they alone hold is lost once another one leads."""
    return tuple(sorted(replica.broker for replica in partition.replicas if replica.log is None))


def has_failed_disk(partition: PartitionEvidence, broker: BrokerId) -> bool:
    """Whether the broker lives, and only the log directory with its copy is offline (KIP-858)."""
    copy = partition.replica(broker)
    return copy is not None and copy.problem is not None and copy.problem.code == LOG_DIR_OFFLINE


def elected_by_kafka(partition: PartitionEvidence) -> tuple[BrokerId, ...]:
    """Whom the controller elects by itself once one of them is back, whether its disk is whole or empty."""
    last = partition.last_known_leader
    return tuple(sorted(partition.clean_members)) or (() if last is None else (last,))


def may_lack(partition: PartitionEvidence, broker: BrokerId) -> bool:
    """Whether a member may lack acknowledged records though its disk is whole: one that stayed behind in the ELR.

    Kafka counts a raise of min.insync.replicas at once, its leader only once it has applied it, and acknowledges alone
    meanwhile (4.0 and 4.4: hundreds of records lost by clean elections). A leader that can't take over another setting
    for all brokers goes on without that of min.insync.replicas (4.4). A history counts it as its leader does.
    """
    if broker in partition.isr or broker not in (partition.elr or ()):
        return False
    history = partition.history
    return history is None or not history.steps or broker not in replay_elr(history.steps)


def if_intact(partition: PartitionEvidence, broker: BrokerId) -> str:
    """What may be said of a member's return, as a condition and its consequence."""
    raised = f", and {_NOT_RAISED}" if may_lack(partition, broker) else ""
    return (
        f"if its disk is its own and intact and its host did not crash{raised}, nothing acknowledged with acks=all is "
        "lost"
    )


_NOT_RAISED = "min.insync.replicas is set on the topic and was not raised shortly before it left the ISR"
RAISED = (
    "min.insync.replicas was raised shortly before it left the ISR, or is set for all brokers: then another member may "
    "hold more"
)


def before_an_election(partition: PartitionEvidence) -> Iterator[str]:
    """What starting each broker that is away does; true also if somebody reads it when another broker leads already."""
    id = partition.id
    absent = away(partition)
    for broker in elected_by_kafka(partition):
        if broker not in absent:
            continue
        raised = f", or {RAISED}" if may_lack(partition, broker) else ""
        yield (
            f"broker {broker} with its own, intact disk, while {id} has no leader: Kafka can elect it by itself, and "
            f"the plan then leaves {id} alone. Nothing acknowledged with acks=all is lost by that, unless the host of "
            f"broker {broker} crashed (what was not on its disk yet is gone then){raised}"
        )
        yield (
            f"broker {broker} on an empty or replaced disk, while {id} has no leader: NEVER. Kafka can elect it all "
            "the same, and the other replicas then delete every record that it lacks"
        )
    if absent:
        yield (
            f"{listed_brokers(absent)}, once another broker leads {id}: first copy the directory of {id} there. On "
            "joining, a broker deletes every record that the leader lacks"
        )


def with_which_disk(partition: PartitionEvidence) -> str:
    """What holds for whoever starts brokers because no replica may lead."""
    own = "Start its brokers with their own, intact disks only"
    if not (returning := elected_by_kafka(partition)):
        return f"{own}."
    return (
        f"{own}; {listed_brokers(returning, 'or')} never on an empty or replaced one: Kafka would elect it, and the "
        "other replicas would delete every record that it lacks."
    )


def after_an_election(absent: Collection[BrokerId], ids: Sequence[TopicPartition]) -> str:
    """What to do before these brokers are started, now that another one leads these partitions."""
    its, each = ("its", "it") if len(absent) == 1 else ("their", "each of them")
    directories = "directory" if len(absent) == 1 and len(ids) == 1 else "directories"
    return (
        f"Before {listed_brokers(sorted(absent), 'or')} is started, copy {its} {directories} of "
        f"{named(ids)}: on joining, {each} deletes every record that the leader lacks."
    )


_NOBODY: Mapping[TopicPartition, frozenset[BrokerId]] = {}


def before_consent(
    plan: Plan, *, either: bool = False, but: Mapping[TopicPartition, frozenset[BrokerId]] = _NOBODY
) -> Iterator[str]:
    """That copies which answer, and may hold more than their new leaders, can be saved: true at any time.

    `either`: another plan is better; by that one it may be the leader of this one that lacks what others hold. `but`:
    of whose copies an answer tells, since they need none if they lead.
    """
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    none = frozenset[BrokerId]()
    held = {id: may_hold_more(each, seen[id]) - but.get(id, none) for id, each in plan.elections.items()}
    if either:
        leaders = {id: each.leader for id, each in plan.elections.items() if each.leader is not None}
        held = {id: brokers | {leaders[id]} for id, brokers in held.items() if brokers}
    lacking = {id: brokers for id, brokers in held.items() if brokers}
    if lacking:
        brokers = named_brokers(sorted(frozenset().union(*lacking.values())))
        has, its = ("has", "its directory") if len(lacking) == 1 else ("have", "their directories")
        deleted = "whichever of them leads, what it lacks" if either else "what the next leader lacks"
        yield (
            f"While {named(list(lacking))} {has} no leader, first of all copy {its} FROM {brokers} to a "
            f"place outside log.dirs: {deleted} is deleted inside log.dirs within seconds."
        )


def may_all_hold_more(plan: Plan) -> Mapping[TopicPartition, frozenset[BrokerId]]:
    """The brokers that hold what the planned leader lacks, or may hold it, whether they answered or not."""
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    return {id: may_hold_more(each, seen[id]) | {*away(seen[id])} for id, each in plan.elections.items()}


def leads(led: Led, id: TopicPartition) -> str:
    """Who was seen leading, in a sentence."""
    if led.leader is None:
        return f"{id} has had a leader since this plan was made."
    known = (("leader epoch", led.epoch), ("log end", led.log_end))
    at = ", ".join(f"{word} {value}" for word, value in known if value is not None)
    return f"Broker {led.leader} was seen leading {id} after this plan was made{f' ({at})' if at else ''}."


def listed_brokers(brokers: Sequence[BrokerId], joined: str = "and") -> str:
    """All of them, in words."""
    *first, last = map(str, brokers)
    return f"broker {', '.join(first)} {joined} {last}" if first else f"broker {last}"


_NAMED = 4
"""So many brokers are named in a sentence; the others are counted."""


def named_brokers(brokers: Sequence[BrokerId], joined: str = "and") -> str:
    """The first of them, in words."""
    told = [f"broker {broker}" for broker in brokers[:_NAMED]]
    told += [f"{len(brokers) - _NAMED} more"] if len(brokers) > _NAMED else []
    *first, last = told
    return f"{', '.join(first)} {joined} {last}" if first else last
