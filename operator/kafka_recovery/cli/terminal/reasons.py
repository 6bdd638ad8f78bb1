"""The same reason for hundreds of partitions, told once and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kafka_recovery.cli.terminal import words
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.reason import Reason

_IN_FULL = 3
"""Different sentences with the same code that are written out."""
_SENTENCES = 20
_REMEDIES = 8


@dataclass(frozen=True, slots=True)
class Told:
    """A reason about one partition; `where` says more exactly about what, such as one replica of it."""

    id: TopicPartition
    reason: Reason
    where: str = ""

    @property
    def likeness(self) -> Reason:
        """The reason without the partition's name: what many partitions may have in common."""
        return Reason(self.reason.code, self.reason.message.replace(str(self.id), "…"))

    def __str__(self) -> str:
        return f"{self.id}{self.where}"


def grouped(reasons: Iterable[Told], elsewhere: str = "--output json shows all of them") -> Iterator[str]:
    """One sentence for all that are alike; of a code with many different sentences, the first and how many more."""
    first: dict[Reason, Told] = {}
    alike: Counter[Reason] = Counter()
    for told in reasons:
        first.setdefault(told.likeness, told)
        alike[told.likeness] += 1
    shown: Counter[str] = Counter()
    hidden: Counter[str] = Counter()
    for likeness, told in first.items():
        code, others = likeness.code, alike[likeness] - 1
        if shown[code] < _IN_FULL and shown.total() < _SENTENCES:
            shown[code] += 1
            yield f"{told}{f' and {others} more' if others else ''}: {told.reason}"
        else:
            hidden[code] += alike[likeness]
    for code, count in hidden.items():
        yield f"… and {count} more with {code}; {elsewhere}"


def what_to_do(reasons: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Of each code once what a person does about it, and where the documentation has it; nothing of a good one.

    `reasons`: codes with their messages. The catalogue is read where a reason is shown: no help and no command that
    finds nothing pays for it.
    """
    from kafka_recovery.formats.catalogue import Level, catalogue

    first: dict[str, str] = {}
    for code, message in reasons:
        first.setdefault(code, message)
    known = ((code, message, catalogue().get(code)) for code, message in first.items())
    found = [(code, message, entry.do) for code, message, entry in known if entry and entry.level is not Level.INFO]
    if found:
        yield "What to do:"
    for code, message, do in found[:_REMEDIES]:
        told = "as said above." if _opening(do) in message else do
        yield f"  {code}: {told} More: docs/reference.md#{code.lower()}"
    if len(found) > _REMEDIES:
        yield f"  … and {len(found) - _REMEDIES} more reasons"


def _opening(do: str) -> str:
    """Its first sentence without the end: a message that has it says what to do itself."""
    return do.split(".")[0].split(":")[0]


class Repeats:
    """Outcomes as they come: the first of each kind in full, the others counted until something else happens."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: Counter[tuple[Outcome, str]] = Counter()
        self._held: Counter[tuple[Outcome, str]] = Counter()

    def concluded(self, done: PartitionOutcome) -> None:
        """Tell it, or count it."""
        kind = (done.outcome, done.reason.code if done.reason else "")
        if done.outcome.is_recovered or self._told[kind] < _IN_FULL:
            self._told[kind] += 1
            self._tell(words.outcome(done))
        else:
            self._held[kind] += 1

    def flush(self) -> None:
        """Say how many were only counted."""
        held, self._held = self._held, Counter()
        for (outcome, code), count in held.items():
            self._tell(f"… and {count} more: {outcome}{f' ({code})' if code else ''}; the result names them")
