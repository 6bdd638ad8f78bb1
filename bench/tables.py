"""The tables of docs/contributing/testing.md, from what was measured: copy them there after a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.disks import Disk
from bench.results import Result

_FROM_THE_YES = ": approved plan to "
_FELT = ": first failed to first acknowledged"
_PARTS = 5
"""Rows below the whole wait of a client that say what it was made of."""

UNKNOWN = "–"


def against_kafka(results: Sequence[Result]) -> Iterator[str]:
    """A row for each incident: Kafka alone, the engine and their ratio, on each disk."""
    found: dict[str, dict[str, Result]] = {}
    for result in results:
        incident, _, disk = result.name.partition(_FROM_THE_YES)[0].rpartition(", ")
        if _FROM_THE_YES in result.name:
            found.setdefault(incident, {})[disk] = result
    for incident, disks in found.items():
        cells = [cell for disk in Disk for cell in _compared(disks.get(disk))]
        yield f"| {incident} | {' | '.join(cells)} |"


def _compared(result: Result | None) -> tuple[str, str, str]:
    if result is None or result.baseline is None or result.ratio is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    return f"{result.baseline:.2f} s", f"{result.value:.2f} s", f"{result.ratio:.2f}"


def felt(results: Sequence[Result]) -> Iterator[str]:
    """A row for each client: its whole wait, and the parts of it."""
    for place, result in enumerate(results):
        if result.name.endswith(_FELT):
            seconds = [f"{each.value:.1f}" for each in results[place : place + 1 + _PARTS]]
            client = result.name.removesuffix(_FELT).removeprefix("client of ")
            yield f"| {client} | {' | '.join(seconds)} |"
