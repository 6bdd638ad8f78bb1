"""Pods, volume claims and Nodes of a real API server, read with the rights that we ship: the card's line, the proof."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from apiserver.calling import calling
from apiserver.kubelets import Kubelet
from kafka_recovery.decision.card import card
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.history import BrokerStart
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.broker_pods import BrokerPods
from kafka_recovery.kube.clusters.pod_witness import PodWitness
from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until
from unit.decision.incident import ORDERS, broker, dead, evidence, history, log, partition, started, step
from unit.kube.clusters.test_pod_witness import Clock, Kafka

pytestmark = pytest.mark.apiserver

OPTIONAL = Path(__file__).parents[2] / "manifests" / "rbac" / "optional"
B = BrokerId(1)
POLICY = Policy((Rule("everything", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))


@pytest.fixture
def kubelet(kubectl: Kubectl, namespace: str) -> Iterator[Kubelet]:
    found = Kubelet(kubectl, namespace)
    found.make()
    found.tells_of_the_node()
    yield found
    found.goes()


def allow(kubectl: Kubectl, namespace: str, part: str) -> None:
    """Give the operator's account of this namespace what a manifest gives it."""
    given = (OPTIONAL / f"{part}.yaml").read_text()
    rights = list(yaml.safe_load_all(re.sub(r"namespace: kafka-recovery\b", f"namespace: {namespace}", given)))
    for each in rights:
        if each["kind"] == "ClusterRoleBinding":
            each["metadata"]["name"] += f"-{namespace}"
    kubectl.apply(*rights)


def looked(account: Path, namespace: str, seen: Evidence) -> Evidence:
    """The evidence with the Pods of brokers that do not answer."""

    async def gathered() -> Evidence:
        return seen

    async def look() -> Evidence:
        async with calling(account) as api:
            return await BrokerPods(api, namespace, "prod").beside(gathered())

    return asyncio.run(look())


def planned(seen: Evidence) -> Plan:
    return decide(seen, POLICY, waited=timedelta(hours=1))


def known(seen: Evidence) -> str:
    """What the card says of broker 1 below the question about it."""
    choice = card(planned(seen)).choice
    assert choice
    [asked] = [each for each in choice.questions if each.asked.startswith("Can broker 1 be started")]
    return " ".join(asked.known)


def test_the_card_says_why_a_broker_is_away_as_far_as_the_operator_may_see_it(
    kubelet: Kubelet, kubectl: Kubectl, account: Path, namespace: str
) -> None:
    dead = evidence(partition({1: None, 2: log(27), 3: log(15)}))
    kubelet.crashes()

    assert "can't be seen" in known(looked(account, namespace, dead))

    allow(kubectl, namespace, "strimzi")
    told = wait_until(
        "the Pods may be read",
        lambda: known(looked(account, namespace, dead)),
        lambda each: "can't be" not in each,
    )
    assert "its state is not known" in told

    allow(kubectl, namespace, "nodes")
    told = wait_until(
        "the node may be read",
        lambda: known(looked(account, namespace, dead)),
        lambda each: "its state is not known" not in each,
    )
    crash = f"Pod prod-brokers-1 on node {kubelet.node} (Ready): CrashLoopBackOff (back-off 5m0s)"
    assert told.startswith(crash)
    assert "last end OOMKilled (exit code 137) at 2026-11-21 12:00:00 UTC, 7 restarts" in told
    assert f"claim {kubelet.claim} is Bound, made " in told


def restarted() -> Evidence:
    """Broker 1 was killed and is back; it was in the ISR when nobody could acknowledge alone."""
    epochs = (BrokerStart(B, BrokerEpoch(epoch), directory="a") for epoch in (5, 35))
    told = replace(history(step(1, 2, 3), step(1, 3), step(3)), starts=(started(2, 1), started(3, 1), *epochs))
    seen = partition({3: None, 1: log(30), 2: log(10)}, isr=(3,), history=told)
    return evidence(seen, brokers=(broker(1), broker(2), dead(3)))


async def watched(
    kubelet: Kubelet, kubectl: Kubectl, account: Path, namespace: str, boot: str
) -> tuple[Reason | None, Evidence]:
    """Broker 1 is killed, and starts again on this boot of its node: what was seen first, and the evidence after it."""
    clock, kafka = Clock(), Kafka(epoch=5)
    kubelet.runs("process-5")
    async with calling(account) as api:
        witness = PodWitness(kafka, BrokerPods(api, namespace, "prod"), lambda: None, clock=clock)
        while (first := await witness.look()) is not None and "nodes can't be read" not in first.message:
            await asyncio.sleep(0.1)  # the API server learns of a right a moment after it was given
        allow(kubectl, namespace, "nodes")
        while await witness.look() is not None:
            await asyncio.sleep(0.1)
        for kafka.epoch in (5, 35):
            kubelet.runs(f"process-{kafka.epoch}")
            kubelet.boot = boot if kafka.epoch == 35 else "monday"
            for _ in range(13):
                kubelet.tells_of_the_node()
                assert await witness.look() is None
                await clock.sleep(witness.pause)
        return first, witness.add_to(restarted())


@pytest.mark.parametrize(
    ("boot", "proven"), [("monday", LossClass.LOSSLESS), ("tuesday", LossClass.UNKNOWN)], ids=["same boot", "booted"]
)
def test_a_restart_in_its_pod_is_a_proof_and_one_after_a_boot_of_its_node_is_none(
    kubelet: Kubelet, kubectl: Kubectl, account: Path, namespace: str, boot: str, proven: LossClass
) -> None:
    allow(kubectl, namespace, "strimzi")

    first, told = asyncio.run(watched(kubelet, kubectl, account, namespace, boot))

    assert first
    assert (first.code, "nodes.yaml" in first.message) == ("ObjectsUnreadable", True)
    loss = planned(told).elections[ORDERS].loss
    assert loss
    assert loss.loss_class is proven
