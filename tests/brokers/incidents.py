"""Incidents on a real Kafka, drawn from a seed, while Kafka's own VerifiableProducers write with acks=all.

Brokers leave and come back, in loops; then two of them leave, the last one dies, and those that left come back. Now all
partitions are offline, and everything else is up to the engine. At the end all brokers are back, and every record that
was acknowledged is looked for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

from brokers.departures import Departures, Way
from brokers.kubelets import Kubelets
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from testbed.client_history import ClientHistory, Record
from testbed.cluster import RealKafka
from testbed.verifiable_producer import RETRIED, SENT_ONCE, Written, writing

BROKERS = (1, 2, 3)
ORDERS = [list(order) for order in permutations(BROKERS)]
"""The replicas of a topic's partitions: each order once, so that each replica is preferred somewhere."""
SETTINGS: Mapping[str, Mapping[str, str]] = {"retried": RETRIED, "sent-once": SENT_ONCE}
PER_SECOND = 100
"""Records of each topic."""
BEHIND_THE_DETOUR = 1

Weights = Mapping[Way, int]
PASSING: Weights = {Way.FREEZE: 5, Way.KILL: 5, Way.STOP: 1, Way.CUT_OFF: 2, Way.CRASH: 1}
"""Of one broker, before anything is offline."""
LEAVING: Weights = {Way.KILL: 12, Way.FREEZE: 5, Way.CUT_OFF: 2, Way.CRASH: 2, Way.STOP: 1, Way.WIPE: 1}
"""Mostly kills: with ELR on, Kafka elects by itself whoever goes on as the process that it was."""
DYING: Weights = {Way.KILL: 8, Way.FREEZE: 1, Way.CRASH: 1}
"""Of the last one that is in sync."""


@dataclass
class Incident:
    """One story, with topics of its own. `reads`: what consumers got so far, by partition."""

    kafka: RealKafka
    draw: random.Random
    departures: Departures
    written: Mapping[str, Written]
    reads: dict[TopicPartition, list[list[Record]]] = field(default_factory=dict)

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        return [TopicPartition(topic, index) for topic in self.written for index in range(len(ORDERS))]

    @property
    def acknowledged(self) -> int:
        return sum(written.count for written in self.written.values())

    def passes(self) -> None:
        """Brokers leave and come back, one after the other; at the end all replicas are in sync."""
        self._more()
        for _ in range(self.draw.choice((0, 1, 1, 2))):
            broker = self.draw.choice(BROKERS)
            self.departures.leaves(broker, self._way(broker, PASSING))
            if self.draw.random() < 0.5:
                self.kafka.wait_until_fenced(broker)
                self._more()
            self.departures.comes_back(broker)
            if self.draw.random() < 0.5:
                self.kafka.wait_until_unfenced(broker)
                self._more()
        self.all_are_in_sync()
        self.are_read(self.partitions)
        self._more()

    def leads_to_an_outage(self) -> None:
        """Every partition is offline when this returns, unless Kafka has elected by itself."""
        first, second, last = self.draw.sample(BROKERS, 3)
        self.departures.leaves(first, self._way(first, LEAVING))
        if self.draw.random() < 0.4:
            self.kafka.wait_until_fenced(first)
            self._more(self.draw.randint(1, 20))
        self.departures.leaves(second, self._way(second, LEAVING))
        if self.draw.random() < 0.9:
            self.kafka.wait_until_fenced(first, second)
            if self.draw.random() < 0.2:
                self.departures.comes_back(first)
                self.kafka.wait_until_unfenced(first)
                self.departures.leaves(first, self._way(first, LEAVING))
                self.kafka.wait_until_fenced(first)
        self.departures.leaves(last, self._way(last, DYING))
        for broker in self.draw.sample((first, second), 2):
            self.departures.comes_back(broker)
        self.kafka.wait_until_unfenced(first, second)
        self.kafka.wait_until_fenced(last)

    def all_are_in_sync(self) -> None:
        """All brokers are back, and every partition has a leader and all its replicas."""
        self.departures.all_come_back()
        for topic in self.written:
            self.kafka.wait_for(topic, lambda state: len(state.isr) == len(BROKERS) and state.leader is not None)
        self.departures.cut_back.clear()

    def ends(self) -> None:
        """Producers have gone on in every partition."""
        self.all_are_in_sync()
        self._more(1)

    def names(self) -> dict[TopicPartition, BrokerId]:
        """A leader for each partition of one topic, out of those that are back."""
        topic, alive = self.draw.choice([*self.written]), [id for id in BROKERS if id not in self.departures.away]
        return {id: BrokerId(self.draw.choice(alive)) for id in self.partitions if id.topic == topic}

    def are_read(self, partitions: Sequence[TopicPartition]) -> None:
        """By a consumer, each from its beginning to its end."""
        for id in partitions:
            self.reads.setdefault(id, []).append(self.kafka.records(id.topic, id.partition))

    def history(self, id: TopicPartition) -> ClientHistory:
        """What clients saw of it."""
        return ClientHistory(self.written[id.topic].acknowledged[id.partition], self.reads[id])

    def _more(self, count: int = 5) -> None:
        """So many more records of each partition are acknowledged."""
        for written in self.written.values():
            written.wait_for_more(range(len(ORDERS)), count)

    def _way(self, broker: int, weights: Weights) -> Way:
        ways = [way for way in weights if way is not Way.CUT_OFF or broker == BEHIND_THE_DETOUR]
        return self.draw.choices(ways, [weights[way] for way in ways])[0]


@contextmanager
def incident(kafka: RealKafka, kubelets: Kubelets, draw: random.Random, name: str, home: Path) -> Iterator[Incident]:
    """With new topics, to which producers write until the block ends."""
    topics = {f"{kind}-{name}": settings for kind, settings in SETTINGS.items()}
    for topic in topics:
        kafka.create_topic(topic, ORDERS, min_insync_replicas=2)
    with ExitStack() as stack:
        written = {
            topic: stack.enter_context(
                writing(
                    kafka.bootstrap,
                    home / topic,
                    topic,
                    range(len(ORDERS)),
                    prefix=prefix,
                    per_second=PER_SECOND,
                    settings=settings,
                )
            )
            for prefix, (topic, settings) in enumerate(topics.items(), 1)
        }
        yield Incident(kafka, draw, Departures(kafka, kubelets, dict.fromkeys(topics, len(ORDERS))), written)
