"""What brokers say of their log directories (DescribeLogDirs): which have failed, and how much room the others have."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.reason import Reason


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One entry of a broker's `log.dirs`, as it was when the broker was asked.

    `error`: Kafka's name of what it answered with (KIP-113: KAFKA_STORAGE_ERROR, the directory is offline); None: it is
    online. Kafka tells neither why a directory failed nor since when, and not which copies lay in it.
    `total_bytes`, `usable_bytes`: of the volume (KIP-827); None: not told, as of a directory that has failed.
    `copies`, `incoming`: those of the partitions looked at that lie there, or are being moved there. None: not asked,
    which is done only where a broker has several directories, and one of them failed or is almost full.
    """

    path: str
    error: str | None = None
    total_bytes: int | None = None
    usable_bytes: int | None = None
    copies: tuple[TopicPartition, ...] | None = None
    incoming: tuple[TopicPartition, ...] | None = None

    @property
    def is_almost_full(self) -> bool:
        """Whether less than 1 GiB, and less than 5 %, is left of its volume: the next appends may find no room."""
        total, usable = self.total_bytes, self.usable_bytes
        return total is not None and usable is not None and usable < _LITTLE and usable * 20 < total

    @property
    def has_room(self) -> bool:
        """Whether it is online and its volume was said to have room."""
        return self.error is None and None not in (self.total_bytes, self.usable_bytes) and not self.is_almost_full


_LITTLE = 1 << 30


@dataclass(frozen=True, slots=True)
class BrokerDirectories:
    """All of one broker's. `problem`: why it told of none; what is in them is unknown then."""

    broker: BrokerId
    directories: tuple[LogDirectory, ...] = ()
    problem: Reason | None = None

    def homes(self) -> Callable[[TopicPartition], LogDirectory | None]:
        """Tells where a copy of it lies, as far as it was told: of thousands it is asked, so it is made once."""
        if len(self.directories) == 1:
            return lambda _: self.directories[0]
        return {id: each for each in self.directories for id in each.copies or ()}.get

    def almost_full(self, held: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Those of these copies, which it was asked about, whose volume has almost no room left."""
        home = self.homes()
        return frozenset(id for id in held if (there := home(id)) and there.is_almost_full)
