"""`make bench`: every performance claim, as a ratio against a baseline of the same run. Writes build/bench.json."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import client, decision, fleet, hostile, in_kubernetes, incidents, metadata_log, record, simulated, startup
from bench.results import Result, against, below
from bench.tables import against_kafka, felt
from bench.usage import machine

console = Console()


def decided(partitions: int = 200_000) -> Iterator[Result]:
    """The decision alone, without Kafka."""
    seen = decision.run(partitions)
    rate = seen["partitions_per_second"]
    yield Result(f"decide {partitions} partitions", rate, "partitions/s", aim=">= 120000", met=rate >= 120_000)
    yield Result(f"decide {partitions} partitions: memory on top of the evidence", seen["added_peak_mib"], "MiB")


def at_scale(partitions: int, watched: float, histories: int) -> Iterator[Result]:
    """The client on simulated brokers in another process: what it costs this side; and how many histories a second."""
    label = f"simulated, {partitions} partitions on {simulated.BROKERS} brokers"
    seen = simulated.fresh(partitions, watched)
    for phase, took in seen.items():
        yield Result(f"{label}: {phase}", took["cpu"], "CPU s")
        yield Result(f"{label}: {phase}, with the brokers' time", took["seconds"], "s")
        yield Result(f"{label}: {phase}, over the wire", took["mib"], "MiB")
        yield Result(f"{label}: {phase}, memory at the peak", took["peak_mib"], "MiB")
    recovered = [seen[phase] for phase in ("gather", "decide", "elect", "verify")]
    share = partitions / 200_000
    cpu, peak = sum(each["cpu"] for each in recovered), max(each["peak_mib"] for each in recovered)
    yield below(f"{label}: gather to verify", cpu, "CPU s", 40 * share)
    yield below(f"{label}: memory at the peak", peak, "MiB", 1.2 * 1024)
    rate = simulated.histories_per_second(histories)
    yield Result("simulated histories, every promise checked", round(rate, 1), "histories/s")


def operator(quick: bool) -> Iterator[Result]:
    """The operator: from the controller's fence to a leader that answered, and what it costs to stand by."""
    with in_kubernetes.site() as at:
        runs = in_kubernetes.fenced_to_verified(at, repeats=8 if quick else 30)
        seconds = [run.seconds for run in runs]
        label = f"last ISR broker fenced to verified leader ({len(runs)} times)"
        yield below(f"{label}: median", statistics.median(seconds), "s", 0.5)
        yield below(f"{label}: 99th percentile", in_kubernetes.percentile(seconds, 99), "s", 2)
        for step in in_kubernetes.STEPS.values():
            yield Result(f"  {step}, median", round(statistics.median(run.steps[step] for run in runs), 3), "s")
        latencies = in_kubernetes.latencies(at, 50)
        yield Result("recovery created to its first status: median", round(statistics.median(latencies), 3), "s")
        slowest = in_kubernetes.percentile(latencies, 99)
        yield Result("recovery created to its first status: 99th percentile", round(slowest, 3), "s")
        objects = 1000 if quick else 10_000
        crowd = in_kubernetes.crowded(at, objects, 100)
        label = f"the same beside a namespace with {objects} open recoveries of 100 partitions: median"
        yield against(
            label, statistics.median(in_kubernetes.latencies(at, 50, crowd)), statistics.median(latencies), 1.1
        )
        finished, open_ = 500 if quick else 5000, 50
        restarted = in_kubernetes.restarted(at, finished, open_)
        label = f"restart with {finished} finished recoveries until {open_} open ones were looked at"
        yield below(label, restarted.seconds, "s", 2)
        yield below(f"{label}: memory at the peak", restarted.peak_mib, "MiB", 120)
        idle = in_kubernetes.idle(at, clusters=3, seconds=20 if quick else 60)
        yield Result("watching 3 idle clusters: memory", round(idle.mib, 1), "MiB")
        yield below("watching 3 idle clusters: CPU", 100 * idle.cpu, "% of a core", 2)
        held, minute = (100, 20) if quick else (500, 60)
        asked = in_kubernetes.waiting(at, held, minute)
        yield below(f"{held} recoveries wait for a person: requests to the API server", asked.requests, "/s", 5)
        yield Result(f"{held} recoveries wait for a person: CPU", round(100 * asked.cpu, 1), "% of a core")


def fleets(quick: bool) -> Iterator[Result]:
    """A fleet's questions: ranking on Spark, its baseline DuckDB; then what every pair of brokers is worth."""
    sizes = (100_000, 300_000) if quick else (1_000_000, 3_000_000)
    millions = []
    for partitions in sizes:
        each = fleet.ranked(partitions)
        label, spark, duckdb = f"rank and write {partitions} partitions", each.spark, each.duckdb
        yield against(f"{label}: CPU, warm", spark.warm.cpu, duckdb.warm.cpu, 2.5, "CPU s")
        yield against(f"{label}: CPU of a new process's first run", spark.first.cpu, duckdb.first.cpu, unit="CPU s")
        yield against(f"{label}: wall, warm", spark.warm.wall, duckdb.warm.wall)
        yield Result(f"{label}: rate, warm", round(partitions / spark.warm.wall), "partitions/s")
        yield against(f"{label}: memory at the peak", spark.warm.peak_mib, duckdb.warm.peak_mib, unit="MiB")
        yield Result(f"{label}: shuffled", spark.shuffled, "bytes", aim="none", met=spark.shuffled == 0)
        millions.append(1e6 * spark.warm.cpu / partitions)
    few, many = millions
    yield against(f"CPU of a million partitions, ranked among {sizes[1]}, by {sizes[0]}", many, few, 1.2, "CPU s")
    partitions = 20_000 if quick else 200_000
    for at_risk in (0.1, 1.0):
        label = f"readiness, {fleet.BROKERS} brokers, {partitions} partitions, {at_risk:.0%} at risk, all pairs"
        used = fleet.prepared(partitions, at_risk)
        yield below(f"{label}: start to manifest", used.wall, "s", 60)
        yield Result(f"{label}: CPU", used.cpu, "CPU s")
        yield Result(f"{label}: memory at the peak", used.peak_mib, "MiB")


CHAPTERS: dict[str, Callable[[bool], Iterator[Result]]] = {
    "decision": lambda quick: decided(),
    "record": lambda quick: record.run(),
    "startup": lambda quick: startup.run(),
    "history": lambda quick: metadata_log.run(),
    "simulated": lambda quick: at_scale(50_000, 10, 100) if quick else at_scale(200_000, 60, 400),
    "elections": incidents.run,
    "client": lambda quick: client.run(),
    "fleet": fleets,
    "operator": operator,
    "hostile": hostile.run,
}


RECOVERY = ("decision", "record", "startup", "history", "simulated", "elections", "client")
"""The chapters about one recovery: neither a fleet nor Kubernetes."""


def measured(chapters: Sequence[str], quick: bool) -> Iterator[Result]:
    """What these chapters say, each with how long it took; one that fails keeps none of the others from being told."""
    for name in chapters:
        began = time.monotonic()
        try:
            yield from CHAPTERS[name](quick)
        except Exception:  # noqa: BLE001 - whatever it was: it is shown, and the others go on
            console.print_exception()
            yield Result(f"chapter {name} failed", 1, "failure", aim="0", met=False)
        yield Result(f"chapter {name}: all of it", round(time.monotonic() - began), "s")


def main() -> None:
    """Measure, print as it comes, and write build/bench.json. Aims that are not met are shown as such."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="leave out the large sets, repeat less often")
    options.add_argument(
        "--only",
        choices=[*CHAPTERS, "recovery"],
        action="append",
        help=f"this chapter; again for more; recovery: {', '.join(RECOVERY)}",
    )
    chosen = options.parse_args()
    wanted = [each for name in chosen.only or CHAPTERS for each in (RECOVERY if name == "recovery" else (name,))]
    results, where = [], machine()
    console.print(where)
    for result in measured(wanted, chosen.quick):
        console.print(
            f"{result.name}: {result.value:g} {result.unit}" + (f" ({result.ratio:g})" if result.ratio else "")
        )
        results.append(result)
    target = Path("build") / "bench.json"
    target.parent.mkdir(exist_ok=True)
    told = {"machine": where, "results": [asdict(result) for result in results]}
    target.write_text(json.dumps(told, indent=1) + "\n")
    table = Table("What", "Value", "Baseline", "Ratio", "Aim", "Met")
    for r in results:
        met = "" if r.met is None else "[green]yes[/]" if r.met else "[red]no[/]"
        table.add_row(r.name, f"{r.value:g} {r.unit}", f"{r.baseline or ''}", f"{r.ratio or ''}", r.aim or "", met)
    console.print(where)
    console.print(table)
    for row in (*against_kafka(results), *felt(results)):
        print(row)


if __name__ == "__main__":
    main()
