"""Brokers that answer, that the controllers fenced, and that Kafka elects once it hears of them. Words only.

One that lacks nothing is to be heard again; one that lacks what others hold is to be stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kafka_recovery.decision.alike import named
from kafka_recovery.decision.costs import is_empty, partitions, records
from kafka_recovery.decision.holding import keep_off
from kafka_recovery.decision.kubectl import Kubectl
from kafka_recovery.decision.loss import visible_lacks
from kafka_recovery.decision.pods import SILENT_BROKER
from kafka_recovery.decision.questions import APPROVE, Question, on_how_many
from kafka_recovery.decision.returns import elected_by_kafka, named_brokers
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan, Verdict

_NEXT = "wait for the next plan, which says whether another broker can lead"
_NAMED = 3
"""So many brokers are told of."""
_STOP = (
    f"first what would start it again, then the broker. A Pod that is only deleted comes back at once ({SILENT_BROKER})"
)


def stop_first(
    leaderless: Sequence[PartitionEvidence], cluster: ClusterState, kubectl: Kubectl, *, asked: bool
) -> Iterator[str]:
    """A member that answers with less than others hold: its disk was emptied, replaced, or lost its last writes."""
    most: dict[BrokerId, list[int]] = {}
    records_of: set[BrokerId] = set()
    for each in leaderless:
        for member in _fenced_members(each, cluster):
            if lacks := visible_lacks(each, member):
                most.setdefault(member.broker, []).append(max(lack.records for lack in lacks))
                records_of |= set() if is_empty(member.log) else {member.broker}
    for broker, lacking in sorted(most.items(), key=lambda found: (-sum(found[1]), found[0]))[:_NAMED]:
        yet = " Do not approve yet." if asked else ""
        empty = "" if broker in records_of else "is EMPTY there, and "
        how = keep_off(cluster, broker, kubectl, running=True)
        stop = how if how != SILENT_BROKER else _STOP
        yield (
            f"DANGER: STOP BROKER {broker} NOW: {stop}.{yet} Kafka can elect it by itself on "
            f"{partitions(len(lacking))} at any moment. It {empty}lacks up to {records(sum(lacking))} of another "
            "replica, and the others delete these once it leads: copy their directories meanwhile. Is its own volume "
            "only not mounted? Once they are copied, start it with that one. Approve another leader only if that "
            "volume is lost: nobody has read it."
        )


def reconnect_first(
    waiting: Sequence[PartitionEvidence],
    cluster: ClusterState,
    otherwise: str,
    more: Mapping[TopicPartition, frozenset[BrokerId]],
    short: frozenset[BrokerId],
) -> Iterator[Question]:
    """A member that answers us and is fenced lacks nothing but heartbeats that reach the controllers.

    `more`: whose copies may hold more than the planned leader's, by partition.
    """
    for broker, theirs in _whole_members(waiting, cluster, short):
        count = len(theirs)
        yes = (
            f"repair that, WITHOUT a restart (it may not come back), and wait. It runs, and answers: Kafka can elect "
            f"it by itself{on_how_many(count, waiting)}, and it holds every record that was read of another replica."
        )
        once_stopped = "read the plan again: it may be another one" if otherwise in ("", APPROVE) else otherwise
        others = sorted({id for each in theirs for id in more.get(each.id, ())} - {broker})
        too = (
            f" and those of {named_brokers(others)}, which may hold more than the new leader as well" if others else ""
        )
        copied = (
            f"stop broker {broker} for now ({SILENT_BROKER}), KEEP its volume, copy its directories of these "
            f"partitions{too}, then "
            f"{once_stopped}. This is worse than Yes: what {'each of them' if others else 'it'} alone holds is then in "
            "that copy only."
        )
        alone = any(replica.leads for each in theirs for replica in each.replicas if replica.broker == broker)
        no = copied if otherwise or alone else f"{_NEXT}."
        asked = f"Can the heartbeats of broker {broker} reach the controllers again?"
        unknown = f"{'approve nothing: ' if otherwise else ''}look from its machine or Pod."
        yield Question(asked, (("Nobody knows yet", unknown), ("Yes", yes), ("No", no)))


def asked_to_reconnect(
    waiting: Sequence[PartitionEvidence], cluster: ClusterState, short: frozenset[BrokerId]
) -> Mapping[TopicPartition, frozenset[BrokerId]]:
    """Of which members, by partition, `reconnect_first` asks, and tells when to copy from them."""
    found: dict[TopicPartition, frozenset[BrokerId]] = {}
    for broker, theirs in _whole_members(waiting, cluster, short):
        found |= {each.id: found.get(each.id, frozenset()) | {broker} for each in theirs}
    return found


def given_time(plan: Plan) -> Iterator[str]:
    """What nobody has to look at or repair yet: the controllers may be about to elect it."""
    cluster = plan.evidence.cluster
    waits = {decision.id for decision in plan.decisions if decision.verdict is Verdict.WAIT}
    seen = [each for each in plan.evidence.partitions if each.id in waits and each.leader is None]
    for broker, theirs in _whole_members(seen, cluster, frozenset(short_members(plan))):
        yield (
            f"Do nothing yet: broker {broker} is back, answers, and holds every record of "
            f"{named([each.id for each in theirs])} that was read of another replica. Kafka is given some time to "
            "elect it; the next plan says more."
        )


def fenced_members(plan: Plan) -> frozenset[BrokerId]:
    """All of them that the plan would pass over."""
    elected = (each for each in plan.evidence.partitions if each.id in plan.elections)
    return frozenset(member.broker for each in elected for member in _fenced_members(each, plan.evidence.cluster))


def short_members(plan: Plan) -> Sequence[BrokerId]:
    """Brokers that answer, that Kafka can elect by itself, and that lack records which others hold."""
    leaderless = [each for each in plan.evidence.partitions if each.leader is None]
    return sorted(short_of(leaderless, plan.evidence.cluster))


def short_of(leaderless: Sequence[PartitionEvidence], cluster: ClusterState) -> frozenset[BrokerId]:
    """Fenced members that lack something anywhere: whoever helps one of them back deletes it on the others."""
    members = ((each, member) for each in leaderless for member in _fenced_members(each, cluster))
    return frozenset(member.broker for each, member in members if visible_lacks(each, member))


def _whole_members(
    waiting: Sequence[PartitionEvidence], cluster: ClusterState, short: frozenset[BrokerId]
) -> Sequence[tuple[BrokerId, Sequence[PartitionEvidence]]]:
    """Fenced members that lack nothing of what was read, with their partitions; those of most partitions first."""
    found: dict[BrokerId, list[PartitionEvidence]] = {}
    for each in waiting:
        for member in _fenced_members(each, cluster):
            if member.broker not in short:
                found.setdefault(member.broker, []).append(each)
    return sorted(found.items(), key=lambda whole: (-len(whole[1]), whole[0]))[:_NAMED]


def runs(
    waiting: Sequence[PartitionEvidence], cluster: ClusterState, short: frozenset[BrokerId], *, asked: bool
) -> Iterator[str]:
    """Whoever elects another one while such a member runs gives up what it holds."""
    for broker, theirs in _whole_members(waiting, cluster, short):
        yield (
            f"{'DO NOT APPROVE YET.' if asked else 'STOP THIS PLAN.'} Broker {broker} RUNS, and answers: Kafka can "
            f"elect it by itself{on_how_many(len(theirs), waiting)} as soon as its heartbeats reach the controllers."
        )


def _fenced_members(partition: PartitionEvidence, cluster: ClusterState) -> Iterator[Replica]:
    """Those that were measured, and that Kafka elects by itself once it hears of them."""
    members = map(partition.replica, elected_by_kafka(partition))
    for member in members:
        seen = cluster.broker(member.broker) if member and member.log else None
        if member and seen and seen.fenced:
            yield member
