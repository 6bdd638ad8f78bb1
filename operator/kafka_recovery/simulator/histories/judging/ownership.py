"""Whose is the order in which a partition's replicas stand? One answer for every invariant, from the chronicle alone.

Kafka does not say: an order carries no name, and there is no compare-and-set. So the answer follows what can be known
from Kafka and from journals (docs/explanation/guarantees.md):

- An order that somebody sets is that somebody's, and is what has to stand from then on.
- While a plan's wave is begun in a journal and that plan is not finished there, an order like the plan's own is the
  plan's, whoever set it: until the plan has put the original one back, for then none of its own is left. Who sets it
  before anybody can have seen the original one again has set the plan's. What has to stand is what the plan took for
  the owner's: what somebody else had set since, and was replaced by an order like the plan's own, nobody can tell from
  what the plan replaced itself.
- A plan that sets its order says by its assignment what it takes for the owner's: what it could not have seen, because
  somebody else was faster, is gone; so is what another machine's plan had only borrowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.domain.plan import Decision
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import CREATION, Asked, Kept, Ordered, is_engine

Order = tuple[BrokerId, ...]

RACE = 0.2
"""Seconds in which somebody else's change may not have been visible to who asked."""


@dataclass(frozen=True, slots=True)
class Owned:
    """The order that stands, and who set it. `plan`: the digest of whose it is, None: its owner's own.

    `wanted`: what the owner wants to stand; `machine`: where the plan's journal lies; `meant_for`: what its request
    could not name, and met otherwise than it was meant for.
    """

    order: Order
    by: str
    wanted: Order
    plan: str | None = None
    machine: str | None = None
    meant_for: str = ""

    @property
    def told(self) -> str:
        """What a person has to know of it besides."""
        return f" (it was meant for {self.meant_for})" if self.meant_for else ""


def owned(story: Chronicle, id: TopicPartition, topic_id: TopicId | None, at: float) -> Owned | None:
    """Who owns the order of a partition at a moment; None: there is no such partition yet."""
    last: Owned | None = None
    for change in story.ordered:
        if (change.id, change.topic_id) == (id, topic_id) and change.at <= at:
            last = after(story, last, change)
    return last


def owned_before(story: Chronicle, change: Ordered) -> Owned:
    """Who owned the order that a change replaced."""
    last: Owned | None = None
    for earlier in story.ordered:
        if earlier is change:
            break
        if (earlier.id, earlier.topic_id) == (change.id, change.topic_id):
            last = after(story, last, earlier)
    return last or Owned(change.before, CREATION, change.before)


def after(story: Chronicle, before: Owned | None, change: Ordered) -> Owned:
    """Who owns the order once it has been changed."""
    wanted = change.before if before is None else before.wanted
    cause = cause_of(story, change)
    if cause is not None and cause.what == "designate":
        request = next(request for request in cause.requests if request.id == change.id)
        stands_on = story.decision(cause, request)
        plan = stands_on[0] if stands_on else "none"
        return Owned(change.after, change.by, request.assignment, plan, cause.machine, _meant_for(request, change))
    if cause is not None:
        right = somebody_interfered(story, change, cause.at - RACE) or _takes_back(story, cause, change)
        return Owned(change.after, change.by, change.after if right else wanted)
    for kept, decision in _begun(story, change):
        if not is_engine(change.by) and _knows_that_it_asked_nothing(story, kept, change.id):
            continue
        too_late = _over_at(story, kept) - change.at < RACE  # nobody looks for the plan's orders any more
        too_late = too_late or (not is_engine(change.by) and _is_put_back(story, kept.machine, change))
        if change.after == decision.order != decision.assignment and not too_late:
            return Owned(change.after, change.by, decision.assignment, kept.digest, kept.machine)
    return Owned(change.after, change.by, wanted if is_engine(change.by) else change.after)


def _meant_for(request: ElectionRequest, change: Ordered) -> str:
    """What a designation says nothing of, for Kafka's request has no field for it, and found changed when it came."""
    if request.topic_id != change.topic_id:
        return "a topic of that name that was deleted meanwhile"
    return "a partition that nobody was reassigning" if change.reassigned else ""


def _takes_back(story: Chronicle, cause: Asked, change: Ordered) -> bool:
    """Whether it is the order that this plan took for the owner's, and the plan's own order stood there.

    Another machine may have taken that one for the original meanwhile. Once its journal calls it finished, a plan has
    no order of its own any more; nor where somebody set the same one once the plan had put the original one back.
    """
    request = next(request for request in cause.requests if request.id == change.id)
    last = next((c for c in reversed(_of_it(story, change)) if c.at < change.at), None)
    if last is not None and not is_engine(last.by) and _is_put_back(story, cause.machine, last):
        return False
    own = any(
        kept.machine == cause.machine
        and change.before == decision.order == request.order
        and change.after == decision.assignment
        for kept, decision in _begun(story, change)
    )
    return own and any(
        (earlier.id, earlier.topic_id, earlier.after) == (change.id, change.topic_id, change.before)
        and (first := cause_of(story, earlier)) is not None
        and (first.what, first.machine) == ("designate", cause.machine)
        for earlier in story.ordered
        if earlier.at < change.at
    )


def _is_put_back(story: Chronicle, machine: str, before: Ordered) -> bool:
    """Whether the last that the engines of a machine did to an order, before this change of it, was to restore it.

    Not where the change came so soon that nobody can have seen the original order back, and the same engine has put it
    back once more: by all that it saw its own order stood there as before. Nor where nobody told who puts it back once
    more that it had been back: its own order stood there, by all that it and its journal know.
    """
    of_it = _of_it(story, before)
    earlier = [change for change in of_it if change.at < before.at and _is_of(story, change, machine)]
    if not earlier or (cause := cause_of(story, earlier[-1])) is None or cause.what != "restore":
        return False
    later = next((change for change in of_it if change.at > before.at), None)
    if later is None or later.after != earlier[-1].after:
        return True
    crossed = later.by == earlier[-1].by and before.at - earlier[-1].at < RACE
    return not (crossed or _puts_back_unaware(story, machine, earlier[-1], later))


def _puts_back_unaware(story: Chronicle, machine: str, restored: Ordered, again: Ordered) -> bool:
    """Whether who restores an order again can't know that it was restored before, by its process or by its journal.

    A process that is killed before it hears of that, or before it writes it down, takes with it what it knew: a journal
    tells which orders a plan has set, and not which of its requests took effect.
    """
    cause, id = cause_of(story, again), again.id
    if cause is None or (cause.what, cause.machine) != ("restore", machine):
        return False
    heard = any(
        (answered.process, answered.what) == (again.by, "restore") and id in answered.accepted
        for answered in story.answered
        if restored.at <= answered.at < again.at
    )
    seen = any(
        (shown.process, shown.id, shown.assignment) == (again.by, id, restored.after)
        for shown in story.shown
        if restored.at <= shown.at < again.at
    )
    written = any(
        kept.machine == machine and any(done.id == id and done.order_restored for done in kept.outcomes)
        for kept in story.kept
        if restored.at <= kept.at < again.at
    )
    return not (heard or seen or written)


def _of_it(story: Chronicle, change: Ordered) -> list[Ordered]:
    """All changes of that partition's order."""
    return [each for each in story.ordered if (each.id, each.topic_id) == (change.id, change.topic_id)]


def _is_of(story: Chronicle, change: Ordered, machine: str) -> bool:
    cause = cause_of(story, change)
    return cause is not None and cause.machine == machine


def cause_of(story: Chronicle, change: Ordered) -> Asked | None:
    """The engine's request behind a change of an order."""
    if not is_engine(change.by):
        return None
    for asked in reversed(story.asked):
        if asked.process != change.by or asked.at > change.at or asked.what in ("elect", "approve"):
            continue
        for request in asked.requests:
            wanted = request.assignment if asked.what == "restore" else request.order
            if request.id == change.id and change.after == wanted:
                return asked
    return None


def somebody_interfered(story: Chronicle, change: Ordered, since: float) -> bool:
    """Whether anybody but this engine altered the order since then, up to its own change."""
    return any(
        other.id == change.id and since <= other.at <= change.at and other.by != change.by for other in story.ordered
    )


def _begun(story: Chronicle, change: Ordered) -> Iterator[tuple[Kept, Decision]]:
    """The plans that have a wave with this partition begun and are not finished, with what each decided on it."""
    for kept in story.kept:
        if change.id in kept.wave and kept.at <= change.at <= _over_at(story, kept):
            for decision in story.plan(kept.digest).decisions:
                if (decision.id, decision.topic_id) == (change.id, change.topic_id):
                    yield kept, decision


def _knows_that_it_asked_nothing(story: Chronicle, begun: Kept, id: TopicPartition) -> bool:
    """Whether who began a wave ended it as well, and asked neither to set nor to restore this order meanwhile.

    An order like the plan's is somebody else's then. Another process would not know that nothing was asked; nor does
    one whose driver says no more than that the order was not set.
    """
    ended = begun.process, begun.digest, begun.name.replace("-started", "-ended")
    until = next((kept.at for kept in story.kept if (kept.process, kept.digest, kept.name) == ended), None)
    return until is not None and not any(
        asked.process == begun.process and asked.what in ("designate", "restore") and begun.at <= asked.at <= until
        for asked in story.asked
        if any(request.id == id for request in asked.requests)
    )


def _over_at(story: Chronicle, begun: Kept) -> float:
    """When a machine's journal says that a plan is finished; never, if it does not say so."""
    plan = begun.machine, begun.digest, "finished.json"
    return next((k.at for k in story.kept if (k.machine, k.digest, k.name) == plan), float("inf"))
