"""The operator's whole story on a real Kafka and a real Kubernetes API: brokers die, a person approves, it recovers."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from testbed.cluster import RealKafka
from testbed.distribution import DistributionUnavailable, Release
from testbed.distribution import fetch as fetch_kafka
from testbed.examples import overlay, replaced
from testbed.go_module import ProgramsUnavailable
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.distribution import fetch as fetch_kubernetes
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import WaitedInVain, wait_until

ROOT = Path(__file__).parents[1]
NAMESPACE = "kafka-recovery"
"""The one that manifests/rbac and the examples name."""

TOPIC, PARTITIONS, MIN_ISR = "orders", range(4), 1
ALL, TWO, ONE = 10, 20, 3
"""Records acknowledged while three, two and one replicas of a partition were in sync."""

FIRST, BEST = 2, 3
"""The survivor that comes first in assignment order, whom Kafka would elect, and the one that holds most."""

LEASE = 6
"""Seconds, the shortest that is allowed, so that nobody waits long after the operator is killed."""

NEEDS = (
    "This demo starts a Kafka (a controller and three brokers), a Kubernetes API server (with etcd and the controller "
    "manager) and the operator, as processes on this machine, and ends them again.",
    "Fetched or built on first use, and kept in a cache outside this folder: Kafka and a Java runtime, and "
    "Kubernetes from its published Go modules (4 to 12 minutes on two cores, 3.5 GB of disk meanwhile, 0.13 GB after; "
    "not if KUBEBUILDER_ASSETS names a folder with kube-apiserver, etcd, kube-controller-manager and kubectl).",
    "With a full cache it takes one to three minutes.",
)

PATIENCE = 90.0
"""Seconds, for anything to happen."""

console = Console()

Object = dict[str, Any]
Records = dict[int, list[str]]
"""Values by partition."""
Seen = TypeVar("Seen")


class Broken(Exception):
    """Something was not as promised; the message says what."""


def main() -> None:
    """Run the demo; exits 1 if anything is not as it says beforehand."""
    for sentence in NEEDS:
        say(sentence)
    try:
        fetch_kafka(Release.named("newest"))
        fetch_kubernetes()
    except (DistributionUnavailable, ProgramsUnavailable) as trouble:
        sys.exit(f"Could not get what the demo needs: {trouble}")
    began = time.monotonic()
    chapter("Kafka, Kubernetes, and the operator in it")
    say("Three brokers and a Kubernetes API server are started. There are no nodes: the operator runs as a process.")
    with ControlPlane() as kubernetes, RealKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        admin = Shell("", administrator(kubernetes))
        install(admin)
        account = kubernetes.service_account(NAMESPACE, "kafka-recovery-operator")
        options = ("--authority=Approve", f"--lease-duration={LEASE}")
        with OperatorProcess(account, NAMESPACE, Path(folder), *options) as operator, explained(operator):
            ann = Shell("ann", kubernetes.kubectl(kubernetes.user("ann", namespace=NAMESPACE)))
            story(kafka, Watched(operator, admin.kubectl), admin, ann, Path(folder))
    console.print(f"\nThe whole demo took {time.monotonic() - began:.0f} s, starting and stopping included.")


@dataclass(frozen=True, slots=True)
class Shell:
    """What a person types, shown before it is run, from the project's folder."""

    who: str
    kubectl: Kubectl

    def __call__(self, *words: str, shown: str | None = None) -> None:
        """Run `kubectl` with these words for everybody to see; Broken if it fails."""
        prompt = f"{self.who} $" if self.who else "$"
        typed = shown or shlex.join(words)
        console.print(f"\n[bold]{prompt} kubectl {typed}[/]", soft_wrap=True, highlight=False)
        command = [str(self.kubectl.program), *words]
        done = subprocess.run(command, cwd=ROOT, env=self.kubectl.environment, check=False)
        if done.returncode:
            raise Broken(f"kubectl {typed} ended with exit code {done.returncode}")


@dataclass(frozen=True, slots=True)
class Watched:
    """The operator, and what an administrator sees of its work."""

    operator: OperatorProcess
    kubectl: Kubectl

    def until(self, what: str, look: Callable[[], Seen], good: Callable[[Seen], bool]) -> Seen:
        """Wait for it, but not for an operator that has ended."""
        return wait_until(what, look, good, PATIENCE, self._alive)

    def recovery(self, name: str, good: Callable[[Object], bool]) -> Object:
        """The recovery, once it is as it should be."""
        return self.until(
            f"PartitionRecovery {name} is as promised",
            lambda: self.kubectl.json("get", "partitionrecovery", name),
            good,
        )

    def holder(self) -> str:
        """The process that may act."""
        return self.kubectl("get", "lease", "kafka-recovery-operator", "-o", "jsonpath={.spec.holderIdentity}")

    def _alive(self) -> None:
        if self.operator.exit_code is not None:
            raise Broken(f"the operator ended by itself with exit code {self.operator.exit_code}")


def administrator(kubernetes: ControlPlane) -> Kubectl:
    """kubectl for somebody who may do everything, in the namespace that everything lives in."""
    kubernetes.kubectl()("create", "namespace", NAMESPACE)
    return kubernetes.kubectl(kubernetes.administrator(NAMESPACE))


def install(admin: Shell) -> None:
    """What an administrator does once, and what the operator and a person on call are allowed from then on."""
    say("The definitions, who may approve, and what the operator may do: one namespace, and nothing in it but its own.")
    admin("apply", "--server-side", "-f", "crds")
    admin("wait", "--for=condition=Established", "--timeout=50s", "-f", "crds")
    admin("apply", "-f", "manifests/admission", "-f", "manifests/rbac")
    say("Ann is on call: she may look, open recoveries, and approve.")
    for role in ("viewer", "responder", "approver"):
        admin("create", "rolebinding", f"ann-{role}", f"--clusterrole=kafka-recovery-{role}", "--user=ann")


def story(kafka: RealKafka, watched: Watched, admin: Shell, ann: Shell, folder: Path) -> None:
    """From a healthy cluster to a recovered one."""
    watch(kafka, watched, admin, folder)
    acknowledged = lose_the_isr(kafka)
    first, best = (
        {index: kafka.read_replica(broker, TOPIC, index) for index in PARTITIONS} for broker in (FIRST, BEST)
    )
    waiting = incident(watched, ann)
    name, digest = str(waiting["metadata"]["name"]), str(waiting["status"]["plan"]["digest"])
    kill_the_operator(watched, name, digest)
    took = approval(watched, ann, name, digest)
    kept = {index: kafka.consume(TOPIC, index) for index in PARTITIONS}
    closing_table(acknowledged, kept, first, took)
    promised("every record of the best surviving log is there", kept == best)
    promised("the best replica leads", {state.leader for state in kafka.describe(TOPIC).values()} == {BEST})
    orders = {tuple(state.replicas) for state in kafka.describe(TOPIC).values()}
    promised("every assignment order is as it was", orders == {(1, 2, 3)})
    say("The operator is told to end (SIGTERM), and gives its Lease back.")
    promised("the operator ended well", watched.operator.stop() == 0)


def watch(kafka: RealKafka, watched: Watched, admin: Shell, folder: Path) -> None:
    """Tell the operator of the cluster, as a repository would."""
    say(
        "A WatchedCluster and a RecoveryPolicy are applied: the example in which a person approves every plan, patched "
        "to this Kafka's id and address, and to 5 s of patience with dead brokers instead of two minutes."
    )
    patched = overlay(
        folder / "demo",
        "approve",
        NAMESPACE,
        cluster=[
            replaced("/spec/clusterId", kafka.cluster_id),
            replaced("/spec/bootstrapServers", kafka.bootstrap.split(",")),
        ],
        policy=[replaced("/spec/rules/1/patience", "5s")],
    )
    admin("apply", "-k", str(patched), shown="apply -k demo  # on top of examples/overlays/approve")
    watched.until(
        "every partition is seen to have a leader",
        lambda: watched.kubectl.json("get", "watchedcluster", "prod"),
        lambda cluster: condition(cluster, "KafkaHealthy").get("status") == "True",
    )
    admin("get", "watchedclusters,recoverypolicies")


def lose_the_isr(kafka: RealKafka) -> Records:
    """Broker 2 falls behind, then broker 3, then the last in-sync broker is killed; returns what was acknowledged."""
    chapter("The accident")
    acknowledged: Records = {index: [] for index in PARTITIONS}
    kafka.create_topic(TOPIC, [[1, 2, 3] for _ in PARTITIONS], min_insync_replicas=MIN_ISR)

    def write(count: int, label: str) -> None:
        for index, values in kafka.produce_to(TOPIC, PARTITIONS, count, label, acks="all").items():
            acknowledged[index] += values

    write(ALL, "all-three")
    say(f"{len(PARTITIONS)} partitions have {ALL} records each. Now broker 2 hangs, and {TWO} more are acknowledged.")
    kafka.freeze(2)
    kafka.wait_until_fenced(2)
    write(TWO, "one-and-three")
    say(f"Broker 3 hangs as well, and {ONE} more are acknowledged: by broker 1 alone.")
    kafka.freeze(3)
    kafka.wait_until_fenced(3)
    write(ONE, "only-one")
    say("Broker 1 is killed (kill -9). Brokers 2 and 3 come back, but neither is in sync: nobody may lead.")
    kafka.kill(1)
    kafka.thaw(2)
    kafka.thaw(3)
    kafka.wait_for(TOPIC, lambda state: state.leader is None)
    kafka.wait_until_unfenced(2, 3)
    return acknowledged


def survived(kafka: RealKafka, broker: int) -> Records:
    """What one broker's replicas hold."""
    return {index: kafka.read_replica(broker, TOPIC, index) for index in PARTITIONS}


def incident(watched: Watched, ann: Shell) -> Object:
    """The recovery that opened by itself, once its plan waits for a person."""
    chapter("The incident opens by itself")
    say("Nobody does anything now. After the policy's patience the operator opens a PartitionRecovery and plans it.")
    found = watched.until(
        "there is a recovery", lambda: watched.kubectl.json("get", "partitionrecoveries")["items"], bool
    )
    promised("all of it is one incident", len(found) == 1)
    name = str(found[0]["metadata"]["name"])
    waiting = watched.recovery(name, asks)
    ann("get", "prec")
    say("What it would do, and what that may cost, is in the plan; it is approved by its digest.")
    ann("kafka-recovery", "plan", name)
    say("Why this replica, for one partition:")
    ann("kafka-recovery", "explain", f"{TOPIC}-0")
    return waiting


def kill_the_operator(watched: Watched, name: str, digest: str) -> None:
    """Kill it while the person reads; the next one asks for the very same plan."""
    chapter("The operator dies while Ann reads")
    say(f"It is killed (kill -9) and started again; it may act once the old one's Lease has run out, after {LEASE} s.")
    before, log = watched.holder(), watched.operator.log
    watched.operator.kill()
    told = len(log.read_text())
    watched.operator.start()
    watched.until("the new operator holds the Lease", watched.holder, lambda now: now != before)
    watched.until("it has a plan", lambda: log.read_text()[told:], lambda new: " elects " in new)
    waiting = watched.recovery(name, asks)
    promised("the plan that Ann reads still is the plan", waiting["status"]["plan"]["digest"] == digest)
    console.print(f"Plan {digest[:12]} still waits: what Ann has read is what she approves.")


def approval(watched: Watched, ann: Shell, name: str, digest: str) -> float:
    """Ann says yes; returns the seconds until every leader was verified."""
    chapter("Ann approves")
    say("The approval is an object in her own name, for this plan alone; another plan would need another one.")
    ann("kafka-recovery", "approve", name, "--yes", "--plan", digest, "--reason", "demo")
    began = time.monotonic()
    ended = watched.recovery(name, lambda each: bool(each.get("status", {}).get("finished")))
    took = time.monotonic() - began
    ann("get", "prec,rappr")
    ann("get", "prec", name, "-o", "wide")
    promised("it is recovered", ended["status"]["outcome"] == "Recovered")
    promised("by the plan that was approved", ended["status"]["plan"]["digest"] == digest)
    promised("Ann is named", ended["status"]["approval"]["by"] == "ann")
    promised("nothing holds its deletion", not ended["metadata"].get("finalizers"))
    return took


def closing_table(acknowledged: Records, kept: Records, first: Records, took: float) -> None:
    """What was promised to producers, and what is left of it."""
    chapter("Acknowledged records, counted by consuming the topic")
    table = Table("Partition", "Acknowledged", "Kept", "Lost", f"Kafka's own unclean election: broker {FIRST} has")
    for index in PARTITIONS:
        promise, there = len(acknowledged[index]), len(set(acknowledged[index]) & set(kept[index]))
        lost, kafkas = promise - there, len(set(acknowledged[index]) & set(first[index]))
        table.add_row(f"{TOPIC}-{index}", f"{promise}", f"[green]{there}[/]", f"{lost}", f"{kafkas}")
        promised(f"only what broker 1 alone had is lost in {TOPIC}-{index}", lost == ONE)
    console.print(table)
    console.print(f"From approval to verified leaders: {took:.1f} s. What is lost is on broker 1 alone.")


# What is seen of an object


def condition(of: Object, kind: str) -> Object:
    """One of its conditions; empty if it is not there."""
    found: list[Object] = of.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


def asks(recovery: Object) -> bool:
    """Whether its plan waits for a person."""
    return condition(recovery, "Ready").get("reason") == "AwaitingApproval"


# What is said


def say(sentence: str) -> None:
    console.print(f"\n[cyan]{sentence}[/]", highlight=False)


def chapter(title: str) -> None:
    console.print()
    console.rule(f"[bold]{title}", align="left")


def promised(what: str, holds: bool) -> None:
    """Broken if it does not hold."""
    if not holds:
        raise Broken(f"not as promised: {what}")


@contextmanager
def explained(operator: OperatorProcess) -> Iterator[None]:
    """End with exit code 1, the reason and the operator's last words if anything goes otherwise."""
    try:
        yield
    except (Broken, WaitedInVain) as trouble:
        log = operator.log.read_text() if operator.log.exists() else ""
        console.print("\n[bold]The operator's last words[/]")
        print("\n".join(log.splitlines()[-25:]))
        sys.exit(f"\n{trouble}")


if __name__ == "__main__":
    main()
