"""A simulated fleet is asked what could be saved if brokers died now: evidence, real Spark, one HTML page."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from rich.console import Console

from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    Evidence,
    MinInsyncReplicas,
    PartitionEvidence,
    Replica,
    ReplicaLog,
)
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.export import Archive

SEED = 41
EPOCH = LeaderEpoch(7)
BUILD = Path(__file__).parents[1] / "build"
POLICY = """\
rules:
- name: payments              # every living broker must have answered, or nobody is elected
  topics: {prefixes: [pay-]}
- name: all
  evidence: {requiredAnswers: Any}
limits: {brokersDownPercent: 60}
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """`copies`: its replication factor."""

    name: str
    partitions: int
    copies: int = 3


@dataclass(frozen=True, slots=True)
class Cluster:
    """Brokers are numbered from 1 and dealt to three racks. `lagging` ones have left every ISR but their own."""

    name: str
    brokers: int
    topics: tuple[Topic, ...]
    dead: frozenset[int] = frozenset()
    lagging: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    """They live, and did not answer when they were asked for their logs."""
    looked_at: timedelta = timedelta(minutes=4)
    """So long ago."""


FLEET = (
    Cluster(
        "payments-eu",
        12,
        (Topic("pay-captures", 240), Topic("pay-refunds", 120), Topic("pay-ledger", 96), Topic("fraud-scores", 144, 2)),
        lagging=frozenset({4, 9}),
    ),
    Cluster(
        "orders-eu",
        6,
        (Topic("orders", 192), Topic("shipments", 96), Topic("returns", 48), Topic("clicks", 60, 2)),
        dead=frozenset({2}),
        lagging=frozenset({5}),
    ),
    Cluster(
        "telemetry-us",
        9,
        (Topic("metrics", 360), Topic("traces", 240), Topic("debug-dumps", 60, 2)),
        lagging=frozenset({3, 7}),
        silent=frozenset({6, 7}),
        looked_at=timedelta(hours=2),
    ),
    Cluster(
        "audit-us",
        5,
        (Topic("audit-log", 120), Topic("pay-archive", 60)),
        dead=frozenset({1, 2}),
        lagging=frozenset({3, 5}),
        silent=frozenset({5}),
    ),
    Cluster("edge-ap", 3, (Topic("sensors", 12, 1), Topic("firmware", 24, 2)), looked_at=timedelta(hours=27)),
)

console = Console()


def main() -> None:
    """Run the demo; the page stays in build/."""
    began = time.monotonic()
    page = BUILD / "fleet-report.html"
    page.parent.mkdir(exist_ok=True)
    page.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        simulate(place / "evidence")
        (place / "policy.yaml").write_text(POLICY)
        chapter("Two questions, answered by Spark on this machine")
        for task in ("readiness", "rank"):
            ask(place, task)
        chapter("One page for people")
        results = [word for task in ("readiness", "rank") for word in ("--results", str(place / "results" / task))]
        run(["kafka-recovery", "fleet", "report", *results, "--out", str(page)])
    console.print(
        f"\nOpen {page} in a browser; it needs no network. The whole demo took {time.monotonic() - began:.0f} s."
    )


def simulate(place: Path) -> None:
    """Evidence of every cluster, as `kafka-recovery snapshot` would have kept it."""
    chapter("A fleet that is not quite well, as evidence files")
    archive, chance = Archive.at(str(place)), Random(SEED)
    now = datetime.now(UTC).replace(microsecond=0)
    for cluster in FLEET:
        evidence = look(cluster, chance, now - cluster.looked_at)
        archive.write(evidence)
        offline = sum(partition.leader is None for partition in evidence.partitions)
        ill = [
            f"{what} {', '.join(map(str, sorted(who)))}"
            for what, who in (("dead:", cluster.dead), ("lagging:", cluster.lagging), ("silent:", cluster.silent))
            if who
        ]
        console.print(
            f"{cluster.name}: {cluster.brokers} brokers, {len(evidence.partitions)} partitions, {offline} offline"
            f"{'; ' + '; '.join(ill) if ill else ''}",
            highlight=False,
            soft_wrap=True,
        )


def look(cluster: Cluster, chance: Random, at: datetime) -> Evidence:
    """What a gather would have seen of it then."""
    brokers = tuple(_broker(cluster, id) for id in range(1, cluster.brokers + 1))
    view = next(broker.id for broker in brokers if broker.reachable)
    state = ClusterState(cluster.name, "4.1", (), False, view, brokers, at, timedelta(seconds=2))
    return Evidence(state, tuple(_partitions(cluster, chance, at)))


def _broker(cluster: Cluster, id: int) -> Broker:
    dead, answers = id in cluster.dead, id not in cluster.dead | cluster.silent
    return Broker(
        id=BrokerId(id),
        host=f"kafka-{id}.{cluster.name}",
        port=9092,
        rack=f"zone-{'abc'[id % 3]}",
        registered=True,
        fenced=dead,
        stopping=None,
        reachable=answers,
        metadata_offset=9000 if answers else None,
        metadata_advances=True if answers else None,
    )


def _partitions(cluster: Cluster, chance: Random, at: datetime) -> Iterator[PartitionEvidence]:
    for topic in cluster.topics:
        for index in range(topic.partitions):
            first = chance.randrange(cluster.brokers)
            step = chance.choice((1, 1, 1, 2))
            assigned = [1 + (first + place * step) % cluster.brokers for place in range(topic.copies)]
            yield _partition(cluster, TopicPartition(topic.name, index), assigned, chance, at)


def _partition(
    cluster: Cluster, id: TopicPartition, assigned: Sequence[int], chance: Random, at: datetime
) -> PartitionEvidence:
    """Who lags has left the ISR, and may have caught up since; the living of those who stayed lead.

    Where all who stayed have died, the last one is the ISR.
    """
    stayed = [broker for broker in assigned if broker not in cluster.lagging] or list(assigned[:1])
    alive = [broker for broker in stayed if broker not in cluster.dead]
    end = chance.randint(20_000, 900_000)
    return PartitionEvidence(
        id=id,
        topic_id=TopicId(f"id-of-{id.topic}"),
        internal=False,
        leader=BrokerId(alive[0]) if alive else None,
        leader_epoch=EPOCH,
        isr=tuple(map(BrokerId, alive or stayed[-1:])),
        elr=None,
        last_known_elr=None,
        replicas=tuple(_replica(cluster, broker, stayed, alive, end, chance, at) for broker in assigned),
        min_isr=MinInsyncReplicas(min(2, len(assigned)), "TOPIC_CONFIG"),
    )


def _replica(
    cluster: Cluster, broker: int, stayed: Sequence[int], alive: Sequence[int], end: int, chance: Random, at: datetime
) -> Replica:
    if broker in cluster.dead | cluster.silent:
        return Replica(BrokerId(broker), None, Reason("BrokerTimeout", f"broker {broker} did not answer within 5s"))
    lag = 0 if broker in stayed else chance.choice((0, 0, 0, chance.randint(1, 4_000)))
    log = ReplicaLog(
        start=Offset(0),
        end=Offset(end - lag),
        epochs=(EpochEntry(LeaderEpoch(3), Offset(0)), EpochEntry(EPOCH, Offset(end // 2))),
        high_watermark=None,
        answered_under=EPOCH,
        observed_at=at,
        took=timedelta(milliseconds=chance.randint(2, 40)),
    )
    return Replica(BrokerId(broker), log, leads=broker in alive[:1])


def ask(place: Path, task: str) -> None:
    """By the command that a person would type."""
    where = {"--evidence": "evidence", "--policy": "policy.yaml", "--to": "results"}
    given = [word for option, name in where.items() for word in (option, str(place / name))]
    run(["kafka-recovery", "fleet", task, *given, "--run", task])


def run(words: Sequence[str]) -> None:
    """Show a command and run it as it stands; stops the demo if it fails."""
    console.print(f"\n[bold]$ {shlex.join(words)}[/]", soft_wrap=True, highlight=False)
    executable = Path(sys.executable).with_name(words[0])
    done = subprocess.run([str(executable), *words[1:]], check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(words[:3])} ended with exit code {done.returncode}")


def chapter(title: str) -> None:
    console.rule(f"[bold]{title}", align="left")


if __name__ == "__main__":
    main()
