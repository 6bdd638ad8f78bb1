"""Partitions that are offline on a real cluster, and our commands on them: halted at steps, killed, or run to an end.

Each run recovers partitions of its own with a journal of its own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from brokers import forked
from brokers.conftest import PROXIED
from brokers.forked import PATIENCE, Running, running
from brokers.halting import at as halts_at
from testbed.cluster import RealKafka
from testbed.metadata import PartitionState
from testbed.scenarios import OfflineTopic
from testbed.warm import WarmKafka

TOOL = "kafka-recovery"
AUTOMATIC = "limits: {brokersDownPercent: 100}\nrules: [{name: everything, approval: AutoApprove}]\n"
SURVIVORS = {2: 27, 3: 15}
BEST = 3
ORIGINAL, DESIGNATING = (1, 2, 3), (3, 2, 1)
QUARANTINE = 5
"""Seconds, but in the test that shows what Kafka's minute is for."""
SOON = {"quarantine": float(QUARANTINE)}


def halted(run: Running) -> str:
    """Wait until it halts; returns where."""
    line = run.stdout.readline()
    assert line.startswith("halted"), f"it did not halt, but said {line!r} {run.communicate()}"
    return line.split()[-1]


def go_on(run: Running, times: int = 1) -> None:
    """From where it halts, and from where it will halt before it hears of the next go-on."""
    run.stdin.write("\n" * times)
    run.stdin.flush()


def killed(run: Running) -> int:
    """SIGKILL; returns the exit code."""
    run.process.kill()
    return run.process.wait(PATIENCE)


@contextmanager
def halting(
    steps: str, *words: object, never: str = "", timing: Mapping[str, float] = forked.AS_SHIPPED
) -> Iterator[Running]:
    """The command with these words, which halts at the steps (separated by commas); one step it never gets done."""
    with running(TOOL, *map(str, words), environment=halts_at(steps, never), timing=timing) as run:
        yield run


def recovery(*words: object) -> subprocess.CompletedProcess[str]:
    """`kafka-recovery` to its end."""
    return forked.run(TOOL, *map(str, words), environment={}, timing=SOON)


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster whose partitions are offline, and where its journals and files are kept."""

    kafka: RealKafka
    orders: OfflineTopic
    folder: Path

    def words(self, command: str, partition: int, *others: int) -> list[object]:
        """What to type after `kafka-recovery`; the journal is the first partition's."""
        words: list[object] = [command, "--bootstrap-server", self.kafka.bootstrap]
        words += ["--journal", self.folder / f"journal-{partition}"]
        if command == "recover":
            words += [word for each in (partition, *others) for word in ("--partition", f"orders-{each}")]
            words += ["--policy", self.folder / "automatic.yaml"]
        if command == "execute":
            plan = self.folder / f"plan-{partition}.json"
            if not plan.exists():
                reach = ("--bootstrap-server", self.kafka.bootstrap)
                made = recovery("plan", *reach, "--partition", f"orders-{partition}", "--out", plan)
                assert made.returncode == 0, made.stderr
            digest = plan.read_text().split('"digest": "')[1].split('"')[0]
            words += [plan, "--plan", digest, "--yes"]
        return words

    def run(self, command: str, partition: int) -> subprocess.CompletedProcess[str]:
        return recovery(*self.words(command, partition))

    def state(self, partition: int) -> PartitionState:
        return self.kafka.describe("orders")[partition]

    def is_led_as_planned(self, partition: int) -> bool:
        """The best replica leads by its own word, in the original order, and lost nothing of what it held."""
        state = self.state(partition)
        return (
            (state.leader, state.replicas) == (BEST, ORIGINAL)
            and self.kafka.leader_answers("orders", partition, BEST)
            and self.kafka.consume("orders", partition) == list(self.orders[partition].held[BEST])
        )


@contextmanager
def offline_site(warm: WarmKafka, folder: Path, partitions: int) -> Iterator[Site]:
    """With so many offline partitions."""
    (folder / "automatic.yaml").write_text(AUTOMATIC)
    with warm.lent(**PROXIED) as kafka:
        yield Site(kafka, kafka.offline_partition("orders", survivors=SURVIVORS, partitions=partitions), folder)
