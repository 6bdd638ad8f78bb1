"""The operator on a real API server and a real Kafka: how soon partitions lead again, and what it costs to stand by."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from kubernetes.client import CustomObjectsApi
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from kafka_recovery.kube.resources.operator_switch import SWITCH
from testbed.cluster import RealKafka
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.ports import HOST
from testbed.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
GROUP, VERSION, PLURAL = "kafka-recovery.dev", "v1alpha1", "partitionrecoveries"
VICTIMS, SURVIVOR = (1, 2), 3
TOPICS = {victim: f"orders-of-{victim}" for victim in VICTIMS}
"""One for each victim, with its other replica on the survivor."""
SESSION = 2.0
WARM_UP = 2
API_REQUESTS = "kafka_recovery_api_requests_total"
AT_ONCE = 16
"""Connections that objects are made with."""
PATIENCE = 120
"""Seconds until a measurement that does not come to its end is given up."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Site:
    """A control plane and a Kafka of three brokers; `folder` holds what they log."""

    plane: ControlPlane
    kafka: RealKafka
    folder: Path

    @property
    def controller_log(self) -> str:
        return (self.folder / "kafka" / "node-100" / "server.log").read_text()

    @contextmanager
    def operator(self, namespace: str, *others: str) -> Iterator[OperatorProcess]:
        """One that may do everything and logs with its times; it acts in the `others` too."""
        acts_in = [f"--namespace={each}" for each in (namespace, *others)]
        options = ("--authority=Automatic", "--no-lease", "--log-format=json", *acts_in)
        with OperatorProcess(self.plane.administrator(namespace), namespace, self.folder, *options) as process:
            yield process

    def kubectl(self, namespace: str) -> Kubectl:
        return self.plane.kubectl(self.plane.administrator(namespace))


@contextmanager
def site() -> Iterator[Site]:
    """Everything that the measurements need, for the length of a `with` block."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        with (
            ControlPlane() as plane,
            RealKafka(session_timeout=SESSION, folder=folder / "kafka") as kafka,
        ):
            plane.apply_definitions(ROOT / "crds")
            yield Site(plane, kafka, folder)


# From the fence to the leader


@dataclass(frozen=True, slots=True)
class Fenced:
    """Seconds from the controller's fencing of the last ISR broker on; `steps`: to each word of the operator's log."""

    seconds: float
    steps: dict[str, float]


STEPS = {
    "opened recovery": "incident opened",
    "elects": "plan durable",
    "wave 1 of": "approved and begun",
    ": Recovered": "leader verified, order restored",
}
"""What a line of the log says, and what that means, in this order."""


def fenced_to_verified(at: Site, repeats: int) -> list[Fenced]:
    """The last ISR broker is killed, again and again; a policy approves by itself and has no patience."""
    create_topics(at)
    with watching(at) as operator:
        return outages(at, operator, repeats)


def create_topics(at: Site) -> None:
    """Once for each Kafka."""
    for victim, topic in TOPICS.items():
        at.kafka.create_topic(topic, [[victim, SURVIVOR]])


@contextmanager
def watching(at: Site, *others: str) -> Iterator[OperatorProcess]:
    """An operator that watches the Kafka in a namespace of its own, and acts in the `others` too."""
    namespace = at.plane.create_namespace("fenced")
    at.kubectl(namespace).apply(_policy(), _cluster(at.kafka, "prod"))
    with at.operator(namespace, *others) as operator:
        wait_until("the cluster is watched", lambda: _is_ready(at.kubectl(namespace), "prod"), bool, 300)
        yield operator


def outages(at: Site, operator: OperatorProcess, repeats: int) -> list[Fenced]:
    """So many, after some that warm it up."""
    return [_one_outage(at, operator, number) for number in range(WARM_UP + repeats)][WARM_UP:]


def _one_outage(at: Site, operator: OperatorProcess, number: int) -> Fenced:
    """Victims take turns: while one is starting again, the survivor is being fenced for the next one's topic."""
    kafka, victim = at.kafka, VICTIMS[number % len(VICTIMS)]
    topic = TOPICS[victim]
    for each in TOPICS.values():
        kafka.wait_for(each, lambda state: len(state.isr) == 2)
    kafka.freeze(SURVIVOR)
    kafka.wait_until_fenced(SURVIVOR)
    kafka.produce(topic, 0, 1, "missed")
    kafka.kill(victim)
    kafka.thaw(SURVIVOR)
    offset = operator.log.stat().st_size
    done = f"{topic}-0: {_RECOVERED}"
    log = wait_until(f"{topic} is recovered", lambda: operator.log.read_text()[offset:], lambda text: done in text)
    kafka.start(victim, wait=False)
    began = _fenced_at(at.controller_log, victim)
    steps = {step: when - began for step, when in _said(log)}
    return Fenced(max(steps.values()), steps)


_RECOVERED = "Recovered"


def _fenced_at(log: str, broker: int) -> float:
    """When the controller fenced it last, by its own log (Unix time)."""
    line = [line for line in log.splitlines() if f"Fencing broker {broker} at epoch" in line][-1]
    return datetime.strptime(line[:23], "%Y-%m-%dT%H:%M:%S,%f").timestamp()  # noqa: DTZ007 - Kafka logs local time


def _said(log: str) -> Iterator[tuple[str, float]]:
    for line in log.splitlines():
        said = json.loads(line)
        for words, step in STEPS.items():
            if words in said["message"]:
                yield step, datetime.fromisoformat(said["time"]).timestamp()


# From an object to its handler


def latencies(at: Site, count: int, *others: str) -> list[float]:
    """Seconds from the API server's answer to a new PartitionRecovery until its first status is seen by a watch.

    `others`: namespaces in which the operator acts as well.
    """
    namespace = at.plane.create_namespace("latency")
    at.kubectl(namespace).apply(_policy(), _cluster(at.kafka, "prod"))
    api = CustomObjectsApi(at.plane.client())
    with at.operator(namespace, *others):
        wait_until("the cluster is watched", lambda: _is_ready(at.kubectl(namespace), "prod"), bool)
        seen: dict[str, float] = {}
        watching = Watch()
        thread = threading.Thread(target=_note_statuses, args=(at, namespace, watching, seen), daemon=True)
        thread.start()
        found = []
        for number in range(count):
            name = f"by-hand-{number}"
            api.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, _recovery(at.kafka, name))
            began = time.monotonic()
            wait_until(f"{name} has a status", partial(seen.get, name), bool)
            found.append(seen[name] - began)
        watching.stop()
    return found


def _note_statuses(at: Site, namespace: str, watching: Watch, seen: dict[str, float]) -> None:
    api = CustomObjectsApi(at.plane.client())
    with suppress(HTTPError):  # the API server ends first
        for event in watching.stream(api.list_namespaced_custom_object, GROUP, VERSION, namespace, PLURAL):
            found: Any = event["object"]
            if found.get("status", {}).get("conditions"):
                seen.setdefault(found["metadata"]["name"], time.monotonic())


def crowded(at: Site, objects: int, partitions: int, namespace: str = "") -> str:
    """A namespace with so many open recoveries, of so many partitions each, of a cluster that nobody watches.

    `namespace`: one that is there, which gets them as well.
    """
    namespace = namespace or at.plane.create_namespace("crowded")
    api = CustomObjectsApi(at.plane.client())
    scope = [{"topic": "orders", "partition": number} for number in range(partitions)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for made in [
            pool.submit(_make_large, at, api, namespace, f"of-{partitions}-{n}", scope) for n in range(objects)
        ]:
            made.result()
    return namespace


def _make_large(at: Site, api: CustomObjectsApi, namespace: str, name: str, scope: Sequence[Object]) -> None:
    recovery = _recovery(at.kafka, name)
    recovery["spec"] |= {"scope": {"partitions": scope}, "suspend": False}
    api.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, recovery)


# After a restart


@dataclass(frozen=True, slots=True)
class Restarted:
    """Seconds until every open recovery was looked at, and MiB at the peak."""

    seconds: float
    peak_mib: float


def restarted(at: Site, finished: int, open_: int) -> Restarted:
    """One operator ends and the next starts, among recoveries that ended long ago and some that it has to take up.

    Why these are held is another reason meanwhile: each of them tells when it was looked at.
    """
    namespace = at.plane.create_namespace("restart")
    kubectl = at.kubectl(namespace)
    cluster = _cluster(at.kafka, "prod")
    cluster["spec"]["suspend"] = True
    kubectl.apply(_policy(), cluster)
    api = CustomObjectsApi(at.plane.client())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for made in [pool.submit(_make, at, api, namespace, f"old-{n}", ended=True) for n in range(finished)]:
            made.result()
        for made in [pool.submit(_make, at, api, namespace, f"new-{n}", ended=False) for n in range(open_)]:
            made.result()
    with at.operator(namespace) as operator:
        _all_held(at, namespace, open_, "WatchedCluster")
        operator.stop()
    kubectl.apply(_switched_off(), _cluster(at.kafka, "prod"))
    began = time.monotonic()
    with at.operator(namespace) as operator:
        _all_held(at, namespace, open_, "ConfigMap")
        took = time.monotonic() - began
        return Restarted(took, mib(operator.pid, "VmHWM"))


def _make(at: Site, api: CustomObjectsApi, namespace: str, name: str, *, ended: bool) -> None:
    recovery = _recovery(at.kafka, name)
    recovery["spec"]["suspend"] = ended
    api.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, recovery)
    if ended:
        ready = {"type": "Ready", "status": "True", "reason": "Recovered", "message": "1 of 1 partitions",
                 "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}  # fmt: skip
        status = {"finished": True, "outcome": "Recovered", "observedGeneration": 1, "conditions": [ready],
                  "finishedAt": datetime.now().astimezone().strftime("%Y-%m-%dT%H:%M:%SZ")}  # fmt: skip
        api.patch_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, name, {"status": status})


def _all_held(at: Site, namespace: str, open_: int, by: str) -> None:
    """Returns once so many say that this kind of object suspends them.

    A watch tells, as the processors that a list every moment would use are those that are measured.
    """
    listed = partial(CustomObjectsApi(at.plane.client()).list_namespaced_custom_object, GROUP, VERSION)
    watching, seen = Watch(), set[str]()
    stream = watching.stream(
        listed, namespace, PLURAL, field_selector="status.finished!=true", timeout_seconds=PATIENCE
    )
    for event in stream:
        found: Any = event["object"]
        ready = _condition(found, "Ready")
        if ready.get("reason") == "Suspended" and by in ready["message"]:
            seen.add(found["metadata"]["name"])
        if len(seen) == open_:
            return
    raise TimeoutError(f"{len(seen)} of {open_} open recoveries were looked at")


def _switched_off() -> Object:
    """What suspends a whole operator."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SWITCH}, "data": {"suspend": "true"}}


# Standing by


@dataclass(frozen=True, slots=True)
class Idle:
    """MiB of memory, and the part of one core that is used."""

    mib: float
    cpu: float


def idle(at: Site, clusters: int, seconds: float) -> Idle:
    """Watching clusters in which nothing happens."""
    namespace = at.plane.create_namespace("idle")
    kubectl = at.kubectl(namespace)
    with ExitStack() as stack:
        kafkas = [at.kafka, *(stack.enter_context(RealKafka(brokers=1)) for _ in range(clusters - 1))]
        kubectl.apply(_policy(), *[_cluster(kafka, f"prod-{n}") for n, kafka in enumerate(kafkas)])
        operator = stack.enter_context(at.operator(namespace))
        for n in range(clusters):
            wait_until("it is watched", partial(_is_ready, kubectl, f"prod-{n}"), bool)
        time.sleep(5)
        before = _cpu_seconds(operator.pid)
        time.sleep(seconds)
        return Idle(mib(operator.pid, "VmRSS"), (_cpu_seconds(operator.pid) - before) / seconds)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Requests to the API server in a second, and the part of one core that is used."""

    requests: float
    cpu: float


def waiting(at: Site, recoveries: int, seconds: float) -> Waiting:
    """So many recoveries, each with a plan for a partition of its own, wait for a person, and nothing happens."""
    namespace, topic = at.plane.create_namespace("waiting"), "waiting"
    kubectl = at.kubectl(namespace)
    kubectl.apply(_policy(approval="ManualApprove"), _cluster(at.kafka, "prod"))
    at.kafka.offline_by_freezing(topic, (SURVIVOR,), partitions=recoveries)
    api = CustomObjectsApi(at.plane.client())
    for number in range(recoveries):
        one = _recovery(at.kafka, f"waiting-{number}")
        one["spec"] |= {"scope": {"partitions": [{"topic": topic, "partition": number}]}, "suspend": False}
        api.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, one)
    with at.operator(namespace) as operator:
        # The operator may have opened one more itself: the frozen brokers lead other topics too.
        wait_until("all have a plan", lambda: _asking(api, namespace), lambda count: count >= recoveries, 300)
        time.sleep(5)
        before, cpu = _api_requests(operator), _cpu_seconds(operator.pid)
        time.sleep(seconds)
        asked, used = _api_requests(operator) - before, _cpu_seconds(operator.pid) - cpu
    return Waiting(asked / seconds, used / seconds)


def _asking(api: CustomObjectsApi, namespace: str) -> int:
    """How many recoveries wait for an approval of their plan."""
    listed: Any = api.list_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL)
    return sum(_condition(each, "Approved").get("reason") == "AwaitingApproval" for each in listed["items"])


def _api_requests(operator: OperatorProcess) -> float:
    with urlopen(f"http://{HOST}:{operator.metrics_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{API_REQUESTS}{{"))


def mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid}/status has no {field}: this is measured on Linux only")


def _cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


# Objects


def _policy(approval: str = "AutoApprove") -> Object:
    rules = [{"name": "everything", "approval": approval, "patience": "0s"}]
    return _object("RecoveryPolicy", "prod", {"limits": {"brokersDownPercent": 100}, "rules": rules})


def _cluster(kafka: RealKafka, name: str) -> Object:
    spec = {
        "clusterId": kafka.cluster_id,
        "bootstrapServers": kafka.bootstrap.split(","),
        "policyRef": {"name": "prod"},
        "authority": "Automatic",
    }
    return _object("WatchedCluster", name, spec)


def _recovery(kafka: RealKafka, name: str) -> Object:
    """It stays open, because it is suspended."""
    spec = {
        "clusterRef": {"name": "prod"},
        "clusterId": kafka.cluster_id,
        "scope": {"partitions": [{"topic": "orders", "partition": 0}]},
        "suspend": True,
    }
    return _object("PartitionRecovery", name, spec)


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _is_ready(kubectl: Kubectl, name: str) -> bool:
    return _condition(kubectl.json("get", "watchedcluster", name), "Ready").get("status") == "True"


def _condition(of: Object, kind: str) -> Object:
    """Empty if it is not there."""
    found: list[Object] = of.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
