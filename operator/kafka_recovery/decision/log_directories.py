"""What brokers say of their log directories, in words: which have failed, and which have almost no room left.

Nobody is refused by it, and only among equals is anybody chosen by it. A directory that has failed is a reason to
wait; one that is almost full is a warning, and a person is asked, whatever the policy says: Kafka takes a directory
offline at the first write that finds no room, and stops a broker that has no other. On Kafka 4.4 a leader without any
room was elected, and its directory failed before it led (it writes its leader epoch). A person is asked as well about a
leader whose broker was asked and did not say, or not where that copy lies and what room is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafka_recovery.decision.alike import named
from kafka_recovery.decision.guards import LOG_DIR_OFFLINE
from kafka_recovery.domain.evidence import ClusterState, Evidence, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.log_directories import BrokerDirectories, LogDirectory
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.policy import Approval

Copies = Sequence[tuple[TopicPartition, Replica]]
"""Copies of one broker's, and of which partitions."""

_NAMED = 4
"""So many directories are named; the others are counted."""


def told(partition: PartitionEvidence, cluster: ClusterState) -> Iterator[str]:
    """Of one partition: where its copies lie whose directory has failed, or is almost full."""
    for replica in partition.replicas:
        if _is_offline(replica):
            yield from of_failed(cluster, [(partition.id, replica)])
        elif replica.log and (full := _almost_full(cluster, replica.broker, partition.id)):
            yield f"Broker {replica.broker} keeps {partition.id} in {_room(full)}. {_FULL}"


def of_failed(cluster: ClusterState, copies: Copies) -> Iterator[str]:
    """Of one living broker, some of whose copies are offline: what it says of its directories, and what to do."""
    broker = copies[0][1].broker
    its = _of(cluster, broker) or BrokerDirectories(broker)
    failed = [each for each in its.directories if each.error]
    others = [each for each in its.directories if not each.error]
    sound = [id for id, replica in copies if replica.log and _lies_in(others, id, alone=not failed)]
    if sound:
        yield (
            f"Broker {broker} lives, and says that {named(sound)} is in a log directory that has not failed, while the "
            f"controller counts it as failed (KAFKA-19571 does that): stop broker {broker} cleanly, and start it again "
            "with the same disk."
        )
    ids = [id for id, _ in copies if id not in sound]
    if ids and failed:
        errors = ", ".join(sorted({each.error for each in failed if each.error}))
        which = f"its log directory {_path(failed[0])} has" if len(failed) == 1 else f"{_paths(failed)} have"
        rest = f" Online there: {', '.join(map(_room, others[:_NAMED]))}." if others else ""
        yield f"Broker {broker} lives; {which} failed ({errors}), with {named(ids)}. {_WHY.format(broker=broker)}{rest}"
        yield from _half_moved(others, ids)
    elif ids:
        why = f" ({its.problem.message})" if its.problem else ""
        yield f"Broker {broker} lives; a log directory of it has failed, with {named(ids)}. Which is not known{why}."


def _lies_in(online: Sequence[LogDirectory], id: TopicPartition, *, alone: bool) -> bool:
    """Whether the broker says that this copy is in one of these; `alone`: it has no other ones."""
    return bool(online) and (alone or any(id in (each.copies or ()) for each in online))


_WHY = "Kafka tells neither why nor since when: see the log of broker {broker} and, on its machine, df and mount."
_FULL = (
    "A leader writes as soon as it leads. At the first write that finds no room Kafka takes that directory offline, "
    "and stops a broker that has no other one. Make the volume larger first; delete no file of Kafka's and no records, "
    "and copy nothing onto it."
)


def failed_elsewhere(
    leaderless: Sequence[PartitionEvidence], cluster: ClusterState, but: Collection[BrokerId | None]
) -> Iterator[str]:
    """Of each living broker whose copies are offline, `but` of these: what is to be known of them is said elsewhere."""
    for broker, copies in failed_copies(leaderless).items():
        if broker not in but:
            yield from of_failed(cluster, copies)


def failed_copies(leaderless: Sequence[PartitionEvidence]) -> Mapping[BrokerId, Copies]:
    """Copies in directories that have failed, by broker."""
    found: dict[BrokerId, list[tuple[TopicPartition, Replica]]] = {}
    for partition in leaderless:
        for replica in partition.replicas:
            if _is_offline(replica):
                found.setdefault(replica.broker, []).append((partition.id, replica))
    return dict(sorted(found.items()))


def full_leaders(plan: Plan) -> Iterator[str]:
    """Planned leaders that may fail as soon as they lead, or are written to."""
    disks = _doubtful(plan.evidence.cluster)
    led: defaultdict[tuple[BrokerId, str], list[TopicPartition]] = defaultdict(list)
    for id, one in plan.elections.items() if disks else ():
        if (leader := one.leader) is not None and leader in disks and (there := disks[leader].full(id)):
            led[leader, there.path].append(id)
    for broker, disk in disks.items():
        for each in disk.its.directories:
            if ids := led[broker, each.path]:
                why = f"and the volume of its copies is almost full: {_room(each)}"
                yield f"Warning: broker {broker} is to lead {named(ids)}, {why}. {_FULL}"


def asking(decisions: tuple[Decision, ...], cluster: ClusterState) -> tuple[Decision, ...]:
    """The same, but a person is asked about an election of a leader that may fail for want of room."""
    disks = _doubtful(cluster)
    return tuple([_asking(each, disks) for each in decisions]) if disks else decisions


class Disks(NamedTuple):
    """What a broker told of its directories, and where each of its copies lies."""

    its: BrokerDirectories
    home: Callable[[TopicPartition], LogDirectory | None]

    def full(self, id: TopicPartition) -> LogDirectory | None:
        """Where its copy lies, if that is almost full."""
        there = self.home(id)
        return there if there and there.is_almost_full else None

    def doubt(self, id: TopicPartition) -> str | None:
        """Why its copy may have no room; None: the directory that it lies in was said to have some."""
        there, volume = self.home(id), f"the volume of broker {self.its.broker}'s copy"
        if there and there.is_almost_full:
            return f"{volume} is almost full, {_room(there)}"
        if there and there.has_room:
            return None
        why = self.its.problem.message.rstrip(".") if self.its.problem else "the broker did not say"
        return f"whether {volume} has room is not known ({why})"


def _doubtful(cluster: ClusterState) -> Mapping[BrokerId, Disks]:
    """Of brokers that did not say of each directory that it has room."""
    told = cluster.log_directories
    doubtful = (its for its in told if its.problem or not all(each.has_room for each in its.directories))
    return {its.broker: Disks(its, its.homes()) for its in doubtful}


def _asking(decision: Decision, disks: Mapping[BrokerId, Disks]) -> Decision:
    leader = decision.leader
    if leader is None or decision.verdict is not Verdict.ELECT or decision.needs_approval or leader not in disks:
        return decision
    if (why := disks[leader].doubt(decision.id)) is None:
        return decision
    warning = f"{why}: a person has to approve it"
    return replace(decision, approval=Approval.MANUAL, warnings=(*decision.warnings, warning))


def marks(cluster: ClusterState, broker: BrokerId) -> tuple[str, ...]:
    """What is wrong with its directories, in the cell of a table."""
    its = _of(cluster, broker)
    directories = its.directories if its else ()
    found = {
        "log directory failed": any(each.error for each in directories),
        "volume almost full": any(each.is_almost_full for each in directories),
    }
    return tuple(word for word, holds in found.items() if holds)


def wrong(evidence: Evidence) -> Iterator[str]:
    """Each broker's directories that have failed or are almost full; then of whom nothing is known, and why, once."""
    cluster = evidence.cluster
    for its in cluster.log_directories:
        for each in its.directories:
            if each.error:
                yield f"Broker {its.broker}: its log directory {_path(each)} has failed ({each.error})."
            elif each.is_almost_full:
                yield f"Broker {its.broker}: {_room(each)}."
    yield from unknown(cluster)


def unknown(cluster: ClusterState) -> Iterator[str]:
    """Who did not tell of its directories though it answered, by the reason."""
    why: dict[str, list[BrokerId]] = {}
    for its in cluster.log_directories:
        if its.problem:
            why.setdefault(its.problem.message, []).append(its.broker)
    for message, brokers in why.items():
        listed = ", ".join(map(str, brokers))
        yield f"Of the log directories and volumes of broker {listed} nothing is known: {message}."


def _is_offline(replica: Replica) -> bool:
    return replica.problem is not None and replica.problem.code == LOG_DIR_OFFLINE


def _of(cluster: ClusterState, broker: BrokerId) -> BrokerDirectories | None:
    return next((its for its in cluster.log_directories if its.broker == broker), None)


def _almost_full(cluster: ClusterState, broker: BrokerId, id: TopicPartition) -> LogDirectory | None:
    """Where this copy lies, if that is almost full."""
    disks = _doubtful(cluster).get(broker)
    return disks.full(id) if disks else None


def _half_moved(others: Sequence[LogDirectory], ids: Sequence[TopicPartition]) -> Iterator[str]:
    """A move between directories copies; until it ends, the copy in the new one is not the replica (KIP-113)."""
    moved = {_path(each): sorted(set(each.incoming or ()).intersection(ids)) for each in others}
    for path, incoming in moved.items():
        if incoming:
            yield f"{named(incoming)} was being moved to {path}: what is there by now may be a part only."


def _paths(directories: Sequence[LogDirectory]) -> str:
    more = f" and {len(directories) - _NAMED} more" if len(directories) > _NAMED else ""
    return f"{', '.join(map(_path, directories[:_NAMED]))}{more}"


def _path(directory: LogDirectory) -> str:
    """As its broker says it, in quotes where it has several words: it stands in sentences that people act on."""
    path = directory.path if len(directory.path) <= _LONGEST else f"{directory.path[:_LONGEST]}…"
    return repr(path) if " " in path else path


_LONGEST = 120


def _room(directory: LogDirectory) -> str:
    """A directory, and what is left of its volume."""
    total, usable = directory.total_bytes, directory.usable_bytes
    if total is None or usable is None:
        return _path(directory)
    return f"{_path(directory)} ({_size(usable)} of {_size(total)} left)"


_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count:,} bytes" if not unit else f"{size:.1f} {_UNITS[unit]}"
