"""Two implementations of who is best, one clever and one naive, agree on whatever a gather could report."""

from __future__ import annotations

from hypothesis import event, given

from kafka_recovery.decision.guards import broker_rejection
from kafka_recovery.decision.judgement import rank
from kafka_recovery.decision.scene import scene
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.policy import Policy
from kafka_recovery.simulator.histories.judging.naive_order import firsts
from property.evidence import evidence, policies


@given(evidence, policies)
def test_the_naive_order_allows_whoever_the_engine_ranks_first(seen: Evidence, policy: Policy) -> None:
    around = scene(seen.cluster, policy, broker_rejection)
    for partition in seen.partitions:
        rule = policy.rule_for(partition.id.topic)
        if rule is None:
            continue
        ranking, allowed = rank(partition, rule, around), firsts(partition, seen.cluster, rule.candidate_order)

        event("somebody may lead" if allowed else "nobody may lead")
        assert bool(allowed) == bool(ranking.best_first)
        assert set(ranking.equals) <= allowed
