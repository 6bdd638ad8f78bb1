"""What somebody else is doing to a cluster, by which offline partitions may come back without us. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from kafka_recovery.cluster.scan import OfflinePartition
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason

LONGEST_WAIT = timedelta(minutes=10)
"""Of one outage, counted from when it was first seen. A broker that restarts is back within five minutes, unless it has
to recover long logs (Strimzi itself gives a Pod as long to become ready: STRIMZI_OPERATION_TIMEOUT_MS), and one more
try may follow. Who is not back then may never be: a Pod that fits on no node looks the same as one that will start."""

ASK_AGAIN = timedelta(seconds=1)
"""So often it is looked whether they are done: that is how late an incident may be."""

STRIMZI_AT_WORK = Decisive.STRIMZI_AT_WORK
UNSEEN = Decisive.OBJECTS_UNREADABLE
WAITS = frozenset({STRIMZI_AT_WORK, UNSEEN})
"""Codes of the reasons why an incident that is due is held back for what others do."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Brokers that somebody restarts, and why everything else has to wait too, if it does."""

    restarting: Mapping[BrokerId, Reason] = field(default_factory=dict)
    everything: Reason | None = None

    def holding(self, partition: OfflinePartition, outage: timedelta) -> Reason | None:
        """Why no incident is opened for it yet, after it was offline for so long.

        Only members of its ISR or ELR bring it back (KIP-966); a broker that lags behind may restart as it likes. If
        both are empty the controller knows of none, and it may be any.
        """
        if outage >= LONGEST_WAIT:
            return None
        for broker in (*partition.isr, *partition.elr) or partition.assignment:
            if broker in self.restarting:
                return self.restarting[broker]
        return self.everything


NO_WAITS = Waits()


class Others(Protocol):
    """Who else is at work on a cluster."""

    async def at_work(self) -> Waits:
        """What they do now; never an old picture. Raises nothing: what can't be seen is a reason to wait."""
        ...
