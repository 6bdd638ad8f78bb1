"""The Arrow schema of evidence files: one row per partition, its replicas nested in assignment order.

docs/reference/fleet-evidence.md says what each column means. Null is unknown, never "no". A column that always has a
value is Parquet's `required`, so that a file can't say otherwise. Spark, DuckDB and Polars read every type used here.
"""

from __future__ import annotations

import pyarrow as pa

VERSION = 3
"""Raised by whatever a reader of the version before would take wrongly, a new column included."""

VERSION_KEY = b"kafka-recovery.evidence.version"
SURROUNDINGS_KEY = b"kafka-recovery.evidence.surroundings"
"""Key of the file's metadata for what belongs to no row: every broker, features, partitions that were not found."""


def _always(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _list(element: pa.DataType) -> pa.DataType:
    return pa.list_(_always("element", element))  # Parquet's own name for it


BROKERS = _list(pa.int32())
TIME = pa.timestamp("us", tz="UTC")
REASON = pa.struct([_always("code", pa.string()), _always("message", pa.string())])
EPOCHS = _list(pa.struct([_always("epoch", pa.int32()), _always("start", pa.int64())]))
WITNESSED_ENDS = _list(pa.struct([_always("source", pa.string()), _always("end", pa.int64())]))
REASSIGNMENT = pa.struct([_always("adding", BROKERS), _always("removing", BROKERS)])
MIN_ISR = pa.struct([_always("value", pa.int32()), _always("source", pa.string())])
HISTORY = pa.struct(
    [
        _always("topic_id", pa.string()),
        _always("as_of", pa.int64()),
        _always(
            "steps",
            _list(
                pa.struct(
                    [
                        _always("since", pa.int64()),
                        pa.field("leader", pa.int32()),
                        _always("leader_epoch", pa.int32()),
                        _always("replicas", BROKERS),
                        _always("isr", BROKERS),
                        pa.field("elr", BROKERS),
                        _always("min_isr", pa.int32()),
                        _always("recovering", pa.bool_()),
                    ]
                )
            ),
        ),
        _always(
            "starts",
            _list(
                pa.struct(
                    [
                        _always("broker", pa.int32()),
                        _always("epoch", pa.int64()),
                        pa.field("stopped_cleanly", pa.bool_()),
                        pa.field("directory", pa.string()),
                        pa.field("volume", pa.string()),
                        pa.field("boot", pa.string()),
                        pa.field("incarnation", pa.string()),
                    ]
                )
            ),
        ),
        pa.field("transaction_log", pa.string()),
    ]
)

CLUSTER = pa.struct(
    [
        _always("id", pa.string()),
        pa.field("release", pa.string()),
        pa.field("elr_enabled", pa.bool_()),
        _always("view_from", pa.int32()),
        pa.field("view_advances", pa.bool_()),
        pa.field("controller_present", pa.bool_()),
        _always("brokers_known", pa.int32()),
        _always("brokers_down", pa.int32()),
        _always("observed_at", TIME),
        _always("took_us", pa.int64()),
        _always("designated_elections", pa.bool_()),
        pa.field("as_of", pa.int64()),
    ]
)
BROKER_STATE = pa.struct(
    [
        pa.field("rack", pa.string()),
        pa.field("registered", pa.bool_()),
        _always("fenced", pa.bool_()),
        pa.field("stopping", pa.bool_()),
        _always("reachable", pa.bool_()),
        pa.field("metadata_advances", pa.bool_()),
    ]
)
LOG = pa.struct(
    [
        _always("start", pa.int64()),
        _always("end", pa.int64()),
        pa.field("last_epoch", pa.int32()),
        pa.field("epochs", EPOCHS),
        pa.field("high_watermark", pa.int64()),
        pa.field("answered_under", pa.int32()),
        _always("observed_at", TIME),
        _always("took_us", pa.int64()),
        pa.field("local_start", pa.int64()),
        _always("almost_full", pa.bool_()),
    ]
)
REPLICA = pa.struct(
    [
        _always("broker", pa.int32()),
        pa.field("broker_state", BROKER_STATE),
        pa.field("log", LOG),
        pa.field("problem", REASON),
        _always("leads", pa.bool_()),
    ]
)
SCHEMA = pa.schema(
    [
        _always("topic", pa.string()),
        _always("partition", pa.int32()),
        _always("topic_id", pa.string()),
        _always("internal", pa.bool_()),
        pa.field("leader", pa.int32()),
        _always("leader_epoch", pa.int32()),
        pa.field("offline_since", TIME),
        _always("isr", BROKERS),
        pa.field("elr", BROKERS),
        pa.field("last_known_elr", BROKERS),
        pa.field("reassignment", REASSIGNMENT),
        _always("reassignment_known", pa.bool_()),
        pa.field("min_isr", MIN_ISR),
        pa.field("unclean_election_enabled", pa.bool_()),
        pa.field("tiered", pa.bool_()),
        pa.field("configs_problem", REASON),
        _always("witnessed_ends", WITNESSED_ENDS),
        pa.field("history", HISTORY),
        _always("replicas", _list(REPLICA)),
        _always("cluster", CLUSTER),
    ]
)
