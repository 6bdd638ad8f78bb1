"""Disks of simulated brokers, as the real client sees them."""

from __future__ import annotations

from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario import VERSION
from kafka_recovery.simulator.histories.scenario_files import load_scenario

FAILS = f"""version: {VERSION}
seed: 7
brokers: 3
topics:
- name: orders
  assignments: [[1, 2, 3]]
faults:
- {{at: 5, kind: kill, broker: 2}}
- {{at: 6, kind: kill, broker: 3}}
- {{at: 25, kind: log-dir, broker: 1}}
- {{at: 26, kind: start, broker: 2}}
- {{at: 26, kind: start, broker: 3}}
engines:
- {{at: 45}}
"""
"""Broker 1 is the last of the ISR when the log directory with its copy fails."""


def test_the_engine_is_told_which_log_directory_failed() -> None:
    look, *_ = happen(load_scenario(FAILS, "fails.yaml")).story.looked

    told = {its.broker: [each.error for each in its.directories] for its in look.evidence.cluster.log_directories}
    assert told == {1: [None, "KAFKA_STORAGE_ERROR"], 2: [None], 3: [None]}
