"""What an engine gives as its reason, held against what it saw and against the truth at that time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.findings import Examined, unless
from kafka_recovery.simulator.histories.judging.grounds import (
    GROUNDS,
    TOO_LONG,
    has_struck,
    if_it_says,
    it_took_so_long,
    nothing_unlocked_it,
    one_before_could_lead,
    view_was_not_seen_to_move,
)
from kafka_recovery.simulator.histories.judging.left_orders import an_order_may_stand
from kafka_recovery.simulator.histories.judging.naive_order import best_first_of, firsts
from kafka_recovery.simulator.histories.judging.naive_refusals import OBSTACLES, Seen, alive, forbidden
from kafka_recovery.simulator.histories.judging.told import PLAN, Told, may_have_looked_since, near, told_of
from kafka_recovery.simulator.histories.scenario import Kind, Scenario
from kafka_recovery.simulator.host.weather import WireFault, is_garbled
from kafka_recovery.simulator.wire.ids import uuid_of

_SLACK = 0.1
_OLDEST = 120.0
"""Seconds for which an engine may hold on to what halted it: a minute of its own, and one of quarantine after it."""

NOT_JUDGED = frozenset(
    {
        "LeaderUnresponsive", "NotElected", "ClusterUnavailable", "Unavailable", "BrokerTimeout", "NotSent",
        "LogEndsContradict", "DesignatedLeaderRejected",
    }
)  # fmt: skip
"""Reasons that speak of what only the engine heard, or did not hear, of brokers, or of what no history contains."""


def what_is_refused_is_so(story: Chronicle, scenario: Scenario) -> Examined:
    """A refusal's reason holds: by what the engine saw last where it speaks of that, else by the truth.

    Only words that are known here are allowed, so that for every new one somebody says when it is true.
    """
    for said in story.concluded:
        reason = said.outcome.reason
        if said.outcome.outcome is Outcome.REFUSED and reason is not None and reason.code not in NOT_JUDGED:
            holds = REASONS.get(reason.code)
            text = f"{said.process} refuses {said.outcome.id}: {reason}"
            if holds is None:
                yield unless(_is_kafkas(reason.message), said.at, f"{text}; nobody knows when that is true")
            else:
                told = told_of(story, scenario, said)
                text = f"{text}; that is not so{', and it looked at an older epoch' if _looked_back(told) else ''}"
                yield unless(holds(told), said.at, text)


def refused_is_untouched(story: Chronicle, scenario: Scenario) -> Examined:
    """`Refused` is not said of a partition for which this run has had a leader elected: that failed, or did not."""
    for said in story.concluded:
        if said.outcome.outcome is Outcome.REFUSED:
            mine = [h for h in story.held if (h.by, h.id) == (said.process, said.outcome.id) and h.at <= said.at]
            mine = [held for held in mine if held.topic_id == said.topic_id]
            newest = max((held.epoch for held in mine), default=-1)
            now = story.states(said.outcome.id, said.at, said.at)
            gone = " that is gone again" if any(state.leader_epoch > newest for state in now) else ""
            text = f"{said.process} refuses {said.outcome.id} and had a leader elected for it{gone}"
            yield unless(not mine, said.at, f"{text}; it says {said.outcome.reason}")


def failed_is_so(story: Chronicle, scenario: Scenario) -> Examined:
    """`UnexpectedLeader` names another leader than the designated one, `LeaderGone` one whose epoch is over.

    Who says `InDoubt` has asked for something, or goes on with a wave that another process began: what that one asked
    for nobody else heard. What `grounds` knows of is held against the truth here as well.
    """
    for said in story.concluded:
        outcome, code = said.outcome, said.outcome.reason.code if said.outcome.reason else ""
        told = told_of(story, scenario, said)
        if outcome.outcome is Outcome.FAILED and code in _FAILURES:
            yield unless(_FAILURES[code](told), said.at, f"{said.process} says {outcome.id} failed, {outcome.reason}")
        elif outcome.outcome is Outcome.IN_DOUBT:
            was_asked = any(
                request.id == outcome.id
                for asked in story.asked
                if asked.machine == said.machine and asked.at <= said.at and asked.what != "approve"
                for request in asked.requests
            )
            inherited = any(
                kept.machine == said.machine and kept.process != said.process and outcome.id in kept.wave
                for kept in story.kept
                if kept.at <= said.at
            )
            text = f"{said.process} says {outcome.id} is InDoubt, and nothing was ever asked of it"
            yield unless(was_asked or inherited or not outcome.order_restored, said.at, text)
            if code in GROUNDS:
                text = f"{said.process} says {outcome.id} is InDoubt, {outcome.reason}; that is not so"
                yield unless(GROUNDS[code](told), said.at, text)


def _sentence(told: Told) -> str:
    return told.said.outcome.reason.message if told.said.outcome.reason else ""


def _is_kafkas(message: str) -> bool:
    """Whether Kafka said so itself: an adapter's sentence about an error code."""
    return "Kafka answered" in message


def _saw(obstacle: Callable[[Seen], bool], told: Told) -> bool:
    """Whether its last look showed that, or that the leader it had planned may not lead."""
    if told.looked is None or told.seen is None or told.around is None:
        return False
    wishes = told.story.wishes(told.looked.at - _OLDEST, told.said.at)
    clusters = told.looked.evidence.cluster, told.around
    shown = any(obstacle((told.seen, cluster, wish.policy)) for wish in wishes for cluster in clusters)
    return shown or _planned_leader_may_not_lead(told)


def _planned_leader_may_not_lead(told: Told) -> bool:
    if told.looked is None or told.seen is None or told.planned is None:
        return False
    decision = told.planned[1]
    return decision.leader not in best_first_of(told.seen, told.looked.evidence.cluster, decision.candidate_order)


def _nobody_may_lead(told: Told) -> bool:
    if told.looked is None or told.seen is None:
        return False
    wishes = told.story.wishes(told.looked.at - _OLDEST, told.said.at)
    rules = [wish.policy.rule_for(told.said.outcome.id.topic) for wish in wishes]
    cluster = told.looked.evidence.cluster
    return any(rule and not firsts(told.seen, cluster, rule.candidate_order) for rule in rules)


def _looked_back(told: Told) -> bool:
    """Whether its last look showed an older leader epoch than its plan."""
    return (
        told.seen is not None and told.planned is not None and (told.seen.leader_epoch < told.planned[1].leader_epoch)
    )


def _somebody_leads(told: Told) -> bool:
    return any(state.leader is not None for state in near(told))


def _epoch_is_another(told: Told) -> bool:
    return told.planned is None or any(s.leader_epoch != told.planned[1].leader_epoch for s in near(told))


def _topic_is_another(told: Told) -> bool:
    now = told.story.topic_id(told.said.outcome.id)
    planned = told.planned[1].topic_id if told.planned else None
    recently = [state.topic_id for state in near(told)]
    return told.said.topic_id is None or not recently or any(id != planned for id in (now, *recently))


def _topic_was_made_anew(told: Told) -> bool:
    """Also where its last look showed an id that a garbled answer makes of the topic's own: nothing contradicts it."""
    if _topic_is_another(told):
        return True
    if told.seen is None or told.said.topic_id is None:
        return False
    if not told.story.has_struck(WireFault.GARBLED, may_have_looked_since(told), told.said.at):
        return False
    return is_garbled(uuid_of(told.seen.topic_id).bytes, uuid_of(told.said.topic_id).bytes)


def _order_is_another(told: Told) -> bool:
    """Whether anybody else has changed the assignment since shortly before the plan was made."""
    id, planned = told.said.outcome.id, told.planned
    stands = [decision.assignment for decision in (planned[1],)] if planned else []
    changed = any(
        change.id == id and change.at <= told.said.at and change.by != told.said.process
        for change in told.story.ordered[1:]
    )
    return changed or (told.seen is not None and told.seen.assignment not in stands)


def _log_is_another(told: Told) -> bool:
    if told.planned is None or told.seen is None:
        return True
    plan, decision = told.planned
    before = next((p.replica(decision.leader) for p in plan.evidence.partitions if p.id == decision.id), None)
    now = told.seen.replica(decision.leader)
    if before is None or now is None or before.log is None or now.log is None:
        return True
    return (before.log.end, before.log.epochs) != (now.log.end, now.log.epochs)


def _another_is_better(told: Told) -> bool:
    if told.planned is None or told.looked is None or told.seen is None:
        return False
    decision = told.planned[1]
    return decision.leader not in firsts(told.seen, told.looked.evidence.cluster, decision.candidate_order)


def _a_clean_member_is_back(told: Told) -> bool:
    if told.looked is None or told.seen is None:
        return False
    back = {b.id for b in told.looked.evidence.cluster.brokers if b.reachable or alive(b)}
    return bool(back & {*told.seen.isr, *(told.seen.elr or ())})


def _the_last_known_leader_is_back(told: Told) -> bool:
    """Whether Kafka elects it by itself: nobody is left in ISR and ELR, and it is the only one named."""
    if told.looked is None or told.seen is None or told.seen.isr or told.seen.elr:
        return False
    back = {b.id for b in told.looked.evidence.cluster.brokers if b.reachable or alive(b)}
    named = told.seen.last_known_elr or ()
    return len(named) == 1 and named[0] in back


def _who_is_elected_is_back(told: Told) -> bool:
    named = "last known leader" in _sentence(told)
    return _the_last_known_leader_is_back(told) if named else _a_clean_member_is_back(told)


def _age_is_unknown(told: Told) -> bool:
    of_the_view = "leaders were read from" in _sentence(told)
    return view_was_not_seen_to_move(told) if of_the_view else _planned_leader_may_not_lead(told)


def _an_answer_is_incomplete(told: Told) -> bool:
    of_reassignments = "is being reassigned" in _sentence(told)
    return _saw(OBSTACLES["AnswerIncomplete"], told) if of_reassignments else _planned_leader_may_not_lead(told)


def _is_too_old(told: Told) -> bool:
    late = TOO_LONG.search(_sentence(told))
    return it_took_so_long(told) if late else _saw(OBSTACLES["EvidenceTooOld"], told)


def _no_rule_holds(told: Told) -> bool:
    gone = "now no rule selects" in _sentence(told)
    return _rules_changed(told) if gone else _saw(OBSTACLES["NoRule"], told)


def _a_disk_is_dead(told: Told) -> bool:
    """Whether the planned leader's is, or that of a living broker that has to answer."""
    return _planned_leader_may_not_lead(told) or _saw(OBSTACLES["LogDirOffline"], told)


def _time_is_over(told: Told) -> bool:
    within = told.scenario.within
    ran = next((ran for ran in told.story.ran if ran.process == told.said.process), None)
    return within is not None and ran is not None and told.said.at >= ran.timed_from + within - _SLACK


def _plan_is_full(told: Told) -> bool:
    """Whether its last look showed more that could be elected than a plan may elect, and its plan elects as many.

    A plan that no journal could keep shows nothing of what it elects. A plan that elects the partition, and is full by
    what its owners want now, leaves it out later.
    """
    least = min(wish.policy.limits.partitions for wish in told.story.wishes(0.0, told.said.at))
    if told.planned is not None and len(told.planned[0].elections) >= least:
        return True
    kept = (k for k in told.story.kept if (k.process, k.name) == (told.said.process, PLAN) and k.at >= told.said.at)
    elects = next((len(told.story.plan(each.digest).elections) for each in kept), least)
    return _electable(told) > least <= elects


def _electable(told: Told) -> int:
    """How many partitions of its last look could be elected, by any rules that its owners have had."""
    if told.looked is None:
        return 0
    evidence, wishes = told.looked.evidence, told.story.wishes(0.0, told.said.at)
    return max(
        sum(
            partition.leader is None
            and forbidden(partition, evidence.cluster, wish.policy) is None
            and (rule := wish.policy.rule_for(partition.id.topic)) is not None
            and bool(firsts(partition, evidence.cluster, rule.candidate_order))
            for partition in evidence.partitions
        )
        for wish in wishes
    )


def _nobody_approved(told: Told) -> bool:
    named = re.search(r"plan ([0-9a-f]{8,})", _sentence(told))
    yes = [g.digest for g in told.story.granted if g.by and g.process == told.said.process and g.at <= told.said.at]
    return named is None or not any(digest.startswith(named[1]) for digest in yes)


def _an_earlier_one_failed(told: Told) -> bool:
    """Also where its election was not sent in time, and somebody else's has given the partition that leader."""
    bad = (Outcome.FAILED, Outcome.IN_DOUBT)
    mine = [s for s in told.story.concluded if s.process == told.said.process and s.at <= told.said.at]
    asked = [asked for asked in told.story.requests("elect") if asked.process == told.said.process]
    sent = {request.id for each in asked for request in each.requests}
    unsent = (s for s in mine if s.outcome.outcome is Outcome.RECOVERED and s.outcome.id not in sent)
    return any(said.outcome.outcome in bad for said in mine) or any(unsent)


def _an_earlier_one_did_not_verify(told: Told) -> bool:
    return nothing_unlocked_it(told) if "would have unlocked" in _sentence(told) else _an_earlier_one_failed(told)


def _is_undone(told: Told) -> bool:
    return any(ran.process == told.said.process and ran.command == "undo" for ran in told.story.ran)


def _owners_stop_it(told: Told) -> bool:
    since = told.story.awake_before(told.said.process, told.said.at, _OLDEST)
    wishes = told.story.wishes(since, told.said.at)
    return any(wish.suspended or wish.authority == "Observe" for wish in wishes)


def _rules_changed(told: Told) -> bool:
    return len({wish.policy for wish in told.story.wishes(0.0, told.said.at)}) > 1


def _another_leads(told: Told) -> bool:
    mine = [
        request
        for asked in told.story.requests("elect")
        if asked.machine == told.said.machine and asked.at <= told.said.at
        for request in asked.requests
        if request.id == told.said.outcome.id
    ]
    planned = told.planned[1].leader if told.planned else None
    return told.said.outcome.leader != (mine[-1].designated if mine else planned)


def _leader_is_gone(told: Told) -> bool:
    """Whether the epoch in which somebody was elected, since it was planned to, is over."""
    planned = told.planned[1].leader_epoch if told.planned else -1
    held = [h for h in told.story.held if h.id == told.said.outcome.id and h.at <= told.said.at]
    epochs = [h.epoch for h in held if h.epoch > planned]
    return bool(epochs) and any(state.leader_epoch > min(epochs) for state in near(told))


_FAILURES: Mapping[str, Callable[[Told], bool]] = {
    **GROUNDS,
    "UnexpectedLeader": if_it_says("planned was broker", _another_leads),
    "LeaderGone": if_it_says("a leader was elected", _leader_is_gone),
}


def _only_the_engine_knows(told: Told) -> bool:
    return True


_OUTDATED: Mapping[str, Callable[[Told], bool]] = {
    "was deleted and created again": _topic_was_made_anew,
    "is at leader epoch": _epoch_is_another,
    "is assigned to": _order_is_another,
    "planned under": _rules_changed,
    "'s log of": _log_is_another,
    "is now better than": _another_is_better,
    "was left as it stands": one_before_could_lead,
    "measurement is void": _only_the_engine_knows,
    " costs ": _only_the_engine_knows,
    "was planned to be elected": _only_the_engine_knows,
}
"""By the words with which it says what differs from the plan, whether that is so."""


def _plan_is_outdated(told: Told) -> bool:
    return any(holds(told) for words, holds in _OUTDATED.items() if words in _sentence(told))


REASONS: Mapping[str, Callable[[Told], bool]] = {
    **{code: partial(_saw, obstacle) for code, obstacle in OBSTACLES.items()},
    **GROUNDS,
    **dict.fromkeys(
        ("Fenced", "NotRegistered", "BrokerStopping"),
        _planned_leader_may_not_lead,
    ),
    "AnswerIncomplete": _an_answer_is_incomplete,
    "LogDirOffline": _a_disk_is_dead,
    "NoCandidate": _nobody_may_lead,
    "AlreadyOnline": _somebody_leads,
    "UnexpectedLeader": _somebody_leads,
    "PlanOutdated": _plan_is_outdated,
    "PartitionGone": _topic_is_another,
    "BrokerUnreachable": if_it_says("counts it as alive", _planned_leader_may_not_lead),
    "MetadataAgeUnknown": _age_is_unknown,
    "EvidenceTooOld": _is_too_old,
    "ElectableBrokerReturning": _who_is_elected_is_back,
    "Interrupted": if_it_says("allowed were over", _time_is_over),
    "PartitionLimitReached": _plan_is_full,
    "AwaitingApproval": _nobody_approved,
    "EarlierWaveFailed": _an_earlier_one_did_not_verify,
    "OrderNotRestored": an_order_may_stand,
    "Aborted": _is_undone,
    "ObserveOnly": _owners_stop_it,
    "Suspended": _owners_stop_it,
    "NoRule": _no_rule_holds,
    "InvalidAnswer": partial(has_struck, Kind.WIRE),
    "JournalUnwritable": partial(has_struck, Kind.DISK_FULL),
    "ClusterAuthorizationFailed": partial(has_struck, Kind.RIGHTS),
    "TopicAuthorizationFailed": partial(has_struck, Kind.RIGHTS),
}  # fmt: skip
"""By the word of a reason, whether it is so."""
