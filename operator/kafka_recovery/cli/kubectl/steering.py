"""`suspend`, `unsuspend`, `abort`: a person's wish, written where the operator looks before each wave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kafka_recovery.cli.kubectl import reading
from kafka_recovery.cli.kubectl.access import Loop
from kafka_recovery.cli.kubectl.asking import consent
from kafka_recovery.cli.kubectl.reading import Incident
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.render import lines, write_result
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.cli.terminal.text import complain, narrate, say
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal import facts
from kafka_recovery.kube.journal.orphans import orphaned
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import ApiError, NotFound, Object
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECORDS, RECOVERIES, Kind
from kafka_recovery.kube.resources.operator_switch import SWITCH, switch_path

LOOK = timedelta(seconds=1)
"""How often a recovery that is being ended is looked at."""


@dataclass(frozen=True, slots=True)
class Which:
    """What to suspend or unsuspend, as given; exactly one may be used."""

    recovery: str | None
    cluster: str | None
    everything: bool

    def checked(self) -> Which:
        """Itself; raises InvalidDocument if none or several are given."""
        given = [word for word, used in zip(("NAME", "--cluster", "--operator"), self._used(), strict=True) if used]
        if not given:
            raise InvalidDocument(
                "nothing is named; give the NAME of a recovery, --cluster NAME, or --operator for the whole operator"
            )
        if len(given) > 1:
            raise InvalidDocument(f"{' and '.join(given)} exclude each other; give one of them")
        return self

    def _used(self) -> tuple[bool, bool, bool]:
        return self.recovery is not None, self.cluster is not None, self.everything


def suspend(session: Session, which: Which, wanted: bool) -> ExitCode:
    """Have nothing new begun from now on, or (`wanted` False) let it go on."""
    which.checked()
    if which.everything:
        return _suspend_operator(session, wanted)
    kind, name = (CLUSTERS, which.cluster) if which.cluster is not None else (RECOVERIES, which.recovery)
    seen = reading.object_of(session, kind, str(name))
    what = f"{kind.kind} {name}"
    if bool((seen.get("spec") or {}).get("suspend")) == wanted:
        say(f"{what} {_is(wanted)} already")
    else:
        seen = _patched(session, kind, seen, {"suspend": wanted})
    write_result(session.output, plain(seen), lines(f"{what} {_is(wanted)}. {_meaning(wanted)}"))
    return ExitCode.DONE


def _suspend_operator(session: Session, wanted: bool) -> ExitCode:
    path = switch_path((session.namespace, SWITCH))
    change: dict[str, Any] = {"data": {"suspend": str(wanted).lower()}}
    try:
        now = session.api.patch(path, change)
    except NotFound:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SWITCH, "namespace": session.namespace}}
        now = session.api.create(path.rpartition("/")[0], body | change)
    what = f"The operator of namespace {session.namespace} {_is(wanted)}. {_meaning(wanted)}"
    where = f"If it runs in another namespace, say so: ConfigMap {SWITCH} holds for the one beside it."
    if not _is_there(session):
        what = f"ConfigMap {SWITCH} of namespace {session.namespace} says suspend: {str(wanted).lower()}."
        where = f"BUT NO OPERATOR HAS ITS LEASE THERE. Where is it? Say its namespace: --namespace. {_meaning(wanted)}"
    write_result(session.output, plain(now), lines(what, where))
    return ExitCode.DONE


def _is_there(session: Session) -> bool:
    """Whether an operator was ever there, as far as one may see."""
    try:
        session.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{session.namespace}/leases/{SWITCH}")
    except NotFound:
        return False
    except ApiError:
        return True
    return True


def _is(suspended: bool) -> str:
    return "is suspended" if suspended else "goes on"


def _meaning(suspended: bool) -> str:
    if suspended:
        return "No further wave begins; what was begun is brought to its end."
    return "Whatever else is suspended stays so."


def abort(session: Session, name: str, yes: bool, patience: timedelta | None) -> ExitCode:
    """Have the operator stop a recovery and restore every assignment order; of one that is gone, show what it left.

    `patience`: for so long its end is waited for, and one that has ended already is no mistake; None: nothing is.
    """
    try:
        incident = reading.incident(session, name)
    except NotFound:
        left = _left_by(session, name)
        if not left:
            raise
        return _tell_orphans(session, name, left)
    if patience is None and incident.finished:
        raise Refusal(ExitCode.BAD_INPUT, f"{name} has finished: {incident.state}; there is nothing to abort")
    if not incident.finished:
        incident = _aborted(session, incident, yes)
    if patience is not None:
        return _conclude(session, incident, _ended(session, incident, patience))
    shown = lines(f"{name} is being aborted: no further wave begins, assignment orders are restored, new leaders stay.")
    write_result(session.output, plain(incident.obj), shown, f"Next: {session.command(f'status {name}')}")
    return ExitCode.DONE


def _aborted(session: Session, incident: Incident, yes: bool) -> Incident:
    """The recovery with spec.abort, which can't be taken back: asks first. Raises Refusal for a no."""
    if incident.recovery.abort or incident.recovery.meta.deleting_since:
        return incident
    if not yes:
        consent(f"Abort {incident.name} ({incident.state})? It can't be taken back; new leaders stay.", "aborted")
    _patched(session, RECOVERIES, incident.obj, {"abort": True})
    return reading.incident(session, incident.name)


def _ended(session: Session, incident: Incident, patience: timedelta) -> Incident | None:
    """The recovery as it is at its end, or when patience ends; None: it is gone, which it is only after its end."""
    until, told = time.monotonic() + patience.total_seconds(), ""
    while not incident.finished and time.monotonic() < until:
        if incident.message != told:
            told = incident.message
            narrate(f"{incident.name}: {incident.state}: {told}")
        time.sleep(LOOK.total_seconds())
        try:
            now = reading.incident(session, incident.name)
        except NotFound:
            return None
        if now.recovery.meta.uid != incident.recovery.meta.uid:
            return None
        incident = now
    return incident


def _conclude(session: Session, incident: Incident, now: Incident | None) -> ExitCode:
    """Say what is restored and what is not."""
    if now is None:
        # Our finalizer holds an object until its orders are restored, unless somebody removed it by force.
        if left := _left_by(session, incident.name):
            return _tell_orphans(session, incident.name, left)
        shown = lines(f"{incident.name} is gone, and left no unfinished run: its assignment orders are restored.")
        write_result(session.output, plain(incident.obj), shown)
        return ExitCode.DONE
    if now.finished:
        shown = lines(f"{now.name} has finished: {now.state}. Assignment orders are restored; new leaders stay.")
        write_result(session.output, plain(now.obj), shown)
        return ExitCode.DONE
    write_result(session.output, plain(now.obj), lines(f"{now.name}: {now.state}: {now.message}"))
    complain(f"{now.name} has not finished yet; the operator goes on. To look: {session.command(f'status {now.name}')}")
    return ExitCode.NOT_RECOVERED


@dataclass(frozen=True, slots=True)
class Orphan:
    """An unfinished run whose recovery is gone. `watched`: whether an operator can know its Kafka cluster."""

    recovery: str
    uid: str
    cluster_id: str
    plan: str
    partitions: int
    watched: bool


def _left_by(session: Session, name: str) -> list[Orphan]:
    """The orphaned journals of a recovery of this name."""
    selector = f"{facts.FACT_LABEL} in (begun,finished),!{facts.OWNED_LABEL}"
    heads = session.api.list_all(RECORDS.path(session.namespace), {"labelSelector": selector})
    ids = {str(each["spec"]["clusterId"]) for each in heads}
    watched = {str(each["spec"]["clusterId"]) for each in reading.clusters(session)}
    return [orphan for id in sorted(ids) for orphan in asyncio.run(_orphans(session, id, name, id in watched))]


async def _orphans(session: Session, cluster_id: str, name: str, watched: bool) -> list[Orphan]:
    journals: Sequence[RecordJournal] = await orphaned(Loop(session.api), session.namespace, cluster_id, ())
    return [
        Orphan(name, journal.recovery.uid, cluster_id, run.digest, len(run.plan.decisions), watched)
        for journal in journals
        if journal.recovery.name == name
        for run in await journal.unfinished()
    ]


def _tell_orphans(session: Session, name: str, left: Sequence[Orphan]) -> ExitCode:
    sentences = [f"PartitionRecovery {name} is gone, but its journal tells of an unfinished run:"]
    for orphan in left:
        about = f"  plan {orphan.plan[:12]} of cluster {orphan.cluster_id}, partitions: {orphan.partitions}; "
        if orphan.watched:
            about += "the operator restores it at its next round, within a minute or two, "
            about += "or says in an event of the WatchedCluster (OrphanedJournal) why it leaves that to you"
        else:
            about += (
                f"no WatchedCluster has this clusterId; apply one, and the operator of {session.namespace} restores"
            )
        sentences.append(about)
    document = {"orphaned": [{name: getattr(each, name) for name in Orphan.__slots__} for each in left]}
    write_result(session.output, document, lines(*sentences))
    return ExitCode.NOT_RECOVERED


def _patched(session: Session, kind: Kind, seen: Object, spec: Object) -> Object:
    """Change exactly the object that was looked at: another one of its name has another uid, and is refused."""
    meta = seen["metadata"]
    change = {"metadata": {"uid": meta["uid"]}, "spec": spec}
    return session.api.patch(kind.path(session.namespace, meta["name"]), change)


def plain(obj: Object) -> Object:
    """As a person wants to read it."""
    return obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}
