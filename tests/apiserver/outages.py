"""Outages that are quickly made and quickly over, so that many tests of the operator share one Kafka.

Nothing is killed, brokers only freeze: an outage takes two session timeouts, its end takes no start of a JVM.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.cluster import RealKafka

LAST, BETTER, SURVIVOR = 1, 2, 3
"""The brokers: who leads alone in the end and freezes, who may hold more than the survivor, and the survivor."""


@dataclass
class Outages:
    """What happens to a Kafka of three brokers during one test."""

    kafka: RealKafka

    def lose(self, *, better: bool = False, **topics: int) -> None:
        """New topics of so many partitions, all offline; the survivor has one of two records.

        With `better`, the broker of that name left the ISR later than the survivor: it holds both records, and is
        frozen as well until it is thawed.
        """
        assignment = [LAST, BETTER, SURVIVOR] if better else [LAST, SURVIVOR]
        for topic, partitions in topics.items():
            self.create(topic, [assignment] * partitions)
            self._write(topic, partitions, assignment, upto=1)
        for number, broker in enumerate([SURVIVOR, BETTER] if better else [SURVIVOR]):
            self.freeze(broker)
            if number == 0:
                for topic, partitions in topics.items():
                    self._write(topic, partitions, assignment[:-1], upto=2)
        self.kafka.freeze(LAST)
        self.kafka.thaw(SURVIVOR)
        self.kafka.wait_until_fenced(LAST)
        self.kafka.wait_until_unfenced(SURVIVOR)
        for topic in topics:
            self.kafka.wait_for(topic, lambda state: state.leader is None)

    def create(self, topic: str, assignments: list[list[int]], **configs: str | int) -> None:
        """A topic for the length of the test."""
        self.kafka.create_topic(topic, assignments, **configs)

    def freeze(self, broker: int) -> None:
        """Until the controller has fenced it."""
        self.kafka.freeze(broker)
        self.kafka.wait_until_fenced(broker)

    def thaw(self, broker: int) -> None:
        """Until it could be made a leader."""
        self.kafka.thaw(broker)
        self.kafka.wait_until_unfenced(broker)

    def leaders(self, topic: str) -> list[int | None]:
        """Of each partition; None: it is offline."""
        return [state.leader for _, state in sorted(self.kafka.describe(topic).items())]

    def _write(self, topic: str, partitions: int, brokers: list[int], upto: int) -> None:
        self.kafka.produce_to(topic, range(partitions), 1, f"record-{upto}")
        for broker in brokers:
            self.kafka.wait_for_log_ends(broker, topic, dict.fromkeys(range(partitions), upto))
