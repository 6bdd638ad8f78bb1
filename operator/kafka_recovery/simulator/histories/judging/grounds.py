"""What an engine gives as its reason where that speaks of metadata, orders, addresses, waves or its own time.

Each is held against what the cluster, the brokers' addresses and the clock were at that time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.simulator.histories.judging.told import PLAN, Told, near, relay_is_out_of_reach
from kafka_recovery.simulator.histories.judging.words import LAST_SEEN
from kafka_recovery.simulator.histories.scenario import Kind
from kafka_recovery.simulator.host.weather import WireFault

_SLACK = 0.1
_BEHIND = 0.9
"""Seconds by which a broker's metadata are behind at least if somebody has noticed: he has waited for them."""

_WAYS = frozenset(
    {
        Kind.FAILOVER, Kind.NO_CONTROLLER, Kind.KILL_CONTROLLER, Kind.CUT, Kind.ISOLATE, Kind.MUTE, Kind.DEAF,
        Kind.LOSE, Kind.REORDER, Kind.SLOW, Kind.FREEZE,
    }
)  # fmt: skip
"""What keeps a broker from asking the controllers."""


def _metadata_were_old(told: Told) -> bool:
    """Whether a broker's metadata were behind the controllers' a moment ago, or the epoch that is named is over.

    Where it is said that the controllers do not answer a broker, something must have kept them from that.
    """
    message = _message(told)
    epoch = re.search(r"leads it in epoch (\d+) by what is to be seen", message)
    if epoch is not None:
        before = int(epoch[1])
        return any(state.leader_epoch >= before + (state.leader is not None) for state in near(told))
    if "does not answer it" in message:
        return any(fault.kind in _WAYS and fault.at <= told.said.at for fault in told.scenario.faults)
    # Its last whole look was before: what is said of metadata too old may be of any moment since then.
    since = min(_lately(told), told.looked.at if told.looked else math.inf)
    return any(
        began <= told.said.at and ended >= since and ended - began >= _BEHIND
        for broker in told.story.kafka.brokers.values()
        for began, ended in broker.behind()
    )


TOO_LONG = re.compile(r"([\d.]+) ?s(?: were over|: what it saw)")
"""How an engine says that a look, or what came after it, took too long."""


def it_took_so_long(told: Told) -> bool:
    """Whether so many seconds have passed as it says since the run began, or last looked at it or asked for it in time.

    Where the look itself took so long, it came to an end, and is the last one.
    """
    said, looked = TOO_LONG.search(_message(told)), "the last look" in _message(told)
    id, process, at = told.said.outcome.id, told.said.process, told.said.at
    looks = [look.at for look in told.story.looked if look.process == process and look.partition(id) is not None]
    asked = [
        each.at
        for each in told.story.answered
        if each.process == process and id in each.partitions and each.what != "restore"
    ]
    started = [ran.began for ran in told.story.ran if ran.process == process]
    known = sorted(moment for moment in (*started, *looks, *asked) if moment <= at)
    began = known[: -1 if looked else None][-1:]
    return said is not None and bool(began) and at - began[0] >= float(said[1]) - _SLACK


def _some_are_not_registered(told: Told) -> bool:
    """Whether an order of it names brokers that never were registered: nobody is taken out of the cluster here."""
    decision = told.planned[1] if told.planned else None
    named = {*told.said.assignment, *(told.seen.assignment if told.seen else ()), *(decision.order if decision else ())}
    known = told.story.kafka.controllers.state.brokers
    return bool(named - {*known}) or _unknown_to_it(told)


def _unknown_to_it(told: Told) -> bool:
    """Whether its last look showed a replica whose broker is not registered."""
    if told.looked is None or told.seen is None:
        return False
    registered = {broker.id for broker in told.looked.evidence.cluster.brokers if broker.registered is not False}
    return bool({*told.seen.assignment} - registered)


def one_before_could_lead(told: Told) -> bool:
    """Whether its order was left as it stands, and a replica before the planned leader may lead by now.

    One that was down may have come back since; a member of the ISR or ELR that does is elected cleanly, and ends that.
    """
    if told.planned is None or told.seen is None or told.looked is None:
        return False
    decision = told.planned[1]
    if decision.order != decision.assignment or decision.leader not in told.seen.assignment:
        return False
    members = {*told.seen.isr, *(told.seen.elr or ())}
    brokers = told.looked.evidence.cluster.brokers
    down = {b.id for b in brokers if b.registered is False or (b.fenced and b.id in members)}
    before = told.seen.assignment[: told.seen.assignment.index(decision.leader)]
    return any(broker not in down for broker in before)


def _two_share_an_address(told: Told) -> bool:
    """Whether brokers that it names were listed under one address by then."""
    named = {int(number) for number in re.findall(r"\d+", _message(told).partition(" are all listed")[0])}
    return any(
        fault.kind is Kind.SHARED and fault.at <= told.said.at and {fault.broker, fault.other} <= named
        for fault in told.scenario.faults
    )


def nothing_unlocked_it(told: Told) -> bool:
    """Whether another partition whose wave its run had begun did not come back as planned.

    Or its wave was designated as one, and by the elections its owners wanted smaller ones: its first ones went before.
    """
    id, story = told.said.outcome.id, told.story
    mine = [kept for kept in story.kept if kept.process == told.said.process and kept.at <= told.said.at]
    begun = {each for kept in mine for each in kept.wave} - {id}
    well = {
        said.outcome.id
        for said in story.concluded
        if said.process == told.said.process and said.at <= told.said.at
        if said.outcome.outcome in (Outcome.RECOVERED, Outcome.RECOVERED_UNDER_MIN_ISR)
    }
    together = [kept for kept in mine if id in kept.wave and len(kept.wave) > 1]
    wished = {wish.policy.limits.wave_sizes for kept in together for wish in story.wishes(kept.at, told.said.at)}
    planned = {story.plan(kept.digest).policy.limits.wave_sizes for kept in together}
    return any(kept.name == PLAN for kept in mine) and (bool(begun - well) or bool(wished - planned))


def _another_cluster(told: Told) -> bool:
    """Never: there is but one, and no broker says another id."""
    return False


def was_not_seen(told: Told) -> bool:
    """Whether for a while its process had not been shown who leads it now, or the last answer was an error.

    A broker answers one that the weather makes.
    """
    if "Kafka answered" in _message(told) and told.story.has_struck(
        WireFault.UNKNOWN_ERROR, _lately(told), told.said.at
    ):
        return True
    shown = [s for s in told.story.shown if (s.process, s.id) == (told.said.process, told.said.outcome.id)]
    newest = max((s.at for s in shown if s.at <= told.said.at and s.leader is not None), default=-1e9)
    return newest < told.said.at - _SLACK


def _relay_is_out_of_reach(told: Told) -> bool:
    return relay_is_out_of_reach(told.said)


def _lately(told: Told) -> float:
    return told.story.awake_before(told.said.process, told.said.at, 2 * LAST_SEEN)


def _message(told: Told) -> str:
    reason = told.said.outcome.reason
    return reason.message if reason is not None else ""


def _a_leader_came_and_went(told: Told) -> bool:
    """Whether somebody led it in a newer epoch than the plan's, by the controller, and then nobody."""
    if told.planned is None:
        return False
    states = told.story.states(told.said.outcome.id, 0.0, told.said.at)
    led = [n for n, s in enumerate(states) if s.leader is not None and s.leader_epoch > told.planned[1].leader_epoch]
    return bool(led) and any(state.leader is None for state in states[led[0] :])


def view_was_not_seen_to_move(told: Told) -> bool:
    """Whether its last look could not tell that the metadata it read move, or are as new as the controller's.

    After elections it looks at the cluster alone, to conclude what had a leader before them.
    """
    cluster = told.around
    if cluster is None:
        return False
    if cluster.committed is None:
        return {b.metadata_advances for b in cluster.brokers if b.reachable} <= {None}
    view = cluster.broker(cluster.view_from)
    is_behind = cluster.as_of is None or cluster.as_of < cluster.committed
    return is_behind and (view is None or view.metadata_advances is None)


def has_struck(kind: Kind, told: Told) -> bool:
    """Whether such a fault was there before it was said: wires that say what no broker would, a full disk, no right."""
    return any(fault.kind is kind and fault.at <= told.said.at for fault in told.scenario.faults)


def if_it_says(words: str, holds: Callable[[Told], bool]) -> Callable[[Told], bool]:
    """Of a code that stands for several cases: the one that the sentence tells of is so. The others are not judged."""
    return lambda told: words not in _message(told) or holds(told)


GROUNDS: Mapping[str, Callable[[Told], bool]] = {
    "StaleMetadata": _metadata_were_old,
    "LeaderGone": if_it_says("a leader was elected", _a_leader_came_and_went),
    "MetadataAgeUnknown": if_it_says("leaders were read from", view_was_not_seen_to_move),
    "EvidenceTooOld": lambda told: not TOO_LONG.search(_message(told)) or it_took_so_long(told),
    "OrderCannotBeSet": _some_are_not_registered,
    "AnotherBroker": _two_share_an_address,
    "ClusterIdMismatch": _another_cluster,
    "InDoubt": if_it_says("not to be seen", was_not_seen),
    "RelaySilent": _relay_is_out_of_reach,
}
"""By the word of a reason, whether it is so."""
