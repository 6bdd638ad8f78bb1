"""The small defects that show each promise of the oracle to have teeth: a table of docs/contributing/simulator.md.

PYTHONPATH=operator:spark:tests .venv/bin/python -m mutations.promises    # after a change of mutations
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_recovery.simulator.histories.oracle import INVARIANTS
from mutations.catalogue import listed

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "simulator.md"
WANTED = 3
BEGIN, END = "<!-- promises: written by mutations.promises -->\n", "<!-- end of promises -->\n"
PROMISES = tuple(invariant.__name__ for invariant in INVARIANTS)


def mutations() -> Mapping[str, tuple[str, ...]]:
    """Of each promise: the listed mutations that it reports."""
    names: dict[str, set[str]] = {promise: set() for promise in PROMISES}
    for each in listed():
        if each.reported_by in names:
            names[each.reported_by].add(each.id)
    return {promise: tuple(sorted(of_it)) for promise, of_it in names.items()}


def wanting() -> Iterator[str]:
    """Promises that fewer listed mutations show than are wanted."""
    return (promise for promise, names in mutations().items() if len(names) < WANTED)


def page(text: str) -> str:
    """The page with its table as it should be."""
    before, _, rest = text.partition(BEGIN)
    return "".join((before, BEGIN, *_table(), END, rest.partition(END)[2]))


def _table() -> Iterator[str]:
    yield "| promise | listed mutations |\n|---|---|\n"
    for promise, names in mutations().items():
        yield f"| `{promise}` | {', '.join(f'`{name}`' for name in names)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
