"""Many rehearsed histories added up: per method and rule, and what a person allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from kafka_recovery.simulator.rehearsal.fates import Ending, Fate
from kafka_recovery.simulator.rehearsal.rehearse import Method, Rehearsed


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over partitions, each counted once a history.

    `offline`: how many lost their leader; the endings are theirs and add up to it. `refused` is by reason. `median`,
    `p95`: seconds without a leader, of those; None if there are none. A partition that never came back counts until all
    was well again.
    """

    partitions: int
    offline: int
    elected: int
    clean: int
    refused: Mapping[str, int]
    failed: int
    untouched: int
    acknowledged: int
    lost: int
    lost_otherwise: int
    median: float | None
    p95: float | None

    @property
    def refusals(self) -> int:
        """Refused for whatever reason."""
        return sum(self.refused.values())


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the policy may do at most, over all histories; None: not asked about."""

    lost: int | None = None
    refused: int | None = None
    failed: int | None = None


def tally(fates: Iterable[Fate]) -> Tally:
    """Add them up."""
    all_of = tuple(fates)
    offline = [fate for fate in all_of if fate.ending is not None]
    endings = Counter(fate.ending for fate in offline)
    reasons = Counter(fate.reason or "" for fate in offline if fate.ending is Ending.REFUSED)
    seconds = sorted(fate.offline for fate in offline)
    return Tally(
        partitions=len(all_of),
        offline=len(offline),
        elected=endings[Ending.ELECTED],
        clean=endings[Ending.CLEAN],
        refused=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        failed=endings[Ending.FAILED],
        untouched=endings[Ending.UNTOUCHED],
        acknowledged=sum(fate.acknowledged for fate in all_of),
        lost=sum(fate.lost for fate in all_of),
        lost_otherwise=sum(fate.lost_otherwise for fate in all_of),
        median=quantile(seconds, 0.5),
        p95=quantile(seconds, 0.95),
    )


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that so large a share does not exceed; None of nothing."""
    return ordered[max(ceil(share * len(ordered)) - 1, 0)] if ordered else None


def by_method(histories: Sequence[Rehearsed]) -> dict[Method, Tally]:
    """Everything, per method."""
    return {method: tally(_fates(histories, method)) for method in Method}


def by_rule(histories: Sequence[Rehearsed], rules: Sequence[str]) -> dict[str, dict[Method, Tally]]:
    """Per rule in the policy's order, then per method; topics that no rule selects come last, under `-`."""
    known = {fate.rule or "-" for history in histories for fate in history.fates[Method.POLICY]}
    names = [*rules, *(["-"] if "-" in known else [])]
    return {
        name: {
            method: tally(fate for fate in _fates(histories, method) if (fate.rule or "-") == name) for method in Method
        }
        for name in names
    }


def broken(allowed: Allowed, policy: Tally) -> tuple[str, ...]:
    """What was allowed and is exceeded, a sentence each."""
    seen = (
        ("--max-lost", allowed.lost, policy.lost, "acknowledged records lost by its elections"),
        ("--max-refused", allowed.refused, policy.refusals, "partitions refused to the end"),
        ("--max-failed", allowed.failed, policy.failed, "partitions failed to the end"),
    )
    return tuple(
        f"{option} {most}: the policy has {value} {what}"
        for option, most, value, what in seen
        if most is not None and value > most
    )


def costliest(histories: Sequence[Rehearsed], most: int = 5) -> tuple[tuple[str, int], ...]:
    """The histories in which the policy's elections lost most, and how many records, worst first."""
    losses = [(history.name, sum(fate.lost for fate in history.fates[Method.POLICY])) for history in histories]
    return tuple(sorted((loss for loss in losses if loss[1]), key=lambda loss: -loss[1])[:most])


def _fates(histories: Sequence[Rehearsed], method: Method) -> Iterator[Fate]:
    return (fate for history in histories for fate in history.fates[method])
