"""Draws docs/reference/partition-life.md from `LIFE`, the engine's one table of transitions. Text out: `wanted`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from generate_words import members

from kafka_recovery.recovery.partition_run import LIFE, State, Step

PAGE = Path(__file__).parent / "reference" / "partition-life.md"
Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]

HEAD = """# A partition's life

One decision to elect is carried out as a walk from state to state. The engine knows no other ways than these: an event
that no row allows from where a partition stands is a defect, ends the run, and nothing is concluded from it. This page
is generated from the table that the engine runs by.

What a process that died had begun is taken up at `Elected`, after its requests were waited out: nobody else will ever
tell what they may have elected. What becomes of a partition is an [outcome](../reference.md#outcomes); what is promised
about each step stands in [the guarantees](../explanation/guarantees.md).
"""


def wanted(table: Table) -> str:
    """What the page should hold."""
    rows = [(_told(step.sources), _event(step), step.only_if or _else(step), f"`{step.target}`") for step in LIFE]
    events = {_event(step): " ".join((step.event.__doc__ or "").split()) for step in LIFE}
    return "\n".join(
        [
            HEAD,
            "## States\n",
            table(("state", "a partition in it"), ((f"`{word}`", says) for word, says in members(_FILE, "State"))),
            "## Transitions\n",
            "The first row that holds is the one.\n",
            table(("from", "on", "if", "to"), rows),
            f"Nothing leads on from {_told(_ends())}.\n",
            "## Events\n",
            table(("event", "what happened"), events.items()),
        ]
    )


_FILE = "recovery/partition_run.py"


def _told(states: Iterable[State]) -> str:
    return ", ".join(f"`{state}`" for state in states)


def _event(step: Step) -> str:
    return f"`{step.event.__name__}`"


def _else(step: Step) -> str:
    earlier = LIFE[: LIFE.index(step)]
    competes = any(other.event is step.event and set(step.sources) & set(other.sources) for other in earlier)
    return "otherwise" if competes else "always"


def _ends() -> list[State]:
    left = {source for step in LIFE for source in step.sources}
    return [state for state in State if state not in left]
