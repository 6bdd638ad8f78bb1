"""Defects of the engine that are known and not mended yet, each with the seeds that show it.

Where chance is too rare for a seed, a scenario of that name in `tests/simulation/known/` shows it.
A history whose only findings are these passes. One that its seed does not show any more makes a test fail: who has
mended it takes it out here. docs/contributing/simulator.md lists them by the same sentences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kafka_recovery.simulator.histories.findings import Finding


@dataclass(frozen=True, slots=True)
class Named:
    """A known defect: what is wrong, which promises it breaks, how its findings read, and seeds that show it."""

    name: str
    sentence: str
    invariants: tuple[str, ...]
    reads: str
    seeds: tuple[int, ...]

    def shows(self, finding: Finding) -> bool:
        """Whether a finding is of this defect."""
        return finding.invariant in self.invariants and re.search(self.reads, finding.message) is not None


KNOWN: tuple[Named, ...] = (
    Named(
        "an-order-in-a-topic-made-anew",
        "A topic is deleted and created again between the last look and the designation. The temporary order lands in"
        " the new topic, whose id the request can't name, and is left there as if it were the original one.",
        ("restored_is_restored", "no_order_is_left_behind", "plans_know_the_owners_order"),
        r"meant for a topic of that name that was deleted meanwhile",
        (),
    ),
    Named(
        "a-late-order-in-a-reassignment",
        "Somebody begins to move a partition to other brokers while its designation is held up on the way. The order"
        " replaces that reassignment when it comes, Kafka goes on with a mixture of both, and the engine takes it for"
        " somebody else's order.",
        ("restored_is_restored",),
        r"meant for a partition that nobody was reassigning",
        (),
    ),
)


def named(finding: Finding) -> Finding:
    """The same finding, with the name of the known defect that it shows."""
    known = next((known.name for known in KNOWN if known.shows(finding)), None)
    return replace(finding, named=known)
