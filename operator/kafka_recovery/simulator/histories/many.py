"""Many histories on many processes; what comes back of each is small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.schedules import draw


@dataclass(frozen=True, slots=True)
class Told:
    """What one history came to: its findings' invariants and sentences, and how its runs' partitions ended."""

    seed: int
    invariants: tuple[str, ...]
    findings: tuple[str, ...]
    outcomes: tuple[tuple[str, int], ...]


def tell(seed: int) -> Told:
    """Let the history of a seed happen."""
    history = happen(draw(seed))
    outcomes = Counter(said.outcome.outcome.value for said in history.story.concluded)
    return Told(
        seed,
        tuple(finding.invariant for finding in history.findings),
        tuple(map(str, history.findings)),
        tuple(sorted(outcomes.items())),
    )


def many(seeds: Sequence[int], jobs: int) -> Iterator[Told]:
    """Every seed's history, on so many processes, in the order of seeds."""
    if jobs == 1:
        yield from map(tell, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(tell, seeds, chunksize=max(1, min(50, len(seeds) // (4 * jobs))))
