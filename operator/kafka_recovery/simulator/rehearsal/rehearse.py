"""Rehearsing a policy: one history three times, with the engine under it, with Kafka's own election, with nobody.

The cluster, its traffic and what goes wrong are the same each time; what differs is who acts. Faults that lie in wait
for the engine's own requests, or strike its machine, are left out of drawn histories: they would strike one method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.election import ElectionRequest
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy, Rule
from kafka_recovery.simulator.histories.chronicle import Chronicle, Ears
from kafka_recovery.simulator.histories.history import LATE_REQUESTS, History, happen
from kafka_recovery.simulator.histories.scenario import (
    OF_ENGINES,
    OF_WIRES,
    Command,
    EngineRun,
    Fault,
    Kind,
    Rules,
    Scenario,
)
from kafka_recovery.simulator.histories.schedules import draw
from kafka_recovery.simulator.histories.stage import send_traffic, staged
from kafka_recovery.simulator.histories.troubles import Machine, Troubles
from kafka_recovery.simulator.host.disks import Disk
from kafka_recovery.simulator.host.loop import VirtualClock, VirtualLoop
from kafka_recovery.simulator.model.requests import ElectionType
from kafka_recovery.simulator.rehearsal.fates import Fate, fates

AGAIN = 20.0
"""Seconds after which whoever acts looks again for partitions without a leader."""

LONGEST_RUN = 300.0
"""Seconds after which a run begins no more waves. All is well again long before."""

PERSON = "person"
"""Who holds Kafka's own election."""

_AIMED_AT_THE_ENGINE = OF_ENGINES - {Kind.JUMP} | OF_WIRES
_STEMS = ("orders", "payments", "others", "rest")


class Method(StrEnum):
    """Who acts."""

    POLICY = "policy"
    """The engine, under the policy that is rehearsed."""
    KAFKA = "kafka"
    """A person who holds Kafka's own unclean election: the first live replica in assignment order leads."""
    WAIT = "wait"
    """Nobody."""


@dataclass(frozen=True, slots=True)
class Given(Rules):
    """A whole policy in the place of a scenario's flat one, whose fields mean nothing then."""

    given: Policy = field(default_factory=Policy)

    @property
    def policy(self) -> Policy:
        """As the engine takes it."""
        return self.given


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """One history: what became of each partition under each method, and which promises the engine broke."""

    name: str
    fates: dict[Method, tuple[Fate, ...]]
    findings: tuple[str, ...]


def drawn(seed: int, policy: Policy) -> Scenario:
    """The random history of a seed as a rehearsal plays it: topics that the policy's rules select, one engine.

    Whoever acts is called when the seed says, acts again every `AGAIN` seconds, and the person asked says yes. The
    engine has the driver for released Kafka, and reads no metadata log to prove things by.
    """
    scenario = draw(seed)
    called, thinking = scenario.engines[0].at, scenario.engines[0].thinking
    faults = [
        _the_same_for_all(fault, scenario)
        for fault in scenario.faults
        if fault.upon is None and fault.kind not in _AIMED_AT_THE_ENGINE
    ]
    moments = range(int((scenario.quiet_at - called) // AGAIN) + 1)
    runs = [EngineRun(round(called + turn * AGAIN, 2), thinking=thinking, whole_cluster=True) for turn in moments]
    played = replace(
        scenario,
        faults=tuple(faults),
        engines=tuple(runs),
        within=LONGEST_RUN,
        driver=Driver.ASSIGNMENT_ORDER,
        knows_history=False,
        witnessed=None,
    )
    return given(_renamed(played, tuple(_names(policy, seed, len(scenario.topics)))), policy)


def _the_same_for_all(fault: Fault, scenario: Scenario) -> Fault:
    """Who leads then depends on who acts, so what would strike the leader strikes the first replica."""
    if fault.leader_of is None:
        return fault
    wanted = TopicPartition.parse(fault.leader_of)
    topic = next(topic for topic in scenario.topics if topic.name == wanted.topic)
    return replace(fault, leader_of=None, broker=int(topic.assignments[wanted.partition][0]))


def given(scenario: Scenario, policy: Policy) -> Scenario:
    """The same scenario under this policy."""
    return replace(scenario, rules=Given(given=policy))


def never_rehearsed(policy: Policy) -> tuple[str, ...]:
    """Rules for which no topic can be named: rules before them take every one."""
    return tuple(rule.name for rule in policy.rules if not _topics_of(policy, rule))


def rehearse(name: str, scenario: Scenario) -> Rehearsed:
    """Let one history happen under every method. `scenario`: as `drawn` or `given` returns it."""
    history = with_engine(scenario)
    stories = {
        Method.POLICY: history.story,
        Method.KAFKA: without_engine(scenario, elects=True),
        Method.WAIT: without_engine(scenario, elects=False),
    }
    policy = scenario.rules.policy
    told = {method: tuple(fates(story, scenario.quiet_at, policy)) for method, story in stories.items()}
    return Rehearsed(name, told, tuple(map(str, history.findings)))


def with_engine(scenario: Scenario) -> History:
    """The history with the engine in it, and all of its timeline."""
    return happen(scenario, timeline=True)


def without_engine(scenario: Scenario, *, elects: bool) -> Chronicle:
    """The same without the engine. `elects`: a person holds Kafka's own unclean election whenever one would run."""
    kafka = staged(scenario)
    story = Chronicle(kafka)
    story.listen()
    loop = VirtualLoop(kafka.scheduler)
    loop.close()  # no coroutine runs here; its time is all that clocks need
    clock = VirtualClock(loop)
    troubles = Troubles(story, scenario, lambda number: Machine(f"machine-{number}", clock, Disk("none")), [PERSON])
    send_traffic(kafka, scenario)
    troubles.schedule()
    for run in scenario.engines:
        if elects and run.command in (Command.RECOVER, Command.EXECUTE):
            kafka.scheduler.at(run.at, partial(_elect_as_kafka_would, story))
    kafka.run_until(scenario.quiet_at)
    troubles.everything_is_well_again()
    kafka.run_for(LATE_REQUESTS)
    return story


def _elect_as_kafka_would(story: Chronicle) -> None:
    """`kafka-leader-election --election-type unclean` for every partition without a leader."""
    kafka, state = story.kafka, story.kafka.controllers.state
    requests = []
    for id in tuple(state.leaderless):
        partition = state.partitions[id]
        first = next((broker for broker in partition.replicas if state.acceptable(broker, id)), None)
        if first is not None:
            order = partition.replicas
            requests.append(ElectionRequest(id, partition.topic_id, partition.leader_epoch, first, order, order))
    Ears(story, PERSON, "desk").asked("elect", requests)
    for request in requests:
        kafka.elect(request.id, ElectionType.UNCLEAN, by=PERSON)


def _topics_of(policy: Policy, rule: Rule) -> tuple[str, ...]:
    """Names of topics that this rule is the first to select."""
    selected = rule.topics
    candidates = (*selected.names, *(prefix + stem for prefix in selected.prefixes for stem in _STEMS))
    return tuple(name for name in candidates or _STEMS if policy.rule_for(name) is rule)


def _names(policy: Policy, seed: int, topics: int) -> Iterator[str]:
    """A name for each topic, from one rule after the other; which rule comes first goes by the seed."""
    by_rule = [names for rule in policy.rules if (names := _topics_of(policy, rule))]
    taken: list[str] = []
    for place in range(topics):
        turn = (seed + place) % len(by_rule)
        free = [name for names in (*by_rule[turn:], *by_rule[:turn]) for name in names if name not in taken]
        taken.append(free[0] if free else next(stem for stem in _STEMS if stem not in taken))
    yield from taken


def _renamed(scenario: Scenario, names: Sequence[str]) -> Scenario:
    """The same with other topic names, wherever they stand."""
    new = {
        f"{topic.name}-{index}": f"{name}-{index}"
        for topic, name in zip(scenario.topics, names, strict=True)
        for index in range(len(topic.assignments))
    }

    def put(old: str | None) -> str | None:
        return None if old is None else new[old]

    faults = [replace(f, partition=put(f.partition), leader_of=put(f.leader_of)) for f in scenario.faults]
    topics = [replace(topic, name=name) for topic, name in zip(scenario.topics, names, strict=True)]
    traffic = [replace(one, partition=new[one.partition]) for one in scenario.traffic]
    return replace(scenario, topics=tuple(topics), faults=tuple(faults), traffic=tuple(traffic))
