"""The main job on a real Kafka: what Kafka calls unclean loses nothing, which is proven; then a real loss, told before.

Two topics share one history; one is recovered by us, the other by Kafka's own unclean election.
"""

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
PARTITIONS = range(2)
ALL, TWO = 10, 20
"""Records acknowledged while three and two replicas were in sync; with one, the brokers acknowledge none."""

LAGGARD = 2
"""Kafka's own choice: the first living replica in assignment order."""

POLICY = """\
rules:
- name: everything
  approval: AutoApproveLossless  # what is proven to lose nothing is elected; a person is asked about the rest
"""

Written = dict[int, list[str]]
"""By partition, the values that were acknowledged, or that are there."""

console = Console()


def main() -> None:
    """Run the demo; exits 1 if an acknowledged record of our topic is missing, or more of the other than was told."""
    began = time.monotonic()
    chapter("A Kafka with three brokers, two topics with three replicas each, min.insync.replicas 2")
    with RealKafka(elr=False) as kafka, tempfile.TemporaryDirectory() as folder:
        acknowledged = lose_the_isr(kafka)
        took = recovery(kafka, Path(folder))
        kept_by_us = consumed(kafka, OURS)
        bound = told_before(kafka, Path(folder))
        kept_by_kafka = unclean_election(kafka)
        closing_table(kafka, acknowledged, kept_by_us, kept_by_kafka, bound, took)
    console.print(f"\nThe whole demo took {time.monotonic() - began:.0f} s.")
    if lost := sum(missing(acknowledged, kept_by_us).values()):
        sys.exit(f"{lost} acknowledged records are gone after an election proven Lossless: report this bug, please.")
    if any(lost > bound[index] for index, lost in missing(acknowledged, kept_by_kafka).items()):
        sys.exit("More acknowledged records are gone than the plan said at most: report this bug, please.")


def lose_the_isr(kafka: RealKafka) -> Written:
    """Brokers 2 and 3 leave the ISR, then the last in-sync broker is killed; returns what was acknowledged."""
    for topic in (OURS, THEIRS):
        kafka.create_topic(topic, [[1, LAGGARD, 3] for _ in PARTITIONS], min_insync_replicas=2)
    acknowledged: Written = {index: [] for index in PARTITIONS}

    def write(count: int, label: str) -> None:
        for topic in (OURS, THEIRS):
            written = kafka.produce_to(topic, PARTITIONS, count, label, acks="all")
            if topic == OURS:
                for index, values in written.items():
                    acknowledged[index] += values

    write(ALL, "all-three")
    console.print(f"{ALL} records a partition, acknowledged by brokers 1, 2 and 3")
    kafka.freeze(LAGGARD)
    kafka.wait_until_fenced(LAGGARD)
    write(TWO, "one-and-three")
    console.print(f"broker 2 hangs and leaves the ISR; {TWO} more records, acknowledged by brokers 1 and 3")
    kafka.freeze(3)
    kafka.wait_until_fenced(3)
    console.print("broker 3 hangs as well; broker 1 is alone in the ISR and refuses to acknowledge any more")
    kafka.kill(1)
    kafka.thaw(LAGGARD)
    kafka.thaw(3)
    for topic in (OURS, THEIRS):
        kafka.wait_for(topic, lambda state: state.leader is None)
    kafka.wait_until_unfenced(LAGGARD, 3)
    console.print(
        "[bold red]broker 1 is killed (SIGKILL)[/]; 2 and 3 are back, but outside the ISR: both topics are offline, "
        "and whoever is elected now, Kafka calls it unclean"
    )
    return acknowledged


def recovery(kafka: RealKafka, folder: Path) -> float:
    """Explain and recover, by the commands a person on call would type; returns the seconds of the last."""
    chapter(f"{OURS}: proven Lossless from the controllers' metadata log, and recovered with nobody asked")
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    how = [*connection(kafka), "--policy", str(policy)]
    run(["kafka-recovery", "explain", f"{OURS}-0", *how])
    began = time.monotonic()
    run(["kafka-recovery", "recover", *how, *named(OURS), "--journal", str(folder / "journal")])
    return time.monotonic() - began


def told_before(kafka: RealKafka, folder: Path) -> dict[int, int]:
    """The plan of exactly what Kafka would do: by partition, how many acknowledged records it loses at most."""
    chapter(f"{THEIRS}: what Kafka's own unclean election would cost, told before it is held")
    scope, kept = folder / "kafka-would-elect.json", folder / "plan.json"
    wanted = [{"topic": THEIRS, "partition": index, "designatedLeader": LAGGARD} for index in PARTITIONS]
    scope.write_text(json.dumps({"partitions": wanted}))
    console.print(f"It takes the first living replica in assignment order: broker {LAGGARD}.")
    run(["kafka-recovery", "plan", *connection(kafka), "--path-to-json-file", str(scope), "--out", str(kept)])
    decisions = json.loads(kept.read_text())["plan"]["decisions"]
    return {each["id"][1]: each["loss"]["at_most"] for each in decisions}


def unclean_election(kafka: RealKafka) -> Written:
    """Kafka's own way out: what is left afterwards."""
    chapter(f"kafka-leader-election --election-type unclean, on {THEIRS}")
    kafka.unclean_elect(THEIRS, PARTITIONS)
    kafka.wait_for(THEIRS, lambda state: state.leader is not None)
    kept = consumed(kafka, THEIRS)
    console.print(f"Broker {kafka.describe(THEIRS)[0].leader} leads, with {len(kept[0])} records.")
    return kept


def closing_table(
    kafka: RealKafka, acknowledged: Written, ours: Written, theirs: Written, bound: dict[int, int], took: float
) -> None:
    """Both topics, counted by consuming them."""
    chapter("Acknowledged records, counted by consuming both topics")
    table = Table("Partition", "Acknowledged", "kafka-recovery", "Unclean election", "Told before: loses at most")
    for index in PARTITIONS:
        table.add_row(
            f"{index}",
            f"{len(acknowledged[index])}",
            f"[green]{shown(acknowledged[index], ours[index])}[/]",
            f"[red]{shown(acknowledged[index], theirs[index])}[/]",
            f"{bound[index]}",
        )
    console.print(table)
    state = kafka.describe(OURS)[0]
    console.print(
        f"{OURS} is led by broker {state.leader}; its assignment order is {list(state.replicas)}, as it was before. "
        f"One command from offline to verified: {took:.1f} s, its own start included."
    )


def connection(kafka: RealKafka) -> list[str]:
    """Brokers and controllers, as every command takes them."""
    return ["--bootstrap-server", kafka.bootstrap, "--bootstrap-controller", kafka.controller_address]


def named(topic: str) -> list[str]:
    """Its partitions, as every command takes them."""
    return [word for index in PARTITIONS for word in ("--partition", f"{topic}-{index}")]


def consumed(kafka: RealKafka, topic: str) -> Written:
    """What a consumer reads of it."""
    return {index: kafka.consume(topic, index) for index in PARTITIONS}


def missing(acknowledged: Written, found: Written) -> dict[int, int]:
    """By partition, how much of what was acknowledged is gone: the values of both topics are the same."""
    return {index: len(values) - len({*values} & {*found[index]}) for index, values in acknowledged.items()}


def shown(acknowledged: Collection[str], found: Collection[str]) -> str:
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
