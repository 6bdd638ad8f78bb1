"""A question to the job, with evidence of two small clusters, and a Java that does nothing but say its version."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.fleet.export import Archive
from kafka_recovery.formats.policy_file import load_policy
from kafka_recovery_spark.job import Asked, Task
from unit.fleet.looks import look

WRITTEN = {"rules": [{"name": "shop", "topics": {"names": ["orders"]}}]}
POLICY = load_policy(json.dumps(WRITTEN), "policy.json")


def written_down(place: Path) -> Path:
    """Policy, and evidence of two clusters: one without leaders, and one where broker 1 alone is in the ISR.

    Of the leaderless three can be elected, broker 1 will lead two again by itself, and no rule is about the last one.
    """
    archive = Archive.at(str(place / "evidence"))
    down = look("down", partitions=6)
    returning = [replace(each, isr=(BrokerId(1),)) for each in down.partitions[3:5]]
    nobodys = replace(down.partitions[5], id=TopicPartition("scratch", 0))
    archive.write(replace(down, partitions=(*down.partitions[:3], *returning, nobodys)))
    up = look("up", partitions=2)
    alone = [replace(each, leader=BrokerId(1), isr=(BrokerId(1),)) for each in up.partitions]
    archive.write(replace(up, partitions=tuple(alone)))
    (place / "policy.json").write_text(json.dumps(WRITTEN))
    return place


def asked(place: Path, task: Task, clusters: tuple[str, ...] = (), run: str = "nightly") -> Asked:
    """The question as the job takes it."""
    return Asked(task, str(place / "evidence"), place / "policy.json", str(place / "results"), run, clusters)


def words(place: Path, *, run: str = "nightly") -> list[str]:
    """A ranking, as words of a command line."""
    where = {"--evidence": "evidence", "--policy": "policy.json", "--to": "results"}
    return ["rank", *(word for name, path in where.items() for word in (name, str(place / path))), f"--run={run}"]


def a_java(folder: Path, version: str) -> Path:
    """A home of a Java that says it is of this version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    java.chmod(0o755)
    return folder
