"""What the controller does when clients ask it for topics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.administration import Administration
from kafka_recovery.simulator.model.client_requests import (
    CreateTopics,
    DeleteTopics,
    NewTopic,
    ProducerNumbered,
    TopicMade,
    TopicsDeleted,
    TopicsMade,
)
from kafka_recovery.simulator.model.errors import Error

_LEGAL = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
_MOST_PARTITIONS = 10_000
"""Of all topics that one request names, as in Kafka's controller: what is more it makes none of."""


@dataclass(frozen=True, slots=True)
class TopicRequests:
    """Kafka's checks, and then what `Administration` does."""

    administration: Administration

    def create(self, request: CreateTopics) -> TopicsMade:
        """CreateTopics."""
        if sum(map(_partitions_wanted, request.topics)) > _MOST_PARTITIONS:
            return TopicsMade(Error.POLICY_VIOLATION, {})
        return TopicsMade(
            Error.NONE, {topic.name: self._create(topic, request.validate_only) for topic in request.topics}
        )

    def delete(self, request: DeleteTopics) -> TopicsDeleted:
        """DeleteTopics."""
        known = self.administration.state.topics
        errors = {name: Error.NONE if name in known else Error.UNKNOWN_TOPIC_OR_PARTITION for name in request.names}
        for name in request.names:
            self.administration.delete_topic(name)
        return TopicsDeleted(Error.NONE, errors)

    def number_producer(self) -> ProducerNumbered:
        """InitProducerId."""
        self.administration.producers_numbered += 1
        return ProducerNumbered(Error.NONE, self.administration.producers_numbered)

    def _create(self, topic: NewTopic, validate_only: bool) -> TopicMade:
        state = self.administration.state
        alive = [id for id, broker in sorted(state.brokers.items()) if not broker.fenced and not broker.stopping]
        if not _LEGAL.fullmatch(topic.name):
            return TopicMade(Error.INVALID_TOPIC_EXCEPTION)
        if topic.name in state.topics:
            return TopicMade(Error.TOPIC_ALREADY_EXISTS)
        assignments = topic.assignments or _spread(topic, alive)
        if isinstance(assignments, Error):
            return TopicMade(assignments)
        if any(not each or len(set(each)) != len(each) or not set(each) <= set(alive) for each in assignments):
            return TopicMade(Error.INVALID_REPLICA_ASSIGNMENT)
        rules = _rules(topic.configs)
        if rules is None:
            return TopicMade(Error.INVALID_CONFIG)
        counts = len(assignments), len(assignments[0])
        if validate_only:
            return TopicMade(Error.NONE, None, *counts)
        source = "topic" if _MIN_ISR in topic.configs else "Kafka's default"
        id = self.administration.create_topic(topic.name, assignments, *rules, source)
        return TopicMade(Error.NONE, id, *counts)


def _spread(topic: NewTopic, alive: list[BrokerId]) -> tuple[tuple[BrokerId, ...], ...] | Error:
    """Round robin; as Kafka's own defaults where the client leaves it to the broker: one partition, one replica."""
    partitions = _partitions_wanted(topic)
    replicas = 1 if topic.replicas == -1 else topic.replicas
    if partitions <= 0:
        return Error.INVALID_PARTITIONS
    if not 0 < replicas <= len(alive):
        return Error.INVALID_REPLICATION_FACTOR
    return tuple(tuple(alive[(index + place) % len(alive)] for place in range(replicas)) for index in range(partitions))


def _partitions_wanted(topic: NewTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return 1 if topic.partitions == -1 else topic.partitions


def _rules(configs: Mapping[str, str | None]) -> tuple[int, bool] | None:
    """min.insync.replicas and whether unclean elections are enabled; None if that can't be read."""
    minimum, unclean = configs.get(_MIN_ISR) or "1", (configs.get(_UNCLEAN) or "false").lower()
    if not minimum.isdecimal() or not 0 < int(minimum) < 2**31 or unclean not in ("true", "false"):
        return None
    return int(minimum), unclean == "true"
