"""What an Alertmanager says (webhook payload, version 4), as far as it is of use: which clusters to look at. Pure.

Numbers, times and texts of alerts are not even read: whoever sends them, the operator believes only Kafka.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_recovery.kube.resources.fields import NAME
from kafka_recovery.kube.resources.objects import Key

VERSION = "4"
MOST_ALERTS = 1000
"""In one notification; Alertmanager sends as many as a group has, unless `max_alerts` says otherwise."""

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NAME = re.compile(NAME.pattern or "")


class NotANotification(Exception):
    """What is wrong with a payload, in words of ours: nothing of what it holds is repeated."""


@dataclass(frozen=True, slots=True)
class Notification:
    """`group`: a digest of the groupKey. `clusters`: those that firing alerts name.

    `nameless`: how many firing alerts name none. `resolved`: how many alerts are over.
    """

    group: str
    clusters: frozenset[Key]
    nameless: int
    resolved: int


def understood(body: bytes) -> Notification:
    """Read a payload. Raises NotANotification for whatever is none."""
    try:
        said = json.loads(body)
    except RecursionError:
        raise NotANotification("it is nested too deeply") from None
    except ValueError:
        raise NotANotification("it is no JSON") from None
    if not isinstance(said, dict) or said.get("version") != VERSION:
        raise NotANotification(f"it is no object with version {VERSION!r}, which is Alertmanager's")
    group, alerts = said.get("groupKey"), said.get("alerts")
    if not isinstance(group, str) or not group:
        raise NotANotification("groupKey is missing, or no text")
    if not isinstance(alerts, list) or not all(isinstance(each, dict) for each in alerts):
        raise NotANotification("alerts is missing, or no list of objects")
    if len(alerts) > MOST_ALERTS:
        raise NotANotification(f"it has more than {MOST_ALERTS} alerts: set max_alerts, or group by namespace and name")
    firing = [each for each in alerts if _is_firing(each)]
    named = [_cluster(_labels(each)) for each in firing]
    clusters = frozenset(each for each in named if each)
    return Notification(_digest(group), clusters, named.count(None), len(alerts) - len(firing))


def _is_firing(alert: Mapping[str, Any]) -> bool:
    status = alert.get("status")
    if status not in ("firing", "resolved"):
        raise NotANotification("an alert's status is neither firing nor resolved")
    return bool(status == "firing")


def _labels(alert: Mapping[str, Any]) -> Mapping[str, str]:
    labels = alert.get("labels")
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in labels.values()):
        raise NotANotification("an alert's labels are missing, or not all of them are texts")
    return labels


def _cluster(labels: Mapping[str, str]) -> Key | None:
    """By `namespace` and `name`, as in our own metrics."""
    namespace, name = labels.get("namespace", ""), labels.get("name", "")
    fits = len(name) <= NAME.longest and _NAME.fullmatch(name) and _NAMESPACE.fullmatch(namespace)
    return (namespace, name) if fits else None


def _digest(group: str) -> str:
    """It may be as long as all labels together, and hold half of a surrogate pair."""
    return hashlib.sha256(group.encode(errors="surrogatepass")).hexdigest()
