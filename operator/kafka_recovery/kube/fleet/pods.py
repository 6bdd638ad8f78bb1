"""What the Pods of a Spark job say: why they do not start, and the driver's last words. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.printable import one_line
from kafka_recovery.kube.machinery.api import Object

DRIVER_CONTAINER = "spark-kubernetes-driver"
EXECUTOR_CONTAINER = "spark-kubernetes-executor"
ROLE = "spark-role"
"""Label that Spark itself puts on its Pods."""

LONGEST = 500
"""Characters of a message of others; what is longer is cut."""

_HARMLESS = frozenset({"ContainerCreating", "PodInitializing", ""})
"""Reasons to wait that say only that a Pod is on its way."""
_EXCEPTION = re.compile(r"[\w.$]*(Error|Exception|Failure|Exit)\b.*")


def short(text: str) -> str:
    """One line of bounded length, without control characters."""
    return one_line(text, LONGEST)


def driver_of(pods: Iterable[Object]) -> Object | None:
    """The driver's Pod; the newest, if an older one was not cleared away yet."""
    drivers = [pod for pod in pods if _labels(pod).get(ROLE) == "driver"]
    return max(drivers, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None)


def executors_of(pods: Iterable[Object]) -> list[Object]:
    """The executors' Pods."""
    return [pod for pod in pods if _labels(pod).get(ROLE) == "executor"]


def hindrance(pod: Object, warnings: Sequence[str] = ()) -> Reason | None:
    """Why a Pod does not start, as its own status says; else the last of the `warnings` about it."""
    for each in _conditions(pod):
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return Reason(_word(each.get("reason"), "DriverPending"), short(str(each.get("message") or "")))
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if str(waiting.get("reason") or "") not in _HARMLESS:
            return Reason(
                _word(waiting["reason"], "DriverPending"), short(str(waiting.get("message") or "it did not say why"))
            )
    if warnings and pod.get("status", {}).get("phase") == "Pending":
        return Reason("DriverPending", short(warnings[-1]))
    return None


def last_words(pod_status: Mapping[str, Any]) -> str | None:
    """What the driver wrote to its termination log, or the end of its log, as one line; None: nothing."""
    for container in pod_status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if not ended or not ended.get("exitCode"):
            continue
        said = _telling(str(ended.get("message") or ""))
        how = f"{ended.get('reason') or 'Error'}, exit code {ended['exitCode']}"
        return short(f"{said} ({how})") if said else how
    return None


def ran(pod: Object | None) -> tuple[datetime | None, datetime | None]:
    """When the container of a Pod began and ended, as far as it did."""
    for container in _containers(pod or {}):
        state = container.get("state") or {}
        for told in (state.get("terminated"), state.get("running")):
            if told:
                return _instant(told.get("startedAt")), _instant(told.get("finishedAt"))
    return None, None


def _telling(text: str) -> str:
    """The line that says most: one line is what the job chose to say; of a log, the last exception in it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    exceptions = [line for line in lines if _EXCEPTION.match(line)]
    return (exceptions or lines or [""])[-1]


def _labels(pod: Object) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("labels") or {}


def _conditions(pod: Object) -> Iterator[Mapping[str, Any]]:
    yield from (pod.get("status") or {}).get("conditions") or ()


def _containers(pod: Object) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _word(reason: object, otherwise: str) -> str:
    text = str(reason or "")
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9]{0,79}", text) else otherwise


def _instant(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
