"""Hazards that end without anybody's death: one incident for all of them, a partition for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

import pytest

from brokers.conftest import USUAL, Recovery
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy, Rule
from testbed.cluster import RealKafka
from testbed.scenarios import OfflineTopic
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers

SURVIVORS = {2: 27, 3: 15}
"""Broker 2 led alone first and wrote more; broker 3 led alone later, so its last epoch is higher."""
EPOCH_FIRST, LONGEST_LOG, MEASURED, REORDERED, UNCONTROLLED, FORWARDED, FENCED = range(7)

Recoveries = Callable[[RealKafka], Recovery]


@dataclass(frozen=True, slots=True)
class Incident:
    """The cluster, and what it lost."""

    kafka: RealKafka
    lost: OfflineTopic


@pytest.fixture(scope="module")
def incident(warm: WarmKafka) -> Iterator[Incident]:
    with warm.lent(**USUAL) as kafka:
        yield Incident(kafka, kafka.offline_partition("orders", survivors=SURVIVORS, partitions=7))


def partition(index: int) -> TopicPartition:
    return TopicPartition("orders", index)


@pytest.mark.parametrize(
    ("order", "leader", "index"),
    [(CandidateOrder.EPOCH_FIRST, 3, EPOCH_FIRST), (CandidateOrder.LONGEST_LOG, 2, LONGEST_LOG)],
    ids=["EpochFirst", "LongestLog"],
)
async def test_the_policy_chooses_among_divergent_replicas_and_every_record_of_the_chosen_one_is_kept(
    order: CandidateOrder, leader: int, index: int, incident: Incident, recovery: Recoveries
) -> None:
    policy = Policy((Rule("all", approval=Approval.AUTO, candidate_order=order),))

    report = await recovery(incident.kafka).with_(policy=policy).recover(partition(index))

    outcome = report[partition(index)]
    assert (outcome.outcome, outcome.leader) == (Outcome.RECOVERED, leader)
    assert incident.kafka.consume("orders", index) == list(incident.lost[index].held[leader])


async def test_measured_epoch_vectors_are_what_the_brokers_keep_on_disk(
    incident: Incident, recovery: Recoveries
) -> None:
    plan = await recovery(incident.kafka).plan(partition(MEASURED))

    (seen,) = plan.evidence.partitions
    for replica in seen.replicas:
        if replica.broker == 1:
            assert replica.log is None
            continue
        assert replica.log
        assert replica.log.epochs is not None
        on_disk = incident.kafka.epoch_checkpoint(replica.broker, "orders", MEASURED)
        assert [tuple(entry) for entry in replica.log.epochs] == [(entry.epoch, entry.offset) for entry in on_disk]
        assert replica.log.end == SURVIVORS[replica.broker]


async def test_a_broker_that_has_lost_the_file_of_its_leader_epochs_has_an_unknown_vector_and_its_true_log_end(
    incident: Incident, recovery: Recoveries
) -> None:
    """It was stopped cleanly, so it reads nothing of its log when it starts: Kafka's own vector is empty then."""
    kafka = incident.kafka
    kafka.terminate(3)
    kafka.lose_epoch_checkpoint(3, "orders", MEASURED)
    kafka.start(3)
    kafka.wait_until_unfenced(3)

    plan = await recovery(kafka).plan(partition(MEASURED))

    (seen,) = plan.evidence.partitions
    replica = next(replica for replica in seen.replicas if replica.broker == 3)
    assert replica.log
    assert (replica.log.end, replica.log.epochs) == (SURVIVORS[3], None)
    assert replica.problem
    assert replica.problem.code == "EpochVectorUnreadable"


async def test_an_assignment_that_somebody_else_changed_meanwhile_is_decided_anew_and_kept(
    incident: Incident, recovery: Recoveries
) -> None:
    kafka, ours = incident.kafka, recovery(incident.kafka)
    plan = await ours.plan(partition(REORDERED))
    kafka.alter_assignment("orders", REORDERED, [2, 3, 1])

    async with ours.engine() as engine:
        report = await engine.execute(plan)

    outcome = report[partition(REORDERED)]
    assert outcome.outcome is Outcome.REFUSED
    assert outcome.reason
    assert "2, 3, 1" in outcome.reason.message
    left = kafka.describe("orders")[REORDERED]
    assert (left.leader, left.replicas) == (None, (2, 3, 1))


async def test_without_a_controller_nothing_is_tried(incident: Incident, recovery: Recoveries) -> None:
    """Brokers still answer, from metadata that stands still."""
    incident.kafka.kill_controller()

    plan = await recovery(incident.kafka).plan(partition(UNCONTROLLED))
    incident.kafka.start_controller()

    (decision,) = plan.decisions
    assert decision.verdict is Verdict.REFUSE
    assert decision.reason is not None
    assert "controller" in decision.reason.message


async def test_a_controller_that_goes_away_while_electing_leaves_unknown_partitions_in_quarantine(
    incident: Incident, recovery: Recoveries
) -> None:
    """A broker forwards to the controller for 60 s; until then the election may still take effect, and it does.

    It is frozen for less than a session: else it would fence the survivors first when it comes back.
    """
    kafka = incident.kafka
    # The first election meets a frozen controller, the second one, after the quarantine, does not.
    freezes, thaws = iter([kafka.freeze_controller]), iter([kafka.thaw_controller])
    frozen = recovery(kafka).with_(
        before_election=lambda: next_of(freezes),
        after_election=lambda: next_of(thaws),
        election_deadline=timedelta(seconds=0.5),
    )
    report = await frozen.recover(partition(FORWARDED))

    assert report[partition(FORWARDED)].outcome is Outcome.RECOVERED
    state = kafka.describe("orders")[FORWARDED]
    assert (state.leader, state.replicas) == (3, (1, 2, 3))


def next_of(actions: Iterator[Callable[[], None]]) -> None:
    """One of them, if there is one left."""
    for action in islice(actions, 1):
        action()


async def test_a_candidate_that_is_fenced_at_the_last_moment_makes_the_election_fail_loudly(
    incident: Incident, recovery: Recoveries
) -> None:
    """Kafka then takes the next in order, which holds less than was planned: that is not a recovery as approved.

    Takes 15 s, for so long a broker that says nothing is waited for.
    """
    kafka = incident.kafka

    def fence_the_best() -> None:
        kafka.freeze(3)
        kafka.wait_until_fenced(3)

    report = await recovery(kafka).with_(before_election=fence_the_best).recover(partition(FENCED))

    outcome = report[partition(FENCED)]
    assert outcome.outcome is Outcome.FAILED
    assert outcome.reason
    assert outcome.reason.code == "UnexpectedLeader"
    state = kafka.describe("orders")[FENCED]
    assert (state.leader, state.replicas) == (2, (1, 2, 3))
