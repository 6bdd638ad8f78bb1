"""Marks of what a history contained, read from its chronicle: what no history reaches is promised by nobody.

Each is one named event; `MARKS` lists those that must turn up among the 500 histories of `make test`. Nothing in the
engine tells of them: they are what an outsider sees. Each reason why nobody is elected is a mark or in `NOT_DRAWN`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import LAST, Asked, Held, Looked, is_engine
from kafka_recovery.simulator.histories.judging.naive_order import best_first_of, firsts
from kafka_recovery.simulator.histories.judging.naive_refusals import alive
from kafka_recovery.simulator.histories.judging.on_disk import is_full
from kafka_recovery.simulator.histories.judging.ownership import RACE, Owned, after, cause_of, somebody_interfered
from kafka_recovery.simulator.histories.scenario import Kind, Scenario
from kafka_recovery.simulator.host.dialing import NAMELESS, SHARED
from kafka_recovery.simulator.host.weather import WireFault
from kafka_recovery.simulator.model.grants import Operation

GUARDS = (
    "NotRegistered", "Fenced", "BrokerUnreachable", "MetadataAgeUnknown", "BrokerCutOff",
    "LogDirOffline", "LogEndsContradict",
)  # fmt: skip
OBSTACLES = (
    "NoActiveController", "TooManyBrokersDown", "ReplicationFactorTooLow", "ReassignmentOngoing", "OldLeaderAnswers",
    "LiveReplicaUnmeasured", "ReplicaOnOldEpoch", "NoCandidate", "PartitionLimitReached", "ElectableBrokerReturning",
    "EvidenceTooOld", "AnswerIncomplete", "MetadataAgeUnknown", "PlanOutdated",
)  # fmt: skip
CHANGES = (
    "leader", "epoch", "topic", "assignment", "log", "better candidate", "leader may not lead", "clean member back",
)  # fmt: skip
REASONS = (
    "Recovered", "RecoveredUnderMinIsr", "RecoveredCleanly/AlreadyOnline",
    "Failed/UnexpectedLeader", "Failed/LeaderUnresponsive", "Refused/AwaitingApproval",
    "Refused/Interrupted", "Refused/Suspended", "Refused/ObserveOnly", "Refused/PlanOutdated", "Refused/Aborted",
    "Refused/EarlierWaveFailed", "Refused/EvidenceTooOld", "Refused/JournalUnwritable", "Recovered/MemberLeads",
    "Recovered/Recovered", "InDoubt/InDoubt",
)  # fmt: skip
EVENTS = (
    "an engine was killed in the midst of a wave",
    "an engine was killed between designation and election",
    "an engine was killed between election and restoring",
    "a wave of an earlier run was waited out",
    "a restore after a crash in doubt",
    "a second plan while the first is undone",
    "a request got no answer",
    "the canary died or did not verify",
    "a plan of several waves",
    "a plan that was made again by the same run",
    "an engine was stopped and went on",
    "an engine was stopped between its look and its election",
    "owners changed their minds during a run",
    "an election after owners had changed their minds",
    "a person said no",
    "a leader was elected whose volume was full",
    "equal copies of a tiered topic of which one begins earlier on its disk",
    "an election lost acknowledged records",
    "a class was proven and carried out",
    "a bound was proven",
    "a proven class met a loss that it allows",
    "an election after a minimum was raised that the last leader had not applied",
    "another than the designated one was elected",
    "an elected leader lost its leadership while it was verified",
    "another admin elected uncleanly during a run",
    "Kafka elected uncleanly by itself",
    "two logs of equal length and different records",
    "a log that starts after 0",
    "brokers of a release that lists no fenced ones",
    "two machines changed things at one time",
    "an order of somebody else met by a restore",
    "excuse: a change that could not be seen",
    "excuse: somebody had the plan's idea",
    "excuse: another machine's order was taken for the original",
    "a partition was without a leader when all was quiet",
    "a clean member was waited for",
    "patience ran out",
    "a run outlasted its time",
    "an election would have cost more than was planned",
    "the rule of a planned election was changed",
    "a leader was elected that nobody planned, instead of the planned one",
    "a leader was elected that nobody planned, before any election of an engine",
)
MARKS: tuple[str, ...] = (
    *EVENTS,
    *(f"guard: {code}" for code in GUARDS),
    *(f"forbidden: {code}" for code in OBSTACLES),
    *(f"the last look differs: {what}" for what in CHANGES),
    *(f"said: {reason}" for reason in REASONS),
    *(f"wire: {fault}" for fault in WireFault),
    *(f"wire: {fault}" for fault in (NAMELESS, SHARED, Kind.STALL)),
    f"wire: without {Operation.DESCRIBE}",
)
RARE = tuple(f"wire: without {right}" for right in Operation if right is not Operation.DESCRIBE)
"""Marks too rare for 500 histories: a test has a drawn history for each."""

UNDRAWN = (f"wire: {Kind.MISREPORT}, believed",)
"""Marks that no drawn history is known to reach: a test tells a scenario for each."""

NOT_DRAWN: Mapping[str, str] = MappingProxyType(
    {
        "AttestationEnded": "nobody attests anything in a history",
        "AttestedBrokerAnswers": "nobody attests anything in a history",
        "DesignatedLeaderRejected": "no policy of a history names leaders by hand",
        "NoRule": "the one rule of a history selects every topic",
        "EpochVectorUnreadable": "wants a broker that tells a log end and no epochs, with a rule that ranks by these",
        "OrderCannotBeSet": "no broker of a history is unregistered",
        "BrokerStopping": "wants a look within a controlled shutdown, which takes no time in Kafka's controller",
    }
)
"""Codes of refusals, of rules for replicas and of last looks that no drawn history reaches, and why."""


BEFORE_ANY = "before any election of an engine"
_OUTDATED = {
    " costs ": "an election would have cost more than was planned",
    "planned under rule": "the rule of a planned election was changed",
}
"""By the words in which an engine says what no outsider sees at a last look."""


def marks(story: Chronicle, scenario: Scenario) -> frozenset[str]:
    """The marks that a history reaches."""
    found = {
        *_crashes(story), *_doubts(story), *_plans(story, scenario), *_wishes(story), *_elections(story, scenario),
        *_evidence(story), *_orders(story), *_words(story), *_last_looks(story),
        *(f"wire: {fault}" for fault in story.struck),
        *(f"wire: without {right}" for right in story.kafka.grants.refused),
    }  # fmt: skip
    if any(paused for paused in story.paused):
        found.add("an engine was stopped and went on")
    for asked in story.requests("elect"):
        looks = [look.at for look in story.looked if look.process == asked.process and look.at <= asked.at]
        if any(p.process == asked.process and looks and looks[-1] <= p.at <= asked.at for p in story.paused):
            found.add("an engine was stopped between its look and its election")
    if scenario.within is not None and any(ran.ended > ran.timed_from + scenario.within for ran in story.ran):
        found.add("a run outlasted its time")
    return frozenset(found)


def _crashes(story: Chronicle) -> Iterator[str]:
    for ran in story.ran:
        if ran.report is not None or ran.sentence is not None or ran.error is not None:
            continue
        asked = {asked.what for asked in story.asked if asked.process == ran.process}
        mine = [kept.name for kept in story.kept if kept.process == ran.process]
        if sum(name.endswith("-started.json") for name in mine) > sum(name.endswith("-ended.json") for name in mine):
            yield "an engine was killed in the midst of a wave"
        if "designate" in asked and "elect" not in asked:
            yield "an engine was killed between designation and election"
        if "elect" in asked and "restore" not in asked:
            yield "an engine was killed between election and restoring"


def _doubts(story: Chronicle) -> Iterator[str]:
    if any(answered.doubtful for answered in story.answered):
        yield "a request got no answer"
    for ran in story.ran:
        waited = [waited.at for waited in story.waited if waited.process == ran.process]
        mine = [asked for asked in story.asked if asked.process == ran.process and asked.what != "approve"]
        if waited and all(asked.at > waited[0] for asked in mine):
            yield "a wave of an earlier run was waited out"
            if any(asked.what == "restore" for asked in mine):
                yield "a restore after a crash in doubt"
        plans = [kept for kept in story.kept if kept.process == ran.process and kept.name == "plan.json"]
        started = {kept.digest for kept in story.kept if kept.process == ran.process and kept.wave}
        if plans and started - {kept.digest for kept in plans}:
            yield "a second plan while the first is undone"
        if len(plans) > 1:
            yield "a plan that was made again by the same run"


def _plans(story: Chronicle, scenario: Scenario) -> Iterator[str]:
    for _, plan in story.plans():
        if len(plan.waves) > 1:
            yield "a plan of several waves"
        for decision in plan.decisions:
            yield from (f"guard: {rejection.reason.code}" for rejection in decision.rejections)
            if decision.verdict in (Verdict.REFUSE, Verdict.WAIT) and decision.reason:
                yield f"forbidden: {decision.reason.code}"
            if decision.verdict is Verdict.WAIT:
                yield "a clean member was waited for"
            if decision.loss is not None and decision.loss.loss_class is LossClass.BOUNDED:
                yield "a bound was proven"
            if decision.leader is not None and _clean_member_is_back(plan.evidence, decision):
                yield "patience ran out"
        for seen in plan.evidence.partitions:
            logs = [replica.log for replica in seen.replicas if replica.log]
            if len({(log.end, log.epochs) for log in logs}) < len(
                {(log.end, log.epochs, log.local_start) for log in logs}
            ):
                yield "equal copies of a tiered topic of which one begins earlier on its disk"
    for said in story.concluded:
        if said.outcome.outcome is Outcome.REFUSED and said.outcome.reason is not None:
            yield f"forbidden: {said.outcome.reason.code}"
            if said.outcome.reason.code == "PlanOutdated":
                yield from (mark for words, mark in _OUTDATED.items() if words in said.outcome.reason.message)
        if said.outcome.reason is not None:
            for code in GUARDS:
                if f"{code}:" in str(said.outcome.reason):
                    yield f"guard: {code}"
    if any(waited.why == "ElectableBrokerReturning" for waited in story.delayed):
        yield "a clean member was waited for"
        yield "forbidden: ElectableBrokerReturning"


def _wishes(story: Chronicle) -> Iterator[str]:
    if any(granted.by is None for granted in story.granted):
        yield "a person said no"
    for ran in story.ran:
        changes = [wish.at for wish in story.wished if ran.began < wish.at < ran.ended]
        if changes:
            yield "owners changed their minds during a run"
            if any(a.process == ran.process and a.at > changes[0] for a in story.requests("elect")):
                yield "an election after owners had changed their minds"


def _elections(story: Chronicle, scenario: Scenario) -> Iterator[str]:
    late = any(fault.kind is Kind.LAG for fault in scenario.faults)
    raised = {fault.partition for fault in scenario.faults if late and fault.kind is Kind.MIN_ISR}
    for held in story.held:
        during = any(ran.began < held.at < ran.ended for ran in story.ran)
        if not is_engine(held.by):
            if held.by == "somebody" and during:
                yield "another admin elected uncleanly during a run"
            if held.by == "periodic unclean election":
                yield "Kafka elected uncleanly by itself"
            continue
        if held.lost:
            yield "an election lost acknowledged records"
        if is_full(story, held.leader, held.at):
            yield "a leader was elected whose volume was full"
        if str(held.id) in raised:
            yield "an election after a minimum was raised that the last leader had not applied"
        asked = next((a for a in reversed(story.asked) if _asked_for(a, held.by, held.at) and _names(a, held)), None)
        request = next((b for b in asked.requests if b.id == held.id), None) if asked else None
        if asked is None or request is None:
            continue
        if request.designated != held.leader:
            yield "another than the designated one was elected"
        stands_on = story.decision(asked, request)
        loss = stands_on[1].loss if stands_on else None
        if loss is not None and loss.loss_class is not LossClass.UNKNOWN:
            yield "a class was proven and carried out"
            if held.lost or story.lost_later(held):
                yield "a proven class met a loss that it allows"
        later = [state for state in story.states(held.id, held.at, held.at + 10) if state.leader_epoch > held.epoch]
        if later:
            yield "an elected leader lost its leadership while it was verified"


def _asked_for(asked: Asked, process: str, at: float) -> bool:
    return asked.what == "elect" and asked.process == process and asked.at <= at


def _names(asked: Asked, held: Held) -> bool:
    return any(request.id == held.id for request in asked.requests)


def _evidence(story: Chronicle) -> Iterator[str]:
    for look in story.looked:
        if _believes_a_liar(story, look):
            yield f"wire: {Kind.MISREPORT}, believed"
        if any(broker.registered is None for broker in look.evidence.cluster.brokers):
            yield "brokers of a release that lists no fenced ones"
        for partition in look.evidence.partitions:
            logs = [replica.log for replica in partition.replicas if replica.log is not None]
            if any(log.start > 0 for log in logs):
                yield "a log that starts after 0"
            if any(
                a.end == b.end and a.epochs != b.epochs and a.last_epoch != b.last_epoch for a in logs for b in logs
            ):
                yield "two logs of equal length and different records"


def _believes_a_liar(story: Chronicle, look: Looked) -> bool:
    liars = {lie.broker for lie in story.misreported if lie.at <= look.at}
    return any(
        replica.broker in liars and replica.log is not None and replica.log.end != copy.end
        for partition in look.evidence.partitions
        for replica in partition.replicas
        if (copy := look.copies.get((partition.id, replica.broker))) is not None
    )


def _orders(story: Chronicle) -> Iterator[str]:
    changing: dict[str, set[str]] = {}
    for asked in story.asked:
        if asked.what != "approve":
            changing.setdefault(asked.machine, set()).add(asked.process)
    spans = {
        machine: [(ran.began, ran.ended) for ran in story.ran if ran.process in processes]
        for machine, processes in changing.items()
    }
    for one in spans:
        for other in spans:
            if one < other and any(a < d and c < b for a, b in spans[one] for c, d in spans[other]):
                yield "two machines changed things at one time"
    for change in story.ordered:
        cause = cause_of(story, change)
        if cause is None:
            continue
        if somebody_interfered(story, change, cause.at - RACE):
            yield "excuse: a change that could not be seen"
    yield from _owners(story)


def _owners(story: Chronicle) -> Iterator[str]:
    for id in sorted({change.id for change in story.ordered}):
        last: Owned | None = None
        for change in story.ordered:
            if change.id != id or change.topic_id != story.topic_id(id):
                continue
            cause = cause_of(story, change)
            borrowed = last.machine if last is not None and last.plan is not None else None
            if cause is not None and cause.what == "designate" and borrowed not in (None, cause.machine):
                yield "excuse: another machine's order was taken for the original"
            last = after(story, last, change)
            if last.plan is not None and not is_engine(change.by):
                yield "excuse: somebody had the plan's idea"
    for answered in story.answered:
        if answered.what == "restore":
            for id in answered.partitions:
                asked = [c for c in story.ordered if c.id == id and c.at <= answered.at and not is_engine(c.by)]
                mine = [c for c in story.ordered if c.id == id and c.by == answered.process and c.at <= answered.at]
                if asked and mine and asked[-1].at > mine[-1].at:
                    yield "an order of somebody else met by a restore"


def _words(story: Chronicle) -> Iterator[str]:
    bad = (Outcome.FAILED, Outcome.IN_DOUBT)
    for said in story.concluded:
        outcome = said.outcome
        code = f"/{outcome.reason.code}" if outcome.reason else ""
        yield f"said: {outcome.outcome}{code}"
        yield f"said: {outcome.outcome}"
        if outcome.outcome is Outcome.FAILED and outcome.reason and outcome.reason.code == "UnexpectedLeader":
            when = "instead of the planned one" if "planned was" in outcome.reason.message else BEFORE_ANY
            yield f"a leader was elected that nobody planned, {when}"
        if outcome.outcome in bad:
            for _, plan in story.plans():
                if len(plan.waves) > 1 and outcome.id in plan.waves[0]:
                    yield "the canary died or did not verify"
    for ran in story.ran:
        if ran.process == LAST and ran.leaderless:
            yield "a partition was without a leader when all was quiet"


def _last_looks(story: Chronicle) -> Iterator[str]:
    """What had changed when an engine looked again at what it had planned."""
    for kept, plan in story.plans():
        for look in story.looked:
            if look.process != kept.process or look.at < kept.at:
                continue
            for decision in plan.decisions:
                seen = look.partition(decision.id)
                if decision.leader is not None and seen is not None:
                    yield from (
                        f"the last look differs: {what}" for what in _differs(plan, decision, seen, look.evidence)
                    )


def _differs(plan: Plan, decision: Decision, seen: PartitionEvidence, now: Evidence) -> Iterator[str]:
    if seen.topic_id != decision.topic_id:
        yield "topic"
        return
    if seen.leader is not None:
        yield "leader"
        return
    if seen.leader_epoch != decision.leader_epoch:
        yield "epoch"
    if seen.assignment not in (decision.assignment, decision.order):
        yield "assignment"
    before = next(partition for partition in plan.evidence.partitions if partition.id == decision.id)
    old, new = before.replica(decision.leader), seen.replica(decision.leader)
    if old and new and old.log and new.log and (old.log.end, old.log.epochs) != (new.log.end, new.log.epochs):
        yield "log"
    if decision.leader not in best_first_of(seen, now.cluster, decision.candidate_order):
        yield "leader may not lead"
    elif decision.leader not in firsts(seen, now.cluster, decision.candidate_order):
        yield "better candidate"
    if _clean_member_is_back(now, decision) and not _clean_member_is_back(plan.evidence, decision):
        yield "clean member back"


def _clean_member_is_back(evidence: Evidence, decision: Decision) -> bool:
    seen = next((partition for partition in evidence.partitions if partition.id == decision.id), None)
    back = {broker.id for broker in evidence.cluster.brokers if broker.reachable or alive(broker)}
    return seen is not None and seen.leader is None and bool(back & {*seen.isr, *(seen.elr or ())})
