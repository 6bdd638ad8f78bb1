"""The figures of a report from the rows of a run: sums of everything, and of what there is much of the worst.

Rows come in batches and are summed by Arrow; what is kept of them is small, however large the fleet is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kafka_recovery.fleet.report_results import COUNTS, LEADERS, LOSSES, OFFLINE, RANKING, TOPICS, Answer

LISTED = 25
"""Rows of a table."""
MAPS, MAP_BROKERS = 8, 24
"""Clusters with a heat map, and brokers in one."""
LED, LED_BROKERS = 6, 24
"""Clusters with a picture of their leaders, and brokers in one."""
CODES = 8

CLASSES = ("lossless", "bounded", "unknown", "none")
KINDS = ("Broker", "Pair", "Rack")
"""What a topic's partitions may hang on, as the job calls it."""

T = TypeVar("T")
Rows = Callable[[Answer], Iterable[pa.RecordBatch]]
"""The rows of an answer, as often as they are asked for."""


@dataclass(frozen=True, slots=True)
class Capped(Generic[T]):
    """The first rows of many, and how many `more` there are."""

    rows: tuple[T, ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """Partitions that are offline, or would be, by the best that could be done about them."""

    offline: int = 0
    lossless: int = 0
    bounded: int = 0
    unknown: int = 0
    none: int = 0

    @property
    def hurt(self) -> tuple[int, int, int, int]:
        """To sort by: what can't be had back counts most."""
        return self.none, self.unknown, self.bounded, self.offline


@dataclass(frozen=True, slots=True)
class ClusterRisk:
    """One cluster: what is offline `now`, what hangs on one living broker `alone`, and what on two `together`."""

    cluster: str
    brokers: int
    now: Counts
    alone: Counts
    together: int


@dataclass(frozen=True, slots=True)
class PairMap:
    """What the loss of any two brokers costs; on the diagonal, of one. Keys are in order, the smaller id first."""

    cluster: str
    brokers: Capped[int]
    costs: Mapping[tuple[int, int], Counts]


@dataclass(frozen=True, slots=True)
class TopicRisk:
    """A topic's partitions that hang on one kind of failure; `worst` takes `worst_offline` of them."""

    cluster: str
    topic: str
    counts: Counts
    worst: str = ""
    worst_offline: int = 0


@dataclass(frozen=True, slots=True)
class Readiness:
    """`by_kind`: of KINDS, all partitions that hang on such a failure, and the worst topics."""

    now: Counts
    offline: Capped[TopicRisk]
    clusters: Capped[ClusterRisk]
    maps: Capped[PairMap]
    by_kind: Mapping[str, tuple[Counts, Capped[TopicRisk]]]


@dataclass(frozen=True, slots=True)
class Fate:
    """What would be done about partitions without leader. The first three are elected, by loss class."""

    lossless: int = 0
    bounded: int = 0
    unknown: int = 0
    waits: int = 0
    refused: int = 0

    @property
    def elected(self) -> int:
        return self.lossless + self.bounded + self.unknown

    @property
    def offline(self) -> int:
        return self.elected + self.waits + self.refused


@dataclass(frozen=True, slots=True)
class BrokerLeads:
    """What a broker leads `now`, is elected to lead in addition, and would be without spreading among equals."""

    broker: int
    rack: str | None
    now: int
    elected: int
    preferred: int


@dataclass(frozen=True, slots=True)
class ClusterLeads:
    """The brokers of one cluster in which somebody is elected."""

    cluster: str
    brokers: Capped[BrokerLeads]


@dataclass(frozen=True, slots=True)
class Ranking:
    """`reasons`: why partitions are refused; `rejections`: why their copies may not lead; the most frequent first.

    `at_least`: offsets known to be lost by the elections, over `at_least_in` partitions.
    """

    fate: Fate
    topics: Capped[tuple[str, str, Fate]]
    rules: Capped[tuple[str, Fate]]
    reasons: tuple[tuple[str, int], ...]
    rejections: tuple[tuple[str, int], ...]
    at_least: int
    at_least_in: int
    leaders: Capped[ClusterLeads]


def readiness(rows: Rows) -> Readiness:
    """Raises what Arrow raises for columns that hold what no job writes."""
    risks, now_by_cluster = _risks(rows), _by_cluster(rows(OFFLINE))
    clusters = [
        ClusterRisk(
            cluster,
            found["Broker", "living"],
            now_by_cluster.get(cluster, Counts()),
            _counts({name: found["Broker", name] for name in _NUMBERS}),
            found["Pair", "together"],
        )
        for cluster, found in risks.items()
    ]
    clusters.sort(key=lambda each: (each.alone.hurt, each.together, each.now.hurt), reverse=True)
    at_risk = [each.cluster for each in clusters if each.alone.offline or each.together]
    topics = {kind: _topics(rows(TOPICS), kind) for kind in KINDS}
    now, offline = _topics(rows(OFFLINE), None)
    shown = _pair_maps(rows(LOSSES), at_risk[:MAPS])
    return Readiness(
        now=now,
        offline=offline,
        clusters=_capped(clusters, LISTED),
        maps=Capped(shown, len(at_risk) - len(shown)),
        by_kind=topics,
    )


def ranking(rows: Rows) -> Ranking:
    """Raises what Arrow raises for columns that hold what no job writes."""
    offline = _grouped(map(_fates, rows(COUNTS)), ("cluster_id", "topic", "rule"), _FATES)
    by_topic = _summed(offline, ("cluster_id", "topic"), _FATES)
    by_rule = _summed(offline, ("rule",), _FATES)
    worst = by_topic.sort_by([*[(name, "descending") for name in _WORST_FATE], ("cluster_id", "ascending")])
    first = worst.slice(0, LISTED).to_pylist()
    rules = [(row["rule"], _fate(row)) for row in by_rule.sort_by("rule").to_pylist()]
    reasons, rejections, at_least, at_least_in = _why(rows(RANKING))
    return Ranking(
        fate=_fate({name: pc.sum(offline[name]).as_py() or 0 for name in _FATES}),
        topics=Capped(tuple((r["cluster_id"], r["topic"], _fate(r)) for r in first), worst.num_rows - len(first)),
        rules=_capped(rules, LISTED),
        reasons=tuple(reasons.most_common(CODES)),
        rejections=tuple(rejections.most_common(CODES)),
        at_least=at_least,
        at_least_in=at_least_in,
        leaders=_leaders(rows),
    )


_NUMBERS = ("offline", *CLASSES)
_HURTS = [(name, "descending") for name in ("none", "unknown", "bounded", "offline")]
_FATES = ("lossless", "bounded", "unknown", "waits", "refused")
_WORST_FATE = ("refused", "unknown", "bounded", "waits", "lossless")


def _counts(row: Mapping[str, Any]) -> Counts:
    return Counts(*(row[name] for name in _NUMBERS))


def _fate(row: Mapping[str, Any]) -> Fate:
    return Fate(*(row[name] for name in _FATES))


def _capped(rows: list[T], limit: int) -> Capped[T]:
    return Capped(tuple(rows[:limit]), max(0, len(rows) - limit))


# Readiness.


def _risks(rows: Rows) -> dict[str, Counter[tuple[str, str]]]:
    """By cluster, what hangs on which kind of failure; `living` counts brokers."""
    summed = _grouped(rows(LOSSES), ("cluster_id", "kind"), ("together", *_NUMBERS), count="living")
    found: dict[str, Counter[tuple[str, str]]] = {}
    for row in summed.to_pylist():
        about = found.setdefault(row["cluster_id"], Counter())
        about.update({(row["kind"], name): row[name] for name in ("living", "together", *_NUMBERS)})
    return found


def _by_cluster(batches: Iterable[pa.RecordBatch]) -> dict[str, Counts]:
    return {row["cluster_id"]: _counts(row) for row in _grouped(batches, ("cluster_id",), _NUMBERS).to_pylist()}


def _topics(batches: Iterable[pa.RecordBatch], kind: str | None) -> tuple[Counts, Capped[TopicRisk]]:
    """The sum of all topics, and the worst. `kind` None: rows that are of no kind."""
    total, number, worst = Counter[str](), 0, None
    order = [*_HURTS, ("cluster_id", "ascending"), ("topic", "ascending")]
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if kind is not None:
            table = table.filter(pc.field("kind") == kind)
        number += table.num_rows
        total.update({name: pc.sum(table[name]).as_py() or 0 for name in _NUMBERS})
        worst = (table if worst is None else pa.concat_tables([worst, table])).sort_by(order).slice(0, LISTED)
    first = tuple(
        TopicRisk(row["cluster_id"], row["topic"], _counts(row), row.get("worst", ""), row.get("worst_offline", 0))
        for row in (worst.to_pylist() if worst is not None else [])
    )
    return _counts(total), Capped(first, number - len(first))


def _pair_maps(batches: Iterable[pa.RecordBatch], clusters: list[str]) -> tuple[PairMap, ...]:
    """In one pass: the rows may lie far away."""
    shown = pa.array(clusters, pa.string())
    rows = _table((batch.filter(pc.is_in(batch["cluster_id"], shown)) for batch in batches), LOSSES.columns)
    return tuple(_pair_map(cluster, rows.filter(pc.field("cluster_id") == cluster)) for cluster in clusters)


def _pair_map(cluster: str, rows: pa.Table) -> PairMap:
    """Of many brokers those whose loss hurts most, alone or together with another one."""
    single = rows.filter(pc.field("kind") == "Broker")
    ids = pc.list_element(single["brokers"], 0).to_pylist()
    alone = {id: _counts(row) for id, row in zip(ids, single.to_pylist(), strict=True)}
    pairs = rows.filter(pc.field("kind") == "Pair")
    one, other = pc.list_element(pairs["brokers"], 0), pc.list_element(pairs["brokers"], 1)
    together = Counter[int]()
    for broker in (one, other):
        each = pa.table({"broker": broker, "together": pairs["together"]})
        together.update({r["broker"]: r["together"] for r in _summed(each, ("broker",), ("together",)).to_pylist()})
    worst = sorted(alone, key=lambda id: (alone[id].hurt, together[id], -id), reverse=True)
    brokers = _capped(worst, MAP_BROKERS)
    shown = pa.array(brokers.rows, pa.int32())
    costs = {(id, id): alone[id] for id in brokers.rows}
    for row in pairs.filter(pc.and_(pc.is_in(one, shown), pc.is_in(other, shown))).to_pylist():
        low, high = sorted(row["brokers"])
        costs[low, high] = _counts(row)
    return PairMap(cluster, Capped(tuple(sorted(brokers.rows)), brokers.more), costs)


# Ranking.


def _fates(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The counts of partitions without leader, in a column for each thing that would be done about them."""
    counted = batch.filter(pc.not_equal(batch["verdict"], "Nothing"))
    verdict, loss_class, partitions = counted["verdict"], counted["loss_class"], counted["partitions"]
    elected = pc.equal(verdict, "Elect")
    chosen = {
        "lossless": pc.and_(elected, pc.equal(loss_class, "Lossless")),
        "bounded": pc.and_(elected, pc.equal(loss_class, "Bounded")),
        "unknown": pc.and_(elected, pc.equal(loss_class, "Unknown")),
        "waits": pc.equal(verdict, "Wait"),
        "refused": pc.equal(verdict, "Refuse"),
    }
    columns = {name: pc.if_else(pc.fill_null(is_so, False), partitions, 0) for name, is_so in chosen.items()}
    keys = {name: counted[name] for name in ("cluster_id", "topic", "rule")}
    return pa.RecordBatch.from_pydict({**keys, **columns})


def _why(batches: Iterable[pa.RecordBatch]) -> tuple[Counter[str], Counter[str], int, int]:
    """Reasons of refused partitions and of copies; then the offsets known to be lost, and in how many partitions."""
    reasons, rejections = Counter[str](), Counter[str]()
    lost, lost_in = 0, 0
    for batch in batches:
        reasons.update(_counted(batch.filter(pc.equal(batch["verdict"], "Refuse"))["reason"]))
        rejections.update(_counted(pc.struct_field(pc.list_flatten(batch["rejections"]), "code")))
        some = pc.filter(batch["at_least"], pc.fill_null(pc.greater(batch["at_least"], 0), False))
        lost_in += len(some)
        lost += sum(some.to_pylist())  # 64 bits need not hold it
    return reasons, rejections, lost, lost_in


def _counted(words: pa.Array) -> dict[str, int]:
    found = pc.value_counts(words).to_pylist()
    return {each["values"]: each["counts"] for each in found if each["values"] is not None}


def _leaders(rows: Rows) -> Capped[ClusterLeads]:
    """Only clusters in which somebody is elected, those with most elections first."""
    summed = _grouped(rows(LEADERS), ("cluster_id",), ("elected",))
    elected = {row["cluster_id"]: row["elected"] for row in summed.to_pylist() if row["elected"]}
    chosen = sorted(elected, key=lambda cluster: (-elected[cluster], cluster))[:LED]
    shown = pa.array(chosen, pa.string())
    table = _table(
        (batch.filter(pc.is_in(batch["cluster_id"], shown)) for batch in rows(LEADERS)), LEADERS.columns
    ).sort_by([("elected", "descending"), ("leads", "descending"), ("broker", "ascending")])
    by_cluster: dict[str, list[BrokerLeads]] = {cluster: [] for cluster in chosen}
    for row in table.to_pylist():
        leads = BrokerLeads(row["broker"], row["rack"], row["leads"], row["elected"], row["preferred"])
        by_cluster[row["cluster_id"]].append(leads)
    pictures = tuple(ClusterLeads(cluster, _by_id(brokers)) for cluster, brokers in by_cluster.items())
    return Capped(pictures, len(elected) - len(pictures))


def _by_id(brokers: list[BrokerLeads]) -> Capped[BrokerLeads]:
    few = _capped(brokers, LED_BROKERS)
    return Capped(tuple(sorted(few.rows, key=lambda each: each.broker)), few.more)


# Arrow.


def _grouped(
    batches: Iterable[pa.RecordBatch], by: tuple[str, ...], sums: tuple[str, ...], count: str | None = None
) -> pa.Table:
    """Sums over all batches, one row a group; each batch is summed first, so that it can go."""
    parts = []
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if count:
            table = table.append_column(count, pa.array([1] * table.num_rows, pa.int64()))
        parts.append(_summed(table, by, (*sums, *([count] if count else []))))
    if not parts:
        text, number = pa.string(), pa.int64()
        wanted = [*[(name, text) for name in by], *[(name, number) for name in (*sums, *([count] if count else []))]]
        return pa.schema(wanted).empty_table()
    return _summed(pa.concat_tables(parts), by, (*sums, *([count] if count else [])))


def _summed(table: pa.Table, by: tuple[str, ...], sums: tuple[str, ...]) -> pa.Table:
    summed = table.group_by(list(by)).aggregate([(name, "sum") for name in sums])
    return summed.rename_columns({f"{name}_sum": name for name in sums})


def _table(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema=schema)
