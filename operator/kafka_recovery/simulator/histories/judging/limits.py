"""Approvals, limits, waves, patience, deadlines: how much an engine may do, in which order, and how soon."""

from __future__ import annotations

from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.policy import Approval, Policy
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import LAST, Asked, Concluded, Looked, Ran
from kafka_recovery.simulator.histories.findings import Examined, unless
from kafka_recovery.simulator.histories.judging.choices import WISHES
from kafka_recovery.simulator.histories.judging.naive_refusals import alive
from kafka_recovery.simulator.histories.judging.on_disk import has_no_room
from kafka_recovery.simulator.histories.scenario import Scenario

_SLACK = 0.1

ENDING = 110.0
"""Seconds within which a run ends what is under way when its time is over.

With every broker gone and packets lost it waits 30 for a leader, up to 20 for the look that was begun then, and tries
twice to put orders back: 20 for the request, 10 for a look at what came of it.
"""

_RELAY = 2.5
"""Seconds between two questions whether a silent relay is there again; each lasts as long as nobody answers."""


def approval_is_for_this_plan(story: Chronicle, scenario: Scenario) -> Examined:
    """What needs a person's yes has it, for exactly the plan that is carried out.

    Whether it needs one is said by the plan's own policy and by what its owners want now, whichever is stricter. An
    election of a leader whose volume was full when the plan looked, and is full now, needs one whatever they say.
    """
    yes = [(granted.digest, granted.at) for granted in story.granted if granted.by is not None]
    for asked in story.requests("elect"):
        for request in asked.requests:
            stands_on = story.decision(asked, request)
            if stands_on is None or not _needs_a_person(story, asked, *stands_on):
                continue
            approved = any(digest == stands_on[0] and at <= asked.at for digest, at in yes)
            text = f"{asked.process} elects broker {request.designated} for {request.id} by plan {stands_on[0][:8]}"
            yield unless(approved, asked.at, f"{text}, which nobody approved")


def nobody_acts_when_told_not_to(story: Chronicle, scenario: Scenario) -> Examined:
    """While its owners suspend it, or only let it observe, an engine elects nobody; what is under way may end."""
    for asked in story.requests("elect"):
        looked = story.last_look(asked, asked.requests[0].id)
        wishes = story.wishes(_began(looked, asked) - WISHES, asked.at)
        allowed = any(not wish.suspended and wish.authority != "Observe" for wish in wishes)
        text = f"{asked.process} elects {asked.requests[0].id}, though its owners suspended it or let it only observe"
        yield unless(allowed, asked.at, text)


def limits_hold(story: Chronicle, scenario: Scenario) -> Examined:
    """No plan elects more partitions, or with more brokers down, or of fewer replicas than its policy allows."""
    for kept, plan in story.plans():
        named, limits = f"plan {kept.digest[:8]}", plan.policy.limits
        elected = [decision for decision in plan.decisions if decision.leader is not None]
        if not elected:
            continue
        text = f"{named} elects {len(elected)} partitions, limits.partitions is {limits.partitions}"
        yield unless(len(elected) <= limits.partitions, kept.at, text)
        brokers = plan.evidence.cluster.brokers
        down = [broker.id for broker in brokers if not alive(broker)]
        text = f"{named} elects though {len(down)} of {len(brokers)} brokers are down"
        yield unless(100 * len(down) <= limits.brokers_down_percent * len(brokers), kept.at, text)
        for decision in elected:
            rule = plan.policy.rule_for(decision.id.topic)
            least = None if rule is None else rule.min_replication_factor
            text = f"{named} elects {decision.id} of {len(decision.assignment)} replicas; its rule wants {least}"
            yield unless(least is not None and len(decision.assignment) >= least, kept.at, text)


def waves_hold(story: Chronicle, scenario: Scenario) -> Examined:
    """One request elects no more than a wave, and a wave is no larger than its turn allows."""
    for kept, plan in story.plans():
        sizes, step = plan.policy.limits.wave_sizes, 0
        for number, wave in enumerate(plan.waves):
            text = f"wave {number + 1} of plan {kept.digest[:8]} has {len(wave)} partitions, {sizes[step]} allowed"
            yield unless(len(wave) <= sizes[step], kept.at, text)
            step = min(step + (len(wave) >= sizes[step]), len(sizes) - 1)
    for asked in story.requests("elect"):
        stands_on = story.decision(asked, asked.requests[0])
        if stands_on is None:
            continue
        sizes, earlier = story.plan(stands_on[0]).policy.limits.wave_sizes, _earlier_requests(story, asked)
        size = sizes[min(len(earlier), len(sizes) - 1)]
        open_ones = [
            request for other in earlier for request in other.requests if _is_open(story, other, request, asked)
        ]
        text = f"{asked.process} elects {len(asked.requests)} partitions with {len(open_ones)} that do not lead yet"
        yield unless(len(asked.requests) + len(open_ones) <= size, asked.at, f"{text}; {size} allowed by then")


def a_failed_wave_stops_the_next(story: Chronicle, scenario: Scenario) -> Examined:
    """Once an election did not verify, no later wave of the plan is elected by that run, whenever it tells of it.

    After the canaries elections may be held while earlier ones are waited for: what the run does not know yet of those
    stops it as soon as it tells. Where the controller answered that it held no election, none was to be verified: only
    what was said of it before the later wave, without another look, is said of that answer.
    """
    for asked in story.requests("elect"):
        earlier, stands_on = _earlier_requests(story, asked), story.decision(asked, asked.requests[0])
        canaries = 0 if stands_on is None else len(story.plan(stands_on[0]).policy.limits.wave_sizes) - 1
        for place, other in enumerate(earlier):
            for id in {request.id for request in other.requests} - {request.id for request in asked.requests}:
                said = _end_of(story, asked.process, id, other.at)
                in_time = said is not None and (place < canaries or said.at <= asked.at)
                known = in_time and said is not None and not _led_as_asked(story, other, said, asked)
                ended_badly = said is not None and said.outcome.outcome in (Outcome.FAILED, Outcome.IN_DOUBT)
                again = said is not None and _looked_again(story, other, id, said.at)
                at_once = said is not None and said.at <= asked.at and not again
                failed = ended_badly and (at_once or _may_have_elected(story, other, id))
                text = f"{asked.process} elects {asked.requests[0].id} though {id}, of an earlier wave, did not verify"
                text += ", and was decided again" if again else ""
                yield unless(not (known and failed), asked.at, text)


def patience_is_kept(story: Chronicle, scenario: Scenario) -> Examined:
    """A clean member is waited for as long as its rule says, from when it was first seen to be back.

    One that came back between the plan and the last look was not waited for at all: it is decided again.
    """
    for kept, plan in story.plans():
        looks = [look for look in story.looked if look.process == kept.process and look.at <= kept.at]
        for decision in plan.decisions:
            rule = plan.policy.rule_for(decision.id.topic)
            if decision.leader is None or rule is None or not _waited_for(plan.evidence, decision):
                continue
            since = min((look.at for look in looks if _waited_for(look.evidence, decision)), default=kept.at)
            text = f"plan {kept.digest[:8]} elects {decision.id} {kept.at - since:.1f} s after a clean member was"
            why = f"first seen to be back; patience is {rule.patience.total_seconds():g} s"
            yield unless(kept.at - since >= rule.patience.total_seconds() - _SLACK, kept.at, f"{text} {why}")
    for asked in story.requests("elect"):
        for request in asked.requests:
            looked, stands_on = story.last_look(asked, request.id), story.decision(asked, request)
            if looked and stands_on and (now := _clean_members_back(looked.evidence, request)):
                new = now - _clean_members_back(story.plan(stands_on[0]).evidence, request)
                text = f"{asked.process} elects {request.id}, though {sorted(new)} of the ISR or ELR came back after"
                yield unless(not new, asked.at, f"{text} its plan was made")


def the_deadline_is_kept(story: Chronicle, scenario: Scenario) -> Examined:
    """When its time is over a run elects nobody any more, and soon says what came of everybody.

    An election may still be held on a look that began in time. What is under way ends within `ENDING`, not counting
    the time in which a request without an answer may take effect, or whoever may hold it is silent, the time that a
    person takes to answer, and the time that its process was stopped.
    """
    if scenario.within is None:
        return
    for ran in [ran for ran in story.ran if ran.process != LAST]:
        due = ran.timed_from + scenario.within
        yield from _begun_too_late(story, ran, due)
        if ran.ended > due:
            over = ran.ended - due - _excused(story, ran, due)
            text = f"{ran.process} ({ran.command}) ends {over:.0f} s after its time was over"
            yield unless(over <= ENDING, ran.ended, text)


def _begun_too_late(story: Chronicle, ran: Ran, due: float) -> Examined:
    """Elections after the deadline whose last look was not under way by then."""
    late = [asked for asked in story.requests("elect") if asked.process == ran.process and asked.at > due]
    for asked, request in [(one, request) for one in late for request in one.requests]:
        looked = story.last_look(asked, request.id)
        text = f"{ran.process} elects broker {request.designated} for {request.id}"
        in_time = looked is not None and _began(looked, asked) <= due + _SLACK
        yield unless(in_time, asked.at, f"{text}, begun after its time was over at {due:.3f}")


def _began(looked: Looked | None, asked: Asked) -> float:
    """When an election's last look began."""
    return asked.at if looked is None else looked.at - looked.evidence.cluster.took.total_seconds()


def _excused(story: Chronicle, ran: Ran, due: float) -> float:
    """Seconds after a run's deadline in which it can't but wait, each counted once."""
    quarantines = [(waited.at, waited.until) for waited in story.waited if waited.process == ran.process]
    answers = [(due, granted.at) for granted in story.granted if granted.process == ran.process]
    stopped = [(paused.at, paused.until) for paused in story.paused if paused.process == ran.process]
    relays = [
        (waits.at, waits.at + _RELAY)
        for waits in story.delayed
        if (waits.process, waits.why) == (ran.process, "RelaySilent")
    ]
    seconds, reached = 0.0, due
    for since, until in sorted((*quarantines, *answers, *stopped, *relays)):
        first, last = max(since, reached), min(until, ran.ended)
        if last > first:
            seconds, reached = seconds + last - first, last
    return seconds


def _earlier_requests(story: Chronicle, asked: Asked) -> list[Asked]:
    """The elections that this run has asked for before, by the same plan."""
    stands_on = story.decision(asked, asked.requests[0])
    if stands_on is None:
        return []
    found = []
    for other in story.requests("elect"):
        if other.process == asked.process and other.at < asked.at:
            same = story.decision(other, other.requests[0])
            if same is not None and same[0] == stands_on[0]:
                found.append(other)
    return found


def _is_open(story: Chronicle, asked: Asked, request: ElectionRequest, until: Asked) -> bool:
    """Whether an election was held between two requests, and nobody led by it at the time of the second."""
    held = any(h.id == request.id and h.by == asked.process and asked.at <= h.at <= until.at for h in story.held)
    led = any(led.id == request.id and asked.at <= led.at <= until.at for led in story.led)
    return held and not led


def _led_as_asked(story: Chronicle, asked: Asked, said: Concluded, until: Asked) -> bool:
    """Whether the designated leader led between two requests, and what is said of it is about what came later.

    That is a later epoch. Where what is said names none, for nobody was seen to lead any more, or for the topic was
    made anew, it counts whether that leader had answered the process between the two requests.
    """
    id, epoch = said.outcome.id, said.outcome.leader_epoch
    own = next(request for request in asked.requests if request.id == id)
    led = [
        led
        for led in story.led
        if led.id == id and led.broker == f"broker {own.designated}" and asked.at <= led.at <= until.at
    ]
    if epoch is not None and own.topic_id == said.topic_id:
        return any(epoch > each.epoch for each in led)
    heard = [c for c in story.claimed if (c.process, c.id, c.leader) == (asked.process, id, own.designated)]
    return bool(led) and any(asked.at <= claimed.at <= until.at for claimed in heard)


def _may_have_elected(story: Chronicle, asked: Asked, id: TopicPartition) -> bool:
    """Whether the election that was asked for was held, or nobody answered whether it was. A later one is another."""
    again = (
        other.at
        for other in story.requests("elect")
        if other.process == asked.process and other.at > asked.at and any(b.id == id for b in other.requests)
    )
    until = min(again, default=float("inf"))
    held = any((h.by, h.id) == (asked.process, id) and asked.at <= h.at < until for h in story.held)
    told = (a for a in story.answered if (a.process, a.what) == (asked.process, "elect") and id in a.partitions)
    return held or all(id in a.doubtful for a in told if a.asked_at <= asked.at <= a.at)


def _end_of(story: Chronicle, process: str, id: TopicPartition, since: float) -> Concluded | None:
    """What a process said first of a partition after that."""
    return next(
        (said for said in story.concluded if said.process == process and said.outcome.id == id and said.at > since),
        None,
    )


def _looked_again(story: Chronicle, asked: Asked, id: TopicPartition, until: float) -> bool:
    """Whether a process has gathered evidence about a partition again: what it says then is said of that."""
    mine = [look for look in story.looked if look.process == asked.process and asked.at < look.at <= until]
    return any(look.partition(id) is not None for look in mine)


def _needs_a_person(story: Chronicle, asked: Asked, digest: str, decision: Decision) -> bool:
    plan = story.plan(digest)
    if _wants_a_person(plan.policy, decision) or has_no_room(story, digest, decision.leader, asked.at):
        return True
    looked = story.last_look(asked, decision.id)
    wishes = story.wishes(_began(looked, asked) - WISHES, asked.at)
    return all(wish.authority == "Approve" or _wants_a_person(wish.policy, decision) for wish in wishes)


def _wants_a_person(policy: Policy, decision: Decision) -> bool:
    rule = policy.rule_for(decision.id.topic)
    approval = Approval.MANUAL if rule is None else rule.approval
    lossless = decision.loss is not None and decision.loss.loss_class is LossClass.LOSSLESS
    return approval is Approval.MANUAL or (approval is Approval.AUTO_LOSSLESS and not lossless)


def _waited_for(evidence: Evidence, decision: Decision) -> bool:
    """Whether a clean member is back while nobody leads and no old leader answers as such."""
    seen = next((partition for partition in evidence.partitions if partition.id == decision.id), None)
    if seen is None or (seen.topic_id, seen.leader) != (decision.topic_id, None):
        return False
    return bool(_clean_members_back(evidence, decision)) and not any(replica.leads for replica in seen.replicas)


def _clean_members_back(evidence: Evidence, of: Decision | ElectionRequest) -> set[BrokerId]:
    """ISR and ELR members that are alive or answer."""
    back = {broker.id for broker in evidence.cluster.brokers if broker.reachable or alive(broker)}
    seen = next((partition for partition in evidence.partitions if partition.id == of.id), None)
    return set() if seen is None else back & {*seen.isr, *(seen.elr or ())}
