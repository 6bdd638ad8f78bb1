"""How long the engine waits, and for what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of one wave.

    `quarantine`: how long a request may take effect after its relay has shown that it goes on (a KRaft broker forwards
    to the controller for 60 s). `relay`: how long a silent relay is waited for; its partitions stay in doubt then.
    `verify`: how long new leaders may take to answer, plus `verify_each` a partition (a broker needs about 5 ms for
    each). `poll`: between two questions to new leaders; `look`: between two readings of the metadata.
    """

    quarantine: timedelta = timedelta(seconds=60)
    relay: timedelta = timedelta(minutes=5)
    verify: timedelta = timedelta(seconds=30)
    verify_each: timedelta = timedelta(milliseconds=30)
    poll: timedelta = timedelta(milliseconds=20)
    look: timedelta = timedelta(seconds=1)
    rpc: timedelta = timedelta(seconds=10)

    def pause(self, pending: int) -> timedelta:
        """Between two questions about so many partitions: asking must not keep brokers from leading them."""
        return min(max(self.poll, timedelta(microseconds=200) * pending), timedelta(milliseconds=250))

    def patience(self, partitions: int) -> timedelta:
        """How long so many leaders may take to answer."""
        return self.verify + self.verify_each * partitions
