"""Evidence as rows and back: each row holds all that a decision about its partition looks at.

What the cluster is like as a whole stands in every row, counted, and each replica has its broker's state beside it:
reading a row needs no other one. The rest of a gather is its `Surroundings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    Evidence,
    MinInsyncReplicas,
    MissingPartition,
    PartitionEvidence,
    Reassignment,
    Replica,
    ReplicaLog,
    WitnessedEnd,
)
from kafka_recovery.domain.history import BrokerStart, HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.reason import Reason

Row = dict[str, Any]
"""Plain values as Arrow takes and gives them: lists, dicts, numbers, text, instants."""

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What one gather saw besides partitions."""

    cluster: ClusterState
    missing: tuple[MissingPartition, ...]


def rows(evidence: Evidence) -> Iterator[Row]:
    """One row a partition, in the evidence's order."""
    cluster = _cluster(evidence.cluster)
    states = {broker.id: _broker_state(broker) for broker in evidence.cluster.brokers}
    return (_row(partition, cluster, states) for partition in evidence.partitions)


def partition(row: Row) -> PartitionEvidence:
    """The partition that a row is about. What is only derived in it, such as `last_epoch`, is not looked at."""
    return PartitionEvidence(
        id=TopicPartition(row["topic"], row["partition"]),
        topic_id=TopicId(row["topic_id"]),
        internal=row["internal"],
        leader=row["leader"],
        leader_epoch=LeaderEpoch(row["leader_epoch"]),
        isr=tuple(row["isr"]),
        elr=_brokers(row["elr"]),
        last_known_elr=_brokers(row["last_known_elr"]),
        replicas=tuple(_replica(entry) for entry in row["replicas"]),
        reassignment=_reassignment(row["reassignment"]),
        reassignment_known=row["reassignment_known"],
        min_isr=None if row["min_isr"] is None else MinInsyncReplicas(**row["min_isr"]),
        unclean_election_enabled=row["unclean_election_enabled"],
        tiered=row["tiered"],
        configs_problem=_reason(row["configs_problem"]),
        offline_since=row["offline_since"],
        witnessed_ends=tuple(WitnessedEnd(**entry) for entry in row["witnessed_ends"]),
        history=_history(row["history"]),
    )


def _row(seen: PartitionEvidence, cluster: Row, states: Mapping[BrokerId, Row]) -> Row:
    ongoing = seen.reassignment
    return {
        "topic": seen.id.topic,
        "partition": seen.id.partition,
        "topic_id": seen.topic_id,
        "internal": seen.internal,
        "leader": seen.leader,
        "leader_epoch": seen.leader_epoch,
        "offline_since": seen.offline_since,
        "isr": list(seen.isr),
        "elr": _listed(seen.elr),
        "last_known_elr": _listed(seen.last_known_elr),
        "reassignment": ongoing and {"adding": list(ongoing.adding), "removing": list(ongoing.removing)},
        "reassignment_known": seen.reassignment_known,
        "min_isr": seen.min_isr and {"value": seen.min_isr.value, "source": seen.min_isr.source},
        "unclean_election_enabled": seen.unclean_election_enabled,
        "tiered": seen.tiered,
        "configs_problem": _reason_row(seen.configs_problem),
        "witnessed_ends": [{"source": witness.source, "end": witness.end} for witness in seen.witnessed_ends],
        "history": seen.history and asdict(seen.history, dict_factory=_with_lists),
        "replicas": [_replica_row(replica, states.get(replica.broker)) for replica in seen.replicas],
        "cluster": cluster,
    }


def _cluster(state: ClusterState) -> Row:
    """The cluster as its guards look at it: docs/reference/fleet-evidence.md has the rule of each count."""
    view = state.broker(state.view_from)
    asked = [b.metadata_advances for b in state.brokers if b.reachable and b.metadata_advances is not None]
    return {
        "id": state.cluster_id,
        "release": state.release,
        "elr_enabled": state.elr_enabled,
        "view_from": state.view_from,
        "view_advances": view and view.metadata_advances,
        "controller_present": True if state.committed is not None else any(asked) if asked else None,
        "brokers_known": len(state.brokers),
        "brokers_down": sum(broker.fenced or not broker.registered for broker in state.brokers),
        "observed_at": state.observed_at,
        "took_us": state.took // _MICROSECOND,
        "designated_elections": state.designated_elections,
        "as_of": state.as_of,
    }


def _broker_state(broker: Broker) -> Row:
    return {
        "rack": broker.rack,
        "registered": broker.registered,
        "fenced": broker.fenced,
        "stopping": broker.stopping,
        "reachable": broker.reachable,
        "metadata_advances": broker.metadata_advances,
    }


def _replica_row(replica: Replica, state: Row | None) -> Row:
    return {
        "broker": replica.broker,
        "broker_state": state,
        "log": replica.log and _log_row(replica.log),
        "problem": _reason_row(replica.problem),
        "leads": replica.leads,
    }


def _log_row(log: ReplicaLog) -> Row:
    epochs = None if log.epochs is None else [{"epoch": entry.epoch, "start": entry.start} for entry in log.epochs]
    return {
        "start": log.start,
        "end": log.end,
        "last_epoch": log.last_epoch,
        "epochs": epochs,
        "high_watermark": log.high_watermark,
        "answered_under": log.answered_under,
        "observed_at": log.observed_at,
        "took_us": log.took // _MICROSECOND,
        "local_start": log.local_start,
        "almost_full": log.almost_full,
    }


def _replica(entry: Row) -> Replica:
    log = None if entry["log"] is None else _log(entry["log"])
    return Replica(BrokerId(entry["broker"]), log, _reason(entry["problem"]), entry["leads"])


def _log(entry: Row) -> ReplicaLog:
    vector = entry["epochs"]
    return ReplicaLog(
        start=Offset(entry["start"]),
        end=Offset(entry["end"]),
        epochs=None if vector is None else tuple(EpochEntry(**step) for step in vector),
        high_watermark=entry["high_watermark"],
        answered_under=entry["answered_under"],
        observed_at=entry["observed_at"],
        took=entry["took_us"] * _MICROSECOND,
        local_start=entry["local_start"],
        almost_full=entry["almost_full"],
    )


def _history(entry: Row | None) -> PartitionHistory | None:
    if entry is None:
        return None
    cap = entry["transaction_log"]
    return PartitionHistory(
        topic_id=TopicId(entry["topic_id"]),
        as_of=entry["as_of"],
        steps=tuple(HistoryStep(**_with_tuples(step)) for step in entry["steps"]),
        starts=tuple(BrokerStart(**start) for start in entry["starts"]),
        transaction_log=None if cap is None else LossClass(cap),
    )


def _with_lists(entry: Iterable[tuple[str, Any]]) -> Row:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in entry}


def _with_tuples(entry: Row) -> Row:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}


def _reason(entry: Row | None) -> Reason | None:
    return None if entry is None else Reason(**entry)


def _reason_row(reason: Reason | None) -> Row | None:
    return None if reason is None else {"code": reason.code, "message": reason.message}


def _reassignment(entry: Row | None) -> Reassignment | None:
    return None if entry is None else Reassignment(tuple(entry["adding"]), tuple(entry["removing"]))


def _brokers(entry: list[BrokerId] | None) -> tuple[BrokerId, ...] | None:
    return None if entry is None else tuple(entry)


def _listed(brokers: Iterable[BrokerId] | None) -> list[BrokerId] | None:
    return None if brokers is None else list(brokers)
