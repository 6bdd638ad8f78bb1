"""What a gather would see of each state of the small Kafka, and the worst and the best that may be behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from exhaustive.every_log import measured
from exhaustive.evidence_space import HEALTHY, partition
from exhaustive.small_kafka import Bounds, Copy, State, Step, behind_the_controller_s_back, holds
from kafka_recovery.decision.witnesses import Seen, with_witnesses
from kafka_recovery.domain.evidence import EpochEntry, Evidence, PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.history import BrokerStart, HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, LeaderEpoch, MetadataOffset, Offset, TopicId


class Visible(NamedTuple):
    """All that anybody can know of a state: who was in the ISR when, who is intact, and the logs of who answers."""

    steps: tuple[Step, ...]
    copies: tuple[Copy, ...]
    seen: tuple[int, int] | None
    epoch: int


Losses = dict[Visible, list[tuple[int, int]]]
"""For each copy what its election costs, of all states that look alike: the least of what was not lost before, and the
most of all that was ever acknowledged."""


def losses_behind(states: Iterable[State], *, fenced_answer: bool = False) -> Losses:
    """Of every state without a leader. `fenced_answer`: whom the controller has fenced lives, and is measured too."""
    losses: Losses = {}
    for found in states:
        if found.leader is not None:
            continue
        state = found
        if fenced_answer:
            state = found._replace(copies=tuple(sorted(copy._replace(alive=True) for copy in found.copies)))
        visible = _visible(state)
        lost = sorted((_shown(copy), *_lost(state, copy)) for copy in state.copies)
        known = losses.setdefault(visible, [(by_this, in_all) for _, by_this, in_all in lost])
        for place, (_, by_this, in_all) in enumerate(lost):
            least, most = known[place]
            known[place] = min(least, by_this), max(most, in_all)
    return losses


def _lost(state: State, copy: Copy) -> tuple[int, int]:
    """By this election, and in all."""
    by_this = sum(not holds(copy.log, record) for record in state.acknowledged)
    return by_this, by_this + sum(not holds(copy.log, record) for record in state.lost_before)


def _visible(state: State) -> Visible:
    # The epoch tells only whether somebody led since the look.
    epoch = state.epoch if state.seen else 0
    return Visible(state.steps, tuple(sorted(map(_shown, state.copies))), state.seen, epoch)


def _shown(copy: Copy) -> Copy:
    """Nobody sees the log of who is away."""
    return copy if copy.alive else copy._replace(fresh=0, log=())


class Overthrown(NamedTuple):
    """What is seen while a leader goes on that the controller has fenced: `told` are the copies that follow nobody."""

    visible: Visible
    told: tuple[int, ...]


def losses_beside_an_old_leader(states: Iterable[State], bounds: Bounds) -> dict[Overthrown, list[int]]:
    """The most acknowledged records that each copy lacks who was told, once the old leader has done what it can."""
    worst: dict[Overthrown, list[int]] = {}
    for state in states:
        followers = [place for place, copy in enumerate(state.copies) if copy.alive and not copy.leads]
        if state.leader is None:
            continue
        for told in (told for size in range(1, len(followers) + 1) for told in combinations(followers, size)):
            deaf = tuple(c._replace(alive=False) if n in told else c for n, c in enumerate(state.copies))
            later = behind_the_controller_s_back(state._replace(copies=tuple(sorted(deaf))), bounds)
            acknowledged = {after.acknowledged for after in later}
            lost = [max(sum(not holds(state.copies[n].log, r) for r in some) for some in acknowledged) for n in told]
            for last, copy in enumerate(state.copies):
                if copy.in_isr and last not in told:
                    seen = Overthrown(_fenced_but_for(last, state), told)
                    worst[seen] = [max(both) for both in zip(lost, worst.get(seen, lost), strict=True)]
    return worst


def _fenced_but_for(last: int, state: State) -> Visible:
    """The controller has taken all others out of the ISR."""
    if sum(copy.in_isr for copy in state.copies) == 1:
        return Visible(state.steps, state.copies, None, 0)
    copies = tuple(copy._replace(was_in=copy.was_in << 1 | (n == last)) for n, copy in enumerate(state.copies))
    return Visible((*state.steps, Step(state.min_isr, False)), copies, None, 0)


AS_OF = MetadataOffset(100)
CLUSTER = replace(HEALTHY, as_of=AS_OF)


def evidence(visible: Visible) -> PartitionEvidence:
    """The same as the engine gets it; broker ids are places in `copies`."""
    ids = [BrokerId(place) for place in range(len(visible.copies))]
    copies = list(zip(ids, visible.copies, strict=True))
    ages = reversed(range(len(visible.steps)))
    members = [tuple(id for id, copy in copies if copy.was_in >> age & 1) for age in ages]
    shown = partition(0, [Replica(id, _log(copy) if copy.alive else None) for id, copy in copies], isr=members[-1])
    if visible.seen is not None:
        shown = _with_what_was_seen(replace(shown, leader_epoch=LeaderEpoch(visible.epoch)), *visible.seen)
    steps = tuple(
        HistoryStep(MetadataOffset(place), None, shown.leader_epoch, tuple(ids), isr, None, step.min_isr, step.unclean)
        for place, (isr, step) in enumerate(zip(members, visible.steps, strict=True), 1)
    )
    starts = [BrokerStart(id, BrokerEpoch(0)) for id in ids]
    starts += [BrokerStart(id, BrokerEpoch(AS_OF - 1)) for id, copy in copies if not copy.intact]
    return replace(shown, history=PartitionHistory(TopicId(shown.topic_id), AS_OF, steps, tuple(starts)))


def _with_what_was_seen(partition: PartitionEvidence, epoch: int, end: int) -> PartitionEvidence:
    memory = {partition.id: Seen(partition.topic_id, LeaderEpoch(epoch), Offset(end), "an earlier look")}
    (shown,) = with_witnesses(Evidence(HEALTHY, (partition,)), memory).partitions
    return shown


def _log(copy: Copy) -> ReplicaLog:
    written = [(epoch, copy.log.index(epoch)) for epoch in sorted(set(copy.log))]
    entries = [*written, *([(copy.fresh, len(copy.log))] if copy.fresh else [])]
    return measured(0, len(copy.log), tuple(EpochEntry(LeaderEpoch(e), Offset(o)) for e, o in entries))
