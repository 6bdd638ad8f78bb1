"""The cluster in which a scenario happens, before anything has."""

from __future__ import annotations

from dataclasses import replace

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.model.kafka import SimulatedKafka


def staged(scenario: Scenario, *, keep_timeline: bool = True) -> SimulatedKafka:
    """The scenario's brokers, controllers and empty topics at virtual second 0."""
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
    )
    for topic in scenario.topics:
        kafka.create_topic(topic.name, [list(replicas) for replicas in topic.assignments], min_isr=topic.min_isr)
    return kafka
