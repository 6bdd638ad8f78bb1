"""Kafka's own VerifiableProducer: a process that writes without a pause, and says of each record what became of it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from testbed.client_history import Record
from testbed.guard import Guard
from testbed.kafka_tools import KafkaTools
from testbed.layout import write_properties
from testbed.waiting import wait_until

PROGRAM = "org.apache.kafka.tools.VerifiableProducer"
HEAP = 96
KEYS = 60
"""As many keys, one after the other: so each of some partitions gets records."""
END = 60.0
"""Seconds until it has ended: it waits for what is under way."""

PROMPT = {
    "delivery.timeout.ms": "5000",
    "request.timeout.ms": "2000",
    "max.block.ms": "2000",
    "metadata.max.age.ms": "500",
    "reconnect.backoff.max.ms": "200",
    "retry.backoff.max.ms": "200",
}
"""Partitions come and go here within seconds."""
SENT_ONCE: Mapping[str, str] = PROMPT
"""As the tool does by default: what fails is not sent again, and the producer has no id (`retries=0`)."""
RETRIED: Mapping[str, str] = {**PROMPT, "enable.idempotence": "true", "retries": "2147483647"}
"""As producers are by default: idempotent."""


@dataclass
class Written:
    """What became of the records of one topic. `acknowledged` by partition, in the order of the acknowledgements."""

    acknowledged: dict[int, list[Record]]
    failed: int = 0
    said: dict[str, int] = field(default_factory=dict)
    """How many of each kind of line the tool has printed."""
    summed_up: int | None = None
    """How many acknowledgements the tool itself counted, told at its end."""

    @property
    def count(self) -> int:
        """How many records are acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    def wait_for_more(self, partitions: Collection[int], count: int) -> None:
        """Until each of these partitions has so many more acknowledged records than at this moment."""
        wanted = {partition: len(self.acknowledged[partition]) + count for partition in partitions}
        wait_until(
            f"{count} more records of partitions {sorted(partitions)}",
            lambda: {each: goal - len(self.acknowledged[each]) for each, goal in wanted.items()},
            lambda missing: all(number <= 0 for number in missing.values()),
        )

    def check(self) -> None:
        """Raises RuntimeError unless every acknowledgement that the tool counted was heard: one less is no loss."""
        if self.summed_up != self.count:
            raise RuntimeError(f"VerifiableProducer counted {self.summed_up} acknowledged, and told of {self.count}")

    def hear(self, line: str) -> None:
        """One line of the tool's output."""
        if not line.startswith("{"):
            return  # a warning
        said = json.loads(line)
        name = said["name"]
        self.said[name] = self.said.get(name, 0) + 1
        if name == "producer_send_success":
            self.acknowledged[said["partition"]].append(Record(said["offset"], said["value"]))
        elif name == "producer_send_error":
            self.failed += 1
        elif name == "tool_data":
            self.summed_up = said["acked"]


@contextmanager
def writing(
    bootstrap: str,
    home: Path,
    topic: str,
    partitions: Collection[int],
    *,
    prefix: int,
    per_second: int,
    settings: Mapping[str, str],
) -> Iterator[Written]:
    """Writes with acks=all to a topic with these partitions until the block ends; then what is under way is awaited.

    The values are `PREFIX.0`, `PREFIX.1`...
    """
    home.mkdir(parents=True, exist_ok=True)
    config = home / "producer.properties"
    write_properties(config, settings)
    words = {
        "--bootstrap-server": bootstrap,
        "--topic": topic,
        "--acks": "-1",
        "--throughput": str(per_second),
        "--value-prefix": str(prefix),
        "--repeating-keys": str(KEYS),
        "--producer.config": str(config),
    }
    typed = [word for option in words.items() for word in option]
    command, environment = KafkaTools(bootstrap, home).typed(PROGRAM, *typed, heap=HEAP)
    written, guard = Written({partition: [] for partition in partitions}), Guard(None)
    with (home / "console.log").open("ab") as console:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=console, text=True, start_new_session=True
        )
    guard.watch(process.pid)
    listening = threading.Thread(target=_listen, args=(process, written), name=f"producer of {topic}")
    listening.start()
    try:
        yield written
        process.terminate()
        listening.join(END)
    finally:
        process.kill()
        process.wait()
        listening.join()
        guard.close()
    written.check()


def _listen(process: subprocess.Popen[str], written: Written) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            written.hear(line)
