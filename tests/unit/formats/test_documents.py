"""Canonical JSON of what is large: its bytes are those of one writer, and the process goes on while it is written."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Limits, Policy
from kafka_recovery.formats import documents
from kafka_recovery.formats.documents import canonical
from unit.decision.incident import evidence, log, partition


def plan_of(partitions: int) -> Plan:
    held = {1: None, 2: log(100), 3: log(90)}
    seen = [partition(held, id=TopicPartition("orders", number)) for number in range(partitions)]
    return decide(evidence(*seen), Policy(limits=Limits(partitions=max(partitions, 1), wave_sizes=(1, 300))))


@pytest.mark.parametrize("partitions", [0, 1, 200, 201, 999])
def test_a_plan_of_any_size_has_the_bytes_that_one_writer_would_give_it(partitions: int) -> None:
    plan = plan_of(partitions)

    assert canonical(plan) == TypeAdapter(Plan).dump_json(plan)


@dataclass(frozen=True)
class Nothing:
    """A document without a field."""


def test_a_document_without_a_field_is_an_empty_object() -> None:
    assert canonical(Nothing()) == b"{}"


def test_no_other_thread_waits_for_more_than_a_piece_of_a_large_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 20,000 partitions takes 0.4 s: meanwhile the operator answers its probes and renews its Lease.

    Threads take turns between two pieces, and at no other moment.
    """
    pieces: list[int] = []

    def noted(kind: Any) -> Any:
        def dump_json(value: object) -> bytes:
            pieces.append(len(value) if isinstance(value, tuple) else 1)
            return TypeAdapter[Any](kind).dump_json(value)

        return SimpleNamespace(dump_json=dump_json)

    plan = plan_of(999)
    monkeypatch.setattr(documents, "_adapter", noted)

    assert documents.canonical(plan) == TypeAdapter(Plan).dump_json(plan)
    assert sum(pieces) > 2 * 999, "the partitions' evidence and the decisions"
    assert max(pieces) <= 200
