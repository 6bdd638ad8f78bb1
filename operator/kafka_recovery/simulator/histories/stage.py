"""The cluster in which a scenario happens, before anything has, and who writes to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.histories.scenario import Scenario, Traffic
from kafka_recovery.simulator.model.kafka import SimulatedKafka

LONGEST_BACKOFF = 4.0
"""Seconds after which a producer asks once more who leads: in most histories that is somebody only minutes later."""


def staged(scenario: Scenario, *, keep_timeline: bool = True, cluster_id: str | None = None) -> SimulatedKafka:
    """The scenario's brokers, controllers and empty topics at virtual second 0. `cluster_id`: else the seed's."""
    switches = scenario.switches
    if scenario.driver is Driver.DESIGNATED:
        switches = replace(switches, designated_elections=True)
    kafka = SimulatedKafka(
        seed=scenario.seed,
        brokers=tuple(range(1, scenario.brokers + 1)),
        settings=replace(scenario.settings, elr=scenario.elr),
        switches=switches,
        controllers=scenario.controllers,
        keep_timeline=keep_timeline,
        cluster_id=cluster_id,
    )
    for topic in scenario.topics:
        kafka.create_topic(topic.name, [list(replicas) for replicas in topic.assignments], min_isr=topic.min_isr)
    return kafka


def send_traffic(kafka: SimulatedKafka, scenario: Scenario) -> None:
    """Let the scenario's producers write when their time has come."""
    for number, traffic in enumerate(scenario.traffic, start=1):
        kafka.scheduler.at(traffic.first, partial(_begin, kafka, f"producer-{number}", traffic))


def _begin(kafka: SimulatedKafka, name: str, traffic: Traffic) -> None:
    acks = "all" if traffic.acks_all else "1"
    id = TopicPartition.parse(traffic.partition)
    producer = kafka.producer(name, id, acks=acks, every=traffic.every, records=traffic.records)
    producer.longest_backoff = LONGEST_BACKOFF
    kafka.scheduler.at(traffic.last, producer.stop)
