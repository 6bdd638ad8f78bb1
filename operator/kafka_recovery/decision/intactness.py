"""Whose copy still holds what it held: concluded from the starts of its broker, the only moments that can take it away.

A process that goes on loses nothing. A new one has what the old one had if that had flushed its logs, or if the same
boot of the same host kept what was written (page cache) on the same disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kafka_recovery.domain.elr import elections, some_leader_was_no_member
from kafka_recovery.domain.history import BrokerStart, HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import BrokerId


def is_intact(broker: BrokerId, history: PartitionHistory) -> bool:
    """Whether its copy is proven to hold all that it held when it was last in sync, as of the history."""
    return _kept(broker, history.steps, history.starts, history.as_of)


def began_uncleanly(history: PartitionHistory) -> bool:
    """Whether some leader of the history may have lacked an acknowledged record when it was elected.

    It was no member, or it came back to lead, not proven to be intact: a sole ISR member that registers anew is
    elected, whatever it has lost.
    """
    steps = history.steps
    return some_leader_was_no_member(steps) or any(
        not _kept(leader, steps[:place], history.starts, steps[place].since) for place, leader in elections(steps)
    )


def _kept(broker: BrokerId, steps: Sequence[HistoryStep], starts: Sequence[BrokerStart], until: int) -> bool:
    """Whether none of its starts, since it was last taken into the ISR, may have cost it a record."""
    joined = _joined(broker, steps)
    own = sorted([start for start in starts if start.broker == broker and start.epoch <= until], key=_epoch)
    if joined is None or not own or own[0].epoch > joined:
        return False
    return all(_kept_by(before, after) for before, after in pairwise(own) if after.epoch > joined)


def _epoch(start: BrokerStart) -> int:
    return start.epoch


def _joined(broker: BrokerId, steps: Sequence[HistoryStep]) -> int | None:
    """Since when it was last in the ISR, or stayed behind in the ELR; None: it never was."""
    since: int | None = None
    member = False
    for step in steps:
        in_sync = broker in step.isr or (member and broker in (step.elr or ()))
        if in_sync and not member:
            since = step.since
        member = in_sync
    return since


def _kept_by(before: BrokerStart, after: BrokerStart) -> bool:
    """Whether a start found what the process before it had."""
    disks = ((before.directory, after.directory), (before.volume, after.volume))
    if any(was is not None and now is not None and was != now for was, now in disks):
        return False
    if after.stopped_cleanly or (after.incarnation is not None and after.incarnation == before.incarnation):
        return True
    return all(was is not None and was == now for was, now in (*disks, (before.boot, after.boot)))
