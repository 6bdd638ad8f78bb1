"""What is said of a partition whose run is over, or that was found with a leader. Pure: values in, outcomes out."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_recovery.domain.election import Lead, Leadership, Relay, Sighting
from kafka_recovery.domain.ids import Offset, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.partition_run import Ending, PartitionRun, State

MINIMUM_UNREAD = "min.insync.replicas could not be read, so whether producers with acks=all can write is not known"


def outcome_of(run: PartitionRun) -> PartitionOutcome | None:
    """What became of a partition whose run is over; None: its order is the original one, and it is to be decided again.

    While its order is the election's it is not decided again: a plan would take that order for the original one.
    """
    why = run.reason
    if run.lead is not None:
        return _out_of_sight(run, run.lead, run.unseen) if run.unseen else verified(run, run.lead)
    if run.ending is Ending.FAILED:
        look = run.look
        leader, epoch = (look.leader, look.leader_epoch) if look else (None, None)
        return PartitionOutcome(run.id, Outcome.FAILED, why, leader, epoch, None, run.restored)
    if run.ending is Ending.REFUSED:
        elected_before = any(not each.cut_short for each in run.earlier)
        outcome = Outcome.FAILED if elected_before else Outcome.REFUSED
        return PartitionOutcome(run.id, outcome, why, order_restored=run.restored)
    if run.ending is Ending.UNKNOWN or run.state is State.ALTERED:
        return PartitionOutcome(run.id, Outcome.IN_DOUBT, why, order_restored=run.restored)
    return None


def _out_of_sight(run: PartitionRun, lead: Lead, unseen: Reason) -> PartitionOutcome:
    """A leader that answered and may have gone since: nobody could be asked about it any more."""
    message = f"broker {lead.leader} led it in epoch {lead.leader_epoch}; since then it was not to be seen: {unseen}"
    reason = Reason("InDoubt", message)
    return PartitionOutcome(run.id, Outcome.IN_DOUBT, reason, order_restored=run.restored)


def verified(run: PartitionRun, lead: Lead) -> PartitionOutcome:
    """The outcome where a leader of a newer epoch answers: a planned one, a clean member, or neither.

    The replica that any of the partition's plans designated and elected counts as planned.
    """
    elections = (run, *reversed(run.earlier))
    elected_by = [each for each in elections if each is run or _may_lead_since(each, run, lead)]
    decision = next((each.decision for each in elected_by if each.decision.leader == lead.leader), run.decision)
    member, planned = lead.leader in run.clean_members, lead.leader == decision.leader
    behind = decision.log_end is not None and lead.log_end < decision.log_end
    ours = any(each.held for each in elections)
    clean = member and not ours and lead.leader_epoch == decision.leader_epoch + 1
    outcome, reason = Outcome.RECOVERED, None
    if clean:
        outcome = Outcome.RECOVERED_CLEANLY
        reason = Reason("AlreadyOnline", f"broker {lead.leader}, a member of the ISR or ELR, leads")
    elif planned and behind:
        outcome, reason = Outcome.FAILED, _behind(decision, lead)
    elif not planned and run.verified and lead.log_end >= run.verified.log_end:
        reason = _handed_over(run.verified, lead)
    elif not planned and member:
        reason = _member_leads(decision, lead)
    elif not planned:
        outcome, reason = Outcome.FAILED, _another_leader(run, decision, lead)
    warnings = [_came_back_with_less(decision, lead)] if behind and member else []
    if outcome is Outcome.RECOVERED and (under := _under_min_isr(run, lead)):
        warnings += [under.message] if reason else []
        outcome, reason = Outcome.RECOVERED_UNDER_MIN_ISR, reason or under
    if outcome is Outcome.RECOVERED and run.min_isr is None:
        warnings.append(MINIMUM_UNREAD)
    warnings += _warnings(run, lead)
    return PartitionOutcome(
        run.id, outcome, reason, lead.leader, lead.leader_epoch, lead.log_end, run.restored, tuple(warnings)
    )


def _may_lead_since(earlier: PartitionRun, run: PartitionRun, lead: Lead) -> bool:
    """Whether who leads may do so by an earlier run's election, and not by that of `run` with another leader.

    The plan of `run` saw nobody lead in its epoch, and nothing of the earlier run was under way any more. So a newer
    epoch is the earlier run's work only where that had put its leader into the ISR or the ELR.
    """
    return lead.leader_epoch <= run.decision.leader_epoch or earlier.decision.leader in run.evidence.clean_members


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


def elected_by_others(id: TopicPartition, lead: Lead) -> PartitionOutcome:
    """The outcome where a replica leads that was neither in the ISR nor in the ELR, and no run of ours elected it."""
    reason = _by_others(lead)
    return PartitionOutcome(id, Outcome.FAILED, reason, lead.leader, lead.leader_epoch, lead.log_end)


def elected_by_name(id: TopicPartition, lead: Lead) -> PartitionOutcome:
    """The outcome in a topic made anew, where an election that was meant for the one before may have been held.

    Kafka's request names topics, and has no field for their ids (KIP-460).
    """
    reason = Reason(
        "UnexpectedLeader",
        f"broker {lead.leader} leads it and answers, in a topic that was made anew under this name; this run had asked "
        "to elect a leader in the topic before, and that request may have elected this one, uncleanly",
    )
    return PartitionOutcome(id, Outcome.FAILED, reason, lead.leader, lead.leader_epoch, lead.log_end)


def lead_of(look: Sighting) -> Lead | None:
    """The leader, if it answered itself."""
    if not isinstance(look, Leadership) or look.leader is None or look.log_end is None:
        return None
    return Lead(look.leader, look.leader_epoch, look.log_end)


def lead_in(outcome: PartitionOutcome) -> Lead | None:
    """The leader that an outcome names, if it answered."""
    if outcome.leader is None or outcome.leader_epoch is None or outcome.log_end is None:
        return None
    return Lead(outcome.leader, outcome.leader_epoch, outcome.log_end)


def is_silent(look: Sighting) -> bool:
    """Whether the metadata shows a leader that does not answer as one."""
    return isinstance(look, Leadership) and look.leader is not None and look.log_end is None


def silently_replaced(run: PartitionRun, look: Sighting) -> bool:
    """Whether another leader followed the one that answered, and has not answered yet."""
    newer = isinstance(look, Leadership) and run.lead is not None and look.leader_epoch > run.lead.leader_epoch
    return newer and is_silent(look)


def leader_silent(look: Leadership) -> Reason:
    """A leader by the metadata only is none."""
    message = f"broker {look.leader} leads by the metadata, but does not answer as leader"
    return look.problem or Reason("LeaderUnresponsive", message)


def leader_of_before(lead: Lead) -> Reason:
    """A leader of an epoch that is over answers still, or is shown by metadata from before."""
    message = (
        f"broker {lead.leader} leads it in epoch {lead.leader_epoch} by what is to be seen now, but it was seen "
        "without a leader in that epoch or a newer one: these metadata are old"
    )
    return Reason("StaleMetadata", message)


def topic_gone(id: TopicPartition) -> Reason:
    """Nothing is left of what was planned for."""
    return Reason("PartitionGone", f"topic {id.topic} was deleted or recreated while its leader was being elected")


def relay_silent(relay: Relay) -> Reason:
    """Why a request that was not answered is waited for."""
    broker = f"{relay.host}:{relay.port}" if relay.broker is None else f"{relay.broker} ({relay.host}:{relay.port})"
    return Reason("RelaySilent", f"a request went through broker {broker}, which gives no sign of life: it may hold it")


def leader_died(decision: Decision, look: Leadership) -> Reason:
    """It was elected in a newer epoch, and that ended."""
    message = (
        f"a leader was elected after epoch {decision.leader_epoch} (planned: broker {decision.leader}), and is gone"
    )
    return Reason("LeaderGone", f"{message} again in epoch {look.leader_epoch}")


def _behind(decision: Decision, lead: Lead) -> Reason:
    planned = f"planned was {decision.log_end}"
    return Reason("LeaderBehindPlan", f"broker {lead.leader} leads with log end {lead.log_end}; {planned}")


def _another_leader(run: PartitionRun, decision: Decision, lead: Lead) -> Reason:
    perhaps_never_held = run.cut_short and lead.leader_epoch > decision.leader_epoch + 1
    if (not run.held or perhaps_never_held) and not run.earlier:
        return _by_others(lead)
    equal = lead.leader in decision.equals and decision.leader in decision.equals
    compared = "their logs were equal, so nothing more is lost than planned" if equal else "it ranked lower"
    return Reason(
        "UnexpectedLeader",
        f"broker {lead.leader} leads with log end {lead.log_end}; planned was broker {decision.leader} with "
        f"{decision.log_end}: {compared}",
    )


def _by_others(lead: Lead) -> Reason:
    return Reason(
        "UnexpectedLeader",
        f"broker {lead.leader} leads it and answers, though it was neither in the ISR nor in the ELR when the "
        "partition was seen offline: somebody else, or Kafka itself, elected it uncleanly",
    )


def _handed_over(verified: Lead, lead: Lead) -> Reason:
    """Leaders change as brokers are restarted, and as preferred leaders are elected: that is no failure of this one."""
    return Reason(
        "Recovered",
        f"broker {verified.leader} led it in epoch {verified.leader_epoch}, as planned; since then leadership went on, "
        f"and broker {lead.leader} leads in epoch {lead.leader_epoch} with log end {lead.log_end}",
    )


def _member_leads(decision: Decision, lead: Lead) -> Reason:
    """KAFKA-19522 and ordinary hand-overs: a member of the ISR that leads later need not have been elected cleanly."""
    return Reason(
        "MemberLeads",
        f"broker {lead.leader}, a member of the ISR or ELR when the plan was made at epoch {decision.leader_epoch}, "
        f"leads in epoch {lead.leader_epoch}; planned was broker {decision.leader}. An election was, or may have "
        "been, held in between: this is not called clean",
    )


def _under_min_isr(run: PartitionRun, lead: Lead) -> Reason | None:
    """Metadata in which nobody leads yet show the ISR from before the election, which left the leader alone in it."""
    minimum, look = run.min_isr, run.look
    if minimum is None or look is None:
        return None
    isr = look.isr if look.leader is not None else (lead.leader,)
    if len(isr) >= minimum.value:
        return None
    message = f"ISR has {len(isr)} of min.insync.replicas {minimum.value}: acks=all fails until replicas catch up"
    return Reason("RecoveredUnderMinIsr", message)


def _came_back_with_less(decision: Decision, lead: Lead) -> str:
    return (
        f"broker {lead.leader} came back with log end {lead.log_end}, but broker {decision.leader} was "
        f"measured with {decision.log_end}: what only the others hold will be truncated there"
    )


def _warnings(run: PartitionRun, lead: Lead) -> Iterator[str]:
    decision, look = run.decision, run.look
    if lead.leader in run.clean_members and lead.leader not in run.isr_before:
        yield (
            f"broker {lead.leader} was in the ELR: if its process was killed, Kafka took it out and elected it as the "
            "last known leader, which is no clean election"
        )
    if run.unrestored is not None:
        yield f"its assignment order could not be put back: {run.unrestored.message}"
    if look is not None and look.assignment not in (decision.assignment, decision.order):
        yield (
            f"it is assigned to {list(look.assignment)}, planned with {list(decision.assignment)}: somebody else "
            "changed that meanwhile; see that no reassignment hangs (kafka-reassign-partitions.sh --list)"
        )
