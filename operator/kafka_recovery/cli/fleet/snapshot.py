"""`kafka-recovery snapshot`: one look at a cluster, kept as a Parquet file beside earlier ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from kafka_recovery.cli.cluster.wiring import OpenCluster, Target, open_kafka
from kafka_recovery.cli.fleet.stores import unusable
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.inputs import read_policy
from kafka_recovery.cli.terminal.render import Output, table, write_result
from kafka_recovery.cli.terminal.text import narrate
from kafka_recovery.cli.terminal.words import seconds
from kafka_recovery.cluster.snapshot import snapshot as whole
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.formats.documents import InvalidDocument, as_data
from kafka_recovery.formats.fields import Duration

if TYPE_CHECKING:
    from kafka_recovery.fleet.export import Archive

_KEPT = Duration(shortest="1h", longest="87600h")
"""From what outlasts a forgotten cron job to ten years."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where the file goes and how long earlier ones are kept, as given; None: for ever."""

    place: str
    duration: str | None

    def archive(self) -> Archive:
        """The place; raises InvalidDocument, or Refusal if it can't be reached."""
        try:
            from kafka_recovery.fleet.export import Archive
            from kafka_recovery.fleet.storage import StorageUnavailable
        except ImportError:
            missing = "evidence files need pyarrow and fsspec, which are not installed"
            raise InvalidDocument(f"--to: {missing}: pip install '.[fleet]' in its checkout") from None
        try:
            return Archive.at(self.place)
        except InvalidDocument as error:
            raise InvalidDocument(f"--to: {error}") from None
        except StorageUnavailable as error:
            raise unusable(error, "--to: ") from None

    def age(self) -> timedelta | None:
        """The duration; raises InvalidDocument."""
        try:
            return None if self.duration is None else _KEPT.read(self.duration)
        except PydanticCustomError as error:
            raise InvalidDocument(f"--keep: {error.message()} (got {self.duration!a})") from None


async def snapshot(
    open_cluster: OpenCluster | None,
    target: Target,
    policy_file: Path | None,
    keeping: Keeping,
    output: Output,
) -> ExitCode:
    """Gather, keep, and only then let go of older files."""
    rules = read_policy(policy_file).widest_evidence_rules
    archive, age = keeping.archive(), keeping.age()
    evidence = await _gather(open_cluster, target, rules)
    result = await asyncio.to_thread(_keep, archive, evidence, age)
    write_result(output, as_data(result), _table(result))
    return ExitCode.DONE


async def _gather(open_cluster: OpenCluster | None, target: Target, rules: EvidenceRules) -> Evidence:
    """A look at every partition that the principal may see; one that is deleted meanwhile is noted as missing."""
    async with (open_cluster or open_kafka)(target) as connection:
        narrate(f"asking the brokers (deadline {seconds(rules.deadline)}, {rules.attempts} attempts)")
        everything = await connection.every_partition(rules.deadline)
        return await whole(connection.cluster.gather, everything, rules)


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of evidence that was written, what is in it, and the older files that went."""

    file: str
    cluster: str
    observed_at: str
    partitions: int
    offline: int
    replicas: int
    measured: int
    removed: tuple[str, ...]


def _keep(archive: Archive, evidence: Evidence, age: timedelta | None) -> Kept:
    """Write the file and remove those that are older than `age` before it; what was done, as data."""
    from kafka_recovery.fleet.storage import StorageUnavailable

    at = evidence.cluster.observed_at
    try:
        written = archive.write(evidence)
        removed = () if age is None else archive.expire(written.cluster_id, at - age)
    except StorageUnavailable as error:
        raise unusable(error) from None
    replicas = [replica for partition in evidence.partitions for replica in partition.replicas]
    return Kept(
        file=archive.name(written),
        cluster=written.cluster_id,
        observed_at=at.isoformat(),
        partitions=len(evidence.partitions),
        offline=sum(partition.leader is None for partition in evidence.partitions),
        replicas=len(replicas),
        measured=sum(replica.log is not None for replica in replicas),
        removed=tuple(archive.name(snapshot) for snapshot in removed),
    )


def _table(result: Kept) -> Any:
    counted = (result.partitions, result.offline, result.replicas, result.measured, len(result.removed))
    headings = ("Cluster", "Partitions", "Offline", "Replicas", "Measured", "Removed", "File")
    return table(*headings, rows=[(result.cluster, *counted, result.file)])
