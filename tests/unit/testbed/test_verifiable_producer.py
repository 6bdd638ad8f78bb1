"""What Kafka's VerifiableProducer prints is read as it is meant."""

from __future__ import annotations

import json

import pytest

from testbed.client_history import Record
from testbed.verifiable_producer import Written


def test_what_was_acknowledged_is_known_by_partition_and_offset_and_nothing_else_counts() -> None:
    written = Written({0: [], 1: []})
    lines = [
        "Option --producer.config has been deprecated and will be removed in a future version.",
        json.dumps({"timestamp": 1, "name": "startup_complete"}),
        json.dumps(sent("1.0", partition=1, offset=7)),
        json.dumps({"timestamp": 1, "name": "producer_send_error", "key": "1", "value": "1.1", "topic": "orders"}),
        json.dumps(sent("1.2", partition=0, offset=3)),
        json.dumps(sent("1.3", partition=1, offset=8)),
        json.dumps({"timestamp": 1, "name": "tool_data", "sent": 4, "acked": 3, "target_throughput": 100}),
    ]

    for line in lines:
        written.hear(line)

    assert written.acknowledged == {0: [Record(3, "1.2")], 1: [Record(7, "1.0"), Record(8, "1.3")]}
    assert (written.count, written.failed, written.summed_up) == (3, 1, 3)


@pytest.mark.parametrize("counted", [1, 3, None])
def test_a_producer_whose_count_is_another_one_or_never_came_proves_nothing(counted: int | None) -> None:
    written = Written({0: []})
    written.hear(json.dumps(sent("1.0", partition=0, offset=0)))
    written.hear(json.dumps(sent("1.1", partition=0, offset=1)))
    written.summed_up = counted

    with pytest.raises(RuntimeError, match=f"counted {counted} acknowledged, and told of 2"):
        written.check()

    written.summed_up = 2
    written.check()


def sent(value: str, *, partition: int, offset: int) -> dict[str, object]:
    told = {"timestamp": 1, "name": "producer_send_success", "key": "0", "topic": "orders"}
    return {**told, "value": value, "partition": partition, "offset": offset}
