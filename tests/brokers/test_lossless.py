"""Recoveries classed Lossless lose nothing: what Kafka's own VerifiableProducer was promised, as Jepsen would check it.

Incidents are drawn from a seed until enough of them were recovered by each of the two proofs. What is classed Lossless
is elected with nobody asked, the rest after that by a person's word. What happened, and what clients saw, is printed.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from brokers.conftest import LED, ON_3_9, SOON, USUAL, Recovery, Says
from brokers.incidents import Incident, incident
from brokers.kubelets import Kubelets, watched
from brokers.tally import HEAD, PROOFS, Elected, Tally, ways
from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Report
from kafka_recovery.domain.plan import Decision, Loss, Plan, Verdict
from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.kube.clusters.measured import MeasuredCluster
from kafka_recovery.kube.clusters.pod_witness import PodWitness
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.watching.last_seen import LastSeen
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.recovery.ports import Silent
from testbed.client_history import Anomaly, findings, gone
from testbed.cluster import RealKafka
from unit.kube.clusters.test_pod_witness import Clock

pytestmark = pytest.mark.brokers

LOOKS, PAUSE = 5, timedelta(seconds=110)
"""As few as tell where a process lives: two minutes may lie between two looks at most, and five between all of them."""
BY_PROOF = Policy((Rule("everything", approval=Approval.AUTO_LOSSLESS),))
BY_WORD = Policy((Rule("everything", approval=Approval.MANUAL),))
NAMED = 0.5
"""Of the incidents: in these a person names the leaders of one topic."""
PROMISED = frozenset(Anomaly) - {Anomaly.VANISHED}
RELEASES = [("3.9", False), ("4.0", False), ("4.0", True), ("newest", False), ("newest", True)]
SEED, SHORT = 1, 709
TABLE = Path(__file__).parents[2] / "build" / "lossless.md"


class Plans(Silent):
    """Remembers how each partition was last decided to be elected."""

    def __init__(self) -> None:
        self.elections: dict[TopicPartition, Decision] = {}

    def decided(self, plan: Plan, took: timedelta) -> None:
        self.elections |= {each.id: each for each in plan.decisions if each.verdict is Verdict.ELECT}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one election that gave a partition its leader: what it was decided to cost."""

    leader: BrokerId
    loss: Loss


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster as the operator has it open: it follows the metadata log, and looks where processes live."""

    kafka: RealKafka
    cluster: KafkaCluster
    witness: PodWitness
    journal: Path

    async def looks_at_pods(self) -> None:
        await watched(self.witness, self.cluster, LOOKS)

    async def recovers(
        self, partitions: Sequence[TopicPartition], named: Mapping[TopicPartition, BrokerId], policy: Policy, by: str
    ) -> dict[TopicPartition, Cost]:
        """What was elected of these. `by`: who says yes; empty: nobody is asked."""
        if not partitions:
            return {}
        plans = Plans()
        measured = MeasuredCluster(self.cluster, Metrics(), "kafka/prod", LastSeen(), dict, None, self.witness)
        election = AssignmentOrderElection(self.cluster, deadline=timedelta(seconds=20))
        with local_journal(self.journal, self.kafka.cluster_id) as journal:
            engine = Engine(measured, election, journal, Says(by or None), policy, timing=SOON, observer=plans)
            report = await engine.recover(Scope(tuple(partitions)), named)
        led = {each.id: each.leader for each in report.outcomes if each.outcome in LED}
        print("   ", "nobody is asked:" if not by else f"{by} approves:", told(report))
        # What was elected and is not judged might have lost what it was said to keep.
        assert not [each for each in report.outcomes if each.outcome.is_unverified], told(report)
        decided = [plans.elections[id] for id in led]
        assert {each.id: each.leader for each in decided} == led
        return {each.id: Cost(each.leader, each.loss) for each in decided if each.leader and each.loss}


def told(report: Report) -> str:
    """How many partitions ended how."""
    ends = Counter(f"{each.outcome} {each.reason.code if each.reason else ''}".strip() for each in report.outcomes)
    return ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))


async def played(watched: Watched, kubelets: Kubelets, seed: str, home: Path) -> list[Elected]:
    """One incident, from the first record to the last consumer; AssertionError if more was lost than was said."""
    draw = random.Random(seed)
    with incident(watched.kafka, kubelets, draw, f"{seed}", home) as it:
        it.passes()
        await watched.looks_at_pods()
        it.leads_to_an_outage()
        await watched.looks_at_pods()
        print(f"seed {seed}:", "; ".join(it.departures.told))
        named = it.names() if draw.random() < NAMED else {}
        proven = await watched.recovers(it.partitions, named, BY_PROOF, "")
        it.are_read([*proven])
        rest = [id for id in it.partitions if id not in proven]
        others = await watched.recovers(rest, named, BY_WORD, "ann")
        if unproven := {what for cost in others.values() for what in cost.loss.missing}:
            print("    not proven, for want of", "; ".join(sorted(unproven)))
        cut_back = frozenset(it.departures.cut_back)
        it.ends()
    it.are_read(it.partitions)
    assert {cost.loss.loss_class for cost in proven.values()} <= {LossClass.LOSSLESS}
    return [judged(it, id, cost, cut_back, home) for id, cost in (proven | others).items()]


def judged(it: Incident, id: TopicPartition, cost: Cost, cut_back: frozenset[int], home: Path) -> Elected:
    """What clients saw of a partition, held against what its election was said to cost."""
    history, loss = it.history(id), cost.loss
    found = findings(history)
    elected = Elected(loss, len(history.acknowledged), gone(found), cost.leader in cut_back)
    broken = [each for each in found if each.anomaly in PROMISED] if loss.loss_class is LossClass.LOSSLESS else []
    if found:
        print(f"    {id}:", loss.loss_class, dict(Counter(str(each.anomaly) for each in found)), found[:3])
    if broken or not elected.kept_its_bound or (elected.cut_back and loss.loss_class is LossClass.LOSSLESS):
        kept = home / f"{id}.json"
        kept.write_text(json.dumps([loss, it.departures.told, found, history], default=plain, indent=1))
        raise AssertionError(f"{id}: {loss} by broker {cost.leader}, but {found[:10]}; see {kept}")
    return elected


def plain(value: Any) -> Any:
    """For JSON: a dataclass as its fields."""
    return {each.name: getattr(value, each.name) for each in fields(value)}


async def counted(
    tally: Tally, recovery: Recovery, seed: int, home: Path, *, recoveries: int, by_each: int, incidents: int
) -> Tally:
    """Incidents until so many were recovered as Lossless, and so many by each proof; no more than `incidents`."""
    kubelets = Kubelets(*recovery.kafka.brokers)
    async with recovery.cluster() as cluster:
        witness = PodWitness(cluster, kubelets, lambda: None, PAUSE, Clock())
        watched = Watched(recovery.kafka, cluster, witness, recovery.journal)
        for number in range(incidents):
            tally.incidents.append(await played(watched, kubelets, f"{seed}-{number}", home))
            print("   ", ways(tally.incidents[-1]))
            if tally.recoveries() >= recoveries and all(tally.recoveries(proof) >= by_each for proof in PROOFS):
                break
    print(HEAD, tally.row, sep="\n")
    return tally


@pytest.fixture(scope="module")
def tallies() -> Iterator[list[Tally]]:
    """Those of each release, kept as a table."""
    told: list[Tally] = []
    yield told
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("\n".join([HEAD, *(tally.row for tally in told), ""]))


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("release", "elr"), RELEASES)
async def test_no_acknowledged_record_is_lost_in_a_recovery_that_is_classed_lossless(
    recovery: Callable[[RealKafka], Recovery], release: str, elr: bool, tmp_path: Path, tallies: list[Tally]
) -> None:
    """Takes some ten minutes each: three sessions have to run out in each incident. All together: 40 recoveries.

    A cluster of its own: a controller of 4.0 or 4.4 may not let a broker in again whose ELR is of a topic that is gone.
    """
    switched = elr or None if release == "3.9" else elr
    with RealKafka(release, elr=switched, session_timeout=2.0, **USUAL) as kafka:
        ours = recovery(kafka).with_(reads_history=True)
        tally = Tally(f"{kafka.release.version}, ELR {'on' if elr else 'off'}")
        tallies.append(tally)
        await counted(tally, ours, SEED, tmp_path, recoveries=8, by_each=2, incidents=24)

    assert tally.recoveries() >= 8
    assert all(tally.recoveries(proof) >= 2 for proof in PROOFS)


@pytest.mark.parametrize("kafka", [ON_3_9], indirect=True)
async def test_an_incident_is_recovered_by_both_proofs_and_nothing_that_was_acknowledged_is_lost(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery], tmp_path: Path
) -> None:
    """Takes up to a minute: three sessions have to run out. A busy machine may take a second incident."""
    ours = recovery(kafka).with_(reads_history=True)

    tally = await counted(Tally("3.9"), ours, SHORT, tmp_path, recoveries=1, by_each=1, incidents=3)

    assert all(tally.recoveries(proof) for proof in PROOFS)
