"""The small defects that show each promise of the oracle to have teeth: a table of docs/contributing/simulator.md.

PYTHONPATH=operator:spark:tests .venv/bin/python -m mutations.promises    # after a change of mutations or of patches
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kafka_recovery.simulator.histories.oracle import INVARIANTS
from mutations.catalogue import listed
from simulation.test_oracle_corners import CORNERS
from simulation.test_oracle_teeth import DEFECTS

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "simulator.md"
WANTED = 3
BEGIN, END = "<!-- promises: written by mutations.promises -->\n", "<!-- end of promises -->\n"
PROMISES = tuple(invariant.__name__ for invariant in INVARIANTS)


def mutations() -> Mapping[str, tuple[str, ...]]:
    """Of each promise: the listed mutations that it reports."""
    found = ((each.reported_by, each.id) for each in listed() if each.reported_by)
    return _of_each(found)


def patches() -> Mapping[str, tuple[str, ...]]:
    """Of each promise: the patches of functions that only it is asked to report, in histories drawn or written."""
    drawn = ((defect.caught_by[0], defect.name) for defect in DEFECTS if len(defect.caught_by) == 1)
    written = ((corner.caught_by, corner.name) for corner in CORNERS)
    return _of_each((*drawn, *written))


def wanting() -> Iterator[str]:
    """Promises that fewer listed mutations show than are wanted."""
    return (promise for promise, names in mutations().items() if len(names) < WANTED)


def page(text: str) -> str:
    """The page with its table as it should be."""
    before, _, rest = text.partition(BEGIN)
    return "".join((before, BEGIN, *_table(), END, rest.partition(END)[2]))


def _of_each(found: Iterable[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
    names: dict[str, list[str]] = defaultdict(list)
    for promise, name in found:
        names[promise].append(name)
    return {promise: tuple(sorted(set(names[promise]))) for promise in PROMISES}


def _table() -> Iterator[str]:
    one, other = mutations(), patches()
    yield "| promise | listed mutations | patches of functions |\n|---|---|---|\n"
    for promise in PROMISES:
        yield f"| `{promise}` | {', '.join(f'`{name}`' for name in one[promise])} | {', '.join(other[promise])} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
