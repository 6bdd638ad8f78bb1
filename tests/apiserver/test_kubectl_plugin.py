"""`kubectl kafka-recovery` at a real API server: real kubectl, real rights, real refusals; the test is the operator."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import shlex
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from apiserver.forked import PROGRAMS
from kafka_recovery.cli.kubectl import commands
from kafka_recovery.cli.kubectl.access import Loop, opened
from kafka_recovery.cli.kubectl.reach import Reach
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.recoveries.status import Known, Phase, plan_asked, status_of
from kafka_recovery.kube.resources.kinds import API_VERSION
from testbed.fork_server import Forked
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import ApiRefused
from testbed.kubernetes.rights import bound, hold, role
from testbed.waiting import wait_until
from unit.cli.small_cluster import SmallCluster
from unit.docs.commands import lines

pytestmark = pytest.mark.apiserver

PATIENCE = 60.0
ANN = "ann@example.com"
AWAITING = Reason("AwaitingApproval", "the plan waits for a RecoveryApproval")
PEOPLE = Path(__file__).parents[2] / "manifests" / "rbac" / "people.yaml"
EVENING = Path(__file__).parents[2] / "docs" / "tutorials" / "first-evening.md"


@dataclass
class Operator:
    """What the operator would write, by the administrator's hand."""

    kubectl: Kubectl
    namespace: str
    kafka: SmallCluster
    cluster: str = "prod"

    def opened(self, name: str = "prod-1", known: Known | None = None) -> str:
        """A recovery; returns its uid."""
        scope = {"allOffline": True}
        spec = {"clusterRef": {"name": self.cluster}, "clusterId": self.kafka.id, "scope": scope}
        self.kubectl.apply(of_ours("PartitionRecovery", name, spec))
        if known:
            self.tell(name, known)
        return str(self.seen(name)["metadata"]["uid"])

    def seen(self, name: str = "prod-1") -> Any:
        return self.kubectl.api.get("partitionrecovery", name)

    def tell(self, name: str, known: Known) -> None:
        """Write what is known into the status."""
        status = status_of(known, 1, {}, datetime.now(UTC))
        self.kubectl.api.patch("partitionrecovery", name, {"status": status}, "status")

    def plan(self) -> Plan:
        """For what is offline now."""
        return decide(asyncio.run(self.kafka.gather(ALL_OFFLINE, Policy().widest_evidence_rules)), Policy())

    def awaiting(self, name: str = "prod-1") -> Plan:
        """A recovery with a recorded plan that a person has to approve."""
        plan = self.plan()
        journal = self.journal(name, self.opened(name))
        with opened(Reach(self.kubectl.kubeconfig)) as api:
            asyncio.run(journal(Loop(api)).record(plan))
        self.tell(name, waiting_for(plan))
        return plan

    def journal(self, name: str, uid: str) -> Any:
        return lambda api: RecordJournal(api, self.namespace, name, uid, self.kafka.id)


def of_ours(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def waiting_for(plan: Plan) -> Known:
    return Known(Phase.AWAITING_APPROVAL, AWAITING, len(plan.decisions), plan=plan_asked(plan, digest(plan)))


@pytest.fixture
def operator(kubectl: Kubectl, namespace: str) -> Operator:
    kafka = SmallCluster()
    kafka.offline("orders-17", {2: 27, 3: 15})
    cluster = {"clusterId": kafka.id, "bootstrapServers": ["kafka-1:9092"], "authority": "Approve"}
    kubectl.apply(of_ours("WatchedCluster", "prod", cluster))
    return Operator(kubectl, namespace, kafka)


@pytest.fixture
def ann(control_plane: ControlPlane, namespace: str, kubectl: Kubectl) -> Kubectl:
    """A person with the roles that people get: viewer, responder and approver."""
    kubectl.apply(*yaml.safe_load_all(PEOPLE.read_text()))
    kubectl.apply(*(bound(ANN, f"kafka-recovery-{each}", name=each) for each in ("viewer", "responder", "approver")))
    ann = control_plane.kubectl(control_plane.user(ANN, namespace=namespace))
    hold(ann.api, ("list", "recoveryrecords"), ("create", "prec"), ("create", "rappr"))
    return ann


def claim(name: str) -> dict[str, Any]:
    """As Strimzi makes it for a broker."""
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name, "labels": {"strimzi.io/cluster": "prod"}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": storage}


@pytest.fixture
def guarded(ann: Kubectl) -> None:
    """The admission policy for approvals holds, which takes a moment after the control plane's start."""
    spec = {
        "recoveryRef": {"name": "none", "uid": "none"},
        "planDigest": "0" * 64,
        "decision": "Refuse",
        "approver": "somebody else",
    }
    probe = of_ours("RecoveryApproval", "probe", spec)
    wait_until("it is held", lambda: said_to(ann, probe), lambda said: "in the name of" in said)


def said_to(person: Kubectl, wish: dict[str, Any]) -> str:
    """What the API server would say to its creation, if it refuses it."""
    try:
        person.api.create(wish, dry_run=True)
    except ApiRefused as no:
        return str(no)
    return ""


def plugin(person: Kubectl, *words: str) -> subprocess.CompletedProcess[str]:
    """`kubectl kafka-recovery WORDS…` as kubectl starts it, but forked: a Python of its own takes seconds."""
    with started(person, *words) as process:
        return process.ended()


def test_the_first_evening_as_its_page_types_it(
    operator: Operator, ann: Kubectl, guarded: None, kubectl: Kubectl
) -> None:
    """Ann answers one plan with yes and another one with no; who administers the cluster stops everything.

    Half a minute on a busy machine: each command is kubectl and a Python of its own, as a person has them.
    """
    page = [line for line in lines(EVENING.read_text()) if line.startswith("kubectl ")]
    typed = []

    def types(beginning: str, who: Kubectl = ann, name: str = "prod-1") -> str:
        """What a terminal shows of the command of the page that begins so, if it ends well."""
        (line,) = {each for each in page if each.startswith(f"kubectl {beginning} ")}
        typed.append(line)
        ours = line.replace("--namespace kafka-recovery", f"--namespace {operator.namespace}")
        words = shlex.split(ours.replace("NAME", name).replace("TOPIC-PARTITION", "orders-17"))
        shown, code = at_a_terminal(who, *words[1:], answers=answers)
        assert code == 0, f"{line}\n{shown}"
        return shown

    plan = operator.awaiting("prod-1")
    answers = {"approves nothing:": f"{digest(plan)[:8]}\n", "[y/N]": "y\n"}
    operator.awaiting("prod-2")
    assert "watchedcluster.kafka-recovery.dev/prod" in types("get wkc,rpol")
    assert "AwaitingApproval" in types("get prec")
    assert "Next: kubectl kafka-recovery plan prod-1" in types("kafka-recovery status")
    assert f"Digest: {digest(plan)}" in types("kafka-recovery plan")
    assert "orders-17: Elect broker 2" in types("kafka-recovery explain")
    types("kafka-recovery approve", name="prod-1")
    types("kafka-recovery refuse", name="prod-2")
    said = [each["spec"] for each in kubectl.api.listed("recoveryapprovals")]
    assert {(each["recoveryRef"]["name"], each["decision"], each["reason"]) for each in said} == {
        ("prod-1", "Approve", "a drill"),
        ("prod-2", "Refuse", "the brokers are started instead"),
    }

    for wish, data in (("suspend", "true"), ("unsuspend", "false")):
        types(f"kafka-recovery {wish}", who=kubectl)
        assert kubectl.api.get("configmap", "kafka-recovery-operator")["data"] == {"suspend": data}
    assert set(typed) == set(page), "every command of the page was typed"


def test_ctrl_c_at_the_question_writes_nothing(operator: Operator, ann: Kubectl, kubectl: Kubectl) -> None:
    operator.awaiting()

    seen, code = at_a_terminal(ann, "kafka-recovery", "approve", "prod-1", answers={"approves nothing:": "\x03"})

    assert "approves nothing:" in seen
    assert code == 130
    assert kubectl.api.listed("recoveryapprovals") == []


def test_where_a_broker_runs_that_is_away_is_shown_by_the_reader_s_own_rights(
    operator: Operator, ann: Kubectl, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    """A claim that is younger than the incident: somebody made the broker a new disk."""
    spec = {"clusterId": operator.kafka.id, "strimziRef": {"name": "prod"}, "authority": "Approve"}
    kubectl.apply(of_ours("WatchedCluster", "strimzi", spec))
    operator.awaiting()
    kubectl.apply(claim("data-0-prod-brokers-1"))

    refused = plugin(ann, "status", "prod-1").stdout
    assert "Where the brokers run" not in refused, "of a cluster that Strimzi does not run nothing is known"

    kubectl.api.delete("partitionrecovery", "prod-1")
    operator.cluster = "strimzi"
    operator.awaiting("prod-2")
    refused = plugin(ann, "status", "prod-2").stdout
    assert "Where the brokers run that are away (1) can't be told: " in refused
    assert "forbidden" in refused

    kubectl.apply(bound(ANN, "view"))
    shown = wait_until(
        "ann may read Pods", lambda: plugin(ann, "status", "prod-2").stdout, lambda each: "can't be told" not in each
    )
    assert "claim data-0-prod-brokers-1 is Pending" in shown
    assert "DANGER: claim data-0-prod-brokers-1 of broker 1 was made only at " in " ".join(shown.split())


def test_who_may_not_approve_is_told_why(operator: Operator, ann: Kubectl, guarded: None, kubectl: Kubectl) -> None:
    """By RBAC alone they might write a RecoveryApproval; the admission policy wants the verb approve as well."""
    plan = operator.awaiting()
    kubectl.api.delete("rolebinding", "approver")
    writer = role("writer", ["create", "get", "list"], "recoveryapprovals.kafka-recovery.dev")
    kubectl.apply(writer, bound(ANN, "writer", own=True))
    words = ("approve", "prod-1", "--yes", "--plan", digest(plan))

    refused = wait_until(
        "the roles hold", lambda: plugin(ann, *words), lambda tried: "admission control" in tried.stderr
    )

    assert refused.returncode == 6
    assert refused.stderr == (
        "Error: admission control refuses it: ann@example.com may not approve partitionrecoveries/prod-1 in namespace "
        f"{operator.namespace}: the RBAC verb approve is missing\n"
    )


def test_a_responder_attests_a_lost_disk_in_their_own_name_and_takes_it_back(
    operator: Operator, ann: Kubectl, guarded: None
) -> None:
    operator.opened()
    lost = ("attest", "prod-1", "--broker", "1", "--disk-lost", "--reason", "INC-7: volume vol-1 was deleted")

    attested = plugin(ann, *lost, "--yes")

    assert attested.returncode == 0, attested.stderr
    (held,) = operator.seen()["spec"]["attestations"]
    assert held["by"] in attested.stdout
    assert plugin(ann, "attest", "prod-1", "--broker", "1", "--withdraw").returncode == 0
    assert operator.seen()["spec"]["attestations"] == []


def test_a_bundle_of_all_that_one_may_read(operator: Operator, ann: Kubectl, kubectl: Kubectl, tmp_path: Path) -> None:
    operator.awaiting()
    kubectl("create", "secret", "generic", "creds", "--from-literal=password=hunter-2-of-the-test")

    done = plugin(ann, "support-bundle", "--out", str(tmp_path / "bundle.tar.gz"), "-o", "json")

    assert done.returncode == 0, done.stderr
    (logs,) = json.loads(done.stdout)["unreadable"]
    assert 'User "ann@example.com" cannot list resource "pods"' in logs
    with tarfile.open(tmp_path / "bundle.tar.gz") as packed:
        found = {entry.name: packed.extractfile(entry) for entry in packed}
        text = b"".join(file.read() for file in found.values() if file)
    assert b"orders" in text
    assert b"hunter-2" not in text
    assert b"managedFields" not in text


def test_a_server_that_never_heard_of_the_kinds(
    control_plane: ControlPlane, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any path of an API group that nobody installed is answered."""
    monkeypatch.setattr("kafka_recovery.kube.resources.kinds.API_VERSION", "nobody.example/v1")
    refused = in_this_process(kubectl, "status")

    assert refused.exit_code == 2
    assert refused.stderr.startswith("Error: the kinds of kafka-recovery.dev are not installed in this cluster: ")


def test_a_token_that_nobody_believes(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    config = json.loads(kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "worn-out"}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))

    refused = in_this_process(replace(kubectl, kubeconfig=tmp_path / "kubeconfig"), "status")

    assert refused.exit_code == 6
    assert refused.stderr.startswith("Error: the API server does not know who you are: log in again")


def in_this_process(person: Kubectl, *words: str) -> Result:
    return CliRunner().invoke(commands.app, [*words, "--kubeconfig", str(person.kubeconfig)])


@dataclass
class Started:
    """The plugin as a process of its own."""

    process: Forked
    out: Path
    err: Path

    def ended(self) -> subprocess.CompletedProcess[str]:
        """Wait until it has."""
        code = self.process.wait(PATIENCE)
        return subprocess.CompletedProcess("kafka-recovery", code, self.out.read_text(), self.err.read_text())


@contextmanager
def started(person: Kubectl, *words: str) -> Iterator[Started]:
    """The plugin, while it runs."""
    with TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        with out.open("wb") as output, err.open("wb") as errors:
            process = PROGRAMS.start("apiserver.forked:plugin", words, output, person.environment, errors)
        yield Started(process, out, err)
        process.kill()
        process.wait()


def at_a_terminal(person: Kubectl, *words: str, answers: Mapping[str, str]) -> tuple[str, int]:
    """What a terminal shows of kubectl until the end, and the exit code; `answers`: by the end of its question."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(person.program, ["kubectl", *words], person.environment)
    seen, ends, left = "", time.monotonic() + PATIENCE, dict(answers)
    try:
        while True:
            ready, _, _ = select.select([terminal], [], [], max(ends - time.monotonic(), 0))
            assert ready, f"it never ended: {seen!r}"
            try:
                read = os.read(terminal, 65536)
            except OSError:  # Linux's word for a terminal whose last process ended
                break
            if not read:
                break
            seen += read.decode()
            for question in [each for each in left if each in seen]:
                os.write(terminal, left.pop(question).encode())
    finally:
        os.close(terminal)
    return seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
