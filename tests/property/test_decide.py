"""What holds of every plan, whatever the cluster looks like."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import event, given
from hypothesis import strategies as st

from kafka_recovery.decision.explanation import explain
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.recheck import LastLook, before
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence, ReplicaLog
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.policy import CandidateOrder, Policy
from kafka_recovery.formats.documents import canonical, digest
from property.evidence import BROKERS, EPOCH, evidence, policies

PATIENCE_OVER = timedelta(minutes=1)


def elections(plan: Plan) -> list[tuple[Decision, PartitionEvidence]]:
    pairs = zip(plan.decisions, plan.evidence.partitions, strict=True)
    return [(decision, partition) for decision, partition in pairs if decision.verdict is Verdict.ELECT]


def measured(partition: PartitionEvidence, broker: BrokerId | None) -> ReplicaLog:
    replica = partition.replica(broker)
    assert replica is not None
    assert replica.log is not None
    return replica.log


def merit(log: ReplicaLog, order: CandidateOrder) -> tuple[int, ...]:
    """Larger is better; an unknown epoch is the worst."""
    epoch = -2 if log.last_epoch is None else log.last_epoch
    return (log.end, epoch) if order is CandidateOrder.LONGEST_LOG else (epoch, log.end)


@given(evidence, policies)
def test_the_same_evidence_gives_the_same_plan_byte_for_byte(seen: Evidence, policy: Policy) -> None:
    turned = replace(
        seen,
        partitions=seen.partitions[::-1],
        cluster=replace(seen.cluster, brokers=seen.cluster.brokers[::-1], features=seen.cluster.features[::-1]),
    )
    assert canonical(decide(seen, policy)) == canonical(decide(seen, policy))
    assert digest(decide(seen, policy)) == digest(decide(turned, policy))


@given(evidence, policies)
def test_nobody_is_elected_from_silence_or_against_a_guard(seen: Evidence, policy: Policy) -> None:
    for decision, partition in elections(decide(seen, policy, waited=PATIENCE_OVER)):
        broker = next(broker for broker in seen.cluster.brokers if broker.id == decision.leader)

        assert partition.leader is None
        assert broker.registered
        assert broker.reachable
        assert not broker.fenced
        assert not broker.stopping
        assert broker.metadata_advances is not False
        assert measured(partition, decision.leader).answered_under == EPOCH
        assert decision.leader not in {rejection.broker for rejection in decision.rejections}


@given(evidence, policies)
def test_the_leader_is_maximal_by_the_order(seen: Evidence, policy: Policy) -> None:
    for decision, partition in elections(decide(seen, policy, waited=PATIENCE_OVER)):
        merits = {broker: merit(measured(partition, broker), decision.candidate_order) for broker in decision.ranking}
        assert decision.leader is not None
        assert merits[decision.leader] == max(merits.values())


@given(evidence, policies)
def test_every_replica_is_accounted_for_and_the_order_is_a_permutation(seen: Evidence, policy: Policy) -> None:
    for decision, partition in elections(decide(seen, policy, waited=PATIENCE_OVER)):
        rejected = [rejection.broker for rejection in decision.rejections]

        assert sorted([*decision.ranking, *rejected]) == sorted(partition.assignment)
        assert sorted(decision.order) == sorted(partition.assignment) == sorted(decision.assignment)
        if decision.order != decision.assignment:
            assert decision.order[0] == decision.leader
            assert decision.order[-len(rejected) or len(decision.order) :] == tuple(
                broker for broker in partition.assignment if broker in rejected
            )
        assert decision.leader in decision.equals
        assert decision.equals == decision.ranking[: len(decision.equals)]


@given(evidence, policies)
def test_each_election_stands_in_one_wave_and_whatever_is_not_done_has_a_reason(seen: Evidence, policy: Policy) -> None:
    plan = decide(seen, policy)
    elected = [decision.id for decision, _ in elections(plan)]

    assert sorted(partition for wave in plan.waves for partition in wave) == elected
    assert all(0 < len(wave) <= max(policy.limits.wave_sizes) for wave in plan.waves)
    assert len(elected) <= policy.limits.partitions
    for decision in plan.decisions:
        event(f"{decision.verdict} {decision.reason.code if decision.reason else ''}")
        assert (decision.reason is None) == (decision.verdict in (Verdict.ELECT, Verdict.NOTHING))
        assert (decision.leader is None) == (decision.verdict is not Verdict.ELECT) == (decision.loss is None)


@given(evidence, policies)
def test_a_plan_holds_on_the_evidence_it_was_made_of(seen: Evidence, policy: Policy) -> None:
    plan = decide(seen, policy, waited=PATIENCE_OVER)
    for decision, partition in elections(plan):
        planned = before(plan)[partition.id]
        assert LastLook(seen, policy).difference(decision, planned) is None
        altered = tuple(sorted(partition.replicas, key=lambda replica: decision.order.index(replica.broker)))
        fresh = replace(seen, partitions=(replace(partition, replicas=altered),))
        assert LastLook(fresh, policy, designated=True).difference(decision, planned) is None


@given(evidence, policies, st.sampled_from(BROKERS))
def test_a_named_leader_leads_or_is_refused_with_a_reason(seen: Evidence, policy: Policy, named: BrokerId) -> None:
    designated = {partition.id: named for partition in seen.partitions}
    freely = decide(seen, policy, waited=PATIENCE_OVER)
    for free, decision in zip(
        freely.decisions, decide(seen, policy, waited=PATIENCE_OVER, designated=designated).decisions, strict=True
    ):
        if decision.verdict is Verdict.ELECT:
            assert decision.leader == named
            assert named in decision.ranking
        elif free.verdict is Verdict.ELECT:
            assert decision.reason is not None
            assert decision.reason.code in (
                "DesignatedLeaderRejected",
                "OrderCannotBeSet",
                "PartitionLimitReached",
            )


@given(evidence, policies)
def test_every_decision_can_be_explained(seen: Evidence, policy: Policy) -> None:
    plan = decide(seen, policy, waited=PATIENCE_OVER)
    for decision in plan.decisions:
        told = explain(plan, decision.id)
        assert {row.broker for row in told.rows} == set(decision.assignment)
        assert bool(told.why) == (decision.verdict in (Verdict.ELECT, Verdict.NOTHING))
        assert bool(told.loss) == (decision.verdict is Verdict.ELECT)
