"""Port `Approvals` for the command line: a digest that was reviewed before, a person at the terminal, or nobody."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kafka_recovery.cli.cluster.journal_place import user
from kafka_recovery.cli.cluster.progress import Watching
from kafka_recovery.cli.terminal.naming import QUESTION, names
from kafka_recovery.cli.terminal.render import write_aside
from kafka_recovery.cli.terminal.tables import plan_table
from kafka_recovery.cli.terminal.text import say
from kafka_recovery.decision.card import AtHand, at_the_prompt
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.printable import printable
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.ports import Approvals

_ROWS_SHOWN = 40
_ENDS = "what is under way then is brought to its end."
_NOBODY = AtHand(begins="now", stop=f"interrupt this command (SIGINT); {_ENDS}")
_TYPING = AtHand(begins="once you have answered, also if you approve nothing", stop="press Ctrl-C and do not answer.")


class Asking(Approvals, Protocol):
    """Approvals that remember what they did not grant."""

    @property
    def missing(self) -> list[str]:
        """Digests of the plans that were not approved, oldest first."""
        ...

    def withdraw(self) -> None:
        """Nobody waits for an answer any more. Safe from a signal handler."""


Awaits = Callable[[str | None], None]
"""Told the digest that a person is being asked about, and None once they have answered."""


def approvals_here(watching: Watching, awaits: Awaits) -> Asking:
    """A person if there is one at the terminal, else nobody."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        return ApprovedByTyping(watching, awaits)
    return NobodyToAsk()


def approver(how: str) -> str:
    """Who runs this command, for the journal."""
    return f"{user()} ({how})"


class ApprovedDigest:
    """Exactly one plan was approved beforehand."""

    def __init__(self, digest: str) -> None:
        self._digest = digest
        self.missing: list[str] = []

    async def granted(self, plan: Plan, digest: str) -> str | None:
        """Yes to that plan; no to every other, however alike."""
        if digest == self._digest:
            return approver("--yes")
        self.missing.append(digest)

    async def standing(self, plan: Plan, digest: str) -> str | None:
        """The same word."""
        return approver("--yes") if digest == self._digest else None

    def withdraw(self) -> None:
        """Nobody waits."""


class NobodyToAsk:
    """No terminal: what needs approval is not done, and the plan is shown for whoever reads the log."""

    def __init__(self) -> None:
        self.missing: list[str] = []

    async def granted(self, plan: Plan, digest: str) -> str | None:
        """No."""
        self.missing.append(digest)
        write_aside(plan_table(plan, _ROWS_SHOWN, _NOBODY))

    async def standing(self, plan: Plan, digest: str) -> str | None:
        """Nobody said yes."""

    def withdraw(self) -> None:
        """Nobody waits."""


def word_for(digest: str, yes: bool) -> Asking:
    """What a person said about the one plan that is executed; nobody is asked any more."""
    return ApprovedDigest(digest) if yes else NobodyToAsk()


class ApprovedBefore(NobodyToAsk):
    """Whoever resumes a run of their own journal wants what they approved, and no more; nobody is asked."""

    def __init__(self, journal: FileJournal) -> None:
        super().__init__()
        self._journal = journal

    async def standing(self, plan: Plan, digest: str) -> str | None:
        """Who approved it when it began."""
        return await self._journal.approver(digest)


class ApprovedByTyping:
    """A person at the terminal reads the plan and types the beginning of its digest."""

    def __init__(self, watching: Watching, awaits: Awaits) -> None:
        self._watching = watching
        self._awaits = awaits
        self._answer: asyncio.Future[str] | None = None
        self._withdrawn = False
        self._approved: dict[str, str] = {}
        self.missing: list[str] = []

    async def granted(self, plan: Plan, digest: str) -> str | None:
        """Show the plan and ask; anything but the digest's beginning is a no."""
        self._watching.hide()
        write_aside(plan_table(plan, _ROWS_SHOWN, _TYPING))
        for sentence in at_the_prompt(plan, _TYPING):
            say(sentence)
        self._awaits(digest)
        try:
            typed = await self._ask(f"{QUESTION} ")
        finally:
            self._awaits(None)
        if names(typed, digest):
            self._approved[digest] = approver("typed")
            return self._approved[digest]
        self.missing.append(digest)

    async def standing(self, plan: Plan, digest: str) -> str | None:
        """What was typed."""
        return self._approved.get(digest)

    def withdraw(self) -> None:
        """As if nothing had been typed."""
        self._withdrawn = True
        self._settle("")

    async def _ask(self, question: str) -> str:
        if self._withdrawn:
            return ""
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        with suppress(OSError):  # a terminal that went away gives an empty answer, which is a no
            print(printable(question), end="", file=sys.stderr, flush=True)
        # A thread that waits for input could not be told to stop; the terminal says itself when there is a line.
        loop.add_reader(sys.stdin.fileno(), lambda: self._settle(sys.stdin.readline()))
        try:
            return await self._answer
        finally:
            loop.remove_reader(sys.stdin.fileno())

    def _settle(self, answer: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)
