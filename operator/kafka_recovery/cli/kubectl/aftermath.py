"""What holds after a recovery has ended: who decided, who was elected how, what brokers that were away may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType

from kafka_recovery.cli.kubectl import reading
from kafka_recovery.cli.kubectl.reading import Incident
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal import words
from kafka_recovery.cli.terminal.render import lines, table
from kafka_recovery.decision.afterwards import LedAlike, absent, led_alike, not_yet, tiered, to_do
from kafka_recovery.decision.alike import named
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.shown_plans import Named
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.machinery.conditions import instant
from kafka_recovery.kube.recoveries.plan_history import Became
from kafka_recovery.kube.resources.kinds import CLUSTERS
from kafka_recovery.kube.watching.watch import BrokerState


@dataclass(frozen=True, slots=True)
class BrokerNow:
    """How a broker does, by the status of its WatchedCluster. `state` None: nobody knows."""

    id: BrokerId
    state: str | None = None
    since: str = ""
    seen_at: str = ""

    @property
    def is_back(self) -> bool:
        """Whether it was seen alive."""
        return self.state == BrokerState.ONLINE

    def __str__(self) -> str:
        if self.state is None:
            return f"Broker {self.id}: nobody knows how it is now."
        seen = f", seen at {self.seen_at}" if self.seen_at else ""
        return f"Broker {self.id}: {self.state} since {self.since}{seen}."


def aftermath(session: Session, incident: Incident, cluster: Object | None) -> Iterator[RenderableType]:
    """Of a recovery that has ended: what must not be done stands first."""
    if not incident.finished:
        return
    try:
        outcomes = reading.outcomes(session, incident)
        plans = list(_carried_out(session, incident))
    except (ApiError, InvalidDocument) as error:
        yield lines(f"Who was elected can't be told: {error}")
        return
    if not outcomes:
        begun = Named.by(incident.recovery.status, incident.recovery.meta.uid).begun
        unknown = "Its plans were begun, and the journal tells no more of them: look at its partitions yourself."
        yield lines(unknown if begun else "This recovery elected nobody: no unclean election was done for it.")
        return
    found = {broker_now(cluster, broker): ids for broker, ids in absent(plans, outcomes).items()}
    yield lines(
        *_lost(incident, outcomes.values()),
        *(line for broker, ids in found.items() for line in of_broker(broker, ids)),
        *tiered(plans, outcomes),
        f"Decided: {decided_by(incident)}",
        _when(incident),
        words.elected(tuple(outcomes.values())),
    )
    led = led_alike(plans, outcomes)
    yield from _leaders(led)
    down = {broker.id: ids for broker, ids in found.items() if not broker.is_back}
    yield lines(*(f"{number}. {step}" for number, step in enumerate(to_do(down, led), 1)))


def _lost(incident: Incident, outcomes: Iterable[PartitionOutcome]) -> Iterator[str]:
    """Next to a word that sounds good: who failed, or is in doubt, may have lost as much as who was elected."""
    worst = (incident.recovery.status.get("plan") or {}).get("lossClass", LossClass.UNKNOWN)
    harmless = {Outcome.RECOVERED_CLEANLY, Outcome.REFUSED}
    if worst != LossClass.LOSSLESS and any(done.outcome not in harmless for done in outcomes):
        yield f"DATA LOSS POSSIBLE: the loss class is {worst}."


def _when(incident: Incident) -> str:
    ended = incident.recovery.status.get("finishedAt")
    return f"Opened {instant(incident.recovery.meta.created_at)}{f', finished {ended}' if ended else ''}."


def _leaders(found: Sequence[LedAlike]) -> Iterator[RenderableType]:
    if found:
        headings = ("Partitions", "Leader", "Elected at log end", "acks=all when verified")
        yield Group(lines(""), table(*headings, rows=map(_led_row, found)), lines(""))


def _led_row(found: LedAlike) -> tuple[object, ...]:
    least, most = found.elected_at or (None, None)
    ends = "-" if least is None else f"{least}" if least == most else f"{least} to {most}"
    writes = {True: "enough in sync", False: "FAILS: too few in sync", None: None}[found.writes]
    return (named(found.ids), found.leader, ends, writes)


def _carried_out(session: Session, incident: Incident) -> Iterator[Plan]:
    for told in incident.plans:
        if told.became is Became.CARRIED_OUT and told.readable:
            yield reading.recorded(session, incident.recovery, told.digest)


def decided_by(incident: Incident) -> str:
    """Who said yes to what was carried out last."""
    plan, approval = incident.recovery.status.get("plan") or {}, incident.recovery.status.get("approval")
    which = f"plan {str(plan['digest'])[:12]}" if plan.get("digest") else "the last plan"
    if approval:
        return f"{approval.get('by')} approved {which} by RecoveryApproval {approval.get('name')}."
    if plan.get("needsApproval") is False:
        return f"nobody was asked about {which}; the policy's rules decided."
    return f"no approval of {which} is known any more."


def cluster_of(session: Session, incident: Incident) -> Object | None:
    """The recovery's WatchedCluster; None: it is not there, or may not be read."""
    try:
        return session.api.get(CLUSTERS.path(session.namespace, incident.recovery.cluster_name))
    except ApiError:
        return None


def broker_now(cluster: Object | None, broker: BrokerId) -> BrokerNow:
    """What the status of its WatchedCluster says of it."""
    status: Mapping[str, Any] = (cluster or {}).get("status") or {}
    seen = next((each for each in status.get("brokerStates") or () if each.get("id") == int(broker)), None)
    if seen is None:
        return BrokerNow(broker)
    return BrokerNow(broker, seen.get("state"), seen.get("since", ""), status.get("lastProbe", ""))


def of_broker(broker: BrokerNow, ids: Sequence[TopicPartition]) -> Iterator[str]:
    """What it may hold, and what its start does, or did."""
    if broker.is_back:
        copies = words.copies(len(ids))
        yield f"{broker} On joining it deletes, or has deleted, every record of its {copies} that the new leaders lack."
        return
    yield f"{broker} {not_yet([broker.id], ids)}"
