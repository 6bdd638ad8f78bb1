"""Loss classes against what producers were promised, on real brokers: incidents drawn at random, round after round.

Each round has six topics and one story: two brokers leave, one after the other, the third leads on and dies; those that
left come back. All the while a producer writes with acks=all. What is proven is recovered with nobody asked, the rest
after that by a person's word; then every acknowledged record is looked for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pytest

from brokers.acknowledged import Acknowledged, acknowledging
from brokers.conftest import LED, ON_3_9, ON_4_0, ON_NEWEST, WITHOUT_ELR, Recovery
from brokers.departures import Departures, Way
from brokers.kubelets import Kubelets
from brokers.tally import proof_of
from kafka_recovery.decision.intactness import is_intact
from kafka_recovery.domain.elr import replay_elr
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss
from kafka_recovery.domain.policy import Approval, Policy, Rule
from testbed.cluster import RealKafka

pytestmark = [pytest.mark.brokers, pytest.mark.full]

ROUNDS = 6
BROKERS = (1, 2, 3)
MINIMA = (2, 2, 2, 1, 3, 2)
"""Of each round's topics."""
LEAVES = (Way.FREEZE, Way.FREEZE, Way.FREEZE, Way.KILL, Way.STOP, Way.WIPE, Way.CRASH)
"""How a broker leaves."""
BY_PROOF = {"policy": Policy((Rule("everything", approval=Approval.AUTO_LOSSLESS),)), "approver": None}
BY_WORD = {"policy": Policy((Rule("everything", approval=Approval.MANUAL),)), "approver": "ann"}


@dataclass
class Round:
    """One story on a cluster. `topics`: with their min.insync.replicas, as it is now."""

    kafka: RealKafka
    draw: random.Random
    topics: Mapping[str, int]
    departures: Departures

    @classmethod
    def of(cls, kafka: RealKafka, draw: random.Random, number: int) -> Round:
        topics = {f"round-{number}-{index}": minimum for index, minimum in enumerate(MINIMA)}
        departures = Departures(kafka, Kubelets(*BROKERS), dict.fromkeys(topics, 1))
        return cls(kafka, draw, topics, departures)

    def lead_to_an_outage(self) -> Acknowledged:
        """Returns what was acknowledged."""
        for topic, minimum in self.topics.items():
            replicas = self.draw.sample(BROKERS, 3)
            self.kafka.create_topic(topic, [replicas], **{"min.insync.replicas": minimum})
        first, second, last = self.draw.sample(BROKERS, 3)
        with acknowledging(self.kafka.bootstrap, tuple(self.topics)) as acknowledged:
            self._written(acknowledged, in_sync=3)
            self._leaves(first)
            self._written(acknowledged, in_sync=2)
            if self.draw.random() < 0.3:
                self._changes_a_minimum()
            self._leaves(second)
            if self.draw.random() < 0.3:
                self._changes_a_minimum()
            self._written(acknowledged, in_sync=1)
            if self.draw.random() < 0.3:
                self._comes_back(first)
                self._leaves(first)
            self.departures.leaves(last, Way.KILL)
            for broker in (first, second):
                self._comes_back(broker)
            self.kafka.wait_until_fenced(last)
        return acknowledged

    def _written(self, acknowledged: Acknowledged, in_sync: int) -> None:
        """Some more of each topic that surely takes records now."""
        for topic, minimum in self.topics.items():
            if minimum <= in_sync:
                acknowledged.wait_for_more(topic, self.draw.randint(1, 40))

    def _leaves(self, broker: int) -> None:
        self.departures.leaves(broker, self.draw.choice(LEAVES))
        self.kafka.wait_until_fenced(broker)

    def _comes_back(self, broker: int) -> None:
        self.departures.comes_back(broker)
        self.kafka.wait_until_unfenced(broker)

    def _changes_a_minimum(self) -> None:
        topic, minimum = self.draw.choice([*self.topics]), self.draw.choice("12")
        self.departures.says(f"{topic} min.insync.replicas={minimum}")
        self.kafka.configure_topic(topic, "min.insync.replicas", minimum)
        self.topics = {**self.topics, topic: int(minimum)}


async def recovered(ours: Recovery, topics: Iterable[str]) -> tuple[dict[str, Loss], bool]:
    """Elect what may be of these: what each election was planned to cost; and whether this Kafka has ELR on.

    Nobody counts as eligible whom Kafka's own ELR lacks, where there is one.
    """
    ids = [TopicPartition(topic, 0) for topic in topics]
    plan, report = await ours.plan(*ids), await ours.recover(*ids)
    for each in plan.evidence.partitions:
        if each.history is not None and each.elr is not None:
            replayed = {id for id in replay_elr(each.history.steps) if is_intact(id, each.history)}
            assert replayed <= {*each.isr, *each.elr}, f"{each.id}: Kafka holds fewer eligible: {each.elr}"
    led = {each.id: each.leader for each in report.outcomes if each.outcome in LED}
    costs = {each.id.topic: each.loss for each in plan.decisions if each.loss and led.get(each.id) == each.leader}
    return costs, bool(plan.evidence.cluster.elr_enabled)


def lost(kafka: RealKafka, topic: str, acknowledged: Acknowledged) -> int:
    """Acknowledged records that nobody can read."""
    kept = set(kafka.consume(topic, 0))
    return sum(value not in kept for value in acknowledged.values[topic])


def proof(loss: Loss) -> str:
    """Its class, and by which way it was proven."""
    return f"{loss.loss_class} by {proof_of(loss) or '-'}"


@pytest.mark.parametrize("kafka", [ON_3_9, ON_4_0, ON_NEWEST, WITHOUT_ELR], indirect=True)
@pytest.mark.parametrize("seed", [1, 2])
async def test_no_class_promises_more_than_the_brokers_kept(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery], seed: int
) -> None:
    """Takes three minutes: three sessions have to run out in each round, one after the other.

    Topics stay: a controller of 4.0 or 4.4 does not let a broker in again whose ELR is of a topic that is gone. With
    ELR on, Kafka elects by itself most of what is proven.
    """
    draw, seen, elr = random.Random(seed), Counter[str](), False
    ours = recovery(kafka).with_(reads_history=True)
    for number in range(ROUNDS):
        story = Round.of(kafka, draw, number)
        acknowledged = story.lead_to_an_outage()
        print(f"seed {seed}, round {number}:", "; ".join(story.departures.told))
        proven, elr = await recovered(ours.with_(**BY_PROOF), story.topics)
        assert {loss.loss_class for loss in proven.values()} <= {LossClass.LOSSLESS}
        others, _ = await recovered(ours.with_(**BY_WORD), story.topics)
        kafka.revive()
        for topic, loss in (proven | others).items():
            gone = lost(kafka, topic, acknowledged)
            print(f"  {topic}: {proof(loss)}, {gone} of {len(acknowledged.values[topic])} acknowledged are lost")
            seen[proof(loss)] += 1
            assert loss.at_most is None or gone <= loss.at_most, (loss, story.departures.told)
    print(dict(seen))
    assert seen
    assert elr or sum(number for kind, number in seen.items() if kind.startswith("Lossless")) > ROUNDS
