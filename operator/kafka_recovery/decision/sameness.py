"""Whether a plan made anew says the same as one that somebody was asked to approve."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from kafka_recovery.decision.attesting import given, standing
from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.reason import Reason

_COMPARED = {
    "topic_id": "another topic of that name",
    "verdict": "the verdict",
    "leader_epoch": "the leader epoch",
    "assignment": "the assignment",
    "leader": "the leader to elect",
    "order": "the order of the other replicas",
    "log_end": "the log end of the leader to elect",
    "rule": "the policy's rule",
    "candidate_order": "the candidate order",
}
"""What a person approves of one partition. Sentences about brokers that answered a little later are not part of it."""


def _wants_approval(decision: Decision) -> bool:
    return decision.needs_approval


def difference(planned: Plan, now: Plan, wants_approval: Callable[[Decision], bool] = _wants_approval) -> Reason | None:
    """The first election of `planned` that an approval would not cover as it is `now`; None if there is none.

    `now` may hold other partitions: nobody approves what is not elected. `wants_approval`: whether a person has to say
    yes, the strictest of the plan and of what is allowed.
    """
    if attested := _otherwise_attested(planned, now):
        return attested
    after = {decision.id: decision for decision in now.decisions}
    for id, old in planned.elections.items():
        new = after.get(id)
        if new is None:
            return Reason("PlanOutdated", f"{id} can't be seen any more")
        for field, word in _COMPARED.items():
            was, now_is = getattr(old, field), getattr(new, field)
            if was != now_is:
                return Reason("PlanOutdated", f"{id}: {word} was {_plain(was)}, now it is {_plain(now_is)}")
        # Nobody needed any more: a plan made anew waits for nobody. If a person has to say yes all the same, it holds.
        if (new.needs_approval and not old.needs_approval) or (wants_approval(old) and not wants_approval(new)):
            return Reason("PlanOutdated", f"{id}: who has to approve was {old.approval}, now it is {new.approval}")
        if _cost(old) != _cost(new) or _surely_lost(old) < _surely_lost(new):
            return Reason("PlanOutdated", f"{id}: its loss was {_told(old)}, now it is {_told(new)}")


def _otherwise_attested(planned: Plan, now: Plan) -> Reason | None:
    """What people attest is another thing now, or counted and does not count any more.

    What did not count is not said to count now: fewer partitions were looked at, and its broker may answer for others.
    """
    was, is_now = given(planned.evidence.cluster), given(now.evidence.cluster)
    if was != is_now:
        return Reason("PlanOutdated", f"what is attested was {_attested(was)}, now it is {_attested(is_now)}")
    counts = {each.broker for each in standing(now.evidence.cluster)}
    lapsed = {each.broker for each in standing(planned.evidence.cluster)} - counts
    void = next((each.void for each in now.evidence.cluster.attestations if each.broker in lapsed), None)
    return void and Reason("PlanOutdated", f"an attestation does not count any more: {void.message}")


def _attested(given: Sequence[Attestation]) -> str:
    said = (f"broker {each.broker}: {each.witness} (by {each.by}, until {each.expires:%H:%M:%S} UTC)" for each in given)
    return "; ".join(said) or "nothing"


def changes(before: Plan, after: Plan) -> str:
    """How another plan is another one, in a few words; empty: it elects the same leaders at the same cost."""
    old, new = before.elections, after.elections
    both = [id for id in old if id in new]
    leaders = [id for id in both if old[id].leader != new[id].leader]
    costs = [id for id in both if id not in leaders and _cost(old[id]) != _cost(new[id])]
    told = {
        "added": [id for id in new if id not in old],
        "removed": [id for id in old if id not in new],
        "with another leader": leaders,
        "with another loss": costs,
    }
    parts = [f"{len(ids)} {word} ({_first(ids, old, new)})" for word, ids in told.items() if ids]
    return ", ".join(parts)


def _first(
    ids: Sequence[TopicPartition], old: Mapping[TopicPartition, Decision], new: Mapping[TopicPartition, Decision]
) -> str:
    id = ids[0]
    more = f", and {len(ids) - 1} more" if len(ids) > 1 else ""
    if id in old and id in new and old[id].leader != new[id].leader:
        return f"{id}: broker {old[id].leader} before, {new[id].leader} now{more}"
    return f"{id}{more}"


def _cost(decision: Decision) -> Hashable:
    loss = decision.loss
    return loss and (loss.loss_class, loss.at_most, loss.lacks)


def _surely_lost(decision: Decision) -> int:
    """What is not seen any more to be lost for certain was still approved."""
    return decision.loss.at_least if decision.loss else 0


def _told(decision: Decision) -> str:
    loss = decision.loss
    if loss is None:
        return "none to speak of"
    lacked = sum(lack.records for lack in loss.lacks)
    bound = "" if loss.at_most is None else f", at most {loss.at_most} records"
    bound += f", at least {loss.at_least} records" if loss.at_least else ""
    return f"{loss.loss_class}{bound}" + (f", {lacked} records of other replicas" if lacked else "")


def _plain(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
