"""What engines were told of disks, held against the true ones: room on volumes, and where logs begin on them."""

from __future__ import annotations

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Looked
from kafka_recovery.simulator.histories.findings import Examined, unless
from kafka_recovery.simulator.histories.scenario import Kind, Scenario


def disks_are_as_told(story: Chronicle, scenario: Scenario) -> Examined:
    """A copy is said to have no room if that is so, and to begin on its broker's disk where it does.

    Of a volume that its broker did not tell of this time, what it told before may be said, or nothing.
    """
    if story.filled:
        for look in story.looked:
            yield from _room(story, look)
    if any(fault.kind is Kind.CLEANED_DISK for fault in scenario.faults):
        for look in story.looked:
            yield from _local_starts(look)


def has_no_room(story: Chronicle, digest: str, broker: BrokerId | None, until: float) -> bool:
    """Whether a broker's volume was full from before the look that a plan was made on until then."""
    kept, plan = next((kept, plan) for kept, plan in story.plans() if kept.digest == digest)
    looks = [look for look in story.looked if look.process == kept.process and look.at <= kept.at]
    looked = next((look for look in reversed(looks) if look.evidence == plan.evidence), None)
    if broker is None or looked is None:
        return False
    return _fullness(story, broker, _began(looked), until) == {True}


def is_full(story: Chronicle, broker: BrokerId, at: float) -> bool:
    """Whether its volume is full at that moment."""
    return _fullness(story, broker, at, at) == {True}


def _room(story: Chronicle, look: Looked) -> Examined:
    told = {its.broker for its in look.evidence.cluster.log_directories if not its.problem}
    for partition in look.evidence.partitions:
        for replica in partition.replicas:
            if replica.log is None:
                continue
            since = _began(look) if replica.broker in told else 0.0
            true = _fullness(story, replica.broker, since, look.at)
            if replica.broker not in told:
                true |= {False}
            said = "full" if replica.log.almost_full else "not full"
            text = (
                f"{look.process} takes broker {replica.broker}'s volume for {said}, which it was not since {since:.3f}"
            )
            yield unless(replica.log.almost_full in true, look.at, text)


def _local_starts(look: Looked) -> Examined:
    for partition in look.evidence.partitions:
        for replica in partition.replicas:
            copy = look.copies.get((partition.id, replica.broker))
            log = replica.log
            if log is None or log.local_start is None or copy is None or log.end != copy.end:
                continue  # or it moved on since it was measured
            start = log.local_start
            text = f"{look.process} sees broker {replica.broker}'s log of {partition.id} begin at {start} on its disk"
            yield unless(start == copy.local_start, look.at, f"{text}; it begins at {copy.local_start}")


def _fullness(story: Chronicle, broker: BrokerId, since: float, until: float) -> set[bool]:
    """All that was so of its volume between these two moments."""
    its = [filled for filled in story.filled if filled.broker == broker]
    at_first = next((filled.full for filled in reversed(its) if filled.at <= since), False)
    return {at_first, *(filled.full for filled in its if since < filled.at <= until)}


def _began(look: Looked) -> float:
    return look.at - look.evidence.cluster.took.total_seconds()
