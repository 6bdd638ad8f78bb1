"""What a fleet's questions cost: ranking on Spark against DuckDB doing the same from the same files, and readiness.

CPU seconds are those of the processes themselves, the JVM and the Python beside it. Both engines run in processes of
their own with all cores and their own defaults; what they wrote is compared row for row, or the ratio means nothing.
`fleet.py PARTITIONS` measures another size by hand.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import fleet_duckdb, fleet_files

from kafka_recovery.domain.policy import CandidateOrder, Policy, Rule, TopicSelector

RUNS = 4
"""In one process; the first pays for cold code, the median of the others counts."""

BROKERS = 100
ALONE = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}

POLICY = Policy(
    (
        Rule("internal", TopicSelector(prefixes=("__",)), candidate_order=CandidateOrder.LONGEST_LOG),
        Rule("payments", TopicSelector(prefixes=("pay-",)), min_replication_factor=2),
        Rule("others"),
    )
)
AS_A_FILE = """rules:
- {name: internal, topics: {prefixes: [__]}, candidateOrder: LongestLog}
- {name: payments, topics: {prefixes: [pay-]}, minReplicationFactor: 2}
- {name: others}
"""


@dataclass(frozen=True, slots=True)
class Used:
    """What processes have used so far: seconds of CPU, seconds of the clock, MiB of memory at the peak."""

    cpu: float
    wall: float
    peak_mib: float

    @classmethod
    def by(cls, *processes: int | str) -> Self:
        """By all of these together; the clock is that of nobody."""
        each = [Path("/proc", str(process)) for process in processes]
        return cls(sum(map(_cpu, each)), time.perf_counter(), sum(map(_peak_mib, each)))

    def since(self, before: Self) -> Used:
        """The difference; the peak is the whole process's."""
        return Used(round(self.cpu - before.cpu, 2), round(self.wall - before.wall, 2), round(self.peak_mib, 1))


def _cpu(process: Path) -> float:
    """User and system time; the fields are counted after the name, which may hold blanks."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(process: Path) -> float:
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@dataclass(frozen=True, slots=True)
class Engine:
    """What an engine needed. `first`: with all that was before it, the start of a JVM included; `warm`: the median."""

    first: Used
    warm: Used
    shuffled: int = 0


@dataclass(frozen=True, slots=True)
class Ranked:
    """Both on the same files."""

    partitions: int
    spark: Engine
    duckdb: Engine


def ranked(partitions: int) -> Ranked:
    """Make evidence, rank and write it with both. Raises RuntimeError if they do not say the same."""
    with tempfile.TemporaryDirectory(prefix="bench-fleet-") as name:
        folder = Path(name)
        fleet_files.fleet(folder / "evidence", partitions)
        spark, duckdb = (_fresh(engine, folder) for engine in ("spark", "duckdb"))
        rows, apart = fleet_duckdb.differences(folder / "spark", folder / "duckdb")
    if rows != partitions or apart:
        raise RuntimeError(
            f"of {partitions} partitions {rows} were ranked, {apart} rows differ: the ratio means nothing"
        )
    return Ranked(partitions, spark, duckdb)


def _fresh(engine: str, folder: Path) -> Engine:
    told = json.loads(_said(engine, str(folder)))
    return Engine(Used(**told["first"]), Used(**told["warm"]), told["shuffled"])


def _said(*words: str) -> str:
    """The last line of this program run with these words."""
    ended = subprocess.run([sys.executable, __file__, *words], check=False, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(words)}: {ended.stderr[-4000:]}")
    return ended.stdout.splitlines()[-1]


def _by_spark(folder: Path) -> Engine:
    from kafka_recovery_spark.evidence import READ
    from kafka_recovery_spark.ranking import ranking
    from kafka_recovery_spark.session import session

    began = time.perf_counter()
    spark = session("bench", master="local[*]", settings=ALONE)
    spark.sparkContext.setLogLevel("ERROR")
    ranked = ranking(spark.read.schema(READ).parquet(*map(str, _files(folder))), POLICY)
    target = folder / "spark"
    first, warm = _measured(lambda: ranked.write.parquet(str(target)), target, began, "self", _jvm())
    (driver,) = [spark.sparkContext._jsc.sc().statusStore().executorSummary("driver")]
    shuffled = driver.totalShuffleWrite() + driver.totalShuffleRead()
    spark.stop()
    return Engine(first, warm, shuffled)


def _by_duckdb(folder: Path) -> Engine:
    target, threads = folder / "duckdb", os.cpu_count() or 1
    began = time.perf_counter()
    return Engine(*_measured(lambda: fleet_duckdb.rank(_files(folder), POLICY, target, threads), target, began, "self"))


def _measured(work: Callable[[], None], target: Path, began: float, *processes: int | str) -> tuple[Used, Used]:
    """The first run with what was before it, and the median of the others; the last one's files are left."""
    marks = [Used(0, began, 0)]
    costs: list[Used] = []
    for _ in range(RUNS):
        shutil.rmtree(target, ignore_errors=True)
        if costs:
            marks.append(Used.by(*processes))
        work()
        costs.append(Used.by(*processes).since(marks[-1]))
    warm = sorted(costs[1:], key=lambda cost: cost.cpu)
    return costs[0], replace(warm[len(warm) // 2], peak_mib=costs[-1].peak_mib)


def _files(folder: Path) -> Sequence[Path]:
    return sorted((folder / "evidence").rglob("*.parquet"))


def _jvm() -> int:
    """The process id of this process's JVM."""
    from pyspark import SparkContext

    return int(SparkContext._gateway.proc.pid)  # type: ignore[union-attr]


def prepared(partitions: int, at_risk: float) -> Used:
    """The whole job for a cluster of 100 brokers, from the program's start to its manifest, as a user runs it."""
    with tempfile.TemporaryDirectory(prefix="bench-fleet-") as name:
        folder = Path(name)
        fleet_files.write(folder / "evidence", fleet_files.Made("hundred", partitions, BROKERS, at_risk=at_risk))
        (folder / "policy.yaml").write_text(AS_A_FILE)
        began = time.perf_counter()
        used = Used(**json.loads(_said("readiness", str(folder))))
        return Used(used.cpu, round(time.perf_counter() - began, 2), used.peak_mib)


def _readiness(folder: Path) -> Used:
    from kafka_recovery_spark.__main__ import main

    where = {"--evidence": "evidence", "--policy": "policy.yaml", "--to": "results"}
    given = [word for option, name in where.items() for word in (option, str(folder / name))]
    if main(["readiness", *given, "--run=bench", "--master=local[*]"]):
        raise RuntimeError("the job failed")
    return Used.by("self", _jvm()).since(Used(0, 0, 0))


ENGINES: dict[str, Callable[[Path], Engine | Used]] = {
    "spark": _by_spark,
    "duckdb": _by_duckdb,
    "readiness": _readiness,
}


def main(words: Sequence[str]) -> None:
    """Measure one size, or, as `_said` asks, one engine in this process."""
    if words[0] in ENGINES:
        print(json.dumps(asdict(ENGINES[words[0]](Path(words[1])))))
    else:
        print(json.dumps(asdict(ranked(int(words[0]))), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
