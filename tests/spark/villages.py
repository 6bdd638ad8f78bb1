"""Two small clusters, asked both questions by `kafka-recovery fleet` as by a person at a terminal, and the page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from typer.testing import CliRunner

from kafka_recovery.cli import main
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.fleet.export import Archive
from spark.readiness_in_python import UNREAD
from unit.decision.incident import broker, dead, evidence, log, partition

RACKS = {1: "b", 2: "a", 3: "b", 4: "a", 5: "b", 6: "c", 7: "d"}
HOSTILE = "<script>alert(1)</script>"


def led(topic: str, held: dict[int, Any], isr: tuple[int, ...], **more: Any) -> PartitionEvidence:
    return partition(held, id=TopicPartition(topic, 0), isr=isr, leader=isr[0], **more)


VILLAGE = evidence(
    led("safe", {1: log(9), 2: log(9), 3: log(9)}, (1, 2, 3)),
    led("copied", {1: log(9), 2: log(9)}, (1,)),
    led("behind", {1: log(9), 3: log(6)}, (1,)),
    led("silent", {1: log(9), 4: None}, (1,)),
    led("alone", {5: log(9)}, (5,)),
    led("two", {2: log(9), 4: log(9), 5: log(7)}, (2, 4)),
    led("eligible", {3: log(9), 5: None}, (3,), elr=(5,)),
    led("tiered", {6: log(9), 7: log(9)}, (6,), tiered=True),
    led("perhaps-tiered", {6: log(9), 7: log(9)}, (6,), configs_problem=UNREAD),
    led("not-tiered", {6: log(9), 7: log(9)}, (6,), tiered=False, configs_problem=UNREAD),
    partition({2: log(5), 3: None}, id=TopicPartition("down", 0), isr=()),
    brokers=[broker(n, rack=rack) for n, rack in RACKS.items()],
)

TOWN = evidence(
    led(HOSTILE, {3: log(9), 4: log(9)}, (3,)),
    led("alone", {4: log(9)}, (4,)),
    *(partition({1: None, 3: log(5), 4: log(5)}, id=TopicPartition("down", n)) for n in range(3)),
    brokers=[dead(1), *(broker(n, rack=RACKS[n]) for n in (3, 4))],
)


@dataclass(frozen=True)
class Told:
    """What the three commands said, and where everything lies."""

    root: Path
    ranked: str
    readied: str

    @property
    def page(self) -> Path:
        return self.root / "page.html"

    def rows(self, answer: str, cluster: str) -> list[dict[str, Any]]:
        """What Spark wrote down of a cluster, in this part of its readiness."""
        rows: list[dict[str, Any]] = pq.read_table(self.root / "readiness" / answer).to_pylist()
        return [row for row in rows if row["cluster_id"] == cluster]


def ask(root: Path) -> Told:
    """The commands, one after the other, in the session that runs."""
    archive = Archive.at(str(root / "evidence"))
    for name, seen in (("village", VILLAGE), ("town", TOWN)):
        archive.write(replace(seen, cluster=replace(seen.cluster, cluster_id=name)))
    (root / "policy.yaml").write_text("rules:\n- name: all\n")
    asked = ["--evidence", str(root / "evidence"), "--policy", str(root / "policy.yaml"), "--to", str(root)]
    ranked = _said("rank", *asked, "--run", "rank")
    readied = _said("readiness", *asked, "--run", "readiness", "-o", "json")
    results = ("--results", str(root / "rank"), "--results", str(root / "readiness"))
    _said("report", *results, "--out", str(root / "page.html"))
    return Told(root, ranked, readied)


def _said(*words: str) -> str:
    done = CliRunner().invoke(main.app, ["fleet", *words])
    assert done.exit_code == 0, done.output
    return done.stdout
