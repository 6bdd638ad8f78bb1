"""Looking at what was seen before: brokers that don't tell something this time are taken at their earlier word."""

from __future__ import annotations

from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.recovery.ports import Cluster


async def look_again(cluster: Cluster, scope: Scope, rules: EvidenceRules, before: Evidence | None) -> Evidence:
    """A whole look, whatever is known: where the rules allow one attempt only, what was seen `before` is left out.

    Raises ClusterFault.
    """
    known = {partition.id: partition for partition in before.partitions} if before else {}
    return await cluster.gather(scope, rules, None if rules.makes_last_look(known) else known or None)
