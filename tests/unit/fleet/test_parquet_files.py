"""What stands in an evidence file, and every way in which a file is not one."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.history import MOST_STEPS
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet import parquet_files
from kafka_recovery.fleet.parquet_files import decoded, encoded
from kafka_recovery.fleet.schema import SCHEMA, SURROUNDINGS_KEY, VERSION_KEY
from kafka_recovery.formats.documents import InvalidDocument
from unit.decision.incident import evidence, log, partition
from unit.fleet.looks import broker, look


def table(raw: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(raw)).read()


def written(changed: pa.Table) -> bytes:
    content = io.BytesIO()
    pq.write_table(changed, content)
    return content.getvalue()


def with_rows(change: Callable[[list[dict[str, Any]]], object]) -> bytes:
    """A file in which somebody changed rows."""
    original = table(encoded(look(), "file"))
    rows = original.to_pylist()
    change(rows)
    return written(pa.Table.from_pylist(rows, schema=original.schema))


def with_metadata(key: bytes, value: bytes | None) -> bytes:
    original = table(encoded(look(), "file"))
    metadata = {k: v for k, v in original.schema.metadata.items() if k != key} | ({} if value is None else {key: value})
    return written(original.replace_schema_metadata(metadata))


def refusal(raw: bytes) -> str:
    with pytest.raises(InvalidDocument) as refused:
        decoded(raw, "here.parquet")
    return str(refused.value)


def test_a_row_alone_tells_what_a_decision_looks_at() -> None:
    seen = look()
    row = table(encoded(seen, "file")).to_pylist()[0]

    assert row["cluster"] == {
        "id": "prod",
        "release": "4.1",
        "elr_enabled": None,
        "view_from": 1,
        "view_advances": True,
        "controller_present": True,
        "brokers_known": 2,
        "brokers_down": 1,
        "observed_at": seen.cluster.observed_at,
        "took_us": 7000,
        "designated_elections": False,
        "as_of": None,
    }
    first, second = row["replicas"]
    assert (first["broker_state"]["rack"], first["broker_state"]["fenced"]) == ("rack-1", False)
    assert (second["broker_state"]["fenced"], second["log"], second["problem"]["code"]) == (True, None, "BrokerTimeout")
    assert first["log"]["last_epoch"] == 5  # the entry of epoch 6 holds no record yet


def test_a_broker_that_the_cluster_does_not_know_has_no_state() -> None:
    seen = look()
    alone = replace(seen, cluster=replace(seen.cluster, brokers=(broker(1, alive=True),), view_from=BrokerId(9)))

    row = table(encoded(alone, "file")).to_pylist()[0]

    assert row["replicas"][1]["broker_state"] is None
    assert row["cluster"]["view_advances"] is None


def test_configs_that_could_not_be_read_are_told_apart_from_configs_that_say_no() -> None:
    """Nobody knows whether such a topic has a remote tier, so the loss class that is proven of it has to be Unknown."""
    seen, unread = look(partitions=1), Reason("TopicAuthorizationFailed", "no DESCRIBE_CONFIGS on topic orders")
    kept = replace(seen, partitions=(replace(seen.partitions[0], configs_problem=unread),))

    (of_unread,) = decoded(encoded(kept, "file"), "file").partitions
    (of_read,) = decoded(encoded(seen, "file"), "file").partitions

    assert (of_unread.configs_problem, of_unread.may_be_tiered) == (unread, True)
    assert (of_read.configs_problem, of_read.may_be_tiered) == (None, False)


def test_whether_there_is_a_controller_is_unknown_if_nobody_was_asked_twice() -> None:
    seen = look()
    nobody = replace(seen, cluster=replace(seen.cluster, brokers=(broker(2, alive=False),)))

    assert table(encoded(nobody, "file")).to_pylist()[0]["cluster"]["controller_present"] is None


def test_a_look_at_no_partition_is_a_look_all_the_same() -> None:
    nothing = look(partitions=0)

    assert decoded(encoded(nothing, "file"), "file") == nothing


def test_which_volume_is_almost_full_comes_back() -> None:
    seen = evidence(partition({1: None, 2: log(27, almost_full=True), 3: log(27)}))
    (found,) = decoded(encoded(seen, "file"), "file").partitions

    assert [each.log and each.log.almost_full for each in found.replicas] == [None, True, False]


def test_many_partitions_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "ROWS_A_GROUP", 7)
    seen = look(partitions=50)
    raw = encoded(seen, "file")

    assert pq.ParquetFile(pa.BufferReader(raw)).num_row_groups == 8
    assert decoded(raw, "file") == seen


def test_what_always_has_a_value_is_required_by_parquet_itself() -> None:
    shape = str(pq.ParquetFile(pa.BufferReader(encoded(look(), "file"))).schema)

    assert "required int32 field_id=-1 leader_epoch" in shape
    assert "optional int32 field_id=-1 leader;" in shape


def test_an_empty_file_is_no_evidence() -> None:
    assert refusal(b"") == "here.parquet: is empty"


def test_a_truncated_file_is_refused_wherever_it_was_cut() -> None:
    raw = encoded(look(), "file")

    for length in random.Random(1).sample(range(1, len(raw)), 40):
        assert refusal(raw[:length]).startswith("here.parquet: is no Parquet file, or a damaged one: "), length


def test_a_damaged_page_is_found_by_its_checksum() -> None:
    raw = bytearray(encoded(look(partitions=200), "file"))
    column = pq.ParquetFile(pa.BufferReader(bytes(raw))).metadata.row_group(0).column(1)
    raw[column.data_page_offset + column.total_compressed_size // 2] ^= 1

    assert "is no Parquet file, or a damaged one" in refusal(bytes(raw))


def test_text_that_is_none_of_ours() -> None:
    assert "is no Parquet file" in refusal(b"topic,partition\norders,1\n")


def test_parquet_of_somebody_else() -> None:
    raw = written(pa.table({"a": [1]}))

    assert refusal(raw) == "here.parquet: kafka-recovery.evidence.version: is missing, so this is no evidence file"


def test_a_history_that_is_too_long_is_refused() -> None:
    step = dict.fromkeys(("since", "leader_epoch", "min_isr"), 1) | {"replicas": [], "isr": [], "recovering": False}
    endless = {"topic_id": "t", "as_of": 1, "steps": [step] * (MOST_STEPS + 1), "starts": []}

    said = refusal(with_rows(lambda rows: rows[0].update(history=endless)))
    assert said == f"here.parquet: a history has at most {MOST_STEPS} steps (got {MOST_STEPS + 1})"


def test_a_history_of_an_unknown_loss_class_is_refused() -> None:
    odd = {"topic_id": "t", "as_of": 1, "steps": [], "starts": [], "transaction_log": "Fine"}
    assert "'Fine'" in refusal(with_rows(lambda rows: rows[0].update(history=odd)))


def test_another_schema_version_is_named() -> None:
    assert refusal(with_metadata(VERSION_KEY, b"1")) == (
        "here.parquet: kafka-recovery.evidence.version: this release reads version 3 (got '1')"
    )


def test_a_column_of_another_type_is_named() -> None:
    original = table(encoded(look(), "file"))
    place = original.schema.get_field_index("partition")
    wide = original.set_column(
        place, pa.field("partition", pa.int64(), nullable=False), original["partition"].cast("int64")
    )

    assert refusal(written(wide)) == (
        "here.parquet: partition: must be the column pyarrow.Field<partition: int32 not null> "
        "(got pyarrow.Field<partition: int64 not null>)"
    )


def test_a_column_that_may_be_null_and_must_not_is_another_column() -> None:
    original = table(encoded(look(), "file"))
    lax = original.cast(pa.schema([f.with_nullable(True) for f in original.schema], metadata=original.schema.metadata))

    assert "topic: must be the column" in refusal(written(lax))


def test_missing_and_unknown_columns_are_named() -> None:
    original = table(encoded(look(), "file"))

    assert "cluster: must be the column" in refusal(written(original.drop_columns(["cluster"])))
    extra = original.append_column("mood", pa.array(["good"] * original.num_rows))
    assert refusal(written(extra)) == "here.parquet: mood: is an unknown column"


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b'{"cluster": {}, "missing": []}'])
def test_surroundings_that_can_t_be_read(value: bytes | None) -> None:
    assert refusal(with_metadata(SURROUNDINGS_KEY, value)).startswith(
        "here.parquet: kafka-recovery.evidence.surroundings: "
    )


def test_evidence_of_a_partition_twice_is_refused() -> None:
    def repeat(rows: list[dict[str, Any]]) -> None:
        rows.append(rows[1])

    assert refusal(with_rows(repeat)) == ("here.parquet: orders-1: has evidence twice; which one holds can't be known")


def test_such_evidence_is_not_even_written() -> None:
    seen = look()

    with pytest.raises(InvalidDocument, match="orders-0: has evidence twice"):
        encoded(replace(seen, partitions=seen.partitions + seen.partitions[:1]), "file")


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("replicas", 0, "log", "last_epoch"), 6, "replicas[0].log.last_epoch: must be 5 (got 6)"),
        (("replicas", 1, "broker_state", "fenced"), False, "replicas[1].broker_state.fenced: must be True (got False)"),
        (("replicas", 1, "broker_state"), None, "replicas[1].broker_state: must be {'rack': 'rack-2',"),
        (("cluster", "brokers_down"), 0, "cluster.brokers_down: must be 1 (got 0)"),
        (("cluster", "id"), "other", "cluster.id: must be 'prod' (got 'other')"),
    ],
)
def test_what_is_derived_must_agree_with_what_it_is_derived_from(
    path: tuple[str | int, ...], value: object, problem: str
) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        place: Any = rows[2]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    assert refusal(with_rows(change)).startswith(f"here.parquet: orders-2: {problem}")


def test_an_instant_that_no_calendar_has() -> None:
    far = pa.scalar(2**62, pa.timestamp("us", tz="UTC"))

    def change(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["cluster"]["observed_at"] = far

    assert "is no Parquet file, or a damaged one" in refusal(with_rows(change))


def test_a_number_too_large_for_its_column_is_not_written() -> None:
    seen = look()
    absurd = replace(seen.partitions[0], id=TopicPartition("orders", 2**31))

    with pytest.raises(InvalidDocument, match="place: this evidence has no place in a file"):
        encoded(replace(seen, partitions=(absurd,)), "place")


def test_times_are_counted_in_microseconds() -> None:
    seen: Evidence = look()
    quick = replace(seen, cluster=replace(seen.cluster, took=timedelta(microseconds=1)))

    assert decoded(encoded(quick, "file"), "file").cluster.took == timedelta(microseconds=1)
    assert SCHEMA.field("cluster").type.field("took_us").type == pa.int64()
