"""How many recoveries of one cluster are open at a time, and with how many partitions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.reason import Reason

NO_ROOM = Decisive.TOO_MANY_RECOVERIES


class Used(NamedTuple):
    """Recoveries that are open, and their partitions that have no end yet."""

    recoveries: int = 0
    partitions: int = 0

    def plus(self, partitions: int) -> Used:
        """With one recovery more."""
        return Used(self.recoveries + 1, self.partitions + partitions)


NOTHING = Used()


@dataclass(frozen=True, slots=True)
class Room:
    """The most there may be. `whose`: of which recoveries, for messages."""

    whose: str
    recoveries: int
    partitions: int

    def lacking(self, used: Used, partitions: int) -> Reason | None:
        """Why one with so many partitions more has no room, if so.

        One alone has: what is offline may be more than any bound. The words are the same as long as the cause is, since
        each change of them is a write for every recovery that waits.
        """
        if not used.recoveries:
            return None
        if used.recoveries >= self.recoveries:
            why = f"{self.recoveries} recoveries of this cluster {self.whose} are open, which is the most there may be"
        elif used.partitions + partitions > self.partitions:
            why = (
                f"it has {partitions} partitions, and with those of other recoveries of this cluster {self.whose} "
                f"that would be more than {self.partitions}"
            )
        else:
            return None
        return Reason(NO_ROOM, f"{why}; it begins when there is room: abort or delete those that nobody needs")


OTHERS = Room("that people or programs opened", 500, 20_000)
"""For whatever the operator did not open itself. One recovery may name 20,000 partitions; `make bench` measures what so
many cost that wait."""

INCIDENTS = Room("that were opened from incidents", 500, 200_000)
"""For what it opened, which nobody else can use up. All partitions of a large Kafka may be offline at once."""
