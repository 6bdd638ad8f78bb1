"""A producer that never stops, and what was acknowledged to it with acks=all."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, Message, Producer

from testbed.topics import client
from testbed.waiting import wait_until

_PAUSE = 0.002
"""Seconds between two records of each topic."""


@dataclass
class Acknowledged:
    """By topic, in the order of the acknowledgements."""

    values: dict[str, list[str]] = field(default_factory=dict)

    def wait_for_more(self, topic: str, count: int = 50) -> None:
        """Until so many more are acknowledged than at this moment."""
        wanted = len(self.values[topic]) + count
        wait_until(f"{wanted} records of {topic}", lambda: len(self.values[topic]), lambda seen: seen >= wanted)


@contextmanager
def acknowledging(bootstrap: str, topics: Sequence[str]) -> Iterator[Acknowledged]:
    """Writes to partition 0 of each topic until the block ends; what is under way then is waited for."""
    told = Acknowledged({topic: [] for topic in topics})
    settings = client(
        bootstrap,
        acks="all",
        linger_ms=2,
        message_timeout_ms=4000,
        topic_metadata_refresh_interval_ms=300,
        retry_backoff_ms=50,
        retry_backoff_max_ms=200,
        socket_timeout_ms=2000,
    )
    ended = threading.Event()
    writing = threading.Thread(target=_write, args=(Producer(settings), told, ended), name="producer")
    writing.start()
    try:
        yield told
    finally:
        ended.set()
        writing.join()


def _write(producer: Producer, told: Acknowledged, ended: threading.Event) -> None:
    def note(error: object, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            told.values[str(message.topic())].append(value.decode())

    number = 0
    while not ended.is_set():
        for topic in told.values:
            try:
                producer.produce(topic, str(number), partition=0, on_delivery=note)
            except (BufferError, KafkaException):
                producer.poll(0.05)
        number += 1
        producer.poll(_PAUSE)
    producer.flush(5)
