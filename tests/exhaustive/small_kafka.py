"""All that can become of one small partition: a step of Kafka's replication, taken from every state that is reached.

It remembers what a proof is about (which records were acknowledged and not lost by an earlier election) beside what a
proof stands on (the ISR's history, whose copy is intact). Replicas are alike: they are kept sorted, so that states
which differ by their names only are one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

NEVER = -1


class Copy(NamedTuple):
    """One replica. `was_in`: one bit for each step of the history, the newest lowest: whether it was in the ISR.

    `fetched`: from where it last asked its leader. `fresh`: the epoch in which it leads and has written nothing yet.
    `log`: the epoch of each record.
    """

    was_in: int
    in_isr: bool
    leads: bool
    alive: bool
    intact: bool
    fetched: int
    fresh: int
    log: tuple[int, ...]


class Step(NamedTuple):
    """What held from then on, beside who was in the ISR."""

    min_isr: int
    unclean: bool


Record = tuple[int, int]
"""Its offset and its epoch: an epoch has one leader, so this names it."""


NONE: frozenset[Record] = frozenset()


class State(NamedTuple):
    """The partition. `seen`: epoch and high watermark that somebody once saw its leader at.

    `lost_before`: acknowledged since the history began, and lost by an unclean election in it.
    """

    epoch: int
    high_watermark: int
    began_at: int
    min_isr: int
    steps: tuple[Step, ...]
    acknowledged: frozenset[Record]
    lost_before: frozenset[Record]
    seen: tuple[int, int] | None
    copies: tuple[Copy, ...]

    @property
    def leader(self) -> Copy | None:
        """Who leads, if anybody does."""
        return next((copy for copy in self.copies if copy.leads), None)


@dataclass(frozen=True)
class Bounds:
    """How far it goes. `min_isrs`: what somebody may set; the first one holds at first. `looks`: somebody looks, once.

    `unclean_at_once`: Kafka itself elects whoever lives when nobody of the ISR does; else somebody may, later.
    """

    replicas: int
    records: int
    epochs: int
    steps: int
    min_isrs: tuple[int, ...]
    looks: bool = False
    unclean_at_once: bool = False
    hosts_crash: bool = True

    def may_elect(self, state: State) -> bool:
        """Nobody is elected in the last epoch: that is one without a leader."""
        return state.epoch + 1 < self.epochs


def first_state(bounds: Bounds) -> State:
    """All replicas are in sync and hold nothing."""
    follower = Copy(1, True, False, True, True, NEVER, 0, ())
    copies = (*(follower,) * (bounds.replicas - 1), follower._replace(leads=True, fresh=1))
    return State(1, 0, 0, bounds.min_isrs[0], (Step(bounds.min_isrs[0], False),), NONE, NONE, None, copies)


def every_state(bounds: Bounds) -> Iterator[State]:
    """Each state that can be reached, once."""
    known, new = {first_state(bounds)}, [first_state(bounds)]
    while new:
        state = new.pop()
        yield state
        for after in following(state, bounds):
            if after not in known and len(after.steps) <= bounds.steps:
                known.add(after)
                new.append(after)


def walk(bounds: Bounds, chance: random.Random, events: int) -> Iterator[State]:
    """So many states, each one of those that may follow the one before."""
    state = first_state(bounds)
    for _ in range(events):
        state = chance.choice([after for after in following(state, bounds) if after != state] or [state])
        yield state


def following(state: State, bounds: Bounds) -> Iterator[State]:
    """What comes of one event."""
    leader, may_elect = state.leader, bounds.may_elect(state)
    for copy in set(state.copies):
        others = _without(state.copies, copy)
        if copy.alive:
            yield from _stops(state, copy, others, bounds)
        else:
            yield from _starts(state, copy, others, may_elect)
        if leader is None and copy.alive and may_elect:
            yield _elected(state, copy, others, unclean=True)
        elif leader is not None and copy.alive and not copy.leads:
            yield from _follows(state, copy, others, leader)
            if copy.in_isr and may_elect:  # somebody moves leadership there
                yield _elected(state, copy, (*_without(others, leader), leader._replace(leads=False)))
    if leader is not None:
        yield from _goes_on(state, leader, bounds)
    for min_isr in bounds.min_isrs:
        if min_isr != state.min_isr:
            yield _stepped(state._replace(min_isr=min_isr), state.copies)


def _goes_on(state: State, leader: Copy, bounds: Bounds) -> Iterator[State]:
    if len(leader.log) < bounds.records:
        yield _written(state, leader)
    if bounds.looks and state.seen is None:
        yield state._replace(seen=(state.epoch, state.high_watermark))


def _written(state: State, leader: Copy) -> State:
    longer = leader._replace(log=(*leader.log, state.epoch), fresh=0)
    return _settled(state, (*_without(state.copies, leader), longer))


def behind_the_controller_s_back(state: State, bounds: Bounds) -> Iterator[State]:
    """What a leader can still do whom the controller has overthrown: write, and feed who has not heard of that."""
    known, new = {state}, [state]
    while new:
        state = new.pop()
        yield state
        leader = state.leader
        assert leader is not None
        fed = (c for c in set(state.copies) if c.alive and not c.leads)
        after = [_fetched(state, copy, _without(state.copies, copy), leader) for copy in fed]
        if len(leader.log) < bounds.records:
            after.append(_written(state, leader))
        new.extend(set(after) - known)
        known.update(after)


def _follows(state: State, copy: Copy, others: tuple[Copy, ...], leader: Copy) -> Iterator[State]:
    """It fetches; the leader changes the ISR at will."""
    yield _fetched(state, copy, others, leader)
    if copy.in_isr:
        yield _stepped(state, (*others, copy._replace(in_isr=False)))
    elif copy.fetched >= max(state.high_watermark, state.began_at):  # KAFKA-7128
        yield _stepped(state, (*others, copy._replace(in_isr=True, intact=True)))


def _fetched(state: State, copy: Copy, others: tuple[Copy, ...], leader: Copy) -> State:
    """It truncates, says where it is, and gets a record (KIP-101)."""
    common = _same_up_to(copy.log, leader.log)
    return _settled(state, (*others, copy._replace(log=leader.log[: common + 1], fetched=common, fresh=0)))


def _stops(state: State, copy: Copy, others: tuple[Copy, ...], bounds: Bounds) -> Iterator[State]:
    """The controller fences it: out of the ISR, but for the last member. A host that crashes takes records along."""
    stays = copy.in_isr and not any(other.in_isr for other in others)
    heirs = {other for other in others if other.in_isr and other.alive}
    unclean_heirs = {other for other in others if other.alive and bounds.unclean_at_once}
    whole = Copy(copy.was_in, stays, False, False, copy.intact, NEVER, copy.fresh, copy.log)
    left = range(len(copy.log)) if bounds.hosts_crash else ()
    crashed = (whole._replace(intact=False, fresh=0, log=copy.log[:end]) for end in left)
    for dead in (whole, *crashed):
        if not copy.leads:
            yield _stepped(state, (*others, dead))
        elif not heirs:
            yield _without_leader(state, (*others, dead))
        if copy.leads and bounds.may_elect(state):
            for heir in heirs or unclean_heirs:
                yield _elected(state, heir, (*_without(others, heir), dead), unclean=not heirs)


def _starts(state: State, copy: Copy, others: tuple[Copy, ...], may_elect: bool) -> Iterator[State]:
    """The last member of the ISR leads again, whatever it lost meanwhile."""
    back = copy._replace(alive=True)
    if not copy.in_isr:
        yield _settled(state, (*others, back))
    elif may_elect:
        yield _elected(state, back, others, unclean=not copy.intact)


def _elected(state: State, leader: Copy, others: tuple[Copy, ...], *, unclean: bool = False) -> State:
    """What an unclean leader does not hold is lost by this election, and by no later one."""
    epoch = state.epoch + 1
    new = state._replace(epoch=epoch, high_watermark=0, began_at=len(leader.log))
    if unclean:
        held = frozenset(record for record in state.acknowledged if holds(leader.log, record))
        new = new._replace(acknowledged=held, lost_before=state.lost_before | (state.acknowledged - held))
    leads = leader._replace(in_isr=True, leads=True, intact=True, fetched=NEVER, fresh=epoch)
    following = (other._replace(fetched=NEVER, in_isr=other.in_isr and not unclean) for other in others)
    return _stepped(new, (*following, leads), unclean=unclean)


def _without_leader(state: State, copies: tuple[Copy, ...]) -> State:
    resting = tuple(copy._replace(fetched=NEVER) for copy in copies)
    return _stepped(state._replace(epoch=state.epoch + 1, high_watermark=0, began_at=0), resting)


def _stepped(state: State, copies: tuple[Copy, ...], *, unclean: bool = False) -> State:
    """Write it into the history if it is a change. Whenever all are in sync the history begins anew."""
    step = Step(state.min_isr, unclean)
    if all(copy.in_isr for copy in copies) and not unclean:
        return _settled(
            state._replace(steps=(step,), lost_before=NONE), tuple(copy._replace(was_in=1) for copy in copies)
        )
    if not unclean and state.steps[-1].min_isr == state.min_isr and all(c.in_isr == c.was_in & 1 for c in copies):
        return _settled(state, copies)
    moved = tuple(copy._replace(was_in=copy.was_in << 1 | copy.in_isr) for copy in copies)
    return _settled(state._replace(steps=(*state.steps, step)), moved)


def _settled(state: State, copies: tuple[Copy, ...]) -> State:
    """What the whole ISR holds is below the high watermark; that is acknowledged if the ISR is large enough."""
    high_watermark, acknowledged = state.high_watermark, state.acknowledged
    leader = next((copy for copy in copies if copy.leads), None)
    if leader is not None:
        isr = [copy for copy in copies if copy.in_isr]
        reached = min(len(leader.log) if copy.leads else max(copy.fetched, 0) for copy in isr)
        high_watermark = max(high_watermark, reached)
        if len(isr) >= min(state.min_isr, len(copies)):
            acknowledged = acknowledged.union(enumerate(leader.log[:high_watermark]))
    return State(
        state.epoch, high_watermark, state.began_at, state.min_isr, state.steps, acknowledged, state.lost_before,
        state.seen, tuple(sorted(copies)),
    )  # fmt: skip


def holds(log: tuple[int, ...], record: Record) -> bool:
    """Whether this log has that record."""
    offset, epoch = record
    return offset < len(log) and log[offset] == epoch


def _same_up_to(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Where they part, or the shorter one ends."""
    shorter = min(len(one), len(other))
    return next((offset for offset in range(shorter) if one[offset] != other[offset]), shorter)


def _without(copies: tuple[Copy, ...], one: Copy) -> tuple[Copy, ...]:
    place = copies.index(one)
    return copies[:place] + copies[place + 1 :]
