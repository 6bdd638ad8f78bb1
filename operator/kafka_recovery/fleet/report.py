"""A report as values: what runs have found, in sentences and numbers that fit a page. No IO, no clock of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kafka_recovery.fleet.export import Snapshot as File
from kafka_recovery.fleet.manifest import Loss, Manifest, Snapshot
from kafka_recovery.fleet.report_figures import Capped, Counts, Ranking, Readiness
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.printable import printable

LISTED = 40
"""Pieces of evidence, the oldest first."""
NAMED = 3
LEVELS = 5
"""Colours of a heat map."""
LONGEST = 160
"""Characters of a name; Kafka's topics have at most 249, what a file says may have any number."""


NOTHING_OFFLINE = "Nothing is offline now."


@dataclass(frozen=True, slots=True)
class Source:
    """One run whose results are shown. `folder`: its URL; `checksum`: its manifest's."""

    manifest: Manifest
    checksum: str
    folder: str


@dataclass(frozen=True, slots=True)
class Seen:
    """One cluster's evidence as runs name it; `at` None: the file's name does not tell."""

    cluster: str
    at: datetime | None
    age: str
    file: str
    digest: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline number. `is_grave`: it should worry the reader."""

    value: int
    label: str
    note: str
    is_grave: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """All that a page shows. `levels`: the largest number of each of a heat map's colours."""

    made_at: datetime
    evidence_age: str
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    tiles: tuple[Tile, ...]
    worst: tuple[Loss, ...]
    levels: tuple[int, ...]
    readiness: Readiness | None
    ranking: Ranking | None
    sources: tuple[Source, ...]
    evidence: Capped[Seen]


def report(
    sources: Sequence[Source], readiness: Readiness | None, ranking: Ranking | None, made_at: datetime
) -> Report:
    """The page's values; `sources` as `each_once` let them pass."""
    about = {source.manifest.task: source.manifest for source in sources}
    evidence = _evidence(sources, made_at)
    worst = about["readiness"].summary.worst if "readiness" in about else ()
    return Report(
        made_at=made_at,
        evidence_age=_ages(evidence, made_at),
        sentences=tuple(_sentences(about, readiness, ranking)),
        warnings=tuple(_warnings(sources)),
        tiles=tuple(_tiles(sources[0].manifest, readiness, ranking)),
        worst=worst,
        levels=levels(_most(readiness)),
        readiness=readiness,
        ranking=ranking,
        sources=tuple(sources),
        evidence=Capped(tuple(evidence[:LISTED]), max(0, len(evidence) - LISTED)),
    )


def shown(name: str) -> str:
    """A name that others gave, on one line and not without end."""
    name = printable(name)
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def each_once(sources: Sequence[Source]) -> None:
    """Raises InvalidDocument for two runs of the same task: a page answers each question once."""
    tasks = [source.manifest.task for source in sources]
    if not sources:
        raise InvalidDocument("--results: name the folder of a run, or of two")
    if len(set(tasks)) != len(tasks):
        again = next(source for place, source in enumerate(sources) if source.manifest.task in tasks[:place])
        raise InvalidDocument(
            f"--results {again.folder}: is the second {again.manifest.task}; a page shows one of each"
        )


# In words.


def _sentences(about: dict[str, Manifest], readiness: Readiness | None, ranking: Ranking | None) -> Iterator[str]:
    """The most urgent first."""
    if ranking:
        yield _offline(ranking)
    elif readiness:
        yield _offline_unranked(readiness.now)
    if readiness:
        summary = about["readiness"].summary
        yield _alone(readiness, summary.partitions)
        yield _worst(summary.worst)


def _offline(ranking: Ranking) -> str:
    fate = ranking.fate
    if not fate.offline:
        return NOTHING_OFFLINE
    parts = [
        f"{fate.lossless:,} can be led again without loss" if fate.lossless else "",
        f"{fate.bounded:,} with a bounded loss" if fate.bounded else "",
        f"{fate.unknown:,} can be led again at a loss nobody can bound" if fate.unknown else "",
        f"{fate.waits:,} {'waits' if fate.waits == 1 else 'wait'} for an ISR or ELR member that is back"
        if fate.waits
        else "",
        f"{fate.refused:,} {'is' if fate.refused == 1 else 'are'} refused" if fate.refused else "",
    ]
    most = f", mostly {shown(ranking.reasons[0][0])}" if fate.refused and ranking.reasons else ""
    return f"{_partitions(fate.offline)} offline now: {_listed(parts)}{most}."


def _offline_unranked(now: Counts) -> str:
    return f"{_partitions(now.offline)} offline now: {_saved(now)}." if now.offline else NOTHING_OFFLINE


def _alone(readiness: Readiness, partitions: int) -> str:
    alone, _ = readiness.by_kind["Broker"]
    if not alone.offline:
        return "No partition hangs on a single broker."
    share = f"{alone.offline / partitions:.0%}" if partitions else "?"
    verb = "hangs" if alone.offline == 1 else "hang"
    return f"{alone.offline:,} of {partitions:,} partitions ({share}) {verb} on a single broker: {_saved(alone)}."


def _worst(worst: Sequence[Loss]) -> str:
    if not worst:
        return "No loss of one broker, of two, or of a rack takes anything offline."
    first = worst[0]
    counts = Counts(first.offline, first.lossless, first.bounded, first.unknown, first.none)
    name = f"{shown(first.failing)} of {shown(first.cluster_id)}"
    offline = f"{counts.offline:,} partition{'' if counts.offline == 1 else 's'} would go offline"
    return f"The loss that would hurt most: {name}. {offline}; {_saved(counts)}."


def _partitions(count: int) -> str:
    return f"{count:,} partition{' is' if count == 1 else 's are'}"


def _saved(counts: Counts) -> str:
    if counts.lossless == counts.offline:
        return "all could be saved whole"
    return _listed(
        [
            f"{counts.lossless:,} could be saved whole",
            f"{counts.bounded:,} with a bounded loss" if counts.bounded else "",
            f"{counts.unknown:,} with an unknown loss" if counts.unknown else "",
            f"{counts.none:,} not at all" if counts.none else "",
        ]
    )


def _listed(parts: Sequence[str]) -> str:
    said = [part for part in parts if part]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _warnings(sources: Sequence[Source]) -> Iterator[str]:
    if len(sources) < 2:
        return
    one, other = (source.manifest for source in sources)
    differing = sorted({each.cluster_id for each in set(one.evidence) ^ set(other.evidence)})
    if differing:
        named = ", ".join(map(shown, differing[:NAMED])) + (" and more" if len(differing) > NAMED else "")
        yield (
            f"The two runs looked at different evidence of {len(differing):,} "
            f"cluster{'' if len(differing) == 1 else 's'} ({named}): do not compare their numbers there."
        )
    if one.policy_digest != other.policy_digest:
        yield "The two runs were asked under different policies."


# In numbers.


def _tiles(manifest: Manifest, readiness: Readiness | None, ranking: Ranking | None) -> Iterator[Tile]:
    summary = manifest.summary
    yield Tile(
        summary.partitions, "partitions", f"in {summary.clusters:,} cluster{'' if summary.clusters == 1 else 's'}"
    )
    if ranking:
        fate = ranking.fate
        yield Tile(fate.offline, "offline now", f"{fate.elected:,} can be led again", fate.offline > 0)
        yield Tile(fate.refused, "refused", "of those offline", fate.refused > 0)
    elif readiness:
        yield Tile(
            readiness.now.offline, "offline now", f"{readiness.now.none:,} without a copy", readiness.now.offline > 0
        )
    if readiness:
        alone, _ = readiness.by_kind["Broker"]
        two, _ = readiness.by_kind["Pair"]
        lossy = alone.offline - alone.lossless
        yield Tile(alone.offline, "hang on one broker", "a single living copy in sync")
        yield Tile(lossy, "of them not saved whole", f"{alone.none:,} without another copy", lossy > 0)
        yield Tile(two.offline, "hang on two brokers", f"{two.offline - two.lossless:,} not saved whole")


def _most(readiness: Readiness | None) -> int:
    maps = readiness.maps.rows if readiness else ()
    return max((cost.offline for each in maps for cost in each.costs.values()), default=0)


def levels(most: int) -> tuple[int, ...]:
    """The largest number of each colour, up to `most`: equal steps of its logarithm, for few cells hold most."""
    bounds = {round(most ** (place / LEVELS)) for place in range(1, LEVELS)} - {0}
    return tuple(sorted(bounds | {most})) if most else ()


def level(count: int, bounds: Sequence[int]) -> int:
    """The colour of a number: 0 for nothing, LEVELS for the most, also where there are fewer colours."""
    if not count:
        return 0
    place = next((place for place, bound in enumerate(bounds) if count <= bound), len(bounds) - 1)
    return LEVELS - (len(bounds) - 1 - place)


# Where it came from.


def _evidence(sources: Sequence[Source], made_at: datetime) -> list[Seen]:
    """Each piece once, the oldest first; those whose age can't be told before all others."""
    tasks: dict[Snapshot, list[str]] = {}
    for source in sources:
        for snapshot in source.manifest.evidence:
            tasks.setdefault(snapshot, []).append(source.manifest.task)
    seen = [_seen(snapshot, tuple(used), made_at) for snapshot, used in tasks.items()]
    return sorted(seen, key=lambda each: (each.at or datetime.min.replace(tzinfo=UTC), each.cluster))


def _seen(snapshot: Snapshot, tasks: tuple[str, ...], made_at: datetime) -> Seen:
    file = File.named(snapshot.cluster_id, snapshot.snapshot.rpartition("/")[2])
    at = file.observed_at if file else None
    return Seen(snapshot.cluster_id, at, age(made_at - at) if at else "?", snapshot.snapshot, snapshot.digest, tasks)


def _ages(evidence: Sequence[Seen], made_at: datetime) -> str:
    """From the newest to the oldest, as people say it."""
    known = [each.at for each in evidence if each.at]
    if not known:
        return "of unknown age"
    newest, oldest = age(made_at - max(known)), age(made_at - min(known))
    return f"{newest} old" if newest == oldest else f"{newest} to {oldest} old"


def age(span: timedelta) -> str:
    """In its two largest units; what seems to come from the future (clocks differ) is new."""
    minutes = max(0, int(span.total_seconds() // 60))
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days:
        return f"{days:,} d {hours} h" if hours else f"{days:,} d"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min"
