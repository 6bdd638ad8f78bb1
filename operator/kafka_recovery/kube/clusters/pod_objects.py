"""Pods, volume claims and nodes of brokers, as Kubernetes has them, read into facts. Pure.

Whoever may edit the namespace writes them: every text is cut and printable, and what has another form is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.pods import CLAIM_GOES, BrokerPod, ContainerEnd, NodeState, VolumeClaim
from kafka_recovery.formats.printable import one_line
from kafka_recovery.kube.clusters.strimzi_objects import BROKER_LABEL, CONTROLLER_LABEL

_LONGEST_NAME = 253
"""Of an object, by Kubernetes' own rule for names."""
_LONGEST_MESSAGE = 300
_MOST_CLAIMS = 20
"""Of one broker that are told: Strimzi makes one for each of its log directories."""
_CONTAINER = "kafka"
"""Strimzi's name of the container that the broker runs in."""
_ON_THEIR_WAY = frozenset({"ContainerCreating", "PodInitializing"})
_TERMINATING = ("Terminating", "")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]{0,79}")
_LOGS = re.compile(r"data(-[0-9]{1,9})?")
"""Strimzi's names of the volumes of a broker's logs (VolumeUtils)."""

Object = Mapping[str, Any]


def pods_of(
    kafka: str, pods: Iterable[object], claims: Iterable[object] | None, of: Iterable[BrokerId] = ()
) -> tuple[BrokerPod, ...]:
    """The Pods of the brokers of a Kafka of Strimzi's, in the order of broker ids; `claims` None: they can't be read.

    A broker without a Pod has an entry without a name, if it has claims or is one of those that are asked `of`. Several
    Pods may say that they are the same broker: each has its entry, and nobody can tell which one is right.
    """
    known = None if claims is None else _by_broker(kafka, claims)
    found = [_pod(id, pod, known) for pod in map(mapping, pods) if (id := _broker(kafka, pod)) is not None]
    told = {each.broker for each in found}
    others = {*(known or ()), *of} - told
    found += [BrokerPod(id, claims=None if known is None else known.get(id, ())) for id in others]
    return tuple(sorted(found, key=lambda each: (each.broker, each.name or "")))


def node_state(node: object) -> NodeState:
    """Whether a Node is Ready, as the node controller says. An object without that condition has not said it yet."""
    status = condition(mapping(node), "Ready").get("status")
    return NodeState.READY if status == "True" else NodeState.NOT_READY


def _broker(kafka: str, pod: Object) -> BrokerId | None:
    """Strimzi names Pods `<kafka>-<pool>-<node id>` and labels those of brokers (KafkaPool, Labels; seen in 1.2)."""
    is_broker = mapping(mapping(pod.get("metadata")).get("labels")).get(BROKER_LABEL) == "true"
    return _numbered(rf"{re.escape(kafka)}-.+-([0-9]{{1,9}})", _name(pod)) if is_broker else None


def _by_broker(kafka: str, claims: Iterable[object]) -> dict[BrokerId, tuple[VolumeClaim, ...]]:
    """Strimzi names claims `data[-<volume>]-<Pod>` (PersistentVolumeClaimUtils)."""
    found: dict[BrokerId, list[VolumeClaim]] = {}
    for claim in map(mapping, claims):
        id = _numbered(rf"data(?:-[0-9]{{1,9}})?-{re.escape(kafka)}-.+-([0-9]{{1,9}})", _name(claim))
        if id is not None:
            found.setdefault(id, []).append(_claim(claim))
    return {id: tuple(sorted(its, key=_claim_name)[:_MOST_CLAIMS]) for id, its in found.items()}


def _claim(claim: Object) -> VolumeClaim:
    meta = mapping(claim.get("metadata"))
    said = _word(mapping(claim.get("status")).get("phase")) or "Pending"
    phase = CLAIM_GOES if meta.get("deletionTimestamp") else said
    return VolumeClaim(_name(claim), phase, instant(meta.get("creationTimestamp")), text(meta.get("uid")) or None)


def _claim_name(claim: VolumeClaim) -> str:
    return claim.name


def _pod(id: BrokerId, pod: Object, known: Mapping[BrokerId, tuple[VolumeClaim, ...]] | None) -> BrokerPod:
    meta, spec, status = (mapping(pod.get(part)) for part in ("metadata", "spec", "status"))
    reason, message = _hindrance(pod)
    container = next(iter(broker_containers(status)), {})
    ready = condition(pod, "Ready")
    return BrokerPod(
        broker=id,
        name=_name(pod),
        uid=text(meta.get("uid")) or None,
        node=text(spec.get("nodeName")) or None,
        phase=_word(status.get("phase")),
        ready=ready.get("status") == "True" and not meta.get("deletionTimestamp"),
        reason=reason,
        message=message,
        since=instant(ready.get("lastTransitionTime") or condition(pod, "PodScheduled").get("lastTransitionTime")),
        ended=_end(container),
        restarts=_count(container.get("restartCount")),
        claims=_claims_of(spec, None if known is None else known.get(id, ())),
        ephemeral=any("emptyDir" in each and _LOGS.fullmatch(_volume(each)) for each in _parts(spec, "volumes")),
        controller=mapping(meta.get("labels")).get(CONTROLLER_LABEL) == "true",
    )


def _claims_of(spec: Object, its: Sequence[VolumeClaim] | None) -> tuple[VolumeClaim, ...] | None:
    """Those that the broker has, and those that its Pod wants and that are not there."""
    if its is None:
        return None
    wanted = (text(mapping(each.get("persistentVolumeClaim")).get("claimName")) for each in _parts(spec, "volumes"))
    there = {each.name for each in its}
    missing = sorted({name for name in wanted if name and name not in there})[:_MOST_CLAIMS]
    return (*its, *(VolumeClaim(name, None) for name in missing))


def _hindrance(pod: Object) -> tuple[str, str]:
    """Why it does not run: Kubernetes' word, and its sentence."""
    meta, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    if meta.get("deletionTimestamp"):
        return _TERMINATING
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return _word(scheduled.get("reason")) or "Unschedulable", _message(scheduled)
    for container in (*_parts(status, "initContainerStatuses"), *broker_containers(status)):
        waiting = mapping(mapping(container.get("state")).get("waiting"))
        if (word := _word(waiting.get("reason"))) and word not in _ON_THEIR_WAY:
            return word, _message(waiting)
    if word := _word(status.get("reason")):
        return word, _message(status)
    ends = (mapping(mapping(each.get("state")).get("terminated")) for each in broker_containers(status))
    return next(((_why_ended(each), _message(each)) for each in ends if each), ("", _message(status)))


def _end(container: Object) -> ContainerEnd | None:
    for state in ("state", "lastState"):
        if ended := mapping(mapping(container.get(state)).get("terminated")):
            code, at = _count(ended.get("exitCode")), instant(ended.get("finishedAt"))
            return ContainerEnd(_why_ended(ended), code, at)
    return None


def _why_ended(terminated: Object) -> str:
    return _word(terminated.get("reason")) or "Error"


def broker_containers(status: Object) -> list[Object]:
    """Those that the broker runs in: one, or none."""
    return [each for each in _parts(status, "containerStatuses") if each.get("name") == _CONTAINER]


def condition(obj: Object, kind: str) -> Object:
    """The condition of this type; empty: it has none."""
    conditions = _parts(mapping(obj.get("status")), "conditions")
    return next((each for each in conditions if each.get("type") == kind), {})


def text(value: object) -> str:
    """A name or a uid of others: printable and of bounded length; empty for what is no text."""
    return one_line(value, _LONGEST_NAME) if isinstance(value, str) else ""


def instant(value: object) -> datetime | None:
    """A time as Kubernetes writes it, with its zone."""
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return read if read is not None and read.tzinfo is not None else None


def _message(where: Object) -> str:
    told = where.get("message")
    return one_line(told, _LONGEST_MESSAGE) if isinstance(told, str) else ""


def _word(value: object) -> str:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else 0


def _numbered(pattern: str, name: str) -> BrokerId | None:
    number = re.fullmatch(pattern, name)
    return BrokerId(int(number[1])) if number else None


def _name(obj: Object) -> str:
    return text(mapping(obj.get("metadata")).get("name"))


def _volume(volume: Object) -> str:
    return text(volume.get("name"))


def _parts(where: Object, field: str) -> Iterator[Object]:
    listed = where.get(field)
    yield from (map(mapping, listed) if isinstance(listed, list) else ())


def mapping(value: object) -> Object:
    """What has fields; empty for anything else."""
    return value if isinstance(value, Mapping) else {}
