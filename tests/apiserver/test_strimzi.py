"""A Kafka of Strimzi's: the way in by its objects on a real API server, and incidents that wait for a roll to end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from apiserver import incidents
from apiserver.incidents import Start, condition, finished, only_recovery, policy, reason, recoveries
from testbed.cluster import RealKafka
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import Api, ApiRefused
from testbed.security import Credentials, Mechanism
from testbed.waiting import wait_until
from unit.kube.clusters import strimzi
from unit.kube.clusters.strimzi import PLAIN, SCRAM, TLS, Object, in_trouble, kafka_status, pool, rebalance, user_secret

pytestmark = [pytest.mark.apiserver, pytest.mark.xdist_group("kafka")]

DEFINITIONS = Path(__file__).parent / "strimzi"
OPTIONAL = Path(__file__).parents[2] / "manifests" / "rbac" / "optional"
ROLE = OPTIONAL / "strimzi.yaml"
USER, PASSWORD = "kafka-recovery", "correct-horse-battery"


@pytest.fixture
def allowed(kubectl: Kubectl, namespace: str, account: Path) -> None:
    """The operator may look at Strimzi's objects."""
    allow(kubectl, namespace)


@pytest.fixture
def installed(control_plane: ControlPlane, allowed: None) -> None:
    """The API server knows Strimzi's kinds."""
    control_plane.apply_definitions(DEFINITIONS)


def allow(kubectl: Kubectl, namespace: str, file: Path = ROLE) -> None:
    role = file.read_text().replace("namespace: kafka-recovery", f"namespace: {namespace}")
    kubectl.apply(*yaml.safe_load_all(role))


def put(kubectl: Kubectl, obj: Object) -> None:
    """Create or change an object, and its status as its controller would."""
    name = {"metadata": {"name": obj["metadata"]["name"]}}
    status = {key: obj[key] for key in ("apiVersion", "kind", "status") if key in obj} | name
    kubectl.apply({key: value for key, value in obj.items() if key != "status"})
    if "status" in obj:
        kubectl.api.apply(status, part="status")


def watched(cluster_id: str, **ref: str) -> Object:
    spec = {"clusterId": cluster_id, "strimziRef": {"name": "prod", **ref}, "policyRef": {"name": "prod"}}
    about = {"apiVersion": incidents.API_VERSION, "kind": "WatchedCluster", "metadata": {"name": "prod"}}
    return about | {"spec": spec | {"authority": "Automatic"}}


def told(kubectl: Kubectl, wanted: str, generation: int = 1) -> Object:
    """Wait until `Ready` of the WatchedCluster has this reason."""
    found: Object = wait_until(
        f"WatchedCluster prod is {wanted}",
        lambda: kubectl.api.get("watchedcluster", "prod"),
        lambda each: reason(each) == wanted and each["status"]["observedGeneration"] >= generation,
    )
    return found


def test_what_is_missing_is_said_one_after_the_other(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str, start: Start
) -> None:
    """The first here: a busy API server may take minutes to delete definitions whose storage it still initializes."""
    control_plane.kubectl()("delete", "--ignore-not-found", "--wait", f"--filename={DEFINITIONS}")
    kubectl.apply(watched("abc"))
    start()

    assert "not installed" in condition(told(kubectl, "ApiMissing"), "Ready")["message"]

    control_plane.apply_definitions(DEFINITIONS)
    assert ROLE.name in condition(told(kubectl, "Forbidden"), "Ready")["message"]

    allow(kubectl, namespace)
    assert "there is no Kafka" in condition(told(kubectl, "InvalidReference"), "Ready")["message"]

    kafka = strimzi.kafka(SCRAM)
    put(kubectl, {key: value for key, value in kafka.items() if key != "status"})
    wait_until(
        "WatchedCluster prod wants a user",
        lambda: kubectl.api.get("watchedcluster", "prod"),
        lambda each: "spec.strimziRef.user" in condition(each, "Ready")["message"],
    )

    kubectl.apply(watched("abc", user=USER))
    told(kubectl, "StrimziPending")

    put(kubectl, kafka)
    assert (
        f"spec.strimziRef.user: Secret {USER} is not there"
        in condition(told(kubectl, "InvalidReference"), "Ready")["message"]
    )


def test_whoever_may_wake_strimzi_changes_nothing_of_a_pod_set_but_its_status(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str, account: Path, installed: None
) -> None:
    """What a StrimziPodSet specifies Strimzi runs, as any account and with any Secret of the namespace."""
    allow(kubectl, namespace, OPTIONAL / "hold-back.yaml")
    put(kubectl, POD_SET)
    operator = control_plane.kubectl(account).api
    change: Object = {
        "metadata": {"labels": {"strimzi.io/cluster": "another"}, "ownerReferences": []},
        "spec": {"pods": [{"kind": "Pod", "spec": {"serviceAccountName": "another"}}]},
        "status": {"conditions": [{"type": "PodsLetGo", "status": "True"}]},
    }
    wait_until("its rights hold", lambda: answers(operator, change, part="status"), lambda no: not no)

    now = kubectl.api.get("strimzipodset", "prod-brokers")
    assert now["status"] == change["status"]
    assert now["spec"] == POD_SET["spec"]
    assert now["metadata"]["generation"] == 1
    assert "labels" not in now["metadata"]
    assert "cannot patch resource" in answers(operator, change)


def answers(who: Api, change: Object, part: str = "") -> str:
    """Why a change of the StrimziPodSet is refused; empty: it is not."""
    try:
        who.patch("strimzipodset", "prod-brokers", change, part=part)
    except ApiRefused as no:
        return str(no)
    return ""


@pytest.mark.brokers
@pytest.mark.parametrize("mechanism", [Mechanism.SCRAM, Mechanism.MTLS], ids=lambda each: each.value)
def test_addresses_authorities_and_the_user_s_secret_open_a_real_kafka(
    secured_kafka: RealKafka, kubectl: Kubectl, installed: None, start: Start, mechanism: Mechanism
) -> None:
    secured_kafka.add_scram_user(USER, PASSWORD)
    listener = {Mechanism.SCRAM: SCRAM, Mechanism.MTLS: TLS}[mechanism]
    client = secured_kafka.confluent_properties(Credentials(mechanism, USER, PASSWORD))
    authority = Path(client["ssl.ca.location"]).read_text()
    put(kubectl, user_secret(**secret(client)))
    addresses, id = {listener["name"]: secured_kafka.bootstrap_for(mechanism)}, secured_kafka.cluster_id
    kafka = strimzi.kafka(listener) | {
        "status": kafka_status(addresses, [listener], secured_kafka.cluster_id, authority)
    }
    put(kubectl, kafka)
    kubectl.apply(policy(), watched(id, user=USER))
    start()

    seen = told(kubectl, "AsExpected")
    assert seen["status"]["clusterId"] == secured_kafka.cluster_id
    assert seen["status"]["brokers"]["registered"] == len(secured_kafka.brokers)

    put(kubectl, in_trouble(kafka))
    assert "listeners" not in kubectl.api.get("kafkas.kafka.strimzi.io", "prod")["status"]
    kubectl.api.patch("watchedcluster", "prod", {"spec": {"suspend": True}})
    told(kubectl, "AsExpected", generation=2)  # Strimzi forgot the addresses; we don't


def secret(client: dict[str, str]) -> dict[str, str]:
    """What the User Operator would have put into the Secret of a user."""
    if "sasl.password" in client:
        return {"password": client["sasl.password"]}
    places = {"user.crt": "ssl.certificate.location", "user.key": "ssl.key.location"}
    return {key: Path(client[place]).read_text() for key, place in places.items()}


@pytest.mark.brokers
class TestWaiting:
    @pytest.fixture
    def rolled(self, kafka: RealKafka, kubectl: Kubectl, installed: None, start: Start) -> Kubectl:
        """Strimzi's Kafka with three brokers that are well; incidents are opened at once."""
        addresses = {"plain": kafka.bootstrap}
        put(kubectl, strimzi.kafka(PLAIN) | {"status": kafka_status(addresses, [PLAIN], kafka.cluster_id)})
        put(kubectl, pool(*kafka.brokers))
        for broker in kafka.brokers:
            put(kubectl, pod(broker, ready=True))
        kubectl.apply(policy(), watched(kafka.cluster_id))
        start()
        told(kubectl, "AsExpected")
        return kubectl

    def test_a_roll_holds_the_incident_back_and_its_end_lets_it_go(self, kafka: RealKafka, rolled: Kubectl) -> None:
        lost = {1, 2}
        for broker in lost:
            rolled("delete", "pod", f"prod-brokers-{broker}", "--wait=true")
        incidents.accident(kafka, 1)

        waiting = waits(rolled)
        assert {each["reason"] for each in waiting} == {"StrimziAtWork"}
        assert all("has no Pod at the moment" in each["message"] for each in waiting)

        for broker in lost:
            put(rolled, pod(broker, ready=False))
        wait_until("their successors start", lambda: waits(rolled), lambda now: "is starting" in str(now))
        assert recoveries(rolled) == []

        for broker in lost:  # they are ready, and Kafka has not got them back for all that
            put(rolled, pod(broker, ready=True))
        ended = finished(rolled, only_recovery(rolled, within=10)["metadata"]["name"])
        assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
        wait_until("nobody is waited for", lambda: cluster(rolled), lambda now: "waitsFor" not in now["status"])

    def test_a_rebalance_holds_every_incident_back_until_it_stops(self, kafka: RealKafka, rolled: Kubectl) -> None:
        put(rolled, rebalance("Rebalancing"))
        incidents.accident(kafka, 3)

        assert waits(rolled) == [
            {"reason": "StrimziAtWork", "message": "KafkaRebalance full moves partitions", "partitions": 3}
        ]
        assert recoveries(rolled) == []

        put(rolled, rebalance("Stopped"))
        only_recovery(rolled, within=10)


POD_SET: Object = {
    **{"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "metadata": {"name": "prod-brokers"}},
    "spec": {"selector": {"matchLabels": {"strimzi.io/cluster": "prod"}}, "pods": [{"kind": "Pod"}]},
}


class PodSet:
    """Makes the Pods of two brokers as Strimzi does: one after the other, and none behind one that is refused.

    It looks again when its StrimziPodSet or a Pod of it has changed, and then writes the status as it finds it. Strimzi
    looks every five minutes besides (seen in 1.2).

    `lives`: which Pods there were of each, by their uids. `refused`: what the API server said to those it did not make.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.lives: dict[int, list[str]] = {1: [], 2: []}
        self.refused: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="Pods", daemon=True)

    def __enter__(self) -> Self:
        self._api.apply(POD_SET)
        self._thread.start()
        wait_until("both have a Pod", lambda: all(self.lives.values()), bool)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def seen(self) -> Object:
        """The StrimziPodSet."""
        return self._api.get("strimzipodset", "prod-brokers")

    def _watch(self) -> None:
        seen: list[str] = []
        while not self._over.wait(0.02):
            now = [each["metadata"]["resourceVersion"] for each in (self.seen(), *self._api.listed("pod"))]
            if now != seen:
                seen = now
                self._make_them()

    def _make_them(self) -> None:
        error = next(filter(None, map(self._make, self.lives)), "")
        conditions = [{"type": "Error", "status": "true", "message": error}] if error else []
        if self.seen().get("status", {}).get("conditions") != conditions:
            self._api.patch("strimzipodset", "prod-brokers", {"status": {"conditions": conditions}}, part="status")

    def _make(self, broker: int) -> str:
        """Why its Pod is refused; empty: it is there."""
        wanted = {key: value for key, value in pod(broker, ready=False).items() if key != "status"}
        try:
            made = self._api.create(wanted)
        except ApiRefused as no:
            if no.code != HTTPStatus.FORBIDDEN:
                return ""  # it is there already
            self.refused.append(str(no))
            return str(no)
        self.lives[broker].append(made["metadata"]["uid"])
        crashed = {"status": {"phase": "Running", "containerStatuses": [CRASHED]}}
        self._api.patch("pod", made["metadata"]["name"], crashed, part="status")
        return ""


CRASHED = {
    **{"name": "kafka", "image": "none.example/kafka", "imageID": "", "ready": False, "restartCount": 3},
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
}


@pytest.mark.brokers
class TestHoldingBack:
    """The members of the ISR are frozen: dead to Kafka. Their Pods crash, and are made again as soon as they go."""

    @pytest.fixture
    def pods(self, kafka: RealKafka, kubectl: Kubectl, installed: None) -> Iterator[PodSet]:
        addresses = {"plain": kafka.bootstrap}
        put(kubectl, strimzi.kafka(PLAIN) | {"status": kafka_status(addresses, [PLAIN], kafka.cluster_id)})
        put(kubectl, pool(*kafka.brokers))
        put(kubectl, pod(3, ready=True))
        held = policy()
        held["spec"]["holdBack"] = "pods"
        kubectl.apply(held, watched(kafka.cluster_id))
        with PodSet(kubectl.api) as pods:
            yield pods

    def test_dead_members_pods_are_kept_away_until_another_leads_and_come_back_then(
        self, kafka: RealKafka, pods: PodSet, kubectl: Kubectl, namespace: str, start: Start
    ) -> None:
        allow(kubectl, namespace, OPTIONAL / "hold-back.yaml")
        incidents.accident(kafka, 6)
        start()
        name = only_recovery(kubectl)["metadata"]["name"]
        ended = finished(kubectl, name)

        assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
        assert "holdBack" not in ended["status"]
        assert any(f"PartitionRecovery {name} holds Pod" in said for said in pods.refused)
        members = {broker for broker, lives in pods.lives.items() if len(lives) > 1}
        assert members  # those of the ISR: which one Kafka threw out of it first is chance
        told = {each["reason"] for each in kubectl.api.listed("events.events.k8s.io")}
        assert {"PodHeld", "PodLetGo"} <= told
        wait_until("Strimzi is woken", lambda: {len(pods.lives[each]) for each in members}, lambda n: n == {2}, 10)
        wait_until("Strimzi says so", lambda: pods.seen()["status"]["conditions"], lambda those: not those)
        assert "StrimziNotWoken" not in told
        assert pods.seen()["metadata"]["generation"] == 1

    def test_without_the_right_to_delete_them_leaders_are_elected_and_it_is_said_who_may_return(
        self, kafka: RealKafka, pods: PodSet, kubectl: Kubectl, start: Start
    ) -> None:
        incidents.accident(kafka, 6)
        start()
        ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"])

        assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
        left = ended["status"]["holdBack"]["notHeld"]
        assert all("manifests/rbac/optional/hold-back.yaml" in each["message"] for each in left)
        assert {len(lives) for lives in pods.lives.values()} == {1}


def cluster(kubectl: Kubectl) -> Object:
    found: Object = kubectl.api.get("watchedcluster", "prod")
    return found


def waits(kubectl: Kubectl) -> list[Object]:
    """Wait until the WatchedCluster says whom it waits for."""
    found = wait_until(
        "somebody is waited for", lambda: cluster(kubectl), lambda each: bool(each["status"].get("waitsFor"))
    )
    waiting: list[Object] = found["status"]["waitsFor"]
    return waiting


def pod(broker: int, *, ready: bool) -> Object:
    """A broker's Pod that some kubelet has made ready, or not yet. No kubelet runs here, and nothing in the Pod."""
    like = strimzi.pod(broker)
    conditions: list[dict[str, Any]] = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": "Running" if ready else "Pending", "conditions": conditions}
    metadata = {"name": like["metadata"]["name"], "labels": like["metadata"]["labels"]}
    spec = {"containers": [{"name": "kafka", "image": "none.example/kafka"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
