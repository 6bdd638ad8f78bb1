"""Canonical JSON of what is large: its bytes are those of one writer, and the process goes on while it is written."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Limits, Policy
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


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """A thread that waits is given its turn as soon as the interpreter may give it one."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("eager_threads")
def test_another_thread_goes_on_while_a_large_plan_is_written() -> None:
    """One of 20,000 partitions takes 0.4 s: meanwhile the operator answers its probes and renews its Lease."""
    plan, seen = plan_of(8000), SimpleNamespace(turns=0)
    canonical(plan_of(1))  # what writes a plan is made at the first one
    begun, over = Event(), Event()

    def others() -> None:
        begun.set()
        while not over.is_set():
            seen.turns += 1
            time.sleep(0)

    thread = Thread(target=others)
    thread.start()
    begun.wait()
    seen.turns = 0
    canonical(plan)
    turns = seen.turns
    over.set()
    thread.join()

    assert turns > 20
