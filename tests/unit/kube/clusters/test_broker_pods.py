"""The Pods of brokers: what they say of why a broker is away, and that nothing of it is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kafka_recovery.domain.evidence import ClusterState, Evidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.pods import BrokerPod, ContainerEnd, NodeState, VolumeClaim
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.broker_pods import BrokerPods
from kafka_recovery.kube.clusters.pod_objects import node_state, pods_of
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound, Object
from unit.decision.incident import broker, evidence, log, partition
from unit.kube.clusters.strimzi import NOON, pod
from unit.kube.spoilt import spoilt

AT_NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
KILLED = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": NOON}
CRASHING = {
    "name": "kafka",
    "restartCount": 7,
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
    "lastState": {"terminated": KILLED},
}


def claim(name: str = "data-0-prod-brokers-1", phase: str = "Bound", cluster: str = "prod") -> Object:
    meta = {"name": name, "labels": {"strimzi.io/cluster": cluster}, "creationTimestamp": NOON}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "status": {"phase": phase}}


def with_status(obj: Object, **status: Any) -> Object:
    return obj | {"status": obj["status"] | status}


def with_spec(obj: Object, **spec: Any) -> Object:
    return obj | {"spec": spec, "metadata": obj["metadata"] | {"uid": "u-1"}}


def only(*pods: Object, claims: tuple[Object, ...] | None = ()) -> BrokerPod:
    [found] = pods_of("prod", pods, claims)
    return found


class TestWhatAPodSays:
    def test_a_container_that_is_killed_again_and_again_is_told_with_how_it_ended(self) -> None:
        found = only(with_status(with_spec(pod(1, ready=False), nodeName="n2"), containerStatuses=[CRASHING]))

        assert (found.broker, found.name, found.uid, found.node) == (1, "prod-brokers-1", "u-1", "n2")
        assert (found.reason, found.ready, found.since) == ("CrashLoopBackOff", False, AT_NOON)
        assert found.ended == ContainerEnd("OOMKilled", 137, AT_NOON)
        assert found.restarts == 7

    def test_one_that_ended_and_is_not_started_again_is_told_by_its_end(self) -> None:
        ended = {"name": "kafka", "state": {"terminated": KILLED | {"reason": "Error", "exitCode": 1}}}

        found = only(with_status(pod(1, ready=False, phase="Failed"), containerStatuses=[ended], reason="Evicted"))

        assert (found.phase, found.reason, found.ended) == ("Failed", "Evicted", ContainerEnd("Error", 1, AT_NOON))

    def test_one_that_crashes_is_told_by_its_end_while_the_kubelet_says_no_more(self) -> None:
        """From 1.36 on the kubelet shows so for half a minute and longer what it calls CrashLoopBackOff then."""
        ended = CRASHING | {"state": {"terminated": KILLED | {"reason": None, "message": "no space left"}}}

        found = only(with_status(pod(1, ready=False), containerStatuses=[ended]))

        assert (found.reason, found.message, found.restarts) == ("Error", "no space left", 7)

    def test_what_another_container_of_the_pod_does_is_not_the_brokers(self) -> None:
        sidecar = CRASHING | {"name": "log-shipper"}

        found = only(with_status(pod(1), containerStatuses=[sidecar]))

        assert (found.reason, found.ended, found.restarts) == ("", None, 0)

    def test_a_pod_that_fits_on_no_node_says_why_and_since_when(self) -> None:
        why = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available",
            "lastTransitionTime": NOON,
        }

        found = only(with_status(pod(1), phase="Pending", conditions=[why]))

        assert (found.phase, found.reason, found.message) == ("Pending", "Unschedulable", "0/3 nodes are available")
        assert (found.node, found.ready, found.since) == (None, False, AT_NOON)

    def test_an_init_container_may_be_what_holds_it_up(self) -> None:
        init = {"name": "kafka-init", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}

        found = only(with_status(pod(1, ready=False), initContainerStatuses=[init]))

        assert (found.reason, found.message) == ("ImagePullBackOff", "no such image")

    def test_one_that_is_being_stopped_is_not_ready_whatever_it_says(self) -> None:
        found = only(pod(1, ready=True, deleted="2026-11-21T12:00:20Z"))

        assert (found.ready, found.reason) == (False, "Terminating")


class TestItsVolumes:
    def test_its_claims_are_those_of_its_name(self) -> None:
        claims = claim(), claim("data-1-prod-brokers-1", "Lost"), claim("data-0-prod-brokers-11")

        found, eleven = pods_of("prod", [pod(1)], claims)

        assert found.claims == (
            VolumeClaim("data-0-prod-brokers-1", "Bound", AT_NOON),
            VolumeClaim("data-1-prod-brokers-1", "Lost", AT_NOON),
        )
        assert (eleven.broker, eleven.name) == (11, None)

    def test_a_claim_that_was_deleted_is_not_told_as_bound_while_its_pod_keeps_it(self) -> None:
        going = claim()
        going["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:20Z"

        (found,) = only(pod(1), claims=(going,)).claims or ()
        assert found.phase == "Terminating"

    def test_a_claim_that_its_pod_wants_and_that_is_not_there_is_missing(self) -> None:
        volumes = [{"name": "data-0", "persistentVolumeClaim": {"claimName": "data-0-prod-brokers-1"}}]

        assert only(with_spec(pod(1), volumes=volumes)).claims == (VolumeClaim("data-0-prod-brokers-1", None),)

    def test_claims_that_can_t_be_read_are_unknown_and_not_missing(self) -> None:
        assert only(pod(1), claims=None).claims is None

    def test_logs_in_an_empty_dir_end_with_their_pod(self) -> None:
        def kept_in(name: str) -> BrokerPod:
            return only(with_spec(pod(1), volumes=[{"name": name, "emptyDir": {}}]))

        assert kept_in("data-0").ephemeral
        assert not kept_in("strimzi-tmp").ephemeral


class TestWhoseItIs:
    def test_pods_of_another_kafka_and_of_controllers_are_no_brokers(self) -> None:
        assert pods_of("prod", [pod(7, cluster="other"), pod(8, broker=False)], ()) == ()

    def test_two_pods_that_say_they_are_the_same_broker_are_both_told(self) -> None:
        other = pod(1)
        other["metadata"] |= {"name": "prod-spare-1"}

        assert [each.name for each in pods_of("prod", [other, pod(1)], ())] == ["prod-brokers-1", "prod-spare-1"]


NO_OBJECTS = tuple(spoilt({"metadata": {"name": "x", "labels": {}}, "status": {"conditions": [{"type": "Ready"}]}}))


class TestWhatOthersWrite:
    def test_no_pod_makes_it_fail(self) -> None:
        why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": NOON}
        status = {"phase": "Pending", "reason": "", "message": "", "conditions": [why]}
        status |= {"containerStatuses": [CRASHING], "initContainerStatuses": [CRASHING | {"name": "kafka-init"}]}
        volumes = [{"name": "data-0", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "data-1", "emptyDir": {}}]

        for spec, told in ({"volumes": volumes, "nodeName": "n2"}, status), ({}, status | {"containerStatuses": []}):
            for odd in spoilt({"spec": spec, "status": told}):
                whole = odd if isinstance(odd, dict) else {"status": odd}
                assert only({"metadata": pod(1)["metadata"], **whole}).broker == 1, odd

    def test_nor_does_what_is_no_pod_at_all(self) -> None:
        for odd in NO_OBJECTS:
            assert pods_of("prod", [odd], [odd]) == (), odd
            assert node_state(odd) is NodeState.NOT_READY, odd

    def test_no_message_is_longer_than_a_line_or_moves_the_cursor(self) -> None:
        waiting = {"reason": "X" * 100, "message": "\x1b[2J" + "m" * 10_000}
        state = {"name": "kafka", "state": {"waiting": waiting | {"reason": "CrashLoopBackOff"}}}

        found = only(with_status(pod(1), containerStatuses=[state]))

        assert found.message.isprintable()
        assert len(found.message) == 300


class Kubernetes:
    """What an API server has of these objects. `refuses`: parts of paths that it forbids; `silent`: no answer comes."""

    def __init__(self, *objects: Object, refuses: tuple[str, ...] = (), silent: bool = False) -> None:
        self.objects = {f"{each['kind'].lower()}s/{each['metadata']['name']}": each for each in objects}
        self.refuses, self.silent = refuses, silent

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        await self._asked(path)
        at = "/".join(path.split("/")[-2:])
        if at not in self.objects:
            raise NotFound(404, "NotFound", f"{path} not found", path)
        return self.objects[at]

    async def list_all(
        self, path: str, *, params: Mapping[str, str], deadline: timedelta | None = None
    ) -> list[Object]:
        await self._asked(path)
        wanted = dict(each.split("=") for each in params["labelSelector"].split(","))
        found = [each for at, each in self.objects.items() if at.startswith(path.rpartition("/")[2])]
        return [each for each in found if wanted.items() <= each["metadata"]["labels"].items()]

    async def _asked(self, path: str) -> None:
        if ".." in path:
            raise ValueError(f"{path!r} is no path of the Kubernetes API")
        if self.silent:
            await asyncio.Event().wait()
        if any(part in path for part in self.refuses):
            raise ApiError(403, "Forbidden", f"cannot read {path}", path)


def looked(kubernetes: Kubernetes) -> tuple[BrokerPod, ...] | Reason:
    pods = BrokerPods(cast(Api, kubernetes), "kafka", "prod", timedelta(milliseconds=50))

    async def look() -> tuple[BrokerPod, ...] | Reason:
        found = await pods.look()
        return found if isinstance(found, Reason) else await pods.with_nodes(found)

    return asyncio.run(look())


def seen(kubernetes: Kubernetes) -> tuple[BrokerPod, ...]:
    found = looked(kubernetes)
    assert isinstance(found, tuple), found
    return found


def node(ready: str = "True") -> Object:
    meta: Object = {"name": "n2", "labels": {}}
    return {"kind": "Node", "metadata": meta, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


class TestAsking:
    @pytest.mark.parametrize(
        ("kubernetes", "state"),
        [
            (Kubernetes(node()), NodeState.READY),
            (Kubernetes(node("Unknown")), NodeState.NOT_READY),
            (Kubernetes(), NodeState.GONE),
            (Kubernetes(node(), refuses=("/nodes/",)), NodeState.UNKNOWN),
        ],
        ids=["ready", "silent", "gone", "no right"],
    )
    def test_a_node_is_ready_or_not_or_gone_or_unknown(self, kubernetes: Kubernetes, state: NodeState) -> None:
        kubernetes.objects["pods/prod-brokers-1"] = with_spec(pod(1), nodeName="n2")

        [found] = seen(kubernetes)

        assert found.node_state is state

    def test_without_the_right_to_claims_the_pods_are_seen_all_the_same(self) -> None:
        [found] = seen(Kubernetes(pod(1), claim(), refuses=("/persistentvolumeclaims",)))

        assert (found.broker, found.claims) == (BrokerId(1), None)

    def test_without_the_right_to_pods_it_is_said_what_gives_it(self) -> None:
        found = looked(Kubernetes(pod(1), refuses=("/pods",)))

        assert isinstance(found, Reason)
        assert found.code == "ObjectsUnreadable"
        assert "manifests/rbac/optional/strimzi.yaml" in found.message

    def test_an_api_server_that_is_silent_costs_one_deadline(self) -> None:
        found = looked(Kubernetes(pod(1), silent=True))

        assert isinstance(found, Reason)
        assert found.message == "the Pods of Kafka prod can't be seen: no answer within 0.05 s"

    def test_a_node_s_name_that_is_no_name_is_asked_of_nobody(self) -> None:
        [found] = seen(Kubernetes(with_spec(pod(1), nodeName="../../secrets")))

        assert found.node_state is NodeState.UNKNOWN


async def gathered(evidence: Evidence) -> Evidence:
    return evidence


def with_pods(kubernetes: Kubernetes, evidence: Evidence) -> ClusterState:
    pods = BrokerPods(cast(Api, kubernetes), "kafka", "prod", timedelta(milliseconds=50))
    return asyncio.run(pods.beside(gathered(evidence))).cluster


class TestEvidence:
    """Broker 1 does not answer; 2 and 3 do."""

    SEEN = evidence(partition({1: None, 2: log(27), 3: log(15)}))

    def test_the_pods_of_brokers_that_do_not_answer_are_a_part_of_it(self) -> None:
        crashing = with_status(with_spec(pod(1), nodeName="n2"), containerStatuses=[CRASHING])

        cluster = with_pods(Kubernetes(crashing, pod(2), claim(), node()), self.SEEN)

        [found] = cluster.pods
        assert (found.broker, found.reason, found.node_state) == (1, "CrashLoopBackOff", NodeState.READY)
        assert cluster.pods_problem is None

    def test_a_broker_that_kubernetes_knows_nothing_of_is_told_to_have_no_pod(self) -> None:
        assert with_pods(Kubernetes(pod(2)), self.SEEN).pods == (BrokerPod(BrokerId(1)),)

    def test_pods_that_can_t_be_seen_leave_the_evidence_as_it_is_with_the_reason(self) -> None:
        cluster = with_pods(Kubernetes(silent=True), self.SEEN)

        assert (cluster.pods, cluster.pods_problem and cluster.pods_problem.code) == ((), "ObjectsUnreadable")

    def test_the_pod_of_one_that_answers_and_is_to_be_stopped_is_a_part_of_it(self) -> None:
        short = partition({1: log(0), 2: log(27), 3: log(15)})
        brokers = (broker(1, fenced=True), broker(2), broker(3))

        [found] = with_pods(Kubernetes(pod(1), pod(2)), evidence(short, brokers=brokers)).pods

        assert found.name == "prod-brokers-1"

    def test_where_everybody_answers_no_pod_is_told_of(self) -> None:
        answered = evidence(partition({1: log(30), 2: log(27), 3: log(15)}))

        assert with_pods(Kubernetes(pod(1)), answered) == answered.cluster

    def test_what_the_look_at_the_cluster_raises_is_raised(self) -> None:
        async def fails() -> Evidence:
            raise ConnectionError

        with pytest.raises(ConnectionError):
            asyncio.run(BrokerPods(cast(Api, Kubernetes(silent=True)), "kafka", "prod").beside(fails()))
