"""What an election costs: the loss class of the chosen replica, proven from history, never guessed.

Kafka has no Raft commit rule: the highest epoch and the longest log do not prove that a log holds every record
acknowledged with acks=all. What proves it is who was in the ISR when, and whose copy is intact: see
docs/explanation/guarantees.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from kafka_recovery.decision.intactness import began_uncleanly, is_intact
from kafka_recovery.decision.logs import contains, contradict, lacks
from kafka_recovery.decision.subjects import Cost
from kafka_recovery.domain.elr import replay_elr
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Replica
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import BrokerLoss, Decision, Lack, Loss, Verdict
from kafka_recovery.domain.quickly import made_quickly

HISTORY = "ISR history since all replicas were in sync"
_loss = made_quickly(Loss)

_UNKNOWN, _ELECT = LossClass.UNKNOWN, Verdict.ELECT
"""Once each: a member of an Enum takes as long to be looked up as a function to be called."""

BEST_FIRST = (LossClass.LOSSLESS, LossClass.BOUNDED, LossClass.UNKNOWN)


_TIER = "proof of what the remote tier holds: records may be only there, and it was not looked at"
_TIER_UNREAD = "whether the topic has a remote tier (remote.storage.enable): its configs could not be read"


def classify(partition: PartitionEvidence, leader: Replica, cluster: ClusterState) -> Loss:
    """What it costs if `leader`, a replica that was measured, leads.

    KIP-405: local segments are deleted once the tier has them. What it has, and whether a leader will find it there
    (`__remote_log_metadata`), no log end tells.
    """
    loss = _of_local_logs(partition, leader, cluster)
    if not partition.may_be_tiered:
        return loss
    missing = (*loss.missing, _TIER if partition.tiered else _TIER_UNREAD)
    return replace(loss, loss_class=_UNKNOWN, at_most=None, proof="", missing=missing)


def _of_local_logs(partition: PartitionEvidence, leader: Replica, cluster: ClusterState) -> Loss:
    history = partition.history
    visible = visible_lacks(partition, leader)
    at_least = witnessed_loss(partition, leader) if partition.witnessed_ends else 0
    if history is not None:
        silent = tuple([replica.broker for replica in partition.replicas if replica.log is None])
        proven = _proven(partition, leader, history, cluster)
        proven = replace(proven, at_least=at_least, lacks=visible, unmeasured=silent)
        return _consistent(_capped(proven, history), partition)
    copies = tuple([_silence(each) if each.log is None else each.broker for each in partition.replicas])
    untold = cluster.history_problem
    unproven = _unproven(copies, HISTORY if untold is None else f"{HISTORY}: {untold.message}")
    if not visible and not at_least:
        return unproven
    return _loss(_UNKNOWN, at_least, None, visible, unproven.missing, "", unproven.unmeasured)


NOT_PROVEN = Cost(BEST_FIRST.index(LossClass.UNKNOWN), None)


def cost_of(partition: PartitionEvidence, candidate: Replica, cluster: ClusterState) -> Cost:
    """The same as an order sees it: by local logs also where there is a remote tier, for all replicas share that one.

    Without a history nothing is proven of anybody.
    """
    if partition.history is None:
        return NOT_PROVEN
    loss = _of_local_logs(partition, candidate, cluster)
    return Cost(BEST_FIRST.index(loss.loss_class), loss.at_most)


def severity(loss: Loss) -> tuple[int, int]:
    """By which losses are compared: the class, then the bound. The smallest is the best."""
    return BEST_FIRST.index(loss.loss_class), loss.at_most or 0


def by_broker(decisions: Iterable[Decision]) -> Iterator[BrokerLoss]:
    """What the elections among these decisions may take from each broker, by id."""
    elected = [each.loss for each in decisions if each.loss is not None and each.verdict is _ELECT]
    records: defaultdict[BrokerId, list[int]] = defaultdict(list)
    for loss in elected:
        for lack in loss.lacks:
            records[lack.broker].append(lack.records)
    unmeasured: Counter[BrokerId] = Counter()
    for brokers, count in Counter([loss.unmeasured for loss in elected]).items():
        unmeasured.update(dict.fromkeys(brokers, count))
    for broker in sorted(records.keys() | unmeasured.keys()):
        lacked = records[broker]
        yield BrokerLoss(broker, len(lacked), sum(lacked), unmeasured[broker])


def takes_more(now: Loss, planned: Loss) -> bool:
    """Whether a broker would lose records that were not planned for it; whoever approved, approved them one by one."""
    told = {lack.broker: lack.records for lack in planned.lacks}
    return any(lack.records > told.get(lack.broker, 0) for lack in now.lacks)


def visible_lacks(partition: PartitionEvidence, leader: Replica) -> tuple[Lack, ...]:
    """What each other measured replica holds and the leader does not; it will be truncated there (KIP-101)."""
    chosen = leader.log
    found: tuple[Lack, ...] = ()
    assert chosen is not None, f"broker {leader.broker} was not measured"
    for replica in partition.replicas:
        log = replica.log
        if log is None or log is chosen:
            continue
        lack = lacks(chosen, log, replica.broker)
        if lack is not None:
            found += (lack,)
    return found


def witnessed_loss(partition: PartitionEvidence, leader: Replica) -> int:
    """Offsets that others once saw beyond the leader's log end: surely lost."""
    ends = [witness.end for witness in partition.witnessed_ends]
    return max(0, max(ends, default=0) - leader.log.end) if leader.log else 0


Silence = tuple[BrokerId, str]
"""A replica that was not measured, and why."""


def _silence(replica: Replica) -> Silence:
    return replica.broker, "no answer" if replica.problem is None else replica.problem.message


@lru_cache(maxsize=32_768)  # many partitions share one Loss: 100 brokers make 10,000 pairs
def _unproven(copies: tuple[BrokerId | Silence, ...], history: str) -> Loss:
    """Nothing is proven: of what was measured not that it is intact, of the silent ones not even what they hold."""
    silent = [copy for copy in copies if isinstance(copy, tuple)]
    measured = [_intactness(copy) for copy in copies if not isinstance(copy, tuple)]
    missing = (history, *measured, *map(_missing_log, silent))
    return Loss(LossClass.UNKNOWN, missing=missing, unmeasured=tuple([broker for broker, _ in silent]))


@lru_cache(maxsize=4096)
def _intactness(broker: BrokerId) -> str:
    return f"proof that broker {broker}'s copy is intact"


@lru_cache(maxsize=4096)
def _missing_log(silence: Silence) -> str:
    broker, why = silence
    return f"broker {broker}'s log: {why}"


def _unknown(missing: Iterable[str]) -> Loss:
    return Loss(LossClass.UNKNOWN, missing=tuple(missing))


def _proven(partition: PartitionEvidence, leader: Replica, history: PartitionHistory, cluster: ClusterState) -> Loss:
    """By an intact copy that was in ISR or ELR up to now: it has every acknowledged record. Does the leader's log?"""
    gaps = _history_gaps(partition, history, cluster)
    if gaps:
        return _unknown(gaps)
    assert leader.log is not None
    if leader.log.answered_under != partition.leader_epoch:
        return _unknown([f"broker {leader.broker}'s answer under the current leader epoch, {partition.leader_epoch}"])
    intact = [replica for replica in partition.replicas if _is_intact(replica, partition, history, cluster)]
    members = replay_elr(history.steps)
    holders = [replica for replica in intact if replica.broker in members]
    if not holders:
        return _unknown(_missing_copies(partition, members))
    if any(replica.log and contradict(leader.log, replica.log) for replica in intact):
        return _unknown(_vectors_wanted(leader, intact))
    if leader in holders:
        return Loss(LossClass.LOSSLESS, at_most=0, proof=f"{_holds_all(leader)}, and its copy is intact")
    return min((_by_containment(leader, holder) for holder in holders), key=severity)


def _holds_all(replica: Replica) -> str:
    return f"broker {replica.broker} is in ISR or ELR by the ISR history"


def _history_gaps(partition: PartitionEvidence, history: PartitionHistory, cluster: ClusterState) -> list[str]:
    """Why this history proves nothing."""
    steps, assigned = history.steps, frozenset(partition.assignment)
    if history.topic_id != partition.topic_id:
        return [f"ISR history of this topic: what is known is of another one of its name, {history.topic_id}"]
    if not steps or frozenset(steps[0].isr) != frozenset(steps[0].replicas):
        return [HISTORY]
    if late := _ends_early(partition, history, cluster):
        return [f"ISR history up to now: {late}"]
    gaps = []
    if began_uncleanly(history):
        gaps.append("a history without unclean election: one happened since all replicas were in sync")
    if any(frozenset(step.replicas) != assigned for step in steps):
        gaps.append("a history of one replica set: it changed since all replicas were in sync")
    return gaps


def _ends_early(partition: PartitionEvidence, history: PartitionHistory, cluster: ClusterState) -> str | None:
    """How the history falls behind what the controller's metadata show of the partition."""
    last, seen = history.steps[-1], cluster.as_of
    if seen is None:
        return f"it is whole up to metadata offset {history.as_of}, and at which one this look was, nobody said"
    if history.as_of < seen:
        return f"it is whole up to metadata offset {history.as_of}, and this look was at {seen}"
    if last.leader_epoch != partition.leader_epoch:
        return f"its last step is of leader epoch {last.leader_epoch}, the controller's is {partition.leader_epoch}"
    if frozenset(last.isr) != frozenset(partition.isr):
        return "its last step shows another ISR than the controller does"
    return None


def _is_intact(
    replica: Replica, partition: PartitionEvidence, history: PartitionHistory, cluster: ClusterState
) -> bool:
    """Whether it holds all it held when last in the ISR, by the history, and follows no older leader, by its answer.

    Who is in the ISR has all that is below the high watermark: one that ends before it may have lost something,
    whatever its broker's starts say. Below min.insync.replicas no leader raises that mark (KIP-966, ELR on or off).
    """
    log = replica.log
    if log is None or log.answered_under != partition.leader_epoch or not is_intact(replica.broker, history):
        return False
    if any(each.log and (each.log.high_watermark or 0) > log.end for each in partition.replicas):
        return False
    return _is_known_process(replica.broker, history, cluster)


def _is_known_process(id: BrokerId, history: PartitionHistory, cluster: ClusterState) -> bool:
    """Whether the process that answered is the one that the history knows last, by its epoch or by what it has applied.

    A process registers before it answers. One that has applied more than the history tells may have registered in what
    is missing: a controller that was overthrown and does not know it yet tells what was committed under it. Who is back
    after a silence may tell of its log and not yet of what it has applied, for nobody waits for that.
    """
    broker = cluster.broker(id)
    if broker is None or (broker.metadata_offset is None and broker.epoch is None):
        return False
    known = max((start.epoch for start in history.starts if start.broker == id), default=None)
    return (broker.metadata_offset or 0) <= history.as_of and broker.epoch in (None, known)


def _missing_copies(partition: PartitionEvidence, members: frozenset[BrokerId]) -> Iterable[str]:
    """What one of them would have to show."""
    for replica in partition.replicas:
        if replica.broker in members:
            yield _intactness(replica.broker) if replica.log else _missing_log(_silence(replica))


def _by_containment(leader: Replica, holder: Replica) -> Loss:
    """The holder has every acknowledged record; what of its log does the leader's not have?"""
    chosen, log = leader.log, holder.log
    assert chosen is not None
    assert log is not None
    whole = contains(chosen, log)
    if whole is None:
        return _unknown(_vectors_wanted(leader, [holder]))
    why = f"{_holds_all(holder)}, its copy is intact, and broker {leader.broker}'s log"
    lack = None if whole else lacks(chosen, log, holder.broker)
    if lack is None and chosen.end >= log.end:
        return Loss(LossClass.LOSSLESS, at_most=0, proof=f"{why} contains all of it")
    if lack is None:  # retention emptied the holder's: no record is lost, but consumers may have committed further on
        why = f"{why} ends {log.end - chosen.end} offsets before it, which would be used again"
        return Loss(LossClass.BOUNDED, at_most=0, proof=why)
    return Loss(LossClass.BOUNDED, at_most=lack.records, proof=f"{why} lacks {lack.records} offsets of it")


def _vectors_wanted(leader: Replica, intact: Sequence[Replica]) -> Iterable[str]:
    """Without these nothing can be compared."""
    chosen = leader.log
    others = [(replica.broker, replica.log) for replica in intact if replica.log is not None and replica is not leader]
    known = chosen is not None and chosen.epochs is not None
    for broker in [b for b, log in others if log.epochs is None] if known else [leader.broker]:
        yield f"broker {broker}'s leader-epoch vector"
    for broker, log in others:
        if chosen and contradict(chosen, log):
            yield f"leader-epoch vectors of brokers {leader.broker} and {broker} that do not contradict each other"


def _capped(loss: Loss, history: PartitionHistory) -> Loss:
    """EndTxn is acknowledged by `__transaction_state`: a transaction is as safe as that topic (KIP-98)."""
    cap = history.transaction_log
    if cap is None or BEST_FIRST.index(cap) <= BEST_FIRST.index(loss.loss_class):
        return loss
    better = f"a better proof for __transaction_state, whose class is {cap}: it acknowledges transactions"
    return replace(loss, loss_class=cap, at_most=None, missing=(*loss.missing, better))


def _consistent(loss: Loss, partition: PartitionEvidence) -> Loss:
    """A proof that a witness contradicts is none."""
    if loss.at_most is None or loss.at_least <= loss.at_most:
        return loss
    witness = max(partition.witnessed_ends, key=lambda seen: (seen.end, seen.source))
    doubt = f"an explanation why {witness.source} saw offset {witness.end}: it contradicts the proof ({loss.proof})"
    return replace(loss, loss_class=LossClass.UNKNOWN, at_most=None, missing=(*loss.missing, doubt), proof="")
