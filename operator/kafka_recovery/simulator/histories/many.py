"""Many histories on many processes; what comes back of each is small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from kafka_recovery.domain.quickly import collect_seldom
from kafka_recovery.simulator.histories.findings import Finding
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.schedules import draw


@dataclass(frozen=True, slots=True)
class Told:
    """What one history came to: its findings, how its runs' partitions ended, how much each invariant examined.

    `known`: findings of defects that have a name; `marks`: what the history contained.
    """

    seed: int
    findings: tuple[Finding, ...]
    known: tuple[Finding, ...]
    outcomes: Mapping[str, int]
    examined: Mapping[str, int]
    marks: frozenset[str]


def tell(seed: int) -> Told:
    """Let the history of a seed happen."""
    history = happen(draw(seed))
    outcomes = Counter(said.outcome.outcome.value for said in history.story.concluded)
    return Told(
        seed,
        history.findings,
        tuple(finding for finding in history.verdict.findings if finding.named),
        dict(sorted(outcomes.items())),
        dict(history.verdict.examined),
        history.verdict.marks,
    )


def many(seeds: Sequence[int], jobs: int) -> Iterator[Told]:
    """Every seed's history, on so many processes, in the order of seeds."""
    if jobs == 1:
        yield from map(tell, seeds)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), collect_seldom) as pool:
        yield from pool.map(tell, seeds, chunksize=max(1, min(50, len(seeds) // (4 * jobs))))
