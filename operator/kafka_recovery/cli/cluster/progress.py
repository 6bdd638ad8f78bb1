"""Port `Observer` on stderr: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kafka_recovery.cli.terminal import words
from kafka_recovery.cli.terminal.reasons import Repeats
from kafka_recovery.cli.terminal.render import cell
from kafka_recovery.cli.terminal.text import is_quiet, narrate
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ports import Observer


class Watching(Observer, Protocol):
    """An observer that can make room on the terminal for a question."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        ...

    def hide(self) -> None:
        """Show nothing until there is progress again."""


def watching() -> Watching:
    """The observer that suits stderr; with --quiet, one whose lines nobody sees."""
    return ProgressBar() if sys.stderr.isatty() and not is_quiet() else PlainLines()


class PlainLines:
    """One line an event; the same refusal again and again is counted."""

    def __init__(self) -> None:
        self._repeats = Repeats(narrate)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()

    def hide(self) -> None:
        """Leave nothing unsaid."""
        self._repeats.flush()

    def decided(self, plan: Plan, took: timedelta) -> None:
        """Nothing: what will be done is told when it is durable."""

    def planned(self, plan: Plan, digest: str) -> None:
        """Say what will be done."""
        self._repeats.flush()
        narrate(f"plan {digest[:12]}: {words.verdicts(plan)} {words.waves(plan)} {words.loss_classes(plan)}")

    def wave_started(self, wave: int, waves: int, partitions: int) -> None:
        """Say which wave it is."""
        self._repeats.flush()
        narrate(f"wave {wave} of {waves}: {partitions} partition{'' if partitions == 1 else 's'}")

    def concluded(self, outcome: PartitionOutcome) -> None:
        """Say what became of the partition."""
        self._repeats.concluded(outcome)

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """Say what for."""
        self._repeats.flush()
        narrate(f"waiting {words.seconds(duration)}: {why}")


class ProgressBar:
    """Partitions concluded, refused ones too, of all that are known; only what a person must read scrolls by."""

    def __init__(self) -> None:
        console = _LastingConsole(stderr=True, markup=False, highlight=False, emoji=False)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._task: TaskID = self._progress.add_task("partitions", total=0)
        self._known: set[TopicPartition] = set()
        self._concluded: set[TopicPartition] = set()
        self._least = 0
        self._repeats = Repeats(self._print)
        self._waits_for: Reason | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()

    @property
    def counted(self) -> tuple[int, int]:
        """How many partitions are concluded, of how many."""
        return len(self._concluded), max(len(self._known | self._concluded), self._least)

    def hide(self) -> None:
        """Take the bar away."""
        self._repeats.flush()
        with _whatever_the_terminal_does():
            self._progress.stop()

    def decided(self, plan: Plan, took: timedelta) -> None:
        """Nothing: what will be done is told when it is durable."""

    def planned(self, plan: Plan, digest: str) -> None:
        """Count what is to come: every partition of the plan gets its outcome, elected or not."""
        self._known.update(decision.id for decision in plan.decisions)
        self._known.update(missing.id for missing in plan.evidence.missing)
        self._count()

    def wave_started(self, wave: int, waves: int, partitions: int) -> None:
        """Show the wave's number; a resumed run has no plan that was made now, only waves."""
        self._least = len(self._concluded) + partitions
        self._repeats.flush()
        with _whatever_the_terminal_does():
            self._progress.start()
            self._progress.update(self._task, description=f"wave {wave} of {waves}")
        self._count()

    def concluded(self, outcome: PartitionOutcome) -> None:
        """One more, or the same one again; in words only if it is not simply recovered."""
        self._concluded.add(outcome.id)
        self._count()
        if outcome.warnings or not outcome.outcome.is_recovered:
            self._repeats.concluded(outcome)

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """Say what for, once."""
        if why != self._waits_for:
            self._waits_for = why
            self._repeats.flush()
            self._print(f"waiting {words.seconds(duration)}: {why}")

    def _count(self) -> None:
        concluded, known = self.counted
        with _whatever_the_terminal_does():
            self._progress.update(self._task, completed=concluded, total=known)

    def _print(self, text: str) -> None:
        with _whatever_the_terminal_does():
            self._progress.console.print(cell(text))


class _LastingConsole(Console):
    """A console whose terminal may go away: rich would end the process, in the middle of a wave."""

    def on_broken_pipe(self) -> None:
        """Say no more."""
        self.quiet = True


@contextmanager
def _whatever_the_terminal_does() -> Iterator[None]:
    """An observer must not raise: a closed terminal is no reason to leave a wave half done."""
    with suppress(OSError, ValueError):
        yield
