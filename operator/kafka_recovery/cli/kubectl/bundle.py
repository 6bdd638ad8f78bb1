"""`support-bundle`: all that somebody who was not there needs to understand an incident, and no Secret.

It is made of what the person may read; what they may not is listed. Of objects only known metadata is taken, so that a
copy of the spec that some tool keeps in an annotation does not come along.
"""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kafka_recovery.cli.kubectl.access import Loop, sound_name
from kafka_recovery.cli.kubectl.troubles import Session, told
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.new_files import refuse_existing, write_new
from kafka_recovery.cli.terminal.render import lines, write_result
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.printable import printable
from kafka_recovery.kube.journal import facts
from kafka_recovery.kube.journal.facts import Fact, Facts
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.resources.kinds import APPROVALS, CLUSTERS, GROUP, POLICIES, RECORDS, RECOVERIES

OPERATORS_PODS = "app.kubernetes.io/part-of=kafka-recovery"
_USERS = (
    ("spec", "sasl", "username"),
    ("spec", "controllers", "sasl", "username"),
    ("spec", "strimziRef", "user"),
)
"""Where objects name a Kafka user."""
_LOG_LINES = 20_000
_LOG_BYTES = 16 * 1024 * 1024
_METADATA = (
    "namespace",
    "name",
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
    "labels",
    "ownerReferences",
)
_README = """\
Support bundle of kafka-recovery-operator
namespace {namespace}, made {made}

objects/    WatchedClusters, RecoveryPolicies, PartitionRecoveries, RecoveryApprovals. Secrets are never read; those
            that WatchedClusters refer to are named. Kafka users' names are left out; a message about the Secret of a
            user of Strimzi's names it, and both have one name.
journal/    For each RecoveryRecord of the recoveries' journals its metadata; for each plan its content.
events.json Events about these objects.
logs/       What the operator's pods wrote, if they could be found (label {label}).

It holds names and addresses of brokers, names of topics, and names of those who approved. No records of Kafka.

{unreadable}
"""


@dataclass
class _Bundle:
    """Files so far, and what could not be read."""

    made: datetime
    unreadable: list[str] = field(default_factory=list)
    _raw: io.BytesIO = field(default_factory=io.BytesIO)

    def __post_init__(self) -> None:
        self._tar = tarfile.open(fileobj=self._raw, mode="w:gz")  # noqa: SIM115 - closed by `packed`

    def add(self, path: str, content: bytes) -> None:
        """One file."""
        entry = tarfile.TarInfo(f"kafka-recovery-support/{path}")
        entry.size, entry.mtime, entry.mode = len(content), int(self.made.timestamp()), 0o644
        self._tar.addfile(entry, io.BytesIO(content))

    def add_json(self, path: str, document: object) -> None:
        """One document."""
        self.add(path, (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """A part that may be missing: it is named then, and the others are no worse for it."""
        try:
            yield
        except ApiError as error:
            if error.status in (0, HTTPStatus.UNAUTHORIZED):
                raise  # nothing else will be answered either
            self.unreadable.append(printable(f"{what}: {told(error)}"))
        except InvalidDocument as error:
            self.unreadable.append(printable(f"{what}: {error}"))

    def packed(self) -> bytes:
        """The whole file."""
        self._tar.close()
        return self._raw.getvalue()


def support_bundle(session: Session, out: Path | None, operator_namespace: str | None) -> ExitCode:
    """Gather what can be read, and write it to a new file."""
    made = datetime.now(UTC)
    path = out or Path(f"kafka-recovery-support-{made:%Y%m%dT%H%M%SZ}.tar.gz")
    refuse_existing(path)
    bundle = _Bundle(made)
    for kind in (CLUSTERS, POLICIES, RECOVERIES, APPROVALS):
        with bundle.part(kind.kind):
            found = session.api.list_all(kind.path(session.namespace))
            bundle.add_json(f"objects/{kind.plural}.json", list(map(without_secrets, found)))
    with bundle.part("the journal"):
        _journal(session, bundle)
    with bundle.part("events"):
        _events(session, bundle)
    home = operator_namespace or session.namespace
    with bundle.part(f"the operator's logs in namespace {home}"):
        _logs(session, bundle, home)
    lacking = "\n".join(f"- {each}" for each in bundle.unreadable)
    missing = f"What could not be read:\n{lacking}" if lacking else "Everything could be read."
    readme = _README.format(namespace=session.namespace, made=made, label=OPERATORS_PODS, unreadable=missing)
    bundle.add("README", readme.encode())
    write_new(path, bundle.packed())
    shown = [f"{path}: look through it before you give it away; its README says what it holds.", *bundle.unreadable]
    write_result(session.output, {"file": str(path), "unreadable": bundle.unreadable}, lines(*shown))
    return ExitCode.DONE


def without_secrets(obj: Object) -> Object:
    """One of our objects with known metadata only, and without the name of a Kafka user."""
    kept: Object = {key: value for key, value in obj.items() if key in ("apiVersion", "kind", "spec", "status")}
    for way in _USERS:
        kept = _without(kept, *way)
    return kept | {"metadata": _metadata(obj)}


def _without(fields: Object, first: str, *rest: str) -> Object:
    """The same, with "(left out)" for what stands at this place, if anything does."""
    if first not in fields or (rest and not isinstance(fields[first], dict)):
        return fields
    return fields | {first: _without(fields[first], *rest) if rest else "(left out)"}


def _metadata(obj: Object) -> Object:
    meta: Mapping[str, Any] = obj["metadata"]
    ours = {key: value for key, value in (meta.get("annotations") or {}).items() if key.startswith(f"{GROUP}/")}
    return {key: meta[key] for key in _METADATA if key in meta} | ({"annotations": ours} if ours else {})


def _journal(session: Session, bundle: _Bundle) -> None:
    """Each RecoveryRecord's metadata, then the plans: also of recoveries that are gone."""
    params = {"labelSelector": facts.FACT_LABEL}
    found = session.api.list_all(RECORDS.path(session.namespace), params)
    bundle.add_json("journal/records.json", [_metadata(each) for each in found])
    for head in found:
        if head["spec"]["fact"] == "plan":
            with bundle.part(f"the plan in RecoveryRecord {head['metadata']['name']}"):
                _plan(session, bundle, head)


def _plan(session: Session, bundle: _Bundle, head: Object) -> None:
    fact = Fact.of(head)
    journal = Facts(Loop(session.api), session.namespace, fact.recovery, head["spec"]["clusterId"])
    bundle.add(f"journal/{fact.record}.json", asyncio.run(journal.content(fact)))


def _events(session: Session, bundle: _Bundle) -> None:
    found = session.api.list_all(f"/apis/events.k8s.io/v1/namespaces/{session.namespace}/events")
    about_ours = [each for each in found if _about(each).startswith(f"{GROUP}/")]
    bundle.add_json("events.json", [{**each, "metadata": _metadata(each)} for each in about_ours])


def _about(event: Object) -> str:
    return str((event.get("regarding") or {}).get("apiVersion", ""))


def _logs(session: Session, bundle: _Bundle, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{sound_name('namespace', namespace)}/pods"
    found = session.api.list_all(pods, {"labelSelector": OPERATORS_PODS})
    if not found:
        raise InvalidDocument(f"no pod with label {OPERATORS_PODS}; name the operator's with --operator-namespace")
    for pod in found:
        name = pod["metadata"]["name"]
        for container, previous in _runs(pod):
            params = {"container": container, "tailLines": str(_LOG_LINES), "limitBytes": str(_LOG_BYTES)}
            params |= {"previous": "true"} if previous else {}
            with bundle.part(f"the log of {name}, container {container}"):
                log = session.api.text(f"{pods}/{name}/log", params)
                bundle.add(f"logs/{name}.{container}{'.previous' if previous else ''}.log", log.encode())


def _runs(pod: Object) -> Iterable[tuple[str, bool]]:
    """Each container, and again if it ran before."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        yield status["name"], False
        if status.get("restartCount"):
            yield status["name"], True
