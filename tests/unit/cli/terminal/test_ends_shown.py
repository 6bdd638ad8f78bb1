"""What the end of a run says where nobody was elected."""

from __future__ import annotations

import pytest
from rich.console import Console

from kafka_recovery.cli.terminal.tables import report_table
from kafka_recovery.domain.counts import AWAITING_APPROVAL
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report
from kafka_recovery.domain.reason import Reason

NOBODY = "Nobody was elected. kafka-recovery plan says what may be done now"


@pytest.mark.parametrize(("code", "is_told"), [("Fenced", True), (AWAITING_APPROVAL, False)])
def test_who_is_refused_an_election_reads_that_nothing_was_elected_and_where_to_look_if_no_plan_waits_for_a_yes(
    code: str, is_told: bool
) -> None:
    done = PartitionOutcome(TopicPartition("orders", 0), Outcome.REFUSED, reason=Reason(code, "see there"))
    console = Console(width=200)
    with console.capture() as captured:
        console.print(report_table(Report((done,))))

    assert (NOBODY in captured.get()) == is_told
