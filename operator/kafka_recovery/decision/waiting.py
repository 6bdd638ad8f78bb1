"""Whether something better than a plan's elections can be waited for: what to ask, and what follows from each answer.

Words only. What is promised of a broker's return is what `decision.returns` says of it, with its disk named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kafka_recovery.decision import log_directories, pods
from kafka_recovery.decision.alike import named
from kafka_recovery.decision.attesting import attested_lost
from kafka_recovery.decision.bad_leaders import Against, against, elections_of
from kafka_recovery.decision.better_proofs import BY_PROOF, is_named_badly
from kafka_recovery.decision.costs import partitions, records
from kafka_recovery.decision.known_bugs import Answer, known_bugs
from kafka_recovery.decision.loss import visible_lacks
from kafka_recovery.decision.returns import (
    RAISED,
    away,
    before_consent,
    elected_by_kafka,
    has_failed_disk,
    listed_brokers,
    may_all_hold_more,
    may_lack,
    named_brokers,
)
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval

_APPROVE = "approve this plan"
_EACH = "see what the plan says of each partition"
_NEXT = "wait for the next plan, which says whether another broker can lead"
_IF_NO_COPY = "look for another copy, and plan again; approve this plan only if there is none"
_COPIED = "first copy the directories that may hold more than the new leader, then "

_NAMED = 3
"""So many brokers are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a person can find out or do. `answers`: each one, and what follows; an empty one goes without saying.

    `known`: what was seen that may help to answer it, in sentences.
    """

    asked: str
    answers: tuple[tuple[str, str], ...]
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """`stop`: why nobody may approve yet. `unasked`: what is elected whatever is answered. `first`: what comes before
    any question. `never`: what must not be done, whatever is answered. `after`: what follows from a yes and from no
    answer at all.
    """

    stop: tuple[str, ...]
    first: tuple[str, ...]
    never: tuple[str, ...]
    questions: tuple[Question, ...]
    unasked: tuple[str, ...] = ()
    after: tuple[Question, ...] = ()

    def sentences(self) -> Iterator[str]:
        """All of it in running text: what must not be done comes before anything that may be."""
        yield from (*self.stop, *self.unasked, *self.first, *self.never)
        for question in (*self.questions, *self.after):
            yield from (question.asked, *question.known)
            yield from (f"{answer}: {then}" if answer else then for answer, then in question.answers)


def asked_about_all(plan: Plan) -> Plan:
    """The same where a person is asked about each election, whatever its rule says."""
    elected = {id: replace(each, approval=Approval.MANUAL) for id, each in plan.elections.items()}
    return replace(plan, decisions=tuple(elected.get(each.id, each) for each in plan.decisions))


def elect_or_wait(plan: Plan) -> Choice:
    """For whoever consents to the elections of a plan, or reads that it has none; empty: nothing can be said."""
    proven = {id for id, each in plan.elections.items() if each.loss and each.loss.loss_class is LossClass.LOSSLESS}
    leaderless = [each for each in plan.evidence.partitions if each.leader is None]
    waiting = [each for each in leaderless if each.id not in proven]
    led = [each for each in plan.evidence.partitions if each.leader is not None]
    otherwise = _otherwise(plan)
    copied = _COPIED if otherwise == _APPROVE and any(before_consent(plan)) else ""
    bugs = known_bugs(plan.evidence, Answer.ASK, Answer.WARN)
    dangers = _stop_first(leaderless, plan.evidence.cluster, asked=bool(otherwise))
    lost = attested_lost(plan.evidence.cluster)
    short = _short_members(leaderless, plan.evidence.cluster)
    more = {id: brokers - lost for id, brokers in may_all_hold_more(plan).items()}
    unreachable = tuple(_silent_at_once(waiting, lost, asked=bool(otherwise)))
    return Choice(
        (*dangers, *(_runs(waiting, plan.evidence.cluster, short, asked=bool(otherwise)) if plan.elections else ())),
        (
            *_nothing_better(len(proven), len(leaderless)),
            *unreachable,
            *log_directories.failed_elsewhere(leaderless, plan.evidence.cluster, lost | {_asked_first(waiting, lost)}),
            *log_directories.full_leaders(plan),
            *_empty_disks(leaderless, plan.evidence.cluster),
            *bugs,
        ),
        tuple(_never(leaderless, lost)),
        (
            *_reconnect_first(waiting, plan.evidence.cluster, otherwise, more, short),
            *_start_first(waiting, copied + otherwise, led, plan.evidence.cluster, network=not unreachable),
        ),
    )


def _otherwise(plan: Plan) -> str:
    """What is left where nothing can be waited for; empty: nobody is asked about anything."""
    found, cluster = against(plan), plan.evidence.cluster
    if found is Against.NAMED:
        badly = {each.leader for each, seen in elections_of(plan) if is_named_badly(each, seen, cluster)}
        others = named_brokers(sorted(leader for leader in badly if leader is not None), "or")
        return f"plan again without naming {others}, and read that plan"
    if not any(each.needs_approval for each in plan.elections.values()):
        return ""
    return {Against.EMPTY: _IF_NO_COPY, Against.BETTER_PROOF: BY_PROOF, None: _APPROVE}[found]


def _nothing_better(proven: int, all: int) -> Iterator[str]:
    if proven:
        where = "" if proven == all else f" on {proven:,} of {all:,} partitions"
        yield (
            f"Waiting saves nothing that was acknowledged with acks=all{where}: the election is proven Lossless. It "
            "can save only what was sent with acks=1 or acks=0, and only a broker that is away holds."
        )


def _silent_at_once(waiting: Sequence[PartitionEvidence], lost: frozenset[BrokerId], *, asked: bool) -> Iterator[str]:
    """Several brokers seldom die at one time; whoever looks from the wrong side of a network sees just that."""
    silent = {id for each in waiting for id in away(each) if not has_failed_disk(each, id)} - lost
    if len(silent) > 1:
        told = named_brokers(sorted(silent))
        nothing = "wait, and approve nothing" if asked else "and wait"
        yield (
            f"{told[0].upper()}{told[1:]} are silent at once: perhaps only the network is broken. Look on the machine "
            f"or in the pod of each: where Kafka runs, repair the network, {nothing}: clients may still write there."
        )


def _empty_disks(leaderless: Sequence[PartitionEvidence], cluster: ClusterState) -> Iterator[str]:
    """Of brokers that Kafka elects by itself: it elects an empty one as well."""
    returning = frozenset().union(*map(_returning, leaderless)) - attested_lost(cluster)
    yield from pods.dangers((pod for pod in cluster.pods if pod.broker in returning), cluster.observed_at)


def _stop_first(leaderless: Sequence[PartitionEvidence], cluster: ClusterState, *, asked: bool) -> Iterator[str]:
    """A member that answers with less than others hold: its disk was emptied, replaced, or lost its last writes."""
    most: dict[BrokerId, list[int]] = {}
    for each in leaderless:
        for member in _fenced_members(each, cluster):
            if lacks := visible_lacks(each, member):
                most.setdefault(member.broker, []).append(max(lack.records for lack in lacks))
    for broker, lacking in sorted(most.items(), key=lambda found: (-sum(found[1]), found[0]))[:_NAMED]:
        yet = " Do not approve yet." if asked else ""
        yield (
            f"DANGER: STOP BROKER {broker} NOW, so that nothing starts it again (first stop what makes a deleted Pod "
            f"anew).{yet} Kafka can elect it by itself on {partitions(len(lacking))} at any moment, and it lacks up to "
            f"{records(sum(lacking))} of another replica there: once it leads, the other replicas delete what it "
            "lacks. Then see whether its own volume is only not mounted, and start it with that. Approve the election "
            "of another broker only if that volume is lost: nobody has read what is on that volume."
        )


def _reconnect_first(
    waiting: Sequence[PartitionEvidence],
    cluster: ClusterState,
    otherwise: str,
    more: Mapping[TopicPartition, frozenset[BrokerId]],
    short: frozenset[BrokerId],
) -> Iterator[Question]:
    """A member that answers us and is fenced lacks nothing but heartbeats that reach the controllers.

    `more`: whose copies may hold more than the planned leader's, by partition.
    """
    for broker, theirs in _whole_members(waiting, cluster, short):
        count = len(theirs)
        yes = (
            f"repair that, WITHOUT a restart, and wait. It runs, and answers: Kafka can elect it by "
            f"itself{_of(count, waiting)}, and no replica that was read holds a record that it lacks."
        )
        once_stopped = "read the plan that follows" if otherwise in ("", _APPROVE) else otherwise
        others = sorted({id for each in theirs for id in more.get(each.id, ())} - {broker})
        too = (
            f" and those of {named_brokers(others)}, which may hold more than the new leader as well" if others else ""
        )
        copied = (
            f"stop broker {broker}, KEEP its volume, copy its directories of these partitions{too}, then "
            f"{once_stopped}. That is worse: what {'each of them' if others else 'it'} alone holds is then in that "
            "copy only."
        )
        alone = any(replica.leads for each in theirs for replica in each.replicas if replica.broker == broker)
        no = copied if otherwise or alone else f"{_NEXT}."
        asked = f"Can the heartbeats of broker {broker} reach the controllers again?"
        unknown = f"{'approve nothing: ' if otherwise else ''}look from its machine or pod."
        yield Question(asked, (("Nobody knows yet", unknown), ("Yes", yes), ("No", no)))


def short_members(plan: Plan) -> Sequence[BrokerId]:
    """Brokers that answer, that Kafka can elect by itself, and that lack records which others hold."""
    leaderless = [each for each in plan.evidence.partitions if each.leader is None]
    return sorted(_short_members(leaderless, plan.evidence.cluster))


def _short_members(leaderless: Sequence[PartitionEvidence], cluster: ClusterState) -> frozenset[BrokerId]:
    """Fenced members that lack something anywhere: whoever helps one of them back deletes it on the others."""
    members = ((each, member) for each in leaderless for member in _fenced_members(each, cluster))
    return frozenset(member.broker for each, member in members if visible_lacks(each, member))


def _whole_members(
    waiting: Sequence[PartitionEvidence], cluster: ClusterState, short: frozenset[BrokerId]
) -> Sequence[tuple[BrokerId, Sequence[PartitionEvidence]]]:
    """Fenced members that lack nothing of what was read, with their partitions; those of most partitions first."""
    found: dict[BrokerId, list[PartitionEvidence]] = {}
    for each in waiting:
        for member in _fenced_members(each, cluster):
            if member.broker not in short:
                found.setdefault(member.broker, []).append(each)
    return sorted(found.items(), key=lambda whole: (-len(whole[1]), whole[0]))[:_NAMED]


def _runs(
    waiting: Sequence[PartitionEvidence], cluster: ClusterState, short: frozenset[BrokerId], *, asked: bool
) -> Iterator[str]:
    """Whoever elects another one while such a member runs gives up what it holds."""
    for broker, theirs in _whole_members(waiting, cluster, short):
        yield (
            f"{'DO NOT APPROVE YET.' if asked else 'STOP THIS PLAN.'} Broker {broker} RUNS, and answers: Kafka can "
            f"elect it by itself{_of(len(theirs), waiting)} as soon as its heartbeats reach the controllers."
        )


def _fenced_members(partition: PartitionEvidence, cluster: ClusterState) -> Iterator[Replica]:
    """Those that were measured, and that Kafka elects by itself once it hears of them."""
    members = map(partition.replica, elected_by_kafka(partition))
    for member in members:
        seen = cluster.broker(member.broker) if member and member.log else None
        if member and seen and seen.fenced:
            yield member


def _start_first(
    waiting: Sequence[PartitionEvidence],
    otherwise: str,
    led: Sequence[PartitionEvidence],
    cluster: ClusterState,
    *,
    network: bool,
) -> Iterator[Question]:
    """Nobody has to ask of a broker whose disk was attested lost. `network`: nothing was said of it yet."""
    lost = attested_lost(cluster)
    first = _asked_first(waiting, lost)
    if first is None:
        return
    gain = sum(first in _returning(each) for each in waiting)
    its = [each for each in waiting if first in _returning(each)]
    raised = f", unless {RAISED}" if any(may_lack(each, first) for each in its) else ""
    saved = _saved_first(first, led)
    rest = "" if gain == len(waiting) else " Then plan again for the others."
    elected = f"Kafka can elect it{_of(gain, waiting)}; nothing acknowledged with acks=all is lost{raised}.{rest}"
    twins = sorted(frozenset().union(*map(_returning, its)) - {first} - lost)
    crashed = _crashed(saved, twins)
    also = sorted({broker for each in waiting for broker in away(each)} - {first} - lost)
    no = f"{_next([broker for broker, _ in _by_gain(waiting, lost | {first})], waiting, otherwise, also)}."
    nothing = "start nothing, approve nothing" if otherwise else "start nothing"
    unknown = ("Nobody knows yet", f"{nothing}: look at that disk.")
    if any(has_failed_disk(each, first) for each in its):
        yield Question(
            f"Can the failed log directory of broker {first} be repaired with what is on it?",
            (
                unknown,
                (
                    "Yes",
                    f"{saved}repair it (mount, permissions, room; delete no file of Kafka's), restart broker "
                    f"{first}, wait. {elected}",
                ),
                ("Yes, but files were lost or repaired on it, or may have been", crashed),
                ("No, it is lost for good", no),
            ),
            (
                *log_directories.of_failed(cluster, log_directories.failed_copies(its)[first]),
                *pods.told(cluster, first),
            ),
        )
        return
    new = any(pods.dangers(pods.pods_of(cluster, first), cluster.observed_at))
    yes = "Yes, its own old volume is found, and whole" if new else "Yes, its machine stayed up"
    yield Question(
        f"Can broker {first} be started with its own, intact disk?",
        (
            unknown,
            (yes, f"{saved}start it, wait. {elected}"),
            (f"Yes, but {_DOUBTS}", crashed),
            *(() if pods.is_down(pods.pods_of(cluster, first)) else _elsewhere_or_unreached(otherwise, saved, network)),
            ("No, its disk is lost for good", no),
        ),
        tuple(pods.told(cluster, first)),
    )


_ELSEWHERE = "copy first as above, then start it with that disk on another machine."
_DOUBTS = "its machine crashed or may have, or its volume was detached by force or restored"


def _elsewhere_or_unreached(otherwise: str, saved: str, network: bool) -> Iterator[tuple[str, str]]:
    """A broker that is reached again joins those that lead by now, as one that is started does."""
    yield "Its machine is dead, its disk whole", _ELSEWHERE
    if network:
        nothing = " Approve nothing: clients" if otherwise else " Clients"
        there = f"on its machine, {saved}" if saved else ""
        yield "It runs, but can't be reached", f"{there}repair its network, and wait.{nothing} may still write to it."


def _saved_first(broker: BrokerId, led: Sequence[PartitionEvidence]) -> str:
    """What is to be copied before its start: of what another one leads by now, it deletes what that leader lacks."""
    there = sorted(each.id for each in led if broker in each.assignment and broker != each.leader)
    if not there:
        return ""
    return f"first copy its directories of {named(there)}, which another broker leads already; then "


def _of(count: int, waiting: Sequence[PartitionEvidence]) -> str:
    return "" if count == len(waiting) else f" on {count:,} of {len(waiting):,} partitions"


def _crashed(saved: str, twins: Sequence[BrokerId]) -> str:
    """`twins`: whom Kafka can elect as well, of whom one may have lost nothing."""
    asked = f"ask the same of {named_brokers(twins, 'or')} before you start either; " if twins else ""
    return (
        f"{asked}{saved or 'first '}copy the partitions' directories on the other brokers, then start it. Once it "
        "leads, the others delete what it lost."
    )


def _next(
    others: Sequence[BrokerId], waiting: Sequence[PartitionEvidence], otherwise: str, also: Sequence[BrokerId]
) -> str:
    """What to do where the first broker cannot come back: the `others` that may, and who is away `also`."""
    if not others and otherwise == _IF_NO_COPY and also:
        both = "both are" if len(also) == 1 else "all of them are"
        return f"ask the same of {named_brokers(also)} and plan again; approve only if {both} lost"
    if not others and not otherwise and also:
        return f"see who else can be started with its own disk ({listed_brokers(also)}), and plan again"
    if not others:
        return otherwise or _EACH
    can = {broker: sum(broker in _returning(each) for each in waiting) for broker in others[: _NAMED - 1]}
    listed = " and ".join(f"broker {broker} (Kafka can elect it{_of(count, waiting)})" for broker, count in can.items())
    rest = len(others) - len(can)
    more_of_them = f" and {rest} more broker{'' if rest == 1 else 's'}" if rest > 0 else ""
    yet, disks = "approve nothing yet; " if otherwise else "", "both" if len(others) == 1 else "all these"
    last = f". Only if {disks} disks are lost: {otherwise}" if otherwise else ""
    return f"{yet}ask the same of {listed}{more_of_them}, then plan again{last}"


def _never(leaderless: Sequence[PartitionEvidence], lost: frozenset[BrokerId]) -> Iterator[str]:
    if any(map(_returning, leaderless)):
        yield (
            "NEVER start a broker of these partitions on an empty or replaced disk while they have no leader: Kafka "
            "can elect it, and the others then delete ALL that they hold."
        )
        if any(frozenset(away(each)) - lost for each in leaderless):
            yield (
                "Once another broker leads, copy the directories of one that was away, if any are left, before you "
                "start it: on joining, it deletes what the leader lacks."
            )


def _returning(partition: PartitionEvidence) -> frozenset[BrokerId]:
    """The brokers that are away, and that Kafka elects by itself once they are back."""
    return frozenset(elected_by_kafka(partition)).intersection(away(partition))


def _asked_first(waiting: Sequence[PartitionEvidence], lost: frozenset[BrokerId]) -> BrokerId | None:
    """Whose return brings back most; None: nobody's does."""
    return next((broker for broker, _ in _by_gain(waiting, lost)), None)


def _by_gain(waiting: Sequence[PartitionEvidence], lost: frozenset[BrokerId]) -> Iterator[tuple[BrokerId, int]]:
    """Who brings back most partitions, then who brings back most of the rest, until none is left that can come back.

    Among equals who surely lacks nothing on most of them.
    """
    left = Counter(brokers for each in waiting if (brokers := _returning(each) - lost))
    lacking = Counter(broker for each in waiting for broker in _returning(each) if may_lack(each, broker))
    while left:
        gains: Counter[BrokerId] = Counter()
        for brokers, count in left.items():
            gains.update(dict.fromkeys(brokers, count))
        best = min(gains, key=lambda broker: (-gains[broker], lacking[broker], broker))
        yield best, gains[best]
        left = Counter({brokers: count for brokers, count in left.items() if best not in brokers})
