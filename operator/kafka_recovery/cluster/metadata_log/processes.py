"""Which processes brokers had, by their registrations, and which log directories each of them has.

Sources: KIP-631 (registrations, incarnations), KIP-858 (directories).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from kafka_recovery.cluster.metadata_log.records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from kafka_recovery.domain.history import MOST_STEPS


@dataclass(frozen=True, slots=True)
class Registration:
    """A process of a broker, or the same one anew after the controller had lost it: then with the same incarnation.

    `directories`: all that it began with; `failed`: those of them that have failed since, or may have.
    """

    epoch: int
    incarnation: UUID
    directories: frozenset[UUID]
    failed: frozenset[UUID] = frozenset()


@dataclass(slots=True)
class Processes:
    """The fold over the records that tell of them. `known`: each broker's registrations, oldest first.

    `anew`: the brokers of which another process has begun, until somebody clears it. `unseen`: those of whose running
    process it is not known which copies it moved between its directories.
    """

    known: dict[int, list[Registration]] = field(default_factory=dict)
    anew: set[int] = field(default_factory=set)
    unseen: set[int] = field(default_factory=set)

    def replay(self, record: Any) -> None:
        """The next one of these; any other tells nothing."""
        match record:
            case RegisterBrokerRecord():
                known = self.known.setdefault(record.broker_id, [])
                directories = frozenset(record.log_dirs or ())
                if known and known[-1].incarnation != record.incarnation_id:
                    self.anew.add(record.broker_id)
                known.append(Registration(record.broker_epoch, record.incarnation_id, directories))
                del known[: -2 * MOST_STEPS]
            case BrokerRegistrationChangeRecord() if record.log_dirs is not None:
                known = self.known.get(record.broker_id, [])
                if known and known[-1].epoch == record.broker_epoch:
                    known[-1] = replace(known[-1], failed=known[-1].directories - frozenset(record.log_dirs))

    @property
    def may_move(self) -> set[int]:
        """The brokers whose newest process has several directories."""
        return {id for id, known in self.known.items() if known and len(known[-1].directories) > 1}

    def lose(self) -> None:
        """A record that may tell of directories that failed can't be read: all of them may have."""
        for known in self.known.values():
            known[-1:] = [replace(each, failed=each.directories) for each in known[-1:]]

    def directories_of(self, id: int) -> frozenset[UUID]:
        """What the broker's newest process has, and has not lost."""
        known = self.known.get(id, [])
        return known[-1].directories - known[-1].failed if known else frozenset()

    def has_all(self, id: int) -> bool:
        """Whether the broker's newest process has each directory of the one before it, none of which had failed.

        Of those that are left each says that the one before had stopped cleanly, and the controller believes it.
        """
        *earlier, now = self.known[id]
        before = [each for each in earlier if each.incarnation == earlier[-1].incarnation]
        return bool(before) and not any(each.failed or each.directories - now.directories for each in before)

    def since(self, id: int, offset: int) -> Sequence[Registration]:
        """The registration of the process that ran at this offset, and every later one."""
        known = self.known.get(id, [])
        running = max((place for place, each in enumerate(known) if each.epoch <= offset), default=0)
        return known[running:]

    def began(self, id: int | None) -> int | None:
        """The epoch of the first registration of the broker's newest process."""
        known = self.known.get(id, []) if id is not None else []
        began = None
        for each in reversed(known):
            if began is not None and each.incarnation != known[-1].incarnation:
                break
            began = each.epoch
        return began
