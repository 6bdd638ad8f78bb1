"""What holds whoever is said to have lost their disk, whatever the cluster looks like."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import event, given
from hypothesis import strategies as st

from kafka_recovery.decision.attesting import attested, standing
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.recheck import LastLook, before
from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import Policy
from property.evidence import BROKERS, evidence, policies

A_MINUTE = timedelta(minutes=1)
IS_ABOUT_SILENCE = {"LogDirOffline", "ElectableBrokerReturning"}


def said_of(seen: Evidence, *brokers: BrokerId) -> Evidence:
    now = seen.cluster.observed_at
    said = [Attestation(id, Witness.DISK_LOST, "ann", "INC-7", now - A_MINUTE, now + A_MINUTE) for id in brokers]
    return attested(seen, said)


@given(evidence, policies, st.sampled_from(BROKERS))
def test_an_election_is_the_same_with_it_and_a_new_one_is_no_better_than_unknown(
    seen: Evidence, policy: Policy, broker: BrokerId
) -> None:
    for partition in seen.partitions:
        alone = replace(seen, partitions=(partition,))
        claimed = said_of(alone, broker)
        (without,), (having,) = decide(alone, policy).decisions, decide(claimed, policy).decisions
        if not standing(claimed.cluster) or broker not in partition.assignment:
            assert having == without
        elif having != without:
            event(f"{without.verdict} becomes {having.verdict}")
            assert without.reason is not None
            assert without.reason.code in IS_ABOUT_SILENCE
            assert having.loss is None or broker in having.loss.unmeasured


@given(evidence, policies, st.lists(st.sampled_from(BROKERS), unique=True, max_size=3))
def test_a_plan_holds_on_the_evidence_it_was_made_of_with_what_was_attested(
    seen: Evidence, policy: Policy, brokers: list[BrokerId]
) -> None:
    plan = decide(said_of(seen, *brokers), policy, waited=A_MINUTE)
    last = LastLook(seen, policy, attestations=standing(plan.evidence.cluster))
    for decision in plan.decisions:
        if decision.verdict is Verdict.ELECT:
            assert last.difference(decision, before(plan)[decision.id]) is None
