"""How fast `decide` is and how much memory it adds, on a large incident and in one process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.usage import peak_mib

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    EpochVector,
    Evidence,
    PartitionEvidence,
    Replica,
    ReplicaLog,
)
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import Limits, Policy

BROKERS = 12
DEAD = BrokerId(0)
PARTITIONS_A_TOPIC = 50
NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)


def incident(partitions: int) -> Evidence:
    """One broker of twelve died as the last ISR member of them all; two survivors of each were measured."""
    features = (("metadata.version", 27),)
    cluster = ClusterState("bench", "4.1", features, False, BrokerId(1), tuple(_brokers()), NOW, timedelta())
    return Evidence(cluster, tuple([_partition(n) for n in range(partitions)]))


def _brokers() -> Iterator[Broker]:
    for n in range(BROKERS):
        dead = n == DEAD
        yield Broker(
            id=BrokerId(n), host=f"broker-{n}", port=9092, rack=f"rack-{n % 3}", registered=True, fenced=dead,
            stopping=None, reachable=not dead, metadata_offset=1000, metadata_advances=None if dead else True,
        )  # fmt: skip


def _partition(n: int) -> PartitionEvidence:
    """A third each: equal logs; one survivor behind; one that followed an older epoch for longer. 1 to 3 epochs."""
    first = 1 + n % (BROKERS - 1)
    second = 1 + (first + n // BROKERS % (BROKERS - 2)) % (BROKERS - 1)
    epochs, end = 1 + n // 3 % 3, 10_000 + n % 977
    kind = n % 3
    logs = {
        first: _log(epochs, end, n),
        second: _log(epochs - (kind == 2 and epochs > 1), end - (kind == 1) * 100 + (kind == 2) * 40, n),
    }
    turn = n % 3
    assigned = [DEAD, first, second]
    assigned = assigned[turn:] + assigned[:turn]
    return PartitionEvidence(
        id=TopicPartition(f"topic-{n // PARTITIONS_A_TOPIC:05}", n % PARTITIONS_A_TOPIC),
        topic_id=TopicId(f"id-{n // PARTITIONS_A_TOPIC:019}"),
        internal=False,
        leader=None,
        leader_epoch=LeaderEpoch(20 + n % 7),
        isr=(DEAD,),
        elr=None,
        last_known_elr=None,
        replicas=tuple(Replica(BrokerId(broker), logs.get(broker)) for broker in assigned),
    )


def _log(epochs: int, end: int, n: int) -> ReplicaLog:
    vector: EpochVector = tuple(EpochEntry(LeaderEpoch(3 * e), Offset(3000 * e)) for e in range(epochs))
    under = LeaderEpoch(20 + n % 7)
    seen = NOW + timedelta(microseconds=n)
    return ReplicaLog(Offset(0), Offset(end), vector, Offset(0), under, seen, timedelta(seconds=0.1))


def measure(partitions: int) -> dict[str, float]:
    """Decide once, in this process, with the interpreter's defaults; nothing is warmed up."""
    evidence = incident(partitions)
    policy = Policy(limits=Limits(partitions=partitions))
    before = peak_mib()
    started, busy = time.perf_counter(), time.process_time()
    plan = decide(evidence, policy)
    took, busy = time.perf_counter() - started, time.process_time() - busy
    elected = sum(decision.verdict is Verdict.ELECT for decision in plan.decisions)
    if elected != partitions:
        raise RuntimeError(f"{elected} of {partitions} partitions would be elected: this measures something else")
    return {
        "partitions": partitions,
        "seconds": round(took, 3),
        "cpu_seconds": round(busy, 3),
        "partitions_per_second": round(partitions / took),
        "partitions_per_cpu_second": round(partitions / busy),
        "evidence_mib": round(before, 1),
        "added_peak_mib": round(peak_mib() - before, 1),
    }


def run(partitions: int = 200_000, repeats: int = 3) -> dict[str, float]:
    """Print and return the median of some runs, each in its own process: one memory peak must not hide the next."""
    runs = sorted((_fresh(partitions) for _ in range(repeats)), key=lambda seen: seen["cpu_seconds"])
    median = runs[len(runs) // 2]
    print(
        f"decide {partitions:,} partitions: {median['seconds']} s, {median['partitions_per_second']:,.0f} a second; "
        f"CPU {median['cpu_seconds']} s ({runs[0]['cpu_seconds']} to {runs[-1]['cpu_seconds']} in {repeats} runs), "
        f"{median['partitions_per_cpu_second']:,.0f} a CPU second; "
        f"evidence {median['evidence_mib']} MiB, {median['added_peak_mib']} MiB more at the peak"
    )
    return median


def _fresh(partitions: int) -> dict[str, float]:
    command = [sys.executable, __file__, str(partitions)]
    answer: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return answer


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
    else:
        run()
