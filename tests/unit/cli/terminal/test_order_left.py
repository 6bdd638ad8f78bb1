"""What people are told of an assignment order: it is the original one, or it is not, or nobody knows."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kafka_recovery.cli.terminal import words
from kafka_recovery.cli.terminal.tables import undone_table
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("restored", "sentence", "cell"),
    [
        (True, "orders-0: InDoubt", "restored"),
        (False, "orders-0: InDoubt; its assignment order is not restored yet", "NOT restored"),
        (None, "orders-0: InDoubt; nobody knows whether its assignment order is the original one", "not known"),
    ],
)
def test_an_order_that_nobody_could_see_is_told_neither_as_altered_nor_as_restored(
    restored: bool | None, sentence: str, cell: str
) -> None:
    done = PartitionOutcome(ORDERS, Outcome.IN_DOUBT, order_restored=restored)
    shown = io.StringIO()
    Console(file=shown, width=80).print(undone_table(Report((done,))))

    assert words.outcome(done) == sentence
    assert shown.getvalue().splitlines()[-1].split(maxsplit=1)[1].strip() == cell
