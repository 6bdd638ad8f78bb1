"""Known defects of Kafka that touch a recovery: one table by release, and which of them a plan may meet.

Brokers tell their release without the patch level, and controllers are not asked for theirs. So an entry says what may
happen; that nothing is said never means that a defect is absent. Where no broker told its release, all of them count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from kafka_recovery.decision.guards import LOG_DIR_OFFLINE
from kafka_recovery.domain.evidence import ClusterState, Evidence, PartitionEvidence
from kafka_recovery.domain.plan import Decision, Verdict
from kafka_recovery.domain.policy import Approval


class Answer(StrEnum):
    """What a plan does about a known bug."""

    ASK = "Ask"
    """The plan warns, and a person has to approve the election, whatever the policy says."""
    WARN = "Warn"
    """The plan, its prompt and its status say it before anything is approved."""
    INFORM = "Inform"
    """It stands below the plan, and in `explain`."""


_NAMED = 4
"""So many topics are named; the others are counted."""

Concerns = Callable[[PartitionEvidence, ClusterState], bool]


@dataclass(frozen=True, slots=True)
class KnownBug:
    """A defect in the releases from `since` on, before `fixed`; None: no release without it is known.

    `issue`: Kafka's number for it, or what else it is known by. `seen`: releases on which the project's tests or
    experiments met it; empty: it is known from reading only. `concerns`: whether a partition without a leader may meet
    it, if a release has it. The texts are sentences for a person.
    """

    issue: str
    since: str
    fixed: str | None
    seen: tuple[str, ...]
    happens: str
    costs: str
    to_do: str
    answer: Answer
    concerns: Concerns

    @property
    def releases(self) -> str:
        """In words."""
        return f"from {self.since} on{'' if self.fixed is None else f', fixed in {self.fixed}'}"

    def may_be_in(self, release: str) -> bool:
        """Whether some patch level of this release has it."""
        at = _number(release)
        if self.fixed is None or at < _number(self.since):
            return at >= _number(self.since)
        return at < _number(self.fixed) or (at == _number(self.fixed) and not self.fixed.endswith(".0"))


@lru_cache
def _number(release: str) -> tuple[int, int, bool]:
    """Comparable, without the patch level."""
    major, minor = re.findall(r"\d+", release)[:2]
    return int(major), int(minor), release.startswith("newer")


def _last_leader_elected(partition: PartitionEvidence, cluster: ClusterState) -> bool:
    return bool(cluster.elr_enabled and partition.last_known_elr)


def _nobody_left(partition: PartitionEvidence, cluster: ClusterState) -> bool:
    """With ELR on, the last broker to leave the ISR stays in ELR or last known ELR, unless these were cleared."""
    return bool(cluster.elr_enabled) and not (partition.isr or partition.elr or partition.last_known_elr)


def _stayed_behind(partition: PartitionEvidence, cluster: ClusterState) -> bool:
    """Whether a member of the ELR is not the one that led last."""
    return bool(cluster.elr_enabled) and not set(partition.elr or ()).issubset(partition.last_known_elr or ())


def _elr_on(partition: PartitionEvidence, cluster: ClusterState) -> bool:
    return bool(cluster.elr_enabled)


def _tiered(partition: PartitionEvidence, cluster: ClusterState) -> bool:
    """Whether it has a remote tier; where nobody could read that, it may have one."""
    return partition.may_be_tiered


def _disk_called_offline(partition: PartitionEvidence, cluster: ClusterState) -> bool:
    return any(replica.problem and replica.problem.code == LOG_DIR_OFFLINE for replica in partition.replicas)


KNOWN_BUGS = (
    KnownBug(
        "KAFKA-20732",
        since="3.6",
        fixed="4.3.2",
        seen=(),
        happens="A leader that has just been elected may count the local log of a tiered topic twice.",
        costs="With retention.bytes set it then deletes records that are still to be kept, from the remote tier and "
        "from every replica. Kafka's own election of a member does the same.",
        to_do="Before anybody leads: kafka-configs.sh --alter --add-config retention.bytes=-1 on the topic. Put the "
        "old value back once the new leader has copied segments to the remote tier. Where neither that nor "
        "log.retention.bytes is set, nothing of this happens.",
        answer=Answer.ASK,
        concerns=_tiered,
    ),
    KnownBug(
        "Tier deleted below a moved log start",
        since="3.6",
        fixed=None,
        seen=("4.0.2",),
        happens="A replica of a tiered topic whose local segments all lie beyond the new leader's log end begins its "
        "log anew at that end when it joins.",
        costs="If it leads later, by a clean election too, Kafka deletes from the remote tier what lies below: records "
        "that the recovery had kept.",
        to_do="Before a broker is started that may hold more than the new leader: make another replica the first of "
        "the assignment (kafka-reassign-partitions.sh --execute), for with auto.leader.rebalance.enable Kafka moves "
        "leadership to the first. Once the broker is in the ISR, compare its log start with the leader's (JMX: "
        "kafka.log:type=Log,name=LogStartOffset). If it is later, let nobody have it lead, take the broker out of the "
        "assignment, and put it in again: it then begins where the leader does.",
        answer=Answer.WARN,
        concerns=_tiered,
    ),
    KnownBug(
        "KAFKA-19522",
        since="4.0",
        fixed="4.1.0",
        seen=("4.0.2",),
        happens="With ELR on, the controller may elect the last known leader while it is still fenced, not the "
        "replica that a plan designates.",
        costs="The partition then seems to be led, and nobody answers for it.",
        to_do="Have the last known leader run with its own, intact disk, or keep it stopped until the recovery has "
        "ended. A partition counts as recovered only once its leader has answered.",
        answer=Answer.WARN,
        concerns=_last_leader_elected,
    ),
    KnownBug(
        "ELR cleared by configuration",
        since="4.0",
        fixed=None,
        seen=("4.4.0",),
        happens="A change of min.insync.replicas, of the whole cluster even to the value that it has, clears ELR and "
        "last known ELR.",
        costs="Kafka waits for nobody then: a member that comes back is not elected, though it may lack nothing.",
        to_do="Change no min.insync.replicas, and stop tools that apply configurations again, until there is a "
        "leader. Start the brokers that are away with their own, intact disks, so that their logs are compared as "
        "well.",
        answer=Answer.WARN,
        concerns=_nobody_left,
    ),
    KnownBug(
        "Kafka's PR 20716",
        since="4.0",
        fixed="4.3.0",
        seen=(),
        happens="A broker that assigns replicas to its log directories may clear ELR and last known ELR.",
        costs="Kafka waits for nobody then: a member that comes back is not elected, though it may lack nothing.",
        to_do="Go by what the plan says of the loss: it replays the ISR history, if it may read the metadata log, and "
        "does not rely on the present ELR.",
        answer=Answer.INFORM,
        concerns=_nobody_left,
    ),
    KnownBug(
        "ELR counts a raise too early",
        since="4.0",
        fixed=None,
        seen=("4.0.2", "4.4.0"),
        happens="The controller keeps a broker in the ELR by a min.insync.replicas that was raised just before, and "
        "that the leader of that moment may not have obeyed yet.",
        costs="Kafka's own, clean election of a member that did not lead last may then lose acknowledged records.",
        to_do="If min.insync.replicas was raised shortly before the incident, start the broker that led last, with "
        "its own, intact disk, before other members of the ELR.",
        answer=Answer.INFORM,
        concerns=_stayed_behind,
    ),
    KnownBug(
        "Controller loop after a topic's deletion",
        since="4.0",
        fixed=None,
        seen=("4.0.2", "4.4.0"),
        happens="The controller may fail when a broker that was killed registers again: if it was in the ELR of a "
        "topic, that ELR was cleared by min.insync.replicas, and the topic was deleted since.",
        costs="The controller logs `existed in isrMembers, but not in the topics map`, resigns, and fails again: that "
        "broker never gets in, and with a single controller nobody else does.",
        to_do="Delete no topic while brokers are away. If a broker that was started stays out, look for these words "
        "in the controller's log.",
        answer=Answer.INFORM,
        concerns=_elr_on,
    ),
    KnownBug(
        "KAFKA-19571",
        since="3.7",
        fixed="4.2.0",
        seen=(),
        happens="While a replica is moved or deleted, a flush of its files may fail, and the broker calls the whole "
        "log directory offline.",
        costs="A healthy disk looks lost, and what it holds is not compared.",
        to_do="If the broker's log has ClosedChannelException, and no error of the disk, that disk is whole: do not "
        "give it up.",
        answer=Answer.WARN,
        concerns=_disk_called_offline,
    ),
)
"""The gravest first."""


@dataclass(frozen=True, slots=True)
class Met:
    """A known bug that a plan may meet, and the topics with partitions without a leader that may meet it.

    `unread`: those of them of which nobody could read whether they are tiered, where only tiered topics meet it.
    """

    bug: KnownBug
    topics: tuple[str, ...]
    unread: tuple[str, ...] = ()

    def __str__(self) -> str:
        bug = self.bug
        where = f"Kafka {bug.releases}; topic{'s' * (len(self.topics) > 1)} {_listed(self.topics)}"
        doubt = f" Whether {_listed(self.unread)} is tiered could not be read." if self.unread else ""
        return f"{bug.issue} ({where}): {bug.happens} {bug.costs}{doubt} {bug.to_do}"


def _listed(topics: Sequence[str]) -> str:
    others = len(topics) - _NAMED
    return f"{', '.join(topics[:_NAMED])}{f' and {others:,} more' if others > 0 else ''}"


def met(cluster: ClusterState, seen: Sequence[PartitionEvidence]) -> Iterator[Met]:
    """What may be met by these partitions, the gravest first; one that has a leader meets nothing."""
    offline = [partition for partition in seen if partition.leader is None]
    for bug in _present(cluster):
        concerned = [partition for partition in offline if bug.concerns(partition, cluster)]
        if topics := {partition.id.topic for partition in concerned}:
            unread = {partition.id.topic for partition in concerned if _is_unread(bug, partition)}
            yield Met(bug, tuple(sorted(topics)), tuple(sorted(unread)))


def _is_unread(bug: KnownBug, partition: PartitionEvidence) -> bool:
    return bug.concerns is _tiered and not partition.tiered


def known_bugs(evidence: Evidence, *answers: Answer) -> tuple[str, ...]:
    """What a plan on this evidence says of them, as far as it is one of these answers."""
    return tuple(str(each) for each in met(evidence.cluster, evidence.partitions) if each.bug.answer in answers)


def which_releases(evidence: Evidence) -> Iterator[str]:
    """What is not known of the releases, where it matters."""
    releases = evidence.cluster.releases
    if all(partition.leader is not None for partition in evidence.partitions):
        return
    if not releases:
        yield (
            "No broker told which release of Kafka it runs, so every known bug of Kafka counts that concerns these "
            "partitions."
        )
    elif len(releases) > 1:
        yield (
            f"The brokers run several releases of Kafka ({', '.join(releases)}): known bugs of all of them count. "
            "What the controllers run is not known."
        )
    elif _number(releases[0])[-1]:
        yield f"The brokers run a Kafka {releases[0]}: its bugs are not known here."


def asking(
    decisions: Sequence[Decision], seen: Sequence[PartitionEvidence], cluster: ClusterState
) -> tuple[Decision, ...]:
    """The same decisions about these partitions, but a person is asked about an election that a bug makes unsafe."""
    unsafe: dict[int, list[KnownBug]] = {}
    for bug in _present(cluster):
        if bug.answer is Answer.ASK:
            concerns = bug.concerns
            for place in [place for place, partition in enumerate(seen) if concerns(partition, cluster)]:
                unsafe.setdefault(place, []).append(bug)
    if not unsafe:
        return tuple(decisions)
    return tuple(
        _asking(decision, partition, unsafe.get(place, ()))
        for place, (decision, partition) in enumerate(zip(decisions, seen, strict=True))
    )


def _asking(decision: Decision, partition: PartitionEvidence, unsafe: Sequence[KnownBug]) -> Decision:
    if not unsafe or decision.verdict is not Verdict.ELECT or decision.needs_approval:
        return decision
    why = (
        f"{bug.issue} can make any election delete records"
        f"{', if the topic is tiered, which could not be read' if _is_unread(bug, partition) else ''}"
        ": a person has to approve it"
        for bug in unsafe
    )
    return replace(decision, approval=Approval.MANUAL, warnings=(*decision.warnings, *why))


def _present(cluster: ClusterState) -> Iterator[KnownBug]:
    """Those that one of the cluster's releases may have."""
    releases = cluster.releases
    return (bug for bug in KNOWN_BUGS if not releases or any(map(bug.may_be_in, releases)))
