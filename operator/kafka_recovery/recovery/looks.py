"""What a look at a partition's metadata means for its run."""

from __future__ import annotations

from kafka_recovery.domain.election import Leadership, Sighting, Unseen
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.outcomes import lead_of, leader_died, leader_of_before, leader_silent, topic_gone
from kafka_recovery.recovery.partition_run import (
    Ending,
    Led,
    LedMeanwhile,
    NotLed,
    PartitionRun,
    State,
    is_gone,
    leads_since,
)


def settle(run: PartitionRun, look: Sighting, *, elected: bool, overdue: bool) -> None:
    """What a look shows while the designated leader does not answer; nothing where that does not settle it."""
    if is_gone(look, run.decision):
        run.apply(NotLed(topic_gone(run.id), Ending.AGAIN))
    elif not isinstance(look, Leadership):
        if overdue:
            ending = Ending.UNKNOWN if run.held else Ending.AGAIN
            run.apply(NotLed(look.reason, ending))
    elif (lead := lead_of(look)) and leads_since(lead, run.decision):
        run.apply(Led(lead))
    elif look.leader is None and look.leader_epoch > run.decision.leader_epoch:
        run.apply(NotLed(leader_died(run.decision, look), Ending.AGAIN))
    elif look.leader is None and (overdue or not elected):
        why = Reason("NotElected", "the election took no effect: the partition has no leader")
        run.apply(NotLed(why, Ending.AGAIN))
    elif lead and overdue:
        run.apply(NotLed(leader_of_before(lead), Ending.AGAIN))
    elif overdue:
        run.look = look
        run.apply(NotLed(leader_silent(look), Ending.FAILED))


def see_it_still_lead(run: PartitionRun, look: Sighting) -> None:
    """A leader that answered, in the light of a later look: it may have died or been replaced meanwhile."""
    if is_gone(look, run.decision):
        run.apply(NotLed(topic_gone(run.id), Ending.AGAIN))
    elif isinstance(look, Leadership) and run.lead and look.leader_epoch > run.lead.leader_epoch:
        if look.leader is None:
            run.apply(NotLed(leader_died(run.decision, look), Ending.AGAIN))
        elif lead := lead_of(look):
            run.apply(Led(lead))
        else:
            run.apply(NotLed(leader_silent(look), Ending.FAILED))


def see_who_led_meanwhile(run: PartitionRun, look: Sighting) -> None:
    """What a look shows of an election that the controller refused, or had no need to hold.

    A broker that loses its way to the controller sends a request once more (`NodeToControllerChannelManager`): the
    first one may have elected, and the answer to the second one does not tell. Where the look does not tell either, it
    is looked at again.
    """
    if run.state is not State.LEADERLESS or run.held or not run.sent:
        return
    if isinstance(look, Unseen):
        run.apply(LedMeanwhile(look.reason, Ending.UNKNOWN))
    elif isinstance(look, Leadership) and not is_gone(look, run.decision) and _may_be_ours(run, look):
        if look.leader is not None:
            run.apply(LedMeanwhile(None, Ending.AGAIN))
        else:
            told = look.leader_epoch == run.decision.leader_epoch + 2 and look.isr  # the one in the ISR
            run.apply(LedMeanwhile(leader_died(run.decision, look), Ending.AGAIN if told else Ending.UNKNOWN))


def _may_be_ours(run: PartitionRun, look: Leadership) -> bool:
    """Whether somebody led since whom our election may have made the leader; a clean member leads by itself.

    Each leader raises the leader epoch by one, and so does its loss. An election that is not clean leaves its leader
    alone in the ISR. With an ELR the ISR is empty once that one is gone, and nothing tells who it was.
    """
    since = look.leader_epoch - run.decision.leader_epoch
    members = run.clean_members - {run.decision.leader}
    if look.leader is not None:
        return since > 1 or (since == 1 and look.leader not in members)
    return since > 2 or (since == 2 and not (look.isr and members.issuperset(look.isr)))


def see_what_came(run: PartitionRun, look: Sighting) -> None:
    """Move a run none of whose requests is under way to what a look shows."""
    lead = None if is_gone(look, run.decision) else lead_of(look)
    if isinstance(look, Leadership) and lead is not None and leads_since(lead, run.decision):
        run.apply(Led(lead))
        run.look = look
    elif run.state is State.ELECTED:
        settle(run, look, elected=False, overdue=True)
