"""A plan at a glance, for whoever has to decide about it: what it elects, and what that costs.

Counted over all partitions of the plan; what is alike is said once. Words and figures only, made from the plan alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kafka_recovery.decision.acks import after_election
from kafka_recovery.decision.alike import Alike, alike, named
from kafka_recovery.decision.attesting import told
from kafka_recovery.decision.bad_leaders import Against, Elections, against, bad_leaders, elections_of, longer_but_older
from kafka_recovery.decision.before_a_yes import BEFORE, before_a_yes
from kafka_recovery.decision.costs import BrokerCost, costs, in_a_line, partitions, records
from kafka_recovery.decision.fenced_members import short_members
from kafka_recovery.decision.glances import BrokerGlance, glances
from kafka_recovery.decision.holding import may_return
from kafka_recovery.decision.kubectl import NOBODY_KNOWS, Kubectl
from kafka_recovery.decision.loss import BEST_FIRST
from kafka_recovery.decision.moments import began, moment
from kafka_recovery.decision.questions import Question
from kafka_recovery.decision.returns import before_consent, elected_by_kafka, listed_brokers, named_brokers
from kafka_recovery.decision.waiting import Choice, asked_about_all, elect_or_wait, reconnected
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision, Plan, Verdict

_NAMED = 4
"""So many leaders are named in a sentence; the others are counted."""


@dataclass(frozen=True, slots=True)
class AtHand:
    """What whoever reads the card can type there. `approve`: the command that is next if nothing is waited for.

    `begins`: when the elections begin that the policy asks nobody about; `stop`: what stops them, and lets them go on
    later. Empty: there is none. `asked`: why a person is asked about them all the same; empty: the policy decides.
    `only_plans`: `approve` makes a plan that can be approved, and elects nobody. `better`: the command that leads to a
    plan with better leaders. `kubectl`: how the brokers' Pods are reached.
    """

    approve: str = ""
    begins: str = "as soon as this plan is carried out"
    stop: str = ""
    asked: str = ""
    better: str = ""
    kubectl: Kubectl = NOBODY_KNOWS
    only_plans: bool = False


NOTHING_AT_HAND = AtHand()


@dataclass(frozen=True, slots=True)
class Card:
    """`stop`: why nobody may approve yet, and what begins unasked, before all else. `situation`: what is offline, who
    is elected, what that loses. `choice`: what to find out first, and why; None where nothing is elected by the plan
    any more. `brokers`: those first whose return decides most, counted over `offline` partitions. `partitions`: as they
    were seen. `planned` and `kafka`: under which condition a broker deletes its `cost` and its `kafka_cost`; None:
    nobody would. `command`: when to type what. `better`: what to type in place of approving.
    """

    stop: tuple[str, ...]
    situation: tuple[str, ...]
    choice: Choice | None
    offline: int
    brokers: tuple[BrokerGlance, ...]
    partitions: tuple[Alike, ...]
    planned: str | None
    kafka: str
    command: tuple[str, str] | None
    better: str = ""


def card(plan: Plan, at_hand: AtHand = NOTHING_AT_HAND, *, over: bool = False) -> Card:
    """`over`: nothing is elected by it any more, so what could be done before an election is left out."""
    offline = [partition for partition in plan.evidence.partitions if partition.leader is None]
    choice = None if over else _choice(plan, at_hand)
    facts = () if choice else tuple(bad_leaders(plan, over=True))
    plan = asked_about_all(plan) if at_hand.asked else plan
    found = costs(plan)
    elected = _elected(plan, found, over=over)
    return Card(
        (*choice.dangers, *choice.stop, *choice.unasked) if choice else (),
        (*facts, *_offline(plan, over=over), *told(plan.evidence), *elected, *_reasons_below(plan)),
        choice,
        len(offline),
        tuple(glances(plan, found)),
        alike(offline),
        _if_planned(plan, over=over),
        _if_kafka(offline),
        _command(plan, choice, at_hand) if choice else None,
        at_hand.better if choice else "",
    )


def why_stopped(plan: Plan) -> tuple[str, ...]:
    """Why nobody may approve it yet, and what to do first: that it opens with."""
    return waited_for(plan).stop


def _if_planned(plan: Plan, *, over: bool) -> str | None:
    if not plan.elections:
        return None
    if over:
        return "the plan elected"
    asked = all(each.needs_approval for each in plan.elections.values())
    return "you approve" if asked else "the plan elects"


def _if_kafka(offline: Sequence[PartitionEvidence]) -> str:
    members = sorted({broker for partition in offline for broker in elected_by_kafka(partition)})
    return f"broker {members[0]} leads" if len(members) == 1 else "Kafka elects another"


def _command(plan: Plan, choice: Choice, at_hand: AtHand) -> tuple[str, str] | None:
    """What is typed next, and when it is."""
    if not plan.elections or not at_hand.approve:
        return None
    yet = " (this elects nobody yet)" if at_hand.only_plans else ""
    if choice.stop:
        return (f"{when}{yet}:", at_hand.approve) if (when := last_resort(plan)) else None
    if not any(each.needs_approval for each in plan.elections.values()):
        return f"To carry it out{yet}:", at_hand.approve
    done_first = any(each.asked == BEFORE for each in choice.questions)
    return f"{'Then' if done_first else 'Next'}, if you approve{yet}:", at_hand.approve


def last_resort(plan: Plan) -> str | None:
    """When to approve a plan all the same that opens with why nobody may; empty: it does not; None: never.

    Never: another plan is better, and can be had.
    """
    if not why_stopped(plan):
        return ""
    if _is_bettered(plan):
        return None
    if against(plan) is Against.EMPTY:
        return "Only if no other copy is left"
    if short := short_members(plan):
        return f"Only if the own volume of {named_brokers(short)} is lost"
    return "Only if it can't be heard again, and is off by now"


def _is_bettered(plan: Plan) -> bool:
    return against(plan) in (Against.NAMED, Against.BETTER_PROOF)


def waited_for(plan: Plan, kubectl: Kubectl = NOBODY_KNOWS) -> Choice:
    """Why nobody may approve yet, and what may be better than electing."""
    found, bettered = elect_or_wait(plan, kubectl), _is_bettered(plan)
    copies = before_consent(plan, either=bettered, but=reconnected(plan))
    before = () if bettered else before_a_yes(plan, kubectl)
    stop = (*found.stop, *bad_leaders(plan))
    return replace(found, stop=stop, first=(*found.first, *copies), questions=(*found.questions, *before))


def _choice(plan: Plan, at_hand: AtHand) -> Choice:
    """What can be waited for, and besides what a yes and a no come with."""
    unasked = tuple(_unasked(plan, at_hand))
    plan = asked_about_all(plan) if at_hand.asked else plan
    elections, found = elections_of(plan), waited_for(plan, at_hand.kubectl)
    return replace(
        found,
        unasked=unasked,
        after=(
            *_if_not(plan, passes=bool(at_hand.asked and at_hand.begins)),
            *_after(elections, plan.evidence.cluster),
        ),
    )


def _unasked(plan: Plan, at_hand: AtHand) -> Iterator[str]:
    """Elections that nobody is asked about, before a person waits for what they were asked."""
    if ids := [id for id, each in plan.elections.items() if not each.needs_approval]:
        stop = f"To stop that: {at_hand.stop}" if at_hand.stop else ""
        if at_hand.asked:
            told = f"ASKED ALL THE SAME: the policy asks nobody about the election of {named(ids)}."
            begins = f"They begin {at_hand.begins}." if at_hand.begins else ""
            yield " ".join(filter(None, (told, f"A person is asked now: {at_hand.asked}.", begins, stop)))
            return
        told = f"UNASKED: leaders of {named(ids)} are elected WITHOUT anybody's yes, {at_hand.begins}."
        lossless = all(_is_lossless(plan.elections[id]) for id in ids)
        proven = "Let it go on: no record acknowledged with acks=all is lost." if lossless else ""
        yield " ".join(filter(None, (told, proven, stop)))


def opening(plan: Plan, choice: Choice, found: Sequence[BrokerCost]) -> Iterator[str]:
    """What a card begins with, and its first question, where there is no room for the answers."""
    yield from (*choice.dangers, *choice.stop, *_offline(plan, over=False), *_elected(plan, found))
    yield from (each.asked for each in choice.questions[:1])


def in_brief(plan: Plan, found: Sequence[BrokerCost]) -> Iterator[str]:
    """Which leaders are bad, whom it elects, what is proven, what may be lost, and what was attested.

    True whenever it is read.
    """
    yield from bad_leaders(plan, over=True)
    yield from _elected(plan, found)
    yield from told(plan.evidence)


def _elected(plan: Plan, found: Sequence[BrokerCost], *, over: bool = False) -> Iterator[str]:
    """Whom it elects, what Kafka calls that, what is proven, and what may be lost."""
    elections = elections_of(plan)
    yield from _elects(elections, over=over)
    yield from _left_alone(plan)
    if not over:
        yield from _held_back(plan)
    yield from longer_but_older(plan)
    if elections:
        yield " ".join((*_proven([decision for decision, _ in elections]), in_a_line(plan, found, proven_too=False)))


def _held_back(plan: Plan) -> Iterator[str]:
    """Whom the operator keeps away meanwhile, if the policy has it do so."""
    brokers = may_return(plan) if plan.policy.hold_back else ()
    if brokers:
        its = "its Pod is" if len(brokers) == 1 else "their Pods are"
        told = named_brokers(brokers)
        yield f"While leaders are elected, the operator keeps {told} away, if down: {its} deleted (holdBack: pods)."
        yield "If Strimzi runs these brokers, it makes meanwhile no missing Pod that comes later in the same node pool."


def at_the_prompt(plan: Plan, at_hand: AtHand = NOTHING_AT_HAND) -> tuple[str, ...]:
    """What is told once more to a person who is about to say yes: the card may have scrolled away."""
    return *told(plan.evidence), *_choice(plan, at_hand).sentences(), in_a_line(plan, costs(plan))


def _offline(plan: Plan, *, over: bool) -> Iterator[str]:
    if offline := [each for each in plan.evidence.partitions if each.leader is None]:
        have = "had" if over else "has" if len(offline) == 1 else "have"
        when = " when this plan was made" if over else ""
        first = ", the first" if len(offline) > 1 else ","
        since = f"{first} at least since {moment(at)}" if (at := began(offline)) else " (since when is not known here)"
        yield f"{partitions(len(offline))} {have} no leader{when}{since}: {named([each.id for each in offline])}."
    led = [decision.id for decision in plan.decisions if decision.verdict is Verdict.NOTHING]
    if led:
        yield f"This plan leaves alone what has a leader already: {named(led)}."


def _elects(elections: Elections, *, over: bool) -> Iterator[str]:
    """Whom, and what Kafka calls it: that says nothing of what is lost."""
    if not elections:
        return
    leaders = Counter(decision.leader for decision, _ in elections)
    told = list(_with_alike(leaders.most_common(_NAMED)))
    if len(leaders) > _NAMED:
        told.append(f"{len(leaders) - _NAMED} more on the others")
    unclean = sum(map(_is_unclean, elections))
    which = "that" if unclean == len(elections) else f"{unclean:,} of these elections"
    calls = f" Kafka calls {which} UNCLEAN." if unclean else ""
    asked = "" if over else _if_asked([decision for decision, _ in elections])
    yield f"This plan {'was to' if over else 'would'} elect {_and(told)}{asked}.{calls}"


def _with_alike(leaders: Sequence[tuple[BrokerId | None, int]]) -> Iterator[str]:
    """Leaders of as many partitions once."""
    alike: dict[int, list[BrokerId]] = {}
    for leader, count in leaders:
        if leader is not None:
            alike.setdefault(count, []).append(leader)
    for count, those in alike.items():
        yield f"{listed_brokers(those)} on {partitions(count)}{' each' if len(those) > 1 else ''}"


def _if_asked(elected: Sequence[Decision]) -> str:
    """Under which condition, so that nobody takes it for something that goes on."""
    unasked = [each.id for each in elected if not each.needs_approval]
    if not unasked:
        return ", if it is approved"
    if len(unasked) == len(elected):
        return "; the policy asks NOBODY about that"
    asked = len(elected) - len(unasked)
    return f": on {asked:,} if it is approved, {len(unasked):,} UNASKED"


def _is_lossless(decision: Decision) -> bool:
    return decision.loss is not None and decision.loss.loss_class is LossClass.LOSSLESS


def _is_unclean(election: tuple[Decision, PartitionEvidence]) -> bool:
    decision, partition = election
    return decision.leader not in partition.clean_members


def _proven(elected: Sequence[Decision]) -> Iterator[str]:
    """What is proven of acknowledged records, the worst class first."""
    by: dict[LossClass, list[Decision]] = {}
    for decision in elected:
        by.setdefault(decision.loss.loss_class if decision.loss else LossClass.UNKNOWN, []).append(decision)
    for kind in reversed(BEST_FIRST):
        if found := by.get(kind):
            where = "" if len(by) == 1 else f" on {named([each.id for each in found])}"
            yield f"{kind}{where}: {_meaning(kind, found)}."


def _meaning(kind: LossClass, elected: Sequence[Decision]) -> str:
    bounds = [each.loss.at_most for each in elected if each.loss and each.loss.at_most is not None]
    if kind is LossClass.LOSSLESS:
        return "it is proven that no record acknowledged with acks=all is lost"
    if kind is LossClass.BOUNDED and len(bounds) == len(elected):
        return f"it is proven that at most {records(sum(bounds))} acknowledged with acks=all may be lost"
    if kind is LossClass.BOUNDED:
        return "the loss of records acknowledged with acks=all is bounded, but not in number"
    return "whether records acknowledged with acks=all are lost is not known"


def _left_alone(plan: Plan) -> Iterator[str]:
    verdicts = Counter(decision.verdict for decision in plan.decisions)
    left = {verdict: verdicts[verdict] for verdict in (Verdict.REFUSE, Verdict.WAIT) if verdicts[verdict]}
    if left:
        told = [f"{verdict} on {partitions(count)}" for verdict, count in left.items()]
        others = " on the others" if plan.elections else ""
        yield f"This plan elects nobody{others}: its verdict is {_and(told)}."
    if gone := len(plan.evidence.missing):
        yield f"{partitions(gone)} could not be found."


def _reasons_below(plan: Plan) -> Iterator[str]:
    """Only where they do stand below."""
    left = [each for each in plan.decisions if each.verdict in (Verdict.REFUSE, Verdict.WAIT)]
    reasons = [*(each.reason for each in left), *(each.reason for each in plan.evidence.missing)]
    if reasons:
        codes = list(dict.fromkeys(reason.code for reason in reasons if reason))
        more = " and others" if len(codes) > _NAMED else ""
        yield f"Why not: {', '.join(codes[:_NAMED])}{more}; each is explained below."


def _after(elections: Elections, cluster: ClusterState) -> Iterator[Question]:
    if after := tuple(after_election(elections, cluster)):
        yield Question("After the election:", tuple(("", each) for each in after))


def _if_not(plan: Plan, *, passes: bool) -> Iterator[Question]:
    """`passes`: a person is asked for a while only, and then nobody may be."""
    elected = plan.elections.values()
    asked = sum(decision.needs_approval for decision in elected)
    if asked and (short := short_members(plan)):
        them = f"{named_brokers(short, 'or')} at any moment; the others then delete what it lacks"
        yield Question("If nobody acts:", (("", f"Kafka can elect {them}."),))
    elif why_stopped(plan):
        return  # it would read as a reason to approve
    elif passes:
        meanwhile = "nothing changes while a person is asked. Kafka can still elect a member of the ISR or ELR."
        yield Question("If nobody approves:", (("", meanwhile),))
    elif asked and asked == len(elected):
        they, stay = ("it", "stays") if len(elected) == 1 else ("they", "stay")
        nothing = f"{they} {stay} offline until Kafka can elect a broker that is back, even an EMPTY one."
        yield Question("If nobody approves:", (("", nothing),))
    elif asked:
        waits = f"{partitions(asked)} {'waits' if asked == 1 else 'wait'}; what is UNASKED is elected all the same."
        yield Question("If nobody approves:", (("", waits),))


def _and(told: Sequence[str]) -> str:
    *first, last = told
    return f"{', '.join(first)} and {last}" if first else last
