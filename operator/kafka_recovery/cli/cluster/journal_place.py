"""One cluster's place in the journal, as a person meets it: whether it is there, who holds it, what is stale in it."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka_recovery.cli.terminal.text import narrate
from kafka_recovery.decision.moments import moment
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.recovery.ports import JournalLocked

STALE = timedelta(days=7)
"""Age of a plan that nobody approved at which it is removed: what it measured holds no more."""
_HOLDER = "holder.json"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock and what for. `awaits`: the digest of the plan that a person is being asked to approve."""

    process: int
    who: str
    host: str
    command: str
    since: str
    awaits: str | None = None

    @classmethod
    def here(cls, command: str) -> Holder:
        """This process."""
        return cls(os.getpid(), user(), socket.gethostname(), command, _now())

    def __str__(self) -> str:
        return f"process {self.process} ({self.command} by {self.who} on {self.host}) since {self.since}"


@dataclass(frozen=True, slots=True)
class JournalPlace:
    """`<directory>/<cluster id>/`; `FileJournal` keeps the facts in it, this notes who holds it and what for."""

    root: Path
    holder: Holder

    @contextmanager
    def locked(self, journal: FileJournal) -> Iterator[FileJournal]:
        """The journal with its lock held and the holder's name beside it. Raises JournalLocked saying who holds it."""
        try:
            journal.__enter__()
        except JournalLocked as error:
            holder = self._other()
            raise (JournalLocked(_told(holder, self.root)) if holder else error) from None
        try:
            self._note(self.holder)
            yield journal
        finally:
            with suppress(OSError):
                (self.root / _HOLDER).unlink(missing_ok=True)
            journal.__exit__(None, None, None)

    def awaits(self, digest: str | None) -> None:
        """Let others know that a person is being asked to approve a plan; None: no more."""
        self._note(replace(self.holder, awaits=digest, since=_now() if digest else self.holder.since))

    def remove_stale_plans(self, now: datetime | None = None) -> None:
        """Remove plans that nobody approved in time, and say so."""
        journal = local_journal(self.root.parent, self.root.name)
        removed = journal.remove_unbegun((now or datetime.now(UTC)) - STALE)
        if removed:
            plans = f"{removed} plan{'' if removed == 1 else 's'}"
            narrate(f"removed from the journal: {plans} that nobody approved within {STALE.days} days")

    def _note(self, holder: Holder) -> None:
        """Not synced, and no error if it fails: it serves a message only, the lock is the kernel's."""
        partial = self.root / f".{_HOLDER}.partial"
        with suppress(OSError):
            partial.write_text(json.dumps(asdict(holder)), encoding="utf-8")
            partial.replace(self.root / _HOLDER)

    def _other(self) -> Holder | None:
        """Who holds the lock, if what is noted was noted by the process that does."""
        try:
            noted: dict[str, Any] = json.loads((self.root / _HOLDER).read_bytes())
            holder = Holder(**noted)
            locked_by = (self.root / "lock").read_text().strip()
        except (OSError, ValueError, TypeError):
            return None
        return holder if locked_by == str(holder.process) else None


def require_journal(place: Path, of: str = "") -> None:
    """Raise InvalidDocument if there is no such directory: where nothing was begun, nothing can be gone on with."""
    if not place.is_dir():
        raise InvalidDocument(
            f"there is no journal{of} in {place}: nothing was begun with it, and none was made; name the directory of "
            "the run with --journal, and run on the same machine as the same user"
        )


def user() -> str:
    """Who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"


def _told(holder: Holder, root: Path) -> str:
    if holder.awaits:
        return (
            f"another run holds the journal {root} and waits for approval of plan {holder.awaits[:12]}: {holder}. "
            f"Answer it at its terminal, or end it, which approves nothing: kill -INT {holder.process}"
        )
    return (
        f"another run holds the journal {root}: {holder}. Wait for it to end, or stop it (kill -INT {holder.process}): "
        "it can be resumed"
    )


def _now() -> str:
    return moment(datetime.now(UTC))
