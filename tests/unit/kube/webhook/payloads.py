"""Notifications as Alertmanager 0.25 writes them."""

from __future__ import annotations

import json
from typing import Any

OURS = {
    "alertname": "KafkaRecoveryOfflinePartitions",
    "cluster": "eu-west",
    "namespace": "kafka",
    "name": "prod",
    "severity": "critical",
}
"""With a label that somebody's Prometheus gives to everything."""


def alert(status: str = "firing", **labels: str) -> dict[str, Any]:
    """One alert; without labels it is about kafka/prod."""
    return {
        "status": status,
        "labels": labels or OURS,
        "annotations": {"summary": "3 partitions have no leader"},
        "startsAt": "2026-11-21T12:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "b8d2ef3c5f0b1a7e",
    }


def payload(*alerts: dict[str, Any], group: str = '{}:{namespace="kafka", name="prod"}', **other: Any) -> bytes:
    """A notification of these alerts; of one about kafka/prod, if there are none."""
    said = {
        "version": "4",
        "groupKey": group,
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "kafka-recovery",
        "groupLabels": {"namespace": "kafka", "name": "prod"},
        "commonLabels": OURS,
        "commonAnnotations": {},
        "externalURL": "http://alertmanager",
        "alerts": list(alerts) or [alert()],
    }
    return json.dumps(said | other).encode()
