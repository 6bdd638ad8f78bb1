"""Whether a planned election still holds at the last look: any small evidence planned on, any other one seen then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product

import pytest

from exhaustive.every_log import CURRENT, measured
from exhaustive.evidence_space import ENDLESS, LOG, ORDERS_OF_LOGS, PATIENCE, WELL, broker, cluster, partition, rule
from exhaustive.judging import Count
from exhaustive.naive_logs import lacking
from exhaustive.naive_rules import ruling
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.recheck import LastLook, before
from kafka_recovery.domain.evidence import Broker, EpochEntry, Evidence, PartitionEvidence, Replica, WitnessedEnd
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.policy import CandidateOrder, Limits, Policy, RequiredAnswers, TopicSelector
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.histories.judging.naive_order import firsts

DEAD = broker(0, fenced=True, reachable=False, advances=None)
BACK = broker(0, fenced=True)
LONGER = measured(0, 3, LOG.epochs)
NEWER = measured(0, 2, (EpochEntry(LeaderEpoch(1), Offset(0)), EpochEntry(LeaderEpoch(2), Offset(1))))
NEWEST = measured(0, 2, (EpochEntry(LeaderEpoch(1), Offset(0)), EpochEntry(LeaderEpoch(3), Offset(1))))

State = tuple[Broker, Replica]
MEASURED: Sequence[State] = [(WELL, Replica(BrokerId(0), log)) for log in (LOG, LONGER, NEWER)]
SILENT: Sequence[State] = [(DEAD, Replica(BrokerId(0), None))]
SURVIVORS: Sequence[State] = (
    *MEASURED,
    (WELL, Replica(BrokerId(0), NEWEST)),
    *SILENT,
    (broker(0, advances=False), Replica(BrokerId(0), LOG)),
    (WELL, Replica(BrokerId(0), replace(LOG, answered_under=LeaderEpoch(CURRENT - 1)))),
    (WELL, Replica(BrokerId(0), LOG, leads=True)),
)
MEMBERS: Sequence[State] = (*SILENT, (BACK, Replica(BrokerId(0), LOG)))
"""The last one of the ISR, away or about to be back."""


def looks(*survivors: Sequence[State]) -> list[Evidence]:
    """Two replicas that are not in the ISR, and one that is."""
    return [_look(states) for states in product(*survivors, MEMBERS)]


def _look(states: Sequence[State], **changes: object) -> Evidence:
    brokers = [replace(broker, id=BrokerId(id)) for id, (broker, _) in enumerate(states, start=1)]
    replicas = [replace(answer, broker=BrokerId(id)) for id, (_, answer) in enumerate(states, start=1)]
    seen = replace(partition(0, replicas, isr=[3]), **changes)  # type: ignore[arg-type]
    return Evidence(cluster([*brokers, broker(9)], view_from=9), (seen,))


def objections(decision: Decision, planned: Evidence, seen: Evidence, policy: Policy) -> Iterator[str]:
    """All that stands against an election which was planned before: by its code, or by words of its sentence."""
    (was,), (now,) = planned.partitions, seen.partitions
    found = ruling(now, seen.cluster, policy, PATIENCE)
    yield from found.reasons
    if decision.leader is not None and decision.leader in found.failed:
        yield found.failed[decision.leader]
    chosen = policy.rule_for(now.id.topic)
    if chosen and (chosen.name, chosen.candidate_order) != (decision.rule, decision.candidate_order):
        yield "now falls under rule"
    if any(_is_back(seen, id) and not _is_back(planned, id) for id in (*now.isr, *(now.elr or ()))):
        yield "ElectableBrokerReturning"
    alone = tuple(now.last_known_elr or ()) if not now.isr and not now.elr else ()
    if len(alone) == 1 and _is_back(seen, alone[0]) and not _is_back(planned, alone[0]):
        yield "ElectableBrokerReturning"
    if _incarnation(planned, decision.leader) not in (None, _incarnation(seen, decision.leader)):
        yield "measurement is void"
    yield from _other_facts(decision, was, now)
    best = firsts(now, seen.cluster, decision.candidate_order)
    if best and decision.leader not in best:
        yield "is now better than"
    told, lost = _lacks(decision.leader, was), _lacks(decision.leader, now)
    if _costs(decision.leader, now) > _costs(decision.leader, was) or any(lost[id] > told.get(id, 0) for id in lost):
        yield "costs"


def _other_facts(decision: Decision, was: PartitionEvidence, now: PartitionEvidence) -> Iterator[str]:
    if now.topic_id != was.topic_id:
        yield "was deleted and created again"
    if now.leader is not None:
        yield "AlreadyOnline" if now.leader in (*was.isr, decision.leader) else "UnexpectedLeader"
    if now.leader_epoch != was.leader_epoch:
        yield "is at leader epoch"
    if now.assignment != was.assignment:
        yield "is assigned to"
    logs = [seen.replica(decision.leader) for seen in (was, now)]
    if len({replica and replica.log and (replica.log.end, replica.log.epochs) for replica in logs}) > 1:
        yield "'s log of"


def _is_back(seen: Evidence, id: BrokerId) -> bool:
    found = seen.cluster.broker(id)
    return found is not None and (found.reachable or not found.fenced)


def _incarnation(seen: Evidence, id: BrokerId | None) -> BrokerEpoch | None:
    return next((broker.epoch for broker in seen.cluster.brokers if broker.id == id), None)


def _costs(leader: BrokerId | None, seen: PartitionEvidence) -> int:
    replica = seen.replica(leader)
    ends = [witness.end for witness in seen.witnessed_ends]
    return max([0, *ends]) - replica.log.end if replica and replica.log and ends else 0


def _lacks(leader: BrokerId | None, seen: PartitionEvidence) -> dict[BrokerId, int]:
    replica = seen.replica(leader)
    others = [(other.broker, other.log) for other in seen.replicas if other.log is not None and other.broker != leader]
    return {broker: len(lacking(replica.log, log)) for broker, log in others} if replica and replica.log else {}


def holds(planned: Evidence, policy: Policy, later: Iterable[tuple[Evidence, Policy]]) -> int:
    """Assert that a planned election, if there is one, is given up if and only if something stands against it."""
    plan, looked = decide(planned, policy, waited=PATIENCE), 0
    for decision, (seen, now) in product(plan.elections.values(), later):
        said = LastLook(seen, now).difference(decision, before(plan)[decision.id])
        against = set(objections(decision, planned, seen, now))
        assert _is_told(said, against) if said else not against, (said, against, planned, seen)
        looked += 1
    return looked


def _is_told(said: Reason, against: set[str]) -> bool:
    """Of a plan that is outdated the sentence says what differs."""
    differs = said.code == "PlanOutdated" and any(words in said.message for words in against)
    return differs or said.code in against


def given_up_if_and_only_if(
    survivors: Sequence[Sequence[State]], answers: Sequence[RequiredAnswers], counted: Count
) -> None:
    """Any of these is planned on, and any of all is seen by then."""
    for order, required in product(ORDERS_OF_LOGS, answers):
        policy = Policy((rule(order, required),), ENDLESS)
        later = [(seen, policy) for seen in looks(SURVIVORS, SURVIVORS)]
        counted(sum(holds(planned, policy, later) for planned in looks(*survivors)))


def test_an_election_is_given_up_for_a_reason_that_holds_and_else_never(counted: Count) -> None:
    given_up_if_and_only_if((MEASURED, SURVIVORS), [RequiredAnswers.ANY], counted)


@pytest.mark.full
def test_the_same_of_any_plan(counted: Count) -> None:
    given_up_if_and_only_if((SURVIVORS, SURVIVORS), list(RequiredAnswers), counted)


def _answering_under(epoch: LeaderEpoch, replica: Replica) -> Replica:
    return replace(replica, log=replica.log and replace(replica.log, answered_under=epoch))


def test_whatever_the_controller_says_by_then(counted: Count) -> None:
    """Another leader, epoch, topic, order or rule, and what was seen of the log's end: each with all others."""
    states = [MEASURED[0], MEASURED[1], SILENT[0]]
    planned, policy = _look(states), Policy((rule(),), ENDLESS)
    others = [policy, Policy((replace(rule(), name="another rule"),), ENDLESS)]
    others += [Policy((rule(CandidateOrder.LONGEST_LOG),), ENDLESS), Policy((), ENDLESS)]
    others.append(Policy((replace(rule(), topics=TopicSelector(("others",))), rule()), ENDLESS))
    for leader, epoch, topic, order, ends in product(
        (None, 1, 2, 3), (CURRENT, CURRENT + 1), ("id-of-orders", "another"), permutations(range(3)), ((), (9,))
    ):
        looked = _look(states, leader=leader, leader_epoch=epoch, topic_id=TopicId(topic))
        (seen,) = looked.partitions
        seen = replace(
            seen,
            replicas=tuple(_answering_under(LeaderEpoch(epoch), seen.replicas[place]) for place in order),
            witnessed_ends=tuple(WitnessedEnd("a group", Offset(end)) for end in ends),
        )
        counted(holds(planned, policy, [(replace(looked, partitions=(seen,)), now) for now in others]))


def test_no_election_holds_in_a_cluster_that_forbids_all(counted: Count) -> None:
    """It was well when the plan was made."""
    states = [MEASURED[0], MEASURED[0], SILENT[0]]
    planned, policy = _look(states), Policy((rule(answers=RequiredAnswers.ANY),), Limits(brokers_down_percent=50))
    for others in product((WELL, DEAD, broker(0, advances=False)), repeat=3):
        known = [replace(kind, id=BrokerId(id)) for id, kind in enumerate(others, start=4)]
        seen = [
            replace(planned, cluster=cluster([*planned.cluster.brokers[:3], *known], view_from=view)) for view in (1, 4)
        ]
        counted(holds(planned, policy, [(each, policy) for each in seen]))


@pytest.mark.parametrize("planned_under", [None, 7])
@pytest.mark.parametrize("seen_under", [None, 7, 8])
def test_a_broker_that_registered_anew_is_not_the_one_that_was_measured(
    planned_under: int | None, seen_under: int | None, counted: Count
) -> None:
    """A driver that is not told broker epochs has none to compare."""

    def look(epoch: int | None) -> Evidence:
        told = None if epoch is None else BrokerEpoch(epoch)
        return _look([(replace(WELL, epoch=told), MEASURED[0][1]), SILENT[0], SILENT[0]])

    policy = Policy((rule(),), ENDLESS)
    counted(holds(look(planned_under), policy, [(look(seen_under), policy)]))
