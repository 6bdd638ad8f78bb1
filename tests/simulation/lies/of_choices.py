"""Lies about who is elected, and what that stands on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Reassignment, Replica
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset
from kafka_recovery.domain.policy import CandidateOrder, Limits
from simulation.lies.honest import FORKED, PLAIN
from simulation.lies.liars import lies


def _replicas(broker: int, **values: Any) -> Any:
    """One broker's replica is another one."""

    def other(seen: PartitionEvidence) -> tuple[Replica, ...]:
        return tuple(replace(r, **values) if r.broker == broker else r for r in seen.replicas)

    return other


def _log(broker: int, **values: Any) -> Any:
    """One broker's log is another one."""

    def other(seen: PartitionEvidence) -> tuple[Replica, ...]:
        return tuple(
            replace(r, log=replace(r.log, **values)) if r.broker == broker and r.log else r for r in seen.replicas
        )

    return other


def _broker(id: int, **values: Any) -> Any:
    def other(cluster: ClusterState) -> Any:
        return tuple(replace(broker, **values) if broker.id == id else broker for broker in cluster.brokers)

    return other


LIES = (
    *lies("nobody_from_silence", PLAIN, {
        "its look is long ago": lambda it: it.tells(it.story.looked, at=lambda look: look.at - 10),
        "it never looked": lambda it: it.hides(it.story.looked, lambda look: True),
        "the designated one did not answer": lambda it: it.looks(replicas=_replicas(3, log=None)),
        "it answered under another epoch": lambda it: it.looks(replicas=_log(3, answered_under=LeaderEpoch(0))),
        "the partition was at another epoch": lambda it: it.looks(leader_epoch=LeaderEpoch(8)),
        "somebody led": lambda it: it.looks(leader=BrokerId(2)),
        "another topic of that name": lambda it: it.looks(topic_id="another"),
        "it stood in another order": lambda it: it.looks(replicas=lambda seen: seen.replicas[1:] + seen.replicas[:1]),
        "its broker was fenced": lambda it: it.looks_at_cluster(brokers=_broker(3, fenced=True)),
        "its metadata stood still": lambda it: it.looks_at_cluster(brokers=_broker(3, metadata_advances=False)),
    }),
    *lies("nothing_forbids_it", PLAIN, {
        "an old leader answers": lambda it: it.looks(replicas=_replicas(1, leads=True)),
        "a plan while it is reassigned": lambda it: it.plans_on(reassignment=Reassignment((BrokerId(4),), ())),
        "nobody said whether it is reassigned": lambda it: it.looks(reassignment_known=False),
        "a living broker is silent": lambda it: it.looks(replicas=_replicas(2, log=None)),
        "the view stands still": lambda it: it.looks_at_cluster(
            view_from=BrokerId(2), brokers=_broker(2, metadata_advances=False)
        ),
        "too many brokers are down": lambda it: it.plans_are(
            policy=lambda plan: replace(plan.policy, limits=Limits(brokers_down_percent=10))
        ),
        "too few replicas": lambda it: it.plans_on(replicas=()),
    }),
    *lies("best_first", PLAIN, {
        "another one is planned": lambda it: it.decides(leader=BrokerId(2)),
        "another one was longer in the plan": lambda it: it.plans_on(replicas=_log(2, end=Offset(99))),
        "another one was longer at the last look": lambda it: it.looks(replicas=_log(2, end=Offset(99))),
        "nobody could be ranked": lambda it: it.plans_on(replicas=_log(3, epochs=None)),
    }),
    *lies("best_first", FORKED, {
        "by the other order": lambda it: it.decides(candidate_order=CandidateOrder.EPOCH_FIRST),
    }),
    *lies("the_rest_in_order", PLAIN, {
        "the others as they stood": lambda it: it.decides(order=(3, 1, 2)),
        "the leader last": lambda it: it.decides(order=(2, 1, 3)),
        "the others left out": lambda it: it.decides(order=(3,)),
    }),
    *lies("the_rule_is_its_topics_own", PLAIN, {
        "another rule": lambda it: it.decides(rule="others"),
        "another candidate order": lambda it: it.decides(candidate_order=CandidateOrder.LONGEST_LOG),
        "a policy nobody wanted": lambda it: it.plans_are(policy=lambda plan: replace(plan.policy, limits=Limits(7))),
        "a policy of later": lambda it: it.tells(it.story.wished, at=lambda wish: wish.at + 90),
        "a rule more patient than wanted": lambda it: it.plans_are(
            policy=lambda plan: replace(
                plan.policy, rules=tuple(replace(rule, patience=timedelta(hours=1)) for rule in plan.policy.rules)
            )
        ),
    }),
)  # fmt: skip
