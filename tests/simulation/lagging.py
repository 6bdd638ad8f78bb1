"""One incident as a scenario file: who comes first in assignment order has the shortest log."""

from __future__ import annotations

from kafka_recovery.simulator.histories.scenario import VERSION

LAGGING = f"""version: {VERSION}
seed: 5
brokers: 3
elr: false
topics:
- {{name: pay-in, assignments: [[1, 2, 3]]}}
traffic:
- {{partition: pay-in-0, acks_all: true, first: 1, last: 40, every: 0.5}}
faults:
- {{at: 5, kind: kill, broker: 2}}
- {{at: 15, kind: kill, broker: 3}}
- {{at: 25, kind: kill, broker: 1}}
- {{at: 30, kind: start, broker: 2}}
- {{at: 30, kind: start, broker: 3}}
engines:
- {{at: 40, whole_cluster: true}}
quiet_at: 80
"""
"""Broker 1 leads what brokers 2 and 3 have not: both fell behind, 2 first, and both come back when 1 has died."""
