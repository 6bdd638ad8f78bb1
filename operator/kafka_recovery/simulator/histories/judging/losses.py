"""What an election may cost: its class, the number that goes with it, and what they stand on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision, Loss
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Asked, Copy, Held, Looked, is_engine
from kafka_recovery.simulator.histories.findings import Broken, Examined, unless
from kafka_recovery.simulator.histories.scenario import Scenario
from kafka_recovery.simulator.model.log import RecordId


def loss_stays_in_its_class(story: Chronicle, scenario: Scenario) -> Examined:
    """On true logs `Lossless` loses nothing acknowledged with acks=all, `Bounded` at most its bound.

    KIP-966's LeaderCompleteness, for each leader that an engine had elected and proved something of. Acknowledged by
    whoever and whenever: also by the leader who was overthrown and does not know it yet. A class stands on copies that
    follow nobody older, so no such leader can have enough of them left to acknowledge anything. A class other than
    `Unknown` counts as its number where it has one, and as no loss at all where it has none. Records that the new
    leader held at the last look, and does not hold any more, its disk has lost since: no class speaks of that.
    """
    for held, asked, request, decision in _elected_as_planned(story):
        loss = decision.loss
        if loss is None or loss.loss_class is LossClass.UNKNOWN:
            continue
        seen = _records_at_the_last_look(story, asked, request)
        later = tuple(record for record in story.lost_later(held) if record not in seen)
        lost = (*(record for record in held.lost if record not in seen), *later)
        yield unless(
            len(lost) <= (loss.at_most or 0),
            held.at,
            f"{held.by} elected broker {held.leader} for {request.id} as {loss.loss_class}, at most {loss.at_most} "
            f"records lost; its log lacks {len(lost)} acknowledged ones ({_some(lost)}; {len(later)} of them "
            f"acknowledged later by the leader it overthrew). Proof: {loss.proof}",
        )


def class_has_its_number(story: Chronicle, scenario: Scenario) -> Examined:
    """Every election says what it costs: `Lossless` at most 0, `Bounded` a number, `Unknown` none."""
    for kept, plan in story.plans():
        for decision in plan.decisions:
            loss = decision.loss
            if decision.leader is not None and loss is None:
                yield Broken(kept.at, f"plan {kept.digest[:8]} elects {decision.id} and says nothing of what it costs")
            elif loss is not None:
                text = f"plan {kept.digest[:8]} calls {decision.id} {loss.loss_class}, at most {loss.at_most}"
                yield unless(_fits(loss), kept.at, text)


def class_is_proven(story: Chronicle, scenario: Scenario) -> Examined:
    """A promise about losses needs a history, and a proof."""
    for kept, plan in story.plans():
        for decision in plan.decisions:
            if decision.loss is not None and decision.loss.loss_class is not LossClass.UNKNOWN:
                text = f"plan {kept.digest[:8]} calls {decision.id} {decision.loss.loss_class} without any proof"
                yield unless(scenario.knows_history and bool(decision.loss.proof), kept.at, text)


def at_least_is_lost(story: Chronicle, scenario: Scenario) -> Examined:
    """`at_least` is no more than was ever committed beyond the chosen log's end: it is said to be lost for certain."""
    for kept, plan in story.plans():
        for decision in plan.decisions:
            if decision.leader is None or decision.loss is None or scenario.witnessed is None:
                continue
            seen = next(partition for partition in plan.evidence.partitions if partition.id == decision.id)
            chosen = seen.replica(decision.leader)
            if chosen is None or chosen.log is None or not seen.witnessed_ends:
                continue
            committed = story.committed.get((decision.id, decision.topic_id), 0)
            lost = max(0, max(witness.end for witness in seen.witnessed_ends) - chosen.log.end)
            text = f"plan {kept.digest[:8]} says that {decision.id} loses at least {decision.loss.at_least} records by"
            text = f"{text} broker {decision.leader}, whose log ends at {chosen.log.end}; {committed} were committed"
            right = decision.loss.at_least == lost <= max(0, committed - chosen.log.end)
            yield unless(right, kept.at, f"{text}, and witnesses saw {lost} beyond it")


def lacks_are_true(story: Chronicle, scenario: Scenario) -> Examined:
    """What another replica is said to hold and the chosen one to lack is the true difference of their logs.

    KIP-966's LogMatching is what lets vectors tell it. Where one could not be read, no more than the truth is said.
    """
    for kept, plan in story.plans():
        looked = next(look for look in reversed(story.looked) if look.process == kept.process and look.at <= kept.at)
        for decision in plan.decisions:
            if decision.leader is None or decision.loss is None:
                continue
            said = {lack.broker: lack for lack in decision.loss.lacks}
            seen = next(partition for partition in plan.evidence.partitions if partition.id == decision.id)
            chosen = _measured(looked, seen, decision.leader)
            for replica in seen.replicas:
                other = _measured(looked, seen, replica.broker)
                if chosen is None or other is None or replica.broker == decision.leader:
                    continue
                told = said[replica.broker].records if replica.broker in said else 0
                first = said[replica.broker].from_offset if replica.broker in said else None
                lacking = _lacking(chosen, other)
                known = all(r and r.log and r.log.epochs is not None for r in (replica, seen.replica(decision.leader)))
                right = told == len(lacking) and first == (lacking[0] if lacking else None)
                text = (
                    f"plan {kept.digest[:8]} says that broker {decision.leader} lacks {told} records of {decision.id}"
                )
                text = f"{text} from {first} on that broker {replica.broker} holds; those are {len(lacking)}"
                yield unless(right if known else told <= len(lacking), kept.at, f"{text}, from {lacking[:1]} on")


def _measured(looked: Looked, seen: PartitionEvidence, broker: BrokerId) -> Copy | None:
    """A replica's true log, if it is the one that was measured: an old leader may go on writing meanwhile."""
    copy, replica = looked.copies.get((seen.id, broker)), seen.replica(broker)
    if copy is None or replica is None or replica.log is None:
        return None
    return copy if (copy.start, copy.end) == (replica.log.start, replica.log.end) else None


def _lacking(chosen: Copy, other: Copy) -> list[int]:
    """Offsets at which the other log holds a record that the chosen one does not hold there."""
    mine, theirs = _records(chosen), _records(other)
    return [offset for offset, record in theirs.items() if mine.get(offset) != record]


def _records(copy: Copy) -> dict[int, tuple[int, str, int]]:
    return {
        batch.first + index: (batch.epoch, batch.producer, batch.sequence + index)
        for batch in copy.batches
        for index in range(batch.records)
        if batch.first + index >= copy.start
    }


def _fits(loss: Loss) -> bool:
    match loss.loss_class:
        case LossClass.LOSSLESS:
            return loss.at_most == 0 and loss.at_least == 0
        case LossClass.BOUNDED:
            return loss.at_most is not None and loss.at_least <= loss.at_most
        case LossClass.UNKNOWN:
            return loss.at_most is None


def _records_at_the_last_look(story: Chronicle, asked: Asked, request: ElectionRequest) -> frozenset[RecordId]:
    """What the designated leader held when its process looked for the last time.

    Copies are noted when a look ends. A disk that was lost between its broker's answer and that moment held what an
    earlier look noted, if that ends where the answer says.
    """
    looks = list(story.looks(asked, request.id))
    seen = next((look.partition(request.id) for look in looks), None)
    replica = seen.replica(request.designated) if seen else None
    told = replica.log.end if replica and replica.log else None
    copies = [look.copies.get((request.id, request.designated)) for look in looks]
    copy = next((copy for copy in copies if copy and copy.end == told), copies[0] if copies else None)
    batches = copy.batches if copy else ()
    return frozenset(RecordId(b.producer, b.sequence + n) for b in batches for n in range(b.records))


def _elected_as_planned(story: Chronicle) -> Iterator[tuple[Held, Asked, ElectionRequest, Decision]]:
    """Elections that engines asked for and got, in the epoch they were planned in; Kafka holds later ones as well."""
    for held in story.held:
        if not is_engine(held.by):
            continue
        asked = next(
            (a for a in reversed(story.asked) if a.what == "elect" and a.process == held.by and a.at <= held.at
             and any(request.id == held.id for request in a.requests)), None,
        )  # fmt: skip
        if asked is None:
            continue
        request = next(request for request in asked.requests if request.id == held.id)
        stands_on = story.decision(asked, request)
        if stands_on and held.leader == request.designated and held.epoch == request.leader_epoch + 1:
            yield held, asked, request, stands_on[1]


def _some(records: Iterable[object]) -> str:
    listed = list(records)
    return ", ".join(map(str, listed[:3])) + (" …" if len(listed) > 3 else "")
