"""`status` without a NAME: clusters and recoveries of one namespace or of all, and what waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Group, RenderableType

from kafka_recovery.cli.kubectl import reading
from kafka_recovery.cli.kubectl.access import sound_name
from kafka_recovery.cli.kubectl.reading import Incident, waits_for
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal.render import lines, table
from kafka_recovery.domain.counts import Whereabouts
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.recoveries.status import OBSERVE_ONLY
from kafka_recovery.recovery.supervision import Authority

_FINISHED_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Standing:
    """What a status says: as data, as people see it, and what to type next. `over`: nothing more will come of it."""

    document: Object
    shown: RenderableType
    following: str
    over: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Which recoveries are asked for. `selector`: of their labels, as kubectl takes it. `wide`: with all columns."""

    everywhere: bool = False
    selector: str | None = None
    cluster: str | None = None
    wide: bool = False

    @property
    def chosen(self) -> bool:
        """Whether it is another one than all of the namespace."""
        return self.everywhere or self.selector is not None or self.cluster is not None


def overview(session: Session, part: Part) -> Standing:
    """All of it, or the part that is asked for, with the clusters of the recoveries in it. Raises ApiError."""
    clusters = reading.clusters(session, part.everywhere)
    found = reading.incidents(session, part.everywhere, part.selector)
    if part.cluster is not None:
        named = sound_name("WatchedCluster", part.cluster)
        clusters = [each for each in clusters if name_of(each) == named]
        found = [each for each in found if each.recovery.cluster_name == named]
    if part.selector is not None:
        theirs = {(each.recovery.meta.namespace, each.recovery.cluster_name) for each in found}
        clusters = [each for each in clusters if (namespace_of(each), name_of(each)) in theirs]
    still = [each for each in found if not each.finished]
    finished = [each for each in found if each.finished]
    shown = Group(
        _cluster_table(clusters, part, session.namespace),
        lines(""),
        _recovery_table([*still, *finished[:_FINISHED_SHOWN]], clusters, part),
        lines(*_left_out(len(finished) - _FINISHED_SHOWN)),
    )
    document = {"clusters": [plain(each) for each in clusters], "recoveries": [plain(each.obj) for each in found]}
    return Standing(document, shown, next_command(session, still))


def _cluster_table(clusters: Sequence[Object], part: Part, namespace: str) -> RenderableType:
    if not clusters:
        what = "WatchedCluster" if part.cluster is None else f"WatchedCluster {part.cluster}"
        return lines(f"No {what} in {'any namespace' if part.everywhere else f'namespace {namespace}'}.")
    headings = ("Cluster", "Authority", "Ready", "Kafka", "Offline", "Note")
    if not part.everywhere:
        return table(*headings, rows=[_cluster_row(each) for each in clusters])
    return table("Namespace", *headings, rows=[(namespace_of(each), *_cluster_row(each)) for each in clusters])


def _cluster_row(cluster: Object) -> tuple[object, ...]:
    spec, seen = cluster.get("spec") or {}, cluster.get("status") or {}
    conditions = {str(each.get("type")): each for each in seen.get("conditions") or ()}
    notes = [
        "suspended" if spec.get("suspend") else "",
        "view not trusted" if conditions.get("ViewTrusted", {}).get("status") == "False" else "",
        *(_why_not(conditions.get(kind, {})) for kind in ("Ready", "KafkaHealthy")),
    ]
    offline = seen.get("offlinePartitions")
    return (
        name_of(cluster),
        spec.get("authority", "Observe"),
        _word(conditions.get("Ready"), "yes", "no"),
        _word(conditions.get("KafkaHealthy"), "healthy", "sick"),
        offline,
        ", ".join(dict.fromkeys(note for note in notes if note)) or "-",
    )


def _word(condition: Mapping[str, object] | None, good: str, bad: str) -> str | None:
    """None is shown as unknown."""
    return {"True": good, "False": bad}.get(str((condition or {}).get("status")))


def _why_not(condition: Mapping[str, object]) -> str:
    return str(condition.get("reason", "")) if condition.get("status") == "False" else ""


def _recovery_table(found: Sequence[Incident], clusters: Sequence[Object], part: Part) -> RenderableType:
    if not found:
        return lines("No recoveries.")
    now = datetime.now(UTC)
    headings = ("Recovery", "State", "Done", "Waits for", "Age", "Cluster", *(_WIDE if part.wide else ()))
    rows = [(*_recovery_row(each, clusters, now), *(_more(each) if part.wide else ())) for each in found]
    if not part.everywhere:
        return table(*headings, rows=rows)
    return table(
        "Namespace",
        *headings,
        rows=[(each.recovery.meta.namespace, *row) for each, row in zip(found, rows, strict=True)],
    )


_WIDE = ("Offline", "Asked", "Refused", "Failed", "Loss", "Plan", "Message")


def _more(incident: Incident) -> tuple[object, ...]:
    """The columns that only `wide` shows."""
    counts = incident.counts
    places = (Whereabouts.AWAITING_APPROVAL, Whereabouts.REFUSED, Whereabouts.FAILED)
    return (
        *((counts.offline, *(counts[place] for place in places)) if counts else ("-",) * 4),
        (incident.recovery.status.get("plan") or {}).get("lossClass") or "-",
        incident.plan.digest[:12] if incident.plan else "-",
        incident.message,
    )


def _recovery_row(incident: Incident, clusters: Sequence[Object], now: datetime) -> tuple[object, ...]:
    beside = [each for each in clusters if namespace_of(each) == incident.recovery.meta.namespace]
    return (
        incident.name,
        incident.state,
        _done(incident),
        waits_for(incident, suspended(beside), observed(beside)),
        _age(now, incident.recovery.meta.created_at),
        incident.recovery.cluster_name,
    )


def _done(incident: Incident) -> str:
    counts = incident.counts
    return f"{counts[Whereabouts.RECOVERED]}/{counts.total}" if counts else "-"


def _left_out(count: int) -> Iterator[str]:
    if count > 0:
        yield f"… and {count} more that finished; -o json shows all of them"


def next_command(session: Session, open_ones: Sequence[Incident]) -> str:
    """What to type where somebody is waited for, the longest first."""
    asking = [each for each in open_ones if each.asks and each.state != OBSERVE_ONLY]
    if not asking:
        return ""
    return f"Next: {session.command(f'plan {asking[-1].name}', asking[-1].recovery.meta.namespace)}"


def suspended(clusters: Sequence[Object]) -> dict[str, bool]:
    """Of each cluster whether its owner has suspended it."""
    return {name_of(each): bool((each.get("spec") or {}).get("suspend")) for each in clusters}


def observed(clusters: Sequence[Object]) -> set[str]:
    """Clusters where an approval of a plan does nothing."""
    default = str(Authority.OBSERVE)
    return {
        name_of(each) for each in clusters if (each.get("spec") or {}).get("authority", default) == Authority.OBSERVE
    }


def name_of(obj: Object) -> str:
    """Its name in its namespace."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: Object) -> str:
    """Its namespace."""
    return str(obj["metadata"]["namespace"])


def plain(obj: Object) -> Object:
    """Without the server's book-keeping."""
    return obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _age(now: datetime, since: datetime) -> str:
    """As kubectl writes it: the largest unit only."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
