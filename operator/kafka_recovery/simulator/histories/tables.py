"""What many histories had to offer, as tables: an oracle that examines nothing promises nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafka_recovery.simulator.histories.judging.marks import MARKS, NOT_DRAWN, RARE


@dataclass(slots=True)
class Vacuity:
    """How many things each invariant has examined, and in how many histories it examined any."""

    things: Counter[str] = field(default_factory=Counter)
    histories: Counter[str] = field(default_factory=Counter)

    def add(self, examined: Mapping[str, int]) -> None:
        """One more history."""
        self.things.update(examined)
        self.histories.update({name: int(count > 0) for name, count in examined.items()})

    @property
    def vacuous(self) -> tuple[str, ...]:
        """The invariants that had nothing to examine."""
        return tuple(name for name, count in self.things.items() if not count)

    def __str__(self) -> str:
        rows = [(name, self.things[name], self.histories[name]) for name in self.things]
        return table(("promise", "examined", "in histories"), rows)


@dataclass(slots=True)
class Coverage:
    """In how many histories each mark was reached, and which reasons none of them leads to."""

    histories: Counter[str] = field(default_factory=Counter)

    def add(self, marks: Iterable[str]) -> None:
        """One more history."""
        self.histories.update(marks)

    def below(self, least: int) -> tuple[str, ...]:
        """The marks that fewer histories reached, of those that 500 should reach."""
        return tuple(mark for mark in MARKS if self.histories[mark] < least)

    def __str__(self) -> str:
        reached = table(("mark", "in histories"), [(mark, self.histories[mark]) for mark in (*MARKS, *RARE)])
        never = "\n".join(f"{code}  {why}" for code, why in NOT_DRAWN.items())
        return f"{reached}\n\nReasons that no drawn history leads to:\n{never}"


def table(heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """Columns under their heads: the first to the left, numbers to the right."""
    lines = [heads, *[tuple(map(str, row)) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
