"""Where the brokers run that are away: Pod, node and volume claims of each, as far as whoever reads may see them.

Of clusters that Strimzi runs. What a Pod is named, labelled and given is written by whoever may edit the namespace: all
of it is shown, and nothing is decided by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

from rich.console import Group, RenderableType

from kafka_recovery.cli.kubectl.reading import Incident
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal.render import lines, table
from kafka_recovery.decision.returns import away
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.plan import Plan
from kafka_recovery.kube.clusters.strimzi_objects import BROKER_LABEL, CLUSTER_LABEL
from kafka_recovery.kube.machinery.api import ApiError, NotFound, Object

_JUST_BEFORE = timedelta(hours=1)
"""What was made later than this before a recovery was opened may have been made for the broker that failed."""
_NODE_UNREADABLE = "whether it is Ready is not yours to read"


@dataclass(frozen=True, slots=True)
class Seen:
    """What Kubernetes has of one broker. `node`: the object, None: it is gone; `node_told`: whether it was readable."""

    broker: BrokerId
    pod: Object | None
    claims: tuple[Object, ...]
    node: Object | None = None
    node_told: bool = True


def where_they_run(
    session: Session, incident: Incident, cluster: Object | None, plan: Plan
) -> Iterator[RenderableType]:
    """One line a broker that is away, and below what it says of its disk; nothing where nobody knows its Pods."""
    partitions = (each for each in plan.evidence.partitions if each.leader is None)
    absent = sorted({broker for partition in partitions for broker in away(partition)})
    strimzi = ((cluster or {}).get("spec") or {}).get("strimziRef") or {}
    if not absent or not strimzi.get("name"):
        return
    try:
        found = list(_seen(session, str(strimzi["name"]), absent))
    except ApiError as error:
        named = ", ".join(map(str, absent))
        yield lines(f"Where the brokers run that are away ({named}) can't be told: {error.message}", "")
        return
    opened = incident.recovery.meta.created_at
    headings = ("Broker", "Pod", "State", "Node", "Volume claims")
    told = [sentence for each in found for sentence in of_its_disk(each, opened)]
    yield Group(
        lines("Where the brokers run that are away:"),
        table(*headings, rows=map(_row, found)),
        lines(*told, ""),
    )


def _seen(session: Session, strimzi: str, brokers: Iterable[BrokerId]) -> Iterator[Seen]:
    """Raises ApiError where Pods or claims may not be listed."""
    core, mine = f"/api/v1/namespaces/{session.namespace}", f"{CLUSTER_LABEL}={strimzi}"
    pods = session.api.list_all(f"{core}/pods", {"labelSelector": f"{mine},{BROKER_LABEL}=true"})
    claims = session.api.list_all(f"{core}/persistentvolumeclaims", {"labelSelector": mine})
    for broker in brokers:
        pod = next((each for each in pods if _number(each) == broker), None)
        its = tuple(each for each in claims if _number(each) == broker)
        node, told = _node(session, str(((pod or {}).get("spec") or {}).get("nodeName") or ""))
        yield Seen(broker, pod, its, node, told)


def _number(obj: Object) -> int | None:
    """Strimzi ends the names of a broker's Pod and claims with its id."""
    number = re.search(r"-([0-9]{1,9})$", _name(obj))
    return int(number[1]) if number else None


def _node(session: Session, name: str) -> tuple[Object | None, bool]:
    if not name:
        return None, True
    try:
        return session.api.get(f"/api/v1/nodes/{name}"), True
    except NotFound:
        return None, True
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return None, False
        raise


def _row(seen: Seen) -> tuple[object, ...]:
    claims = ", ".join(f"{_name(each)} {_phase(each) or '?'}" for each in seen.claims) or "none"
    return seen.broker, _name(seen.pod) if seen.pod else "none", _state(seen.pod), _node_state(seen), claims


def _state(pod: Object | None) -> str:
    if pod is None:
        return "-"
    told = [_phase(pod) or "?"]
    if _meta(pod).get("deletionTimestamp"):
        told.append("being deleted")
    for container in _status(pod).get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        ended = (container.get("lastState") or {}).get("terminated") or {}
        told += [str(waiting["reason"])] if waiting.get("reason") else []
        told += [f"ended last with {ended['reason']}"] if ended.get("reason") else []
        told += [f"{container['restartCount']} restarts"] if container.get("restartCount") else []
    return ", ".join(told)


def _node_state(seen: Seen) -> str:
    name = str(((seen.pod or {}).get("spec") or {}).get("nodeName") or "")
    if not name:
        return "none"
    if not seen.node_told:
        return f"{name} ({_NODE_UNREADABLE})"
    if seen.node is None:
        return f"{name} (gone)"
    ready = _condition(seen.node, "Ready").get("status")
    return f"{name} ({'Ready' if ready == 'True' else 'NOT Ready'})"


def of_its_disk(seen: Seen, opened: datetime) -> Iterator[str]:
    """What speaks for or against a disk that is the broker's own; `opened`: when its recovery was."""
    yield from _of_claims(seen, opened)
    if seen.pod is not None and _is_ephemeral(seen.pod) and not seen.claims:
        yield (
            f"DANGER: broker {seen.broker} keeps its logs in an emptyDir, which ends with its Pod: a new Pod starts "
            "with an EMPTY disk. While its partitions have no leader, do not let a new Pod of it start."
        )
    scheduled = _condition(seen.pod, "PodScheduled") if seen.pod else {}
    if scheduled.get("status") == "False":
        yield f"Broker {seen.broker}: its Pod waits for a node: {scheduled.get('message') or scheduled.get('reason')}"


def _of_claims(seen: Seen, opened: datetime) -> Iterator[str]:
    lost = [_name(each) for each in seen.claims if _phase(each) == "Lost"]
    young = [each for each in seen.claims if _made(each) > opened - _JUST_BEFORE]
    if lost:
        named = ", ".join(lost)
        yield f"Broker {seen.broker}: the volume of claim {named} is LOST; its own disk does not come back by it."
    for claim in young:
        yield (
            f"DANGER: claim {_name(claim)} of broker {seen.broker} was made at {_made(claim):%Y-%m-%d %H:%M:%S} UTC, "
            "about when the broker failed or later: its disk may be EMPTY. Keep the broker stopped while its "
            "partitions have no leader, until you know what is on it."
        )
    if not seen.claims and not (seen.pod is not None and _is_ephemeral(seen.pod)):
        gone = "its own disk may be gone, or kept as a released volume"
        yield f"Broker {seen.broker}: there is no volume claim of it: {gone}."


def _is_ephemeral(pod: Object) -> bool:
    """Strimzi names the volumes of a broker's logs data, or data-<number>."""
    volumes: Sequence[Mapping[str, Any]] = (pod.get("spec") or {}).get("volumes") or ()
    return any("emptyDir" in each and re.fullmatch(r"data(-[0-9]+)?", str(each.get("name"))) for each in volumes)


def _made(obj: Object) -> datetime:
    return datetime.fromisoformat(str(_meta(obj)["creationTimestamp"]))


def _condition(obj: Object, kind: str) -> Mapping[str, Any]:
    conditions: Sequence[Mapping[str, Any]] = _status(obj).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def _phase(obj: Object) -> str:
    return str(_status(obj).get("phase") or "")


def _name(obj: Object) -> str:
    return str(_meta(obj).get("name") or "")


def _meta(obj: Object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = obj.get("metadata") or {}
    return found


def _status(obj: Object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = obj.get("status") or {}
    return found
