"""What a leader's own answer means, measured against what was planned. Pure: values in, outcomes out."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_recovery.domain.election import Lead, Leadership, Sighting, Unseen
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import Offset, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.reason import Reason

Settled = Lead | Reason | PartitionOutcome
"""How an election ended: a leader answers; or not as planned, so decide again; or for good without a leader."""


def shown(looks: Mapping[TopicPartition, Sighting]) -> dict[TopicPartition, Leadership]:
    """Those that could be seen."""
    return {id: look for id, look in looks.items() if isinstance(look, Leadership)}


def lead_of(look: Leadership | None) -> Lead | None:
    """The leader, if it answered itself."""
    if look is None or look.leader is None or look.log_end is None:
        return None
    return Lead(look.leader, look.leader_epoch, look.log_end)


def lead_in(outcome: PartitionOutcome) -> Lead | None:
    """The leader an outcome speaks of, if it answered."""
    if outcome.leader is None or outcome.leader_epoch is None or outcome.log_end is None:
        return None
    return Lead(outcome.leader, outcome.leader_epoch, outcome.log_end)


def silent(look: Leadership | None) -> bool:
    """Whether the metadata shows a leader who does not answer as one."""
    return look is not None and look.leader is not None and look.log_end is None


def seen(decision: Decision, look: Sighting | None, *, elected: bool, overdue: bool) -> Settled | None:
    """What the metadata shows while the designated leader does not answer; None if that does not settle it.

    `elected`: the controller said so, hence metadata without a leader may just be old.
    """
    if isinstance(look, Unseen):
        return look.reason if overdue else None
    if not isinstance(look, Leadership) or look.topic_id != decision.topic_id:
        return topic_gone(decision.id)
    lead = lead_of(look)
    if lead is not None and lead.leader_epoch > decision.leader_epoch:
        return lead
    if look.leader is None and look.leader_epoch > decision.leader_epoch:
        return leader_died(decision, look)
    if look.leader is None and (overdue or not elected):
        return Reason("NotElected", "the election took no effect: the partition has no leader")
    return leader_silent(decision.id, look) if overdue else None


def afterwards(decision: Decision, lead: Lead, look: Sighting | None) -> Lead | Reason:
    """A leader that answered, in the light of a later look: it may have died or been replaced meanwhile."""
    if isinstance(look, Unseen):
        return lead
    if not isinstance(look, Leadership) or look.topic_id != decision.topic_id:
        return topic_gone(decision.id)
    if look.leader_epoch <= lead.leader_epoch:
        return lead
    return leader_died(decision, look) if look.leader is None else lead_of(look) or lead


def topic_gone(id: TopicPartition) -> Reason:
    """Nothing is left of what was planned for."""
    return Reason("TopicGone", f"topic {id.topic} was deleted or recreated while its leader was being elected")


def leader_died(decision: Decision, look: Leadership) -> Reason:
    """It was elected in a newer epoch, and that ended."""
    message = (
        f"a leader was elected after epoch {decision.leader_epoch} (planned: broker {decision.leader}), and is gone"
    )
    return Reason("LeaderDied", f"{message} again in epoch {look.leader_epoch}")


def leader_silent(id: TopicPartition, look: Leadership) -> PartitionOutcome:
    """A leader by the metadata only is none."""
    message = f"broker {look.leader} leads by the metadata, but does not answer as leader"
    reason = look.problem or Reason("LeaderSilent", message)
    return PartitionOutcome(id, Outcome.FAILED, reason, look.leader, look.leader_epoch)


def verified(
    decision: Decision, partition: PartitionEvidence, lead: Lead, look: Leadership | None, *, restored: bool = True
) -> PartitionOutcome:
    """The outcome where a leader answers: the planned one, a clean member that came first, or not what was planned."""
    outcome, reason, warnings = Outcome.RECOVERED, None, []
    planned, minimum = decision.log_end, partition.min_isr
    behind = planned is not None and lead.log_end < planned
    if lead.leader in partition.clean_members:
        outcome = Outcome.RECOVERED_CLEANLY
        reason = Reason("CleanMemberCameBack", f"broker {lead.leader}, a member of the ISR or ELR, leads")
        if behind:
            warnings.append(
                f"broker {lead.leader} came back with log end {lead.log_end}, but broker {decision.leader} was "
                f"measured with {planned}: what only the others hold will be truncated there"
            )
    elif lead.leader != decision.leader:
        outcome, reason = Outcome.FAILED, _elected_instead(decision, lead)
    elif behind:
        outcome = Outcome.FAILED
        reason = Reason(
            "LeaderBehindPlan", f"broker {lead.leader} leads with log end {lead.log_end}; planned was {planned}"
        )
    if outcome is Outcome.RECOVERED and minimum and look and len(look.isr) < minimum.value:
        outcome = Outcome.RECOVERED_UNDER_MIN_ISR
        message = (
            f"ISR has {len(look.isr)} of min.insync.replicas {minimum.value}: acks=all fails until replicas catch up"
        )
        reason = Reason("UnderMinIsr", message)
    if look and look.assignment not in (decision.assignment, decision.order):
        warnings.append(
            f"it is assigned to {list(look.assignment)}, planned with {list(decision.assignment)}: somebody else "
            "changed that meanwhile; see that no reassignment hangs (kafka-reassign-partitions.sh --list)"
        )
    return PartitionOutcome(
        decision.id, outcome, reason, lead.leader, lead.leader_epoch, lead.log_end, restored, tuple(warnings)
    )


def _elected_instead(decision: Decision, lead: Lead) -> Reason:
    equal = lead.leader in decision.equals and decision.leader in decision.equals
    compared = "their logs were equal, so nothing more is lost than planned" if equal else "it ranked lower"
    return Reason(
        "ElectedInstead",
        f"broker {lead.leader} leads with log end {lead.log_end}; planned was broker {decision.leader} with "
        f"{decision.log_end}: {compared}",
    )


def elected_by_others(id: TopicPartition, lead: Lead) -> PartitionOutcome:
    """The outcome where somebody else, or Kafka itself, elected a replica that was neither in the ISR nor the ELR."""
    reason = Reason(
        "AnotherLeader",
        f"broker {lead.leader} leads it and answers, though it was neither in the ISR nor in the ELR when the "
        "partition was seen offline: somebody else, or Kafka itself, elected it uncleanly",
    )
    return PartitionOutcome(id, Outcome.FAILED, reason, lead.leader, lead.leader_epoch, lead.log_end)


def online_already(id: TopicPartition, lead: Lead, longest: Offset | None) -> PartitionOutcome:
    """The outcome of a partition that needed no election. `longest`: the longest log measured while it was offline."""
    warnings: tuple[str, ...] = ()
    if longest is not None and lead.log_end < longest:
        warnings = (
            f"broker {lead.leader} came back with log end {lead.log_end}, but a replica was measured with {longest}: "
            f"{longest - lead.log_end} records will be truncated there",
        )
    reason = Reason("AlreadyOnline", f"broker {lead.leader} leads it and answers; this run elected nobody")
    return PartitionOutcome(
        id, Outcome.RECOVERED_CLEANLY, reason, lead.leader, lead.leader_epoch, lead.log_end, warnings=warnings
    )
