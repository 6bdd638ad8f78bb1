"""From evidence and policy to a plan. Pure: the same evidence and policy give the same plan, byte for byte."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import repeat
from operator import attrgetter

from kafka_recovery.decision import log_directories
from kafka_recovery.decision.attesting import asking_about, attested_lost
from kafka_recovery.decision.budget import within_budget
from kafka_recovery.decision.checks import broker_objection, cluster_objection
from kafka_recovery.decision.cluster_index import ClusterIndex, index_of
from kafka_recovery.decision.judgement import Standing, judge
from kafka_recovery.decision.known_bugs import asking
from kafka_recovery.decision.lineups import Brokers, Lineup, Lineups
from kafka_recovery.decision.loss import by_broker, classify
from kafka_recovery.decision.order import BY_COST
from kafka_recovery.decision.present_order import elects
from kafka_recovery.decision.refusals import beyond_limit, order_cannot_be_set, warnings
from kafka_recovery.decision.spread import Loads, TieSet, level, no_load, share
from kafka_recovery.decision.waves import INTERNAL_TIER, Urgency, urgency, waves
from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import FORMAT, Decision, Plan, Verdict
from kafka_recovery.domain.policy import CandidateOrder, Policy
from kafka_recovery.domain.quickly import made_quickly, uncollected
from kafka_recovery.domain.reason import Reason

NOBODY_LEADS = BrokerId(-1)
"""Stands for the leader where nobody is elected, as in Kafka's own protocol."""

Designated = Mapping[TopicPartition, BrokerId]
Ranking = Mapping[TopicPartition, Ranked]


Waited = timedelta | Mapping[TopicPartition, timedelta]
"""How long a clean member was waited for already: each partition's own, none where it is not named; or one for all."""


def decide(
    evidence: Evidence,
    policy: Policy,
    *,
    waited: Waited = timedelta(0),
    designated: Designated | None = None,
    ranked: Ranking | None = None,
    kept_off: Mapping[TopicPartition, Reason] | None = None,
) -> Plan:
    """Judge every partition, spread the leaders among equals, order the work.

    `designated`: leaders that a person named; they beat the candidate order but no guard, and so do those that a
    fleet's ranking chose for this very outage: `ranked`, unless the order is by what a history proves, which no ranking
    reads. `kept_off`: where nobody is elected, whatever the evidence says, and why; they take no place of the limit on
    one plan.
    """
    with uncollected():
        evidence = _in_order(evidence)
        return _planned(evidence, policy, waited, designated or {}, ranked or {}, kept_off or {})


def _planned(
    evidence: Evidence,
    policy: Policy,
    waited: Waited,
    designated: Designated,
    ranked: Ranking,
    kept_off: Mapping[TopicPartition, Reason],
) -> Plan:
    """Apart, so that what a plan does not keep is gone before the collector looks at what was made."""
    around = index_of(evidence.cluster, policy, broker_objection)
    obstacle = cluster_objection(around, policy.limits)
    standings = [judge(seen, around, obstacle, so_long) for seen, so_long in _waits(evidence, waited)]
    if designated or ranked:
        standings = [_designate(standing, designated, ranked) for standing in standings]
    known = Lineups(around)
    lineups = [known.of(standing.partition, standing.ranking) for standing in standings]
    for place, lineup in enumerate(lineups):
        if lineup.missing and standings[place].candidates:
            standings[place] = _electable_by_order(standings[place], lineup)
    if kept_off:
        standings = [_kept_off(standing, kept_off.get(standing.partition.id)) for standing in standings]
    tiers = _tiers(standings, policy.limits.partitions)
    leaders = _leaders(tiers, standings, lineups, around)
    decisions = tuple(_decisions(standings, lineups, leaders, around))
    work = (((decisions[place].id, leaders[place]) for place in tier) for tier in tiers)
    made = waves(work, policy.limits.wave_sizes)
    decisions = asking(decisions, evidence.partitions, evidence.cluster)
    decisions = log_directories.asking(decisions, evidence.cluster)
    decisions = _asking_for_attested(decisions, evidence, policy, waited)
    decisions = within_budget(decisions, made, policy.limits.loss_budget_records)
    return Plan(FORMAT, evidence, policy, decisions, made, tuple(by_broker(decisions)))


def _waits(evidence: Evidence, waited: Waited) -> Iterator[tuple[PartitionEvidence, timedelta]]:
    """Each partition, and how long it was waited for."""
    seen = evidence.partitions
    if isinstance(waited, Mapping):
        return ((each, waited.get(each.id, timedelta(0))) for each in seen)
    return zip(seen, repeat(waited), strict=False)


def _asking_for_attested(
    decisions: tuple[Decision, ...], evidence: Evidence, policy: Policy, waited: Waited
) -> tuple[Decision, ...]:
    """The same decisions, but a person is asked about elections that would not be held without what was attested.

    Whoever attests may not be who approves, and a policy that asks nobody did not count on such a word.
    """
    lost = attested_lost(evidence.cluster)
    if not lost:
        return decisions
    around = index_of(replace(evidence.cluster, attestations=()), policy, broker_objection)
    obstacle = cluster_objection(around, policy.limits)
    asked = list(decisions)
    for place, (seen, so_long) in enumerate(_waits(evidence, waited)):
        if lost.isdisjoint(seen.assignment):
            continue
        if judge(seen, around, obstacle, so_long).verdict is not Verdict.ELECT:
            asked[place] = asking_about(asked[place], lost)
    return tuple(asked)


def _in_order(evidence: Evidence) -> Evidence:
    """The same evidence in the order of ids: in which order brokers answered must not change a plan's digest."""
    by_id = attrgetter("id")
    brokers = tuple(sorted(evidence.cluster.brokers, key=by_id))
    features = tuple(sorted(evidence.cluster.features))
    return replace(
        evidence,
        cluster=replace(evidence.cluster, brokers=brokers, features=features),
        partitions=tuple(sorted(evidence.partitions, key=by_id)),
        missing=tuple(sorted(evidence.missing, key=by_id)),
    )


def _designate(standing: Standing, designated: Designated, ranked: Ranking) -> Standing:
    """A leader that was named beats the order, but no guard; what a person says stands over a ranking."""
    partition = standing.partition
    by_ranking = None if _knows_more(partition, standing.rule.candidate_order) else ranked.get(partition.id)
    leader = designated.get(partition.id)
    outage = partition.leader_epoch, partition.topic_id
    if leader is None and by_ranking and (by_ranking.leader_epoch, by_ranking.topic_id) == outage:
        leader = by_ranking.leader
    judged = standing.ranking.best_first or standing.ranking.rejections
    if leader is None or not judged:
        return standing
    if leader in standing.ranking.best_first:
        log = next(r.log for r in partition.replicas if r.broker == leader and r.log)
        return standing._replace(candidates=(leader,), log_end=log.end, loss=None)
    failed = next((r.reason for r in standing.ranking.rejections if r.broker == leader), None)
    if failed is None and leader in partition.assignment:
        return standing  # nothing is wrong with this replica: something else forbids any election
    reason = _not_to_lead(leader, partition, failed, by_person=partition.id in designated)
    return _refused(standing, reason)


def _knows_more(partition: PartitionEvidence, order: CandidateOrder) -> bool:
    """Whether a rule's order saw what a fleet's ranking never reads: what the history proves of each candidate."""
    return partition.history is not None and order in BY_COST


def open_to_ranking(plan: Plan) -> dict[TopicPartition, Ranked]:
    """The elections of a plan whose leader a fleet's ranking may have named, and who that would be."""
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    return {
        id: Ranked(each.leader, each.leader_epoch, each.topic_id)
        for id, each in plan.elections.items()
        if each.leader is not None and not _knows_more(seen[id], each.candidate_order)
    }


def _not_to_lead(leader: BrokerId, partition: PartitionEvidence, failed: Reason | None, *, by_person: bool) -> Reason:
    why = (
        f"may not lead: {failed}"
        if failed
        else f"has no replica; those are {', '.join(map(str, partition.assignment))}"
    )
    if by_person:
        said = f"broker {leader} was designated but {why}"
        return Reason("DesignatedLeaderRejected", said if failed else f"{said}.")
    said = f"broker {leader} was chosen by the fleet's ranking but {why}; without rankingRef the policy chooses"
    return Reason("DesignatedLeaderRejected", said)


def _electable_by_order(standing: Standing, lineup: Lineup) -> Standing:
    """Kafka takes no order that names an unregistered broker: only whom the present one elects may be chosen then."""
    candidates = tuple(c for c in standing.candidates if elects(c, lineup.assignment, lineup.passed))
    if candidates:
        return standing._replace(candidates=candidates)
    reason = order_cannot_be_set(standing.partition, standing.candidates[0], lineup.missing)
    return _refused(standing, reason)


def _kept_off(standing: Standing, reason: Reason | None) -> Standing:
    return standing if reason is None or standing.verdict is not Verdict.ELECT else _refused(standing, reason)


def _refused(standing: Standing, reason: Reason) -> Standing:
    return standing._replace(verdict=Verdict.REFUSE, reason=reason, candidates=(), log_end=None, loss=None)


Tier = list[int]
"""Places in the list of standings: partitions to elect, equally urgent, by id."""


def _tiers(standings: list[Standing], limit: int) -> list[Tier]:
    """Who is to be elected, most urgent first; the least urgent ones that exceed the limit on one plan are refused."""
    tiers: defaultdict[Urgency, Tier] = defaultdict(list)
    elect = Verdict.ELECT
    for place, standing in enumerate(standings):
        if standing.verdict is elect:
            tiers[urgency(standing.partition, standing.rule)].append(place)
    ordered = [tiers[urgency] for urgency in sorted(tiers)]
    wanted = sum(map(len, ordered))
    room = limit
    for tier in ordered:
        for place in tier[room:]:
            standing = standings[place]
            reason = beyond_limit(standing.partition.id, limit, wanted)
            standings[place] = _refused(standing, reason)
        del tier[room:]
        room -= len(tier)
    return [tier for tier in ordered if tier]


def _leaders(
    tiers: Sequence[Tier], standings: Sequence[Standing], lineups: Sequence[Lineup], around: ClusterIndex
) -> list[BrokerId]:
    """By place in the standings; tier by tier, so that the later ones take the load of the urgent ones into account."""
    loads = no_load({id_: broker.rack for id_, broker in around.brokers.items()})
    leaders = [NOBODY_LEADS] * len(standings)
    for tier in tiers:
        for place, leader in _dealt(tier, standings, lineups, loads):
            leaders[place] = leader
    return leaders


def _dealt(
    tier: Tier, standings: Sequence[Standing], lineups: Sequence[Lineup], loads: Loads
) -> Iterator[tuple[int, BrokerId]]:
    """Split one tier's partitions among their equal candidates."""
    alike: defaultdict[Brokers, list[int]] = defaultdict(list)
    for place in tier:
        alike[standings[place].candidates].append(place)
    tied: defaultdict[TieSet, list[int]] = defaultdict(list)
    for candidates, places in alike.items():
        tied[tuple(sorted(candidates))] += places
    quotas = level({ties: len(places) for ties, places in tied.items()}, loads)
    for ties, places in tied.items():
        places.sort()
        yield from zip(places, share([lineups[place].anyway for place in places], quotas[ties]), strict=True)


def _decisions(
    standings: Sequence[Standing], lineups: Sequence[Lineup], leaders: Sequence[BrokerId], around: ClusterIndex
) -> Iterator[Decision]:
    for standing, lineup, chosen in zip(standings, lineups, leaders, strict=True):
        partition, rule, verdict, reason, ranking, _, log_end, loss = standing
        broker = None if chosen == NOBODY_LEADS else chosen
        if loss is None and (leader := partition.replica(broker)):
            loss = classify(partition, leader, around.cluster)
        yield _decision(
            partition.id,
            partition.topic_id,
            partition.leader_epoch,
            lineup.assignment,
            verdict,
            rule.name,
            INTERNAL_TIER if partition.internal else rule.tier,
            rule.candidate_order,
            rule.approval,
            broker,
            lineup.order(broker),
            log_end,
            lineup.best_first,
            lineup.equals,
            ranking.rejections,
            reason,
            loss,
            () if broker is None else warnings(partition, around),
        )


_decision = made_quickly(Decision)
