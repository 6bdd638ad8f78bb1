"""Whether something better than a plan's elections can be waited for: what to ask, and what follows from each answer.

Words only. What is promised of a broker's return is what `decision.returns` says of it, with its disk named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from kafka_recovery.decision import log_directories, pods
from kafka_recovery.decision import start_answers as answers
from kafka_recovery.decision.alike import named
from kafka_recovery.decision.attesting import attested_lost
from kafka_recovery.decision.bad_leaders import Against, against, elections_of
from kafka_recovery.decision.better_proofs import BY_PROOF, is_named_badly
from kafka_recovery.decision.cluster_index import controller_present
from kafka_recovery.decision.costs import is_empty
from kafka_recovery.decision.fenced_members import (
    asked_to_reconnect,
    given_time,
    reconnect_first,
    runs,
    short_of,
    stop_first,
)
from kafka_recovery.decision.holding import keep_off
from kafka_recovery.decision.known_bugs import Answer, known_bugs
from kafka_recovery.decision.kubectl import NOBODY_KNOWS, Kubectl
from kafka_recovery.decision.moments import incident_at
from kafka_recovery.decision.questions import APPROVE, Question, on_how_many
from kafka_recovery.decision.returns import (
    RAISED,
    away,
    elected_by_kafka,
    has_failed_disk,
    may_all_hold_more,
    may_lack,
    named_brokers,
)
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Plan, Verdict
from kafka_recovery.domain.policy import Approval

_EACH = "see what the plan says of each partition"
_IF_NO_COPY = "look for another copy, and read the next plan; approve this one only if there is none"

_CONTROLLERS_FIRST = (
    "REPAIR THE CONTROLLERS FIRST: no broker hears of one. Bring a majority of them back with their own disks; format "
    "none. Until then Kafka elects nobody, whoever is started: leave the brokers alone. What is shown of them may be "
    "old."
)

_NAMED = 3
"""So many brokers are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`dangers`: disks that may destroy records at any moment. `stop`: why nobody may approve yet. `unasked`: what is
    elected whatever is answered. `first`: what comes before any question. `never`: what must not be done, whatever is
    answered. `after`: what follows from a yes and from no answer at all.
    """

    stop: tuple[str, ...]
    first: tuple[str, ...]
    never: tuple[str, ...]
    questions: tuple[Question, ...]
    unasked: tuple[str, ...] = ()
    after: tuple[Question, ...] = ()
    dangers: tuple[str, ...] = ()

    def sentences(self) -> Iterator[str]:
        """All of it in running text: what must not be done comes before anything that may be."""
        yield from (*self.dangers, *self.stop, *self.unasked, *self.first, *self.never)
        for question in (*self.questions, *self.after):
            yield from (question.asked, *question.known)
            yield from (f"{answer}: {then}" if answer else then for answer, then in question.answers)


def asked_about_all(plan: Plan) -> Plan:
    """The same where a person is asked about each election, whatever its rule says."""
    elected = {id: replace(each, approval=Approval.MANUAL) for id, each in plan.elections.items()}
    return replace(plan, decisions=tuple(elected.get(each.id, each) for each in plan.decisions))


def elect_or_wait(plan: Plan, kubectl: Kubectl = NOBODY_KNOWS) -> Choice:
    """For whoever consents to the elections of a plan, or reads that it has none; empty: nothing can be said."""
    found = _elect_or_wait(plan, kubectl)
    if controller_present(plan.evidence.cluster) is False:  # no broker's return helps
        return replace(found, stop=(_CONTROLLERS_FIRST, *found.stop), questions=())
    return found


def _elect_or_wait(plan: Plan, kubectl: Kubectl) -> Choice:
    proven = _proven(plan)
    unasked = {id for id, each in plan.elections.items() if not each.needs_approval}
    leaderless = [each for each in plan.evidence.partitions if each.leader is None]
    waiting = [each for each in leaderless if each.id not in proven]
    waits = {decision.id for decision in plan.decisions if decision.verdict is Verdict.WAIT}
    led = [each for each in plan.evidence.partitions if each.leader is not None or each.id in proven & unasked]
    otherwise = _otherwise(plan)
    bugs = known_bugs(plan.evidence, Answer.ASK, Answer.WARN)
    stopped = stop_first(leaderless, plan.evidence.cluster, kubectl, asked=bool(otherwise))
    lost = attested_lost(plan.evidence.cluster)
    short = short_of(leaderless, plan.evidence.cluster)
    more = {id: brokers - lost for id, brokers in may_all_hold_more(plan).items()}
    at = incident_at(leaderless, plan.evidence.cluster)
    unreachable = tuple(_silent_at_once(waiting, lost, asked=bool(otherwise)))
    return Choice(
        (*stopped, *(runs(waiting, plan.evidence.cluster, short, asked=bool(otherwise)) if plan.elections else ())),
        (
            *given_time(plan),
            *_nothing_better(proven - unasked),
            *_only_copies(waiting),
            *unreachable,
            *log_directories.failed_elsewhere(leaderless, plan.evidence.cluster, lost | {_asked_first(waiting, lost)}),
            *log_directories.full_leaders(plan),
            *bugs,
        ),
        tuple(_never(leaderless, lost)),
        (
            *reconnect_first(
                [each for each in waiting if each.id not in waits], plan.evidence.cluster, otherwise, more, short
            ),
            *_start_first(waiting, otherwise, led, plan.evidence.cluster, at, kubectl, network=not unreachable),
        ),
        dangers=tuple(_empty_disks(leaderless, plan.evidence.cluster, at, kubectl)),
    )


def reconnected(plan: Plan) -> Mapping[TopicPartition, frozenset[BrokerId]]:
    """Members that are to be heard again: an answer tells when to copy from them, and that none has to before."""
    asked = {id for id, each in plan.elections.items() if each.needs_approval}
    leaderless = [each for each in plan.evidence.partitions if each.leader is None]
    waiting = [each for each in leaderless if each.id in asked - _proven(plan)]
    return asked_to_reconnect(waiting, plan.evidence.cluster, short_of(leaderless, plan.evidence.cluster))


def _proven(plan: Plan) -> set[TopicPartition]:
    return {id for id, each in plan.elections.items() if each.loss and each.loss.loss_class is LossClass.LOSSLESS}


def _otherwise(plan: Plan) -> str:
    """What is left where nothing can be waited for; empty: nobody is asked about anything."""
    found, cluster = against(plan), plan.evidence.cluster
    if found is Against.NAMED:
        badly = {each.leader for each, seen in elections_of(plan) if is_named_badly(each, seen, cluster)}
        others = named_brokers(sorted(leader for leader in badly if leader is not None), "or")
        return f"plan again without naming {others}, and read that plan"
    if not any(each.needs_approval for each in plan.elections.values()):
        return ""
    return {Against.EMPTY: _IF_NO_COPY, Against.BETTER_PROOF: BY_PROOF, None: APPROVE}[found]


def _nothing_better(proven: Collection[TopicPartition]) -> Iterator[str]:
    """Of elections that a person is asked about."""
    if proven:
        yield (
            f"Waiting saves no record of {named(sorted(proven))} that was acknowledged with acks=all: the election is "
            "proven Lossless. What only a broker that is away holds was sent with acks=1 or acks=0. To save that, copy "
            "its directories before it starts again; or, only if its machine did not crash, start it with its own, "
            "intact disk in place of this election."
        )


def _only_copies(waiting: Sequence[PartitionEvidence]) -> Iterator[str]:
    """Beside an empty one: what emptied that may have emptied whoever is started next."""
    found: dict[tuple[BrokerId, tuple[BrokerId, ...]], list[TopicPartition]] = {}
    for each in waiting:
        empty = tuple(sorted(replica.broker for replica in each.replicas if is_empty(replica.log)))
        if empty and len(holding := sorted(_holding(each))) == 1:
            found.setdefault((holding[0], empty), []).append(each.id)
    for (broker, empty), ids in found.items():
        is_ = "is" if len(empty) == 1 else "are"
        yield (
            f"Broker {broker} holds the only copy of {named(ids)} that answers with records, {named_brokers(empty)} "
            f"{is_} EMPTY there: copy its directories FROM broker {broker} to a place outside log.dirs before you "
            "start a broker."
        )


def _silent_at_once(waiting: Sequence[PartitionEvidence], lost: frozenset[BrokerId], *, asked: bool) -> Iterator[str]:
    """Several brokers seldom die at one time; whoever looks from the wrong side of a network sees just that."""
    silent = {id for each in waiting for id in away(each) if not has_failed_disk(each, id)} - lost
    if len(silent) > 1:
        told = named_brokers(sorted(silent))
        nothing = "wait, and approve nothing" if asked else "and wait"
        yield (
            f"{told[0].upper()}{told[1:]} are silent at once: perhaps only the network is broken. Look on the machine "
            f"or in the Pod of each: where Kafka runs, repair the network, {nothing}: clients may still write there."
        )


def _empty_disks(
    leaderless: Sequence[PartitionEvidence], cluster: ClusterState, at: datetime, kubectl: Kubectl
) -> Iterator[str]:
    """Of brokers that Kafka elects by itself: it elects an empty one as well, also in place of a disk that is lost."""
    returning = frozenset().union(*map(_returning, leaderless))
    yield from pods.dangers(
        (pod for pod in cluster.pods if pod.broker in returning),
        at,
        kubectl,
        lambda pod: keep_off(cluster, pod.broker, kubectl),
    )


def _start_first(
    waiting: Sequence[PartitionEvidence],
    otherwise: str,
    led: Sequence[PartitionEvidence],
    cluster: ClusterState,
    at: datetime,
    kubectl: Kubectl,
    *,
    network: bool,
) -> Iterator[Question]:
    """Nobody has to ask of a broker whose disk was attested lost. `network`: nothing was said of it yet."""
    lost = attested_lost(cluster)
    first = _asked_first(waiting, lost)
    if first is None:
        return
    its = [each for each in waiting if first in _returning(each)]
    others = [broker for broker, _ in _by_gain(waiting, lost | {first})]
    raised = f", unless {RAISED}" if any(may_lack(each, first) for each in its) else ""
    rest = f" Then ask the same of {named_brokers(others)}." if len(its) < len(waiting) and others else ""
    where = on_how_many(len(its), waiting)
    elected = f"Kafka can elect it{where}; nothing acknowledged with acks=all is lost{raised}.{rest}"
    twins = sorted(frozenset().union(*map(_returning, its)) - {first} - lost)
    its_own = answers.led_by_now(first, led)
    off = sorted(frozenset().union(*map(away, its)) - {first} - lost)
    crashed = partial(answers.crashed, first, twins, sorted(frozenset().union(*map(_holding, its))), off, bool(its_own))
    also = sorted({broker for each in waiting for broker in away(each)} - {first} - lost)
    no = f"{_next(others, waiting, otherwise, also)}."
    told = tuple(pods.told(cluster, first, at, kubectl))
    if any(has_failed_disk(each, first) for each in its):
        yield Question(
            f"Can the failed log directory of broker {first} be repaired with what is on it?",
            (
                *answers.unknown("do not restart it", otherwise),
                *answers.repaired(first, its_own, elected, crashed),
                (answers.LOST, no),
            ),
            (*log_directories.of_failed(cluster, log_directories.failed_copies(its)[first]), *told),
        )
        return
    seen = pods.pods_of(cluster, first)
    pod = any(pod.name for pod in seen)  # it starts by itself
    unreached = answers.unreached(its_own, otherwise) if network and not pods.is_down(seen) else ()
    whole = pods.is_likely_whole(seen, at)
    keep = "change nothing" if whole else "keep its Pod off" if pod else ""
    start = "have it run as said above" if whole else "start it"
    yield Question(
        f"Can broker {first} be started with its own, intact disk?",
        (
            *answers.unknown(keep or "start nothing", otherwise),
            *answers.started(
                answers.bound(seen, at, kubectl), f"{its_own}{start}, wait. {elected}", partial(crashed, pod=pod)
            ),
            *unreached,
            (answers.LOST, no),
        ),
        told,
    )


def _holding(partition: PartitionEvidence) -> frozenset[BrokerId]:
    return frozenset(each.broker for each in partition.replicas if each.log and not is_empty(each.log))


def _next(
    others: Sequence[BrokerId], waiting: Sequence[PartitionEvidence], otherwise: str, also: Sequence[BrokerId]
) -> str:
    """What to do where the first broker cannot come back: the `others` that may, and who is away `also`."""
    if not others and otherwise == _IF_NO_COPY and also:
        both = "both are" if len(also) == 1 else "all of them are"
        return f"{_with_own(also)}; approve only if {both} lost"
    if not others and not otherwise and also:
        return _with_own(also)
    if not others:
        return otherwise or _EACH
    can = {broker: sum(broker in _returning(each) for each in waiting) for broker in others[: _NAMED - 1]}
    listed = " and ".join(
        f"broker {broker} (Kafka can elect it{on_how_many(count, waiting)})" for broker, count in can.items()
    )
    rest = len(others) - len(can)
    more_of_them = f" and {rest} more broker{'' if rest == 1 else 's'}" if rest > 0 else ""
    yet, disks = "approve nothing yet; " if otherwise else "", "both" if len(others) == 1 else "all these"
    last = f". Only if {disks} disks are lost: {otherwise}" if otherwise else ""
    return f"{yet}ask the same of {listed}{more_of_them}, then read the next plan{last}"


def _with_own(brokers: Sequence[BrokerId]) -> str:
    """Those that are no members: the next plan can measure them."""
    its, it = ("its own disk", "it") if len(brokers) == 1 else ("their own disks", "them")
    return f"start {named_brokers(brokers)} with {its} (Kafka does not elect {it} by itself), and read the next plan"


def _never(leaderless: Sequence[PartitionEvidence], lost: frozenset[BrokerId]) -> Iterator[str]:
    if any(map(_returning, leaderless)):
        yield (
            "NEVER start a broker of these partitions, or let anything start it, on an empty or replaced disk while "
            "they have no leader: Kafka can elect it, and the others then delete ALL that they hold."
        )
        if any(frozenset(away(each)) - lost for each in leaderless):
            yield (
                "Once another broker leads, and before you start one that was away, copy its directories: on joining, "
                "it deletes what the leader lacks."
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
