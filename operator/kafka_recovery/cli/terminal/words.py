"""Evidence, decisions and outcomes in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from kafka_recovery.domain.counts import Counts, Whereabouts, elected_uncleanly, is_led_by_member
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision, Loss, Plan, Verdict


def rack(replica: Replica, cluster: ClusterState) -> str:
    """The broker's rack, or a dash."""
    broker = cluster.broker(replica.broker)
    return (broker.rack if broker else None) or "-"


def role(replica: Replica, partition: PartitionEvidence) -> str:
    """What the controller's metadata says about the replica."""
    roles = [
        "leader" if replica.broker == partition.leader else "",
        "ISR" if replica.broker in partition.isr else "",
        "ELR" if replica.broker in (partition.elr or ()) else "",
        "last known ELR" if replica.broker in (partition.last_known_elr or ()) else "",
    ]
    return ", ".join(word for word in roles if word) or "-"


def loss_class(loss: Loss | None) -> str:
    """The loss class with its bounds, short enough for a column."""
    if loss is None:
        return "-"
    bounds = [f"at least {loss.at_least}"] if loss.at_least else []
    if loss.loss_class is LossClass.BOUNDED and loss.at_most is not None:
        bounds.append(f"at most {loss.at_most}")
    if visibly := lacking(loss):
        bounds.append(f"visibly lacking {records(visibly)}")
    return f"{loss.loss_class}{' (' + ', '.join(bounds) + ')' if bounds else ''}"


def empty(end: str) -> str:
    """A log without records. `end`: the offset its next record would have, which is no number of records."""
    return "EMPTY" if end == "0" else f"EMPTY (next offset {end})"


def lacking(loss: Loss) -> int:
    """The most records that a measured replica holds and the chosen one does not."""
    return max((lack.records for lack in loss.lacks), default=0)


def records(count: int) -> str:
    """So many records."""
    return f"{count} record{'' if count == 1 else 's'}"


def partitions(count: int) -> str:
    """So many partitions; a dash for none."""
    return f"{count:,} partition{'' if count == 1 else 's'}" if count else "-"


def why(decision: Decision, leads: BrokerId | None = None) -> str:
    """The reason's word; of an election, what it chose between, or that a person chose; else who `leads` already."""
    if decision.reason is not None:
        return decision.reason.code
    if decision.verdict is Verdict.NOTHING and leads is not None:
        return f"broker {leads} leads it already"
    if decision.verdict is not Verdict.ELECT:
        return "-"
    if decision.is_worse_than_best:
        return f"named; {decision.candidate_order} says {decision.ranking[0]}"
    if len(decision.ranking) == 1:
        return "the only one that may lead"
    return f"first of {len(decision.ranking)} by {decision.candidate_order}"


def waves(plan: Plan) -> str:
    """How the elections are spread over waves."""
    sizes = [len(wave) for wave in plan.waves]
    if not sizes:
        return "Waves: none, there is nothing to elect."
    shown = ", ".join(str(size) for size in sizes[:8]) + (", …" if len(sizes) > 8 else "")
    verified = "" if len(sizes) == 1 else ": each begins once the one before is verified"
    return f"Waves: {len(sizes)} ({shown} partition{'' if sizes == [1] else 's'}){verified}."


DELETES = "Deletes: a broker that runs deletes once another one leads; one that is off, once it is started again."


def verdicts(plan: Plan) -> str:
    """How many partitions got which verdict."""
    counted = Counter(decision.verdict for decision in plan.decisions)
    missing = len(plan.evidence.missing)
    parts = [f"{counted[verdict]} {verdict}" for verdict in Verdict if counted[verdict]]
    return "Verdicts: " + (", ".join(parts + ([f"{missing} not found"] if missing else [])) or "no partition") + "."


def loss_classes(plan: Plan) -> str:
    """How many elections have which loss class."""
    counted = Counter(d.loss.loss_class if d.loss else LossClass.UNKNOWN for d in _elections(plan))
    parts = [f"{counted[kind]} {kind}" for kind in LossClass if counted[kind]]
    return "Loss class: " + (", ".join(parts) or "nothing is elected") + "."


def approval(decision: Decision) -> str:
    """Who says yes to the decision."""
    if decision.verdict is not Verdict.ELECT:
        return "-"
    return "needed" if decision.needs_approval else "by policy"


def needs_approval(plan: Plan) -> bool:
    """Whether a person has to say yes to any part of the plan."""
    return any(decision.needs_approval for decision in plan.decisions)


_PLACES = {
    Whereabouts.AWAITING_APPROVAL: "awaiting approval",
    Whereabouts.WAITING: "waiting",
    Whereabouts.REFUSED: "refused",
    Whereabouts.FAILED: "failed",
    Whereabouts.UNKNOWN: "unknown",
}


def counts(found: Counts) -> str:
    """Where all partitions are; places where none is are left out, but for the recovered."""
    others = [f", {found[place]} {word}" for place, word in _PLACES.items() if found[place]]
    without = f"; {found.offline} without a leader that was seen to answer" if found.offline else ""
    return f"{found[Whereabouts.RECOVERED]} of {found.total} recovered{''.join(others)}{without}"


def elected(outcomes: Sequence[PartitionOutcome]) -> str:
    """Who was elected how: by an unclean election, or by Kafka from those that were in sync."""
    by = Counter(done.outcome for done in outcomes)
    unclean, members = sum(map(elected_uncleanly, outcomes)), sum(map(is_led_by_member, outcomes))
    below = by[Outcome.RECOVERED_UNDER_MIN_ISR]
    parts = [f"Elected uncleanly: {partitions(unclean)}."] if unclean else []
    if members:
        parts.append(f"{members} led by a member of the ISR or ELR, after an election that was, or may be, unclean.")
    parts = parts or ["Elected uncleanly: none."]
    if by[Outcome.RECOVERED_CLEANLY]:
        parts.append(f"{by[Outcome.RECOVERED_CLEANLY]} had a leader without an unclean election.")
    if doubtful := by[Outcome.FAILED] + by[Outcome.IN_DOUBT]:
        parts.append(f"{doubtful} failed or are unknown: look who leads them.")
    if below:
        parts.append(
            f"{below} had fewer than min.insync.replicas in sync when it was verified: producers with acks=all fail "
            "there until enough followers are in sync again."
        )
    return " ".join(parts)


def copies(count: int) -> str:
    """So many copies of partitions."""
    return "copy" if count == 1 else f"{count:,} copies"


UNRESTORED = "its assignment order is not restored yet"
UNSEEN_ORDER = "nobody knows whether its assignment order is the original one"


def order_left(done: PartitionOutcome) -> str:
    """What is to be said of a partition's assignment order; nothing if it is the original one."""
    return {True: "", False: UNRESTORED, None: UNSEEN_ORDER}[done.order_restored]


def outcome(done: PartitionOutcome) -> str:
    """One partition's end as a sentence."""
    leads = f", broker {done.leader} leads" if done.leader is not None else ""
    end = f" with log end {done.log_end}" if done.leader is not None and done.log_end is not None else ""
    order = f"; {left}" if (left := order_left(done)) else ""
    return f"{done.id}: {done.outcome}{leads}{end}{order}" + (f" ({done.reason})" if done.reason else "")


def seconds(duration: timedelta) -> str:
    """A duration as people say it."""
    return f"{duration.total_seconds():g} s"


def _elections(plan: Plan) -> list[Decision]:
    return list(plan.elections.values())
