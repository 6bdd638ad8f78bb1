"""Histories in which one rule of the engine alone keeps a promise: each is the history of a listed mutation.

Chance seldom gets there, so each is written by hand. The engine keeps every promise in it; without the rule that its
mutation takes away it breaks one (`python -m mutations --tier simulation`). What the rule makes the engine say or do
is asked for as well: a history that misses its moment shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kafka_recovery.cluster import advancing, gathering, metadata
from kafka_recovery.cluster.epoch_vectors import EpochVectors, Probe
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.membership import Membership, View
from kafka_recovery.domain.evidence import ClusterState, Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.policy import Approval, RequiredAnswers
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario import (
    Authority,
    Command,
    EngineRun,
    Fault,
    Kind,
    Rules,
    Scenario,
    Topic,
    Traffic,
    Upon,
)
from kafka_recovery.simulator.model.grants import Operation
from simulation.test_oracle_corners import ONE_AFTER_THE_OTHER, incident

Shows = Callable[[Chronicle], bool]
Patch = Callable[[pytest.MonkeyPatch], None]


def said(code: str) -> Shows:
    """Whether an engine gives this reason for what became of a partition, or its outcome is called so."""
    return lambda story: any(
        code in (told.outcome.outcome.value, told.outcome.reason.code if told.outcome.reason else "")
        for told in story.concluded
    )


@dataclass(frozen=True)
class Escape:
    """A history, and what shows that its moment has come. `given`: what else is so."""

    name: str
    scenario: Scenario
    shows: Shows
    given: Patch | None = None


def planned(loss: LossClass) -> Shows:
    """Whether an election is planned that costs this."""
    return lambda story: any(
        decision.loss is not None and decision.loss.loss_class is loss
        for _, plan in story.plans()
        for decision in plan.decisions
    )


def looked(at_least: Callable[[PartitionEvidence, ClusterState], bool]) -> Shows:
    """Whether some look of an engine saw this."""
    return lambda story: any(
        at_least(partition, look.evidence.cluster) for look in story.looked for partition in look.evidence.partitions
    )


def _follows_another_epoch(partition: PartitionEvidence, cluster: ClusterState) -> bool:
    """A replica whose broker has all that the controller committed says that it knows another leader epoch."""
    return any(
        replica.log is not None
        and replica.log.answered_under != partition.leader_epoch
        and (broker := cluster.broker(replica.broker)) is not None
        and broker.metadata_advances is True
        for replica in partition.replicas
    )


def _epochs_unread(partition: PartitionEvidence, cluster: ClusterState) -> bool:
    return any(replica.log is not None and replica.log.epochs is None for replica in partition.replicas)


def _of_one_length_and_other_epochs(partition: PartitionEvidence, cluster: ClusterState) -> bool:
    logs = [replica.log for replica in partition.replicas if replica.log is not None]
    return any(one.end == other.end and one.epochs != other.epochs for one in logs for other in logs)


ANYBODY = Rules(patience=1.0, required_answers=RequiredAnswers.ANY)


def nobody_may_list_reassignments(patch: pytest.MonkeyPatch) -> None:
    """The principal lacks DESCRIBE on the cluster."""

    async def reassignments(*asked: Any, **how: Any) -> Reason:
        return Reason("ClusterAuthorizationFailed", "ListPartitionReassignments needs DESCRIBE on the cluster")

    patch.setattr(metadata, "reassignments", reassignments)


def the_view_stands_still(patch: pytest.MonkeyPatch) -> None:
    """Who tells of everything applies no metadata any more, and still forwards requests to the controller."""
    honest = advancing.advances

    async def advances(members: Membership, view: View, *rest: Any) -> Mapping[BrokerId, bool]:
        return {**await honest(members, view, *rest), view.at.id: False}

    patch.setattr(gathering, "advances", advances)


def the_best_one_knows_of_no_later_leader(patch: pytest.MonkeyPatch) -> None:
    """Broker 3 has all that the controller committed by the end of a look, and had not when it was asked for its log.

    So it is for a tenth of a second in a look of some.
    """
    honest = KafkaCluster.gather

    async def gather(self: KafkaCluster, *asked: Any) -> Evidence:
        evidence = await honest(self, *asked)
        return replace(evidence, partitions=tuple(map(late, evidence.partitions)))

    def late(partition: PartitionEvidence) -> PartitionEvidence:
        replicas = [
            replace(replica, log=replace(replica.log, answered_under=None))
            if replica.broker == 3 and replica.log
            else replica
            for replica in partition.replicas
        ]
        return replace(partition, replicas=tuple(replicas))

    patch.setattr(KafkaCluster, "gather", gather)


def nobody_may_read_records(patch: pytest.MonkeyPatch) -> None:
    """The principal lacks READ on the topic: logs tell their ends, not their epochs."""

    async def read(self: EpochVectors, probes: Sequence[Probe]) -> None:
        for probe in probes:
            probe.unreadable = Reason("TopicAuthorizationFailed", "Fetch needs READ on the topic")

    patch.setattr(EpochVectors, "read", read)


OF_FIVE = (
    Fault(5, Kind.KILL, 4), Fault(10, Kind.KILL, 5), Fault(15, Kind.KILL, 1),
    Fault(20, Kind.START, 4), Fault(20, Kind.START, 5),
)  # fmt: skip
"""Brokers 2 and 3 hold nothing of it: through them the engine asks."""

FALLEN_APART = (
    Fault(5, Kind.KILL, 2), Fault(10, Kind.KILL, 3), Fault(10, Kind.KILL, 4), Fault(15, Kind.KILL, 1),
    Fault(20, Kind.START, 2), Fault(20, Kind.START, 3), Fault(20, Kind.START, 4),
)  # fmt: skip
APART = incident(
    brokers=4,
    topics=(Topic("orders", ((1, 2), (1, 2, 3), (1, 4))),),
    traffic=tuple(Traffic(f"orders-{index}", True, 1, 14, 1) for index in range(3)),
    faults=(*FALLEN_APART, Fault(29, Kind.STOP, 3, upon=Upon.DESIGNATE)),
    rules=Rules(patience=1.0, wave_sizes=(2, 1)),
)
"""Three survivors lead a partition each, two in the first wave; the one of these that has most leaves meanwhile."""

TWO = (Topic("orders", ((1, 2, 3), (1, 2, 3))),)
THINKING: Mapping[str, Any] = {
    "rules": Rules(patience=1.0, approval=Approval.MANUAL),
    "engines": (EngineRun(30, thinking=10),),
}
FORKED_ALIKE = incident(
    traffic=(
        Traffic("orders-0", True, 0.5, 3, 0.5),
        Traffic("orders-0", False, 4.05, 4.35, 0.25, 9), Traffic("orders-0", False, 14, 14.35, 0.25, 9),
    ),
    faults=(
        Fault(4, Kind.CUT, 1, other=2, lasting=4), Fault(4, Kind.CUT, 1, other=3, lasting=4), Fault(6, Kind.KILL, 1),
        Fault(17, Kind.KILL, 3), Fault(22, Kind.KILL, 2), Fault(24, Kind.START, 1), Fault(24, Kind.START, 3),
    ),
)  # fmt: skip
"""Broker 1 took records that nobody copied, and broker 3 as many others from the next leader."""
BESIDE = incident(
    Fault(29, Kind.KILL_ENGINE, upon=Upon.ELECT, later=0.004),
    topics=(Topic("orders", ((1, 2, 3),)), Topic("payments", ((1, 2),))),
    rules=Rules(patience=1.0, min_replication_factor=3),
    engines=(EngineRun(30, whole_cluster=True), EngineRun(100, Command.RESUME)),
    quiet_at=200.0,
)

ESCAPES = (
    Escape("a wave that failed while the next one was ready", APART, said("EarlierWaveFailed")),
    Escape("a leader that dies while its order is put back",
        incident(
            brokers=5,
            topics=(Topic("orders", ((1, 4, 5),)),),
            faults=(*OF_FIVE[:3], Fault(20, Kind.START, 5), Fault(29, Kind.STOP, designated=True, upon=Upon.RESTORE)),
        ), said("NoCandidate")),
    Escape("somebody else's election before the last look",
        incident(Fault(29, Kind.ELECT, upon=Upon.PLANNED, partition="orders-0")), said("UnexpectedLeader")),
    Escape("a restore in doubt at the end of a run",
        incident(
            brokers=5,
            topics=(Topic("orders", ((1, 4, 5),)),),
            faults=(
                *OF_FIVE,
                Fault(29, Kind.KILL, 2, upon=Upon.RESTORE), Fault(29, Kind.KILL, 3, upon=Upon.RESTORE, turn=2),
            ),
            engines=(EngineRun(30), EngineRun(100, Command.RESUME)),
            quiet_at=200.0,
        ), lambda story: sum(bool(answered.doubtful) for answered in story.answered) == 2),
    Escape("nobody says whether it is being reassigned", incident(), said("AnswerIncomplete"),
        nobody_may_list_reassignments),
    Escape("a view that stands still", incident(), said("BrokerCutOff"), the_view_stands_still),
    Escape("another order between the plan and the last look",
        incident(Fault(29, Kind.REASSIGN, upon=Upon.PLANNED, partition="orders-0", replicas=(1, 3, 2))),
        lambda story: len(list(story.plans())) == 2),
    Escape("an order that can't be put back",
        incident(Fault(29, Kind.NO_CONTROLLER, upon=Upon.ELECT, later=0.05, lasting=150), quiet_at=240.0),
        lambda story: any(not told.outcome.order_restored for told in story.concluded)),
    Escape("brokers that go down while a person thinks",
        incident(
            Fault(29, Kind.KILL, 4, upon=Upon.APPROVE), Fault(29, Kind.KILL, 5, upon=Upon.APPROVE),
            brokers=5,
            rules=Rules(patience=1.0, approval=Approval.MANUAL, brokers_down_percent=50),
            engines=(EngineRun(30, thinking=10),),
        ), said("TooManyBrokersDown")),
    Escape("a replica that knows of no later leader",
        incident(rules=ANYBODY), looked(_follows_another_epoch), the_best_one_knows_of_no_later_leader),
    Escape("replicas whose epochs may not be read",
        incident(rules=ANYBODY), looked(_epochs_unread), nobody_may_read_records),
    Escape("one partition more than a plan may elect",
        incident(topics=TWO, rules=Rules(patience=1.0, partitions=1)), said("PartitionLimitReached")),
    Escape("as many partitions as a plan may elect, and a full disk",
        incident(
            Fault(29, Kind.DISK_FULL, lasting=30), *(Fault(60, Kind.ELECT, partition=f"orders-{n}") for n in (0, 1)),
            topics=TWO, rules=Rules(patience=1.0, partitions=2),
        ), said("JournalUnwritable")),
    Escape("a leader that is alone where two are asked for",
        incident(faults=(*ONE_AFTER_THE_OTHER[:3], Fault(20, Kind.START, 3)),
            topics=(Topic("orders", ((1, 2, 3),), min_isr=2),)),
        said("RecoveredUnderMinIsr")),
    Escape("a reassignment that goes on",
        incident(Fault(3, Kind.KILL, 4), Fault(26, Kind.REASSIGN, partition="orders-0", replicas=(1, 2, 4)), brokers=4),
        said("ReassignmentOngoing")),
    Escape("who left the ISR when too few were left",
        incident(
            faults=(*ONE_AFTER_THE_OTHER[:3], Fault(20, Kind.START, 3)), knows_history=True, witnessed=0.5,
            topics=(Topic("orders", ((1, 2, 3),), min_isr=2),)),
        planned(LossClass.LOSSLESS)),
    Escape("who left the ISR when enough were left",
        incident(
            faults=(*ONE_AFTER_THE_OTHER[:3], Fault(20, Kind.START, 2)), knows_history=True,
            topics=(Topic("orders", ((1, 2, 3),), min_isr=2),)),
        planned(LossClass.UNKNOWN)),
    Escape("an old leader that the controllers do not hear",
        incident(faults=(*ONE_AFTER_THE_OTHER[:2], Fault(15, Kind.ISOLATE, 1), *ONE_AFTER_THE_OTHER[3:])),
        said("OldLeaderAnswers")),
    Escape("a living broker that says nothing", incident(Fault(29, Kind.HIDE, 3)), said("LiveReplicaUnmeasured")),
    Escape("two logs of one length that hold other records", FORKED_ALIKE, looked(_of_one_length_and_other_epochs)),
    Escape("an election by a run that was killed, seen by the next one",
        incident(
            Fault(29, Kind.KILL_ENGINE, upon=Upon.ELECT, later=0.3), engines=(EngineRun(30), EngineRun(100)),
            quiet_at=200.0,
        ), said("Recovered")),
    Escape("a run that is taken up soon after it was killed",
        incident(
            Fault(29, Kind.KILL_ENGINE, upon=Upon.ELECT, later=0.004),
            engines=(EngineRun(30), EngineRun(40, Command.RESUME)), quiet_at=160.0,
        ), said("Recovered")),
    Escape("an election that finds nobody alive",
        incident(
            brokers=5,
            topics=(Topic("orders", ((1, 4, 5),)),),
            faults=(*OF_FIVE[:3], Fault(20, Kind.START, 5), Fault(29, Kind.STOP, designated=True, upon=Upon.ELECT)),
        ), said("NoCandidate")),
    Escape("a run that is suspended while a person thinks",
        incident(Fault(29, Kind.SUSPEND, upon=Upon.APPROVE, lasting=60), **THINKING), said("Suspended")),
    Escape("a run that may only observe while a person thinks",
        incident(
            Fault(29, Kind.AUTHORITY, upon=Upon.APPROVE, authority=Authority.OBSERVE, lasting=60), **THINKING,
        ), said("ObserveOnly")),
    Escape("a run whose owners want to be asked, and nobody says yes",
        incident(
            Fault(20, Kind.AUTHORITY, authority=Authority.APPROVE), engines=(EngineRun(30, approves=False),),
        ), said("AwaitingApproval")),
    Escape("a rule that wants no approval any more once a plan is made",
        incident(
            Fault(33, Kind.RULES, rules=Rules(patience=1.0)),
            rules=THINKING["rules"], engines=(EngineRun(30, Command.EXECUTE, thinking=10, approves=False),),
        ), said("AwaitingApproval")),
    Escape("a person who answers when the run's time is over",
        incident(**THINKING, within=5.0), said("Interrupted")),
    Escape("a partition that is refused beside one that a killed run elects", BESIDE, said("ReplicationFactorTooLow")),
    Escape("an order that the next run can't put back",
        incident(
            Fault(29, Kind.KILL_ENGINE, upon=Upon.DESIGNATE, later=0.012), Fault(60, Kind.KILL, 3),
            Fault(90, Kind.RIGHTS, upon=Upon.RESTORE, right=Operation.ALTER, lasting=0.09),
            engines=(EngineRun(30), EngineRun(100)), quiet_at=200.0,
        ), said("OrderNotRestored")),
    Escape("an order that a silent broker may set in the next run",
        incident(
            brokers=5,
            topics=(Topic("orders", ((1, 4, 5),)),),
            faults=(*OF_FIVE, *(Fault(29, Kind.FREEZE, broker, upon=Upon.DESIGNATE, later=0.001) for broker in (2, 3))),
            engines=(EngineRun(30), EngineRun(400)), quiet_at=1000.0,
        ), said("OrderNotRestored")),
    Escape("an order that the next run puts back",
        incident(
            Fault(29, Kind.KILL_ENGINE, upon=Upon.DESIGNATE, later=0.012),
            engines=(EngineRun(30), EngineRun(100)), quiet_at=200.0,
        ), said("Recovered")),
    Escape("brokers that nobody reaches while a run is taken over",
        incident(
            Fault(29, Kind.KILL_ENGINE, upon=Upon.DESIGNATE, later=0.012),
            Fault(159, Kind.HIDE, 2, lasting=200), Fault(159, Kind.HIDE, 3, lasting=200),
            engines=(EngineRun(30), EngineRun(100, Command.RESUME)), quiet_at=500.0,
        ), lambda story: any(not told.outcome.order_restored for told in story.concluded)),
    Escape("a leader that dies while its order can't be put back",
        incident(
            Fault(20.5, Kind.CUT, 3, other=2, lasting=70), Fault(29, Kind.STOP, 3, upon=Upon.RESTORE),
            Fault(29, Kind.RIGHTS, upon=Upon.RESTORE, right=Operation.ALTER, lasting=0.6), quiet_at=150.0,
        ), lambda story: any(not told.outcome.order_restored for told in story.concluded)),
)  # fmt: skip


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.name)
def test_one_rule_keeps_every_promise(escape: Escape, monkeypatch: pytest.MonkeyPatch) -> None:
    if escape.given is not None:
        escape.given(monkeypatch)

    history = happen(escape.scenario)

    assert "\n".join(map(str, history.findings)) == ""
    assert escape.shows(history.story), history
