"""Which offline partitions become an incident now, which ones wait or are left alone, and why. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from kafka_recovery.cluster.scan import OfflinePartition
from kafka_recovery.decision.cluster_index import Rules
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy, Rule
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.resources.fields import MOST_PARTITIONS
from kafka_recovery.kube.watching.outages import Outage
from kafka_recovery.kube.watching.room import INCIDENTS, NOTHING, Used
from kafka_recovery.kube.watching.waits import ASK_AGAIN, NO_WAITS, Waits

LARGEST_SCOPE = 1000 * 1024
"""Bytes of JSON of one incident's partitions: an object of Kubernetes may have 1.5 MiB in etcd, status included."""

LONGEST_NAME = 63
"""Characters: the name is also the value of a label."""

_COMPANY = timedelta(seconds=1)
"""How long at most an incident waits for more of the same failure: brokers that die together are fenced in turn."""

_SHARE_FOR_COMPANY = 10
"""That wait is at most this fraction of the rule's patience: who has none does not wait for company either."""


@dataclass(frozen=True, slots=True)
class Offline:
    """An offline partition, and since when it is known to be so (on a monotonic clock)."""

    partition: OfflinePartition
    since: timedelta


@dataclass(frozen=True, slots=True)
class Incident:
    """Partitions for one new recovery. The name depends on nothing but the cluster and their outages."""

    name: str
    partitions: tuple[OfflinePartition, ...]
    since: timedelta

    @property
    def scope(self) -> list[dict[str, str | int]]:
        """As `spec.scope.partitions` says it."""
        return [_in_scope(partition.id) for partition in self.partitions]


@dataclass(frozen=True, slots=True)
class Docket:
    """What is to be opened now; `next_at`: when to look again, if nothing changes; None: not before something does.

    `left`: every other offline partition, and why it is left alone.
    """

    incidents: tuple[Incident, ...] = ()
    next_at: timedelta | None = None
    left: Mapping[TopicPartition, Reason] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Names:
    """What names of incidents are made of."""

    cluster: str
    cluster_id: str

    def of(self, partitions: Iterable[OfflinePartition]) -> str:
        """The cluster's name cut to fit, and a hash of the cluster's id and the outages."""
        outages = sorted(f"{p.topic_id}/{p.id.partition}/{p.leader_epoch}" for p in partitions)
        digest = hashlib.sha256("\n".join([self.cluster_id, *outages]).encode()).hexdigest()[:10]
        return f"{self.cluster[: LONGEST_NAME - len(digest) - 1].rstrip('-.')}-{digest}"


def docket(
    offline: Iterable[Offline],
    policy: Policy | None,
    open: Mapping[TopicPartition, str],
    opened: Mapping[Outage, str],
    names: Names,
    at: timedelta,
    waits: Waits = NO_WAITS,
    used: Used = NOTHING,
) -> Docket:
    """Sort offline partitions into those for new incidents, those to wait for, and those to leave alone.

    `open`: partitions in open recoveries, by the recovery's name. `opened`: outages that have had an incident already.
    `waits`: what others do to the cluster; it holds back what is due. `used`: by recoveries of earlier incidents.
    """
    rules = Rules(policy or Policy(()))
    waiting: list[_Waiting] = []
    left: dict[TopicPartition, Reason] = {}
    held: dict[TopicPartition, Reason] = {}
    for spell in offline:
        partition = spell.partition
        rule = rules[partition.id.topic]
        why = _taken(partition, open, opened) or unruled(partition, policy, rule)
        if rule is None or why is not None:
            left[partition.id] = why or _NO_POLICY
        elif at >= spell.since + rule.patience and (hold := waits.holding(partition, at - spell.since)):
            held[partition.id] = hold
        else:
            waiting.append(_Waiting(spell, rule))
    now = any(each.opens_at <= at for each in waiting)
    due = [each.offline for each in waiting if now and each.due_at <= at]
    rest = [each for each in waiting if not now or each.due_at > at]
    reasons = {each.rule.name: _patience(each.rule) for each in rest}
    left |= held | {each.offline.partition.id: reasons[each.rule.name] for each in rest}
    incidents, without_room = _with_room(_incidents(due, names), used)
    left |= without_room
    looks = [each.opens_at for each in rest] + [at + ASK_AGAIN for _ in held]
    return Docket(incidents, min(looks, default=None), left)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An offline partition with a rule. `due_at`: patience is over; `opens_at`: waiting for company is, too."""

    offline: Offline
    rule: Rule

    @property
    def due_at(self) -> timedelta:
        return self.offline.since + self.rule.patience

    @property
    def opens_at(self) -> timedelta:
        return self.due_at + min(_COMPANY, self.rule.patience / _SHARE_FOR_COMPANY)


_NO_POLICY = Reason("NoPolicy", "the cluster has no valid policy: it is observed only")


def _taken(
    partition: OfflinePartition, open: Mapping[TopicPartition, str], opened: Mapping[Outage, str]
) -> Reason | None:
    """Whether a recovery has it already."""
    if name := open.get(partition.id):
        return Reason("InOtherRecovery", f"recovery {name} has it")
    if name := opened.get(Outage.of(partition)):
        return Reason(
            "LeftByEarlierRecovery", f"recovery {name} was opened for it; another one is for a person to open"
        )
    return None


def unruled(partition: OfflinePartition, policy: Policy | None, rule: Rule | None) -> Reason | None:
    """Why the policy wants nothing done about it."""
    if policy is None:
        return _NO_POLICY
    if rule is None:
        return Reason("NoRule", f"no rule of the policy selects topic {partition.id.topic}")
    if len(partition.assignment) < rule.min_replication_factor:
        few = f"{len(partition.assignment)} replicas, rule {rule.name!r} wants {rule.min_replication_factor}"
        return Reason("ReplicationFactorTooLow", f"{few}: it waits for its brokers")
    return None


def _patience(rule: Rule) -> Reason:
    seconds = f"{rule.patience.total_seconds():g}s"
    return Reason("Patience", f"rule {rule.name!r} waits {seconds} for its brokers to come back")


def _with_room(incidents: Iterable[Incident], used: Used) -> tuple[tuple[Incident, ...], dict[TopicPartition, Reason]]:
    """Those that may be opened now, and why the partitions of the others are left for the moment."""
    opened: list[Incident] = []
    left: dict[TopicPartition, Reason] = {}
    for each in incidents:
        if lacking := INCIDENTS.lacking(used, len(each.partitions)):
            left |= dict.fromkeys((partition.id for partition in each.partitions), lacking)
        else:
            opened.append(each)
            used = used.plus(len(each.partitions))
    return tuple(opened), left


def _incidents(due: Iterable[Offline], names: Names) -> Iterator[Incident]:
    """One incident, or as many as it takes to keep each one's partitions within what an object holds."""
    part: list[Offline] = []
    size = 2
    for spell in sorted(due, key=lambda each: each.partition.id):
        more = len(json.dumps(_in_scope(spell.partition.id), separators=(",", ":"))) + 1
        if part and (size + more > LARGEST_SCOPE or len(part) == MOST_PARTITIONS):
            yield _incident(part, names)
            part, size = [], 2
        part.append(spell)
        size += more
    if part:
        yield _incident(part, names)


def _incident(part: Sequence[Offline], names: Names) -> Incident:
    partitions = tuple(each.partition for each in part)
    return Incident(names.of(partitions), partitions, min(each.since for each in part))


def _in_scope(id: TopicPartition) -> dict[str, str | int]:
    return {"topic": id.topic, "partition": id.partition}
