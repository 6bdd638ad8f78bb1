"""Why a decision is what it is: each replica's standing, what tipped the scales, what would change it. Data only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafka_recovery.decision import log_directories, pods
from kafka_recovery.decision.attesting import told
from kafka_recovery.decision.card import waited_for
from kafka_recovery.decision.checks import broker_objection
from kafka_recovery.decision.cluster_index import ClusterIndex, index_of
from kafka_recovery.decision.costs import is_empty
from kafka_recovery.decision.judgement import Ranking, rank
from kafka_recovery.decision.known_bugs import met
from kafka_recovery.decision.kubectl import NOBODY_KNOWS, Kubectl
from kafka_recovery.decision.logs import lacks
from kafka_recovery.decision.loss import BEST_FIRST, cost_of
from kafka_recovery.decision.moments import incident_at
from kafka_recovery.decision.order import BY_COST, FACTS, ORDERS
from kafka_recovery.decision.returns import Led, after_an_election, away, before_an_election, leads
from kafka_recovery.decision.seen import troubles
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Replica
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision, Lack, Loss, Plan, Verdict
from kafka_recovery.domain.policy import CandidateOrder, Rule
from kafka_recovery.domain.reason import Reason

FACT_WORDS = {
    "last_epoch": "last epoch",
    "log_end": "log end",
    "almost_full": "volume",
    "local_start": "local log start",
    "position": "position in the assignment",
    "loss_class": "loss class",
    "at_most": "proven bound of acknowledged records lost",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One replica: its rank among the candidates or why it is none, and what it holds that the chosen one lacks.

    `empty`: its log was read and holds no record, wherever it ends.
    """

    rank: int | None
    broker: BrokerId
    rack: str | None
    last_epoch: LeaderEpoch | None
    log_end: Offset | None
    lacks: str
    state: str
    verdict: str
    reason: Reason | None
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision for a person. Rows stand best first, rejected replicas last. `why` compares the best candidates.

    `starting`: what the start of a broker that is away does, while there is no leader. `since`: who was seen leading
    after the plan was made, and what that means for these brokers; then `starting` and `would_change` are empty.
    `history`: what is known of the ISR since all replicas were in sync; empty if nothing is.
    `either_way`: what this choice deletes, and what each other candidate would; then what nobody could read.
    `attested`: what a person said of its brokers; that which does not count first. `pods`: what Kubernetes said of
    those that were away. `directories`: what those that answered said of failed and of full log directories. `opens`:
    why nobody may approve it yet, and what to do first, while there is no leader.
    """

    id: TopicPartition
    verdict: Verdict
    leader: BrokerId | None
    rule: str
    candidate_order: CandidateOrder
    reason: Reason | None
    rows: tuple[Row, ...]
    why: str
    loss: str
    history: str
    either_way: tuple[str, ...]
    warnings: tuple[str, ...]
    would_change: tuple[str, ...]
    starting: tuple[str, ...]
    since: tuple[str, ...]
    attested: tuple[str, ...]
    pods: tuple[str, ...]
    directories: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()


def explain(
    plan: Plan, topic_partition: TopicPartition, led: Led | None = None, kubectl: Kubectl = NOBODY_KNOWS
) -> Explanation:
    """Explain the plan's decision about one partition; raises KeyError if the plan has none.

    `led`: that the partition had a leader afterwards. None: nothing is known of that, so what is said holds before an
    election and after one.
    """
    decision = next((d for d in plan.decisions if d.id == topic_partition), None)
    partition = next((p for p in plan.evidence.partitions if p.id == topic_partition), None)
    if decision is None or partition is None:
        raise KeyError(f"the plan has no decision about {topic_partition}")
    around = index_of(plan.evidence.cluster, plan.policy, broker_objection)
    rule = plan.policy.rule_for(topic_partition.topic) or Rule("")
    ranking = rank(partition, rule, around)
    return Explanation(
        id=decision.id,
        verdict=decision.verdict,
        leader=decision.leader,
        rule=decision.rule,
        candidate_order=decision.candidate_order,
        reason=decision.reason,
        rows=tuple(_rows(decision, partition, ranking, around, led)),
        why=_why(decision, partition, ranking, around.cluster),
        loss=_loss_in_words(decision.loss),
        history=_history_in_words(partition.history),
        either_way=() if led else tuple(_either_way(decision, partition, ranking)),
        warnings=(
            *decision.warnings,
            *_order_warning(partition, ranking, rule, around),
            *map(str, met(around.cluster, [partition])),
        ),
        would_change=() if led else tuple(_would_change(decision, partition, ranking)),
        starting=() if led or partition.leader is not None else tuple(before_an_election(partition)),
        since=tuple(_since(partition, led)),
        attested=tuple(told(plan.evidence, partition.assignment)),
        pods=tuple(_pods(partition, around.cluster, kubectl)),
        directories=tuple(log_directories.told(partition, around.cluster)),
        opens=() if led or partition.leader is not None else _opens(plan, decision, partition, kubectl),
    )


def _opens(plan: Plan, decision: Decision, partition: PartitionEvidence, kubectl: Kubectl) -> tuple[str, ...]:
    """What its plan opens with, of this partition: whoever reads this alone is not to do what the plan warns of."""
    evidence = replace(plan.evidence, partitions=(partition,))
    found = waited_for(replace(plan, decisions=(decision,), evidence=evidence), kubectl)
    return (*found.dangers, *found.stop)


def _rows(
    decision: Decision, partition: PartitionEvidence, ranking: Ranking, around: ClusterIndex, led: Led | None
) -> Iterator[Row]:
    now = led.leader if led else partition.leader
    for row in _ranked(decision, partition, ranking, around):
        leads = row.broker == now
        verdict = "chosen, leads" if row.verdict == "chosen" else "leads"
        yield replace(row, verdict=verdict, reason=None) if leads else row


def _ranked(decision: Decision, partition: PartitionEvidence, ranking: Ranking, around: ClusterIndex) -> Iterator[Row]:
    replicas = {replica.broker: replica for replica in partition.replicas}
    leader = replicas.get(decision.leader) if decision.leader is not None else None
    for place, broker in enumerate(ranking.best_first, start=1):
        yield _row(place, replicas[broker], None, decision, partition, leader, around)
    for rejection in ranking.rejections:
        yield _row(None, replicas[rejection.broker], rejection.reason, decision, partition, leader, around)


def _row(
    place: int | None, replica: Replica, reason: Reason | None, decision: Decision, partition: PartitionEvidence,
    leader: Replica | None, around: ClusterIndex,
) -> Row:  # fmt: skip
    seen, log = around.brokers.get(replica.broker), replica.log
    return Row(
        rank=place,
        broker=replica.broker,
        rack=seen.rack if seen else None,
        last_epoch=log.last_epoch if log else None,
        log_end=log.end if log else None,
        lacks=_lacking(replica, leader),
        state=_state(replica, partition, around),
        verdict=_verdict(place, replica.broker, decision),
        reason=reason,
        empty=is_empty(log),
    )


def _verdict(place: int | None, broker: BrokerId, decision: Decision) -> str:
    if place is None:
        return "rejected"
    if broker == decision.leader:
        return "chosen"
    return "equal" if decision.equals and {broker, decision.leader} <= set(decision.equals) else "candidate"


def _lacking(replica: Replica, leader: Replica | None) -> str:
    """What the chosen log lacks of this one; it will be truncated here (KIP-101)."""
    if leader is None or leader.log is None or replica is leader:
        return ""
    if replica.log is None:
        return "unknown"
    lack = lacks(leader.log, replica.log, replica.broker)
    sure = leader.log.epochs is not None and replica.log.epochs is not None
    if lack is None:
        return "nothing" if sure else "unknown"
    return _records(lack) if sure else f"at least {_records(lack)}"


def _records(lack: Lack) -> str:
    return f"{lack.records} record{'s' * (lack.records != 1)} from offset {lack.from_offset} on"


def _state(replica: Replica, partition: PartitionEvidence, around: ClusterIndex) -> str:
    """Membership and broker state, in words."""
    words = {
        "in ISR": replica.broker in partition.isr,
        "in ELR": replica.broker in (partition.elr or ()),
        "last known leader": replica.broker in (partition.last_known_elr or ()),
        "still leads": replica.leads,
    }
    member = [word for word, holds in words.items() if holds] or ["out of ISR"]
    return ", ".join((*member, *troubles(around.brokers.get(replica.broker))))


def _why(decision: Decision, partition: PartitionEvidence, ranking: Ranking, cluster: ClusterState) -> str:
    """Why the chosen replica beats the next one; or why nobody is to be chosen."""
    chosen, order = decision.leader, decision.candidate_order
    others = [broker for broker in ranking.best_first if broker != chosen]
    if decision.verdict is Verdict.NOTHING:
        return f"broker {partition.leader} leads it already; what has a leader is left alone"
    if chosen is None:
        return ""
    if not others:
        return f"broker {chosen} is the only replica that passes every guard"
    if chosen not in decision.equals:
        return f"broker {chosen} was designated; by {order} broker {others[0]} would lead"
    if others[0] in decision.equals:
        equals = _listed(sorted(decision.equals))
        return (
            f"brokers {equals} hold equal logs; broker {chosen} leads so that new leaders are spread over the brokers"
        )
    return f"by {order}: {_first_difference(partition, cluster, order, chosen, others[0])}"


def _first_difference(
    partition: PartitionEvidence, cluster: ClusterState, order: CandidateOrder, chosen: BrokerId, other: BrokerId
) -> str:
    facts: dict[BrokerId, dict[str, int | None]] = {}
    for position, replica in enumerate(partition.replicas):
        if replica.log is not None:
            cost = cost_of(partition, replica, cluster)
            facts[replica.broker] = {key.fact: FACTS[key.fact](replica.log, position, cost) for key in ORDERS[order]}
    fact = next(key.fact for key in ORDERS[order] if facts[chosen][key.fact] != facts[other][key.fact])
    ours, theirs = (_value(fact, facts[broker][fact]) for broker in (chosen, other))
    logs_only = " by local logs" if partition.may_be_tiered and fact in ("loss_class", "at_most") else ""
    word = f"{FACT_WORDS[fact]}{logs_only}"
    return f"broker {chosen}'s {word} is {ours}, the next one's, broker {other}'s, is {theirs}"


def _value(fact: str, value: int | None) -> str:
    if value is None:
        return "unknown"
    if fact == "almost_full":
        return "almost full" if value else "not known to be full"
    return BEST_FIRST[value] if fact == "loss_class" else str(value)


def _order_warning(partition: PartitionEvidence, ranking: Ranking, rule: Rule, around: ClusterIndex) -> Iterator[str]:
    """No order of logs proves anything; where orders disagree a person should look (docs/explanation/guarantees.md)."""
    if not ranking.best_first:
        return
    for order in CandidateOrder:
        if order in BY_COST and partition.history is None:
            continue
        best = rank(partition, replace(rule, candidate_order=order), around).best_first
        if best and best[0] not in ranking.equals:
            ours = ranking.best_first[0]
            difference = (
                _first_difference(partition, around.cluster, order, best[0], ours)
                if ours in best
                else "the other is not ranked"
            )
            yield f"{order} would choose broker {best[0]}, {rule.candidate_order} chooses broker {ours}: {difference}"


def _loss_in_words(loss: Loss | None) -> str:
    """The loss class in plain words."""
    if loss is None:
        return ""
    if loss.loss_class is LossClass.LOSSLESS:
        return f"Lossless: no record acknowledged with acks=all is lost; {loss.proof}."
    if loss.loss_class is LossClass.BOUNDED and loss.at_most is not None:
        return f"Bounded: at most {loss.at_most} records acknowledged with acks=all are lost; {loss.proof}."
    if loss.loss_class is LossClass.BOUNDED:
        return f"Bounded, but not in number: {'; '.join(loss.missing)}."
    lower = f" At least {loss.at_least} are: they were seen beyond the chosen log's end." if loss.at_least else ""
    return f"Unknown: whether records acknowledged with acks=all are lost is not known.{lower}"


_NEWEST = 5
"""So many steps of a history are told; the others are counted."""


def _history_in_words(history: PartitionHistory | None) -> str:
    """The facts that a loss class stands on: who was in sync, oldest first, and whose process began meanwhile."""
    if history is None or not history.steps:
        return ""
    earlier = len(history.steps) - _NEWEST
    told = [f"{earlier} earlier steps"] if earlier > 0 else []
    told += [f"{_listed(sorted(step.isr)) or 'none'} (needs {step.min_isr})" for step in history.steps[-_NEWEST:]]
    later = sorted({start.broker for start in history.starts if start.epoch > history.steps[0].since})
    started = f"; started meanwhile: {', '.join(_started(id, history) for id in later)}" if later else ""
    return f"ISR {' → '.join(told)}, as of metadata offset {history.as_of}{started}"


def _started(broker: BrokerId, history: PartitionHistory) -> str:
    """And where, if all of its processes since the history began are known to have been in one place."""
    own = [start for start in history.starts if start.broker == broker]
    places = {start.boot for start in own}
    if None in places or len(places) > 1:
        return str(broker)
    return f"{broker} (all its processes since metadata offset {own[0].epoch} on boot {own[0].boot})"


def _either_way(decision: Decision, partition: PartitionEvidence, ranking: Ranking) -> Iterator[str]:
    """Between replicas that were measured a choice deletes on both sides; of the others nobody knows."""
    leader = next((replica for replica in partition.replicas if replica.broker == decision.leader), None)
    if decision.verdict is not Verdict.ELECT or leader is None:
        return
    for replica in partition.replicas:
        if replica is leader or replica.log is None:
            continue
        here, there = _lacking(replica, leader), _lacking(leader, replica)
        if here == there == "nothing":
            continue
        yield _deleted(f"Electing broker {leader.broker} deletes", replica.broker, here)
        if replica.broker in ranking.best_first:
            yield _deleted(f"Electing broker {replica.broker} instead would delete", leader.broker, there)
    for replica in partition.replicas:
        if replica.log is None:
            why = replica.problem.code if replica.problem else "no answer"
            yield (
                f"What broker {replica.broker} alone holds is unknown ({why}): it deletes that once it joins another "
                "leader."
            )


def _deleted(whose: str, broker: BrokerId, what: str) -> str:
    return f"{whose} on broker {broker}: {'an unknown part of its log' if what == 'unknown' else what}."


def _would_change(decision: Decision, partition: PartitionEvidence, ranking: Ranking) -> Iterator[str]:
    """What evidence would lead to another decision or to a better loss class."""
    if decision.verdict is Verdict.NOTHING:
        return
    for rejection in ranking.rejections:
        if rejection.broker not in partition.clean_members:
            yield f"broker {rejection.broker} passing the guards, {rejection.reason.code} now: it might hold more"
    if decision.loss is not None and decision.loss.missing:
        yield f"for a better loss class: {'; '.join(decision.loss.missing)}"


def _since(partition: PartitionEvidence, led: Led | None) -> Iterator[str]:
    """Who leads by now, and what to do before a broker is started that was away when the plan was made."""
    leader = led.leader if led else partition.leader
    if led:
        yield leads(led, partition.id)
    followers = () if partition.leader is None else partition.isr  # they have what the leader has, and run
    absent = [broker for broker in away(partition) if broker != leader and broker not in followers]
    if absent and (led or leader is not None):
        yield after_an_election(absent, (partition.id,))


def _pods(partition: PartitionEvidence, cluster: ClusterState, kubectl: Kubectl) -> Iterator[str]:
    at = incident_at((partition,), cluster)
    for broker in away(partition):
        yield from (f"Broker {broker}: {each}" for each in pods.told(cluster, broker, at, kubectl))


def _listed(brokers: list[BrokerId]) -> str:
    return " and ".join(map(str, brokers)) if len(brokers) < 3 else ", ".join(map(str, brokers))
