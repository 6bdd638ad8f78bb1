"""One line of the bench: a value, what it is compared with, and whether that is what was aimed at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """`ratio` is value / baseline; `met` says whether the aim holds, None without an aim."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    aim: str | None = None
    met: bool | None = None


def against(name: str, value: float, baseline: float, at_most: float | None = None, unit: str = "s") -> Result:
    """Aimed at: at most so many times the baseline."""
    ratio = value / baseline
    aim = None if at_most is None else f"<= {at_most:g} x baseline"
    met = None if at_most is None else ratio <= at_most
    return Result(name, round(value, 3), unit, round(baseline, 3), round(ratio, 3), aim, met)


def below(name: str, value: float, unit: str, most: float) -> Result:
    """Aimed at: at most so much."""
    return Result(name, round(value, 3), unit, aim=f"<= {most:g} {unit}", met=value <= most)
