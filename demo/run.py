"""The main job on a real Kafka: lose the ISR, see what Kafka's own election costs, recover with less loss."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from testbed.cluster import RealKafka

OURS, THEIRS = "orders", "orders-unclean"
"""Two topics with the same history: one for us to recover, one for Kafka's own unclean election."""

PARTITIONS = range(2)
ALL, TWO, ONE = 10, 20, 3
"""Records acknowledged while three, two and one replicas were in sync."""

console = Console()


def main() -> None:
    """Run the demo; exits 1 if a record of the best surviving log is missing afterwards."""
    began = time.monotonic()
    chapter("A Kafka with three brokers, two topics with three replicas each")
    with RealKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        acknowledged = lose_the_isr(kafka)
        kept_by_kafka = unclean_election(kafka)
        took = recovery(kafka, Path(folder))
        best = {index: kafka.read_replica(3, OURS, index) for index in PARTITIONS}
        kept_by_us = {index: kafka.consume(OURS, index) for index in PARTITIONS}
        closing_table(kafka, acknowledged, kept_by_kafka, kept_by_us, took)
    console.print(f"\nThe whole demo took {time.monotonic() - began:.0f} s.")
    if any(kept_by_us[index] != best[index] for index in PARTITIONS):
        sys.exit("A record of the best surviving log is missing: this is a bug, please report it.")


def lose_the_isr(kafka: RealKafka) -> dict[int, list[str]]:
    """Broker 2 falls behind, then broker 3, then the last in-sync broker is killed; returns what was acknowledged."""
    for topic in (OURS, THEIRS):
        kafka.create_topic(topic, [[1, 2, 3] for _ in PARTITIONS], min_insync_replicas=1)
    acknowledged: dict[int, list[str]] = {index: [] for index in PARTITIONS}

    def write(count: int, label: str) -> None:
        for topic in (OURS, THEIRS):
            written = kafka.produce_to(topic, PARTITIONS, count, label, acks="all")
            if topic == OURS:
                for index, values in written.items():
                    acknowledged[index] += values

    write(ALL, "all-three")
    console.print(f"{ALL} records a partition, acknowledged by brokers 1, 2 and 3")
    kafka.freeze(2)
    kafka.wait_until_fenced(2)
    write(TWO, "one-and-three")
    console.print(f"broker 2 hangs; {TWO} more records, acknowledged by brokers 1 and 3")
    kafka.freeze(3)
    kafka.wait_until_fenced(3)
    write(ONE, "only-one")
    console.print(f"broker 3 hangs as well; {ONE} more records, acknowledged by broker 1 alone")
    kafka.kill(1)
    kafka.thaw(2)
    kafka.thaw(3)
    for topic in (OURS, THEIRS):
        kafka.wait_for(topic, lambda state: state.leader is None)
    kafka.wait_until_unfenced(2, 3)
    console.print(
        "[bold red]broker 1 is killed (SIGKILL)[/]; 2 and 3 are back, but outside the ISR: both topics are offline"
    )
    return acknowledged


def unclean_election(kafka: RealKafka) -> dict[int, list[str]]:
    """Kafka's own way out, on the twin topic: what is left of it afterwards."""
    chapter(f"What kafka-leader-election --election-type unclean does, on the twin topic {THEIRS}")
    kafka.unclean_elect(THEIRS, PARTITIONS)
    kafka.wait_for(THEIRS, lambda state: state.leader is not None)
    leader = kafka.describe(THEIRS)[0].leader
    kept = {index: kafka.consume(THEIRS, index) for index in PARTITIONS}
    console.print(
        f"It takes the first living replica in assignment order: broker {leader}, with {len(kept[0])} records. "
        f"{TWO} acknowledged records that broker 3 still held are gone for ever."
    )
    return kept


def recovery(kafka: RealKafka, folder: Path) -> float:
    """Plan, explain, approve, execute, by the commands a person on call would type; returns the seconds of the last."""
    chapter(f"What kafka-recovery does, on {OURS}")
    at = ["--bootstrap-server", kafka.bootstrap]
    journal = ["--journal", str(folder / "journal")]
    plan = folder / "plan.json"
    partitions = [word for index in PARTITIONS for word in ("--partition", f"{OURS}-{index}")]
    run(["kafka-recovery", "plan", *at, *partitions, "--out", str(plan)])
    run(["kafka-recovery", "explain", f"{OURS}-0", "--plan", str(plan)])
    digest = json.loads(plan.read_text())["digest"]
    console.print("\nThe plan is read and approved by its digest: anything that changed since would void it.")
    began = time.monotonic()
    run(["kafka-recovery", "execute", str(plan), *at, *journal, "--approve", digest])
    return time.monotonic() - began


def closing_table(
    kafka: RealKafka,
    acknowledged: dict[int, list[str]],
    kept_by_kafka: dict[int, list[str]],
    kept_by_us: dict[int, list[str]],
    took: float,
) -> None:
    chapter("Acknowledged records, counted by consuming both topics")
    table = Table("Partition", "Acknowledged", "Unclean election", "kafka-recovery", "Lost with the dead broker alone")
    for index in PARTITIONS:
        table.add_row(
            f"{index}",
            f"{len(acknowledged[index])}",
            f"{kept(acknowledged[index], kept_by_kafka[index])}",
            f"[green]{kept(acknowledged[index], kept_by_us[index])}[/]",
            f"{ONE}",
        )
    console.print(table)
    state = kafka.describe(OURS)[0]
    console.print(
        f"{OURS} is led by broker {state.leader}; its assignment order is {list(state.replicas)}, as it was before. "
        f"Plan approved to partitions verified: {took:.1f} s, the command's own start included."
    )


def kept(acknowledged: Collection[str], found: Collection[str]) -> str:
    """How much of what was acknowledged is still there."""
    there = len(set(acknowledged) & set(found))
    return f"{there} kept, {len(acknowledged) - there} lost"


def run(words: Sequence[str]) -> None:
    """Show a command and run it as it stands; stops the demo if it fails."""
    console.print(f"\n[bold]$ {shlex.join(words)}[/]", soft_wrap=True, highlight=False)
    executable = Path(sys.executable).with_name(words[0])
    done = subprocess.run([str(executable), *words[1:]], check=False)
    if done.returncode:
        sys.exit(f"{words[0]} {words[1]} ended with exit code {done.returncode}")


def chapter(title: str) -> None:
    console.rule(f"[bold]{title}", align="left")


if __name__ == "__main__":
    main()
